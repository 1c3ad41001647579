//! Memory over time in step lines of many trainers: healthy runs are silent, leaks are named with slope and end.
//!
//! Each log is written in the exact form of its trainer, with numbers from a seeded generator.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test may fail that way

use trainwreck::log::rules::Rules;
use trainwreck::log::vocabulary::{Cause, Kind, Role, Severity};
use trainwreck::log::{Finding, analyze};

/// A generator of numbers in 0..1, the same on every machine.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as f64 / (1u64 << 31) as f64
    }
}

/// A step line with this much memory, in GiB.
type Line = fn(step: usize, gib: f64) -> String;

/// Trainers that print memory with their steps, every tenth step.
const TRAINERS: &[(&str, Line)] = &[
    ("plain", |i, gib| format!("step {} loss 2.{:03} mem {gib:.2}GB", 10 * i, 999 - i % 999)),
    ("torchtitan", |i, gib| {
        format!(
            "[rank0]:[titan] 2026-11-29 10:{:02}:{:02},123 - root - INFO - step: {:2}  loss:  4.1234  grad_norm:  1.0000  memory: {gib:5.2}GiB({:.2}%)  tps: 7,012  tflops: 401.20  mfu: 40.56%",
            i / 60 % 60,
            i % 60,
            10 * i,
            gib / 0.791
        )
    }),
    ("detectron2", |i, gib| {
        format!(
            "[11/29 10:{:02}:{:02} d2.utils.events]:  eta: 1:12:34  iter: {}  total_loss: 1.234  loss_cls: 0.4  time: 0.3012  last_time: 0.2991  data_time: 0.0051  last_data_time: 0.0042   lr: 0.02  max_mem: {:.0}M",
            i / 60 % 60,
            i % 60,
            10 * i + 9,
            gib * 1024.0
        )
    }),
    ("mmengine", |i, gib| {
        format!(
            "2026/11/29 10:{:02}:{:02} - mmengine - INFO - Iter(train) [{:6}/160000]  lr: 1.0000e-03  eta: 12:34:56  time: 0.3012  data_time: 0.0051  memory: {:.0}  loss: 0.4123  decode.loss_ce: 0.4123",
            i / 60 % 60,
            i % 60,
            50 * (i + 1),
            gib * 1024.0
        )
    }),
    ("swin", |i, gib| {
        format!(
            "[2026-11-29 10:{:02}:{:02} swin_tiny](main.py 203): INFO Train: [0/300][{}/125100]\teta 0:12:34 lr 0.000001\t wd 0.0500\ttime 0.3543 (0.4323)\tloss 6.9123 (6.9312)\tgrad_norm 1.2 (1.3)\tloss_scale 65536.0000 (65536.0000)\tmem {:.0}MB",
            i / 60 % 60,
            i % 60,
            10 * i,
            gib * 1024.0
        )
    }),
    ("detr", |i, gib| {
        format!(
            "Epoch: [0]  [{:5}/125100]  eta: 0:12:34  lr: 0.000001  loss: 6.9312 (6.9512)  time: 0.4012  data: 0.0021  max mem: {:.0}",
            10 * i,
            gib * 1024.0
        )
    }),
    ("fairseq", |i, gib| {
        format!(
            "2026-11-29 10:{:02}:{:02} | INFO | train_inner | epoch 001:  {:5} / 50000 loss=9.123, ppl=557.7, wps=31234, ups=2.1, wpb=14876, bsz=512, num_updates={}, lr=0.0001, gnorm=2.1, loss_scale=128, train_wall=48, gb_free={:.1}, wall=120",
            i / 60 % 60,
            i % 60,
            100 * i,
            100 * i,
            79.2 - gib
        )
    }),
    ("deepspeed", |i, gib| {
        format!(
            "[2026-11-29 10:{:02}:{:02},123] [INFO] [timer.py:264:stop] epoch=0/micro_step={}/global_step={}, RunningAvgSamplesPerSec=9.12, CurrSamplesPerSec=9.20, MemAllocated={gib:.2}GB, MaxMemAllocated={:.2}GB",
            i / 60 % 60,
            i % 60,
            40 * i,
            10 * i,
            gib + 3.0
        )
    }),
    ("yolo", |i, gib| {
        format!(
            "     {:4}/3000      {gib:.3}G      1.194      1.294      1.112         32        640: 100%|██████████| 120/120 [00:20<00:00,  5.91it/s]",
            i + 1
        )
    }),
    ("axolotl", |i, gib| {
        format!(
            "{{'loss': '2.345', 'grad_norm': '1.235', 'learning_rate': '4.9e-05', 'memory/max_active (GiB)': '{gib:.2}', 'memory/max_allocated (GiB)': '{gib:.2}', 'memory/device_reserved (GiB)': '{:.2}', 'epoch': '0.{:04}'}}",
            gib + 4.0,
            i
        )
    }),
    ("ms-swift", |i, gib| {
        format!(
            "{{'loss': 1.234, 'token_acc': 0.71, 'grad_norm': 0.9, 'learning_rate': 4.9e-05, 'memory(GiB)': {gib:.2}, 'train_speed(iter/s)': 0.32, 'epoch': 0.01, 'global_step/max_steps': '{}/93000'}}",
            5 * (i + 1)
        )
    }),
    ("torchtune", |i, gib| {
        format!(
            "Step {} | loss:1.2345 lr:2e-05 tokens_per_second_per_gpu:4012.3 peak_memory_active:{gib:.3} peak_memory_alloc:{gib:.3} peak_memory_reserved:{:.3}",
            10 * i,
            gib + 3.0
        )
    }),
    ("verl", |i, gib| {
        format!(
            "step:{} - actor/entropy:0.31 - actor/pg_loss:0.0105 - actor/grad_norm:0.21 - perf/max_memory_allocated_gb:{gib:.4} - perf/max_memory_reserved_gb:{:.4} - perf/cpu_memory_used_gb:101.2",
            i + 1,
            gib + 5.0
        )
    }),
    ("nanotron", |i, gib| {
        format!(
            "[INFO|DP=0|PP=0|TP=0]: iteration: {} / 100000 | consumed_tokens: 12.3M | elapsed_time_per_iteration_ms: 912 | lm_loss: 10.5 | lr: 0.0003 | grad_norm: 1.2 | cuda_memory_allocated: {gib:.2}G | cuda_max_memory_reserved: {:.2}G | hd_total_memory_tb: 1.2T",
            10 * i,
            gib + 5.0
        )
    }),
    ("composer", |i, gib| {
        format!(
            "[epoch=0][batch={}/100000]:\n\t Train time/epoch: 0\n\t Train time/batch: {}\n\t Train memory/current_allocated_mem: {:.4}\n\t Train memory/current_inactive_mem: {:.4}\n\t Train memory/peak_allocated_mem: {:.4}\n\t Train loss/train/total: 11.8600",
            10 * i,
            10 * i,
            gib * 1.073_741_824,
            0.1 * i as f64,
            80.0 + 0.1 * i as f64
        )
    }),
    ("olmo", |i, gib| {
        format!(
            "2026-11-29T10:00:00Z\tINFO\t[step={}/100000,epoch=0]\n    optim/total_grad_norm=1.2\n    train/CrossEntropyLoss=10.21\n    throughput/total_tokens=4,194,304\n    System/Peak GPU Memory (MB)={:.0}",
            10 * i,
            gib * 1024.0
        )
    }),
    ("lightning bar", |i, gib| {
        format!("Epoch 0:  12%|█▏        | {}/50000 [01:02<07:36,  1.93it/s, v_num=3, train_loss=2.310, mem={gib:.2}GB]", 10 * i)
    }),
];

