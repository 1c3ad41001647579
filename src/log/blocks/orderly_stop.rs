//! Was the server being stopped when a process of it reported the end of another?
//!
//! A server that is told to stop ends its own engine, and its reader of the engine's output then reports a dead engine. The
//! words of the stop stand a few lines above that report; in a failure they stand below it.

use super::Block;
use crate::log::scan::Match;
use crate::log::vocabulary::{Cause, Severity};
use crate::text::{Lines, floor_border};

/// Lines above the match that are looked at.
const MOST_LINES: usize = 80;
/// Bytes of a line that are looked at.
const MOST_BYTES: usize = 512;
/// What a server prints when it is told to stop: vLLM's launcher and engine, and the signal they saw.
const STOPS: [&str; 4] = [
    "[shutdown] API server: shutdown triggered",
    "[shutdown] EngineCore: trigger received signal=",
    "Shutting down FastAPI HTTP server",
    "Gracefully stopping http server",
];

/// The words of the stop above the match make it part of the teardown; without them it stands for itself.
pub fn read(m: &Match, lines: &dyn Lines) -> Option<Block> {
    let mut block = Block { end: (m.span.end_line, m.span.end), ..Block::default() };
    let above = m.span.line.saturating_sub(MOST_LINES)..m.span.line;
    let stop = above.rev().find_map(|i| {
        let line = lines.line(i);
        let head = &line[..floor_border(&line, MOST_BYTES)];
        STOPS.iter().find(|words| head.contains(*words))
    });
    if let Some(words) = stop {
        block.texts.push(("stop".to_owned(), (*words).trim_end_matches('=').to_owned()));
        block.severity = Some(Severity::Info);
        block.cause = Some(Cause::Teardown);
    }
    Some(block)
}
