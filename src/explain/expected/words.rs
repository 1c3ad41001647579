//! The expectation in words: a section of the hover, lines of a terminal.

use super::{Copies, Expected, Fits, Origin, Part, Run, STATES, Whole};
use crate::explain::markdown::{code, escape};
use crate::explain::texts::{Language, fill, text};
use crate::gpu;
use crate::log::settings::At;
use crate::log::units::{binary, grouped};
use crate::model::training::Task;

/// Rows of terms in the table of a hover.
const MOST_ROWS: usize = 6;
/// A batch is cut into at most so many parts.
const MOST_PARTS: u64 = 4096;

/// The section of a hover.
pub fn markdown(expected: &Expected, language: Language) -> String {
    let heading = fill(language, "expected.heading", &[("model", escape(&expected.architecture)), ("run", run(&expected.run, language))]);
    let mut out = vec![format!("**{heading}**"), table(expected, language)];
    out.push(sentences(expected, language).join(" "));
    out.push(sources(expected, language).join(" "));
    out.retain(|part| !part.is_empty());
    out.join("\n\n")
}

/// At most three lines for a terminal: what is expected, what follows, what it rests on.
pub fn lines(expected: &Expected, language: Language) -> Vec<String> {
    let values = [
        ("model", expected.architecture.clone()),
        ("run", run(&expected.run, language)),
        ("parts", parts(expected).iter().map(|part| format!("{} {}", part.name, span(part))).collect::<Vec<_>>().join(", ")),
    ];
    let mut rests = vec![origin(expected, &str::to_owned, language)];
    rests.extend(assumed(expected, language));
    let out = [fill(language, "expected.line", &values), sentences(expected, language).join(" "), rests.join(" ")];
    out.into_iter().filter(|line| !line.is_empty()).map(|line| crate::explain::markdown::plain(&line)).collect()
}

/// What the model was run for, with batch and length: `full training, 8 x 2,048 tokens a GPU`.
fn run(run: &Run, language: Language) -> String {
    let Some(task) = run.task else { return text(language, "expected.run.unknown").to_owned() };
    let name = text(language, task_key(task));
    let Some(setup) = run.setups.first() else { return name.to_owned() };
    let values = [("batch", grouped(setup.batch)), ("length", grouped(setup.seq)), ("task", name.to_owned())];
    let key = match (task, run.has_batch, run.has_length) {
        (Task::Inference, _, true) => "expected.run.served",
        (Task::Inference, ..) => return name.to_owned(),
        (_, true, true) => "expected.run.whole",
        (_, true, false) => "expected.run.batch",
        (_, false, true) => "expected.run.length",
        (_, false, false) => return name.to_owned(),
    };
    fill(language, key, &values)
}

/// Key of the text of a task.
pub(super) fn task_key(task: Task) -> &'static str {
    match task {
        Task::Inference => "expected.task.inference",
        Task::Full => "expected.task.full",
        Task::Lora => "expected.task.lora",
        Task::Qlora => "expected.task.qlora",
    }
}

fn parts(expected: &Expected) -> &[Part] {
    let parts = expected.whole.as_ref().map_or(expected.states.as_slice(), |whole| &whole.parts);
    &parts[..parts.len().min(MOST_ROWS)]
}

fn span(part: &Part) -> String {
    let (low, high) = (binary(part.low), binary(part.high));
    match part.low {
        _ if low == high => high,
        0 => format!("up to {high}"),
        _ => format!("{low} to {high}"),
    }
}

fn table(expected: &Expected, language: Language) -> String {
    let mut out =
        format!("| {} | {} |\n|:--|--:|\n", fill(language, "table.head", &[("card", "GPU".to_owned())]), text(language, "expected.column"));
    let mut row = |name: &str, bytes: String| out.push_str(&format!("| {name} | {bytes} |\n"));
    for part in parts(expected) {
        row(part.name, span(part));
    }
    if let Some(whole) = &expected.whole {
        row(text(language, "expected.total"), total(whole, language));
    }
    if let Some(card) = expected.card {
        row(text(language, "expected.card"), card_words(card, language));
    }
    out
}

/// The total with its range, and the middle of it where nothing is open.
fn total(whole: &Whole, language: Language) -> String {
    match whole.middle {
        Some(middle) => fill(language, "expected.middle", &[("middle", binary(middle)), ("range", span(&whole.total))]),
        None => span(&whole.total),
    }
}

