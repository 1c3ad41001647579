//! The place of a finding in the story, in words: what it explains or follows from, how often it came, what became of it.

use super::sentences::{collective_sentences, divergence_sentence, growth_sentence, progress_sentence};
use super::texts::{Language, fill, text};
use super::{attempts, markdown, ranges};
use crate::log::Analysis;
use crate::log::run::Elsewhere;
use crate::log::vocabulary::{Kind, Outcome, Role};

/// Where the root cause stands that another file of the run has. The file's name is for a hover: escaped.
fn elsewhere(root: &Elsewhere, language: Language) -> String {
    let values = [("file", markdown::escape(&root.file)), ("line", (root.line + 1).to_string()), ("title", markdown::escape(&root.title))];
    fill(language, "story.consequence-file", &values)
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
    } else if group.went_on {
        let key = if group.outcome == Outcome::Recovered { "story.recovered" } else { "story.went-on" };
        out.push(text(language, key).to_owned());
    } else {
        match (finding.role, story.root) {
            (Role::RootCause, _) => {
                out.push(text(language, "story.root").to_owned());
                let line = |line: usize| fill(language, "post.line", &[("line", (line + 1).to_string())]);
                out.extend(story.memory.map(|trend| format!("{}.", growth_sentence(&trend, &line, language))));
                out.extend(attempts::of_root(analysis, index, language).map(|said| format!("{said}.")));
            }
            (Role::Consequence | Role::Confirmation | Role::Repeat, Some(root)) if !group.members.contains(&root) => {
                out.push(fill(
                    language,
                    "story.consequence",
                    &[("line", line(root)), ("title", markdown::escape(&analysis.findings[root].title))],
                ));
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
        out.extend(collective_sentences(collective, &markdown::escape, language));
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
