//! A whole page for reading: in a terminal, behind a link, in SARIF's help.

use super::conditions::Condition;
use super::markdown;
use super::texts::{Language, fill, text};
use crate::log::rules::{BUILTIN_PAGES, Page, Rules, is_builtin};
use crate::log::vocabulary::{Kind, Role};

/// Precedence from which a page is about a timeout or a follow-up.
const TIMEOUTS_FROM: u8 = 10;

/// A whole page for reading: title, prose, numbers; without its excerpts.
pub fn page_markdown(rules: &Rules, id: &str) -> Option<String> {
    let page = rules.page(id)?;
    let front = &page.front;
    let mut out = format!("# {}\n\n`{}` · {} · {} · {}\n", front.title, front.id, front.kind, front.severity, role_of_page(page));
    if !BUILTIN_PAGES.iter().any(|&(file, _)| file == page.file) && is_builtin(&front.id) {
        out.push_str(&format!("\n{}\n", fill(Language::English, "section.replaced", &[("file", markdown::code(&page.file))])));
    }
    for heading in ["What it means", "Why it happens", "The numbers", "What to do", "What does not help"] {
        let section = page.section(heading);
        let section = match heading {
            "What to do" => listed(section, true),
            "What does not help" => listed(section, false),
            _ => markdown::examples(section),
        };
        if !section.is_empty() {
            out.push_str(&format!("\n## {heading}\n\n{section}\n"));
        }
    }
    Some(out)
}

/// A section's items for no finding in particular: what they ask for in words, and without those that name a value which
/// only a finding has.
fn listed(section: &str, numbered: bool) -> String {
    let items = markdown::items(section);
    let general = items.iter().map(|item| (item, markdown::examples(&item.text))).filter(|(_, text)| !markdown::has_placeholder(text));
    let lines = general.enumerate().map(|(nth, (item, text))| {
        let mark = if numbered { format!("{}. ", nth + 1) } else { "- ".to_owned() };
        let causes: Vec<&str> = item.causes.iter().map(|cause| cause.as_str()).collect();
        let met = item.conditions.iter().filter(|(_, wanted)| *wanted).map(|(condition, _)| condition_in_words(*condition));
        let asked: Vec<String> = causes.into_iter().map(str::to_owned).chain(met).collect();
        let asked = if asked.is_empty() { String::new() } else { format!("*{}*: ", asked.join(", ")) };
        format!("{mark}{asked}{text}")
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn condition_in_words(condition: Condition) -> String {
    text(Language::English, &format!("condition.{condition:?}").to_lowercase()).to_owned()
}

/// The part that the message of a page plays: what only tells of another's end is a root cause for want of a better one.
fn role_of_page(page: &Page) -> &'static str {
    let front = &page.front;
    let symptom = front.role == Role::RootCause && front.precedence >= TIMEOUTS_FROM && front.kind != Kind::Leak;
    text(Language::English, &if symptom { "section.symptom".to_owned() } else { format!("role.{}", front.role) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_page_shows_its_marks() {
        let rules = Rules::builtin();
        for page in rules.pages() {
            let whole = page_markdown(&rules, &page.front.id).unwrap();
            let lists = whole.split("## What to do").nth(1).unwrap();
            assert!(!lists.contains("*?") && !lists.contains(", ?"), "{}: a condition has no words\n{lists}", page.front.id);
            assert!(!lists.lines().any(|line| line.contains(". [") && line.contains("] ")), "{lists}");
            assert!(!markdown::has_placeholder(lists), "{lists}");
        }
    }
}
