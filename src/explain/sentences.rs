//! Sentences about what a run did: collectives across ranks, memory that grew, a quantity that left its band.

use super::ranges;
use super::texts::{Language, fill, text};
use crate::log::Finding;
use crate::log::collectives::{Call, Collective};
use crate::log::divergence::{Divergence, Quantity};
use crate::log::memory::Trend;
use crate::log::units;

/// Different calls of a desynchronised collective that are named.
const MOST_CALLS: usize = 3;

/// What the ranks did at the collective that timed out; nothing where it says no more than the timeout itself. `told`:
/// who is missing was said already. An operation is named as the log does; its name passes through `name`.
pub(super) fn collective_sentences(collective: &Collective, told: bool, name: &dyn Fn(&str) -> String, language: Language) -> Vec<String> {
    let mut out = Vec::new();
    let seq = ("seq", collective.seq.to_string());
    let waiting = collective.waiting();
    let op = collective.calls.first().and_then(|(call, _)| call.op.as_deref().map(name));
    let op = ("op", op.unwrap_or_else(|| text(language, "collective.some").to_owned()));
    if let Some(calls) = different_calls(collective, name, language) {
        out.push(fill(language, "collective.desync", &[seq.clone(), ("calls", calls)]));
    }
    if !collective.missing.is_empty() && !told {
        let values =
            [seq.clone(), op, ("ranks", named(&waiting, true, language)), ("missing", named(&collective.missing, false, language))];
        out.push(fill(language, "collective.missing", &values));
    }
    if !collective.absent.is_empty() {
        let values = [("absent", named(&collective.absent, false, language)), ("count", collective.absent.len().to_string())];
        out.push(fill(language, "collective.absent", &values));
    }
    if !collective.behind.is_empty() && collective.behind.len() * 2 <= waiting.len().max(2) {
        let ranks: Vec<u32> = collective.behind.iter().map(|(rank, _)| *rank).collect();
        let last = collective.behind.iter().map(|(_, last)| *last).min().unwrap_or_default();
        let values = [seq, ("count", ranks.len().to_string()), ("ranks", ranges(&ranks)), ("last", last.to_string())];
        out.push(fill(language, "collective.behind", &values));
    }
    if !collective.unexplained.is_empty() {
        out.push(fill(language, "collective.unexplained", &[("ranks", named(&collective.unexplained, false, language))]));
    }
    if !collective.silent.is_empty() {
        let key = if collective.world.is_some() { "collective.silent" } else { "collective.silent-unknown" };
        let values = [
            ("count", collective.silent.len().to_string()),
            ("world", collective.world.unwrap_or_default().to_string()),
            ("ranks", if collective.world.is_some() { ranges(&collective.silent) } else { named(&collective.silent, false, language) }),
        ];
        out.push(fill(language, key, &values));
    }
    out
}

/// What the two counters of a rank mean: it waits for its peers, or has nothing left to wait for.
pub(super) fn progress_sentence(finding: &Finding, language: Language) -> Option<String> {
    let whole = |name: &str| finding.number(name).map(|number| number.value.as_f64() as i64);
    let (enqueued, completed) = whole("last_enqueued").zip(whole("last_completed"))?;
    let key = match completed.cmp(&enqueued) {
        std::cmp::Ordering::Less => "collective.waits",
        std::cmp::Ordering::Equal => "collective.idle",
        std::cmp::Ordering::Greater => return None,
    };
    Some(fill(language, key, &[("next", completed.saturating_add(1).to_string()), ("last", enqueued.to_string())]))
}

/// What the ranks called when they were not in the same collective; the name of an operation passes through `name`.
pub(super) fn different_calls(collective: &Collective, name: &dyn Fn(&str) -> String, language: Language) -> Option<String> {
    let call = |(call, ranks): &(Call, Vec<u32>)| {
        let op = call.op.as_deref().map(name).unwrap_or_else(|| text(language, "collective.some").to_owned());
        let values =
            [("op", op), ("ranks", named(ranks, false, language)), ("numel", units::grouped(call.numel.map_or(0, |n| n.0.unsigned_abs())))];
        fill(language, if call.numel.is_some() { "collective.call-size" } else { "collective.call" }, &values)
    };
    collective.is_desynchronised().then(|| collective.calls.iter().take(MOST_CALLS).map(call).collect::<Vec<_>>().join("; "))
}

/// `rank 3`, `ranks 3, 6`; with a capital where a sentence begins.
pub(super) fn named(ranks: &[u32], begins: bool, language: Language) -> String {
    let key = match (ranks.len() == 1, begins) {
        (true, false) => "collective.rank",
        (false, false) => "collective.ranks",
        (true, true) => "collective.rank-begins",
        (false, true) => "collective.ranks-begins",
    };
    fill(language, key, &[("ranks", ranges(ranks))])
}

/// How memory grew before it ran out: without a stop, so that it can stand in a row. `place` names a line.
pub(super) fn growth_sentence(trend: &Trend, place: &dyn Fn(usize) -> String, language: Language) -> String {
    let key = match trend {
        Trend { only_reserved: true, .. } => "story.growth-reserved",
        Trend { of_free: true, .. } => "story.growth-free",
        _ => "story.growth",
    };
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
