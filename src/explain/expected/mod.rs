//! What a memory plan expects of the run that died of a device out-of-memory error.
//!
//! The model is the one whose config the run printed, or one that lies beside the log; the settings are those that the
//! run printed. What is not known is a range, an assumption that is named, or no plan: then only the weights and the
//! states of the parameters are given. Never a number that hides an open question.

mod candidates;
mod run;
mod states;
mod words;

use crate::log::settings::{self, At, RunSettings, Setting, Told};
use crate::log::verdict::{DeviceOom, Verdict};
use crate::log::{Analysis, Finding};
use crate::model::plan::{self, Plan};
use crate::model::quantization::Dtype;
use crate::model::training::{self, Setup, Task};
use crate::model::{Model, fit};
use crate::text::Lines;

pub use candidates::is_model;
pub use run::{Fact, Run};
pub use words::{lines, markdown};

/// Two copies of the weights are named within this share of twice their size.
const COPIES: f64 = 0.015;
/// Weights below this are no news beside other tensors.
const LEAST_COPIED: u64 = 1 << 29;
/// States of the parameters, in the order of a table.
const STATES: [&str; 3] = ["weights", "gradients", "optimiser states"];

/// Where a config was found.
#[derive(Clone, Debug, PartialEq)]
pub enum Origin {
    /// The run printed it, from this line on.
    Printed(At),
    /// The arguments that the run printed describe it.
    Arguments(At),
    /// A file of this name lies beside the log.
    Beside(String),
    /// The user named the file.
    Named,
}

/// A config that was found outside the log.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// Where.
    pub origin: Origin,
    /// Its text.
    pub text: String,
}

/// A part of memory with its bounds over all settings that the log leaves open.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// What it is.
    pub name: &'static str,
    /// Least bytes.
    pub low: u64,
    /// Most bytes.
    pub high: u64,
}

/// How a plan sits on the card of the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fits {
    /// Even the upper end is below the card.
    Yes,
    /// Even the lower end is above it.
    No,
    /// The card lies inside the range.
    Open,
}

/// The plan of a whole step or of serving.
#[derive(Clone, Debug, PartialEq)]
pub struct Whole {
    /// Terms at the peak, the largest first; small ones are left out.
    pub parts: Vec<Part>,
    /// Tensors at the peak.
    pub allocated: Part,
    /// What the card must hold.
    pub total: Part,
    /// The total in the middle of its range, where nothing is open.
    pub middle: Option<u64>,
    /// The largest term, where it is the same for all open settings.
    pub largest: Option<&'static str>,
    /// Whether it fits the card.
    pub fits: Option<Fits>,
    /// The largest batch that fits, where nothing is open.
    pub max_batch: Option<u64>,
}

/// What the weights in memory come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copies {
    /// Twice the weights in a dtype that is known: two copies of the model.
    Two,
    /// Twice the weights as stored in 16 bits: two copies, or one in 32 bits.
    TwoOrWide,
}

/// What is expected of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Expected {
    /// Class of the model.
    pub architecture: String,
    /// All parameters.
    pub parameters: u64,
    /// Whether the count is exact.
    pub exact: bool,
    /// Where its config was found.
    pub origin: Origin,
    /// What the log says of the run.
    pub run: Run,
    /// The plan, where the log says enough.
    pub whole: Option<Whole>,
    /// Weights, and the states of the parameters where the task is known; on one GPU.
    pub states: Vec<Part>,
    /// Dtype of the weights.
    pub dtype: &'static str,
    /// Sequences or tokens that fit the card where only one of the two is known: least, most.
    pub room: Option<(u64, u64)>,
    /// Memory of the card.
    pub card: Option<u64>,
    /// Live tensors at the failure.
    pub allocated: Option<u64>,
    /// Twice the weights.
    pub copies: Option<Copies>,
    /// Share of the card that a server takes.
    pub share: Option<f64>,
    /// Steps whose gradients are added up, as the run prints them.
    pub accumulation: Option<u64>,
    /// Names of the other files of the run that say something.
    pub files: Vec<String>,
}

