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

/// Lines below an exception that are looked through for anything but a process's last words.
const LAST_WORDS: usize = 200;

/// What a process, its progress bars and its trackers still print while an exception ends it.
const ENDINGS: [&str; 7] =
    ["wandb:", "destroy_process_group", "resource_tracker", "ResourceWarning", "Exception ignored in", "it/s]", "s/it]"];

/// The exception that explains the others of an attempt, if one does. `root` is what explains them without exceptions.
pub(super) fn cause(findings: &[Finding], story: &Story, attempt: usize, root: Option<usize>, steps: &Steps<'_>) -> Option<usize> {
    if root.is_some_and(|root| findings[root].precedence < SYMPTOMS_FROM) {
        return None;
    }
    // What was started again had ended.
    let was_restarted = attempt + 1 < story.attempts.len();
    let of_attempt = || story.groups.iter().filter(|group| group.attempt == attempt);
    if was_restarted || of_attempt().any(|group| is_end(&findings[group.lead])) {
        return first(findings, of_attempt());
    }
    let (_, step_line) = story.last_step?;
    let after_steps = |group: &&Group| findings[group.lead].span.line >= step_line;
    first(findings, of_attempt().filter(after_steps)).filter(|_| ends_with_exception(findings, steps))
}

/// Is an exception the last thing that the log says?
fn ends_with_exception(findings: &[Finding], steps: &Steps<'_>) -> bool {
    let Some(last) = findings.iter().rfind(|finding| is_exception(finding) && !is_symptom(finding)) else { return false };
    let below = last.span.end_line + 1..steps.count();
    let is_last_word = |line: &str| line.trim().is_empty() || ENDINGS.iter().any(|ending| line.contains(ending));
    below.len() <= LAST_WORDS && below.into_iter().all(|i| is_last_word(&steps.lines.line(i)))
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
