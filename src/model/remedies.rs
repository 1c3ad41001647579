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
    /// The least and the most of the new total.
    pub range: (u64, u64),
    /// Whether it fits then.
    pub fits: bool,
}

/// A total, and its least and most.
type Total = (u64, (u64, u64));

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
    let total = |other: &Setup| plan::of(model, other).ok().map(|plan| (plan.total, (plan.total_low, plan.total_high)));
    let mut alone: Vec<(Option<Kind>, Remedy)> = Vec::new();
    for change in &list {
        let other = applied(setup, &[change]);
        let Some((total, range)) = total(&other).filter(|(total, _)| *total < now) else {
            continue;
        };
        let remedy =
            Remedy { change: change.text.clone(), flags: change.flags.clone(), cost: change.cost, total, range, fits: fits(total) };
        // Of more and more GPUs, and of smaller and smaller batches, one line is enough: the first number that fits.
        match alone.last_mut() {
            Some((Some(kind @ (Kind::Gpus | Kind::Share | Kind::Batch)), last)) if change.kind == *kind => {
                if !last.fits {
                    *last = remedy;
                }
            }
            _ => alone.push((Some(change.kind), remedy)),
        }
    }
    let has = |kind: Kind| alone.iter().any(|(have, one)| one.fits && *have == Some(kind));
    let (adapters, more) = (has(Kind::Adapters), has(Kind::Gpus));
    if !alone.iter().any(|(kind, one)| one.fits && !matches!(kind, Some(Kind::Adapters | Kind::Gpus))) {
        // More GPUs are dearer than any change on those that are there.
        let all: Vec<&Change> = list.iter().filter(|change| !more || change.kind != Kind::Gpus).collect();
        let found = (!adapters).then(|| together(setup, &all, &total, &fits)).flatten();
        // Who trains all parameters may not want adapters: the same without them.
        let swapped = adapters || found.as_ref().is_some_and(|one| one.flags.contains("--task"));
        let whole: Vec<&Change> = all.iter().copied().filter(|change| change.kind != Kind::Adapters).collect();
        let kept = swapped.then(|| together(setup, &whole, &total, &fits)).flatten();
        alone.extend(found.into_iter().chain(kept).map(|one| (None, one)));
    }
    // What fits comes first, each part in the order of cost.
    alone.sort_by_key(|(kind, one)| (!one.fits, one.fits && *kind == Some(Kind::Gpus)));
    alone.truncate(LINES);
    alone.into_iter().map(|(_, remedy)| remedy).collect()
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
fn together(setup: &Setup, list: &[&Change], total: &dyn Fn(&Setup) -> Option<Total>, fits: &dyn Fn(u64) -> bool) -> Option<Remedy> {
    let mut chosen: Vec<&Change> = Vec::new();
    for &change in list {
        chosen.retain(|have| have.kind != change.kind);
        chosen.push(change);
    }
    let fitting = |changes: &[&Change]| total(&applied(setup, changes)).filter(|(bytes, _)| fits(*bytes));
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
        total: best.0,
        range: best.1,
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
        assert_eq!(together[0], "--task qlora --precision bf16-base-amp --checkpointing full");
        assert!(together[1].contains("--zero 3") && !together[1].contains("--task") && !together[1].contains("--seq"), "{together:?}");
        assert!(list.iter().filter(|one| one.fits).all(|one| one.total <= 85_000_000_000));
    }

    #[test]
    fn what_fits_on_the_same_gpu_comes_before_more_gpus() {
        let eight = LLAMA_70B.replace("8192", "4096").replace("28672", "14336").replace("80", "32").replace("64", "32");
        let model = model::read(&eight).unwrap();
        let list = of(&model, &Setup::new(Task::Full), 25_293_815_808);
        assert!(list[0].fits && list[0].flags.contains("lora") && !list[0].flags.contains("--gpus"), "{list:?}");
        let more = list.iter().position(|one| one.fits && one.flags.contains("--gpus")).unwrap();
        assert!(more > 0);
    }

    #[test]
    fn a_batch_is_halved_only_as_often_as_needed() {
        let eight = LLAMA_70B.replace("8192", "4096").replace("28672", "14336").replace("80", "32").replace("64", "32");
        let setup = Setup { batch: 4, ..Setup::new(Task::Qlora) };
        let list = of(&model::read(&eight).unwrap(), &setup, 25_293_815_808);
        assert_eq!((list[0].fits, list[0].flags.as_str()), (true, "--batch 2"), "{list:?}");
    }

    #[test]
    fn gpus_that_are_there_share_the_model_before_weights_are_rounded() {
        let model = model::read(LLAMA_70B).unwrap();
        let setup = Setup { gpus: 4, ..Setup::new(Task::Inference) };
        let list = of(&model, &setup, 85_000_000_000);
        assert_eq!((list[0].fits, list[0].flags.as_str()), (true, "--tensor-parallel 4"), "{list:?}");
        assert!(list.iter().all(|one| one.range.0 <= one.total && one.total <= one.range.1));
        assert!(list.iter().all(|one| one.cost != "more GPUs" || one.flags == "--tensor-parallel 8"), "{list:?}");
    }

    #[test]
    fn steps_of_accumulation_go_on_from_those_of_the_run() {
        let eight = LLAMA_70B.replace("8192", "4096").replace("28672", "14336").replace("80", "32").replace("64", "32");
        let setup = Setup { batch: 4, accumulation: 8, ..Setup::new(Task::Qlora) };
        let list = of(&model::read(&eight).unwrap(), &setup, 25_293_815_808);
        assert_eq!(list[0].change, "batch 2 with 16 steps of accumulation");
    }
}
