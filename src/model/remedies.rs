//! Changes that would make a plan fit, in the order of what they cost.
//!
//! Each change is tried alone; where none is enough, the cheapest of all together. What is said of
//! the cost is a rule of thumb, not a measurement.

use super::Model;
use super::training::setup::Held;
use super::training::zero::{Offload, Zero};
use super::training::{Attention, Checkpointing, Optimizer, Precision, Setup, Task, digits as grouped, states};
use super::{fit, plan};
use crate::model::quantization::{Dtype, Scheme};

/// A change of the settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remedy {
    /// What is changed.
    pub change: String,
    /// The flags that say so.
    pub flags: String,
    /// What it costs.
    pub cost: &'static str,
    /// The new total.
    pub total: u64,
    /// Whether it fits then.
    pub fits: bool,
}

/// What a change turns; of one kind only the last counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Optimizer,
    Attention,
    Checkpointing,
    Batch,
    Precision,
    Length,
    Adapters,
    Offload,
    Gpus,
    Cache,
    Weights,
}

/// A change that may be tried.
struct Change {
    kind: Kind,
    text: String,
    flags: String,
    cost: &'static str,
    apply: Box<dyn Fn(&mut Setup)>,
}

/// Most lines of an answer.
const LINES: usize = 14;

/// The changes for a card of so many bytes; none when the plan fits.
pub fn of(model: &Model, setup: &Setup, memory: u64) -> Vec<Remedy> {
    let fits = |total: u64| total <= fit::usable(setup, memory);
    let now = match plan::of(model, setup) {
        Ok(now) if !fits(now.total) => now.total,
        _ => return Vec::new(),
    };
    let list = if setup.task == Task::Inference { inference(model, setup) } else { training(model, setup) };
    let total = |other: &Setup| plan::of(model, other).ok().map(|plan| plan.total);
    let mut alone: Vec<(Kind, Remedy)> = Vec::new();
    for change in &list {
        let other = applied(setup, &[change]);
        let Some(total) = total(&other).filter(|total| *total < now) else {
            continue;
        };
        let remedy = Remedy { change: change.text.clone(), flags: change.flags.clone(), cost: change.cost, total, fits: fits(total) };
        // Of more and more GPUs one line is enough: the first number that fits.
        match alone.last_mut() {
            Some((Kind::Gpus, last)) if change.kind == Kind::Gpus => {
                if !last.fits {
                    *last = remedy;
                }
            }
            _ => alone.push((change.kind, remedy)),
        }
    }
    let mut alone: Vec<Remedy> = alone.into_iter().map(|(_, remedy)| remedy).collect();
    if !alone.iter().any(|one| one.fits) {
        let all: Vec<&Change> = list.iter().collect();
        let found = together(setup, &all, &total, &fits);
        // Who trains all parameters may not want adapters: the same without them.
        let swapped = found.as_ref().is_some_and(|one| one.flags.contains("--task"));
        let whole: Vec<&Change> = list.iter().filter(|change| change.kind != Kind::Adapters).collect();
        let kept = swapped.then(|| together(setup, &whole, &total, &fits)).flatten();
        alone.extend(found.into_iter().chain(kept));
    }
    // What fits comes first, each part in the order of cost.
    alone.sort_by_key(|one| !one.fits);
    alone.truncate(LINES);
    alone
}

/// The settings after some changes.
fn applied(setup: &Setup, changes: &[&Change]) -> Setup {
    let mut other = setup.clone();
    for change in changes {
        (change.apply)(&mut other);
    }
    other
}

/// The cheapest changes that make it fit together: all of them at first, each kind in its strongest form, and then one
/// kind after the other, the dearest first, is left out or made weaker where the plan fits without.
fn together(setup: &Setup, list: &[&Change], total: &dyn Fn(&Setup) -> Option<u64>, fits: &dyn Fn(u64) -> bool) -> Option<Remedy> {
    let mut chosen: Vec<&Change> = Vec::new();
    for &change in list {
        chosen.retain(|have| have.kind != change.kind);
        chosen.push(change);
    }
    let fitting = |changes: &[&Change]| total(&applied(setup, changes)).filter(|bytes| fits(*bytes));
    // What a kind makes impossible, as 4-bit weights under DeepSpeed, is tried without it.
    if fitting(&chosen).is_none() {
        chosen.retain(|change| total(&applied(setup, &[change])).is_some());
    }
    let mut best = fitting(&chosen)?;
    let kinds: Vec<Kind> = chosen.iter().rev().map(|change| change.kind).collect();
    for kind in kinds {
        let without: Vec<&Change> = chosen.iter().copied().filter(|change| change.kind != kind).collect();
        let weaker = list.iter().copied().filter(|change| change.kind == kind).map(|change| {
            let place = chosen.iter().position(|have| have.kind == kind).unwrap_or(chosen.len());
            let mut other = without.clone();
            other.insert(place.min(other.len()), change);
            other
        });
        let found = std::iter::once(without.clone()).chain(weaker).find_map(|changes| Some((fitting(&changes)?, changes)));
        if let Some((bytes, changes)) = found {
            (best, chosen) = (bytes, changes);
        }
    }
    let join = |part: fn(&Change) -> &str, by: &str| chosen.iter().map(|change| part(change)).collect::<Vec<_>>().join(by);
    Some(Remedy {
        change: format!("together: {}", join(|change| &change.text, ", ")),
        flags: join(|change| &change.flags, " "),
        cost: "the sum of these",
        total: best,
        fits: true,
    })
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

fn training(model: &Model, setup: &Setup) -> Vec<Change> {
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
    if setup.batch > 1 {
        list.push(change(
            Kind::Batch,
            format!("batch 1 with {} steps of accumulation", setup.batch),
            "--batch 1",
            "slower steps, same result",
            |setup| setup.batch = 1,
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
            "QLoRA: LoRA on 4-bit weights",
            "--task qlora --precision bf16-base-amp",
            "only adapters are trained; slower, the base is rounded",
            |setup| {
                setup.task = Task::Qlora;
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

fn inference(model: &Model, setup: &Setup) -> Vec<Change> {
    let mut list = Vec::new();
    if setup.attention == Attention::Eager || setup.padded {
        list.push(change(Kind::Attention, "flash attention without padding mask", "--attention flash", "costs nothing", |setup| {
            setup.attention = Attention::Flash;
            setup.padded = false;
        }));
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
            format!("{} sequences at a time", many / 2),
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
        if gpus > setup.tensor_parallel {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model;

    const LLAMA_70B: &str = r#"{"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 128256, "hidden_size": 8192,
        "intermediate_size": 28672, "num_hidden_layers": 80, "num_attention_heads": 64, "num_key_value_heads": 8}"#;

    #[test]
    fn the_cheapest_way_is_found_and_one_that_keeps_the_task() {
        let model = model::read(LLAMA_70B).unwrap();
        let list = of(&model, &Setup::new(Task::Full), 85_000_000_000);
        let together: Vec<&str> = list.iter().filter(|one| one.fits).map(|one| one.flags.as_str()).collect();
        // Recomputing costs less than shorter sequences, and helps only beside the other changes.
        assert_eq!(together[0], "--checkpointing full --task qlora --precision bf16-base-amp");
        assert!(together[1].contains("--zero 3") && !together[1].contains("--task") && !together[1].contains("--seq"), "{together:?}");
        assert!(list.iter().filter(|one| one.fits).all(|one| one.total <= 85_000_000_000));
    }
}
