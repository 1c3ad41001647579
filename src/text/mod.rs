//! What an editor or a pipe gives us: lines, and the clean view of a line.
//!
//! This module knows nobody else. LF ends a line; a CR directly in front of it belongs to the line end; any other CR
//! stays inside the line.

use std::borrow::Cow;

pub mod clean;
pub mod document;
pub mod redact;

/// All lines of a text, however it is stored.
///
/// A text has at least one line; a final LF is followed by an empty last line. Lines come without their line end.
pub trait Lines {
    /// Number of lines.
    fn count(&self) -> usize;
    /// Line `i`, 0-based, without LF or CRLF. Empty when there is no such line.
    fn line(&self, i: usize) -> Cow<'_, str>;
}

/// The lines of a contiguous text.
pub struct StrLines<'t> {
    text: &'t str,
    starts: Vec<usize>,
}

impl<'t> StrLines<'t> {
    /// Finds the line starts of `text`.
    pub fn new(text: &'t str) -> Self {
        let mut starts = Vec::with_capacity(text.len() / 96 + 1);
        starts.push(0);
        starts.extend(memchr::memchr_iter(b'\n', text.as_bytes()).map(|at| at + 1));
        StrLines { text, starts }
    }

    /// Byte offset at which line `i` begins; the text's length past the last line.
    pub fn start(&self, i: usize) -> usize {
        self.starts.get(i).copied().unwrap_or(self.text.len())
    }

    /// Line `i` as a slice of the text, without its line end.
    pub fn get(&self, i: usize) -> &'t str {
        if i >= self.starts.len() {
            return "";
        }
        trim_line_end(&self.text[self.start(i)..self.start(i + 1)])
    }

    /// The line that holds byte `at`, searched from line `from` on.
    pub fn line_at(&self, at: usize, from: usize) -> usize {
        let tail = &self.starts[from.min(self.starts.len())..];
        from + tail.partition_point(|&start| start <= at) - 1
    }
}

impl Lines for StrLines<'_> {
    fn count(&self) -> usize {
        self.starts.len()
    }

    fn line(&self, i: usize) -> Cow<'_, str> {
        Cow::Borrowed(self.get(i))
    }
}

/// The lines of a rope (LF and CRLF lines only: the crate is built without its other line ends).
impl Lines for ropey::Rope {
    fn count(&self) -> usize {
        self.len_lines()
    }

    fn line(&self, i: usize) -> Cow<'_, str> {
        match self.get_line(i) {
            Some(slice) => match Cow::<str>::from(slice) {
                Cow::Borrowed(line) => Cow::Borrowed(trim_line_end(line)),
                Cow::Owned(mut line) => {
                    line.truncate(trim_line_end(&line).len());
                    Cow::Owned(line)
                }
            },
            None => Cow::Borrowed(""),
        }
    }
}

/// A line without its LF or CRLF.
pub fn trim_line_end(line: &str) -> &str {
    let line = line.strip_suffix('\n').unwrap_or(line);
    line.strip_suffix('\r').unwrap_or(line)
}

/// The largest character border of `text` that is not behind `at`.
pub fn floor_border(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// Does this character show nothing, and change how others show: a control character (C1 ones too), or one that turns the
/// direction of writing?
pub fn is_unseen(c: char) -> bool {
    c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A text with a mark in place of each unseen character. Line feeds stay, and a tab is a blank.
pub fn visible(text: &str) -> String {
    let seen = |c: char| match c {
        '\n' => c,
        '\t' => ' ',
        c if is_unseen(c) => char::REPLACEMENT_CHARACTER,
        c => c,
    };
    text.chars().map(seen).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lone_cr_ends_no_line() {
        let lines = StrLines::new("a\rb\nc\r\nd");
        assert_eq!((0..lines.count()).map(|i| lines.get(i)).collect::<Vec<_>>(), ["a\rb", "c", "d"]);
        let rope = ropey::Rope::from_str("a\rb\nc\r\nd\u{2028}e");
        assert_eq!((0..rope.count()).map(|i| Lines::line(&rope, i).into_owned()).collect::<Vec<_>>(), ["a\rb", "c", "d\u{2028}e"]);
    }

    #[test]
    fn a_byte_finds_its_line() {
        let lines = StrLines::new("ab\n\ncd\n");
        assert_eq!([0, 2, 3, 4, 6].map(|at| lines.line_at(at, 0)), [0, 0, 1, 2, 2]);
    }
}
