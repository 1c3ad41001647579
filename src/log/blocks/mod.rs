//! Multi-line things as data: tables, dumps, summaries, tracebacks.
//!
//! A page's pattern finds the first line; the reader its front matter names reads the
//! lines around it. A reader sees the whole text, and reads a bounded number of lines of it.

mod bfc;
mod csv;
mod fault_stack;
mod memory_jump;
mod memory_lines;
mod memory_summary;
mod nvidia_query;
mod nvidia_smi;
mod oom_tasks;
mod orderly_stop;
pub(super) mod row;
mod torchrun;
mod traceback;

use super::finding::Number;
use super::recent::Recent;
use super::scan::Match;
use super::vocabulary::{Cause, Severity};
use crate::text::Lines;
pub use traceback::recent;

/// A reader: the block at a match, or nothing.
type Reader = fn(&Match, &dyn Lines) -> Option<Block>;

/// The readers by the names that pages use.
const READERS: &[(&str, Reader)] = &[
    ("memory-summary", memory_summary::read),
    ("nvidia-smi-card", nvidia_smi::read_card),
    ("nvidia-smi-strays", nvidia_smi::read_strays),
    ("nvidia-smi-usage", nvidia_smi::read_usage),
    ("nvidia-smi-head", nvidia_smi::read_head),
    ("nvidia-query-heat", nvidia_query::read_heat),
    ("nvidia-query-ecc", nvidia_query::read_ecc),
    ("nvidia-query-memory", nvidia_query::read_memory),
    ("torchrun-summary", torchrun::read),
    ("csv-growth", csv::read_growth),
    ("csv-stalled", csv::read_stalled),
    ("csv-apps", csv::read_apps),
    ("memory-line", memory_lines::read_line),
    ("memory-print", memory_lines::read_print),
    ("memory-peak", memory_lines::read_peak),
    ("memory-line-series", memory_lines::read_series),
    ("memory-jump", memory_jump::read),
    ("oom-tasks", oom_tasks::read),
    ("orderly-stop", orderly_stop::read),
    ("bfc-message", bfc::read_message),
    ("bfc-xla", bfc::read_xla),
    ("bfc-dump", bfc::read_dump),
    (TRACEBACK, |m, lines| traceback::read(m, lines, &mut recent())),
    ("fault-stack", fault_stack::read),
];

/// The reader that may keep the lines that it has read for the next block.
const TRACEBACK: &str = "traceback";

/// Is there a reader of this name?
pub fn exists(name: &str) -> bool {
    READERS.iter().any(|(reader, _)| *reader == name)
}

/// The readers that pages may name.
pub fn names() -> impl Iterator<Item = &'static str> {
    READERS.iter().map(|(name, _)| *name)
}

/// What a block says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Block {
    /// Where it begins, when that is not where the match begins: line and byte.
    pub start: Option<(usize, usize)>,
    /// Its last line, and the byte behind the last one in it.
    pub end: (usize, usize),
    /// Its numbers.
    pub numbers: Vec<Number>,
    /// Its words, by name.
    pub texts: Vec<(String, String)>,
    /// The cause, when the block tells a better one than the page.
    pub cause: Option<Cause>,
    /// The severity, when the block tells a better one than the page.
    pub severity: Option<Severity>,
}

/// May a page with this reader have the match at all? Asked before overlaps are resolved: two programs print one sentence,
/// and only the source file in front of it tells them apart.
pub fn may_have(name: Option<&str>, m: &Match, lines: &dyn Lines) -> bool {
    match name {
        Some("bfc-message") => !bfc::is_xla(m, lines),
        Some("bfc-xla") => bfc::is_xla(m, lines),
        _ => true,
    }
}

/// Calls the reader of this name; `None` when there is no such reader or no such block at the match. `recent` is kept from
/// block to block of one text.
pub fn read(name: &str, m: &Match, lines: &dyn Lines, recent: &mut Recent) -> Option<Block> {
    if name == TRACEBACK {
        return traceback::read(m, lines, recent);
    }
    let (_, reader) = READERS.iter().find(|(reader, _)| *reader == name)?;
    reader(m, lines)
}

/// A match at one place, for the readers' tests.
#[cfg(test)]
fn match_at(line: usize, end: usize) -> Match {
    let span = super::finding::Span { line, start: 0, end_line: line, end };
    Match { page: 0, line, span, length: end, captures: Vec::new(), prefix: super::record::Prefix::default() }
}
