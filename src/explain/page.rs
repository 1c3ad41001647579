//! A whole page for reading: in a terminal, behind a link, in SARIF's help.

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
        if !section.is_empty() {
            out.push_str(&format!("\n## {heading}\n\n{}\n", markdown::examples(section)));
        }
    }
    Some(out)
}

/// The part that the message of a page plays: what only tells of another's end is a root cause for want of a better one.
fn role_of_page(page: &Page) -> &'static str {
    let front = &page.front;
    let symptom = front.role == Role::RootCause && front.precedence >= TIMEOUTS_FROM && front.kind != Kind::Leak;
    text(Language::English, &if symptom { "section.symptom".to_owned() } else { format!("role.{}", front.role) })
}
