//! Attempts in words: which one an event ended, and what it says when the same failure ended several.

use super::texts::{Language, fill, text};
use crate::log::Analysis;
use crate::log::attempts::same_failure;
use crate::log::story::Group;
use crate::log::vocabulary::Kind;

/// Steps that are written out.
const MOST_STEPS: usize = 6;

/// What became of an event that an attempt before the last one ended with; nothing for others.
pub(super) fn started_again(analysis: &Analysis, group: &Group, language: Language) -> Option<String> {
    let story = &analysis.story;
    let next = story.attempts.get(group.attempt + 1).filter(|_| !story.is_last(group))?;
    let values = [
        ("nth", (group.attempt + 1).to_string()),
        ("total", story.attempts.len().to_string()),
        ("line", (next.first_line + 1).to_string()),
    ];
    Some(fill(language, "story.restarted", &values))
}

/// What the attempts together say about the root cause: a sentence without its stop. Nothing where there is one attempt.
pub(super) fn of_root(analysis: &Analysis, root: usize, language: Language) -> Option<String> {
    let story = &analysis.story;
    if story.attempts.is_empty() || story.root != Some(root) {
        return None;
    }
    let Some((count, steps)) = same_failure(&story.attempts, &analysis.findings, root) else {
        let nth = story.group_of(root)?.attempt + 1;
        return Some(fill(language, "story.attempt", &[("nth", nth.to_string()), ("total", story.attempts.len().to_string())]));
    };
    let said = fill(language, "story.same-failure", &[("count", count.to_string())]);
    let Some(&first) = steps.first() else { return Some(said) };
    if steps.iter().all(|&step| step == first) {
        return Some(format!("{said}{}", fill(language, "story.same-step", &[("step", first.to_string())])));
    }
    let mut shown: Vec<String> = steps.iter().take(MOST_STEPS).map(u64::to_string).collect();
    if steps.len() > MOST_STEPS {
        shown.push("…".to_owned());
    }
    let memory = analysis.findings[root].kind == Kind::Oom;
    let so = if memory { text(language, "story.steps-memory") } else { "" };
    Some(format!("{said}{}{so}", fill(language, "story.steps", &[("steps", shown.join(", "))])))
}
