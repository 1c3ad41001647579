//! The findings of one document, kept over edits.

use std::sync::Arc;

use ropey::Rope;

use super::rules::Rules;
use super::scan::{self, LOOK_AHEAD, LOOK_BACK, Match};
use super::{Analysis, story};
use crate::text::StrLines;

/// Keeps the matches of a document, so that an edit costs what it changes. Equal to a fresh analysis after every edit.
#[derive(Debug)]
pub struct LogDocument {
    rules: Arc<Rules>,
    matches: Vec<Match>,
    analysis: Arc<Analysis>,
}

impl LogDocument {
    /// An empty document.
    pub fn new(rules: Arc<Rules>) -> Self {
        LogDocument { rules, matches: Vec::new(), analysis: Arc::default() }
    }

    /// Analyses everything. `keep_going` is asked now and then; `None` when it said no, and nothing has changed then.
    pub fn open(&mut self, rope: &Rope, keep_going: &dyn Fn() -> bool) -> Option<()> {
        self.matches = scan_lines(rope, 0, rope.len_lines(), 0, rope.len_lines(), &self.rules, keep_going)?;
        self.tell(rope);
        Some(())
    }

    /// Lines `[first, first + old)` of the former text became lines `[first, first + new)` of `rope`.
    ///
    /// `None` when `keep_going` said no, and nothing has changed then: the same edit can be merged with the next one.
    pub fn edit(&mut self, rope: &Rope, first: usize, old: usize, new: usize, keep_going: &dyn Fn() -> bool) -> Option<()> {
        // Matches near the edit depend on it; what is further away only moves.
        let start = first.saturating_sub(LOOK_AHEAD);
        let (old_end, new_end) = (first + old + LOOK_BACK, (first + new + LOOK_BACK).min(rope.len_lines()));
        let fresh = scan_lines(rope, start.saturating_sub(LOOK_BACK), new_end + LOOK_AHEAD, start, new_end, &self.rules, keep_going)?;
        let head = self.matches.partition_point(|m| m.line < start);
        let tail = self.matches.partition_point(|m| m.line < old_end);
        let behind = self.matches.split_off(tail).into_iter().map(|m| m.moved(old, new));
        self.matches.truncate(head);
        self.matches.extend(fresh);
        self.matches.extend(behind);
        self.tell(rope);
        Some(())
    }

    /// The analysis of the last text.
    pub fn analysis(&self) -> Arc<Analysis> {
        Arc::clone(&self.analysis)
    }

    fn tell(&mut self, rope: &Rope) {
        self.analysis = Arc::new(story::tell(&self.matches, rope, &self.rules));
    }
}

/// Scans lines `[from, to)` of a rope and keeps the matches whose gate line is in `[first, last)`.
fn scan_lines(
    rope: &Rope,
    from: usize,
    to: usize,
    first: usize,
    last: usize,
    rules: &Rules,
    keep_going: &dyn Fn() -> bool,
) -> Option<Vec<Match>> {
    let to = to.min(rope.len_lines());
    let slice = rope.get_slice(rope.try_line_to_char(from).ok()?..rope.try_line_to_char(to).ok()?)?;
    let mut text = String::with_capacity(slice.len_bytes());
    text.extend(slice.chunks());
    let lines = StrLines::new(&text);
    let mut matches = scan::scan(&text, &lines, rules, keep_going)?;
    matches.retain(|m| (first..last).contains(&(m.line + from)));
    if from > 0 {
        matches = matches.into_iter().map(|m| m.moved(0, from)).collect();
    }
    Some(matches)
}

impl Match {
    /// The same match some lines further down (or up).
    fn moved(mut self, from: usize, to: usize) -> Match {
        self.line = self.line + to - from;
        self.span = self.span.moved(from, to);
        for capture in &mut self.captures {
            capture.span = capture.span.moved(from, to);
        }
        self
    }
}
