//! When a Python exception is the root cause: where everything else follows from a process that ended, or where the log
//! of a run that made steps ends with it.
//!
//! Programs print exceptions that they have handled, so one alone is information. Beside timeouts, closed connections or
//! a launcher's summary it is what ended its process, unless step lines follow it or it is itself such a symptom. So it
//! is when step lines stand above it and nothing but a process's last words below.

use super::finding::Finding;
use super::progress::Steps;
use super::story::{Group, Story};
use super::vocabulary::{Cause, Kind, Role, Severity};
use crate::text::floor_border;

/// Precedence from which a finding is no cause of its own: network errors, timeouts, follow-ups.
pub(super) const SYMPTOMS_FROM: u8 = 9;

/// Exceptions that report the end of another process.
const SYMPTOMS: [&str; 17] = [
    "CalledProcessError",
    "ChildFailedError",
    "ProcessExitedException",
    "ProcessRaisedException",
    "BrokenPipeError",
    "ConnectionResetError",
    "ConnectionRefusedError",
    "ConnectionError",
    "EOFError",
    "SignalException",
    "DistBackendError",
    "DistStoreError",
    "DistNetworkError",
    "TimeoutError",
    "RayActorError",
    "WorkerCrashedError",
    "LocalWorkerDiedError",
];

/// Lower-case words of an exception that a program raises when a scheduler warns it.
const SIGNALLED: [&str; 6] = ["sigterm", "sigusr", "signal", "preempt", "interrupt", "time limit"];

/// Lines below an exception that are looked through for anything but a process's last words.
const LAST_WORDS: usize = 200;

/// Lines between two exceptions, and bytes of each, that are looked through for a bar.
const BAR_LINES: usize = 2000;
const BAR_BYTES: usize = 64 << 10;
/// Rises of a bar that show that the program went on.
const BARS_ONWARD: usize = 3;

/// What a process, its progress bars and its trackers still print while an exception ends it.
const ENDINGS: [&str; 7] =
    ["wandb:", "destroy_process_group", "resource_tracker", "ResourceWarning", "Exception ignored in", "it/s]", "s/it]"];

/// Lines above an exception in which its traceback stands.
const TRACEBACK_LINES: usize = 400;

/// Where a traceback begins that nothing caught: the module, or what starts a thread or process. One that a program caught
/// and printed begins where it was caught.
const OUTERMOST: [&str; 4] = ["in <module>", "_run_module_as_main", "in _bootstrap", "in _wrap"];

/// The exception that explains the others of an attempt, if one does. `root` is what explains them without exceptions.
pub(super) fn cause(findings: &[Finding], story: &Story, attempt: usize, root: Option<usize>, steps: &Steps<'_>) -> Option<usize> {
    if root.is_some_and(|root| findings[root].precedence < SYMPTOMS_FROM) {
        return None;
    }
    // What was started again had ended.
    let was_restarted = attempt + 1 < story.attempts.len();
    let of_attempt = || story.groups.iter().filter(|group| group.attempt == attempt);
    if was_restarted || of_attempt().any(|group| is_end(&findings[group.lead])) {
        return last_worked_past(findings, of_attempt(), steps);
    }
    let (_, step_line) = story.last_step?;
    let after_steps = |group: &&Group| findings[group.lead].span.line >= step_line;
    first(findings, of_attempt().filter(after_steps)).filter(|_| ends_with_exception(findings, steps))
}

/// Is an exception the last thing that the log says?
fn ends_with_exception(findings: &[Finding], steps: &Steps<'_>) -> bool {
    let Some(last) = findings.iter().rfind(|finding| is_exception(finding) && !is_symptom(finding)) else { return false };
    is_uncaught(last, steps) && are_last_words(last.span.end_line + 1..steps.count(), steps)
}

/// Does the traceback above an exception begin where a program does?
fn is_uncaught(finding: &Finding, steps: &Steps<'_>) -> bool {
    let line = finding.span.line;
    for i in (line.saturating_sub(TRACEBACK_LINES)..=line).rev() {
        let text = steps.lines.line(i);
        if OUTERMOST.iter().any(|frame| text.contains(frame)) {
            return true;
        }
        if text.contains("Traceback (most recent call last)") {
            return false;
        }
    }
    false
}

fn are_last_words(mut lines: std::ops::Range<usize>, steps: &Steps<'_>) -> bool {
    let is_last_word = |line: &str| line.trim().is_empty() || ENDINGS.iter().any(|ending| line.contains(ending));
    lines.len() <= LAST_WORDS && lines.all(|i| is_last_word(&steps.lines.line(i)))
}

/// The first of these exceptions whose traceback was printed, when nothing but last words follow them up to line `end`.
pub(super) fn last_words_before<'s>(
    findings: &[Finding],
    groups: impl Iterator<Item = &'s Group>,
    end: usize,
    steps: &Steps<'_>,
) -> Option<usize> {
    let signalled = |lead: &Finding| {
        let message = lead.message.to_ascii_lowercase();
        SIGNALLED.iter().any(|word| message.contains(word))
    };
    let traced = |group: &&Group| findings[group.lead].text("frame").is_some() && !signalled(&findings[group.lead]);
    let last = findings.iter().rfind(|finding| finding.span.line < end && is_exception(finding) && !is_symptom(finding))?;
    first(findings, groups.filter(traced)).filter(|_| are_last_words(last.span.end_line + 1..end, steps))
}

