//! The log that the benchmarks read.

use std::fmt::Write as _;

/// An out-of-memory error, as PyTorch 2.2 and later print it.
const OOM: &str = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.64 GiB of which \
    1.18 GiB is free. Of the allocated memory 19.90 GiB is allocated by PyTorch, and 1.42 GiB is reserved by PyTorch but unallocated.";

/// A log of so many bytes; the same every time.
pub fn mixed_log(bytes: usize) -> String {
    let mut log = String::with_capacity(bytes + 4096);
    let mut seed = 7_u64;
    let mut step = 0;
    while log.len() < bytes {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let noise = (seed >> 33) as usize;
        let (rank, loss) = (noise % 8, 1.0 + (noise % 9973) as f64 / 9973.0);
        step += 1;
        let _ = match noise % 23 {
            0..=7 => writeln!(log, "{{'loss': {loss:.4}, 'grad_norm': 0.91, 'learning_rate': 1.9e-05, 'epoch': {:.2}}}", step as f64 / 9e4),
            8..=11 => writeln!(
                log,
                " [2026-11-30 01:{:02}:{:02}] iteration {step:8}/ 500000 | consumed samples: {:12} | elapsed time per iteration (ms): 512.4 | \
                 learning rate: 1.500E-04 | global batch size:   512 | lm loss: {loss:.6}E+00 | loss scale: 1.0 | grad norm: 0.412 | \
                 number of skipped iterations:   0 | number of nan iterations:   0 |",
                step / 60 % 60,
                step % 60,
                step * 512
            ),
            12..=14 => writeln!(
                log,
                "INFO 11-30 01:{:02}:12 [loggers.py:127] Engine 000: Avg prompt throughput: {loss:.1} tokens/s, GPU KV cache usage: 41.2%",
                step % 60
            ),
            15 | 16 => {
                for percent in 0..6 {
                    let _ = write!(log, "\r{:3}%|{:<10}| {percent}/1000 [00:12<01:44,  8.31it/s]", percent * 16, "█".repeat(percent));
                }
                writeln!(log)
            }
            17..=19 => writeln!(
                log,
                "node01:{}:{} [{rank}] NCCL INFO Channel {:02}/24 : {rank}[{rank}] -> {}[{}] via P2P/CUMEM/read",
                4000 + rank,
                5000 + rank,
                noise % 24,
                (rank + 1) % 8,
                (rank + 1) % 8
            ),
            20 | 21 => writeln!(
                log,
                "[rank{rank}]: 2026-11-30 01:{:02}:07,{:03} - trainer - WARNING - data loader is slow, waited {loss:.2} s",
                step % 60,
                noise % 1000
            ),
            _ if noise % 40 == 1 => writeln!(
                log,
                "[rank{rank}]: Traceback (most recent call last):\n[rank{rank}]:   File \"/home/user/train.py\", line 211, in <module>\n\
                 [rank{rank}]:     main()\n[rank{rank}]: {OOM}"
            ),
            _ => writeln!(log, "\u{1b}[32mepoch 3\u{1b}[0m  é验证  val_loss={loss:.4}  acc=0.{:04}", noise % 10_000),
        };
    }
    log
}
