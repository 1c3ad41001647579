//! The Python stack that `faulthandler` prints below a fatal signal: the frame of the user's own code.
//!
//! Form (Python/traceback.c and Modules/faulthandler.c of 3.8 to 3.14): `Current thread 0x… (most recent call first):`,
//! then frames with the innermost one on top. Stacks of other threads are passed over.

use std::sync::LazyLock;

use regex::Regex;

use super::Block;
use super::traceback::Frame;
use crate::log::record;
use crate::log::scan::Match;
use crate::text::{Lines, clean, floor_border};

/// Lines read below the signal for the stack of the thread that got it.
const MOST_LINES: usize = 400;
/// Bytes of a line that are read.
const MOST_BYTES: usize = 2048;

static FRAME: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r#"^File "(?P<path>[^"]+)", line (?P<line>\d+) in (?P<function>.+)$"#).ok());

/// Reads the stack below a match. Text: `frame`. A signal without a stack stands for itself.
pub fn read(m: &Match, lines: &dyn Lines) -> Option<Block> {
    let frame = own_frame(m.span.end_line + 1, lines).map(|frame| ("frame".to_owned(), frame));
    Some(Block { end: (m.span.end_line, m.span.end), texts: frame.into_iter().collect(), ..Block::default() })
}

fn own_frame(first: usize, lines: &dyn Lines) -> Option<String> {
    let form = FRAME.as_ref()?;
    let mut inside = false;
    let mut blank = true;
    for i in first..lines.count().min(first + MOST_LINES) {
        let raw = lines.line(i);
        let Some(segment) = clean::segments(&raw[..floor_border(&raw, MOST_BYTES)], 0).pop() else { continue };
        let text = record::read(segment).body.text;
        if text.starts_with("Current thread ") {
            inside = true;
        } else if let Some(found) = form.captures(&text) {
            let frame = Frame::new(&found);
            if inside && frame.is_own {
                return Some(frame.shown);
            }
        } else if inside || !(text.is_empty() && blank || text.starts_with("Thread ") || text.starts_with("Python runtime state")) {
            // The stack ends, or what follows is none.
            return None;
        }
        blank = text.is_empty() || form.is_match(&text);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::blocks::match_at;
    use crate::text::StrLines;

    fn frame(below: &str) -> Option<String> {
        let text = format!("Fatal Python error: Segmentation fault\n{below}");
        let block = read(&match_at(0, 38), &StrLines::new(&text)).unwrap();
        assert_eq!(block.end, (0, 38));
        block.texts.into_iter().find(|(name, _)| name == "frame").map(|(_, frame)| frame)
    }

    #[test]
    fn the_users_frame_of_the_thread_that_failed() {
        let library = "  File \"/opt/venv/lib/python3.11/site-packages/x/y.py\", line 90 in forward\n";
        let own = "  File \"/home/user/x/train.py\", line 12 in step\n  File \"/home/user/x/train.py\", line 40 in <module>\n";
        let other = "Thread 0x00007f0000000001 (most recent call first):\n  File \"/home/user/x/load.py\", line 7 in run\n";
        let current = "Current thread 0x00007f0000000000 (most recent call first):\n";
        assert_eq!(frame(&format!("\n{current}{library}{own}")).as_deref(), Some("x/train.py:12 in step"));
        assert_eq!(frame(&format!("\n{other}\n{current}{library}{own}")).as_deref(), Some("x/train.py:12 in step"));
        assert_eq!(frame(&format!("\n{current}{library}")), None);
        assert_eq!(frame(&format!("{current}  <no Python frame>\nstep 12 loss 2.0\n{own}")), None);
        assert_eq!(frame(&format!("step 12 loss 2.0\n{current}{own}")), None);
    }
}
