//! `trainer_state.json`: where the history of a run turns non-finite, and where it diverges.

use std::ops::Range;

use super::{Kin, Said};
use crate::explain::config::LANGUAGE;
use crate::explain::config::marks::Mark;
use crate::explain::texts::fill;
use crate::log::units::grouped;
use crate::log::vocabulary::Severity;
use crate::model::beside::{LogEntry, divergence, first_non_finite, trainer_history};
use crate::model::config::Section;
use crate::model::json::{Node, Value};

pub(super) fn say(kin: &Kin) -> Said {
    let history = trainer_history(Section::new(&kin.root));
    let Some(last) = history.last() else {
        return Said::default();
    };
    let mut said = Said::default();
    let step = |entry: &LogEntry| entry.step.map_or_else(|| "?".to_owned(), grouped);
    let finite = history.iter().rev().find_map(|entry| Some((entry, entry.loss.filter(|loss| loss.is_finite() && *loss != 0.0)?)));
    if let Some((entry, loss)) = finite {
        let values = [("count", grouped(history.len() as u64)), ("last", step(last)), ("loss", loss.to_string()), ("step", step(entry))];
        said.lens.push(fill(LANGUAGE, "kin.trainer", &values));
    }
    let broken = first_non_finite(&history);
    let ran_away = divergence(&history).filter(|&at| broken.is_none_or(|broken| at < broken));
    if let Some(entry) = ran_away.and_then(|at| history.get(at)) {
        let best = history.iter().take(ran_away.unwrap_or(0)).filter_map(|entry| entry.loss).filter(|loss| loss.is_finite());
        let best = best.fold(f64::INFINITY, f64::min);
        let values =
            [("step", step(entry)), ("loss", entry.loss.map_or_else(String::new, |loss| loss.to_string())), ("best", best.to_string())];
        said.marks.push(mark(kin, entry, "trainer-divergence", Severity::Warning, &values, |value| value.is_finite()));
    }
    if let Some((at, entry)) = broken.and_then(|at| Some((at, history.get(at)?))) {
        let is_broken = |entry: &&LogEntry| [entry.loss, entry.grad_norm].into_iter().flatten().any(|value| !value.is_finite());
        let many = history.iter().skip(at).filter(is_broken).count();
        let before = history[..at].iter().rev().find_map(|entry| Some((entry.step?, entry.loss.filter(|loss| loss.is_finite())?)));
        let before = before.map_or_else(String::new, |(step, loss)| {
            fill(LANGUAGE, "kin.trainer.before", &[("step", grouped(step)), ("loss", loss.to_string())])
        });
        let values = [("step", step(entry)), ("many", grouped(many as u64)), ("before", before)];
        said.marks.push(mark(kin, entry, "trainer-non-finite", Severity::Error, &values, |value| !value.is_finite()));
    }
    said
}

/// A mark at the first value of an entry that is meant; at its opening brace where none is found.
fn mark(kin: &Kin, entry: &LogEntry, code: &'static str, severity: Severity, values: &[(&str, String)], meant: fn(f64) -> bool) -> Mark {
    let span = value_of(&kin.root, &entry.span, meant).unwrap_or(entry.span.start..entry.span.start + 1);
    Mark { span, code, severity, message: fill(LANGUAGE, &format!("kin.{code}"), values) }
}

fn value_of(root: &Node, entry: &Range<usize>, meant: fn(f64) -> bool) -> Option<Range<usize>> {
    let Value::Array(items) = &root.get("log_history")?.value else {
        return None;
    };
    let item = items.iter().find(|item| item.span == *entry)?;
    let number = |node: &Node| match &node.value {
        Value::Integer(number) => Some(*number as f64),
        Value::Float(number) => Some(*number),
        Value::String(text) => text.parse().ok(),
        _ => None,
    };
    let nodes = ["loss", "grad_norm"].into_iter().filter_map(|name| item.get(name));
    nodes.into_iter().find(|node| number(node).is_some_and(meant)).map(|node| node.span.clone())
}
