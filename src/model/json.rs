//! A tolerant JSON reader that keeps the byte range of every key and value.
//!
//! Reads JSON as training frameworks write it: comments (`//`, `/* */`), trailing commas, and the
//! bare words `NaN`, `Infinity` and `-Infinity` that Python's `json` module emits. Limits: nesting
//! deeper than [`MAX_DEPTH`], more values than [`MAX_VALUES`] and texts larger than [`MAX_BYTES`] are
//! refused, so that no input can exhaust the stack, the memory or the time: reading is linear in the
//! text. Ranges are byte offsets into the text that was read.

use std::borrow::Cow;
use std::ops::Range;

/// Deepest nesting of arrays and objects that is read.
pub const MAX_DEPTH: usize = 64;
/// Largest text that is read, in bytes (64 MiB).
pub const MAX_BYTES: usize = 64 << 20;

/// Most values of a text. The longest index of weights has some 200,000, a long trainer state a million.
pub const MAX_VALUES: usize = 4 << 20;

/// A byte range of the text.
pub type Span = Range<usize>;

/// A value with its place in the text.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Byte range of the value.
    pub span: Span,
    /// What stands there.
    pub value: Value,
}

/// What a JSON value can be.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// An integer, exact.
    Integer(i128),
    /// Any other number, among them the bare words NaN and Infinity.
    Float(f64),
    /// A string with its escapes resolved.
    String(String),
    /// An array.
    Array(Vec<Node>),
    /// An object in the order of the text; a repeated key keeps its last value on look-up.
    Object(Vec<Member>),
}

/// One key of an object and its value.
#[derive(Debug, Clone, PartialEq)]
pub struct Member {
    /// The key, escapes resolved.
    pub name: String,
    /// Byte range of the key with its quotes.
    pub name_span: Span,
    /// The value.
    pub node: Node,
}

/// Why a text could not be read, and where.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct JsonError {
    /// Byte range of the offending text.
    pub span: Span,
    /// What was expected there.
    pub message: Cow<'static, str>,
}

impl Node {
    /// The value of a key, if this is an object that has it. The last of repeated keys counts.
    pub fn get(&self, name: &str) -> Option<&Node> {
        self.member(name).map(|member| &member.node)
    }

    /// A key with its spans, if this is an object that has it.
    pub fn member(&self, name: &str) -> Option<&Member> {
        match &self.value {
            Value::Object(members) => members.iter().rev().find(|member| member.name == name),
            _ => None,
        }
    }

    /// The word for the kind of this value, for messages.
    pub fn kind(&self) -> &'static str {
        match self.value {
            Value::Null => "null",
            Value::Bool(_) => "a boolean",
            Value::Integer(_) | Value::Float(_) => "a number",
            Value::String(_) => "a string",
            Value::Array(_) => "a list",
            Value::Object(_) => "an object",
        }
    }
}

/// Reads one JSON value; anything but white space and comments after it is an error.
pub fn parse(text: &str) -> Result<Node, JsonError> {
    if text.len() > MAX_BYTES {
        return Err(JsonError { span: 0..0, message: Cow::Borrowed("the file is larger than 64 MiB: no model config is") });
    }
    let start = if text.starts_with('\u{feff}') { 3 } else { 0 };
    let mut parser = Parser { text, at: start, depth: 0, values: 0 };
    parser.skip_blank()?;
    let node = parser.value()?;
    parser.skip_blank()?;
    if parser.at < text.len() {
        return Err(parser.error("nothing may follow the closing bracket"));
    }
    Ok(node)
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
    values: usize,
}

