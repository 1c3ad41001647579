//! JSON as text for a terminal, a file or a pipe: what no reader sees in a string is written as `\uXXXX`.
//!
//! `serde_json` escapes the controls below U+0020 alone. Terminals act on C1 controls as well, and bidi controls turn what
//! stands behind them.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::{CompactFormatter, Formatter, PrettyFormatter};

use crate::text::is_unseen;

/// Writes a value on one line.
///
/// # Errors
/// When the output cannot be written.
pub fn write_line(out: &mut dyn Write, value: &impl Serialize) -> io::Result<()> {
    write(out, value, CompactFormatter)
}

/// Writes a value over several lines.
///
/// # Errors
/// When the output cannot be written.
pub fn write_pretty(out: &mut dyn Write, value: &impl Serialize) -> io::Result<()> {
    write(out, value, PrettyFormatter::new())
}

fn write(out: &mut dyn Write, value: &impl Serialize, form: impl Formatter) -> io::Result<()> {
    value.serialize(&mut serde_json::Serializer::with_formatter(&mut *out, Seen(form)))?;
    out.write_all(b"\n")
}

/// A form of JSON whose strings hold nothing unseen.
struct Seen<F>(F);

impl<F: Formatter> Formatter for Seen<F> {
    fn write_string_fragment<W: ?Sized + Write>(&mut self, out: &mut W, fragment: &str) -> io::Result<()> {
        let mut rest = fragment;
        while let Some(at) = rest.find(is_unseen) {
            out.write_all(&rest.as_bytes()[..at])?;
            let mut chars = rest[at..].chars();
            let code = chars.next().map_or(0, u32::from);
            write!(out, "\\u{code:04x}")?;
            rest = chars.as_str();
        }
        out.write_all(rest.as_bytes())
    }

    fn begin_array<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.begin_array(out)
    }

    fn end_array<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.end_array(out)
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        self.0.begin_array_value(out, first)
    }

    fn end_array_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.end_array_value(out)
    }

    fn begin_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.begin_object(out)
    }

    fn end_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.end_object(out)
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        self.0.begin_object_key(out, first)
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.begin_object_value(out)
    }

    fn end_object_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.end_object_value(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_unseen_is_escaped_and_read_again() {
        let value = serde_json::json!({"a\u{202e}b": ["\u{1b}[2J\u{9b}31m\u{7f}é\n\"", [], {}]});
        for pretty in [false, true] {
            let mut out = Vec::new();
            if pretty { write_pretty(&mut out, &value) } else { write_line(&mut out, &value) }.unwrap();
            let out = String::from_utf8(out).unwrap();
            assert!(!out.trim_end().chars().any(|c| is_unseen(c) && c != '\n'), "{out:?}");
            assert_eq!(serde_json::from_str::<serde_json::Value>(&out).unwrap(), value);
            let plain = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) }.unwrap();
            assert_eq!(out.lines().count(), plain.lines().count());
        }
    }
}
