//! The clean view of a line: what a reader sees, with a map back to the columns of the raw line.
//!
//! Colour codes go (the real escape byte, and `^[[0;36m` as `cat -v` and some collectors write it), backspaces go, and
//! lone carriage returns cut the line into segments, because a progress bar and the message behind it share a line.
//! A JSON log record becomes the lines of its message, with the escapes undone.
//! Limits: cursor movement is not replayed; every segment is kept, also one that a terminal would have painted over.

use super::floor_border;

/// A piece of a raw line as a reader sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// The clean text.
    pub text: String,
    /// Runs of equal text: (offset in `text`, offset in the raw line), rising in both.
    runs: Vec<(usize, usize)>,
    /// Where the segment ends in the raw line.
    raw_end: usize,
}

impl Segment {
    /// Raw column at which the clean byte `at` begins.
    pub fn raw_start(&self, at: usize) -> usize {
        let run = self.runs.partition_point(|&(clean, _)| clean <= at);
        match run.checked_sub(1).and_then(|i| self.runs.get(i)) {
            Some(&(clean, raw)) => (raw + (at - clean)).min(self.raw_end),
            None => self.raw_end,
        }
    }

    /// Raw column behind the clean text that ends at `at`.
    pub fn raw_stop(&self, at: usize) -> usize {
        if at == 0 {
            return self.raw_start(0);
        }
        let last = floor_border(&self.text, at - 1);
        (self.raw_start(last) + (at - last)).min(self.raw_end)
    }

    /// The same segment without its first `n` clean bytes.
    pub fn skip(mut self, n: usize) -> Segment {
        if n == 0 {
            return self;
        }
        let raw = self.raw_start(n);
        let keep = self.runs.partition_point(|&(clean, _)| clean <= n);
        self.runs.drain(..keep);
        for run in &mut self.runs {
            run.0 -= n;
        }
        self.runs.insert(0, (0, raw));
        self.text.drain(..n);
        self
    }

    fn push(&mut self, text: &str, raw: usize) {
        if text.is_empty() {
            return;
        }
        let joins = self.runs.last().is_some_and(|&(clean, start)| start + (self.text.len() - clean) == raw);
        if !joins {
            self.runs.push((self.text.len(), raw));
        }
        self.text.push_str(text);
    }
}

/// Does a line need more than a plain copy?
fn is_plain(line: &str) -> bool {
    memchr::memchr3(b'\x1b', b'\r', b'\x08', line.as_bytes()).is_none() && !line.contains("^[[")
}

/// Cuts a raw line at lone carriage returns and takes colour codes and backspaces out.
///
/// `base` is the raw column at which `line` begins, for a window cut from a longer line.
/// At least one segment comes back; empty segments between carriage returns are left out.
pub fn segments(line: &str, base: usize) -> Vec<Segment> {
    if is_plain(line) {
        return vec![Segment { text: line.to_owned(), runs: vec![(0, base)], raw_end: base + line.len() }];
    }
    let mut out = Vec::new();
    let mut start = 0;
    for piece in line.split('\r') {
        let segment = strip(piece, base + start);
        start += piece.len() + 1;
        if !segment.text.is_empty() {
            out.push(segment);
        }
    }
    if out.is_empty() {
        out.push(Segment { text: String::new(), runs: vec![(0, base)], raw_end: base });
    }
    out
}

fn strip(piece: &str, base: usize) -> Segment {
    let mut out = Segment { raw_end: base + piece.len(), ..Segment::default() };
    let mut rest = 0;
    while rest < piece.len() {
        let tail = &piece[rest..];
        let next = next_mark(tail.as_bytes());
        out.push(&tail[..next], base + rest);
        rest += next;
        rest += escape_length(&piece[rest..]);
    }
    out
}

/// Offset of the next escape, backspace or `^[[`; the end where there is none.
fn next_mark(bytes: &[u8]) -> usize {
    memchr::memchr3_iter(b'\x1b', b'\x08', b'^', bytes)
        .find(|&at| bytes[at] != b'^' || bytes[at..].starts_with(b"^[["))
        .unwrap_or(bytes.len())
}

