//! A line of a block: what a reader sees of it, without its prefix, with the way back to the raw columns.

use std::ops::Range;

use regex::Regex;

use crate::log::finding::{Number, Span};
use crate::log::record::{self, Record};
use crate::log::units::{self, Unit, Value};
use crate::text::{Lines, clean, floor_border};

/// A row of a table is shorter than this; of a longer line only the beginning is read.
const MOST_BYTES: usize = 4 << 10;

/// A record with all lines of a message in it is shorter than this.
const MOST_RECORD: usize = 16 << 10;

/// A clean line and its place.
#[derive(Clone, Debug, Default)]
pub struct Row {
    /// Line in the text.
    pub line: usize,
    record: Record,
}

impl Row {
    /// Reads line `i`: of a line with carriage returns, what is seen of it last.
    pub fn read(lines: &dyn Lines, i: usize) -> Row {
        let raw = lines.line(i);
        let raw = &raw[..floor_border(&raw, MOST_BYTES)];
        let mut record = clean::segments(raw, 0).pop().map(record::read).unwrap_or_default();
        // A container's log wraps each line into a JSON record.
        if let Some(inner) = clean::json_messages(&record.body).and_then(|messages| messages.into_iter().next()) {
            record = record::read(inner);
        }
        Row { line: i, record }
    }

    /// The lines of a JSON record's message; nothing when line `i` is no such record.
    pub fn inner(lines: &dyn Lines, i: usize) -> Vec<Row> {
        let outer = record::last(&lines.line(i), MOST_RECORD);
        let messages = clean::json_messages(&outer.body).unwrap_or_default();
        messages.into_iter().map(|body| Row { line: i, record: record::read(body) }).collect()
    }

    /// The pieces of a row that each begin with a match; nothing when there is none.
    pub fn pieces(&self, beginnings: &Regex) -> Vec<Row> {
        let starts: Vec<usize> = beginnings.find_iter(self.text()).map(|found| found.start()).collect();
        let ends = starts.iter().skip(1).copied().chain([self.text().len()]);
        let piece = |(&start, end): (&usize, usize)| {
            let mut body = self.record.body.clone().skip(start);
            body.text.truncate(self.text()[start..end].trim_end().len());
            Row { line: self.line, record: Record { body, ..self.record.clone() } }
        };
        starts.iter().zip(ends).map(piece).collect()
    }

    /// The text without prefix and without white space at its ends.
    pub fn text(&self) -> &str {
        &self.record.body.text
    }

    /// Columns of white space in front of the text.
    pub fn indent(&self) -> usize {
        self.record.indent
    }

    /// The rank of the prefix.
    pub fn rank(&self) -> Option<u32> {
        self.record.prefix.rank
    }

    /// The raw column behind the text.
    pub fn end(&self) -> usize {
        self.record.body.raw_stop(self.text().len())
    }

    /// Where a range of the text stands.
    pub fn span(&self, range: Range<usize>) -> Span {
        let body = &self.record.body;
        Span { line: self.line, start: body.raw_start(range.start), end_line: self.line, end: body.raw_stop(range.end) }
    }

    /// The number in a range of the text, read as the unit says.
    pub fn number(&self, name: &str, range: Range<usize>, unit: Unit) -> Option<Number> {
        let text = self.text().get(range.clone())?;
        let (value, unit) = units::read(text, Some(unit))?;
        Some(Number { name: name.to_owned(), value, unit, text: text.to_owned(), span: Some(self.span(range)) })
    }

    /// The cells between the bars of a row `| a | b |`, white space taken off; nothing when the line is no such row.
    pub fn cells(&self) -> Vec<Range<usize>> {
        let text = self.text();
        if !text.starts_with('|') || !text.ends_with('|') {
            return Vec::new();
        }
        let bars: Vec<usize> = memchr::memchr_iter(b'|', text.as_bytes()).collect();
        bars.windows(2).map(|pair| trimmed(text, pair[0] + 1..pair[1])).collect()
    }

    /// The first word of a range.
    pub fn first_word(&self, range: &Range<usize>) -> Range<usize> {
        let end = self.get(range).find(char::is_whitespace).map_or(range.end, |at| range.start + at);
        range.start..end
    }

    /// The text of a range.
    pub fn get(&self, range: &Range<usize>) -> &str {
        self.text().get(range.clone()).unwrap_or("")
    }

    /// Key and value of `key : value`; nothing without a colon.
    pub fn field(&self) -> Option<(&str, Range<usize>)> {
        let text = self.text();
        let colon = text.find(':')?;
        Some((text[..colon].trim_end(), trimmed(text, colon + 1..text.len())))
    }
}

/// A range without the white space at its ends.
pub fn trimmed(text: &str, range: Range<usize>) -> Range<usize> {
    let inner = &text[range.clone()];
    let start = range.start + (inner.len() - inner.trim_start().len());
    start..(start + inner.trim().len())
}

/// The sum of sizes from a text; `None` past what can be counted: no machine holds it, so the rows are no real ones.
pub fn sum(sizes: impl IntoIterator<Item = u64>) -> Option<u64> {
    sizes.into_iter().try_fold(0u64, u64::checked_add)
}

/// A number of bytes that was worked out.
pub fn bytes(name: &str, bytes: u64) -> Number {
    Number { name: name.to_owned(), value: Value::Bytes(bytes), unit: Unit::Bytes, text: units::binary(bytes), span: None }
}

/// A count that was worked out.
pub fn count(name: &str, n: u64) -> Number {
    let value = Value::Int(i64::try_from(n).unwrap_or(i64::MAX));
    Number { name: name.to_owned(), value, unit: Unit::Count, text: n.to_string(), span: None }
}

/// A share in percent, rounded.
pub fn percent(name: &str, part: u64, whole: u64) -> Number {
    let share = (part as f64 / whole.max(1) as f64 * 100.0).round();
    Number { name: name.to_owned(), value: Value::Float(share), unit: Unit::Percent, text: format!("{share:.0} %"), span: None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::StrLines;

    #[test]
    fn cells_keep_their_columns() {
        let lines = StrLines::new("node01: | Allocated memory      |   6144 MiB |  7 |");
        let row = Row::read(&lines, 0);
        let cells = row.cells();
        assert_eq!(cells.iter().map(|cell| row.get(cell)).collect::<Vec<_>>(), ["Allocated memory", "6144 MiB", "7"]);
        let number = row.number("allocated", cells[1].clone(), Unit::Binary).unwrap();
        assert_eq!((number.value, number.span.map(|span| (span.start, span.end))), (Value::Bytes(6144 << 20), Some((36, 44))));
    }

    #[test]
    fn a_line_in_a_json_record_is_read() {
        let lines = StrLines::new(r#"{"log":"| Allocated memory | 7 MiB |\n","stream":"stdout"}"#);
        let row = Row::read(&lines, 0);
        assert_eq!(row.cells().len(), 2);
        assert_eq!(row.number("allocated", row.cells()[1].clone(), Unit::Binary).unwrap().span.map(|span| span.start), Some(29));
    }

    #[test]
    fn fields_split_at_the_first_colon() {
        let lines = StrLines::new("        GPU Current Temp                  : 41 C");
        let row = Row::read(&lines, 0);
        let (key, value) = row.field().unwrap();
        assert_eq!((key, row.get(&value), row.indent()), ("GPU Current Temp", "41 C", 8));
    }
}
