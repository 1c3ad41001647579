//! The verdict in a few words, behind a root-cause line; sizes behind the keys of a model's config.

use tower_lsp_server::ls_types::{InlayHint, InlayHintLabel, Position, Range};

use super::config;
use super::convert::{ClientFacts, position};
use super::state::Reading;
use crate::explain;
use crate::log::Finding;
use crate::log::vocabulary::Role;
use crate::text::{Lines, document};

/// The end of a line of more bytes is off most screens; a hint there would not be seen.
const LONG_LINE: usize = 160;

/// The hints of a reading inside a range.
pub fn hints(reading: &Reading, facts: &ClientFacts, range: Range) -> Vec<InlayHint> {
    if !reading.settings.inlay_hints {
        return Vec::new();
    }
    if let Some(config) = &reading.config {
        return config::hints(config, reading, facts, range);
    }
    let Some(analysis) = &reading.analysis else {
        return Vec::new();
    };
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

/// The end of the finding's line; on a long line, which leaves the screen, the end of what is underlined.
fn end(reading: &Reading, facts: &ClientFacts, finding: &Finding) -> Position {
    let (rope, line) = (&reading.rope, finding.span.end_line);
    let length = document::line_len(rope, line);
    if length <= LONG_LINE {
        return position(rope, facts.encoding, line, length);
    }
    let mark = explain::mark(finding, &Lines::line(rope, finding.span.line));
    position(rope, facts.encoding, mark.end_line, mark.end)
}
