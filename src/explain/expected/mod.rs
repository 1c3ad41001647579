//! What a memory plan expects of the run that died of a device out-of-memory error.
//!
//! The model is the one whose config the run printed, or one that lies beside the log; the settings are those that the
//! run printed. What is not known is a range, an assumption that is named, or no plan: then only the weights and the
//! states of the parameters are given. Never a number that hides an open question.

mod run;
mod words;

use crate::log::settings::{RunSettings, Setting, Told};
use crate::log::verdict::DeviceOom;
use crate::model::config::Section;
use crate::model::documents::{Document, recognise};
use crate::model::plan::{self, Plan};
use crate::model::quantization::Dtype;
use crate::model::training::{Setup, Task, states};
use crate::model::{self, Model, fit, json};

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
    /// The run printed it, from this line on, 0-based.
    Printed(usize),
    /// The arguments that the run printed describe it.
    Arguments(usize),
    /// A file of this name lies beside the log.
    Beside(String),
    /// The user named the file.
    Named(String),
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
}

/// What is expected of the run that failed with this account. `candidates` are configs found outside the log; they count
/// when the run printed none. None where no config, or more than one model, is in question.
pub fn of(settings: &RunSettings, candidates: &[Candidate], oom: &DeviceOom, ranks: Option<u64>) -> Option<Expected> {
    let (origin, model) = model_of(settings, candidates)?;
    if run::contradicts(settings, &model) {
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
        run,
    })
}

/// The one model that is in question.
fn model_of(settings: &RunSettings, candidates: &[Candidate]) -> Option<(Origin, Model)> {
    let named = candidates.iter().find(|candidate| matches!(candidate.origin, Origin::Named(_)));
    if let Some(named) = named {
        return Some((named.origin.clone(), model::read(&named.text).ok()?));
    }
    let printed: Vec<(usize, Model)> = settings.configs.iter().filter_map(|told| Some((told.line, read_model(&told.value)?))).collect();
    if let Some(((line, first), rest)) = printed.split_first() {
        // Two models in one run (a reward model, a teacher) share the card; a plan of one of them would explain nothing.
        return rest.iter().all(|(_, other)| same(first, other)).then(|| (Origin::Printed(*line), first.clone()));
    }
    if let Some((line, text)) = from_arguments(settings) {
        return Some((Origin::Arguments(line), model::read(&text).ok()?));
    }
    let mut found = candidates.iter().filter_map(|candidate| Some((candidate.origin.clone(), read_model(&candidate.text)?)));
    let first = found.next()?;
    found.all(|(_, other)| same(&first.1, &other)).then_some(first)
}

/// The model of a text that is a model's config.
fn read_model(text: &str) -> Option<Model> {
    let node = json::parse(text).ok()?;
    let root = Section::new(&node);
    matches!(recognise(root), Document::ModelConfig | Document::OriginalParams).then(|| model::from_section(root).ok())?
}

/// Whether a text is the config of a model.
pub fn is_model(text: &str) -> bool {
    read_model(text).is_some()
}

fn same(a: &Model, b: &Model) -> bool {
    (a.total(), &a.model_type, a.dimensions.layers) == (b.total(), &b.model_type, b.dimensions.layers)
}

/// A config from Megatron's arguments, for the two shapes that they describe wholly.
fn from_arguments(settings: &RunSettings) -> Option<(usize, String)> {
    let get = |name: &str| settings.arguments.get(name).map(|told| told.value.as_str());
    let number = |name: &str| get(name)?.parse::<u64>().ok();
    let line = settings.arguments.get("num_layers")?.line;
    settings.arguments.get("tensor_model_parallel_size")?;
    if get("num_experts").is_some_and(|experts| experts != "None") || get("multi_latent_attention") == Some("True") {
        return None;
    }
    let (layers, hidden, heads) = (number("num_layers")?, number("hidden_size")?, number("num_attention_heads")?);
    let (vocab, wide) = (number("padded_vocab_size")?, number("ffn_hidden_size")?);
    let tied = get("untie_embeddings_and_output_weights") == Some("False");
    if get("swiglu") == Some("True") && get("normalization") == Some("RMSNorm") {
        let groups = if get("group_query_attention") == Some("True") { number("num_query_groups")? } else { heads };
        let width = number("kv_channels").unwrap_or(hidden / heads.max(1));
        let text = object(&[
            ("hidden_size", hidden),
            ("num_hidden_layers", layers),
            ("num_attention_heads", heads),
            ("num_key_value_heads", groups),
            ("head_dim", width),
            ("intermediate_size", wide),
            ("vocab_size", vocab),
        ]);
        return Some((line, format!("{{\"model_type\": \"llama\", \"tie_word_embeddings\": {tied}, {text}}}")));
    }
    (get("position_embedding_type") == Some("learned_absolute") && get("swiglu") == Some("False") && tied).then(|| {
        let positions = number("max_position_embeddings").unwrap_or(1024);
        let text = object(&[
            ("n_embd", hidden),
            ("n_layer", layers),
            ("n_head", heads),
            ("n_inner", wide),
            ("n_positions", positions),
            ("vocab_size", vocab),
        ]);
        (line, format!("{{\"model_type\": \"gpt2\", {text}}}"))
    })
}

fn object(members: &[(&str, u64)]) -> String {
    members.iter().map(|(name, value)| format!("\"{name}\": {value}")).collect::<Vec<_>>().join(", ")
}

/// Name of the dtype of the weights, their bytes on one GPU, and whether the run itself said the dtype.
fn held(model: &Model, settings: &RunSettings, run: &Run) -> (&'static str, u64, bool) {
    if let Some(setup) = run.setups.first() {
        let bytes = states::weights(model, setup).0 / (setup.tensor_parallel * setup.pipeline_parallel) as f64;
        let dtype = setup.dtype.or(model.dtype).unwrap_or(Dtype::Bfloat16);
        let name = match (&model.quantization, setup.task) {
            (Some(_), _) => "as stored",
            (None, Task::Qlora) => "4 bits",
            (None, Task::Inference) => dtype.name(),
            _ if states::base_bytes(setup) == 4.0 => "float32",
            _ => "16 bits",
        };
        return (name, bytes as u64, run.has_dtype);
    }
    let told = settings.get(Setting::LoadDtype).or(settings.get(Setting::Dtype)).and_then(|told: Told<&str>| Dtype::parse(told.value));
    let mut setup = Setup::new(Task::Inference);
    setup.dtype = told.filter(|_| model.quantization.is_none());
    let name = if model.quantization.is_some() { "as stored" } else { setup.dtype.or(model.dtype).unwrap_or(Dtype::Bfloat16).name() };
    (name, states::weights(model, &setup).0 as u64, setup.dtype.is_some())
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
    Whole { parts, allocated, total, largest, fits, max_batch }
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
    let loading = settings.training.is_none() && run.task.is_none_or(|task| task == Task::Inference);
    if !loading || weights < LEAST_COPIED || (allocated as f64 / twice as f64 - 1.0).abs() > COPIES {
        return None;
    }
    let narrow = matches!(name, "bfloat16" | "float16");
    Some(if known || !narrow { Copies::Two } else { Copies::TwoOrWide })
}
