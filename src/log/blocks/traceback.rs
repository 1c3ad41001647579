//! Python tracebacks: from the header down to the exception line, with the frame of the user's own code.
//!
//! Forms: `traceback.print_exception` of Python 3.8 to 3.14 (carets, `[Previous line repeated …]`), each rank's lines put
//! together by their prefix where ranks are interleaved, the boxes that `rich` draws, the gutters of exception groups, and
//! tracebacks of another process: Ray's `ray::f() (pid=…)`, the copies that multiprocessing, `torch.multiprocessing` and
//! DataLoader workers carry over. Of an exception and its copy the inner one speaks. The native frames of crash handlers
//! are not read.

use std::rc::Rc;
use std::sync::LazyLock;

use regex::Regex;

use super::Block;
use crate::log::recent::Recent;
use crate::log::record::Record;
use crate::log::scan::Match;
use crate::text::{Lines, floor_border};

/// Lines read below a header.
const MOST_LINES: usize = 600;
/// Bytes of a line that are read.
const MOST_BYTES: usize = 2048;
/// Blank lines inside a traceback.
const MOST_BLANK: usize = 2;
/// Bytes of the exception's text that are kept.
const MOST_TEXT: usize = 160;

/// Lines around a traceback that are looked through for the other one of its exception.
const NEAR: usize = 6;
/// How Ray names a task or an actor's method in another process.
const REMOTE: &str = "ray::";

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
        boxed: Regex::new(r"^(?:│\s*)?(?P<path>\S+\.py):(?P<line>\d+) in (?P<function>\S+)").ok()?,
        exception: Regex::new(r"^(?P<class>(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*)(?:\([\w.]+\))?(?::(?:\s+(?P<text>.*))?)?$").ok()?,
    })
});

/// Reads the traceback whose header the match is. The block is the exception line; texts: `exception` (class), `text`,
/// and `frame`, the innermost frame of the user's own code.
pub fn read(m: &Match, lines: &dyn Lines, recent: &mut Recent) -> Option<Block> {
    let forms = FORMS.as_ref()?;
    let first = m.span.line;
    let header = Line::read(recent.line(lines, first), false)?;
    if header.text().contains("Exception Group Traceback") {
        // Its members have tracebacks of their own.
        return None;
    }
    let gutter = header.text().starts_with('|');
    let header = Line::read(recent.line(lines, first), gutter)?;
    let boxed = header.text().starts_with('╭');
    let mut frame: Option<Frame> = None;
    let mut found = None;
    // The header of a remote traceback stands for the frame that called it.
    let mut any = header.text().starts_with(REMOTE);
    let mut closed = !boxed;
    let mut blank = 0;
    for i in first + 1..(first + 1 + MOST_LINES).min(lines.count()) {
        let record = recent.line(lines, i);
        if !record.prefix.is_same_source(&header.record.prefix) {
            continue;
        }
        let Some(line) = Line::read(record, gutter) else { continue };
        let text = line.text();
        if text.is_empty() {
            blank += 1;
            if blank > MOST_BLANK {
                break;
            }
            continue;
        }
        if let Some(parts) = if boxed && !closed { forms.boxed.captures(text) } else { forms.frame.captures(text) } {
            any = true;
            let now = Frame::new(&parts);
            // Library frames below the last one of the user only say how deep it went.
            if now.is_own || frame.as_ref().is_none_or(|frame| !frame.is_own) {
                frame = Some(now);
            }
            continue;
        }
        if boxed && !closed {
            closed = text.starts_with('╰');
            continue;
        }
        let inside = line.indent > header.indent || text.starts_with(['^', '~']) || text.starts_with("[Previous line repeated");
        if inside && !boxed {
            continue;
        }
        let Some(exception) = exception(text, &forms.exception).filter(|_| any) else { break };
        found = Some((exception, line.body_start(), (i, line.body_end())));
        let said = found.as_ref().and_then(|(exception, ..)| exception.said.as_deref()).unwrap_or_default();
        // The frames of the other process follow, and the exception itself behind them.
        if !said.starts_with(REMOTE) {
            break;
        }
    }
    let (exception, start, end) = found?;
    if is_told_elsewhere(&exception, first, end.0, lines) {
        return None;
    }
    let mut texts = vec![("exception".to_owned(), exception.class)];
    texts.extend(exception.said.map(|said| {
        let end = floor_border(&said, MOST_TEXT);
        let cut = if end < said.len() { "…" } else { "" };
        ("text".to_owned(), format!("{}{cut}", &said[..end]))
    }));
    texts.extend(frame.filter(|frame| frame.is_own).map(|frame| ("frame".to_owned(), frame.shown)));
    Some(Block { start: Some((end.0, start)), end, texts, ..Block::default() })
}

