//! What went on around a finding: step lines after it, the last step of the run, the first non-finite number.

use std::sync::LazyLock;

use regex::Regex;

use super::divergence::{self, Divergence, Quantity, Sample};
use super::finding::Finding;
use super::groups::is_non_finite;
use super::progress::{Progress, Steps};
use super::story::{Onset, Story};
use super::vocabulary::Cause;
use super::{outcome, record};
use crate::text::{Lines, clean, floor_border};

/// Lines searched above a non-finite value for the last finite one.
const ONSET_LINES: usize = 2000;
/// Lines searched below a finding for progress.
const AFTER_LINES: usize = 4000;
/// Lines searched from the end of the text for the last step.
const LAST_STEP_LINES: usize = 400;
/// Lines searched below a finding for the next step.
const NEXT_LINES: usize = 200;
/// Bytes of a line that are read for words.
const MOST_BYTES: usize = 512;

/// Words with which trainers and scripts close a training.
static FINISHED: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let forms = [
        r"^\W{0,8}(?i:(?:done|finished|success|info)\W{1,3})?(?i:(?:model )?training|fine-?tuning) (?i:is |was |has )?(?i:successfully )?(?i:completed?|finished|done)\b",
        r"^\W{0,8}(?:INFO\W{1,3})?(?i:finished|completed|done with) (?i:training|fine-?tuning)\b",
        r"^\W{0,8}'train_runtime'\W{1,3}\d|^\W{0,8}train_runtime\s*=|^\*{5} train metrics \*{5}",
        r"^`Trainer\.fit` stopped: `max_(?:epochs|steps)=\d+` reached",
    ];
    Regex::new(&forms.map(|form| format!("(?:{form})")).join("|")).ok()
});

/// Step lines with rising steps that show that the run went on.
pub(super) const STEPS_ONWARD: usize = 3;

/// Lines searched above a finding for the step and for the epoch that it happened in.
const ABOVE_LINES: (usize, usize) = (64, 1000);

/// Where a run is: the step that was last seen to rise, in its epoch.
#[derive(Clone, Copy, Default)]
struct Place {
    epoch: Option<u64>,
    step: Option<u64>,
    /// The steps that the epoch has, when all of them were seen to be done.
    full: Option<u64>,
}

impl Place {
    /// Where the run is by line `after`.
    fn before(steps: &Steps<'_>, after: usize) -> Place {
        let step = (after.saturating_sub(ABOVE_LINES.0)..=after).rev().find_map(|i| steps.at(i)?.step);
        Place { step, ..Place::default() }
    }

    /// Is this step further on? Steps of the next epoch start anew, and so does a bar that was full.
    fn rises_to(self, now: Progress, epoch: Option<u64>) -> bool {
        let next_epoch = epoch.zip(self.epoch).is_some_and(|(now, last)| last.checked_add(1) == Some(now));
        let next_bar = now.total.is_some() && now.total == self.full;
        next_epoch || next_bar || self.step.is_none_or(|last| now.step.is_some_and(|step| step > last))
    }
}

/// Do step lines with finite losses and rising steps follow line `after`?
pub(super) fn went_on(steps: &Steps<'_>, after: usize, until: usize) -> bool {
    let last = steps.count().min(after + 1 + AFTER_LINES).min(until);
    // Looked for only when a line below asks for it.
    let mut place: Option<Place> = None;
    let (mut epoch, mut repeated) = (None, false);
    let (mut risen, mut with_loss, mut lower) = (0, 0, 0);
    for i in after + 1..last {
        let Some(now) = steps.at(i) else { continue };
        if now.loss.is_some_and(|loss| !loss.is_finite()) {
            return false;
        }
        if now.epoch.is_some() {
            let place = place.get_or_insert_with(|| Place::before(steps, after));
            if epoch.is_none() && place.epoch.is_none() {
                place.epoch = (after.saturating_sub(ABOVE_LINES.1)..=after).rev().find_map(|i| steps.at(i)?.epoch);
            }
            repeated |= now.step.is_none() && now.epoch == place.epoch;
            epoch = now.epoch;
        }
        if now.step.is_some() {
            let place = place.get_or_insert_with(|| Place::before(steps, after));
            if epoch.is_some() && epoch < place.epoch {
                // A rank that lags prints a few of them; more mean that the run was started again.
                lower += 1;
                if lower >= STEPS_ONWARD {
                    return false;
                }
            } else if place.rises_to(now, epoch) {
                *place = Place { epoch: epoch.or(place.epoch), step: now.step, full: now.total.filter(|_| now.total == now.step) };
                risen += 1;
            } else if repeated {
                return false;
            }
        } else if now.loss.is_some() {
            with_loss += 1;
        }
        if risen >= STEPS_ONWARD || with_loss >= STEPS_ONWARD {
            return true;
        }
    }
    false
}