/// Does anything say that a process ended, and nothing why?
pub(super) fn has_symptom(findings: &[Finding], story: &Story) -> bool {
    story.groups.iter().any(|group| is_end(&findings[group.lead]))
}

/// The first exception that no step lines follow and that is no symptom itself.
pub(super) fn candidate(findings: &[Finding], story: &Story) -> Option<usize> {
    first(findings, story.groups.iter())
}

fn first<'s>(findings: &[Finding], groups: impl Iterator<Item = &'s Group>) -> Option<usize> {
    let alone = |group: &&Group| !group.went_on && is_exception(&findings[group.lead]) && !is_symptom(&findings[group.lead]);
    groups.into_iter().find(alone).map(|group| group.lead)
}

/// The first exception, unless a bar of other work (tokenising, downloading) ran on between it and one of another class:
/// then the program had caught it, and the later one is looked at in the same way.
fn last_worked_past<'s>(findings: &[Finding], groups: impl Iterator<Item = &'s Group>, steps: &Steps<'_>) -> Option<usize> {
    let alone = |group: &&Group| !group.went_on && is_exception(&findings[group.lead]) && !is_symptom(&findings[group.lead]);
    let mut leads = groups.filter(alone).map(|group| group.lead);
    let mut kept = leads.next()?;
    for next in leads {
        let (first, second) = (&findings[kept], &findings[next]);
        let other_rank = first.rank.zip(second.rank).is_some_and(|(a, b)| a != b);
        let other_class = first.text("exception") != second.text("exception");
        if !other_rank && other_class && bar_ran_on(steps, first.span.end_line, second.span.line) {
            kept = next;
        }
    }
    Some(kept)
}

/// Does a progress bar rise between two lines?
fn bar_ran_on(steps: &Steps<'_>, from: usize, to: usize) -> bool {
    let (mut last, mut risen) = ((0, 0), 0);
    for i in from + 1..to.min(from + BAR_LINES) {
        let line = steps.lines.line(i);
        for (done, total) in bars(&line[..floor_border(&line, BAR_BYTES)]) {
            risen += usize::from(total == last.1 && done > last.0);
            last = (done, total);
        }
    }
    risen >= BARS_ONWARD
}

/// The counts of the bars in a line: `Map:  40%|████      | 187000/464911 [04:28<06:09, 752.37 examples/s]`.
fn bars(line: &str) -> impl Iterator<Item = (u64, u64)> {
    line.split("%|").skip(1).filter_map(|bar| {
        let counts = bar.split_once('|')?.1.split_once('[')?.0.trim();
        let (done, total) = counts.split_once('/')?;
        Some((done.parse().ok()?, total.parse().ok()?))
    })
}

/// Does it say that a process ended, and not why?
pub(super) fn is_end(lead: &Finding) -> bool {
    let launcher = lead.kind == Kind::Launch && matches!(lead.role, Role::Consequence | Role::Confirmation);
    launcher || (lead.precedence >= SYMPTOMS_FROM && lead.severity != Severity::Info && !is_exception(lead))
}

/// Is this an exception that no page of its own explains?
pub(super) fn is_exception(finding: &Finding) -> bool {
    finding.kind == Kind::Crash && finding.cause == Cause::Exception && finding.text("exception").is_some()
}

fn is_symptom(finding: &Finding) -> bool {
    let class = finding.text("exception").unwrap_or_default();
    SYMPTOMS.contains(&class.rsplit('.').next().unwrap_or(class))
}

#[cfg(test)]
mod tests {
    use crate::log::analyze;
    use crate::log::rules::Rules;

    const CAUGHT: &str = "Map:   1%|▏         | 1000/90000 [00:01<01:59, 745 examples/s]Traceback (most recent call last):\n  File \"/home/user/data.py\", line 178, in rows\n    raise RowError(row)\ndata.RowError: row 2174 is too long\n";
    const BARS: &str = "Map:  40%|████      | 36000/90000 [00:41<01:12, 750 examples/s]\nMap:  60%|██████    | 54000/90000 [01:01<00:48, 750 examples/s]\nMap:  80%|████████  | 72000/90000 [01:21<00:24, 750 examples/s]\nMap: 100%|██████████| 90000/90000 [02:00<00:00, 750 examples/s]\n";
    const DIED: &str = "Traceback (most recent call last):\n  File \"/home/user/train.py\", line 20, in <module>\n    main()\nValueError: unknown optimiser\nE1129 09:25:21.900000 1 torch/distributed/elastic/multiprocessing/api.py:833] failed (exitcode: 1) local_rank: 0 (pid: 76531) of binary: /usr/bin/python3\n";

    fn root(text: &str) -> String {
        let analysis = analyze(text, &Rules::builtin());
        let root = analysis.story.root.map(|root| &analysis.findings[root]);
        root.and_then(|root| root.text("exception")).unwrap_or_default().to_owned()
    }

    #[test]
    fn an_exception_that_a_bar_ran_past_was_caught() {
        assert_eq!(root(&format!("{CAUGHT}{BARS}{DIED}")), "ValueError");
        assert_eq!(root(&format!("{CAUGHT}{DIED}")), "data.RowError");
        assert_eq!(root(&format!("{CAUGHT}{BARS}{CAUGHT}{BARS}{DIED}")), "ValueError");
    }
}
