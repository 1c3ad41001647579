//! The settings of a run as a memory plan takes them: what the log says, what is assumed, and what stays open.

use super::candidates::{ADAPTERS, SAME};
use super::states::{precisions, sharding};
use crate::log::settings::{At, RunSettings, Setting};
use crate::model::Model;
use crate::model::quantization::{Dtype, Scheme};
use crate::model::training::setup::Held;
use crate::model::training::{Attention, Checkpointing, Engine, Optimizer, Precision, Setup, Task, states};

/// Ranks that adapters usually have.
const RANKS: std::ops::RangeInclusive<u64> = 1..=1024;
/// Modules that usually take adapters.
const TARGETS: [&[&str]; 5] =
    [&["q_proj", "v_proj"], &["q_proj", "k_proj", "v_proj", "o_proj"], &["all-linear"], &["query_key_value"], &["c_attn"]];

/// Something that the log said: key of its text, value, line.
#[derive(Clone, Debug, PartialEq)]
pub struct Fact {
    /// The setting, a key of the texts behind `expected.fact.`.
    pub name: &'static str,
    /// Its value, made by us and never text of the log.
    pub value: String,
    /// Where it was said.
    pub line: At,
}

/// A run as a plan takes it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Run {
    /// What the model was run for, where that is known.
    pub task: Option<Task>,
    /// Settings between which the log leaves the choice, the likeliest first. None where the plan does not know the case.
    pub setups: Vec<Setup>,
    /// Sequences of a step are known.
    pub has_batch: bool,
    /// The length is known.
    pub has_length: bool,
    /// The dtype in which the weights are held is known.
    pub has_dtype: bool,
    /// What the log said.
    pub read: Vec<Fact>,
    /// What was assumed, keys of the texts behind `expected.assumed.`.
    pub assumed: Vec<&'static str>,
    /// Why there is no plan, keys of the texts behind `expected.missing.`.
    pub missing: Vec<&'static str>,
}

impl Run {
    pub(super) fn fact(&mut self, name: &'static str, value: impl ToString, line: At) {
        self.read.push(Fact { name, value: value.to_string(), line });
    }
}

/// What the log says of a run of this model. `ranks` is the number of ranks that write into the log.
pub fn of(settings: &RunSettings, model: &Model, ranks: Option<u64>) -> Run {
    let mut run = Run::default();
    let Some(task) = task(settings, model, &mut run) else {
        if run.missing.is_empty() {
            run.missing.push("task");
        }
        return run;
    };
    run.task = Some(task);
    let mut setup = Setup::new(task);
    let known = if task == Task::Inference {
        serving(settings, model, &mut setup, &mut run)
    } else {
        training(settings, ranks, &mut setup, &mut run) && adapters(settings, model, &mut setup, &mut run)
    };
    if known {
        run.setups = if task == Task::Inference { vec![setup] } else { alternatives(settings, setup, &mut run) };
        run.setups.retain(|setup| setup.check().is_ok());
    }
    run
}

fn task(settings: &RunSettings, model: &Model, run: &mut Run) -> Option<Task> {
    let batch = settings.get(Setting::Batch).map(|told| told.line);
    let trainable = settings.number(Setting::Trainable);
    let trains = settings.training.or(batch).or(trainable.as_ref().map(|told| told.line)).or(settings.deepspeed.as_ref().map(|d| d.line));
    let Some(line) = trains else {
        let engine = settings.engine.as_ref()?;
        run.fact("engine", engine.value.name(), engine.line);
        return Some(Task::Inference);
    };
    if settings.engine.is_some() {
        // Reinforcement learning: an engine generates and a trainer trains, often on one card.
        run.missing.push("both");
        return None;
    }
    let total = model.total() as f64;
    let method = settings.get(Setting::Method).map(|told| told.value.to_ascii_lowercase());
    let named = method.as_deref().is_some_and(|method| method.contains("lora"))
        || method.is_none() && settings.number(Setting::LoraRank).is_some_and(|told| told.value > 0);
    let lora = match &trainable {
        Some(told) if told.value as f64 >= (1.0 - SAME) * total => false,
        Some(told) if (told.value as f64) < ADAPTERS * total && (named || settings.get(Setting::AllParameters).is_some()) => true,
        Some(_) => {
            run.missing.push("frozen");
            return None;
        }
        None if method.as_deref() == Some("freeze") => {
            run.missing.push("frozen");
            return None;
        }
        None => named,
    };
    if let Some(told) = trainable {
        run.fact("trainable", crate::log::units::grouped(told.value), told.line);
    } else {
        run.fact("training", "", line);
        if !lora {
            run.assumed.push("all-trained");
        }
    }
    if !lora {
        return Some(Task::Full);
    }
    let four_bit = settings.switch(Setting::FourBit).filter(|told| told.value);
    if let Some(told) = &four_bit {
        run.fact("four-bit", "", told.line);
    }
    let four = four_bit.is_some() || method.is_some_and(|method| method.contains("qlora"));
    Some(if four { Task::Qlora } else { Task::Lora })
}

