//! Conditions of the items in a page's lists: what decides, beside the cause, whether a remedy fits a finding.
//!
//! A word in the brackets of an item; `no-` in front of it turns it around. What a word stands for is either in the
//! finding's own numbers or was marked on it by the story.

use crate::log::Finding;
use crate::log::marks;
use crate::log::serving::{SERVING, TRAINER};
use crate::log::verdict::Verdict;
use crate::log::vocabulary::Cause;

/// What an item may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Not a log of a serving engine.
    Training,
    /// Not a log of a trainer.
    Serving,
    /// The idle reserve of PyTorch could hold the request that was refused.
    Idle,
    /// Live tensors grew steadily up to the error.
    Leak,
    /// Loss or gradient norm had left their band before.
    Diverged,
    /// Finite steps followed a non-finite value.
    Healed,
    /// It is known which ranks never joined the collective.
    Absent,
    /// The message names the process that holds the card.
    Holder,
    /// The log is of several ranks.
    Ranks,
    /// The batch of the run is one already.
    Single,
    /// The frame that raised it is known.
    Frame,
    /// The card's address is known.
    Pci,
    /// Other Xids of the same card are in the log.
    Neighbours,
    /// The weights alone are more than what is free.
    Weights,
    /// The weights were being loaded.
    Loading,
    /// It was evaluation that ran out of memory.
    Eval,
    /// The run had made steps before it lost the connection.
    Stepped,
    /// The message is of a release of PyTorch before 2.1.
    Old,
}

/// A condition, and whether it must hold or must not.
pub type Wanted = (Condition, bool);

/// The condition of a word in brackets.
pub fn parse(word: &str) -> Option<Wanted> {
    let (word, wanted) = word.strip_prefix("no-").map_or((word, true), |word| (word, false));
    let condition = match word {
        "training" => Condition::Training,
        "serving" => Condition::Serving,
        "idle" => Condition::Idle,
        marks::LEAK => Condition::Leak,
        marks::DIVERGED => Condition::Diverged,
        marks::HEALED => Condition::Healed,
        marks::ABSENT => Condition::Absent,
        "holder" => Condition::Holder,
        marks::RANKS => Condition::Ranks,
        marks::SINGLE => Condition::Single,
        "frame" => Condition::Frame,
        marks::PCI => Condition::Pci,
        marks::NEIGHBOURS => Condition::Neighbours,
        marks::WEIGHTS => Condition::Weights,
        marks::LOADING => Condition::Loading,
        marks::EVAL => Condition::Eval,
        marks::STEPPED => Condition::Stepped,
        "old" => Condition::Old,
        _ => return None,
    };
    Some((condition, wanted))
}

/// Does a finding meet a condition?
pub fn holds((condition, wanted): Wanted, finding: &Finding) -> bool {
    let marked = |name: &str| finding.text(name).is_some();
    let met = match condition {
        Condition::Training => !marked(SERVING),
        Condition::Serving => !marked(TRAINER),
        Condition::Idle => matches!(&finding.verdict, Some(Verdict::DeviceOom(oom)) if oom.idle_could_hold_it()),
        Condition::Leak => marked(marks::LEAK),
        Condition::Diverged => marked(marks::DIVERGED),
        Condition::Healed => marked(marks::HEALED),
        Condition::Absent => marked(marks::ABSENT),
        Condition::Holder => finding.number("holder_pid").is_some(),
        Condition::Ranks => marked(marks::RANKS),
        Condition::Single => marked(marks::SINGLE),
        Condition::Frame => marked("frame"),
        Condition::Pci => marked(marks::PCI),
        Condition::Neighbours => marked(marks::NEIGHBOURS),
        Condition::Weights => marked(marks::WEIGHTS),
        Condition::Loading => marked(marks::LOADING),
        Condition::Eval => marked(marks::EVAL),
        Condition::Stepped => marked(marks::STEPPED),
        Condition::Old => matches!(&finding.verdict, Some(Verdict::DeviceOom(oom)) if oom.old_wording),
    };
    met == wanted
}

/// Is an item for these causes meant for a finding? Where the message gives no account of the card, it mostly is just full.
pub fn fits(causes: &[Cause], finding: &Finding) -> bool {
    let silent = matches!(&finding.verdict, Some(Verdict::DeviceOom(oom)) if oom.cause == Cause::Unknown && !oom.has_account());
    let cause = if silent && finding.cause == Cause::Unknown { Cause::DeviceFull } else { finding.cause };
    causes.is_empty() || causes.contains(&cause)
}
