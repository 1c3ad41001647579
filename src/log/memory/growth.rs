//! Is a series of memory a leak? Growth that is steady to its end and never falls back, with its slope.
//!
//! The first samples are warm-up and do not count. A long or uneven series is cut into parts and judged by the floor of
//! each, so that a peak of an evaluation, lengths that vary and growth by rare even steps do not hide what stays. Peaks and
//! reserves rise by nature until the largest batch was seen, with ever rarer steps: they need more samples, and parts that
//! all rise alike.

use super::reading::Statistic;
use super::series::{Sample, Series};

/// Samples behind the warm-up that say enough by themselves.
const LEAST_SAMPLES: usize = 14;
/// Fewer do where each step rises and the late ones rise as fast as the early ones: (samples, largest step at most so many
/// times the smallest). Of memory in use ...
const FEWEST: [(usize, f64); 3] = [(6, 2.0), (8, 3.0), (10, f64::INFINITY)];
/// ... and of a peak or a reserve.
const FEWEST_OF_PEAK: [(usize, f64); 1] = [(8, 3.0)];
/// The late half of a short series rises at least so fast, as a share of the early half.
const LATE_PACE: f64 = 0.8;
/// Steps that samples of a peak or a reserve span, where they count steps.
const LEAST_STEPS_OF_PEAK: u64 = 20;
/// Samples at the beginning that are warm-up, at least, and as a part of the series.
const WARM_UP: (usize, usize) = (2, 10);
/// Parts into which a series is cut, tried in turn.
const PARTS: [usize; 5] = [40, 24, 16, 10, 8];
/// A rise below this is noise ...
const LEAST_RISE: f64 = 256.0 * 1024.0 * 1024.0;
/// ... and so is one below this share of the first value, of memory in use and of a peak or a reserve.
const RISE_SHARE: (f64, f64) = (0.02, 0.05);
/// A fall of more than this share of the rise ends the suspicion.
const FALL_SHARE: f64 = 0.05;
/// Each third must rise at least so fast, as a share of the whole: warm-up flattens.
const THIRD_SHARE: f64 = 0.65;
/// Parts that rise by less than this share of the usual rise are level ...
const LEVEL_RISE: f64 = 0.10;
/// ... and at most this share of the parts may be.
const LEVEL_SHARE: f64 = 0.10;
/// A jump of more than this many usual rises is another phase of the run, no leak.
const MOST_JUMP: f64 = 4.0;
/// What a step works on grew when its late median is above its early one by this share.
const SHAPE_GROWTH: f64 = 0.05;

/// A leak.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Growth {
    /// The first sample that counts.
    pub from: usize,
    /// Bytes a step, or a line where the lines do not say their steps.
    pub slope: f64,
    /// Do the lines say their steps?
    pub has_steps: bool,
    /// Do the steps rise over the whole series? Batches of an epoch start anew.
    pub is_one_count: bool,
}

/// Judges a series.
pub(super) fn judge(series: &Series) -> Option<Growth> {
    let is_peak = matches!(series.key.statistic, Statistic::Peak | Statistic::Reserved);
    let from = warm_up(series.samples.len());
    let samples = &series.samples[from.min(series.samples.len())..];
    let at = positions(samples);
    let span = *at.last()? - *at.first()?;
    let has_steps = samples.iter().all(|sample| sample.step.is_some());
    // What is left falls where what is used rises.
    let sign = if series.key.statistic == Statistic::Free { -1.0 } else { 1.0 };
    let values: Vec<f64> = samples.iter().map(|sample| sign * sample.bytes).collect();
    let fewest: &[(usize, f64)] = if is_peak { &FEWEST_OF_PEAK } else { &FEWEST };
    let is_short_of_steps = is_peak && series.counts_steps() && has_steps && span < LEAST_STEPS_OF_PEAK as f64;
    if is_short_of_steps || (samples.len() < LEAST_SAMPLES && !climbs_evenly(&values, fewest)) {
        return None;
    }
    let share = if is_peak { RISE_SHARE.1 } else { RISE_SHARE.0 };
    let least_rise = LEAST_RISE.max(share * values[0].abs());
    if !PARTS.iter().any(|&parts| climbs(&values, parts, least_rise)) || follows_its_shape(samples) {
        return None;
    }
    let is_one_count = samples.windows(2).all(|pair| pair[0].step < pair[1].step);
    Some(Growth { from, slope: slope(&at, &values), has_steps, is_one_count })
}

/// Samples at the beginning that do not count.
pub(super) fn warm_up(count: usize) -> usize {
    (count / WARM_UP.1).max(WARM_UP.0)
}

