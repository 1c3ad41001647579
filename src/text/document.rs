//! The text of an open document: a rope, edited in place, and the columns an editor counts.
//!
//! Lines end at LF only, as everywhere in this crate; a CR right before the LF belongs to the line end, any other CR
//! is a character of its line. Line numbers count from 0. Inside the crate a column is a byte offset into its line;
//! an editor counts UTF-8 bytes, UTF-16 units or characters, whatever was agreed on, and [`Encoding`] says which.
//!
//! Positions that do not exist are moved to the nearest one that does: past a line's end to its end (before the line
//! break), past the last line to the end of the text, inside a character to its start.

use ropey::{Rope, RopeSlice};

/// What one unit of an editor's column is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Encoding {
    /// One byte of UTF-8.
    Utf8,
    /// One 16-bit unit of UTF-16: characters above U+FFFF count as two.
    #[default]
    Utf16,
    /// One character (Unicode scalar value).
    Utf32,
}

/// A place in an editor's terms: line from 0, column in units of an [`Encoding`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Place {
    /// Line, from 0.
    pub line: usize,
    /// Column, in units of the encoding that was agreed on.
    pub column: usize,
}

/// Which lines an edit touched: lines `first .. first + old` of the text before became `first .. first + new` after.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LineEdit {
    /// First line touched, from 0.
    pub first: usize,
    /// How many lines of the text before were touched; at least 1.
    pub old: usize,
    /// How many lines stand there now; at least 1.
    pub new: usize,
}

impl LineEdit {
    /// This edit and a later one as a single edit that covers both and every line between them.
    pub fn then(self, later: LineEdit) -> LineEdit {
        let first = self.first.min(later.first);
        let middle_end = (self.first + self.new).max(later.first + later.old);
        let before = self.first - first;
        let behind = middle_end - (self.first + self.new);
        let untouched = middle_end - first - later.old;
        LineEdit { first, old: before + self.old + behind, new: untouched + later.new }
    }
}

/// The length in bytes of a line without its line end (LF or CRLF).
pub fn line_len(rope: &Rope, line: usize) -> usize {
    match rope.get_line(line) {
        Some(slice) => slice.len_bytes() - line_end_len(&slice),
        None => 0,
    }
}

/// Byte offset in the text of an editor's place.
pub fn offset(rope: &Rope, encoding: Encoding, place: Place) -> usize {
    match rope.get_line(place.line) {
        Some(slice) => rope.line_to_byte(place.line) + byte_column(&slice, encoding, place.column),
        None => rope.len_bytes(),
    }
}

/// Byte column of an editor's column in a line.
pub fn to_byte_column(rope: &Rope, encoding: Encoding, place: Place) -> usize {
    match rope.get_line(place.line) {
        Some(slice) => byte_column(&slice, encoding, place.column),
        None => 0,
    }
}

/// The column an editor counts for a byte column of a line; inside a character, that of its start.
pub fn from_byte_column(rope: &Rope, encoding: Encoding, line: usize, byte: usize) -> usize {
    let Some(slice) = rope.get_line(line) else {
        return 0;
    };
    let byte = byte.min(slice.len_bytes() - line_end_len(&slice));
    let character = slice.byte_to_char(byte);
    match encoding {
        Encoding::Utf8 => slice.char_to_byte(character),
        Encoding::Utf16 => slice.char_to_utf16_cu(character),
        Encoding::Utf32 => character,
    }
}

