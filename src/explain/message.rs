//! What a mark, a title or a row says of a finding: the facts first, then its place in the story.

use super::sentences::{different_calls, named};
use super::texts::{Language, fill};
use super::{device_oom, ranges};
use crate::log::story::Group;
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
    if let Some(Verdict::DeviceOom(oom)) = &finding.verdict {
        // The cause stands near the front: lists cut a message at its end.
        let at = out.find(": ").filter(|&at| at < 60).unwrap_or(out.len());
        out.insert_str(at, &format!(" ({})", device_oom::hint(oom, language)));
    }
    let Some(group) = analysis.story.group_of(index) else { return out };
    let mut more = Vec::new();
    if index == group.lead && group.members.len() > 1 {
        let key = if group.ranks.len() > 1 { "story.more-ranks" } else { "story.more" };
        more.push(fill(language, key, &[("count", group.members.len().to_string()), ("ranks", ranges(&group.ranks))]));
    }
    if index == group.lead && with_ranks && finding.kind == Kind::Nccl {
        more.extend(other_ranks(analysis, finding, group, language));
    }
    if !group.went_on && matches!(finding.role, Role::Consequence | Role::Confirmation) {
        let root = analysis.story.root.filter(|root| !group.members.contains(root));
        match (&analysis.story.elsewhere, root) {
            (Some(root), _) => {
                more.push(fill(language, "story.follows-file", &[("file", root.file.clone()), ("line", (root.line + 1).to_string())]));
            }
            (None, Some(root)) => {
                more.push(fill(language, "story.follows", &[("line", (analysis.findings[root].span.line + 1).to_string())]));
            }
            (None, None) => {}
        }
    }
    for part in more {
        out.push_str(&format!(" · {part}"));
    }
    out
}

/// What the other ranks did where this one waited in a collective.
fn other_ranks(analysis: &Analysis, finding: &Finding, group: &Group, language: Language) -> Option<String> {
    let collective = analysis.story.waited_in().filter(|collective| collective.waiting().len() > 1);
    let silent = match collective {
        Some(collective) if finding.text("op").is_some() => {
            if let Some(calls) = different_calls(collective, &str::to_owned, language) {
                return Some(fill(language, "collective.different", &[("calls", calls)]));
            }
            collective.missing.clone()
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
