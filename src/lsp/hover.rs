//! The explanation under the pointer.

use tower_lsp_server::ls_types::{Hover, HoverContents, MarkupContent, MarkupKind, Position, Range};

use super::config;
use super::convert::{ClientFacts, place, range};
use super::expected::{self, Around};
use super::state::Reading;
use crate::explain;
use crate::log::{Finding, story};
use crate::text::document;

/// What a reading says at a position.
pub fn hover(reading: &Reading, facts: &ClientFacts, position: Position, around: &Around<'_>) -> Option<Hover> {
    if let Some(config) = &reading.config {
        return config::hover(config, reading, facts, position);
    }
    let analysis = reading.analysis.as_ref()?;
    let place = place(position);
    let column = document::to_byte_column(&reading.rope, facts.encoding, place);
    // A rule that was switched off is silent here too.
    let mut here = story::at_line(&analysis.findings, place.line).peekable();
    if here.peek().is_some() && here.all(|(_, finding)| reading.settings.disabled.contains(&*finding.rule)) {
        return None;
    }
    let addition = |finding: &Finding| expected::section(reading, analysis, finding, around);
    let text = explain::hover(analysis, &reading.rules, place.line, column, &addition)?;
    Some(contents(facts, text.markdown, range(&reading.rope, facts.encoding, text.span)))
}

/// A hover of Markdown, in the form that the client reads.
pub fn contents(facts: &ClientFacts, markdown: String, range: Range) -> Hover {
    let kind = if facts.markdown { MarkupKind::Markdown } else { MarkupKind::PlainText };
    Hover { contents: HoverContents::Markup(MarkupContent { kind, value: markdown }), range: Some(range) }
}
