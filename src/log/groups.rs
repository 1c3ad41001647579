//! Findings to groups: one event on many ranks or steps is one group; what progress follows is over.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use super::aftermath::{STEPS_ONWARD, ended_well, went_on};
use super::finding::{Finding, Number};
use super::progress::Steps;
use super::recovery;
use super::related;
use super::story::Group;
use super::uncaught;
use super::vocabulary::{Cause, Kind, Role, Severity};
use crate::text::Lines;

/// Lines of a launcher's summary that are looked through.
const SUMMARY_LINES: usize = 4000;
/// Lines that may stand between two reports of one event.
const NEAR_LINES: usize = 30;
/// Candidates whose aftermath is looked at.
const MOST_CANDIDATES: usize = 64;

/// Findings of one rule and cause are one event, unless the run went on in between.
pub(super) fn group(findings: &[Finding], starts: &[usize], steps: &Steps<'_>) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    let mut of_event: HashMap<(usize, EventKey<'_>), usize> = HashMap::new();
    let attempt_of = |finding: &Finding| starts.partition_point(|&start| start <= finding.span.line);
    for (i, finding) in findings.iter().enumerate() {
        match of_event.entry((attempt_of(finding), event_key(finding))) {
            Entry::Occupied(group) => groups[*group.get()].members.push(i),
            Entry::Vacant(place) => {
                place.insert(groups.len());
                groups.push(Group { lead: i, members: vec![i], attempt: attempt_of(finding), ..Group::default() });
            }
        }
    }
    let groups = groups.into_iter().flat_map(|group| {
        let events = if findings[group.lead].kind == Kind::Hardware { related::events(&group.members, findings) } else { Vec::new() };
        if events.len() < 2 {
            return vec![group];
        }
        events.into_iter().map(|members| Group { lead: members[0], members, attempt: group.attempt, ..Group::default() }).collect()
    });
    let mut out = Vec::with_capacity(groups.size_hint().0);
    for (nth, group) in groups.enumerate() {
        let lead = &findings[group.lead];
        // Nothing goes on behind the end of a job but its grace time; a new start is an attempt of its own.
        let ended = lead.kind == Kind::Launch && lead.text("time").is_some();
        let loud = !ended && (lead.severity != Severity::Info || uncaught::is_exception(lead)) && nth < MOST_CANDIDATES;
        // Steps that follow are no sign that memory has stopped to grow: the series says how far it went.
        let loud = loud && !(lead.kind == Kind::Leak && matches!(lead.cause, Cause::MemoryGrowth | Cause::Fragmentation));
        let split = if loud { split_where_it_went_on(&group, findings, starts, steps) } else { vec![group] };
        out.extend(split);
    }
    for group in &mut out {
        group.lead = lead_of_summary(group, findings, steps.lines).unwrap_or(group.lead);
        group.ranks = ranks_of(&group.members, findings);
    }
    out.sort_by_key(|group| group.lead);
    out
}

/// The ranks that reported these findings, rising.
pub(super) fn ranks_of(members: &[usize], findings: &[Finding]) -> Vec<u32> {
    let mut ranks: Vec<u32> = members.iter().filter_map(|&i| findings[i].rank).collect();
    ranks.sort_unstable();
    ranks.dedup();
    ranks
}

/// torchrun lists the other failures first and the first failure last, under a heading of its own.
fn lead_of_summary(group: &Group, findings: &[Finding], lines: &dyn Lines) -> Option<usize> {
    let first = findings[group.lead].span.line;
    let last = findings[*group.members.last()?].span.line.min(first + SUMMARY_LINES);
    if first == last || !["exitcode  : ", "traceback : "].iter().any(|field| lines.line(first).contains(field)) {
        return None;
    }
    let heading = (first..last).find(|&i| lines.line(i).contains("Root Cause (first observed failure)"))?;
    group.members.iter().copied().find(|&i| findings[i].span.line > heading)
}

/// What makes two findings one event: rule, cause, severity, a number and a message where they tell events apart.
type EventKey<'f> = (&'f str, Cause, Severity, Option<u64>, &'f str);

fn event_key(f: &Finding) -> EventKey<'_> {
    if is_non_finite(f) {
        // Non-finite values in the loss and in its hooks are one event; a gradient beside a finite loss may heal.
        return ("non-finite", Cause::NanOnset, f.severity, None, "");
    }
    if f.kind == Kind::Nan {
        return ("overflow", f.cause, f.severity, None, "");
    }
    // Reports with different numbers are different reports; Xids of one page are told apart by their number (a page of
    // another name is about one Xid, which its other wordings do not print).
    let xid = f.number("xid").filter(|_| f.rule.starts_with("xid")).map(|number| number.value.as_f64().to_bits());
    // So are exceptions with different texts, and details of one event that say different things.
    let detail = f.severity == Severity::Info && f.role == Role::Confirmation && f.rank.is_none();
    let told_apart = f.kind == Kind::Report || (f.kind == Kind::Crash && f.cause == Cause::Exception) || detail;
    (&f.rule, f.cause, f.severity, xid, if told_apart { &f.message } else { "" })
}

/// Do the findings of a group stand so close together that they are one event told on several lines? Steps that went
/// wrong one after the other are several events, and so are lines that name different processes or sizes.
pub(super) fn is_told_at_once(group: &Group, findings: &[Finding]) -> bool {
    let spans = || group.members.iter().map(|&i| findings[i].span);
    let near = spans().zip(spans().skip(1)).all(|(one, next)| next.line <= one.end_line + NEAR_LINES);
    let lead = &findings[group.lead];
    let differs = |number: &Number| lead.number(&number.name).is_some_and(|first| first.value.as_f64() != number.value.as_f64());
    near && lead.kind != Kind::Nan && !group.members.iter().any(|&i| findings[i].numbers.iter().any(differs))
}

pub(super) fn is_non_finite(f: &Finding) -> bool {
    f.kind == Kind::Nan && matches!(f.cause, Cause::NanOnset | Cause::NanOngoing)
}

/// An event that progress follows is over; the next one of its kind is a new event.
fn split_where_it_went_on(group: &Group, findings: &[Finding], starts: &[usize], steps: &Steps<'_>) -> Vec<Group> {
    let mut out: Vec<Group> = Vec::new();
    let mut members = Vec::new();
    // Steps of the next attempt are not of this one.
    let end = starts.get(group.attempt).copied().unwrap_or(usize::MAX);
    for (k, &i) in group.members.iter().enumerate() {
        members.push(i);
        let next = group.members.get(k + 1).map(|&n| findings[n].span.line);
        let here = findings[i].span.end_line;
        let far = next.is_none_or(|next| next > here + STEPS_ONWARD);
        // The same error once more, after the program said what it did about this one, is another event.
        let handled = k < MOST_CANDIDATES
            && findings[i].kind == Kind::Oom
            && next.is_some_and(|next| recovery::handled_at(&findings[i], steps.lines).is_some_and(|line| line < next));
        let until = next.unwrap_or(end);
        // A program ends once: what it says of its end is looked for behind the last of them.
        let ended = || next.is_none() && ended_well(&findings[i], steps.lines, until).is_some();
        if handled || (far && (went_on(steps, here, until) || ended())) {
            let members = std::mem::take(&mut members);
            out.push(Group { lead: members[0], members, went_on: true, handled, attempt: group.attempt, ..Group::default() });
        }
    }
    if !members.is_empty() {
        out.push(Group { lead: members[0], members, attempt: group.attempt, ..Group::default() });
    }
    out
}