/// Could a thin sample of a series be one of growth? Only then it is read closely.
pub(super) fn may_grow(series: &Series) -> bool {
    let values = series.bytes();
    let third = values.len() / 3;
    if third < 2 {
        return true;
    }
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let (early, late) = (mean(&values[..third]), mean(&values[values.len() - third..]));
    let rise = if series.key.statistic == Statistic::Free { early - late } else { late - early };
    rise > LEAST_RISE / 4.0
}

/// Do the floors of the parts climb by like steps to the end?
fn climbs(values: &[f64], parts: usize, least_rise: f64) -> bool {
    if parts > values.len() && parts != PARTS[PARTS.len() - 1] {
        return false;
    }
    let length = (values.len() / parts).max(1);
    // What is left over stands at the beginning.
    let chunks: Vec<&[f64]> = values[values.len() % length..].chunks_exact(length).collect();
    let floors: Vec<f64> = chunks.iter().map(|chunk| chunk.iter().copied().fold(f64::INFINITY, f64::min)).collect();
    let (Some(first), Some(last)) = (floors.first(), floors.last()) else { return false };
    let rise = last - first;
    // Noise inside the parts must be small beside the rise.
    let heights = chunks.iter().zip(&floors).map(|(chunk, floor)| chunk.iter().copied().fold(*floor, f64::max) - floor);
    let noise = median(heights.collect());
    if rise < least_rise || rise < 2.0 * noise {
        return false;
    }
    let mut high = *first;
    for floor in &floors {
        high = high.max(*floor);
        if high - floor > FALL_SHARE * rise {
            return false;
        }
    }
    let steps: Vec<f64> = floors.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let usual = median(steps.clone());
    let level = steps.iter().filter(|&&step| step < LEVEL_RISE * usual).count();
    let third = floors.len() / 3;
    let pace = |steps: &[f64]| steps.iter().sum::<f64>() / steps.len().max(1) as f64;
    let thirds = [&steps[..third], &steps[third..2 * third], &steps[2 * third..]];
    usual > 0.0
        && level as f64 <= LEVEL_SHARE * steps.len() as f64
        && thirds.iter().all(|part| pace(part) >= THIRD_SHARE * pace(&steps))
        && steps.iter().all(|step| *step <= MOST_JUMP * usual)
}

/// Does a short series rise so evenly that it says enough?
fn climbs_evenly(values: &[f64], fewest: &[(usize, f64)]) -> bool {
    let steps: Vec<f64> = values.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let (least, most) = steps.iter().fold((f64::INFINITY, 0.0), |(least, most), &step| (f64::min(least, step), f64::max(most, step)));
    let (early, late) = (&steps[..steps.len() / 2], &steps[steps.len().div_ceil(2)..]);
    least > 0.0
        && late.iter().sum::<f64>() >= LATE_PACE * early.iter().sum::<f64>()
        && fewest.iter().any(|&(count, ratio)| values.len() >= count && most <= ratio * least)
}

/// Does what a step works on grow as well (length, batch, resolution)? Then memory must.
fn follows_its_shape(samples: &[Sample]) -> bool {
    let shapes: Vec<f64> = samples.iter().filter_map(|sample| sample.shape).collect();
    let third = shapes.len() / 3;
    if third == 0 {
        return false;
    }
    let (early, late) = (median(shapes[..third].to_vec()), median(shapes[shapes.len() - third..].to_vec()));
    late > (1.0 + SHAPE_GROWTH) * early
}

/// The step of each sample, counted on where it starts anew; the number of the sample where there are no steps.
fn positions(samples: &[Sample]) -> Vec<f64> {
    if samples.iter().any(|sample| sample.step.is_none()) {
        return (0..samples.len()).map(|i| i as f64).collect();
    }
    let steps: Vec<f64> = samples.iter().map(|sample| sample.step.unwrap_or(0) as f64).collect();
    let mut at = 0.0;
    let mut out = vec![0.0];
    for pair in steps.windows(2) {
        at += if pair[1] > pair[0] { pair[1] - pair[0] } else { pair[1] };
        out.push(at);
    }
    out
}

/// The slope of the straight line nearest to the values.
fn slope(at: &[f64], values: &[f64]) -> f64 {
    let count = at.len() as f64;
    let (mean_at, mean) = (at.iter().sum::<f64>() / count, values.iter().sum::<f64>() / count);
    let (mut above, mut below) = (0.0, 0.0);
    for (at, value) in at.iter().zip(values) {
        above += (at - mean_at) * (value - mean);
        below += (at - mean_at) * (at - mean_at);
    }
    if below > 0.0 { above / below } else { 0.0 }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}
