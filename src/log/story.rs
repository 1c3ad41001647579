//! The story of a run: which finding explains the others, which only followed, which are the same event once more, and
//! whether the run went on afterwards.
//!
//! The text decides: no root cause is named when only follow-ups are left. A finding that step lines with finite losses
//! follow is context, not a cause. Lines of several ranks are interleaved and may be printed late, so a cause can stand
//! below its consequences; the class of an event (`precedence`) outranks its place.

use std::sync::Arc;

use super::aftermath::{finished, last_step, next_step, onset};
use super::attempts::{self, Attempt};
use super::collectives::{self, Collective, Evidence};
use super::divergence::Divergence;
use super::finding::{Finding, Number, Span};
use super::groups::{self, is_non_finite};
use super::progress::Steps;
use super::ranks::{self, Ranks};
use super::rules::Rules;
use super::run::Elsewhere;
use super::scan::Match;
use super::vocabulary::{Cause, Confidence, Kind, Outcome, Role, Severity};
use super::{Analysis, build, marks, memory, outcome, recovery, related, root, serving, teardown, uncaught};
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
    /// The starts of the run in this log; empty when it was started only once.
    pub attempts: Vec<Attempt>,
    /// The line on which the program says that its training is done, where a failure was survived.
    pub finished: Option<usize>,
    /// Steady growth of memory before a device out-of-memory error that is the root cause.
    pub memory: Option<memory::Trend>,
    /// The root cause of the run, when it stands in another file.
    pub elsewhere: Option<Elsewhere>,
    /// The ranks of the run, as far as this file tells.
    pub ranks: Ranks,
    /// The collective that most ranks of this file waited in.
    pub collective: Option<Collective>,
    /// The same over all files of the run, where they were compared.
    pub of_run: Option<Arc<Collective>>,
}

impl Story {
    /// The group that holds this finding.
    pub fn group_of(&self, finding: usize) -> Option<&Group> {
        self.groups.get(*self.group_index.get(finding)?)
    }

    /// The collective that most ranks waited in: of the whole run where its files were compared, else of this file.
    pub fn waited_in(&self) -> Option<&Collective> {
        self.of_run.as_deref().or(self.collective.as_ref())
    }

    /// Is the root cause known, here or in another file of the run?
    pub fn names_root(&self) -> bool {
        self.root.is_some() || self.elsewhere.is_some()
    }

