//! When a Python exception is the root cause: only where everything else follows from a process that ended.
//!
//! Programs print exceptions that they have handled, so one alone is information. Beside timeouts, closed connections or
//! a launcher's summary it is what ended its process, unless step lines follow it or it is itself such a symptom.

use super::aftermath::went_on;
use super::finding::Finding;
use super::progress::Steps;
use super::story::Story;
use super::vocabulary::{Cause, Kind, Role, Severity};

/// Precedence from which a finding is no cause of its own: network errors, timeouts, follow-ups.
const SYMPTOMS_FROM: u8 = 9;
/// Exceptions looked at.
const MOST_CANDIDATES: usize = 16;

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

/// The exception that explains the others of an attempt, if one does. `root` is what explains them without exceptions.
pub(super) fn cause(findings: &[Finding], story: &Story, steps: &Steps<'_>, attempt: usize, root: Option<usize>) -> Option<usize> {
    if root.is_some_and(|root| findings[root].precedence < SYMPTOMS_FROM) {
        return None;
    }
    let leads = || story.groups.iter().filter(|group| group.attempt == attempt).map(|group| group.lead);
    let ended = |lead: usize| {
        let finding = &findings[lead];
        let launcher = finding.kind == Kind::Launch && matches!(finding.role, Role::Consequence | Role::Confirmation);
        launcher || (finding.precedence >= SYMPTOMS_FROM && finding.severity != Severity::Info && !is_exception(finding))
    };
    // What was started again had ended.
    if attempt + 1 >= story.attempts.len() && !leads().any(ended) {
        return None;
    }
    let until = story.attempts.get(attempt).map_or(usize::MAX, |attempt| attempt.last_line + 1);
    let candidates = leads().filter(|&lead| is_exception(&findings[lead])).take(MOST_CANDIDATES);
    candidates.into_iter().find(|&lead| !is_symptom(&findings[lead]) && !went_on(steps, findings[lead].span.end_line, until))
}

/// Is this an exception that no page of its own explains?
pub(super) fn is_exception(finding: &Finding) -> bool {
    finding.kind == Kind::Crash && finding.cause == Cause::Exception && finding.text("exception").is_some()
}

fn is_symptom(finding: &Finding) -> bool {
    let class = finding.text("exception").unwrap_or_default();
    SYMPTOMS.contains(&class.rsplit('.').next().unwrap_or(class))
}
