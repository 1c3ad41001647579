//! The verdict in a few words, behind a root-cause line.

use tower_lsp_server::ls_types::{InlayHint, InlayHintLabel, Position, Range};

use super::convert::{ClientFacts, number, position};
use super::state::Reading;
use crate::explain;
use crate::log::Finding;
use crate::log::vocabulary::Role;
use crate::text::document;

/// Editors draw no text behind this column; a hint there would never be seen.
const LAST_DRAWN_COLUMN: u32 = 10_000;

/// The hints of a reading inside a range.
pub fn hints(reading: &Reading, facts: &ClientFacts, range: Range) -> Vec<InlayHint> {
    let Some(analysis) = &reading.analysis else {
        return Vec::new();
    };
    if !reading.settings.inlay_hints {
        return Vec::new();
    }
    let mut hints: Vec<InlayHint> = Vec::new();
    for &i in &reading.shown {
        let finding = &analysis.findings[i];
        if finding.role != Role::RootCause {
            continue;
        }
        let position = end(reading, facts, finding);
        if position < range.start || range.end < position || hints.iter().any(|hint| hint.position == position) {
            continue;
        }
        if let Some(text) = explain::hint(analysis, i) {
            hints.push(InlayHint {
                position,
                label: InlayHintLabel::String(text),
                kind: None,
                text_edits: None,
                tooltip: None,
                padding_left: Some(true),
                padding_right: None,
                data: None,
            });
        }
    }
    hints
}

/// The end of the finding's line, or of the finding where the line goes on too far.
fn end(reading: &Reading, facts: &ClientFacts, finding: &Finding) -> Position {
    let (rope, line) = (&reading.rope, finding.span.end_line);
    let end = position(rope, facts.encoding, line, document::line_len(rope, line));
    if end.character <= LAST_DRAWN_COLUMN {
        return end;
    }
    let mut end = position(rope, facts.encoding, line, finding.span.end);
    end.line = number(line);
    end
}
