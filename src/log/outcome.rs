//! What became of the run after each event.

use super::finding::Finding;
use super::story::{Group, Story};
use super::vocabulary::{Cause, Kind, Outcome, Role, Severity};
use crate::text::{Lines, floor_border};

/// Lines behind an event that may say how it was handled.
const HANDLED_LINES: usize = 6;
/// Bytes of a line that are looked at.
const MOST_BYTES: usize = 512;
/// Groups whose lines are looked at.
const MOST_GROUPS: usize = 64;
/// Lower-case words of a program that handles a failure.
const HANDLED: [&str; 8] = ["skipp", "retry", "trying again", "recover", "batch size", "halv", "falling back", "ignor"];

/// Gives each group its outcome. What an attempt before the story's last one failed of is over: the run was started again.
pub(super) fn judge(findings: &[Finding], story: &mut Story, lines: &dyn Lines) {
    let launcher_ended = |group: &Group| {
        let lead = &findings[group.lead];
        lead.kind == Kind::Launch && matches!(lead.role, Role::Consequence | Role::Confirmation)
    };
    let ended = story.groups.iter().any(|group| story.is_last(group) && !group.went_on && launcher_ended(group));
    // A loss that is no number ends nothing by itself, but what follows from it may.
    let fatal = |lead: &Finding| lead.severity == Severity::Error && lead.kind != Kind::Nan;
    let failed = |group: &Group| {
        story.is_last(group) && !group.went_on && fatal(&findings[group.lead]) && findings[group.lead].cause == Cause::Assert
    };
    let died = ended || story.root.is_some_and(|root| fatal(&findings[root])) || story.groups.iter().any(failed);
    let outcomes: Vec<(bool, Outcome)> = story
        .groups
        .iter()
        .enumerate()
        .map(|(nth, group)| {
            let lead = &findings[group.lead];
            if !story.is_last(group) {
                return (true, Outcome::Recovered);
            }
            if group.went_on {
                let handled = group.handled || (nth < MOST_GROUPS && is_handled(group, findings, lines));
                return (true, if handled { Outcome::Recovered } else { Outcome::WentOn });
            }
            let outcome = match (lead.cause, lead.role) {
                (Cause::Retry, _) => Outcome::Recovered,
                _ if group.unrelated => Outcome::Unresolved,
                (_, Role::Context) => Outcome::Unresolved,
                _ if died && !matches!(lead.kind, Kind::Report | Kind::Leak) => Outcome::Terminal,
                _ => Outcome::Unresolved,
            };
            (false, outcome)
        })
        .collect();
    for (group, (went_on, outcome)) in story.groups.iter_mut().zip(outcomes) {
        (group.went_on, group.outcome) = (went_on, outcome);
    }
}

/// Does the text behind an event say that it was handled?
fn is_handled(group: &Group, findings: &[Finding], lines: &dyn Lines) -> bool {
    group.members.last().is_some_and(|&last| is_handled_behind(&findings[last], lines))
}

/// Does the text behind a finding say that it was handled?
pub(super) fn is_handled_behind(finding: &Finding, lines: &dyn Lines) -> bool {
    let below = finding.span.end_line;
    (below..=below + HANDLED_LINES).any(|i| {
        let line = lines.line(i);
        let from = if i == below { floor_border(&line, finding.span.end) } else { 0 };
        let rest = &line[from..];
        let head = rest[..floor_border(rest, MOST_BYTES)].to_ascii_lowercase();
        HANDLED.iter().any(|words| head.contains(words))
    })
}
