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

/// Lines between an error and the end of its job in which no step was made ...
const HUNG_LINES: usize = 4000;
/// ... and in a log without any step.
const SILENT_LINES: usize = 200;

/// Finds the root of each attempt, and the one of the run: that of the last attempt, unless it does not tell.
///
/// An earlier attempt explains the run when the last one has only begun, or has failed without saying why.
pub(super) fn choose(findings: &[Finding], story: &mut Story, steps: &Steps<'_>) -> Option<usize> {
    let root_of = |story: &Story, nth: usize| {
        let root = of_attempt(findings, story, nth);
        let root = uncaught::cause(findings, story, nth, root, steps).or(root);
        root.and_then(|root| hung_until(findings, story, nth, root, steps)).or(root)
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

/// The error behind which no step was made until the scheduler took the job away: the rest hung until then.
fn hung_until(findings: &[Finding], story: &Story, attempt: usize, root: usize, steps: &Steps<'_>) -> Option<usize> {
    if !is_taken_away(&findings[root]) {
        return None;
    }
    let end = findings[root].span.line;
    let first = story.attempts.get(attempt).map_or(0, |attempt| attempt.first_line);
    let hung = |group: &Group| {
        let lead = &findings[group.lead];
        let last = group.members.iter().rev().map(|&i| findings[i].span.end_line).find(|&line| line < end);
        group.attempt == attempt && !group.went_on && lead.span.line < end && last.is_some_and(|last| none_follows(first, last, end, steps))
    };
    let open: Vec<&Group> = story.groups.iter().filter(|group| hung(group)).collect();
    let failed = open.iter().map(|group| group.lead).filter(|&i| stops_steps(&findings[i]));
    let best = failed.reduce(|best, next| if explains_better(&findings[next], &findings[best]) { next } else { best });
    let is_weak = best.is_none_or(|best| findings[best].precedence >= uncaught::SYMPTOMS_FROM);
    let exception = || uncaught::last_words_before(findings, open.iter().copied(), end, steps);
    is_weak.then(exception).flatten().or(best)
}

/// Is it an error that ends the steps of a run, and that no signal brings about?
fn stops_steps(finding: &Finding) -> bool {
    let by_itself = matches!(finding.kind, Kind::Oom | Kind::Nan | Kind::CudaError | Kind::Hardware);
    let waited = finding.kind == Kind::Nccl && finding.cause == Cause::Timeout;
    finding.role == Role::RootCause && finding.severity == Severity::Error && (by_itself || waited)
}

/// Does no step with a finite loss stand between an error and the end of the job?
fn none_follows(first: usize, error: usize, end: usize, steps: &Steps<'_>) -> bool {
    let made_steps = attempts::last_step(first, error, steps).is_some();
    let most = if made_steps { HUNG_LINES } else { SILENT_LINES };
    let is_step = |i: usize| steps.at(i).is_some_and(|now| now.step.is_some() && now.loss.is_none_or(f64::is_finite));
    end - error <= most && !(error + 1..end).any(is_step)
}

/// Did the scheduler end the job at the end of its time, to run another one, or because it was told to?
pub(super) fn is_taken_away(finding: &Finding) -> bool {
    finding.kind == Kind::Launch
        && finding.role == Role::RootCause
        && matches!(finding.cause, Cause::TimeLimit | Cause::Preemption | Cause::Cancelled)
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

/// The same for two files of one run: a rank that ran out of memory, or whose loss was no number, is why the others were
/// taken away.
pub(super) fn explains_run_better(later: &Finding, earlier: &Finding) -> bool {
    let fails = |finding: &Finding| matches!(finding.kind, Kind::Oom | Kind::Nan) && finding.severity == Severity::Error;
    if is_taken_away(later) && fails(earlier) {
        return false;
    }
    (is_taken_away(earlier) && fails(later)) || explains_better(later, earlier)
}

/// Is this an assertion of the device on a value (a probability, an input of a loss), which a number that is none breaks?
/// An index, a label or a target is out of its range whatever the loss was.
fn asserts_on_value(finding: &Finding) -> bool {
    const OF_DATA: [&str; 7] = ["index", "idx", "ind ", "dim", "t >=", "target", "label"];
    let assertion = finding.text("assertion").unwrap_or_default().to_ascii_lowercase();
    finding.cause == Cause::Assert && !OF_DATA.iter().any(|word| assertion.contains(word))
}
