//! Memory over time in step lines of many trainers: healthy runs are silent, leaks are named with slope and end.
//!
//! Each log is written in the exact form of its trainer, with numbers from a seeded generator.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test may fail that way

use trainwreck::log::rules::Rules;
use trainwreck::log::vocabulary::{Cause, Kind};
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
            let leak = found.iter().find(|finding| finding.cause == Cause::MemoryGrowth);
            let leak = leak.unwrap_or_else(|| panic!("{trainer} {count}: {found:?}"));
            assert_eq!(&*leak.rule, "step-memory-growth", "{trainer}");
            let lines = leak.number("samples").unwrap().value.as_f64();
            assert_eq!(lines, count as f64, "{trainer}");
        }
    }
}
