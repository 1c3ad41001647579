//! The pages of the marks on configs: prose and excerpts, without a pattern, since the checks are code.
//!
//! A page has the form of a rule page: front matter (`id`, `title`, `severity`), the usual headings, and excerpts as
//! tests. An excerpt is a whole config; `#~ ID` stands under the line that must be marked. Behind the fence's `json`,
//! `gpu=BYTES` chooses a card of so many bytes; a fence `json index` is the index of weights beside the next excerpt, and
//! `json base` the config that it belongs to.

use serde::Deserialize;

use crate::explain::markdown;
use crate::explain::texts::{Language, fill, text};
use crate::log::rules::page::{section, split_front};

/// A page about a mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The code of the mark.
    pub id: String,
    /// A few words.
    pub title: String,
    /// How bad it usually is.
    pub severity: String,
    /// The prose behind the front matter.
    pub body: &'static str,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Front {
    id: String,
    title: String,
    severity: String,
}

macro_rules! pages {
    ($($id:literal),* $(,)?) => { &[$(($id, include_str!(concat!("pages/", $id, ".md")))),*] };
}

/// Every page: its id and its text.
pub const TEXTS: &[(&str, &str)] = pages![
    "adapter-target-missing",
    "config-dtype",
    "config-duplicate-key",
    "config-experts",
    "config-gpu-too-small",
    "config-head-width",
    "config-index-mismatch",
    "config-kv-heads",
    "config-missing-key",
    "config-rope-scaling",
    "config-sizes",
    "config-tied-head",
    "config-value",
    "deepspeed-refused",
    "trainer-divergence",
    "trainer-non-finite",
];

/// Every page, by id.
pub fn all() -> impl Iterator<Item = Page> {
    TEXTS.iter().filter_map(|(_, text)| parse(text))
}

/// The page of a mark.
pub fn page(id: &str) -> Option<Page> {
    TEXTS.iter().find(|(name, _)| *name == id).and_then(|(_, text)| parse(text))
}

fn parse(text: &'static str) -> Option<Page> {
    let (_, front, body) = split_front(text)?;
    let Front { id, title, severity } = toml::from_str(front).ok()?;
    Some(Page { id, title, severity, body: &text[body..] })
}

impl Page {
    /// The text under a heading; empty when there is none.
    pub fn section(&self, heading: &str) -> &'static str {
        section(self.body, heading)
    }

    /// The page for a reader.
    pub fn markdown(&self) -> String {
        let mut out = format!("# {}\n\n`{}` · config · {}\n", self.title, self.id, self.severity);
        for heading in ["What it means", "Why it happens", "What to do", "What does not help"] {
            out.push_str(&format!("\n## {heading}\n\n{}\n", self.section(heading)));
        }
        out
    }

    /// What stands under a mark's message: what to do, what does not help, and where the rest is.
    pub fn advice(&self) -> String {
        let language = Language::English;
        let list = |key: &str, heading: &str| format!("**{}**\n\n{}", text(language, key), self.section(heading));
        [
            markdown::first_sentence(self.section("What it means")).to_owned(),
            list("section.do", "What to do"),
            list("section.no", "What does not help"),
            fill(language, "section.more", &[("rule", self.id.clone())]),
        ]
        .join("\n\n")
    }
}
