//! The place of a finding in the story, in words: what it explains or follows from, how often it came, what became of it.

use super::sentences::{collective_sentences, divergence_sentence, growth_sentence, progress_sentence};
use super::texts::{Language, fill, text};
use super::{attempts, markdown, ranges};
use crate::log::Analysis;
use crate::log::run::Elsewhere;
use crate::log::story::{Group, precedes_root};
use crate::log::vocabulary::{Kind, Outcome, Role};

/// Where the root cause stands that another file of the run has. The file's name is for a hover: escaped.
fn elsewhere(root: &Elsewhere, language: Language) -> String {
    let values = [("file", markdown::escape(&root.file)), ("line", (root.line + 1).to_string()), ("title", markdown::escape(&root.title))];
    fill(language, "story.consequence-file", &values)
}

/// How the run went on after an event that it survived.
pub(super) fn onward(analysis: &Analysis, group: &Group, language: Language) -> String {
    let key = if group.outcome == Outcome::Recovered { "story.recovered" } else { "story.went-on" };
    let line = |line: usize| ("line", (line + 1).to_string());
    match (group.next_step, analysis.story.finished) {
        (Some((step, at)), end) => {
            let said = fill(language, &format!("{key}-step"), &[("step", step.to_string()), line(at)]);
            let end = end.map(|end| format!(" {}", fill(language, "story.finished", &[line(end)])));
            format!("{said}{}", end.unwrap_or_default())
        }
        (None, Some(end)) => fill(language, &format!("{key}-end"), &[line(end)]),
        (None, None) => text(language, key).to_owned(),
    }
}

/// How the run went on, in a few words; nothing where no step and no end is known.
pub(super) fn onward_hint(analysis: &Analysis, group: &Group, language: Language) -> Option<String> {
    let story = &analysis.story;
    if !group.went_on && group.outcome != Outcome::Recovered {
        return None;
    }
    let again = !story.is_last(group);
    let key = match (group.next_step, story.finished) {
        (Some(_), _) if again => "story.onward-again",
        (Some(_), _) => "story.onward-step",
        (None, Some(_)) => return Some(text(language, "story.onward-end").to_owned()),
        (None, None) => return None,
    };
    let step = group.next_step.map_or_else(String::new, |(step, _)| step.to_string());
    let end = if story.finished.is_some() { text(language, "story.onward-finished") } else { "" };
    Some(format!("{}{end}", fill(language, key, &[("step", step)])))
}

/// What part a finding plays, in a sentence or two.
pub(super) fn in_the_story(analysis: &Analysis, index: usize, language: Language) -> String {
    let story = &analysis.story;
    let Some(group) = story.group_of(index) else { return String::new() };
    let finding = &analysis.findings[index];
    let line = |i: usize| (analysis.findings[i].span.line + 1).to_string();
    let count = group.members.len().to_string();
    let ranks = ranges(&group.ranks);
    let mut out = Vec::new();
    if let Some(again) = attempts::started_again(analysis, group, language) {
        out.push(again);
    } else if group.went_on || (group.outcome == Outcome::Recovered && group.next_step.is_some()) {
        out.push(onward(analysis, group, language));
    } else {
        match (finding.role, story.root) {
            (Role::RootCause, _) => {
                out.push(text(language, "story.root").to_owned());
                let line = |line: usize| fill(language, "post.line", &[("line", (line + 1).to_string())]);
                out.extend(story.memory.map(|trend| format!("{}.", growth_sentence(&trend, &line, language))));
                out.extend(attempts::of_root(analysis, index, language).map(|said| format!("{said}.")));
            }
            (Role::Consequence | Role::Confirmation | Role::Repeat, Some(root)) if !group.members.contains(&root) => {
                let key = if precedes_root(analysis, index) { "story.precedes" } else { "story.consequence" };
                out.push(fill(language, key, &[("line", line(root)), ("title", markdown::escape(&analysis.findings[root].title))]));
            }
            (Role::Consequence | Role::Confirmation, None) if story.elsewhere.is_some() => {
                out.extend(story.elsewhere.as_ref().map(|root| elsewhere(root, language)));
            }
            (Role::Consequence, None) => out.push(text(language, "story.no-root").to_owned()),
            _ => {}
        }
    }
    let many = group.members.len() > 1;
    let key = match (many, index == group.lead, group.ranks.len() > 1) {
        (false, ..) => "",
        (true, true, false) => "story.group",
        (true, true, true) => "story.group-ranks",
        (true, false, false) => "story.repeat",
        (true, false, true) => "story.repeat-ranks",
    };
    if !key.is_empty() {
        out.push(fill(language, key, &[("line", line(group.lead)), ("count", count), ("ranks", ranks)]));
    }
    out.extend(progress_sentence(finding, language));
    if finding.kind == Kind::Nccl
        && (finding.number("seq").is_some() || finding.number("last_enqueued").is_some())
        && let Some(collective) = story.waited_in()
    {
        let told = collective.missing_for(finding).is_some();
        out.extend(collective_sentences(collective, told, &markdown::escape, language));
    }
    if let Some(onset) = story.onset.filter(|onset| group.members.contains(&onset.finding)) {
        match (onset.last_finite_step, onset.last_finite_line) {
            (Some(step), Some(at)) => {
                out.push(fill(language, "story.onset", &[("step", step.to_string()), ("line", (at + 1).to_string())]))
            }
            (None, Some(at)) => out.push(fill(language, "story.onset-line", &[("line", (at + 1).to_string())])),
            _ => {}
        }
        if let Some(divergence) = &onset.divergence {
            let line = fill(language, "post.line", &[("line", (divergence.line + 1).to_string())]);
            out.push(format!("{}.", divergence_sentence(divergence, &line, language)));
        }
    }
    out.join(" ")
}