/// What an exception line says.
struct Exception {
    class: String,
    said: Option<String>,
}

fn exception(text: &str, form: &Regex) -> Option<Exception> {
    let parts = form.captures(text)?;
    let class = &parts["class"];
    let name = class.rsplit('.').next().unwrap_or(class);
    if WANTED.contains(&name) || name.ends_with("Warning") || !names_an_exception(class, parts.name("text").is_some()) {
        return None;
    }
    let said = parts.name("text").map_or("", |text| text.as_str()).trim();
    Some(Exception { class: class.to_owned(), said: (!said.is_empty()).then(|| said.to_owned()) })
}

/// Does another traceback beside this one tell the same exception from nearer to it?
fn is_told_elsewhere(exception: &Exception, first: usize, last: usize, lines: &dyn Lines) -> bool {
    let said = exception.said.as_deref().unwrap_or_default();
    if said.starts_with("Caught ") || exception.class.ends_with("ProcessRaisedException") {
        let below = (last + 1..last + 1 + NEAR).map(|i| lines.line(i));
        let is_original = |line: &str| line.contains("Original Traceback (most") || line.contains(" terminated with the following error");
        return below.into_iter().any(|line| is_original(&line));
    }
    // Above stand the other process's traceback in quotes, its exception last, and the sentence that joins the two.
    let above: Vec<String> =
        (1..=NEAR.min(first)).map(|back| lines.line(first - back).trim().to_owned()).filter(|line| !line.is_empty()).collect();
    let [cause, quotes, original, ..] = above.as_slice() else { return false };
    let whole = if said.is_empty() { exception.class.clone() } else { format!("{}: {said}", exception.class) };
    cause.ends_with("The above exception was the direct cause of the following exception:")
        && quotes.ends_with("\"\"\"")
        && original.ends_with(&whole)
}

/// Is this the name of an exception's class? A bare word without a text must look like one.
fn names_an_exception(class: &str, has_text: bool) -> bool {
    let name = class.rsplit('.').next().unwrap_or(class);
    let usual = ["Error", "Exception", "Interrupt", "Timeout", "Exit", "Failure", "Fault", "Abort"];
    usual.iter().any(|ending| name.ends_with(ending)) || (has_text && name.starts_with(|c: char| c.is_ascii_uppercase()))
}

/// What tracebacks of one text share: where ranks are interleaved they run over the same lines.
pub fn recent() -> Recent {
    Recent::new(MOST_BYTES)
}

/// A line of a traceback.
struct Line {
    record: Rc<Record>,
    /// Bytes of the gutter that an exception group draws in front of it.
    gutter: usize,
    /// Columns of white space in front of the text.
    indent: usize,
}

impl Line {
    /// Reads a line; `None` for one outside the gutter where there should be one.
    fn read(record: Rc<Record>, gutter: bool) -> Option<Line> {
        if !gutter {
            return Some(Line { gutter: 0, indent: record.indent, record });
        }
        let rest = record.body.text.strip_prefix('|')?;
        let indent = rest.len() - rest.trim_start().len();
        Some(Line { gutter: 1 + indent, indent, record })
    }

    fn text(&self) -> &str {
        &self.record.body.text[self.gutter..]
    }

