//! The story of a run: which finding explains the others, which only followed, which are the same event once more, and
//! whether the run went on afterwards.
//!
//! The text decides: no root cause is named when only follow-ups are left. A finding that step lines with finite losses
//! follow is context, not a cause. Lines of several ranks are interleaved and may be printed late, so a cause can stand
//! below its consequences; the class of an event (`precedence`) outranks its place.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use super::aftermath::{STEPS_ONWARD, last_step, onset, went_on};
use super::divergence::Divergence;
use super::finding::{Finding, Number, Span};
use super::rules::Rules;
use super::scan::Match;
use super::vocabulary::{Cause, Confidence, Kind, Role, Severity};
use super::{Analysis, build, uncaught};
use crate::text::Lines;

/// What the findings amount to. Indices are into the analysis's findings.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Story {
    /// The finding that explains the others.
    pub root: Option<usize>,
    /// Every finding stands in exactly one group; a group is one event.
    pub groups: Vec<Group>,
    /// The group of each finding.
    pub group_index: Vec<usize>,
    /// Where the numbers stopped being finite.
    pub onset: Option<Onset>,
    /// The last step that was reported, and its line.
    pub last_step: Option<(u64, usize)>,
}

impl Story {
    /// The group that holds this finding.
    pub fn group_of(&self, finding: usize) -> Option<&Group> {
        self.groups.get(*self.group_index.get(finding)?)
    }
}

/// One event, seen once or many times.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Group {
    /// The finding that stands for it.
    pub lead: usize,
    /// All of them, the lead too, in line order.
    pub members: Vec<usize>,
    /// The ranks that reported it, rising.
    pub ranks: Vec<u32>,
    /// Did the run go on afterwards?
    pub went_on: bool,
}

/// The first non-finite number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Onset {
    /// The finding.
    pub finding: usize,
    /// The line with the last finite loss before it, 0-based.
    pub last_finite_line: Option<usize>,
    /// The step of that line.
    pub last_finite_step: Option<u64>,
    /// The step of the first non-finite value.
    pub step: Option<u64>,
    /// Where the loss or the gradient norm left its band before.
    pub divergence: Option<Divergence>,
}

/// Lines of a launcher's summary that are looked through.
const SUMMARY_LINES: usize = 4000;
/// Precedence of what only follows other events.
const FOLLOW_UP: u8 = 11;
/// Candidates whose aftermath is looked at.
const MOST_CANDIDATES: usize = 64;

/// Tells the story of all matches of a text.
pub fn tell(matches: &[Match], lines: &dyn Lines, rules: &Rules) -> Analysis {
    let mut findings = build::findings(matches, lines, rules);
    let mut story = Story::default();
    if findings.is_empty() {
        return Analysis { findings, story };
    }
    story.last_step = last_step(lines);
    story.groups = group(&findings, lines);
    story.group_index = vec![0; findings.len()];
    for (nth, group) in story.groups.iter().enumerate() {
        for &member in &group.members {
            story.group_index[member] = nth;
        }
    }
    story.onset = onset(&mut findings, &story, lines);
    story.root = root(&findings, &story);
    if let Some(exception) = uncaught::cause(&findings, &story) {
        let group = &story.groups[story.group_index[exception]];
        for &member in &group.members {
            (findings[member].severity, findings[member].role) = (Severity::Error, Role::RootCause);
        }
        story.root = Some(exception);
    }
    assign_roles(&mut findings, &story);
    Analysis { findings, story }
}

/// Findings of one rule and cause are one event, unless the run went on in between.
fn group(findings: &[Finding], lines: &dyn Lines) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    let mut of_event: HashMap<EventKey<'_>, usize> = HashMap::new();
    for (i, finding) in findings.iter().enumerate() {
        match of_event.entry(event_key(finding)) {
            Entry::Occupied(group) => groups[*group.get()].members.push(i),
            Entry::Vacant(place) => {
                place.insert(groups.len());
                groups.push(Group { lead: i, members: vec![i], ..Group::default() });
            }
        }
    }
    let mut out = Vec::with_capacity(groups.len());
    for (nth, group) in groups.into_iter().enumerate() {
        let lead = &findings[group.lead];
        let loud = (lead.severity != Severity::Info || uncaught::is_exception(lead)) && nth < MOST_CANDIDATES;
        let split = if loud { split_where_it_went_on(&group, findings, lines) } else { vec![group] };
        out.extend(split);
    }
    for group in &mut out {
        group.lead = lead_of_summary(group, findings, lines).unwrap_or(group.lead);
        group.ranks = group.members.iter().filter_map(|&i| findings[i].rank).collect();
        group.ranks.sort_unstable();
        group.ranks.dedup();
    }
    out.sort_by_key(|group| group.lead);
    out
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
        // Non-finite values in the loss, in the gradient and in their hooks are one event.
        return ("non-finite", Cause::NanOnset, Severity::Error, None, "");
    }
    if f.kind == Kind::Nan {
        return ("overflow", f.cause, f.severity, None, "");
    }
    // Reports with different numbers are different reports; Xids of one page are told apart by their number (a page of
    // another name is about one Xid, which its other wordings do not print).
    let xid = f.number("xid").filter(|_| f.rule.starts_with("xid")).map(|number| number.value.as_f64().to_bits());
    // So are exceptions with different texts.
    let told_apart = f.kind == Kind::Report || (f.kind == Kind::Crash && f.cause == Cause::Exception);
    (&f.rule, f.cause, f.severity, xid, if told_apart { &f.message } else { "" })
}

