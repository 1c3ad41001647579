//! What `trainwreck fit` is given: a model's config, or a file around one, with the config it belongs to.

use std::path::Path;

use super::fit_flags::Flags;
use crate::explain::config::kin::Base;
use crate::explain::config::{self, Choice, Outcome};
use crate::explain::texts::{Language, fill};
use crate::files::{input, models};
use crate::log::units::grouped;
use crate::model::adapter::{self, Adapter};
use crate::model::config::{ConfigError, Section};
use crate::model::deepspeed::{self, DeepSpeed, USUAL_GPUS};
use crate::model::documents::{self, Document};
use crate::model::json::{self, Node};
use crate::model::training::{Setup, Task};
use crate::model::{self, Model};

/// The largest config that is read beside another file, in bytes.
const MOST_BYTES: u64 = 2 << 20;
const LANGUAGE: Language = Language::English;

/// A model and how it is run.
pub struct Input {
    /// The model.
    pub model: Model,
    /// How it is run.
    pub setup: Setup,
    /// What was taken from where, and what nothing says.
    pub notes: Vec<String>,
}

/// Why there is no model.
pub struct Problem {
    /// What, why, and what to do.
    pub message: String,
    /// The key, and its line and column from 1.
    pub place: Option<(String, usize, usize)>,
}

impl From<String> for Problem {
    fn from(message: String) -> Self {
        Problem { message, place: None }
    }
}

/// Reads a file that was named, with the configuration of DeepSpeed that was named beside it.
pub fn read(path: &Path, flags: &Flags, deepspeed: Option<&Path>) -> Result<Input, Problem> {
    let text = input::config(path)?;
    let at = |error: ConfigError| located(&text, error);
    let (named, refused) = deepspeed.map(read_deepspeed).transpose()?.unzip();
    // What is no JSON is told by the reader of configs.
    let root = json::parse(&text).ok();
    let document = root.as_ref().map_or(Document::Other, |root| documents::recognise(Section::new(root)));
    let mut input = match (document, root.as_ref()) {
        (Document::AdapterConfig, Some(root)) => {
            with_adapter(path, &text, root, flags, named.as_ref()).map_err(|problem| problem.or(at))?
        }
        (Document::DeepSpeedConfig, Some(root)) => {
            let own = deepspeed::read(Section::new(root)).map_err(at)?;
            let (model, place, _) = base(path, None, false)?;
            let mut input = planned(model, flags, Some(&own), None)?;
            input.notes.insert(0, format!("model: {place}"));
            input.notes.extend(marks(&text, None));
            input
        }
        (Document::WeightsIndex | Document::GenerationConfig | Document::TrainerState, _) => {
            return Err(format!("a file that lies beside a model's config, and no config; give the {} of the model", models::CONFIG).into());
        }
        _ => planned(model::read(&text).map_err(at)?, flags, named.as_ref(), None)?,
    };
    // A file of its own goes before one that is named beside it.
    if document != Document::DeepSpeedConfig {
        input.notes.extend(refused.into_iter().flatten());
    }
    Ok(input)
}

/// Either a place in the file, or a message.
enum Why {
    Key(ConfigError),
    Other(Problem),
}

impl Why {
    fn or(self, at: impl Fn(ConfigError) -> Problem) -> Problem {
        match self {
            Why::Key(error) => at(error),
            Why::Other(problem) => problem,
        }
    }
}

fn with_adapter(path: &Path, text: &str, root: &Node, flags: &Flags, deepspeed: Option<&DeepSpeed>) -> Result<Input, Why> {
    let adapter = adapter::read(Section::new(root)).map_err(Why::Key)?;
    let (model, place, config) = base(path, adapter.base.as_deref(), true).map_err(Why::Other)?;
    let mut input = planned(model, flags, deepspeed, Some(&adapter)).map_err(Why::Other)?;
    input.notes.insert(0, format!("model: {place}"));
    input.notes.extend(marks(text, Base::read(place, &config).as_ref()));
    Ok(input)
}