    fn body_start(&self) -> usize {
        self.record.body.raw_start(self.gutter)
    }

    fn body_end(&self) -> usize {
        self.record.body.raw_stop(self.record.body.text.len())
    }
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
    use crate::log::record::Prefix;
    use crate::text::StrLines;

    fn block(text: &str, line: usize) -> Option<Block> {
        let span = Span { line, start: 0, end_line: line, end: 0 };
        let m = Match { page: 0, line, span, length: 0, captures: Vec::new(), prefix: Prefix::default() };
        read(&m, &StrLines::new(text), &mut recent())
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
    fn members_of_a_group_speak_for_it() {
        let text = "  + Exception Group Traceback (most recent call last):\n  |   File \"/home/user/serve.py\", line 10, in main\n  |     async with asyncio.TaskGroup() as tg:\n  | ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)\n  +-+---------------- 1 ----------------\n    | Traceback (most recent call last):\n    |   File \"/home/user/x/worker.py\", line 22, in step\n    |     loss = model(batch)\n    | KeyError: 'text'\n    +------------------------------------\n";
        assert_eq!(block(text, 0), None);
        let member = block(text, 5).unwrap();
        assert_eq!((member.start, member.end), (Some((8, 6)), (8, 22)));
        assert_eq!((text_of(&member, "frame"), text_of(&member, "text")), (Some("x/worker.py:22 in step"), Some("'text'")));
    }

    #[test]
    fn the_inner_exception_of_another_process_speaks() {
        let frames = "Traceback (most recent call last):\n  File \"/home/user/driver.py\", line 5, in main\n    get()\n";
        let inner = "  File \"/home/user/x/worker.py\", line 22, in f\n    return row[\"text\"]\nKeyError: 'text'\n";
        let ray =
            block(&format!("{frames}ray.exceptions.RayTaskError(KeyError): ray::Worker.f() (pid=1, ip=10.0.0.4)\n{inner}"), 0).unwrap();
        assert_eq!((text_of(&ray, "exception"), text_of(&ray, "frame"), ray.end.0), (Some("KeyError"), Some("x/worker.py:22 in f"), 6));
        let cut = block(&format!("{frames}ray.exceptions.RayTaskError(KeyError): ray::Worker.f() (pid=1, ip=10.0.0.4)\n"), 0).unwrap();
        assert_eq!((text_of(&cut, "exception"), cut.end.0), (Some("ray.exceptions.RayTaskError"), 3));
        let alone = block(&format!("ray::Worker.f() (pid=1, ip=10.0.0.4)\n{inner}"), 0).unwrap();
        assert_eq!((text_of(&alone, "exception"), alone.end.0), (Some("KeyError"), 3));
        let original = format!("Original Traceback (most recent call last):\n{inner}");
        let text = format!("{frames}KeyError: Caught KeyError in DataLoader worker process 0.\n{original}");
        assert_eq!(block(&text, 0), None);
        assert_eq!(text_of(&block(&text, 4).unwrap(), "frame"), Some("x/worker.py:22 in f"));
        let spawned = format!(
            "{frames}torch.multiprocessing.spawn.ProcessRaisedException: \n\n-- Process 1 terminated with the following error:\nTraceback (most recent call last):\n{inner}"
        );
        assert_eq!(block(&spawned, 0), None);
        assert_eq!(text_of(&block(&spawned, 6).unwrap(), "exception"), Some("KeyError"));
        let joined = "\"\"\"\n\nThe above exception was the direct cause of the following exception:\n\n";
        let remote = format!("multiprocessing.pool.RemoteTraceback: \n\"\"\"\nTraceback (most recent call last):\n{inner}{joined}{frames}");
        assert_eq!(text_of(&block(&remote, 2).unwrap(), "frame"), Some("x/worker.py:22 in f"));
        assert_eq!(block(&format!("{remote}KeyError: 'text'\n"), 10), None);
        assert_eq!(text_of(&block(&format!("{remote}ValueError: other\n"), 10).unwrap(), "exception"), Some("ValueError"));
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
