//! DeepSpeed's configuration: what a step holds on one GPU, from the file and the config beside it.
//!
//! What the file leaves open comes from the settings or from usual values, and is named.

use std::ops::Range;

use super::{Base, Kin, Said, hint};
use crate::explain::config::budget::{self, Choice};
use crate::explain::config::marks::Mark;
use crate::explain::config::{LANGUAGE, plain, size};
use crate::explain::texts::{fill, text};
use crate::log::units::grouped;
use crate::log::vocabulary::Severity;
use crate::model::Model;
use crate::model::config::Section;
use crate::model::deepspeed::{self, DeepSpeed, USUAL_GPUS};
use crate::model::plan::{self, Plan};
use crate::model::training::zero::{self, Offload};
use crate::model::training::{Checkpointing, Setup, Task};

/// The most GPUs that are looked at for a number that fits.
const MOST_GPUS: u64 = 4096;

/// The file's settings over those of a user, and what had to be assumed.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// How the model is run.
    pub setup: Setup,
    /// What nothing says, in words.
    pub assumed: String,
}

pub(super) fn say(kin: &Kin, base: Option<&Base>, choice: &Choice) -> Said {
    let file = match deepspeed::read(Section::new(&kin.root)) {
        Ok(file) => file,
        Err(error) => {
            let message = fill(LANGUAGE, "kin.value", &[("what", plain(&error.message))]);
            let mark = Mark { span: error.span, code: "config-value", severity: Severity::Warning, message };
            return Said { marks: vec![mark], ..Said::default() };
        }
    };
    let mut said = Said { lens: vec![summary(&file)], marks: refused(kin, &file), ..Said::default() };
    let Some(base) = base else {
        said.lens.push(text(LANGUAGE, "kin.deepspeed.no-base").to_owned());
        return said;
    };
    said.lens.push(fill(LANGUAGE, "kin.base", &[("place", plain(&base.place))]));
    let run = run(&file, &base.model, choice);
    let plan = match plan::of(&base.model, &run.setup) {
        Ok(plan) => plan,
        Err(error) => {
            said.tasks.push(fill(LANGUAGE, "kin.deepspeed.no-plan", &[("why", plain(&error.to_string()))]));
            return said;
        }
    };
    said.tasks = tasks(&base.model, &run, &plan, choice);
    said.hints = hints(kin, &file, &base.model, &run.setup, &plan);
    said
}

/// The run that the file and the choice describe.
pub(super) fn run(file: &DeepSpeed, model: &Model, choice: &Choice) -> Run {
    let task = choice.task.filter(|task| matches!(task, Task::Lora)).unwrap_or(Task::Full);
    let mut setup = budget::setup(model, task, choice);
    let machine = choice.card().map(|card| card.count).filter(|&count| count > 1);
    setup.gpus = choice.gpus.or(machine).unwrap_or(USUAL_GPUS);
    file.put(&mut setup);
    let mut assumed = Vec::new();
    let mut assume = |holds: bool, key: &str, value: String| {
        if holds {
            let values = [("value", value), ("how", String::new())];
            assumed.push(fill(LANGUAGE, &format!("kin.deepspeed.assumed.{key}"), &values));
        }
    };
    assume(file.gpus().is_none() && choice.gpus.or(machine).is_none(), "gpus", grouped(setup.gpus));
    assume(file.batch(setup.gpus).is_none(), "batch", grouped(setup.batch));
    assume(choice.seq.is_none(), "seq", grouped(setup.seq));
    assume(file.precision_open, "precision", file.precision.to_owned());
    let named = file.optimizer.as_deref();
    assume(named.is_none(), "optimizer", String::new());
    assume(file.known_optimizer().is_none(), "optimizer-unknown", named.map(plain).unwrap_or_default());
    assume(task == Task::Lora, "lora", grouped(setup.lora_r));
    assume(true, "checkpointing", String::new());
    let ours = [
        (file.gpus().is_none() && choice.gpus.or(machine).is_none(), "trainwreck.gpus"),
        (choice.seq.is_none(), "trainwreck.sequenceLength"),
    ];
    let settings: Vec<&str> = ours.iter().filter(|(holds, _)| *holds).map(|(_, name)| *name).collect();
    let key = if settings.is_empty() { "kin.deepspeed.assumed" } else { "kin.deepspeed.assumed-set" };
    let assumed = fill(LANGUAGE, key, &[("list", assumed.join(", ")), ("settings", settings.join(", "))]);
    Run { setup, assumed }
}

/// What DeepSpeed refuses at the start.
fn refused(kin: &Kin, file: &DeepSpeed) -> Vec<Mark> {
    let mark = |span: Range<usize>, message: String| Mark { span, code: "deepspeed-refused", severity: Severity::Error, message };
    let mut marks = Vec::new();
    if let (Some(whole), Some(micro), Some(steps)) = (file.train_batch, file.micro_batch, file.accumulation) {
        let one = micro.saturating_mul(steps);
        if let Some(member) = kin.member("train_batch_size").filter(|_| !whole.is_multiple_of(one)) {
            let values = [("whole", grouped(whole)), ("micro", grouped(micro)), ("steps", grouped(steps)), ("one", grouped(one))];
            marks.push(mark(member.node.span.clone(), fill(LANGUAGE, "kin.deepspeed.batches", &values)));
        }
    }
    if let Some(member) = kin.member("fp16").filter(|_| file.both_on) {
        marks.push(mark(member.name_span.clone(), text(LANGUAGE, "kin.deepspeed.both").to_owned()));
    }
    marks
}

