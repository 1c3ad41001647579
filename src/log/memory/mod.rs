//! Memory over time in step lines: growth that ends in an out-of-memory error, and the trend before one.
//!
//! Two questions. Of a device out-of-memory error that is the root cause: did memory climb up to it ([`trend`])? There the
//! error itself is evidence, and a short series will do. Of any log: does memory climb steadily although nothing has failed
//! yet ([`add`])? There a healthy run must stay silent, and must cost little: a thin sample of its lines is read, and
//! only where that rises a denser one. The pages that name a series in their front matter say what is made of it.

mod growth;
mod imbalance;
mod pages;
pub(super) mod reading;
mod series;

pub(super) use pages::add;
pub use pages::{SERIES, SERIES_PLACEHOLDERS};

use super::verdict::memory_series::steady_growth;
use crate::text::Lines;
use reading::Statistic;
use series::Series;

/// Lines read above the error.
const MOST_LINES: usize = 2000;
/// Live tensors that move by at most this share are level.
const LEVEL: f64 = 0.03;

/// Steady growth of memory up to an out-of-memory error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trend {
    /// Only what PyTorch holds grew, while live tensors stayed level: fragmentation.
    pub only_reserved: bool,
    /// The lines print what is free: it fell.
    pub of_free: bool,
    /// First line of the series, 0-based.
    pub first_line: usize,
    /// Last line of the series, 0-based.
    pub last_line: usize,
    /// Bytes on the first line.
    pub first: u64,
    /// Bytes on the last line.
    pub last: u64,
    /// Bytes a step, where the lines say their steps.
    pub a_step: Option<u64>,
}

/// The growth in the step lines of `[first, until)`; `None` when memory did not climb steadily to the end.
///
/// Of several ranks that of the error counts, where the lines say their ranks.
pub(super) fn trend(first: usize, until: usize, rank: Option<u32>, lines: &dyn Lines) -> Option<Trend> {
    let mut all = series::collect(first.max(until.saturating_sub(MOST_LINES)), until, MOST_LINES, lines);
    if all.iter().any(|series| series.key.rank == rank) {
        all.retain(|series| series.key.rank == rank);
    }
    let of = |statistics: &[Statistic]| all.iter().filter(|series| statistics.contains(&series.key.statistic)).collect::<Vec<_>>();
    let live = of(&[Statistic::Used, Statistic::Peak, Statistic::Free]);
    let reserved = of(&[Statistic::Reserved]);
    live.iter().find_map(|series| grown(series, false)).or_else(|| {
        let is_beside_level = |one: &Series| live.iter().any(|live| live.key.is_beside(&one.key) && is_level(live));
        reserved.iter().find_map(|series| grown(series, is_beside_level(series))).filter(|trend| live.is_empty() || trend.only_reserved)
    })
}

fn grown(series: &Series, only_reserved: bool) -> Option<Trend> {
    let of_free = series.key.statistic == Statistic::Free;
    let bytes: Vec<f64> = series.samples.iter().map(|sample| if of_free { -sample.bytes } else { sample.bytes }).collect();
    steady_growth(&bytes)?;
    let (first, last) = (series.samples.first()?, series.samples.last()?);
    let between = last.step.zip(first.step).and_then(|(last, first)| last.checked_sub(first)).filter(|&steps| steps > 0);
    Some(Trend {
        only_reserved,
        of_free,
        first_line: first.line,
        last_line: last.line,
        first: first.bytes as u64,
        last: last.bytes as u64,
        a_step: between.filter(|_| series.counts_steps()).map(|steps| ((last.bytes - first.bytes).abs() / steps as f64) as u64),
    })
}

fn is_level(series: &Series) -> bool {
    let bytes = series.bytes();
    let (least, most) = bytes.iter().fold((f64::INFINITY, 0.0), |(least, most), &now| (f64::min(least, now), f64::max(most, now)));
    most <= (1.0 + LEVEL) * least
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::StrLines;

    fn told(line: impl Fn(u64) -> String) -> Option<Trend> {
        let text: String = (0..12).map(|i| line(i) + "\n").collect();
        trend(0, 12, None, &StrLines::new(&text))
    }

    #[test]
    fn a_leak_in_each_dialect() {
        let titan =
            told(|i| format!("step: {}  loss:  4.1234  memory: {}.50GiB({}.00%)  tps: 7,000", 10 * (i + 1), 30 + i, 40 + i)).unwrap();
        assert_eq!((titan.a_step, titan.first, titan.only_reserved), (Some((1 << 30) / 10), 30 * (1 << 30) + (1 << 29), false));
        let mm =
            told(|i| format!("Iter(train) [ {}/1000]  lr: 1.0e-03  time: 0.3  memory: {}  loss: 0.41", i + 1, 9000 + 500 * i)).unwrap();
        assert_eq!((mm.first, mm.last, mm.a_step), (9000 << 20, 14500 << 20, Some(500 << 20)));
        assert!(told(|i| format!("iter: {i}  total_loss: 1.5  lr: 0.02  max_mem: {}M", 9000 + 500 * i)).is_some());
        let reserved = told(|i| format!("step {i} loss 2.0 allocated=20.10GB reserved={}.0GB", 30 + i)).unwrap();
        assert!(reserved.only_reserved);
        let free = told(|i| format!("epoch 001: {i} / 500 loss=2.1, num_updates={i}, gb_free={}.5", 30 - i)).unwrap();
        assert!(free.of_free && free.first > free.last);
    }

    #[test]
    fn the_rank_of_the_error_counts() {
        let text: String =
            (0..24).map(|i| format!("[rank{}]: step {} loss 2.0 mem {}.0GB\n", i % 2, i / 2, 30 + (i % 2) * (i / 2))).collect();
        let lines = StrLines::new(&text);
        assert!(trend(0, 24, Some(1), &lines).is_some());
        assert_eq!(trend(0, 24, Some(0), &lines), None);
    }

    #[test]
    fn level_warm_up_and_sawtooth_are_silence() {
        assert_eq!(told(|i| format!("step: {i}  loss:  4.1234  memory: 30.50GiB(40.00%)")), None);
        assert_eq!(told(|i| format!("step: {i}  loss:  4.1  memory: {}.50GiB(40.00%)", 30 + 4 * i.min(2))), None);
        assert_eq!(told(|i| format!("step: {i}  loss:  4.1  memory: {}.50GiB(40.00%)", 30 + i % 3)), None);
        assert_eq!(told(|i| format!("step {i} loss 2.0 throughput {}", 100 + 50 * i)), None);
    }
}
