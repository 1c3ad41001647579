//! Reading logs: what each line says, and the story of the run.

mod aftermath;
pub mod attempts;
pub mod blocks;
mod build;
pub mod clock;
pub mod collectives;
pub mod divergence;
pub mod document;
mod echo;
mod evaluation;
pub mod finding;
mod groups;
pub mod marks;
pub mod memory;
mod outcome;
pub mod progress;
pub mod ranks;
mod recent;
pub mod record;
mod recovery;
mod related;
mod root;
pub mod rules;
pub mod run;
pub mod scan;
pub mod serving;
pub mod settings;
pub mod sniff;
pub mod story;
mod teardown;
mod uncaught;
pub mod units;
pub mod verdict;
pub mod vocabulary;

use std::sync::Arc;

pub use document::LogDocument;
pub use finding::{Finding, Number, Span};
pub use sniff::looks_like_log;
pub use story::Story;

/// What a log says: its findings in line order, and the story they tell.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Analysis {
    /// All findings in line order, repeats too.
    pub findings: Vec<Finding>,
    /// What they amount to.
    pub story: Story,
}

/// Analyses a whole text. Any text gives an analysis.
pub fn analyze(text: &str, rules: &Arc<rules::Rules>) -> Analysis {
    let lines = crate::text::StrLines::new(text);
    let matches = scan::scan(text, &lines, rules, &|| true).unwrap_or_default();
    story::tell(&matches, &lines, rules)
}
