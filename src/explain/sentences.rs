//! Sentences about what a run did: collectives across ranks, memory that grew, a quantity that left its band.

use super::ranges;
use super::texts::{Language, fill};
use crate::log::collectives::{Call, Collective};
use crate::log::divergence::{Divergence, Quantity};
use crate::log::memory::Trend;
use crate::log::units;

/// Different calls of a desynchronised collective that are named.
const MOST_CALLS: usize = 3;

/// What the ranks did at the collective that timed out; nothing where it says no more than the timeout itself. `told`:
/// who is missing was said already.
pub(super) fn collective_sentences(collective: &Collective, told: bool, language: Language) -> Vec<String> {
    let mut out = Vec::new();
    let seq = ("seq", collective.seq.to_string());
    let waiting = collective.waiting();
    let op = collective.calls.first().map_or_else(String::new, |(call, _)| call.op.clone());
    if let Some(calls) = different_calls(collective, language) {
        out.push(fill(language, "collective.desync", &[seq.clone(), ("calls", calls)]));
    }
    if !collective.missing.is_empty() && !told {
        let values = [seq.clone(), ("op", op), ("ranks", ranges(&waiting)), ("missing", named(&collective.missing, language))];
        out.push(fill(language, "collective.missing", &values));
    }
    if !collective.silent.is_empty() {
        out.push(fill(language, "collective.silent", &[("ranks", named(&collective.silent, language))]));
    }
    if !collective.behind.is_empty() && collective.behind.len() * 2 <= waiting.len().max(2) {
        let ranks: Vec<u32> = collective.behind.iter().map(|(rank, _)| *rank).collect();
        let last = collective.behind.iter().map(|(_, last)| *last).min().unwrap_or_default();
        out.push(fill(language, "collective.behind", &[seq, ("ranks", named(&ranks, language)), ("last", last.to_string())]));
    }
    out
}

/// What the ranks called when they were not in the same collective.
pub(super) fn different_calls(collective: &Collective, language: Language) -> Option<String> {
    let call = |(call, ranks): &(Call, Vec<u32>)| {
        let values = [("op", call.op.clone()), ("ranks", named(ranks, language)), ("numel", call.numel.map_or(0, |n| n.0).to_string())];
        fill(language, if call.numel.is_some() { "collective.call-size" } else { "collective.call" }, &values)
    };
    collective.is_desynchronised().then(|| collective.calls.iter().take(MOST_CALLS).map(call).collect::<Vec<_>>().join("; "))
}

/// `rank 3`, `ranks 3, 6`.
pub(super) fn named(ranks: &[u32], language: Language) -> String {
    let key = if ranks.len() == 1 { "collective.rank" } else { "collective.ranks" };
    fill(language, key, &[("ranks", ranges(ranks))])
}

/// How memory grew before it ran out: without a stop, so that it can stand in a row. `place` names a line.
pub(super) fn growth_sentence(trend: &Trend, place: &dyn Fn(usize) -> String, language: Language) -> String {
    let key = if trend.only_reserved { "story.growth-reserved" } else { "story.growth" };
    let rate = trend.a_step.map(|bytes| fill(language, "story.growth-rate", &[("growth", units::binary(bytes))]));
    let values = [
        ("first", units::binary(trend.first)),
        ("from", place(trend.first_line)),
        ("last", units::binary(trend.last)),
        ("to", place(trend.last_line)),
        ("rate", rate.unwrap_or_default()),
    ];
    fill(language, key, &values)
}

/// Where a quantity left its band: without a stop, so that it can stand in a row.
pub(super) fn divergence_sentence(divergence: &Divergence, place: &str, language: Language) -> String {
    let key = match divergence.quantity {
        Quantity::Loss => "story.divergence-loss",
        Quantity::GradNorm => "story.divergence-norm",
    };
    let place = match divergence.step {
        Some(step) => fill(language, "story.at-step", &[("step", step.to_string()), ("place", place.to_owned())]),
        None => place.to_owned(),
    };
    let short = |value: f64| if (0.01..1e5).contains(&value.abs()) { format!("{value:.2}") } else { format!("{value:.1e}") };
    fill(language, key, &[("place", place), ("value", short(divergence.value)), ("typical", short(divergence.typical))])
}
