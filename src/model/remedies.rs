//! Changes that would make a plan fit, in the order of what they cost.
//!
//! Each change is tried alone; where none is enough, the cheapest of all together. What is said of
//! the cost is a rule of thumb, not a measurement.

mod list;

use self::list::{Change, Kind, inference, training};
use super::Model;
use super::training::{Setup, Task};
use super::{fit, plan};

/// A change of the settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remedy {
    /// What is changed.
    pub change: String,
    /// The flags that say so.
    pub flags: String,
    /// What it costs.
    pub cost: &'static str,
    /// The new total.
    pub total: u64,
    /// Whether it fits then.
    pub fits: bool,
}

/// Most lines of an answer.
const LINES: usize = 14;

/// The changes for a card of so many bytes; none when the plan fits.
pub fn of(model: &Model, setup: &Setup, memory: u64) -> Vec<Remedy> {
    let fits = |total: u64| total <= fit::usable(setup, memory);
    let now = match plan::of(model, setup) {
        Ok(now) if !fits(now.total) => now.total,
        _ => return Vec::new(),
    };
    let list = if setup.task == Task::Inference { inference(model, setup) } else { training(model, setup) };
    let total = |other: &Setup| plan::of(model, other).ok().map(|plan| plan.total);
    let mut alone: Vec<(Kind, Remedy)> = Vec::new();
    for change in &list {
        let other = applied(setup, &[change]);
        let Some(total) = total(&other).filter(|total| *total < now) else {
            continue;
        };
        let remedy = Remedy { change: change.text.clone(), flags: change.flags.clone(), cost: change.cost, total, fits: fits(total) };
        // Of more and more GPUs one line is enough: the first number that fits.
        match alone.last_mut() {
            Some((Kind::Gpus, last)) if change.kind == Kind::Gpus => {
                if !last.fits {
                    *last = remedy;
                }
            }
            _ => alone.push((change.kind, remedy)),
        }
    }
    let mut alone: Vec<Remedy> = alone.into_iter().map(|(_, remedy)| remedy).collect();
    if !alone.iter().any(|one| one.fits) {
        let all: Vec<&Change> = list.iter().collect();
        let found = together(setup, &all, &total, &fits);
        // Who trains all parameters may not want adapters: the same without them.
        let swapped = found.as_ref().is_some_and(|one| one.flags.contains("--task"));
        let whole: Vec<&Change> = list.iter().filter(|change| change.kind != Kind::Adapters).collect();
        let kept = swapped.then(|| together(setup, &whole, &total, &fits)).flatten();
        alone.extend(found.into_iter().chain(kept));
    }
    // What fits comes first, each part in the order of cost.
    alone.sort_by_key(|one| !one.fits);
    alone.truncate(LINES);
    alone
}

/// The settings after some changes.
fn applied(setup: &Setup, changes: &[&Change]) -> Setup {
    let mut other = setup.clone();
    for change in changes {
        (change.apply)(&mut other);
    }
    other
}

/// The cheapest changes that make it fit together: all of them at first, each kind in its strongest form, and then one
/// kind after the other, the dearest first, is left out or made weaker where the plan fits without.
fn together(setup: &Setup, list: &[&Change], total: &dyn Fn(&Setup) -> Option<u64>, fits: &dyn Fn(u64) -> bool) -> Option<Remedy> {
    let mut chosen: Vec<&Change> = Vec::new();
    for &change in list {
        chosen.retain(|have| have.kind != change.kind);
        chosen.push(change);
    }
    let fitting = |changes: &[&Change]| total(&applied(setup, changes)).filter(|bytes| fits(*bytes));
    // What a kind makes impossible, as 4-bit weights under DeepSpeed, is tried without it.
    if fitting(&chosen).is_none() {
        chosen.retain(|change| total(&applied(setup, &[change])).is_some());
    }
    let mut best = fitting(&chosen)?;
    let kinds: Vec<Kind> = chosen.iter().rev().map(|change| change.kind).collect();
    for kind in kinds {
        let without: Vec<&Change> = chosen.iter().copied().filter(|change| change.kind != kind).collect();
        let weaker = list.iter().copied().filter(|change| change.kind == kind).map(|change| {
            let place = chosen.iter().position(|have| have.kind == kind).unwrap_or(chosen.len());
            let mut other = without.clone();
            other.insert(place.min(other.len()), change);
            other
        });
        let found = std::iter::once(without.clone()).chain(weaker).find_map(|changes| Some((fitting(&changes)?, changes)));
        if let Some((bytes, changes)) = found {
            (best, chosen) = (bytes, changes);
        }
    }
    let join = |part: fn(&Change) -> &str, by: &str| chosen.iter().map(|change| part(change)).collect::<Vec<_>>().join(by);
    Some(Remedy {
        change: format!("together: {}", join(|change| &change.text, ", ")),
        flags: join(|change| &change.flags, " "),
        cost: "the sum of these",
        total: best,
        fits: true,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model;

    const LLAMA_70B: &str = r#"{"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 128256, "hidden_size": 8192,
        "intermediate_size": 28672, "num_hidden_layers": 80, "num_attention_heads": 64, "num_key_value_heads": 8}"#;

    #[test]
    fn the_cheapest_way_is_found_and_one_that_keeps_the_task() {
        let model = model::read(LLAMA_70B).unwrap();
        let list = of(&model, &Setup::new(Task::Full), 85_000_000_000);
        let together: Vec<&str> = list.iter().filter(|one| one.fits).map(|one| one.flags.as_str()).collect();
        // Recomputing costs less than shorter sequences, and helps only beside the other changes.
        assert_eq!(together[0], "--checkpointing full --task qlora --precision bf16-base-amp");
        assert!(together[1].contains("--zero 3") && !together[1].contains("--task") && !together[1].contains("--seq"), "{together:?}");
        assert!(list.iter().filter(|one| one.fits).all(|one| one.total <= 85_000_000_000));
    }
}