    /// Does the group belong to the attempt that the story ends with: that of the root cause, else the last one?
    pub fn is_last(&self, group: &Group) -> bool {
        let of_root = self.root.and_then(|root| self.group_of(root)).map(|group| group.attempt);
        group.attempt >= of_root.unwrap_or_else(|| self.attempts.len().saturating_sub(1))
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
    /// Did the run go on afterwards? So it did when it was started again.
    pub went_on: bool,
    /// The first step after it, and its line, where the run went on with steps.
    pub next_step: Option<(u64, usize)>,
    /// How it ended.
    pub outcome: Outcome,
    /// The attempt it belongs to, from 0.
    pub attempt: usize,
    /// Did the program say what it does instead, or follow from what it handled so?
    pub handled: bool,
    /// Does nothing tie it to the root cause, although such events often follow one another?
    pub unrelated: bool,
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

/// Tells the story of all matches of a text.
pub fn tell(matches: &[Match], lines: &dyn Lines, rules: &Rules) -> Analysis {
    let mut findings = build::findings(matches, lines, rules);
    let mut story = Story::default();
    let steps = &Steps::new(lines);
    let starts = attempts::starts(&findings, steps);
    memory::add(&mut findings, &starts, lines, rules);
    if findings.is_empty() {
        return Analysis { findings, story };
    }
    story.last_step = last_step(steps);
    serving::mark(&mut findings, story.last_step.map(|(_, line)| line), steps);
    teardown::mark(&mut findings, lines);
    story.attempts = attempts::of(&starts, lines.count());
    story.groups = groups::group(&findings, &starts, steps);
    recovery::mark(&findings, &mut story.groups, lines);
    story.group_index = vec![0; findings.len()];
    for (nth, group) in story.groups.iter().enumerate() {
        for &member in &group.members {
            story.group_index[member] = nth;
        }
    }
    story.root = root::choose(&findings, &mut story, steps);
    related::mark(&findings, &mut story);
    outcome::judge(&findings, &mut story, lines);
    tell_onward(&findings, &mut story, steps);
    story.onset = onset(&mut findings, &story, steps);
    story.memory = memory_before(&findings, &story, steps);
    marks::mark(&mut findings, &story, lines);
    assign_roles(&mut findings, &story);
    story.ranks = ranks_of(&findings, &story, lines);
    story.collective = collectives::judge([&Evidence::of(&findings, None, &story.ranks)]);
    if let Some(collective) = &story.collective {
        collectives::mark(&mut findings, collective);
    }
    Analysis { findings, story }
}

/// How the run went on after what it survived.
fn tell_onward(findings: &[Finding], story: &mut Story, steps: &Steps<'_>) {
    let mut last = None;
    for group in story.groups.iter_mut().filter(|group| group.went_on || group.outcome == Outcome::Recovered) {
        let Some(line) = group.members.last().map(|&member| findings[member].span.end_line) else { continue };
        group.next_step = next_step(steps, line);
        last = last.max(Some(line));
    }
    story.finished = last.filter(|_| story.root.is_none()).and_then(|line| finished(steps.lines, line, steps.count()));
}

/// The ranks of the run, read where something went wrong.
fn ranks_of(findings: &[Finding], story: &Story, lines: &dyn Lines) -> Ranks {
    let mut loud = findings.iter().filter(|finding| finding.severity != Severity::Info && finding.kind != Kind::Report);
    let Some(first) = loud.next() else { return Ranks::default() };
    let last = loud.next_back().unwrap_or(first);
    let attempt = story.attempts.last().map_or(0, |attempt| attempt.first_line);
    ranks::read(lines, Some((first.span.line, last.span.line)), attempt)
}

fn memory_before(findings: &[Finding], story: &Story, steps: &Steps<'_>) -> Option<memory::Trend> {
    let root = story.root.filter(|&root| findings[root].kind == Kind::Oom)?;
    let attempt = story.group_of(root)?.attempt;
    let first = story.attempts.get(attempt).map_or(0, |attempt| attempt.first_line);
    memory::trend(first, findings[root].span.line, findings[root].rank, steps.lines)
}

/// A memory squeeze that an engine survived above the root cause is neither its cause nor its consequence; growth of memory
/// never is a consequence.
fn is_prelude(index: usize, finding: &Finding, story: &Story) -> bool {
    let squeezed = finding.kind == Kind::Oom && finding.confidence == Confidence::Low && story.root.is_some_and(|root| index < root);
    squeezed || finding.kind == Kind::Leak
}

fn assign_roles(findings: &mut [Finding], story: &Story) {
    // What ended an attempt before the last one: the same failure as the last one's, or another.
    let ended_earlier = |group: &Group| -> Option<bool> {
        let root = story.attempts.get(group.attempt)?.root.filter(|root| group.members.contains(root))?;
        let of_run = story.root.filter(|_| !story.is_last(group))?;
        Some((&findings[root].rule, findings[root].cause) == (&findings[of_run].rule, findings[of_run].cause))
    };
    let earlier: Vec<Option<bool>> = story.groups.iter().map(ended_earlier).collect();
    for (group, earlier) in story.groups.iter().zip(earlier) {
        let is_root = story.root.is_some_and(|root| group.members.contains(&root));
        for &i in &group.members {
            let finding = &mut findings[i];
            if let Some(same) = earlier {
                finding.role = if same { Role::Repeat } else { Role::Context };
                finding.severity = finding.severity.max(Severity::Warning);
                continue;
            }
            if group.went_on {
                let poisoned = is_non_finite(finding) && finding.severity == Severity::Error;
                finding.role = if Some(i) == story.root { Role::RootCause } else { Role::Context };
                // A loss that was no number once may have done harm although the next ones look well.
                finding.severity = if poisoned { Severity::Warning } else { Severity::Info };
                continue;
            }
            if is_root && uncaught::is_exception(finding) {
                finding.severity = Severity::Error;
            }
            finding.role = match (is_root, finding.role) {
                (true, _) if Some(i) == story.root => Role::RootCause,
                (true, _) => Role::Repeat,
                (false, _) if i == group.lead && group.unrelated => Role::Context,
                (false, Role::RootCause) if i == group.lead && is_prelude(i, finding, story) => Role::Context,
                (false, Role::RootCause) if i == group.lead => Role::Consequence,
                (false, role) if i == group.lead => role,
                (false, _) => Role::Repeat,
            };
            let own_fault = group.unrelated && is_non_finite(finding);
            if story.root.is_some() && !is_root && !own_fault && finding.severity == Severity::Error {
                finding.severity = Severity::Warning;
            }
            // The root cause tells the growth before it.
            if story.memory.is_some() && finding.kind == Kind::Leak && finding.cause == Cause::MemoryGrowth {
                finding.severity = Severity::Info;
            }
        }
    }
}

/// Is a group one event, told on several lines close together?
pub fn is_told_at_once(analysis: &Analysis, group: &Group) -> bool {
    groups::is_told_at_once(group, &analysis.findings)
}

/// Does a finding stand above the root cause without being the line of another rank, or one about a peer, that was only
/// printed earlier? Such a finding did not follow from it: it led to it, or announced it.
pub fn precedes_root(analysis: &Analysis, index: usize) -> bool {
    let Some(root) = analysis.story.root.map(|root| &analysis.findings[root]) else { return false };
    let finding = &analysis.findings[index];
    let other_rank = finding.rank.is_some() && root.rank.is_some() && finding.rank != root.rank;
    let of_peers = finding.kind == Kind::Nccl && root.kind != Kind::Nccl;
    finding.span.line < root.span.line && !other_rank && !of_peers
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