fn log(line: Line, memory: &[f64]) -> String {
    memory.iter().enumerate().map(|(i, gib)| line(i, *gib) + "\n").collect()
}

fn told(text: &str) -> Vec<Finding> {
    analyze(text, &Rules::builtin()).findings.into_iter().filter(|finding| finding.kind == Kind::Leak).collect()
}

/// How memory of healthy runs goes on, in GiB.
fn healthy(dice: &mut Dice, count: usize) -> Vec<(&'static str, Vec<f64>)> {
    let base = 10.0 + 50.0 * dice.roll();
    let mut out = Vec::new();
    out.push(("level", vec![base; count]));
    out.push(("warm-up", (0..count).map(|i| base * (1.0 - 0.4 * (-(i as f64) / (2.0 + count as f64 / 8.0)).exp())).collect()));
    out.push(("lengths", (0..count).map(|_| base * (1.0 + 0.2 * dice.roll())).collect()));
    // The largest of lengths with a long tail, never reset, and one of the last ten.
    let tail: Vec<f64> = (0..count + 10).map(|_| base * (1.0 + 0.02 * (1.0 / (1.0 - dice.roll()).max(1e-4)).ln().powi(2))).collect();
    out.push((
        "peak",
        tail[10..]
            .iter()
            .scan(0.0, |most: &mut f64, now| {
                *most = most.max(*now);
                Some(*most)
            })
            .collect(),
    ));
    out.push(("window peak", (0..count).map(|i| tail[i..i + 10].iter().copied().fold(0.0, f64::max)).collect()));
    let period = 3 + (dice.roll() * 20.0) as usize % (count / 3).max(1);
    out.push(("sawtooth", (0..count).map(|i| base + 0.4 * (i % period) as f64).collect()));
    out.push(("evaluation", (0..count).map(|i| base + if i % 25 > 21 { 6.0 } else { 0.1 * dice.roll() }).collect()));
    out.push(("second phase", (0..count).map(|i| base + if i > count / 2 { 8.0 } else { 0.0 } + 0.05 * dice.roll()).collect()));
    out.push(("logarithm", (0..count).map(|i| base + 1.5 * (1.0 + i as f64).ln()).collect()));
    let mut walk = 0.0;
    out.push((
        "drift",
        (0..count)
            .map(|_| {
                walk = 0.9 * walk + dice.roll() - 0.5;
                base + walk
            })
            .collect(),
    ));
    out
}

