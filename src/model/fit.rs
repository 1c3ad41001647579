//! Whether a plan fits a GPU, and how far batch, context and concurrency could go.
//!
//! Memory is what the runtime reports for one card; it is never added up over cards.

use super::Model;
use super::plan::{self, Plan};
use super::training::{Engine, Phase, Setup, SetupError, Task, states};

/// The largest batch that is looked at.
pub const MOST_BATCH: u64 = 1_000_000;
/// The longest sequence that is looked at where the model sets no limit.
pub const MOST_TOKENS: u64 = 1 << 24;
const GIB: f64 = (1u64 << 30) as f64;

/// How a plan sits on a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It fits with a margin for fragmentation.
    Fits,
    /// It fits with less than a tenth to spare.
    Tight,
    /// It does not fit.
    TooLarge,
}

/// A plan on one GPU.
#[derive(Debug, Clone, PartialEq)]
pub struct Fit {
    /// The verdict.
    pub verdict: Verdict,
    /// Usable memory less the total; negative when it does not fit.
    pub headroom: i64,
    /// Largest batch that fits, with all else as it is.
    pub max_batch: u64,
    /// Longest sequence that fits, up to the length that the model is made for.
    pub max_context: u64,
    /// Most sequences at the same time, in inference.
    pub max_concurrency: Option<u64>,
}

/// How a plan sits on a GPU of so many usable bytes.
pub fn of(model: &Model, setup: &Setup, memory: u64) -> Result<Fit, SetupError> {
    let plan = plan::of(model, setup)?;
    let usable = usable(setup, memory);
    let headroom = i64::try_from(i128::from(usable) - i128::from(plan.total)).unwrap_or(i64::MIN);
    let verdict = verdict(&plan, setup, memory);
    let inference = setup.task == Task::Inference;
    let held = states::weights(model, setup);
    // Longer texts than the model is made for are only looked at when they are asked for.
    let longest = match model.dimensions.positions {
        positions if positions >= setup.seq => positions,
        _ => MOST_TOKENS,
    };
    let passes = |change: &dyn Fn(&mut Setup)| -> bool {
        let mut other = setup.clone();
        change(&mut other);
        other.check().is_ok() && total(model, &other, &held) <= usable as f64
    };
    Ok(Fit {
        verdict,
        headroom,
        max_batch: largest(MOST_BATCH, |value| {
            passes(&|other| {
                other.batch = value;
                other.concurrency = 1;
            })
        }),
        max_context: largest(longest, |value| passes(&|other| other.seq = value)),
        max_concurrency: inference.then(|| largest(MOST_BATCH, |value| passes(&|other| other.concurrency = value))),
    })
}

/// The verdict alone: it costs no search.
pub fn verdict(plan: &Plan, setup: &Setup, memory: u64) -> Verdict {
    let usable = usable(setup, memory);
    if plan.total > usable {
        Verdict::TooLarge
    } else if setup.task != Task::Inference && plan.allocated as f64 * 1.1 + 0.6 * GIB > usable as f64 {
        Verdict::Tight
    } else {
        Verdict::Fits
    }
}

/// The total alone, without its range, for a search.
fn total(model: &Model, setup: &Setup, held: &(f64, String)) -> f64 {
    let allocated = plan::phases(model, setup, held).iter().map(Phase::bytes).fold(0.0, f64::max);
    let beside: f64 = plan::beside(setup, allocated).iter().map(|piece| piece.bytes).sum();
    allocated + beside
}

/// Bytes that a run may take: vLLM leaves a tenth of the card.
pub fn usable(setup: &Setup, memory: u64) -> u64 {
    if setup.task == Task::Inference && setup.engine == Engine::Vllm { memory - memory / 10 } else { memory }
}

/// The largest value up to a bound that passes; what passes is taken to be a stretch from 1.
fn largest(bound: u64, passes: impl Fn(u64) -> bool) -> u64 {
    if !passes(1) {
        return 0;
    }
    let (mut good, mut bad) = (1u64, 2u64);
    while bad <= bound && passes(bad) {
        good = bad;
        bad = bad.saturating_mul(2);
    }
    bad = bad.min(bound.saturating_add(1));
    while bad.saturating_sub(good) > 1 {
        let middle = good + (bad - good) / 2;
        if passes(middle) {
            good = middle;
        } else {
            bad = middle;
        }
    }
    good
}
