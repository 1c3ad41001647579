//! A divergence before the first non-finite value: the loss or the gradient norm left its recent band and did not return.
//!
//! The band is robust (median and median absolute deviation over the values before), so that neither a single spike nor
//! the fall of the loss in its first steps counts. The run of values outside it must reach up to the end.

/// Values before the divergence that make the band, at least and at most.
const BAND: (usize, usize) = (16, 32);
/// Values outside the band, at least and at most.
const OUTSIDE: (usize, usize) = (3, 400);
/// Scaled median absolute deviations that a loss may lie above the median, and the share of the median at least.
const LOSS_LIMIT: (f64, f64) = (8.0, 0.25);
/// The same for a gradient norm, whose tail is heavy.
const NORM_LIMIT: (f64, f64) = (15.0, 4.0);
/// The median absolute deviation of a normal distribution is this share of its standard deviation.
const SCALE: f64 = 1.4826;

/// What left its band.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// The loss.
    Loss,
    /// The norm of the gradient.
    GradNorm,
}

/// Where a quantity left its band for good.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Divergence {
    /// Which one.
    pub quantity: Quantity,
    /// Line of the first value outside, 0-based.
    pub line: usize,
    /// Its step, where the line says so.
    pub step: Option<u64>,
    /// The value.
    pub value: f64,
    /// The median of the values before.
    pub typical: f64,
    /// The upper end of the band.
    pub limit: f64,
}

/// A value of a step line.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// Line, 0-based.
    pub line: usize,
    /// Step.
    pub step: Option<u64>,
    /// Finite value.
    pub value: f64,
}

/// The divergence at the end of a series, in line order; `None` when its end is inside the band.
pub fn at_end(quantity: Quantity, series: &[Sample]) -> Option<Divergence> {
    let (deviations, share) = match quantity {
        Quantity::Loss => LOSS_LIMIT,
        Quantity::GradNorm => NORM_LIMIT,
    };
    let mut found = None;
    for outside in OUTSIDE.0..=OUTSIDE.1.min(series.len()) {
        let (before, run) = series.split_at(series.len() - outside);
        if before.len() < BAND.0 {
            break;
        }
        let band: Vec<f64> = before[before.len().saturating_sub(BAND.1)..].iter().map(|sample| sample.value).collect();
        let typical = median(band.clone());
        let spread = SCALE * median(band.iter().map(|value| (value - typical).abs()).collect());
        let limit = typical + (deviations * spread).max(share * typical.abs());
        if run.iter().all(|sample| sample.value > limit) {
            let first = run[0];
            found = Some(Divergence { quantity, line: first.line, step: first.step, value: first.value, typical, limit });
        } else if found.is_some() {
            break;
        }
    }
    found
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(quantity: Quantity, values: &[f64]) -> Option<u64> {
        let series: Vec<Sample> = values.iter().enumerate().map(|(i, &value)| Sample { line: i, step: Some(i as u64), value }).collect();
        at_end(quantity, &series)?.step
    }

    /// Losses that fall and jitter.
    fn healthy(count: usize) -> Vec<f64> {
        (0..count).map(|i| 2.0 + 5.0 * (-(i as f64) / 10.0).exp() + 0.05 * ((i * 7919) % 13) as f64 / 13.0).collect()
    }

    #[test]
    fn a_climb_is_named_with_its_first_step() {
        let mut losses = healthy(60);
        losses.extend([3.1, 4.4, 6.0, 9.7]);
        assert_eq!(first(Quantity::Loss, &losses), Some(60));
        let mut norms = [0.9, 1.1, 1.0, 0.8, 1.2].repeat(8);
        norms.extend([7.0, 80.0, 900.0]);
        assert_eq!(first(Quantity::GradNorm, &norms), Some(40));
    }

    #[test]
    fn spikes_warm_up_and_the_end_inside_are_none() {
        assert_eq!(first(Quantity::Loss, &healthy(60)), None);
        assert_eq!(first(Quantity::Loss, &healthy(8)), None);
        let mut spike = healthy(60);
        spike.extend([9.0]);
        assert_eq!(first(Quantity::Loss, &spike), None, "one value is a spike");
        let mut back = healthy(60);
        back.extend([9.0, 9.5, 9.9, 2.1]);
        assert_eq!(first(Quantity::Loss, &back), None, "it came back");
    }
}