/// The line below `after` on which the program says that its training came to an end.
pub(super) fn finished(lines: &dyn Lines, after: usize, until: usize) -> Option<usize> {
    let form = FINISHED.as_ref()?;
    (after + 1..lines.count().min(after + 1 + AFTER_LINES).min(until)).find(|&i| {
        let raw = lines.line(i);
        let head = &raw[..floor_border(&raw, MOST_BYTES)];
        // Cheap words first: few lines have them.
        let may = ["rain", "tun", "stopped"].iter().any(|word| head.contains(word));
        may && clean::segments(head, 0).into_iter().any(|segment| {
            let text = record::read(segment).body.text;
            form.is_match(&text) && !["rror", "fail", "Fail", "xception"].iter().any(|word| text.contains(word))
        })
    })
}

/// Did the program come to its own end after a finding? An exception that ended its process cannot be followed by that;
/// what a script prints behind it is another program's word.
pub(super) fn ended_well(finding: &Finding, lines: &dyn Lines, until: usize) -> Option<usize> {
    let above = finding.span.line.checked_sub(1).map(|above| lines.line(above));
    // A frame and its source stand indented above the last line of a traceback.
    let raised = above.is_some_and(|above| above.contains("    ") || above.contains("File \""));
    if raised && !outcome::is_handled_behind(finding, lines) {
        return None;
    }
    finished(lines, finding.span.end_line, until)
}

/// The first step that is reported below a line.
pub(super) fn next_step(steps: &Steps<'_>, after: usize) -> Option<(u64, usize)> {
    (after + 1..steps.count().min(after + 1 + NEXT_LINES)).find_map(|i| Some((steps.at(i)?.step?, i)))
}

/// The last step that was reported, and its line.
pub(super) fn last_step(steps: &Steps<'_>) -> Option<(u64, usize)> {
    let count = steps.count();
    (count.saturating_sub(LAST_STEP_LINES)..count).rev().find_map(|i| Some((steps.at(i)?.step?, i)))
}

/// Finds the first non-finite value and the last finite one above it.
pub(super) fn onset(findings: &mut [Finding], story: &Story, steps: &Steps<'_>) -> Option<Onset> {
    let group = story.groups.iter().find(|group| !group.went_on && is_non_finite(&findings[group.lead]))?;
    let finding = group.lead;
    let line = findings[finding].span.line;
    let step = findings[finding].step.or_else(|| steps.at(line)?.step);
    let last = (line.saturating_sub(ONSET_LINES)..line).rev().find_map(|i| {
        let progress = steps.at(i)?;
        progress.loss.is_some_and(f64::is_finite).then_some((i, progress.step))
    });
    // Step lines only (two exceptions of one run tell nothing about its past), not from the first step on, and not where
    // the loss itself was still finite.
    let reported = group.members.iter().any(|&i| steps.at(findings[i].span.line).is_some() || findings[i].step.is_some());
    let inside = reported
        && step.is_none_or(|step| step > 1)
        && steps.at(line).and_then(|progress| progress.loss).is_none_or(|loss| !loss.is_finite());
    let first = &mut findings[finding];
    first.step = step;
    if last.is_none() && inside && first.cause == Cause::NanOnset && group.members.len() > 1 && line == 0 {
        // The log begins inside the event: the onset is above what is seen.
        first.cause = Cause::NanOngoing;
    }
    let divergence = last.and_then(|(last, _)| divergence_up_to(steps, last));
    Some(Onset { finding, last_finite_line: last.map(|l| l.0), last_finite_step: last.and_then(|l| l.1), step, divergence })
}

/// Where loss or gradient norm left its band before the line of the last finite loss; of two, the earlier one.
fn divergence_up_to(steps: &Steps<'_>, last: usize) -> Option<Divergence> {
    let (mut losses, mut norms) = (Vec::new(), Vec::new());
    for line in last.saturating_sub(ONSET_LINES)..=last {
        let Some(now) = steps.at(line) else { continue };
        let sample = |value: f64| Sample { line, step: now.step, value };
        losses.extend(now.loss.filter(|loss| loss.is_finite()).map(sample));
        norms.extend(now.grad_norm.filter(|norm| norm.is_finite()).map(sample));
    }
    let found = [divergence::at_end(Quantity::Loss, &losses), divergence::at_end(Quantity::GradNorm, &norms)];
    found.into_iter().flatten().min_by_key(|divergence| divergence.line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::StrLines;

    #[test]
    fn the_end_of_a_training_is_told_from_talk_of_it() {
        let at = |line: &str| finished(&StrLines::new(&format!("first\n{line}\n")), 0, usize::MAX).is_some();
        for line in [
            "Training completed. Model saved to out/final",
            "Done. Training completed.",
            "2026-11-29 10:00:01,123 - INFO - Training finished in 3h",
            "{'train_runtime': 1234.5, 'train_loss': 1.9, 'epoch': 3.0}",
            "***** train metrics *****",
            "`Trainer.fit` stopped: `max_epochs=3` reached.",
            "INFO: Finished training",
        ] {
            assert!(at(line), "{line}");
        }
        for line in [
            "Training completed with errors",
            "torchrun: training failed",
            "the card must be free until training completed",
            "Training completed 40 % of its steps before the Error",
            "print(\"Training completed\")",
        ] {
            assert!(!at(line), "{line}");
        }
    }
}