/// The run in words.
pub(super) fn what(setup: &Setup) -> String {
    let key = if setup.gpus > 1 { "kin.deepspeed.what" } else { "kin.deepspeed.what-one" };
    let values = [
        ("task", budget::task_name(setup.task).to_owned()),
        ("batch", grouped(setup.batch)),
        ("tokens", grouped(setup.seq)),
        ("gpus", grouped(setup.gpus)),
    ];
    fill(LANGUAGE, key, &values)
}

fn tasks(model: &Model, run: &Run, plan: &Plan, choice: &Choice) -> Vec<String> {
    let setup = &run.setup;
    let mut lines: Vec<String> = budget::line(what(setup), model, setup, choice.card()).into_iter().collect();
    let mut leaner = setup.clone();
    leaner.checkpointing = Checkpointing::Full;
    lines.extend(budget::line(text(LANGUAGE, "kin.deepspeed.checkpointed").to_owned(), model, &leaner, choice.card()));
    if let Some(card) = choice.card() {
        let counts = std::iter::successors(Some(1u64), |&gpus| gpus.checked_mul(2)).take_while(|&gpus| gpus <= MOST_GPUS);
        let total = |gpus: u64| plan::of(model, &Setup { gpus, ..setup.clone() }).ok().map(|plan| plan.total);
        let fits = counts.filter_map(|gpus| Some((gpus, total(gpus)?))).find(|&(_, total)| total <= card.memory).map(|(gpus, _)| gpus);
        let key = if fits.is_some() { "kin.deepspeed.fits" } else { "kin.deepspeed.lacks" };
        let values = [("gpus", grouped(fits.unwrap_or(MOST_GPUS))), ("gpu", plain(&card.id)), ("memory", size(card.memory))];
        lines.push(fill(LANGUAGE, key, &values));
    }
    for (bytes, key) in [(plan.host, "kin.deepspeed.host"), (plan.disk, "kin.deepspeed.disk")] {
        if bytes > 0 {
            lines.push(fill(LANGUAGE, key, &[("bytes", size(bytes)), ("gpus", grouped(setup.gpus))]));
        }
    }
    lines.push(run.assumed.clone());
    lines
}

/// What keys of the file stand for in bytes on one GPU.
fn hints(kin: &Kin, file: &DeepSpeed, model: &Model, setup: &Setup, plan: &Plan) -> Vec<crate::explain::config::Hint> {
    let mut hints = Vec::new();
    let block = kin.root.get("zero_optimization");
    let mut add = |member: Option<&crate::model::json::Member>, key: &str, bytes: u64| {
        if let Some(member) = member.filter(|_| bytes > 0) {
            hints.push(hint(member, fill(LANGUAGE, key, &[("bytes", size(bytes))])));
        }
    };
    let inside = |name: &str| block.and_then(|block| block.member(name));
    add(inside("stage"), "kin.deepspeed.hint.stage", zero::states_of(model, setup) as u64);
    add(kin.member("train_micro_batch_size_per_gpu"), "kin.deepspeed.hint.batch", sum(plan, &["activations", "logits and loss"]));
    let saved = |change: fn(&mut Setup)| {
        let mut other = setup.clone();
        change(&mut other);
        plan::of(model, &other).map_or(0, |other| other.total.saturating_sub(plan.total))
    };
    if file.zero.optimizer != Offload::None {
        let bytes = saved(|setup| setup.sharing.iter_mut().for_each(|zero| zero.optimizer = Offload::None));
        add(inside("offload_optimizer"), "kin.deepspeed.hint.offload", bytes);
    }
    if file.zero.parameters != Offload::None {
        let bytes = saved(|setup| setup.sharing.iter_mut().for_each(|zero| zero.parameters = Offload::None));
        add(inside("offload_param"), "kin.deepspeed.hint.offload", bytes);
    }
    add(inside("reduce_bucket_size"), "kin.deepspeed.hint.bucket", term(plan, "communication buckets"));
    add(inside("stage3_max_live_parameters"), "kin.deepspeed.hint.live", term(plan, "gathered weights"));
    hints
}

/// Bytes of a term at the peak.
fn term(plan: &Plan, name: &str) -> u64 {
    sum(plan, &[name])
}

fn sum(plan: &Plan, names: &[&str]) -> u64 {
    plan.terms.iter().filter(|term| names.contains(&term.name)).map(|term| term.bytes).fold(0, u64::saturating_add)
}

fn summary(file: &DeepSpeed) -> String {
    let mut parts = vec![fill(LANGUAGE, "kin.deepspeed", &[("stage", file.stage.to_string()), ("precision", file.precision.to_owned())])];
    for (place, what) in [(file.zero.optimizer, "optimizer"), (file.zero.parameters, "parameters")] {
        let to = match place {
            Offload::None => continue,
            Offload::Host => "host",
            Offload::Disk => "disk",
        };
        parts.push(text(LANGUAGE, &format!("kin.deepspeed.offload-{what}-{to}")).to_owned());
    }
    let mut number = |key: &str, value: Option<u64>| parts.extend(value.map(|value| fill(LANGUAGE, key, &[("count", grouped(value))])));
    number("kin.deepspeed.micro", file.micro_batch);
    number("kin.deepspeed.accumulation", file.accumulation);
    number("kin.deepspeed.gpus", file.gpus());
    parts.join(", ")
}
