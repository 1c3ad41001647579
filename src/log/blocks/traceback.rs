//! Python tracebacks: from the header down to the exception line, with the frame of the user's own code.
//!
//! Forms: `traceback.print_exception` of Python 3.8 to 3.14 (carets, `[Previous line repeated …]`), each rank's lines put
//! together by their prefix where ranks are interleaved, and the boxes that `rich` draws. Exception groups (`  | `) and
//! the native frames of crash handlers are not read.

use std::sync::LazyLock;

use regex::Regex;

use super::Block;
use crate::log::record::{self, Prefix, Record};
use crate::log::scan::Match;
use crate::text::{Lines, clean, floor_border};

/// Lines read below a header.
const MOST_LINES: usize = 600;
/// Bytes of a line that are read.
const MOST_BYTES: usize = 2048;
/// Blank lines inside a traceback.
const MOST_BLANK: usize = 2;
/// Bytes of the exception's text that are kept.
const MOST_TEXT: usize = 160;

/// Parts of a path that are nobody's own code.
const LIBRARY: [&str; 8] = ["site-packages", "dist-packages", "/lib/python", "\\lib\\", "\\Lib\\", "<frozen", "<string>", "/bin/"];
/// Exceptions that stop a program because someone wants it.
const WANTED: [&str; 6] = ["KeyboardInterrupt", "SystemExit", "StopIteration", "StopAsyncIteration", "GeneratorExit", "CancelledError"];

struct Forms {
    frame: Regex,
    boxed: Regex,
    exception: Regex,
}