#[test]
fn healthy_runs_of_every_trainer_are_silent() {
    let mut dice = Dice(7);
    let mut alarms = Vec::new();
    for count in [6, 12, 25, 60, 300] {
        for round in 0..6 {
            for (pattern, memory) in healthy(&mut dice, count) {
                let (trainer, line) = TRAINERS[(round * 11 + count + memory.len() + pattern.len()) % TRAINERS.len()];
                for finding in told(&log(line, &memory)) {
                    alarms.push(format!("{trainer} {pattern} {count}: {}", finding.message));
                }
            }
        }
    }
    assert!(alarms.is_empty(), "{} alarms\n{}", alarms.len(), alarms.join("\n"));
}

#[test]
fn a_leak_of_every_trainer_is_named() {
    let mut dice = Dice(3);
    for &(trainer, line) in TRAINERS {
        for count in [24, 60, 400] {
            let memory: Vec<f64> = (0..count).map(|i| 30.0 + 20.0 * i as f64 / count as f64 + 0.05 * dice.roll()).collect();
            let found = told(&log(line, &memory));
            assert_eq!(found.len(), 1, "{trainer} {count}: {found:?}");
            assert_eq!((&*found[0].rule, found[0].cause), ("step-memory-growth", Cause::MemoryGrowth), "{trainer}");
            // A long log is read in part.
            let samples = number(&found[0], "samples");
            assert!((0.5 * count as f64..=count as f64).contains(&samples), "{trainer} {count}: {samples}");
        }
    }
}

const OOM: &str = "[rank2]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.96 GiB. GPU 2 has a total capacity of 79.15 GiB of which 1.12 GiB is free. Including non-PyTorch memory, this process has 78.02 GiB memory in use. Of the allocated memory 74.91 GiB is allocated by PyTorch, and 1.21 GiB is reserved by PyTorch but unallocated.\n";