/// What another file of the run prints of itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Other {
    /// How the file is called.
    pub name: String,
    /// Its settings.
    pub settings: RunSettings,
}

/// What is looked at beside a log, when it is needed.
#[derive(Clone, Copy)]
pub struct Around<'a> {
    /// The config that the user named; it comes before all others.
    pub named: Option<&'a Candidate>,
    /// Finds the configs beside the log; asked when the run printed none.
    pub beside: &'a dyn Fn() -> Vec<Candidate>,
    /// Reads the other files of the run.
    pub others: &'a dyn Fn() -> Vec<Other>,
}

/// What is expected of the run that failed with this account. `candidates` are configs found outside the log; they count
/// when the run printed none. None where no config, or more than one model, is in question.
fn of(settings: &RunSettings, candidates: &[Candidate], oom: &DeviceOom, ranks: Option<u64>) -> Option<Expected> {
    let (origin, model) = candidates::model_of(settings, candidates)?;
    if candidates::contradicts(settings, &model) || origin != Origin::Named && !candidates::stands_alone(settings, &model) {
        return None;
    }
    let run = run::of(settings, &model, ranks);
    let plans: Vec<(&Setup, Plan)> = run.setups.iter().filter_map(|setup| Some((setup, plan::of(&model, setup).ok()?))).collect();
    let complete = run.has_batch && run.has_length && !plans.is_empty() && plans.len() == run.setups.len();
    let card = oom.total;
    let held = held(&model, settings, &run);
    Some(Expected {
        architecture: model.architecture.clone(),
        parameters: model.total(),
        exact: model.is_exact(),
        origin,
        whole: complete.then(|| whole(&model, &plans, card)),
        states: states_of(&model, &run, held.1),
        dtype: held.0,
        room: if complete { None } else { room(&model, &run, card) },
        card,
        allocated: oom.allocated,
        copies: copies(&run, settings, held, oom.allocated),
        share: settings.get(Setting::MemoryShare).and_then(|told| told.value.parse().ok()).filter(|share| (0.01..=1.0).contains(share)),
        accumulation: settings.number(Setting::Accumulation).map(|told| told.value),
        run,
        files: Vec::new(),
    })
}

/// What is expected of the run whose device out-of-memory error a finding is; none for other findings.
///
/// Rank 0 of a run prints its settings, and another rank may fail: what the file does not say, the others may.
pub fn of_finding(analysis: &Analysis, finding: &Finding, lines: &dyn Lines, around: Around<'_>) -> Option<Expected> {
    let Some(Verdict::DeviceOom(oom)) = &finding.verdict else { return None };
    let mut settings = settings::read(lines, finding.span.line);
    let (files, others): (Vec<String>, Vec<RunSettings>) = (around.others)().into_iter().map(|one| (one.name, one.settings)).unzip();
    settings::add_others(&mut settings, &others);
    // Several ranks write into this log: at least so many take part.
    let ranks = analysis.story.groups.iter().filter_map(|group| group.ranks.last()).max().map(|last| u64::from(*last) + 1);
    let world = analysis.story.of_run.as_ref().and_then(|collective| collective.world).or(analysis.story.ranks.world);
    let candidates = match around.named {
        Some(named) => vec![named.clone()],
        None if settings.configs.is_empty() => (around.beside)(),
        None => Vec::new(),
    };
    let expected = of(&settings, &candidates, oom, world.map(u64::from).or(ranks))?;
    Some(Expected { files, ..expected })
}