impl Parser<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or("")
    }

    fn error(&self, message: &'static str) -> JsonError {
        let width = self.rest().chars().next().map_or(0, char::len_utf8);
        JsonError { span: self.at..self.at + width, message: Cow::Borrowed(message) }
    }

    fn skip_blank(&mut self) -> Result<(), JsonError> {
        loop {
            while self.peek().is_some_and(|byte| byte.is_ascii_whitespace()) {
                self.at += 1;
            }
            if self.rest().starts_with("//") {
                self.at += self.rest().find('\n').unwrap_or(self.rest().len());
            } else if self.rest().starts_with("/*") {
                let Some(end) = self.rest().find("*/") else {
                    return Err(self.error("this comment is never closed"));
                };
                self.at += end + 2;
            } else {
                return Ok(());
            }
        }
    }

    fn value(&mut self) -> Result<Node, JsonError> {
        let start = self.at;
        self.values += 1;
        if self.values > MAX_VALUES {
            return Err(self.error("more values than any file about a model has (limit 4,194,304)"));
        }
        let value = match self.peek() {
            Some(b'{') => self.nested(Self::object)?,
            Some(b'[') => self.nested(Self::array)?,
            Some(b'"') => Value::String(self.string()?),
            Some(b'-' | b'0'..=b'9') => self.number()?,
            Some(_) => self.word()?,
            None => return Err(self.error("a value is missing here")),
        };
        Ok(Node { span: start..self.at, value })
    }

    fn nested(&mut self, read: fn(&mut Self) -> Result<Value, JsonError>) -> Result<Value, JsonError> {
        if self.depth >= MAX_DEPTH {
            return Err(self.error("nested too deeply for a model config"));
        }
        self.depth += 1;
        self.at += 1;
        let value = read(self)?;
        self.depth -= 1;
        Ok(value)
    }

    fn object(&mut self) -> Result<Value, JsonError> {
        let mut members = Vec::new();
        loop {
            self.skip_blank()?;
            match self.peek() {
                Some(b'}') => {
                    self.at += 1;
                    return Ok(Value::Object(members));
                }
                Some(b'"') => {}
                _ => {
                    return Err(self.error("a key in double quotes or a closing brace is expected here"));
                }
            }
            let start = self.at;
            let name = self.string()?;
            let name_span = start..self.at;
            self.skip_blank()?;
            if self.peek() != Some(b':') {
                return Err(self.error("a colon is expected after the key"));
            }
            self.at += 1;
            self.skip_blank()?;
            let node = self.value()?;
            members.push(Member { name, name_span, node });
            self.separator(b'}')?;
        }
    }

    fn array(&mut self) -> Result<Value, JsonError> {
        let mut items = Vec::new();
        loop {
            self.skip_blank()?;
            if self.peek() == Some(b']') {
                self.at += 1;
                return Ok(Value::Array(items));
            }
            items.push(self.value()?);
            self.separator(b']')?;
        }
    }

    fn separator(&mut self, close: u8) -> Result<(), JsonError> {
        self.skip_blank()?;
        match self.peek() {
            Some(b',') => {
                self.at += 1;
                Ok(())
            }
            Some(byte) if byte == close => Ok(()),
            _ => Err(self.error("a comma or a closing bracket is expected here")),
        }
    }

    fn string(&mut self) -> Result<String, JsonError> {
        let start = self.at;
        self.at += 1;
        let mut out = String::new();
        loop {
            let run = self.rest().find(['"', '\\', '\n']).unwrap_or(self.rest().len());
            out.push_str(self.rest().get(..run).unwrap_or(""));
            self.at += run;
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(out);
                }
                Some(b'\\') => self.escape(&mut out)?,
                _ => {
                    return Err(JsonError { span: start..self.at, message: Cow::Borrowed("this string is never closed") });
                }
            }
        }
    }

    fn escape(&mut self, out: &mut String) -> Result<(), JsonError> {
        self.at += 1;
        let plain = match self.peek() {
            Some(b'n') => '\n',
            Some(b't') => '\t',
            Some(b'r') => '\r',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'u') => return self.unicode_escape(out),
            Some(byte @ (b'"' | b'\\' | b'/')) => char::from(byte),
            _ => return Err(self.error("unknown escape in a string")),
        };
        self.at += 1;
        out.push(plain);
        Ok(())
    }

    fn unicode_escape(&mut self, out: &mut String) -> Result<(), JsonError> {
        let unit = |text: &str| text.get(..4).and_then(|digits| u32::from_str_radix(digits, 16).ok());
        self.at += 1;
        let Some(high) = unit(self.rest()) else {
            return Err(self.error("four hexadecimal digits are expected here"));
        };
        self.at += 4;
        if !(0xd800..0xdc00).contains(&high) {
            out.push(char::from_u32(high).unwrap_or(char::REPLACEMENT_CHARACTER));
            return Ok(());
        }
        let low = self.rest().strip_prefix("\\u").and_then(unit).filter(|low| (0xdc00..0xe000).contains(low));
        let Some(low) = low else {
            out.push(char::REPLACEMENT_CHARACTER);
            return Ok(());
        };
        self.at += 6;
        let code = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
        out.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
        Ok(())
    }

    fn number(&mut self) -> Result<Value, JsonError> {
        if self.rest().starts_with("-Infinity") {
            self.at += 9;
            return Ok(Value::Float(f64::NEG_INFINITY));
        }
        let is_part = |byte: u8| byte.is_ascii_digit() || matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E');
        let length = self.rest().bytes().take_while(|byte| is_part(*byte)).count();
        let digits = self.rest().get(..length).unwrap_or("");
        let integer = digits.parse::<i128>().ok().map(Value::Integer);
        let Some(value) = integer.or_else(|| digits.parse::<f64>().ok().map(Value::Float)) else {
            return Err(JsonError { span: self.at..self.at + length, message: Cow::Borrowed("this is not a number") });
        };
        self.at += length;
        Ok(value)
    }

    fn word(&mut self) -> Result<Value, JsonError> {
        let words = [
            ("null", Value::Null),
            ("true", Value::Bool(true)),
            ("false", Value::Bool(false)),
            ("NaN", Value::Float(f64::NAN)),
            ("Infinity", Value::Float(f64::INFINITY)),
        ];
        for (word, value) in words {
            if self.rest().starts_with(word) {
                self.at += word.len();
                return Ok(value);
            }
        }
        Err(self.error("a value is expected here"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_trailing_commas_and_python_words_are_read() {
        let text = "{ // a comment\n \"a\": 1, /* b */ \"b\": [Infinity, -Infinity, NaN,], }";
        let node = parse(text).unwrap();
        assert_eq!(node.get("a").unwrap().value, Value::Integer(1));
        assert_eq!(&text[node.member("b").unwrap().name_span.clone()], "\"b\"");
    }

    #[test]
    fn deep_nesting_is_refused_not_overflowed() {
        let error = parse(&"[".repeat(1_000_000)).unwrap_err();
        assert!(error.message.contains("deeply"));
    }

    #[test]
    fn escapes_and_surrogates_are_resolved() {
        let node = parse(r#""a\u00e9\ud83d\ude00\n""#).unwrap();
        assert_eq!(node.value, Value::String("aé😀\n".to_owned()));
    }
}