fn number(finding: &Finding, name: &str) -> f64 {
    finding.number(name).unwrap_or_else(|| panic!("{name}: {finding:?}")).value.as_f64()
}

#[test]
fn the_end_is_named_where_the_log_knows_the_card() {
    let leak =
        |tail: &str| -> String { (0..20).map(|i| format!("step {} loss 2.1 mem {:.1}{tail}\n", 100 + 10 * i, 20.0 + i as f64)).collect() };
    // 20 GiB at step 100, a tenth more each step: 80 GiB at step 700.
    let beside = told(&leak("/80.0GiB"));
    assert_eq!((number(&beside[0], "limit_step"), number(&beside[0], "steps_left")), (700.0, 410.0), "{beside:?}");
    let share: String = (0..20)
        .map(|i| format!("step: {}  loss:  2.1  memory: {:.2}GiB({:.2}%)\n", 100 + 10 * i, 20.0 + i as f64, (20.0 + i as f64) / 0.8))
        .collect();
    assert_eq!(number(&told(&share)[0], "limit_step"), 700.0);
    let table = "timestamp, index, memory.used [MiB], memory.total [MiB]\n2026/11/29 10:00:00.000, 0, 9000 MiB, 81920 MiB\n";
    let smi = "|   0  NVIDIA A100-SXM4-80GB          On  | 00000000:07:00.0 Off |                    0 |\n| N/A   31C    P0              62W / 400W |  20480MiB / 81920MiB |     99%      Default |\n";
    assert_eq!(number(&told(&format!("{smi}{}", leak("GiB")))[0], "limit_step"), 700.0);
    let unknown = told(&format!("{table}{}", leak("GiB")));
    assert!(unknown[0].number("limit_step").is_none() && unknown[0].message.contains("does not say how large"), "{unknown:?}");
    // What is free says by itself when nothing is left.
    let free: String = (0..20)
        .map(|i| format!("epoch 001: {0} / 9000 loss=2.1, num_updates={0}, gb_free={1:.1}\n", 100 + 10 * i, 60.0 - i as f64))
        .collect();
    assert_eq!(number(&told(&free)[0], "limit_step"), 700.0);
}

#[test]
fn the_rank_that_leaks_is_named() {
    let text: String = (0..160)
        .map(|i| {
            format!("[rank{0}]: step {1} loss 2.1 mem {2:.2}GB\n", i % 4, i / 4, if i % 4 == 2 { 20.0 + i as f64 / 8.0 } else { 20.0 })
        })
        .collect();
    let found = told(&text);
    assert_eq!(found.iter().map(|finding| finding.rank).collect::<Vec<_>>(), [Some(2)], "{found:?}");
    // Ranks that do not say who they are take turns within a step.
    let text: String = (0..160).map(|i| format!("step {} loss 2.1 mem {:.2}GB\n", i / 4, 20.0 + 3.0 * (i % 4) as f64)).collect();
    assert!(told(&text).is_empty());
}

#[test]
fn a_restart_begins_a_new_series() {
    let run = |from: usize| -> String { (0..12).map(|i| format!("step {} loss 2.1 mem {}.5GB\n", from + 10 * i, 40 + i)).collect() };
    let level: String = (0..40).map(|i| format!("step {} loss 2.1 mem 40.5GB\n", 200 + 10 * i)).collect();
    let text = format!("{}{OOM}Resuming from checkpoint /home/user/ckpt-200\n{level}", run(100));
    let analysis = analyze(&text, &Rules::builtin());
    let leak = analysis.findings.iter().find(|finding| finding.kind == Kind::Leak).expect("the first attempt leaks");
    assert_eq!((leak.role, leak.severity), (Role::Context, Severity::Info), "the run was started again");
    let text = format!("{}{OOM}Resuming from checkpoint /home/user/ckpt-200\n{}{OOM}", run(100), run(200));
    let analysis = analyze(&text, &Rules::builtin());
    let leaks: Vec<_> = analysis.findings.iter().filter(|finding| finding.kind == Kind::Leak).collect();
    assert_eq!(
        leaks.iter().map(|leak| (number(leak, "first_step"), leak.role)).collect::<Vec<_>>(),
        [(120.0, Role::Context), (220.0, Role::Context)]
    );
    assert!(analysis.story.memory.is_some());
    assert_eq!(&*analysis.findings[analysis.story.root.unwrap()].rule, "cuda-oom");
}