static FORMS: LazyLock<Option<Forms>> = LazyLock::new(|| {
    Some(Forms {
        frame: Regex::new(r#"^File "(?P<path>[^"]+)", line (?P<line>\d+)(?:, in (?P<function>.+))?$"#).ok()?,
        boxed: Regex::new(r"^│\s*(?P<path>\S+\.py):(?P<line>\d+) in (?P<function>\S+)").ok()?,
        exception: Regex::new(r"^(?P<class>(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*)(?::(?:\s+(?P<text>.*))?)?$").ok()?,
    })
});

/// Reads the traceback whose header the match is. The block is the exception line; texts: `exception` (class), `text`,
/// and `frame`, the innermost frame of the user's own code.
pub fn read(m: &Match, lines: &dyn Lines) -> Option<Block> {
    let forms = FORMS.as_ref()?;
    let first = m.span.line;
    let header = record_of(&lines.line(first))?;
    let boxed = header.body.text.starts_with('╭');
    let mut frame: Option<Frame> = None;
    let mut any = false;
    let mut closed = !boxed;
    let mut blank = 0;
    for i in first + 1..(first + 1 + MOST_LINES).min(lines.count()) {
        let Some(record) = record_of(&lines.line(i)) else { continue };
        if !same_source(&record.prefix, &header.prefix) {
            continue;
        }
        let text = record.body.text.as_str();
        if text.is_empty() {
            blank += 1;
            if blank > MOST_BLANK {
                return None;
            }
            continue;
        }
        if let Some(found) = if boxed && !closed { forms.boxed.captures(text) } else { forms.frame.captures(text) } {
            any = true;
            let found = Frame::new(&found);
            // Library frames below the last one of the user only say how deep it went.
            if found.is_own || frame.as_ref().is_none_or(|frame| !frame.is_own) {
                frame = Some(found);
            }
            continue;
        }
        if boxed && !closed {
            closed = text.starts_with('╰');
            continue;
        }
        let inside = record.indent > header.indent || text.starts_with(['^', '~']) || text.starts_with("[Previous line repeated");
        if inside && !boxed {
            continue;
        }
        let exception = forms.exception.captures(text).filter(|_| any)?;
        let class = exception.name("class")?.as_str();
        let name = class.rsplit('.').next().unwrap_or(class);
        if WANTED.contains(&name) || name.ends_with("Warning") || !names_an_exception(class, exception.name("text").is_some()) {
            return None;
        }
        let mut texts = vec![("exception".to_owned(), class.to_owned())];
        let said = exception.name("text").map_or("", |text| text.as_str()).trim();
        if !said.is_empty() {
            let end = floor_border(said, MOST_TEXT);
            let cut = if end < said.len() { "…" } else { "" };
            texts.push(("text".to_owned(), format!("{}{cut}", &said[..end])));
        }
        if let Some(frame) = frame.filter(|frame| frame.is_own) {
            texts.push(("frame".to_owned(), frame.shown));
        }
        return Some(Block {
            start: Some((i, record.body.raw_start(0))),
            end: (i, record.body.raw_stop(text.len())),
            texts,
            ..Block::default()
        });
    }
    None
}

/// Is this the name of an exception's class? A bare word without a text must look like one.
fn names_an_exception(class: &str, has_text: bool) -> bool {
    let name = class.rsplit('.').next().unwrap_or(class);
    let usual = ["Error", "Exception", "Interrupt", "Timeout", "Exit", "Failure", "Fault", "Abort"];
    usual.iter().any(|ending| name.ends_with(ending)) || (has_text && name.starts_with(|c: char| c.is_ascii_uppercase()))
}

/// Lines of one rank or process carry one prefix; its time stamps differ.
fn same_source(a: &Prefix, b: &Prefix) -> bool {
    (a.rank, &a.host) == (b.rank, &b.host)
}

fn record_of(raw: &str) -> Option<Record> {
    let segment = clean::segments(&raw[..floor_border(raw, MOST_BYTES)], 0).into_iter().next_back()?;
    Some(record::read(segment))
}

/// A frame of a traceback.
pub(super) struct Frame {
    /// `train.py:42 in train_step`.
    pub(super) shown: String,
    /// Is it the user's own code?
    pub(super) is_own: bool,
}

impl Frame {
    /// The frame of the captures `path`, `line` and `function`.
    pub(super) fn new(found: &regex::Captures<'_>) -> Frame {
        let part = |name: &str| found.name(name).map_or("", |part| part.as_str());
        let path = part("path");
        let is_own = !LIBRARY.iter().any(|library| path.contains(library));
        // Two parts tell `eval/utils.py` from `train/utils.py`.
        let cut = path.rmatch_indices(['/', '\\']).nth(1).map_or(0, |(at, _)| at + 1);
        let function = part("function");
        let place = format!("{}:{}", &path[cut..], part("line"));
        let shown = if function.is_empty() { place } else { format!("{place} in {function}") };
        let end = floor_border(&shown, MOST_TEXT);
        Frame { shown: shown[..end].to_owned(), is_own }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::finding::Span;
    use crate::text::StrLines;

    fn block(text: &str, line: usize) -> Option<Block> {
        let span = Span { line, start: 0, end_line: line, end: 0 };
        let m = Match { page: 0, line, span, length: 0, captures: Vec::new(), prefix: Prefix::default() };
        read(&m, &StrLines::new(text))
    }

    fn text_of<'b>(block: &'b Block, name: &str) -> Option<&'b str> {
        block.texts.iter().find(|(n, _)| n == name).map(|(_, text)| text.as_str())
    }

    #[test]
    fn the_users_frame_ranks_above_the_library() {
        let text = "Traceback (most recent call last):\n  File \"/home/user/x/train.py\", line 42, in train_step\n    loss = model(batch)\n           ^^^^^^^^^^^^\n  File \"/opt/conda/lib/python3.11/site-packages/torch/nn/modules/module.py\", line 1553, in _wrapped_call_impl\n    return self._call_impl(*args, **kwargs)\nKeyError: 'input_ids'\n";
        let block = block(text, 0).unwrap();
        assert_eq!(block.start, Some((6, 0)));
        assert_eq!(block.end, (6, 21));
        assert_eq!(text_of(&block, "frame"), Some("x/train.py:42 in train_step"));
        assert_eq!((text_of(&block, "exception"), text_of(&block, "text")), (Some("KeyError"), Some("'input_ids'")));
    }

    #[test]
    fn ranks_are_put_together() {
        let text = "[rank0]: Traceback (most recent call last):\n[rank1]: Traceback (most recent call last):\n[rank0]:   File \"/a/train.py\", line 3, in main\n[rank1]:   File \"/a/other.py\", line 9, in run\n[rank1]:     f()\n[rank0]:     g()\n[rank1]: ValueError: one\n[rank0]: AssertionError\n";
        let zero = block(text, 0).unwrap();
        assert_eq!((zero.start, text_of(&zero, "exception"), text_of(&zero, "text")), (Some((7, 9)), Some("AssertionError"), None));
        let one = block(text, 1).unwrap();
        assert_eq!((one.start, text_of(&one, "frame")), (Some((6, 9)), Some("a/other.py:9 in run")));
    }

    #[test]
    fn a_box() {
        let text = "╭───────────── Traceback (most recent call last) ─────────────╮\n│ /home/user/x/train.py:31 in main                             │\n│                                                              │\n│   30 │   x = 1                                               │\n│ ❱ 31 │   run()                                               │\n╰──────────────────────────────────────────────────────────────╯\nValueError: bad shape\n";
        let block = block(text, 0).unwrap();
        assert_eq!((text_of(&block, "frame"), block.end), (Some("x/train.py:31 in main"), (6, 21)));
    }

    #[test]
    fn what_is_wanted_or_cut_is_none() {
        for end in ["KeyboardInterrupt\n", "SystemExit: 0\n", "", "step 12 loss 2.0\n", "DeprecationWarning: old\n"] {
            let text = format!("Traceback (most recent call last):\n  File \"a.py\", line 1, in <module>\n    f()\n{end}");
            assert_eq!(block(&text, 0), None, "{end}");
        }
        assert_eq!(block("Traceback (most recent call last):\nKeyError: 'x'\n", 0), None);
    }
}
