//! A finding: one event in a log, where it stands, what it says in numbers, and the part it plays.

use std::sync::Arc;

use super::units::{self, Unit, Value};
use super::verdict::Verdict;
use super::vocabulary::{Cause, Confidence, Kind, Role, Severity};

/// A range of a text: 0-based LF lines, byte columns inside the raw line without its line end, `end` exclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    /// First line.
    pub line: usize,
    /// First byte in it.
    pub start: usize,
    /// Last line.
    pub end_line: usize,
    /// Byte behind the last one in it.
    pub end: usize,
}

impl Span {
    /// Does the span hold this position (the end counts, as a cursor may stand there)?
    pub fn holds(&self, line: usize, column: usize) -> bool {
        (self.line, self.start) <= (line, column) && (line, column) <= (self.end_line, self.end)
    }

    /// Does the span touch this line?
    pub fn touches(&self, line: usize) -> bool {
        self.line <= line && line <= self.end_line
    }

    /// The same span some lines further down (or up).
    pub fn moved(mut self, from: usize, to: usize) -> Span {
        self.line = self.line + to - from;
        self.end_line = self.end_line + to - from;
        self
    }
}

/// A number of a message.
#[derive(Clone, Debug, PartialEq)]
pub struct Number {
    /// Its name, the same everywhere: `tried`, `total`, `free`, `allocated` ...
    pub name: String,
    /// Its value.
    pub value: Value,
    /// How it was read.
    pub unit: Unit,
    /// As the message prints it.
    pub text: String,
    /// Where it was read; `None` for a number that was computed.
    pub span: Option<Span>,
}

impl Number {
    /// The number in words: as printed where it was read, else in binary units.
    pub fn shown(&self) -> String {
        match (self.span, self.value) {
            _ if self.unit == Unit::Ms => units::duration(self.value.as_f64()),
            (None, Value::Bytes(n)) => units::binary(n),
            // A bare count of bytes or KiB says nothing without its unit.
            (_, Value::Bytes(n)) if !self.text.ends_with(|c: char| c.is_ascii_alphabetic()) || self.text.ends_with("bytes") => {
                units::binary(n)
            }
            (_, Value::Bytes(_)) => two_decimals(&self.text),
            _ => self.text.clone(),
        }
    }
}

/// A size as printed, with at most two decimals: `14.9889 GiB` promises more than it knows.
fn two_decimals(text: &str) -> String {
    let digits = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let decimals = number.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    match number.parse::<f64>() {
        Ok(value) if decimals > 2 => format!("{value:.2}{unit}"),
        _ => text.to_owned(),
    }
}

/// An event in a log.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// Id of its rule page.
    pub rule: Arc<str>,
    /// Title of its rule page.
    pub title: Arc<str>,
    /// What sort of event.
    pub kind: Kind,
    /// Why.
    pub cause: Cause,
    /// How bad, after the story was told.
    pub severity: Severity,
    /// How sure.
    pub confidence: Confidence,
    /// The part it plays, after the story was told.
    pub role: Role,
    /// Place in the ranking of causes.
    pub precedence: u8,
    /// What happened, then the number that matters.
    pub message: String,
    /// Where it stands.
    pub span: Span,
    /// Its numbers.
    pub numbers: Vec<Number>,
    /// Captures that are no numbers, by name.
    pub texts: Vec<(String, String)>,
    /// Rank that wrote the line, where the line says so.
    pub rank: Option<u32>,
    /// Training step, where known.
    pub step: Option<u64>,
    /// Time stamp as the line has it.
    pub time: Option<String>,
    /// Node or host, where the line says so.
    pub host: Option<String>,
    /// What the numbers add up to.
    pub verdict: Option<Verdict>,
}

impl Finding {
    /// The number of this name.
    pub fn number(&self, name: &str) -> Option<&Number> {
        self.numbers.iter().find(|number| number.name == name)
    }

    /// The bytes of the number of this name.
    pub fn bytes(&self, name: &str) -> Option<u64> {
        self.number(name)?.value.bytes()
    }

    /// The text of this name.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.texts.iter().find(|(n, _)| n == name).map(|(_, text)| text.as_str())
    }
}