/// A configuration of DeepSpeed, and what the editor marks in it.
fn read_deepspeed(path: &Path) -> Result<(DeepSpeed, Vec<String>), Problem> {
    let name = path.display();
    let text = input::config(path).map_err(|why| format!("--deepspeed {name}: {why}"))?;
    let root = json::parse(&text).map_err(|error| format!("--deepspeed {name}: not valid JSON: {error}"))?;
    if documents::recognise(Section::new(&root)) != Document::DeepSpeedConfig {
        return Err(format!("--deepspeed {name}: no configuration of DeepSpeed; it has no `zero_optimization` or batch size of one").into());
    }
    let file = deepspeed::read(Section::new(&root)).map_err(|error| format!("--deepspeed {name}: {error}"))?;
    Ok((file, marks(&text, None)))
}

/// What the editor marks in a file around a model.
fn marks(text: &str, base: Option<&Base>) -> Vec<String> {
    match config::read(text) {
        Outcome::Kin(kin) => kin.say(base, &Choice::default()).marks.into_iter().map(|mark| mark.message).collect(),
        _ => Vec::new(),
    }
}

/// The config that a file belongs to, its place and its text.
fn base(path: &Path, name: Option<&str>, above: bool) -> Result<(Model, String, String), Problem> {
    let places = models::places(path, name, above);
    for (place, file) in &places {
        let Some(text) = models::read(file, MOST_BYTES) else { continue };
        let model = model::read(&text).map_err(|error| format!("{place}: {error}"))?;
        return Ok((model, place.clone(), text));
    }
    let looked: Vec<&str> = places.iter().map(|(place, _)| place.as_str()).collect();
    let cache = if name.is_some() && places.len() < 3 { " (nor a model of this name in the local cache)" } else { "" };
    Err(format!("its model was not found: no {}{cache}; give the config of the model instead", looked.join(", no ")).into())
}

fn planned(model: Model, flags: &Flags, file: Option<&DeepSpeed>, adapter: Option<&Adapter>) -> Result<Input, Problem> {
    let lora = adapter.map(|adapter| (adapter.rank, adapter.target_names(&model.inventory)));
    let mut setup = flags.over(file, lora)?;
    if flags.seq.is_none() {
        setup = setup.within(&model);
    }
    let mut notes = Vec::new();
    if let Some(adapter) = adapter {
        let counted = model::training::states::adapter(&model, &setup).0.trainable(&model.inventory);
        let own = adapter.trainable(&model.inventory);
        if counted != own && setup.is_lora() {
            notes.push(format!("the adapter trains {own} parameters; the plan takes its modules in all layers, which are {counted}"));
        }
    }
    notes.extend(file.and_then(|file| assumed(file, flags, &setup)));
    Ok(Input { model, setup, notes })
}

/// What neither the file of DeepSpeed nor a flag says.
fn assumed(file: &DeepSpeed, flags: &Flags, setup: &Setup) -> Option<String> {
    let mut list = Vec::new();
    let mut assume = |holds: bool, key: &str, value: String, how: &str| {
        if holds {
            let values = [("value", value), ("how", how.to_owned())];
            list.push(fill(LANGUAGE, &format!("kin.deepspeed.assumed.{key}"), &values));
        }
    };
    let usual = flags.gpus.is_none() && file.gpus().is_none() && setup.gpus == USUAL_GPUS && !flags.names_machine();
    assume(usual, "gpus", grouped(setup.gpus), " (--gpus)");
    assume(flags.batch.is_none() && file.batch(setup.gpus).is_none(), "batch", grouped(setup.batch), "");
    assume(flags.seq.is_none(), "seq", grouped(setup.seq), " (--seq)");
    assume(flags.precision.is_none() && file.precision_open, "precision", file.precision.to_owned(), "");
    assume(flags.optimizer.is_none() && file.optimizer.is_none(), "optimizer", String::new(), "");
    let unknown = file.optimizer.clone().filter(|_| flags.optimizer.is_none() && file.known_optimizer().is_none());
    assume(unknown.is_some(), "optimizer-unknown", unknown.unwrap_or_default(), "");
    assume(flags.lora_r.is_none() && setup.task == Task::Lora, "lora", grouped(setup.lora_r), "");
    (!list.is_empty()).then(|| fill(LANGUAGE, "kin.deepspeed.assumed", &[("list", list.join(", "))]))
}

fn located(text: &str, error: ConfigError) -> Problem {
    let (line, column) = position(text, error.span.start);
    Problem { message: error.to_string(), place: Some((error.key, line, column)) }
}

/// Line and column of a byte offset, both from 1; columns count characters.
fn position(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
    (line, column)
}