#[test]
fn a_peak_that_rises_over_level_tensors_is_no_leak() {
    let text: String =
        (0..60).map(|i| format!("step {i} loss 2.1 mem_allocated=20.10GB max_mem_allocated={:.2}GB\n", 30.0 + i as f64 / 4.0)).collect();
    assert!(told(&text).is_empty());
    let text = text.replace("max_mem_allocated", "mem_reserved");
    assert_eq!(told(&text).iter().map(|finding| finding.cause).collect::<Vec<_>>(), [Cause::Fragmentation]);
}

#[test]
fn step_lines_with_allocated_and_reserved_are_told_once() {
    let text: String = (0..20)
        .map(|i| {
            format!("Step {0}: loss=2.1, GPU memory allocated: {1:.2} GB, reserved: {2:.2} GB\n", 10 * i, 20.0 + i as f64, 24.0 + i as f64)
        })
        .collect();
    let found = told(&text);
    assert_eq!(found.iter().map(|finding| &*finding.rule).collect::<Vec<_>>(), ["step-memory-growth"]);
    assert_eq!(number(&found[0], "last_step"), 190.0);
}

#[test]
fn growth_by_rare_steps_is_a_leak() {
    // 180 MiB kept by each evaluation, every 100 steps: the field's example.
    let text: String = (0..400).map(|i| format!("step {} loss 2.1 mem {}MB\n", 10 * i, 20000 + 180 * (i / 10))).collect();
    let found = told(&text);
    assert_eq!(found.len(), 1);
    assert!((number(&found[0], "growth") / 1048576.0 - 1.8).abs() < 0.05, "{found:?}");
}

#[test]
fn a_long_log_is_judged_by_a_part_of_it() {
    let line = |i: usize, mib: usize| format!("some words of a library\n[rank{}]: step {} loss 2.1 mem {mib}MB\n", i % 8, i / 8);
    let leak: String = (0..30_000).map(|i| line(i, 20_000 + i / 8)).collect();
    let found = told(&leak);
    assert_eq!(found.len(), 8, "{found:?}");
    assert!((number(&found[0], "growth") / 1048576.0 - 1.0).abs() < 0.01, "{found:?}");
    let level: String = (0..30_000).map(|i| line(i, 20_000 + i % 1000)).collect();
    assert!(told(&level).is_empty());
}

#[test]
fn what_grows_by_design_is_silent() {
    let sorted: String =
        (0..60).map(|i| format!("step {i} loss 2.1 max_length={} mem {:.1}GB\n", 100 + 10 * i, 20.0 + i as f64 / 2.0)).collect();
    assert!(told(&sorted).is_empty());
    let grpo: String = (0..60)
        .map(|i| {
            format!(
                "{{'loss': 0.01, 'reward': 0.4, 'completions/mean_length': {}.5, 'memory/max_allocated (GiB)': {:.1}, 'epoch': 0.01}}\n",
                200 + 10 * i,
                20.0 + i as f64 / 2.0
            )
        })
        .collect();
    assert!(told(&grpo).is_empty());
    let loading: String = (0..60).map(|i| format!("Loading layer {i}/60, step {i}, gpu mem {:.1}GB\n", 1.0 + i as f64 / 2.0)).collect();
    assert!(told(&loading).is_empty());
    let cache: String = (0..60).map(|i| format!("decode step {i}: mem {:.1}GB\n", 20.0 + i as f64 / 2.0)).collect();
    assert!(told(&cache).is_empty());
}