/// `79.25 GiB, the 80 GB class`.
fn card_words(card: u64, language: Language) -> String {
    match gpu::recognise(card).class_gb {
        Some(gb) => fill(language, "expected.class", &[("bytes", binary(card)), ("gb", gb.to_string())]),
        None => binary(card),
    }
}

/// What follows from the numbers.
fn sentences(expected: &Expected, language: Language) -> Vec<String> {
    let say = |key: &str, values: &[(&str, String)]| fill(language, key, values);
    let mut out = Vec::new();
    let weights = expected.states.first().map_or(0, |part| part.high);
    match expected.copies {
        Some(Copies::Two) => out.push(say("expected.copies", &[("weights", binary(weights))])),
        Some(Copies::TwoOrWide) => {
            out.push(say("expected.copies-or-wide", &[("weights", binary(weights)), ("dtype", expected.dtype.to_owned())]));
        }
        None => {}
    }
    let Some(whole) = &expected.whole else {
        out.extend(thin(expected, language));
        return out;
    };
    let (total, card) = (total(whole, language), expected.card.map_or_else(String::new, binary));
    if let Some(largest) = whole.largest {
        let bytes = whole.parts.iter().find(|part| part.name == largest).map_or_else(String::new, span);
        out.push(say("expected.largest", &[("name", largest.to_owned()), ("bytes", bytes)]));
    }
    if expected.run.task == Some(Task::Inference) {
        out.push(served(expected, whole, language));
        return out;
    }
    let key = match whole.fits {
        Some(Fits::Yes) => "expected.fits",
        Some(Fits::No) => "expected.too-large",
        Some(Fits::Open) => match (whole.middle, expected.card) {
            (Some(middle), Some(card)) if middle > card => "expected.open-above",
            (Some(_), Some(_)) => "expected.open-below",
            _ => "expected.open",
        },
        None => return out,
    };
    out.push(say(key, &[("total", total), ("card", card)]));
    if let Some(batch) = whole.max_batch.filter(|_| whole.fits != Some(Fits::Yes)) {
        let key = if batch == 0 { "expected.no-batch" } else { "expected.max-batch" };
        out.push(say(key, &[("batch", grouped(batch))]));
    }
    out.extend(smaller_batch(expected, whole, language));
    out
}

/// The run's own batch and accumulation, and smaller ones with the same effective batch that may fit.
fn smaller_batch(expected: &Expected, whole: &Whole, language: Language) -> Option<String> {
    let steps = expected.accumulation.filter(|_| whole.fits != Some(Fits::Yes))?;
    let batch = expected.run.setups.first()?.batch;
    let most = whole.max_batch.unwrap_or(batch / 2).min(batch / 2);
    let parts = (2..=batch.min(MOST_PARTS)).find(|parts| batch.is_multiple_of(*parts) && batch / parts <= most)?;
    let values = [
        ("batch", grouped(batch)),
        ("steps", grouped(steps)),
        ("smaller", grouped(batch / parts)),
        ("more", grouped(steps.checked_mul(parts)?)),
    ];
    Some(fill(language, "expected.smaller-batch", &values))
}

/// What a server holds, and why its card is full.
fn served(expected: &Expected, whole: &Whole, language: Language) -> String {
    let total = total(whole, language);
    let (Some(card), Some(share)) = (expected.card, expected.share) else {
        return fill(language, "expected.served", &[("total", total)]);
    };
    let taken = (card as f64 * share) as u64;
    let key = if whole.total.low > taken { "expected.served-large" } else { "expected.served-share" };
    fill(language, key, &[("total", total), ("share", share.to_string()), ("taken", binary(taken))])
}