pub(super) fn is_non_finite(f: &Finding) -> bool {
    f.kind == Kind::Nan && matches!(f.cause, Cause::NanOnset | Cause::NanOngoing)
}

/// An event that progress follows is over; the next one of its kind is a new event.
fn split_where_it_went_on(group: &Group, findings: &[Finding], lines: &dyn Lines) -> Vec<Group> {
    let mut out: Vec<Group> = Vec::new();
    let mut members = Vec::new();
    for (k, &i) in group.members.iter().enumerate() {
        members.push(i);
        let next = group.members.get(k + 1).map(|&n| findings[n].span.line);
        let here = findings[i].span.end_line;
        let far = next.is_none_or(|next| next > here + STEPS_ONWARD);
        if far && went_on(lines, here, next.unwrap_or(usize::MAX)) {
            out.push(Group { lead: members[0], members: std::mem::take(&mut members), went_on: true, ..Group::default() });
        }
    }
    if !members.is_empty() {
        out.push(Group { lead: members[0], members, ..Group::default() });
    }
    out
}

/// Chooses the finding that explains the others.
fn root(findings: &[Finding], story: &Story) -> Option<usize> {
    let candidates = story.groups.iter().filter(|group| {
        let lead = &findings[group.lead];
        !group.went_on && lead.role == Role::RootCause && lead.severity != Severity::Info && !stopped_by_launcher(lead, findings)
    });
    let mut best: Option<usize> = None;
    for group in candidates {
        let Some(now) = best else {
            best = Some(group.lead);
            continue;
        };
        if explains_better(&findings[group.lead], &findings[now]) {
            best = Some(group.lead);
        }
    }
    best.or_else(|| survived_poison(findings, story))
}

/// A loss that was no number, although the run went on, when nothing else explains anything.
fn survived_poison(findings: &[Finding], story: &Story) -> Option<usize> {
    let poisoned = |lead: &Finding| is_non_finite(lead) && lead.role == Role::RootCause && lead.severity == Severity::Error;
    story.groups.iter().find(|group| group.went_on && poisoned(&findings[group.lead])).map(|group| group.lead)
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
pub(super) fn explains_better(later: &Finding, earlier: &Finding) -> bool {
    if later.precedence < earlier.precedence {
        return earlier.precedence >= 9 || later.confidence == Confidence::High || earlier.severity == Severity::Warning;
    }
    later.severity == Severity::Error && earlier.severity == Severity::Warning && later.precedence == earlier.precedence
}

/// A memory squeeze that an engine survived above the root cause is neither its cause nor its consequence.
fn is_prelude(index: usize, finding: &Finding, story: &Story) -> bool {
    finding.kind == Kind::Oom && finding.confidence == Confidence::Low && story.root.is_some_and(|root| index < root)
}

fn assign_roles(findings: &mut [Finding], story: &Story) {
    for group in &story.groups {
        let is_root = story.root.is_some_and(|root| group.members.contains(&root));
        for &i in &group.members {
            let finding = &mut findings[i];
            if group.went_on {
                let poisoned = is_non_finite(finding) && finding.severity == Severity::Error;
                finding.role = if Some(i) == story.root { Role::RootCause } else { Role::Context };
                // A loss that was no number once may have done harm although the next ones look well.
                finding.severity = if poisoned { Severity::Warning } else { Severity::Info };
                continue;
            }
            finding.role = match (is_root, finding.role) {
                (true, _) if Some(i) == story.root => Role::RootCause,
                (true, _) => Role::Repeat,
                (false, Role::RootCause) if i == group.lead && is_prelude(i, finding, story) => Role::Context,
                (false, Role::RootCause) if i == group.lead => Role::Consequence,
                (false, role) if i == group.lead => role,
                (false, _) => Role::Repeat,
            };
            if story.root.is_some() && !is_root && finding.severity == Severity::Error {
                finding.severity = Severity::Warning;
            }
        }
    }
}

/// Findings whose line range covers this line.
pub fn at_line(findings: &[Finding], line: usize) -> impl Iterator<Item = (usize, &Finding)> {
    findings.iter().enumerate().filter(move |(_, finding)| finding.span.touches(line))
}

/// The smallest number or finding at a position.
pub fn at_position(findings: &[Finding], line: usize, column: usize) -> Option<usize> {
    let extent = |span: Span| (span.end_line - span.line, span.end.saturating_sub(span.start));
    let here = at_line(findings, line).filter(|(_, finding)| finding.span.holds(line, column));
    here.min_by_key(|(_, finding)| extent(finding.span)).map(|(i, _)| i)
}

/// The span of a number that holds this position.
pub fn number_at(finding: &Finding, line: usize, column: usize) -> Option<(&Number, Span)> {
    finding.numbers.iter().find_map(|number| number.span.filter(|span| span.holds(line, column)).map(|span| (number, span)))
}
