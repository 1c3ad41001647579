//! The root cause: which finding explains the others, in the attempt that counts.

use super::attempts;
use super::clock;
use super::finding::Finding;
use super::groups::is_non_finite;
use super::progress::Steps;
use super::related;
use super::story::{Group, Story};
use super::uncaught;
use super::vocabulary::{Cause, Confidence, Kind, Role, Severity};

/// Precedence of what only follows other events.
const FOLLOW_UP: u8 = 11;

/// Finds the root of each attempt, and the one of the run: that of the last attempt, unless it does not tell.
///
/// An earlier attempt explains the run when the last one has only begun, or has failed without saying why.
pub(super) fn choose(findings: &[Finding], story: &mut Story, steps: &Steps<'_>) -> Option<usize> {
    let root_of = |story: &Story, nth: usize| {
        let root = of_attempt(findings, story, nth);
        uncaught::cause(findings, story, nth, root, steps).or(root)
    };
    if story.attempts.is_empty() {
        return root_of(story, 0);
    }
    for nth in 0..story.attempts.len() {
        let root = root_of(story, nth);
        let attempt = &mut story.attempts[nth];
        attempt.root = root;
        let until = root.map_or(attempt.last_line, |root| findings[root].span.line);
        attempt.last_step = attempts::last_step(attempt.first_line, until, steps);
    }
    for nth in (0..story.attempts.len()).rev() {
        let failed = |group: &Group| group.attempt == nth && !group.went_on && findings[group.lead].severity != Severity::Info;
        let attempt = &story.attempts[nth];
        if attempt.root.is_some() || (attempt.last_step.is_some() && !story.groups.iter().any(failed)) {
            return attempt.root;
        }
    }
    None
}

/// The finding that explains the others of an attempt.
fn of_attempt(findings: &[Finding], story: &Story, attempt: usize) -> Option<usize> {
    let candidates = story.groups.iter().filter(|group| {
        let lead = &findings[group.lead];
        group.attempt == attempt
            && !group.went_on
            && lead.role == Role::RootCause
            && lead.severity != Severity::Info
            && !stopped_by_launcher(lead, findings)
    });
    let mut best: Option<usize> = None;
    for group in candidates {
        let Some(now) = best else {
            best = Some(group.lead);
            continue;
        };
        let (later, earlier) = (&findings[group.lead], &findings[now]);
        if related::explains_better(later, earlier).unwrap_or_else(|| explains_better(later, earlier)) {
            best = Some(group.lead);
        }
    }
    best.or_else(|| survived_poison(findings, story, attempt))
}

/// A loss that was no number, although the run went on, when nothing else explains anything.
fn survived_poison(findings: &[Finding], story: &Story, attempt: usize) -> Option<usize> {
    let poisoned = |lead: &Finding| is_non_finite(lead) && lead.role == Role::RootCause && lead.severity == Severity::Error;
    story.groups.iter().find(|group| group.attempt == attempt && group.went_on && poisoned(&findings[group.lead])).map(|group| group.lead)
}

/// Once a launcher has reported a failed task or stops the rest, a follow-up that is unsure of itself is one of its victims.
fn stopped_by_launcher(lead: &Finding, findings: &[Finding]) -> bool {
    let stops =
        |f: &Finding| f.kind == Kind::Launch && f.role == Role::Consequence && matches!(f.cause, Cause::Exception | Cause::Teardown);
    lead.precedence >= FOLLOW_UP && lead.confidence == Confidence::Low && findings.iter().any(|f| stops(f) && f.span.line < lead.span.line)
}

/// Does the later finding explain more than the earlier one?
///
/// Follow-ups and timeouts give way to any cause. Otherwise a later event of a nearer class must be sure of itself: a bare
/// kill after an exception is mostly the launcher's doing. A warning gives way to an error of its own or a nearer class.
/// Of one class the earlier time stamp wins: ranks are interleaved, and files of one run are read one by one.
pub(super) fn explains_better(later: &Finding, earlier: &Finding) -> bool {
    if is_non_finite(earlier) && asserts_on_value(later) {
        return false;
    }
    if later.precedence < earlier.precedence {
        return earlier.precedence >= 9 || later.confidence == Confidence::High || earlier.severity == Severity::Warning;
    }
    if later.precedence > earlier.precedence {
        return false;
    }
    (later.severity == Severity::Error && earlier.severity == Severity::Warning)
        || (later.severity == earlier.severity && clock::is_earlier(later, earlier))
}

/// Is this an assertion of the device on a value (a probability, an input of a loss), which a number that is none breaks?
/// An index, a label or a target is out of its range whatever the loss was.
fn asserts_on_value(finding: &Finding) -> bool {
    const OF_DATA: [&str; 7] = ["index", "idx", "ind ", "dim", "t >=", "target", "label"];
    let assertion = finding.text("assertion").unwrap_or_default().to_ascii_lowercase();
    finding.cause == Cause::Assert && !OF_DATA.iter().any(|word| assertion.contains(word))
}