/// Name of the dtype of the weights, their bytes on one GPU, and whether the run itself said the dtype.
fn held(model: &Model, settings: &RunSettings, run: &Run) -> (&'static str, u64, bool) {
    if let Some(setup) = run.setups.first() {
        let bytes = training::states::weights(model, setup).0 / setup.tensor_parallel as f64 / setup.pipeline_parallel as f64;
        let dtype = setup.dtype.or(model.dtype).unwrap_or(Dtype::Bfloat16);
        let name = match (&model.quantization, setup.task) {
            (Some(_), _) => "as stored",
            (None, Task::Qlora) => "4 bits",
            (None, Task::Inference) => dtype.name(),
            _ if training::states::base_bytes(setup) == 4.0 => "float32",
            _ => "16 bits",
        };
        return (name, bytes as u64, run.has_dtype);
    }
    let told = settings.get(Setting::LoadDtype).or(settings.get(Setting::Dtype)).and_then(|told: Told<&str>| Dtype::parse(told.value));
    let mut setup = Setup::new(Task::Inference);
    let told = told.filter(|_| model.quantization.is_none());
    // A log that says nothing is taken for a run in 16 bits.
    setup.dtype = told.or((model.dtype.is_none() && model.quantization.is_none()).then_some(Dtype::Bfloat16));
    let name = if model.quantization.is_some() { "as stored" } else { setup.dtype.or(model.dtype).unwrap_or(Dtype::Bfloat16).name() };
    (name, training::states::weights(model, &setup).0 as u64, told.is_some())
}

fn whole(model: &Model, plans: &[(&Setup, Plan)], card: Option<u64>) -> Whole {
    let mut parts: Vec<Part> = Vec::new();
    for (nth, (_, plan)) in plans.iter().enumerate() {
        for term in plan.terms.iter().filter(|term| term.allocated) {
            match parts.iter_mut().find(|part| part.name == term.name) {
                Some(part) => (part.low, part.high) = (part.low.min(term.low), part.high.max(term.high)),
                // What another setting does not need at all may be nothing.
                None => parts.push(Part { name: term.name, low: if nth == 0 { term.low } else { 0 }, high: term.high }),
            }
        }
        let has = |part: &Part| plan.terms.iter().any(|term| term.name == part.name);
        parts.iter_mut().filter(|part| !has(part)).for_each(|part| part.low = 0);
    }
    let span = |name: &'static str, low: fn(&Plan) -> u64, high: fn(&Plan) -> u64| Part {
        name,
        low: plans.iter().map(|(_, plan)| low(plan)).min().unwrap_or(0),
        high: plans.iter().map(|(_, plan)| high(plan)).max().unwrap_or(0),
    };
    let allocated = span("allocated", |plan| plan.allocated_low, |plan| plan.allocated_high);
    let total = span("total", |plan| plan.total_low, |plan| plan.total_high);
    let largest_of = |plan: &Plan| plan.terms.iter().filter(|term| term.allocated).max_by_key(|term| term.bytes).map(|term| term.name);
    let largest =
        plans.first().and_then(|(_, plan)| largest_of(plan)).filter(|name| plans.iter().all(|(_, p)| largest_of(p) == Some(name)));
    let fits = card.map(|card| match () {
        () if total.high <= card => Fits::Yes,
        () if total.low > card => Fits::No,
        () => Fits::Open,
    });
    parts.sort_by_key(|part| std::cmp::Reverse(part.high));
    let least = total.high / 100;
    parts.retain(|part| part.high > least);
    let max_batch = match plans {
        [(setup, _)] if setup.task != Task::Inference => card.and_then(|card| Some(fit::of(model, setup, card).ok()?.max_batch)),
        _ => None,
    };
    let middle = if let [(_, plan)] = plans { Some(plan.total) } else { None };
    Whole { parts, allocated, total, middle, largest, fits, max_batch }
}

/// Weights, and the other states of the parameters where the task is known: they hang on neither batch nor length.
fn states_of(model: &Model, run: &Run, weights: u64) -> Vec<Part> {
    let alone = vec![Part { name: STATES[0], low: weights, high: weights }];
    if run.task.is_none_or(|task| task == Task::Inference) || run.setups.is_empty() {
        return alone;
    }
    let mut parts: Vec<Part> = Vec::new();
    for setup in &run.setups {
        let smallest = Setup { batch: 1, seq: 1, ..(*setup).clone() };
        let Ok(plan) = plan::of(model, &smallest) else { return alone };
        for name in STATES {
            let Some(term) = plan.terms.iter().find(|term| term.name == name) else { continue };
            match parts.iter_mut().find(|part| part.name == name) {
                Some(part) => (part.low, part.high) = (part.low.min(term.bytes), part.high.max(term.bytes)),
                None => parts.push(Part { name, low: term.bytes, high: term.bytes }),
            }
        }
    }
    parts
}

