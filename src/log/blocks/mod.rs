//! Multi-line things as data: tables, dumps, summaries, tracebacks.
//!
//! A page's pattern finds the first line (or, for a traceback, the last one); the reader its front matter names reads the
//! lines around it. A reader sees the whole text, and reads a bounded number of lines of it.

pub mod traceback;

use super::finding::Number;
use super::scan::Match;
use super::vocabulary::{Cause, Severity};
use crate::text::Lines;

/// The readers that pages may name.
pub const NAMES: &[&str] = &["traceback"];

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

/// Calls the reader of this name; `None` when there is no such reader or no such block at the match.
pub fn read(name: &str, m: &Match, lines: &dyn Lines) -> Option<Block> {
    match name {
        "traceback" => traceback::read(m, lines),
        _ => None,
    }
}
