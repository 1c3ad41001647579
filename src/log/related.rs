//! Which kernel reports belong to the root cause, and which are another story in the same kernel log.
//!
//! A kernel log tells of all cards and all processes of a host, for weeks. An error of the driver and another event of
//! that log, or a memory error of a program, are linked only where they share the bus address or the process, or stand
//! within a minute of each other on one host.

use super::clock;
use super::finding::Finding;
use super::groups::is_non_finite;
use super::story::Story;
use super::vocabulary::{Kind, Severity};

/// Seconds within which two reports of one host are taken to be of one event.
const NEAR: f64 = 60.0;
/// Findings of a group that are compared.
const MOST_MEMBERS: usize = 16;

/// Marks the groups that have nothing to do with the root cause.
pub(super) fn mark(findings: &[Finding], story: &mut Story) {
    let Some(root) = story.root.and_then(|root| story.group_of(root)).map(|group| group.members.clone()) else { return };
    for group in &mut story.groups {
        if is_other_fault(&findings[group.lead], &findings[root[0]]) {
            group.unrelated = true;
            continue;
        }
        if group.members == root || !needs_evidence(&findings[group.lead], &findings[root[0]]) {
            continue;
        }
        let members = || group.members.iter().take(MOST_MEMBERS).map(|&i| &findings[i]);
        group.unrelated = !root.iter().take(MOST_MEMBERS).any(|&i| members().any(|other| are_related(&findings[i], other)));
    }
}

/// Of two reports that nothing ties together, does the later line explain the end of the run rather than the other?
/// `None` where they may belong together.
///
/// A memory error of the program itself is its end, whatever the kernel saw at another time. Of the kernel's own reports
/// the last one counts where their times are known.
pub(super) fn explains_better(later: &Finding, earlier: &Finding) -> Option<bool> {
    if !needs_evidence(later, earlier) || are_related(later, earlier) {
        return None;
    }
    let of_program = |finding: &Finding| finding.kind == Kind::Oom;
    Some(of_program(later) || (!of_program(earlier) && clock::is_earlier(earlier, later)))
}

/// Numbers that were none before memory ran out are a fault of their own: neither is the cause of the other.
pub(super) fn is_other_fault(finding: &Finding, root: &Finding) -> bool {
    let memory = matches!(root.kind, Kind::Oom | Kind::HostOom);
    memory && is_non_finite(finding) && finding.severity == Severity::Error && finding.span.line < root.span.line
}

/// Is a link between these two more than what usually follows what?
fn needs_evidence(one: &Finding, other: &Finding) -> bool {
    let of_kernel = |finding: &Finding| finding.kind == Kind::Hardware && address(finding).is_some();
    let memory = |finding: &Finding| matches!(finding.kind, Kind::Oom | Kind::HostOom);
    (of_kernel(one) && (of_kernel(other) || memory(other))) || (memory(one) && of_kernel(other))
}

/// Reports of one rule in the order of their lines, those of another card and time apart from one another.
pub(super) fn events(members: &[usize], findings: &[Finding]) -> Vec<Vec<usize>> {
    let mut events: Vec<Vec<usize>> = Vec::new();
    for &i in members {
        let goes_on = |event: &&mut Vec<usize>| event.last().is_none_or(|&last| !are_apart(&findings[last], &findings[i]));
        match events.iter_mut().rev().take(MOST_MEMBERS).find(goes_on) {
            Some(event) => event.push(i),
            None => events.push(vec![i]),
        }
    }
    events
}

/// Do two kernel reports say that they are of two cards, two processes and two times?
fn are_apart(one: &Finding, other: &Finding) -> bool {
    let times = one.time.as_ref().zip(other.time.as_ref());
    let known = times.is_some_and(|(a, b)| clock::between(a, b).is_some());
    known && address(one).is_some() && address(other).is_some() && !are_related(one, other)
}

/// Do two findings share a card, a process, or a minute of a host?
fn are_related(one: &Finding, other: &Finding) -> bool {
    let same_card = address(one).is_some_and(|bus| address(other) == Some(bus));
    let pid = |finding: &Finding| finding.number("pid").map(|pid| pid.value.as_f64());
    same_card || pid(one).is_some_and(|one| pid(other) == Some(one)) || clock::is_near(one, other, NEAR)
}

/// The bus address of a card without its function and the zeros in front of its domain, in lower case.
fn address(finding: &Finding) -> Option<String> {
    let bus = finding.text("bus")?.to_ascii_lowercase();
    let card = bus.split('.').next().unwrap_or(&bus);
    Some(card.trim_start_matches(['0', ':']).to_owned())
}