/// Sequences or tokens that fit beside the states, where only one of the two is known.
fn room(model: &Model, run: &Run, card: Option<u64>) -> Option<(u64, u64)> {
    let card = card?;
    if run.has_batch == run.has_length || run.task == Some(Task::Inference) {
        return None;
    }
    let mut found: Vec<u64> = Vec::new();
    for setup in &run.setups {
        let fit = fit::of(model, setup, card).ok()?;
        found.push(if run.has_batch { fit.max_context } else { fit.max_batch });
    }
    Some((found.iter().copied().min()?, found.iter().copied().max()?))
}

/// Whether the live tensors are twice the weights and nothing else, as while a model is loaded once more.
fn copies(run: &Run, settings: &RunSettings, (name, weights, known): (&str, u64, bool), allocated: Option<u64>) -> Option<Copies> {
    let allocated = allocated?;
    let twice = weights.checked_mul(2)?;
    // A training step holds gradients and states, which may come to the same.
    // A server's cache may come to the same by chance.
    let loading = settings.engine.is_none() && settings.training.is_none() && run.task.is_none_or(|task| task == Task::Inference);
    if !loading || weights < LEAST_COPIED || (allocated as f64 / twice as f64 - 1.0).abs() > COPIES {
        return None;
    }
    let narrow = matches!(name, "bfloat16" | "float16");
    Some(if known || !narrow { Copies::Two } else { Copies::TwoOrWide })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::StrLines;

    const CONFIG: &str = r#"{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "intermediate_size": 11008,
        "num_hidden_layers": 32, "num_attention_heads": 32, "vocab_size": 32000, "torch_dtype": "bfloat16", "tie_word_embeddings": false}"#;
    const GIB: f64 = (1u64 << 30) as f64;

    fn told(log: &str, allocated: f64, total: f64) -> Option<Expected> {
        let settings = settings::read(&StrLines::new(log), usize::MAX);
        let bytes = |gib: f64| Some((gib * GIB) as u64);
        let oom = DeviceOom { total: bytes(total), allocated: bytes(allocated), ..DeviceOom::default() };
        of(&settings, &[Candidate { origin: Origin::Beside("config.json".to_owned()), text: CONFIG.to_owned() }], &oom, None)
    }

    #[test]
    fn counts_that_contradict_take_the_config_away() {
        assert!(told("Number of trainable parameters = 6,738,415,616\n", 70.0, 79.25).is_some());
        assert_eq!(told("Number of trainable parameters = 13,015,864,320\n", 70.0, 79.25), None);
        assert_eq!(told("trainable params: 4,194,304 || all params: 13,020,058,624 || trainable%: 0.03\n", 70.0, 79.25), None);
    }

    #[test]
    fn a_thin_log_gives_states_alone() {
        let only = told("***** Running training *****\nNumber of trainable parameters = 6,738,415,616\n", 20.0, 23.64).unwrap();
        assert!(only.whole.is_none() && only.run.task == Some(Task::Full) && only.states.len() == 3);
        // 32 or 16 bits: the log leaves it open.
        assert_eq!(only.states[0].high, 2 * only.states[0].low);
        let nothing = told("step 1\n", 3.0, 23.64).unwrap();
        assert_eq!((nothing.run.missing.as_slice(), nothing.states.len()), (["task"].as_slice(), 1));
    }

    #[test]
    fn what_the_plan_does_not_know_is_said() {
        let missing = |log: &str| told(log, 20.0, 79.25).unwrap().run.missing;
        assert_eq!(missing("per_device_train_batch_size=4,\nzero_optimization_stage ...... 3\n"), ["gpus"]);
        assert_eq!(missing("per_device_train_batch_size=4,\noptim=lomo,\n"), ["optimizer"]);
        assert_eq!(missing("per_device_train_batch_size=4,\nInitializing an LLM engine (v0.6) with config: model='x'\n"), ["both"]);
        assert_eq!(missing("Number of trainable parameters = 500,000,000\n"), ["frozen"]);
    }

    #[test]
    fn a_whole_plan_has_a_range_and_a_largest_term() {
        let log = "per_device_train_batch_size=1,\nbf16=True,\ngradient_checkpointing=True,\ncutoff_len: 1024\nunder default dtype torch.bfloat16.\n";
        let plan = told(log, 50.0, 79.25).unwrap().whole.unwrap();
        assert_eq!((plan.largest, plan.fits), (Some("optimiser states"), Some(Fits::Yes)));
        assert!(plan.total.low < plan.allocated.high && plan.allocated.high < plan.total.high);
        let sharded = format!("{log}zero_optimization_stage ...... 3\n  world_size ................... 8\n");
        let sharded = told(&sharded, 50.0, 79.25).unwrap().whole.unwrap();
        assert!(sharded.total.high < plan.total.high / 2);
    }

    #[test]
    fn two_copies_are_named_only_without_training() {
        let weights = 6_738_415_616.0 * 2.0 / GIB;
        assert_eq!(told("Loading checkpoint shards\n", 2.0 * weights, 31.4).unwrap().copies, Some(Copies::TwoOrWide));
        assert_eq!(told("under default dtype torch.bfloat16.\n", 2.0 * weights, 31.4).unwrap().copies, Some(Copies::Two));
        assert_eq!(told("Loading checkpoint shards\n", 2.1 * weights, 31.4).unwrap().copies, None);
        assert_eq!(told("per_device_train_batch_size=1,\n", 2.0 * weights, 31.4).unwrap().copies, None);
    }

    #[test]
    fn deepspeed_tells_its_share() {
        let json = "json = {\n    \"train_batch_size\": 64,\n    \"train_micro_batch_size_per_gpu\": 4,\n    \"gradient_accumulation_steps\": 2,\n    \"steps_per_print\": inf,\n    \"bf16\": {\n        \"enabled\": true\n    },\n    \"zero_optimization\": {\n        \"stage\": 2\n    }\n}\n";
        let run = told(json, 20.0, 79.25).unwrap().run;
        let setup = &run.setups[0];
        assert_eq!((setup.gpus, setup.zero, setup.batch, setup.precision), (8, 2, 4, crate::model::training::Precision::Bf16));
        let offload = json.replace("\"stage\": 2", "\"stage\": 2, \"offload_optimizer\": {\"device\": \"cpu\"}");
        assert_eq!(told(&offload, 20.0, 79.25).unwrap().run.missing, ["offload"]);
    }

    #[test]
    fn a_text_encoder_is_no_run() {
        let encoder = CONFIG.replace("LlamaForCausalLM", "CLIPTextModel");
        let candidates = [Candidate { origin: Origin::Beside(String::new()), text: encoder }];
        assert_eq!(of(&RunSettings::default(), &candidates, &DeviceOom::default(), None), None);
    }

    #[test]
    fn two_models_are_none() {
        let dump = |hidden: u64| format!("Model config LlamaConfig {{\n{}\n", &CONFIG.replace("4096", &hidden.to_string())[1..]);
        let settings = |log: &str| settings::read(&StrLines::new(log), usize::MAX);
        assert!(candidates::model_of(&settings(&dump(4096)), &[]).is_some());
        assert!(candidates::model_of(&settings(&(dump(4096) + &dump(2048))), &[]).is_none());
    }

    #[test]
    fn megatron_describes_its_model() {
        let log = "num_layers ...... 32\nhidden_size ...... 4096\nnum_attention_heads ...... 32\npadded_vocab_size ...... 32000\nffn_hidden_size ...... 11008\ntensor_model_parallel_size ...... 2\nswiglu ...... True\nnormalization ...... RMSNorm\nuntie_embeddings_and_output_weights ...... True\ngroup_query_attention ...... False\nnum_experts ...... None\n";
        let settings = settings::read(&StrLines::new(log), usize::MAX);
        let (origin, model) = candidates::model_of(&settings, &[]).unwrap();
        assert_eq!((origin, model.total()), (Origin::Arguments(At::here(0)), 6_738_415_616));
    }
}