/// Puts `text` in the place of a range, or of everything when there is no range.
///
/// What is the same at both ends stays untouched, so that a client which sends the whole text for every change still
/// makes a small edit. `None` when nothing changed.
pub fn edit(rope: &mut Rope, encoding: Encoding, range: Option<(Place, Place)>, text: &str) -> Option<LineEdit> {
    let (start, end) = match range {
        Some((from, to)) => {
            let (a, b) = (offset(rope, encoding, from), offset(rope, encoding, to));
            (a.min(b), a.max(b))
        }
        None => (0, rope.len_bytes()),
    };
    let (prefix, suffix) = common_ends(rope.byte_slice(start..end), text);
    let (start, end) = (start + prefix, end - suffix);
    let text = &text[prefix..text.len() - suffix];
    if start == end && text.is_empty() {
        return None;
    }
    let first = rope.byte_to_line(start);
    let old = rope.byte_to_line(end) - first + 1;
    let lines_before = rope.len_lines();
    let at = rope.byte_to_char(start);
    if end > start {
        rope.remove(at..rope.byte_to_char(end));
    }
    if text.len() > REBUILD && text.len() > rope.len_bytes() / 2 {
        // Building a rope in one go is several times faster than feeding a large text into an existing one.
        let tail = rope.split_off(at);
        rope.append(Rope::from_str(text));
        rope.append(tail);
    } else {
        rope.insert(at, text);
    }
    let new = rope.len_lines() + old - lines_before;
    Some(LineEdit { first, old, new })
}

/// Above this many bytes an insertion is built as a rope of its own.
const REBUILD: usize = 1 << 20;

fn line_end_len(line: &RopeSlice<'_>) -> usize {
    let bytes = line.len_bytes();
    if bytes == 0 || line.byte(bytes - 1) != b'\n' {
        return 0;
    }
    if bytes > 1 && line.byte(bytes - 2) == b'\r' { 2 } else { 1 }
}

fn byte_column(line: &RopeSlice<'_>, encoding: Encoding, column: usize) -> usize {
    let bytes = line.len_bytes() - line_end_len(line);
    let character = match encoding {
        Encoding::Utf8 => line.byte_to_char(column.min(bytes)),
        Encoding::Utf16 => line.utf16_cu_to_char(column.min(line.len_utf16_cu())),
        Encoding::Utf32 => column.min(line.len_chars()),
    };
    line.char_to_byte(character).min(bytes)
}

/// How many bytes are the same at the start and at the end of both texts; the two never overlap, and both end on
/// character borders.
fn common_ends(old: RopeSlice<'_>, new: &str) -> (usize, usize) {
    let shorter = old.len_bytes().min(new.len());
    let bytes = new.as_bytes();
    let mut prefix = 0;
    for chunk in old.chunks() {
        let room = shorter - prefix;
        let same = same_start(chunk.as_bytes(), &bytes[prefix..prefix + room.min(chunk.len())]);
        prefix += same;
        if same < chunk.len() {
            break;
        }
    }
    while !new.is_char_boundary(prefix) {
        prefix -= 1;
    }
    let room = shorter - prefix;
    let mut suffix = 0;
    let (mut chunks, ..) = old.chunks_at_byte(old.len_bytes());
    while let Some(chunk) = chunks.prev() {
        let end = bytes.len() - suffix;
        let take = chunk.len().min(room - suffix);
        let same = same_end(chunk.as_bytes(), &bytes[end - take..end]);
        suffix += same;
        if same < chunk.len() {
            break;
        }
    }
    while !new.is_char_boundary(new.len() - suffix) {
        suffix -= 1;
    }
    (prefix, suffix)
}

fn same_start(a: &[u8], b: &[u8]) -> usize {
    if a == b {
        return a.len();
    }
    a.iter().zip(b).take_while(|(x, y)| x == y).count()
}

