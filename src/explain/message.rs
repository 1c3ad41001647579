//! What a mark, a title or a row says of a finding: the facts first, then its place in the story.

use super::sentences::{different_calls, divergence_sentence, named};
use super::texts::{Language, fill};
use super::{device_oom, place, ranges, waits};
use crate::log::marks::LEAK;
use crate::log::story::{Group, is_told_at_once, precedes_root};
use crate::log::verdict::Verdict;
use crate::log::vocabulary::{Cause, Kind, Role};
use crate::log::{Analysis, Finding};
use crate::text::visible;

/// Ranks that must report a timeout before the silence of another one says something.
const LEAST_REPORTERS: usize = 3;

/// The text of a diagnostic: the facts first, because some editors show nothing else; then its place in the story.
pub fn diagnostic_message(analysis: &Analysis, index: usize) -> String {
    visible(&say(analysis, index, true))
}

/// The same where the comparison of the ranks stands beside it.
pub fn headline(analysis: &Analysis, index: usize) -> String {
    visible(&say(analysis, index, false))
}

fn say(analysis: &Analysis, index: usize, with_ranks: bool) -> String {
    let language = Language::English;
    let finding = &analysis.findings[index];
    let mut out = finding.message.clone();
    if let Some(why) = memory_hint(finding, language) {
        // The cause stands near the front: lists cut a message at its end.
        let at = out.find(": ").filter(|&at| at < 60).unwrap_or(out.len());
        out.insert_str(at, &format!(" ({why})"));
    }
    let absent = waits::absent(analysis, finding, language);
    // It says who waited and who did not come.
    let told = absent.is_some();
    out = absent.unwrap_or(out);
    let Some(group) = analysis.story.group_of(index) else { return out };
    let mut more = Vec::new();
    if index == group.lead && group.members.len() > 1 && !told {
        let key = match group.ranks.len() {
            2.. => "story.more-ranks",
            _ if is_told_at_once(analysis, group) => "story.more-lines",
            _ => "story.more",
        };
        more.push(fill(language, key, &[("count", group.members.len().to_string()), ("ranks", ranges(&group.ranks))]));
    }
    if index == group.lead && with_ranks && !told && finding.kind == Kind::Nccl {
        more.extend(other_ranks(analysis, finding, group, language));
    }
    if index == group.lead && !matches!(finding.kind, Kind::Leak | Kind::Report) {
        more.extend(place::onward_hint(analysis, group, language));
    }
    if !group.went_on && matches!(finding.role, Role::Consequence | Role::Confirmation) {
        let root = analysis.story.root.filter(|root| !group.members.contains(root));
        match (&analysis.story.elsewhere, root) {
            (Some(root), _) => {
                more.push(fill(language, "story.follows-file", &[("file", root.file.clone()), ("line", (root.line + 1).to_string())]));
            }
            (None, Some(root)) => {
                let key = if precedes_root(analysis, index) { "story.belongs" } else { "story.follows" };
                more.push(fill(language, key, &[("line", (analysis.findings[root].span.line + 1).to_string())]));
            }
            (None, None) => {}
        }
    }
    for part in more {
        out.push_str(&format!(" · {part}"));
    }
    out
}

/// Why memory ran out, in a few words.
pub(super) fn memory_hint(finding: &Finding, language: Language) -> Option<String> {
    match (finding.text(LEAK), &finding.verdict) {
        (Some(last), _) => Some(fill(language, "hint.leak", &[("last", last.to_owned())])),
        (None, Some(Verdict::DeviceOom(oom))) => Some(device_oom::hint(oom, language)),
        _ => None,
    }
}

/// What is said on the line from which a run diverged.
pub fn divergence_message(analysis: &Analysis) -> Option<String> {
    let language = Language::English;
    let onset = analysis.story.onset?;
    let divergence = onset.divergence?;
    let line = |line: usize| (line + 1).to_string();
    let here = fill(language, "post.line", &[("line", line(divergence.line))]);
    let what = divergence_sentence(&divergence, &here, language);
    Some(fill(language, "story.diverging", &[("what", what), ("line", line(analysis.findings[onset.finding].span.line))]))
}

/// What the other ranks did where this one waited in a collective.
fn other_ranks(analysis: &Analysis, finding: &Finding, group: &Group, language: Language) -> Option<String> {
    let collective = analysis.story.waited_in().filter(|collective| collective.waiting().len() > 1);
    let silent = match collective {
        Some(collective) if finding.text("op").is_some() => {
            if let Some(calls) = different_calls(collective, &str::to_owned, language) {
                return Some(fill(language, "collective.different", &[("calls", calls)]));
            }
            [collective.missing.clone(), collective.absent.clone()].concat()
        }
        Some(_) => Vec::new(),
        None => silent_ranks(finding, &group.ranks),
    };
    (!silent.is_empty()).then(|| fill(language, "story.silent", &[("ranks", named(&silent, false, language))]))
}

/// Ranks below the highest one that did not report a timeout which the others did: the first place to look.
fn silent_ranks(finding: &Finding, ranks: &[u32]) -> Vec<u32> {
    let (Cause::Timeout, true, Some(&last)) = (finding.cause, ranks.len() >= LEAST_REPORTERS, ranks.last()) else {
        return Vec::new();
    };
    let silent: Vec<u32> = (0..last).filter(|rank| ranks.binary_search(rank).is_err()).collect();
    // Many gaps are ranks of other nodes, not suspects.
    if silent.len() * 2 < ranks.len() { silent } else { Vec::new() }
}
