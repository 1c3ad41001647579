//! The changes that may be tried, in the order of what they cost.

use super::super::Model;
use super::super::training::setup::Held;
use super::super::training::zero::{Offload, Zero};
use super::super::training::{Attention, Checkpointing, Optimizer, Precision, Setup, Task, digits as grouped, states};
use crate::model::quantization::{Dtype, Scheme};

/// The most GPUs of a run that are looked at for sharing one copy.
const MOST_SHARES: u64 = 64;

/// What a change turns; of one kind only the last counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Optimizer,
    Attention,
    Checkpointing,
    Batch,
    Precision,
    Length,
    Adapters,
    Offload,
    Share,
    Gpus,
    Cache,
    Weights,
}

/// A change that may be tried.
pub(super) struct Change {
    /// What it turns.
    pub kind: Kind,
    /// The change in words.
    pub text: String,
    /// The flags that say so.
    pub flags: String,
    /// What it costs.
    pub cost: &'static str,
    /// Puts it into settings.
    pub apply: Box<dyn Fn(&mut Setup)>,
}

fn change(
    kind: Kind,
    text: impl Into<String>,
    flags: impl Into<String>,
    cost: &'static str,
    apply: impl Fn(&mut Setup) + 'static,
) -> Change {
    Change { kind, text: text.into(), flags: flags.into(), cost, apply: Box::new(apply) }
}

/// Changes of a training run.
pub(super) fn training(model: &Model, setup: &Setup) -> Vec<Change> {
    let mut list = Vec::new();
    if setup.optimizer == Optimizer::AdamW {
        list.push(change(Kind::Optimizer, "fused AdamW", "--optimizer adamw-fused", "costs nothing", |setup| {
            setup.optimizer = Optimizer::AdamWFused
        }));
    }
    if setup.attention == Attention::Eager || setup.padded {
        list.push(change(
            Kind::Attention,
            "flash attention without padding mask",
            "--attention flash",
            "costs nothing; sequences must be packed or of one length",
            |setup| {
                setup.attention = Attention::Flash;
                setup.padded = false;
            },
        ));
    }
    if setup.checkpointing != Checkpointing::Full {
        list.push(change(Kind::Checkpointing, "gradient checkpointing", "--checkpointing full", "about a third more computing", |setup| {
            setup.checkpointing = Checkpointing::Full
        }));
    }
    // Halves, so that the effective batch stays; at last one sequence.
    let halves = std::iter::successors(Some(setup.batch), |batch| batch.is_multiple_of(2).then_some(batch / 2)).skip(1);
    let last = (setup.batch > 1 && !setup.batch.is_power_of_two()).then_some(1);
    for batch in halves.chain(last) {
        list.push(change(
            Kind::Batch,
            format!("batch {batch} with {} steps of accumulation", (setup.batch / batch).saturating_mul(setup.accumulation)),
            format!("--batch {batch}"),
            "slower steps, same result",
            // Gradients are added up from here on, which DeepSpeed keeps room for.
            move |setup| {
                setup.batch = batch;
                setup.sharing.iter_mut().for_each(|zero| zero.accumulates = true);
            },
        ));
    }
    let eight = !matches!(
        setup.optimizer,
        Optimizer::AdamW8bit | Optimizer::PagedAdamW8bit | Optimizer::Sgd | Optimizer::Adafactor | Optimizer::Lion
    );
    if eight {
        list.push(change(
            Kind::Optimizer,
            "8-bit AdamW",
            "--optimizer adamw-8bit",
            "states are rounded; rarely seen in the loss",
            |setup| setup.optimizer = Optimizer::AdamW8bit,
        ));
    }
    if setup.precision != Precision::Bf16 && setup.task == Task::Full {
        list.push(change(
            Kind::Precision,
            "weights and states in bf16",
            "--precision bf16",
            "small updates may be rounded away",
            |setup| setup.precision = Precision::Bf16,
        ));
    }
    for seq in [setup.seq / 2, setup.seq / 4] {
        if seq >= 256 {
            list.push(change(
                Kind::Length,
                format!("sequences of {} tokens", grouped(seq as f64)),
                format!("--seq {seq}"),
                "longer texts are cut or split",
                move |setup| setup.seq = seq,
            ));
        }
    }
    if setup.task == Task::Full && model.quantization.is_none() {
        list.push(change(
            Kind::Adapters,
            "LoRA, rank 16 on all linear layers",
            "--task lora --precision bf16-base-amp",
            "only adapters are trained",
            |setup| {
                setup.task = Task::Lora;
                setup.precision = Precision::Bf16BaseAmp;
            },
        ));
    }
    if setup.task != Task::Qlora && model.quantization.is_none() {
        list.push(change(
            Kind::Adapters,
            "QLoRA: LoRA on 4-bit weights, with gradient checkpointing",
            "--task qlora --precision bf16-base-amp --checkpointing full",
            "only adapters are trained; slower, the base is rounded",
            |setup| {
                setup.task = Task::Qlora;
                setup.checkpointing = Checkpointing::Full;
                setup.precision = Precision::Bf16BaseAmp;
            },
        ));
    }
    list.extend(offload(setup));
    if setup.data_parallel() > 1 && setup.zero < 3 {
        list.push(change(Kind::Gpus, format!("ZeRO 3 over the {} GPUs", setup.gpus), "--zero 3", "more communication", |setup| {
            setup.zero = 3
        }));
    }
    for gpus in [2, 4, 8, 16, 32, 64] {
        if gpus > setup.gpus {
            list.push(change(
                Kind::Gpus,
                format!("ZeRO 3{} over {gpus} GPUs", if setup.sharing.is_some() { "" } else { " (FSDP)" }),
                format!("--zero 3 --gpus {gpus}"),
                "more GPUs and communication",
                move |setup| {
                    setup.zero = 3;
                    setup.gpus = gpus;
                },
            ));
        }
    }
    list
}