fn same_end(a: &[u8], b: &[u8]) -> usize {
    if a == b {
        return a.len();
    }
    let pairs = a.iter().rev().zip(b.iter().rev());
    pairs.take_while(|(x, y)| x == y).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(line: usize, column: usize) -> Place {
        Place { line, column }
    }

    #[test]
    fn columns_count_what_was_agreed_on() {
        let rope = Rope::from_str("é😀x\nab\r\ntqdm\rbar\n");
        let columns = |encoding| from_byte_column(&rope, encoding, 0, 6);
        assert_eq!(columns(Encoding::Utf8), 6);
        assert_eq!(columns(Encoding::Utf16), 3);
        assert_eq!(columns(Encoding::Utf32), 2);
        assert_eq!(to_byte_column(&rope, Encoding::Utf16, at(0, 3)), 6);
        assert_eq!(to_byte_column(&rope, Encoding::Utf32, at(0, 2)), 6);
        // Inside the surrogate pair and inside the bytes of a character: its start.
        assert_eq!(to_byte_column(&rope, Encoding::Utf16, at(0, 2)), 2);
        assert_eq!(to_byte_column(&rope, Encoding::Utf8, at(0, 1)), 0);
        // A lone CR is a character of its line; the CR of a CRLF is not.
        assert_eq!(rope.len_lines(), 4);
        assert_eq!(line_len(&rope, 1), 2);
        assert_eq!(line_len(&rope, 2), 8);
        assert_eq!(to_byte_column(&rope, Encoding::Utf16, at(1, 3)), 2);
        assert_eq!(to_byte_column(&rope, Encoding::Utf16, at(2, 99)), 8);
        assert_eq!(offset(&rope, Encoding::Utf8, at(99, 0)), rope.len_bytes());
    }

    #[test]
    fn unicode_line_separators_end_no_line() {
        let rope = Rope::from_str("a\u{2028}b\u{85}c\u{b}d\u{c}e\nf");
        assert_eq!(rope.len_lines(), 2);
    }

    #[test]
    fn a_whole_text_makes_a_small_edit() {
        let mut rope = Rope::from_str("one\ntwo\nthree\n");
        let edit = edit(&mut rope, Encoding::Utf16, None, "one\ntwo\nthree\nfour\n");
        assert_eq!(edit, Some(LineEdit { first: 3, old: 1, new: 2 }));
    }

    #[test]
    fn the_same_text_is_no_edit() {
        let mut rope = Rope::from_str("éé\n");
        assert_eq!(edit(&mut rope, Encoding::Utf16, None, "éé\n"), None);
        let same = edit(&mut rope, Encoding::Utf16, Some((at(0, 0), at(0, 1))), "é");
        assert_eq!(same, None);
    }

    fn snippet() -> impl Strategy<Value = String> {
        let piece =
            prop_oneof![Just("\n"), Just("\r\n"), Just("\r"), Just("a"), Just("é"), Just("😀"), Just("loss: nan"), Just("\u{2028}")];
        prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn edits_equal_a_string(
            start in snippet(),
            changes in prop::collection::vec((0usize..6, 0usize..9, 0usize..6, 0usize..9, snippet()), 1..8),
            unit in 0..3,
        ) {
            let encoding = [Encoding::Utf8, Encoding::Utf16, Encoding::Utf32][unit as usize];
            let mut rope = Rope::from_str(&start);
            let before = rope.clone();
            let mut text = start;
            let mut merged: Option<LineEdit> = None;
            for (l1, c1, l2, c2, new) in changes {
                let (a, b) = (at(l1, c1), at(l2, c2));
                let (x, y) = (offset(&rope, encoding, a), offset(&rope, encoding, b));
                text.replace_range(x.min(y)..x.max(y), &new);
                if let Some(change) = edit(&mut rope, encoding, Some((a, b)), &new) {
                    merged = Some(merged.map_or(change, |earlier| earlier.then(change)));
                }
                prop_assert_eq!(rope.to_string(), text.clone());
            }
            let Some(LineEdit { first, old, new }) = merged else {
                prop_assert_eq!(before, rope);
                return Ok(());
            };
            prop_assert_eq!(before.len_lines() - old, rope.len_lines() - new);
            for line in 0..first {
                prop_assert_eq!(before.line(line), rope.line(line));
            }
            for behind in 0..before.len_lines() - first - old {
                prop_assert_eq!(before.line(first + old + behind), rope.line(first + new + behind));
            }
        }
    }
}