/// Settings of a server; false when its weights are held in a way that the plan does not know.
fn serving(settings: &RunSettings, model: &Model, setup: &mut Setup, run: &mut Run) -> bool {
    setup.engine = Engine::Vllm;
    if let Some(told) = settings.get(Setting::Dtype) {
        setup.dtype = Dtype::parse(told.value).filter(|_| model.quantization.is_none());
    }
    run.has_dtype = setup.dtype.is_some();
    if let Some(told) = settings.get(Setting::Quantization).filter(|_| model.quantization.is_none()) {
        setup.held = match told.value.to_ascii_lowercase().as_str() {
            "fp8" => Held::Scheme("fp8", Scheme::Fp8Tensor { activations: false }),
            "bitsandbytes" => Held::Scheme("bitsandbytes nf4", Scheme::Bnb4 { double: false }),
            _ => {
                run.missing.push("quantization");
                return false;
            }
        };
        run.fact("quantization", if told.value.eq_ignore_ascii_case("fp8") { "fp8" } else { "nf4" }, told.line);
    }
    if settings.get(Setting::KvDtype).is_some_and(|told| told.value.contains("fp8")) {
        setup.kv_dtype = Some(Dtype::Float8);
    }
    if let Some(told) = settings.number(Setting::ServedLength) {
        setup.seq = told.value;
        run.has_length = true;
        run.fact("length", crate::log::units::grouped(told.value), told.line);
    }
    run.has_batch = true;
    run.assumed.push("one-sequence");
    parallel(settings, setup, run);
    true
}

fn parallel(settings: &RunSettings, setup: &mut Setup, run: &mut Run) {
    if let Some(told) = settings.number(Setting::TensorParallel).filter(|told| told.value > 1) {
        setup.tensor_parallel = told.value;
        run.fact("tensor-parallel", told.value, told.line);
    }
    if let Some(told) = settings.number(Setting::PipelineParallel).filter(|told| told.value > 1) {
        setup.pipeline_parallel = told.value;
        run.fact("pipeline-parallel", told.value, told.line);
    }
    setup.gpus = setup.tensor_parallel.saturating_mul(setup.pipeline_parallel);
}

/// Settings of a trainer; false when the plan does not know the case.
fn training(settings: &RunSettings, ranks: Option<u64>, setup: &mut Setup, run: &mut Run) -> bool {
    if settings.arguments.contains_key("tensor_model_parallel_size") {
        // Gradients in 32 bits beside 16-bit weights and masters, and kernels of its own.
        run.missing.push("megatron");
        return false;
    }
    parallel(settings, setup, run);
    if let Some(told) = settings.number(Setting::Batch) {
        setup.batch = told.value;
        run.has_batch = true;
        run.fact("batch", told.value, told.line);
    }
    if let Some(told) = settings.number(Setting::Sequence) {
        setup.seq = told.value;
        run.has_length = true;
        run.fact("length", crate::log::units::grouped(told.value), told.line);
    }
    match settings.get(Setting::Optimizer) {
        None => run.assumed.push("adamw"),
        Some(told) => match optimizer(told.value) {
            Some((optimizer, name)) => {
                setup.optimizer = optimizer;
                run.fact("optimizer", name, told.line);
            }
            None => {
                run.missing.push("optimizer");
                return false;
            }
        },
    }
    match settings.get(Setting::Attention).map(|told| (told.value, told.line)) {
        Some(("eager", line)) => {
            setup.attention = Attention::Eager;
            run.fact("attention", "eager", line);
        }
        Some((name, line)) if name.contains("flash") => {
            setup.attention = Attention::Flash;
            run.fact("attention", "flash", line);
        }
        _ => run.assumed.push("sdpa"),
    }
    sharding(settings, ranks, setup, run)
}