/// Length of the escape at the start of `tail`: ANSI CSI and OSC sequences, their `^[` spelling, a backspace.
fn escape_length(tail: &str) -> usize {
    let bytes = tail.as_bytes();
    let (start, csi) = match bytes {
        [] => return 0,
        [b'\x08', ..] => return 1,
        [b'\x1b', b'[', ..] => (2, true),
        [b'^', b'[', b'[', ..] => (3, true),
        [b'\x1b', b']', ..] => (2, false),
        [b'\x1b', c, ..] if c.is_ascii() => return 2,
        _ => return 1,
    };
    if csi {
        let parameters = bytes[start..].iter().take_while(|b| (0x20..0x40).contains(*b)).count();
        let stop = start + parameters;
        return if bytes.get(stop).is_some_and(|b| (0x40..0x7f).contains(b)) { stop + 1 } else { stop };
    }
    match memchr::memchr2(b'\x07', b'\x1b', &bytes[start..]) {
        Some(at) if bytes[start + at] == b'\x07' => start + at + 1,
        Some(at) => (start + at + 2).min(bytes.len()),
        None => bytes.len(),
    }
}

/// An escape inside a JSON string is at most this long.
const MOST_ESCAPE: usize = 64;

/// Keys under which JSON log writers put the message.
const MESSAGE_KEYS: [&str; 14] = [
    "message",
    "msg",
    "log",
    "text",
    "exc_info",
    "exception",
    "error",
    "err",
    "errors",
    "warnings",
    "detail",
    "traceback",
    "stack_trace",
    "content",
];

/// The message of a JSON log record, its escapes undone, cut at its line feeds.
///
/// `None` when the segment is no JSON object with a string under one of the usual keys.
pub fn json_messages(segment: &Segment) -> Option<Vec<Segment>> {
    let text = segment.text.trim_end();
    if !(text.starts_with('{') && text.ends_with('}') && text.contains("\":")) {
        return None;
    }
    // A line of a conversation or of training data is no log record; what it says happened elsewhere.
    if ["role", "prompt", "instruction"].iter().any(|key| value_start(text, key).is_some()) {
        return None;
    }
    let mut out = Vec::new();
    for key in MESSAGE_KEYS {
        let Some(open) = value_start(text, key) else { continue };
        unescape(segment, open, &mut out);
    }
    (!out.is_empty()).then_some(out)
}

/// Offset behind the opening quote of the string value of `key`, or of the first string of a list.
fn value_start(text: &str, key: &str) -> Option<usize> {
    let needle = format!("\"{key}\"");
    let at = text.find(&needle)? + needle.len();
    let rest = &text[at..];
    let value = rest.trim_start().strip_prefix(':')?.trim_start();
    let value = value.strip_prefix('[').map_or(value, str::trim_start);
    let colon = rest.len() - value.len();
    rest[colon..].starts_with('"').then_some(at + colon + 1)
}