/// What can be said without a plan of the whole step.
fn thin(expected: &Expected, language: Language) -> Vec<String> {
    let mut out = Vec::new();
    let run = &expected.run;
    for missing in &run.missing {
        out.push(text(language, &format!("expected.missing.{missing}")).to_owned());
    }
    if run.task.is_some() && !run.setups.is_empty() {
        let key = match (run.has_batch, run.has_length) {
            (true, false) => "expected.thin.length",
            (false, true) => "expected.thin.batch",
            _ => "expected.thin.both",
        };
        out.push(text(language, key).to_owned());
    }
    let alone: u64 = expected.states.iter().fold(0, |sum, part| part.low.saturating_add(sum));
    if let Some(card) = expected.card.filter(|card| alone > *card) {
        let key = if expected.states.len() > 1 { "expected.alone.states" } else { "expected.alone.weights" };
        out.push(fill(language, key, &[("bytes", binary(alone)), ("card", binary(card))]));
    }
    if let Some((low, high)) = expected.room.filter(|_| expected.card.is_none_or(|card| alone <= card)) {
        let many = if low == high { grouped(low) } else { format!("{} to {}", grouped(low), grouped(high)) };
        let key = match (high, run.has_batch) {
            (0, _) => "expected.room.none",
            (_, true) => "expected.room.length",
            (_, false) => "expected.room.batch",
        };
        let setup = run.setups.first();
        let values = [
            ("many", many),
            ("batch", setup.map_or_else(String::new, |setup| grouped(setup.batch))),
            ("length", setup.map_or_else(String::new, |setup| grouped(setup.seq))),
        ];
        out.push(fill(language, key, &values));
    }
    if run.task.is_none() && run.missing.contains(&"task") && expected.copies.is_none() {
        let weights = expected.states.iter().find(|part| part.name == STATES[0]).map_or(0, |part| part.high);
        out.push(fill(
            language,
            "expected.per-parameter",
            &[("states", binary(weights.saturating_mul(3))), ("dtype", expected.dtype.to_owned())],
        ));
    }
    out
}

/// Where the model and the settings were read, and what was assumed.
fn sources(expected: &Expected, language: Language) -> Vec<String> {
    let mut out = vec![origin(expected, &|name| code(name), language)];
    let fact = |fact: &super::Fact| {
        let what = fill(language, &format!("expected.fact.{}", fact.name), &[("value", escape(&fact.value))]);
        fill(language, "expected.fact", &[("what", what), ("place", place(expected, fact.line, &|name| code(name), language))])
    };
    let read: Vec<String> = expected.run.read.iter().map(fact).collect();
    if !read.is_empty() {
        out.push(fill(language, "expected.read", &[("list", read.join(", "))]));
    }
    out.extend(assumed(expected, language));
    out
}

/// `line 20`, or `line 20 of rank_0.log`; the name of a file passes through `name`.
fn place(expected: &Expected, at: At, name: &dyn Fn(&str) -> String, language: Language) -> String {
    let line = ("line", (at.line + 1).to_string());
    match at.file.and_then(|file| expected.files.get(usize::from(file))) {
        Some(file) => fill(language, "expected.line-of", &[line, ("file", name(file))]),
        None => fill(language, "post.line", &[line]),
    }
}

/// Where the model was read; a name of a file passes through `name`.
fn origin(expected: &Expected, name: &dyn Fn(&str) -> String, language: Language) -> String {
    let about = if expected.exact { "" } else { "about " };
    let (key, place) = match &expected.origin {
        Origin::Printed(at) => ("expected.from.printed", place(expected, *at, name, language)),
        Origin::Arguments(at) => ("expected.from.arguments", place(expected, *at, name, language)),
        Origin::Beside(file) => ("expected.from.beside", name(file)),
        Origin::Named => ("expected.from.named", String::new()),
    };
    fill(language, key, &[("count", format!("{about}{}", grouped(expected.parameters))), ("place", place)])
}

fn assumed(expected: &Expected, language: Language) -> Option<String> {
    let list: Vec<&str> = expected.run.assumed.iter().map(|key| text(language, &format!("expected.assumed.{key}"))).collect();
    let says = !list.is_empty() && !expected.run.setups.is_empty();
    says.then(|| fill(language, "expected.assumed", &[("list", list.join(", "))]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::texts::has;

    #[test]
    fn every_key_has_a_text() {
        let facts = [
            "engine",
            "trainable",
            "training",
            "four-bit",
            "quantization",
            "length",
            "tensor-parallel",
            "pipeline-parallel",
            "batch",
            "optimizer",
            "attention",
            "zero",
            "gpus",
            "lora-rank",
            "checkpointing",
            "weights-in",
            "precision",
        ];
        let assumed = [
            "all-trained",
            "one-sequence",
            "adamw",
            "sdpa",
            "lora",
            "lora-targets",
            "lora-counted",
            "checkpointing-open",
            "base-16-bits",
            "precision-open",
        ];
        let missing = ["task", "both", "frozen", "quantization", "optimizer", "offload", "gpus", "adapters", "megatron"];
        for (group, keys) in [("fact", facts.as_slice()), ("assumed", &assumed), ("missing", &missing)] {
            for key in keys {
                assert!(has(Language::English, &format!("expected.{group}.{key}")), "{group} {key}");
            }
        }
    }
}