/// An optimiser by the names that trainers print.
fn optimizer(name: &str) -> Option<(Optimizer, &'static str)> {
    let name = name.to_ascii_lowercase();
    let has = |word: &str| name.contains(word);
    Some(match () {
        () if has("paged") && has("8bit") => (Optimizer::PagedAdamW8bit, "paged 8-bit AdamW"),
        () if has("adafactor") => (Optimizer::Adafactor, "Adafactor"),
        () if has("lion") && !has("8bit") => (Optimizer::Lion, "Lion"),
        () if has("muon") => (Optimizer::Muon, "Muon"),
        () if has("lomo") || has("galore") || has("apollo") || has("4bit") || has("mini") => return None,
        () if has("adam") && (has("8bit") || has("bnb")) => (Optimizer::AdamW8bit, "8-bit AdamW"),
        () if has("adam") && has("fused") => (Optimizer::AdamWFused, "fused AdamW"),
        () if has("adamw") || name.ends_with("adam") => (Optimizer::AdamW, "AdamW"),
        () if has("sgd") => (Optimizer::SgdMomentum, "SGD"),
        () => return None,
    })
}

/// Where adapters sit; false when the trained parameters that the log counts cannot be explained.
fn adapters(settings: &RunSettings, model: &Model, setup: &mut Setup, run: &mut Run) -> bool {
    if !setup.is_lora() {
        return true;
    }
    let trained = |setup: &Setup| states::of(model, setup, &(0.0, String::new())).trainable;
    let counted = settings.number(Setting::Trainable).map(|told| told.value as f64);
    let rank = settings.number(Setting::LoraRank).filter(|told| RANKS.contains(&told.value));
    if let Some(told) = &rank {
        setup.lora_r = told.value;
        run.fact("lora-rank", told.value, told.line);
    }
    if let Some(told) = settings.get(Setting::LoraTargets) {
        let names: Vec<String> =
            told.value.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '-')).map(str::to_owned).collect();
        let names: Vec<String> = names.into_iter().filter(|name| !name.is_empty()).take(32).collect();
        if !names.is_empty() {
            let all = names.iter().any(|name| name == "all" || name == "all-linear");
            setup.lora_targets = if all { vec!["all-linear".to_owned()] } else { names };
        }
    }
    let explains = |setup: &Setup, counted: f64| (trained(setup) / counted - 1.0).abs() < 0.001;
    let Some(counted) = counted else {
        run.assumed.push(if rank.is_some() { "lora-targets" } else { "lora" });
        return true;
    };
    if explains(setup, counted) {
        return true;
    }
    // Rank and places that give the count to the unit.
    for targets in TARGETS {
        let mut other = setup.clone();
        other.lora_targets = targets.iter().map(|name| (*name).to_owned()).collect();
        other.lora_r = 1;
        let one = trained(&other);
        if one <= 0.0 {
            continue;
        }
        other.lora_r = (counted / one).round() as u64;
        if RANKS.contains(&other.lora_r) && explains(&other, counted) {
            *setup = other;
            run.assumed.push("lora-counted");
            return true;
        }
    }
    run.missing.push("adapters");
    false
}

/// The settings that are left open: dtype of the weights, checkpointing.
fn alternatives(settings: &RunSettings, setup: Setup, run: &mut Run) -> Vec<Setup> {
    let precisions = precisions(settings, &setup, run);
    let recompute = settings.get(Setting::Recompute).map(|told| (told.value == "full", told.line));
    let checkpointing = settings.switch(Setting::Checkpointing).map(|told| (told.value, told.line)).or(recompute);
    let kept: &[Checkpointing] = match checkpointing {
        Some((on, line)) => {
            run.fact("checkpointing", if on { "on" } else { "off" }, line);
            if on { &[Checkpointing::Full] } else { &[Checkpointing::None] }
        }
        None => {
            run.assumed.push("checkpointing-open");
            &[Checkpointing::None, Checkpointing::Full]
        }
    };
    let one = |precision: Precision, checkpointing: Checkpointing| Setup { precision, checkpointing, ..setup.clone() };
    kept.iter().flat_map(|&kept| precisions.iter().map(move |&precision| (precision, kept))).map(|(p, k)| one(p, k)).collect()
}