/// What DeepSpeed can move out of the GPU.
fn offload(setup: &Setup) -> Vec<Change> {
    let Some(now) = setup.sharing.filter(|_| setup.zero > 0) else {
        return Vec::new();
    };
    let place = |parameters: Offload| move |setup: &mut Setup| setup.sharing = Some(Zero { optimizer: Offload::Host, parameters, ..now });
    let mut list = Vec::new();
    if now.optimizer == Offload::None {
        let text = "optimiser states in host memory";
        list.push(change(Kind::Offload, text, "--offload optimizer", "slower steps, and host memory", place(Offload::None)));
    }
    if setup.zero == 3 && now.parameters == Offload::None {
        let text = "optimiser states and weights in host memory";
        list.push(change(Kind::Offload, text, "--offload all", "much slower steps, and host memory", place(Offload::Host)));
    }
    list
}

/// Changes of inference.
pub(super) fn inference(model: &Model, setup: &Setup) -> Vec<Change> {
    let mut list = Vec::new();
    if setup.attention == Attention::Eager || setup.padded {
        list.push(change(Kind::Attention, "flash attention without padding mask", "--attention flash", "costs nothing", |setup| {
            setup.attention = Attention::Flash;
            setup.padded = false;
        }));
    }
    // GPUs that hold a copy each can share one instead.
    let there = setup.gpus / setup.pipeline_parallel.max(1);
    for shares in (setup.tensor_parallel.saturating_add(1)..=there.min(MOST_SHARES)).filter(|shares| there.is_multiple_of(*shares)) {
        list.push(change(
            Kind::Share,
            format!("tensor parallel over {shares} of the GPUs that are there"),
            format!("--tensor-parallel {shares}"),
            "costs nothing but communication",
            move |setup| setup.tensor_parallel = shares,
        ));
    }
    if states::inference_dtype(model, setup) == Dtype::Float32 {
        list.push(change(Kind::Weights, "weights in bf16", "--dtype bf16", "rarely seen in the results", |setup| {
            setup.dtype = Some(Dtype::Bfloat16)
        }));
    }
    let many = setup.batch.max(setup.concurrency);
    if many > 1 {
        list.push(change(
            Kind::Batch,
            if many < 4 { "1 sequence at a time".to_owned() } else { format!("{} sequences at a time", many / 2) },
            format!("--batch {0} --concurrency {0}", many / 2),
            "half the throughput",
            move |setup| {
                setup.batch = setup.batch.min(many / 2).max(1);
                setup.concurrency = setup.concurrency.min(many / 2).max(1);
            },
        ));
    }
    if setup.kv_dtype.is_none() {
        list.push(change(Kind::Cache, "KV cache in fp8", "--kv-dtype fp8", "slightly less accurate over long contexts", |setup| {
            setup.kv_dtype = Some(Dtype::Float8)
        }));
    }
    for seq in [setup.seq / 2, setup.seq / 4] {
        if seq >= 512 {
            list.push(change(
                Kind::Length,
                format!("contexts of {} tokens", grouped(seq as f64)),
                format!("--seq {seq}"),
                "longer texts are cut",
                move |setup| setup.seq = seq,
            ));
        }
    }
    if setup.held == Held::Stored && model.quantization.is_none() {
        list.push(change(Kind::Weights, "weights in 8 bits", "--quantization fp8", "rarely seen in the results", |setup| {
            setup.held = Held::Scheme("fp8 in blocks of 128", Scheme::Fp8Block { rows: 128, columns: 128 });
        }));
        list.push(change(Kind::Weights, "weights in 4 bits", "--quantization awq-int4", "slightly less accurate", |setup| {
            setup.held = Held::Scheme("AWQ int4", Scheme::Awq { bits: 4, group: 128 })
        }));
    }
    for gpus in [2, 4, 8, 16] {
        if gpus > setup.tensor_parallel && gpus > there {
            list.push(change(
                Kind::Gpus,
                format!("tensor parallel over {gpus} GPUs"),
                format!("--tensor-parallel {gpus}"),
                "more GPUs",
                move |setup| {
                    setup.tensor_parallel = gpus;
                    setup.gpus = gpus.saturating_mul(setup.pipeline_parallel);
                },
            ));
        }
    }
    list
}
