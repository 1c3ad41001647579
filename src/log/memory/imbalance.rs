//! Memory of the ranks beside each other: one rank whose step lines print far more than those of the others.

use super::reading::Statistic;
use super::series::{Sample, Series};

/// Ranks needed to speak of imbalance.
const LEAST_RANKS: usize = 3;
/// Samples of a rank.
const LEAST_SAMPLES: usize = 3;
/// The fullest rank against the median of the others ...
const ABOVE_OTHERS: f64 = 1.25;
/// ... and against the next one: of two that are full neither is alone.
const ABOVE_NEXT: f64 = 1.15;
/// The difference, as a share of the card where its size is known, else in bytes.
const DIFFERENCE: (f64, f64) = (0.10, 4.0 * 1024.0 * 1024.0 * 1024.0);

/// One rank far above the others.
pub(super) struct Imbalance<'s> {
    /// Its series.
    pub fullest: &'s Series,
    /// The sample that is shown: the middle one of the late half by size.
    pub at: Sample,
    /// The median of the other ranks, in bytes.
    pub others: f64,
    /// Ranks that print their memory.
    pub ranks: usize,
}

/// The rank far above the others in the lines of one kind; `None` when the ranks are alike.
pub(super) fn find(all: &[Series]) -> Option<Imbalance<'_>> {
    all.iter()
        .enumerate()
        .filter(|(nth, one)| !all[..*nth].iter().any(|other| is_same_kind(one, other)))
        .find_map(|(_, kind)| of_kind(kind, all))
}

fn of_kind<'s>(kind: &Series, all: &'s [Series]) -> Option<Imbalance<'s>> {
    if matches!(kind.key.statistic, Statistic::Free | Statistic::Host) {
        return None;
    }
    let ranks = all.iter().filter(|one| is_same_kind(kind, one) && one.key.rank.is_some() && one.samples.len() >= LEAST_SAMPLES);
    let mut ranks: Vec<(&Series, Sample)> = ranks.filter_map(|one| Some((one, typical(one)?))).collect();
    ranks.sort_by(|a, b| a.1.bytes.total_cmp(&b.1.bytes));
    let count = ranks.len();
    let (fullest, at) = ranks.pop().filter(|_| count >= LEAST_RANKS)?;
    let (next, others) = (ranks.last()?.1.bytes, ranks[ranks.len() / 2].1.bytes);
    let least = at.total.map_or(DIFFERENCE.1, |total| DIFFERENCE.0 * total);
    let is_alone = at.bytes >= ABOVE_OTHERS * others && at.bytes >= ABOVE_NEXT * next && at.bytes - others >= least;
    is_alone.then_some(Imbalance { fullest, at, others, ranks: count })
}

fn is_same_kind(one: &Series, other: &Series) -> bool {
    one.key.statistic == other.key.statistic && one.key.name == other.key.name && one.key.has_words_of(&other.key)
}

/// The middle sample of the late half: neither warm-up nor a peak.
fn typical(series: &Series) -> Option<Sample> {
    let mut late = series.samples[series.samples.len() / 2..].to_vec();
    late.sort_by(|a, b| a.bytes.total_cmp(&b.bytes));
    late.get(late.len() / 2).copied()
}