/// Undoes the escapes of the JSON string that begins at `open` and adds its lines to `out`.
fn unescape(segment: &Segment, open: usize, out: &mut Vec<Segment>) {
    let bytes = segment.text.as_bytes();
    let new = || Segment { raw_end: segment.raw_end, ..Segment::default() };
    let mut line = new();
    let mut at = open;
    while at < bytes.len() && bytes[at] != b'"' {
        if bytes[at] != b'\\' {
            let run = memchr::memchr2(b'"', b'\\', &bytes[at..]).unwrap_or(bytes.len() - at);
            line.push(&segment.text[at..at + run], segment.raw_start(at));
            at += run;
            continue;
        }
        let raw = segment.raw_start(at);
        let (text, length) = match bytes.get(at + 1) {
            Some(b'n') => {
                out.push(std::mem::replace(&mut line, new()));
                at += 2;
                continue;
            }
            Some(b't') => ("\t".to_owned(), 2),
            Some(b'r') => (String::new(), 2),
            Some(b'u') => {
                let code = segment.text.get(at + 2..at + 6).and_then(|hex| u32::from_str_radix(hex, 16).ok());
                let c = code.and_then(char::from_u32);
                match c {
                    // Colour codes come escaped as well.
                    Some('\x1b') => {
                        let rest = segment.text.get(at + 6..).unwrap_or_default();
                        let rest = &rest[..floor_border(rest, MOST_ESCAPE)];
                        let length = escape_length(&format!("\x1b{rest}")).saturating_sub(1);
                        (String::new(), 6 + length)
                    }
                    Some(c) => (c.to_string(), 6),
                    None => ("\u{fffd}".to_owned(), if code.is_some() { 6 } else { 2 }),
                }
            }
            Some(&c) if c.is_ascii() => ((c as char).to_string(), 2),
            _ => (String::new(), 1),
        };
        line.push(&text, raw);
        at = (at + length).min(bytes.len());
    }
    if !line.text.is_empty() {
        out.push(line);
    }
    out.retain(|line| !line.text.is_empty());
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn only(line: &str) -> Segment {
        let mut all = segments(line, 0);
        assert_eq!(all.len(), 1, "{all:?}");
        all.remove(0)
    }

    #[test]
    fn colour_codes_go_and_columns_map_back() {
        let line = "\x1b[1;31mCUDA \x1b[0mout ^[[0;36mof memory";
        let clean = only(line);
        assert_eq!(clean.text, "CUDA out of memory");
        let at = clean.text.find("out").unwrap();
        assert_eq!(&line[clean.raw_start(at)..clean.raw_stop(at + 3)], "out");
        let at = clean.text.find("of").unwrap();
        assert_eq!(&line[clean.raw_start(at)..clean.raw_stop(at + 9)], "of memory");
    }

    #[test]
    fn carriage_returns_cut_segments() {
        let line = "  1%| | 1/9\r  2%|█| 2/9\rRuntimeError: bad";
        let all = segments(line, 0);
        assert_eq!(all.iter().map(|s| s.text.as_str()).collect::<Vec<_>>(), ["  1%| | 1/9", "  2%|█| 2/9", "RuntimeError: bad"]);
        assert_eq!(&line[all[2].raw_start(0)..all[2].raw_stop(12)], "RuntimeError");
    }

    #[test]
    fn a_json_record_gives_the_lines_of_its_message() {
        let line = r#"{"level":"error","message":"step \"9\"\nCUDA out of \u001b[31mmemory","t":1}"#;
        let all = json_messages(&only(line)).unwrap();
        assert_eq!(all.iter().map(|s| s.text.as_str()).collect::<Vec<_>>(), ["step \"9\"", "CUDA out of memory"]);
        assert_eq!(&line[all[1].raw_start(0)..all[1].raw_stop(4)], "CUDA");
        assert_eq!(&line[all[1].raw_start(12)..all[1].raw_stop(18)], "memory");
    }

    #[test]
    fn a_json_record_is_read_under_the_rarer_keys_and_in_lists() {
        for (line, expected) in [
            (r#"{"level":"error","msg":"request failed","err":"CUDA out of memory"}"#, &["request failed", "CUDA out of memory"][..]),
            (r#"{"error":"unknown error","warnings":["CUDA out of memory","again"]}"#, &["unknown error", "CUDA out of memory"][..]),
            (r#"{"msg":"done","errors":[]}"#, &["done"][..]),
        ] {
            let all = json_messages(&only(line)).unwrap();
            assert_eq!(all.iter().map(|s| s.text.as_str()).collect::<Vec<_>>(), expected);
        }
    }

    #[test]
    fn truncated_escapes_are_survived() {
        for line in ["\x1b", "\x1b[", "\x1b[31", "^[[", "\x1b]0;title", "a\x1bé", "{\"log\":\"\\", "{\"log\":\"\\u12\"}"] {
            for segment in segments(line, 0) {
                json_messages(&segment);
            }
        }
    }

    proptest! {
        #[test]
        fn the_map_is_monotone_and_on_borders(line in "[a-zé😀\\x1b\\r\\x08\\[;0-9m^]{0,60}") {
            let mut last = 0;
            for segment in segments(&line, 0) {
                for (at, c) in segment.text.char_indices() {
                    let (start, stop) = (segment.raw_start(at), segment.raw_stop(at + c.len_utf8()));
                    prop_assert!(start >= last && stop > start);
                    prop_assert_eq!(&line[start..stop], c.to_string());
                    last = stop;
                }
            }
        }
    }
}
