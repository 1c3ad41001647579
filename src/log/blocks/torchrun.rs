//! torchrun's failure summary: which worker failed first, as its agent saw it.
//!
//! Two layouts (torch/distributed/elastic/multiprocessing/errors): since 1.10 `Failures:` stand first and `Root Cause (first
//! observed failure):` last; 1.9 begins with `Root Cause:`. An entry is `[0]:` and rows `rank      : 3 (local_rank: 3)`.
//! Since 2.12 the exit code carries the signal's name. The agent knows the workers of its own node alone, and its clock has
//! a resolution of one second.

use std::sync::LazyLock;

use regex::Regex;

use super::Block;
use super::row::{self, Row};
use crate::log::scan::Match;
use crate::log::units::Unit;
use crate::text::Lines;

/// Lines of a summary at most: each failure brings its traceback.
const MOST_LINES: usize = 2000;
/// Lines between the match and the first heading.
const MOST_HEAD: usize = 12;
/// Characters of an exception that a message shows.
const MOST_TEXT: usize = 160;

/// Where the rows of a summary begin.
static BEGINNINGS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let headings = r"Root Cause(?: \(first observed failure\))?:|(?:Other )?Failures:|<NO_OTHER_FAILURES>|\[\d+\]:";
    Regex::new(&format!(r"{headings}|(?-u:\b)(?:time|host|rank|exitcode|error_file|traceback|msg)\s*: |={{8,}}|-{{8,}}|\*{{8,}}")).ok()
});

/// Reads the summary below the match. Without one the match stands for itself.
pub fn read(m: &Match, lines: &dyn Lines) -> Option<Block> {
    let mut block = Block { end: (m.span.end_line, m.span.end), ..Block::default() };
    let (mut in_root, mut in_others, mut failures) = (false, false, 0u64);
    let mut trace = false;
    let mut exception = None;
    let last = lines.count().min(m.span.line + MOST_LINES);
    let mut rows = in_one_line(lines, m.span.line).into_iter().chain((m.span.line + 1..last).map(|i| Row::read(lines, i))).peekable();
    while let Some(row) = rows.next() {
        let (i, text) = (row.line, row.text());
        let headless = !in_root && !in_others && i > m.span.line + MOST_HEAD;
        if headless || text.contains("ChildFailedError:") {
            break;
        }
        match text {
            "Root Cause (first observed failure):" | "Root Cause:" => {
                (in_root, in_others, trace) = (true, false, false);
                continue;
            }
            "Failures:" | "Other Failures:" => {
                (in_root, in_others, trace) = (false, true, false);
                continue;
            }
            "<NO_OTHER_FAILURES>" => continue,
            _ => {}
        }
        if is_rule(text) {
            // The rule behind the last entry ends the block.
            if has(&block, "rank") && (in_root || in_others) && !rows.peek().is_some_and(goes_on) {
                block.end = (i, row.end());
                break;
            }
            continue;
        }
        if in_others && text.starts_with('[') && text.ends_with("]:") {
            failures += 1;
        }
        if !in_root {
            continue;
        }
        block.end = (i, row.end());
        if trace && !text.is_empty() && is_exception(text) {
            exception = Some(text.to_owned());
        }
        let Some((key, value)) = row.field().filter(|_| !trace) else { continue };
        let first = row.first_word(&value);
        match key {
            "time" => block.texts.push(("time".to_owned(), row.get(&value).to_owned())),
            "host" => block.texts.push(("host".to_owned(), row.get(&value).to_owned())),
            "rank" => {
                block.numbers.extend(row.number("rank", first, Unit::Index));
                block.numbers.extend(inner(&row, "local_rank: ").and_then(|range| row.number("local_rank", range, Unit::Index)));
            }
            "exitcode" => {
                let code = row.number("exitcode", first, Unit::Count);
                let signal = code.as_ref().and_then(|number| signal_name(number.value.as_f64()));
                // An abort or a request to end is what the others' victims get.
                let key = |name| if matches!(name, "SIGABRT" | "SIGTERM") { "victim_signal" } else { "signal_name" };
                block.texts.extend(signal.map(|name| (key(name).to_owned(), name.to_owned())));
                let signal = code.as_ref().map(|number| -number.value.as_f64()).filter(|signal| (1.0..65.0).contains(signal));
                block.numbers.extend(signal.map(|signal| row::count("signal", signal as u64)));
                block.numbers.extend(code);
                block.numbers.extend(inner(&row, "pid: ").and_then(|range| row.number("pid", range, Unit::Count)));
            }
            "error_file" if row.get(&value) != "<N/A>" => block.texts.push(("error_file".to_owned(), row.get(&value).to_owned())),
            "traceback" | "msg" => {
                trace = true;
                exception = Some(row.get(&value).trim_matches('"').to_owned()).filter(|text| is_exception(text));
            }
            _ => {}
        }
    }
    block.numbers.extend((failures > 0).then(|| row::count("other_failures", failures)));
    block.texts.extend(exception.map(|text| ("exception".to_owned(), text.chars().take(MOST_TEXT).collect())));
    Some(block)
}

fn has(block: &Block, name: &str) -> bool {
    block.numbers.iter().any(|number| number.name == name)
}

/// A line of `=`, `-` or `*`.
fn is_rule(text: &str) -> bool {
    text.len() >= 8 && ["=", "-", "*"].iter().any(|mark| text.chars().all(|c| mark.starts_with(c)))
}

/// The rows of a summary that stands in one line with the match: copied without its line breaks, or in a JSON record.
fn in_one_line(lines: &dyn Lines, line: usize) -> Vec<Row> {
    let is_heading = |row: &Row| row.text().contains("ChildFailedError:");
    let inner = Row::inner(lines, line);
    if inner.len() > 1 {
        return inner.into_iter().skip_while(|row| !is_heading(row)).skip(1).collect();
    }
    let row = inner.into_iter().next().unwrap_or_else(|| Row::read(lines, line));
    let is_whole = row.text().contains("Root Cause") && row.text().contains("exitcode");
    BEGINNINGS.as_ref().filter(|_| is_whole).map_or_else(Vec::new, |beginnings| row.pieces(beginnings))
}

/// The rules between entries are followed by a heading, and a traceback may print rules of its own.
fn goes_on(next: &Row) -> bool {
    ["Root Cause", "Failures:", "Other Failures:"].iter().any(|heading| next.text().starts_with(heading))
}

/// The last line of a traceback: a class and what it says.
fn is_exception(text: &str) -> bool {
    let class = text.split(':').next().unwrap_or("");
    let named = class.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_'));
    named && ["Error", "Exception", "Interrupt", "Exit", "Iteration"].iter().any(|end| class.ends_with(end))
}

/// The digits behind a label.
fn inner(row: &Row, label: &str) -> Option<std::ops::Range<usize>> {
    let start = row.text().find(label)? + label.len();
    let digits = row.text()[start..].bytes().take_while(u8::is_ascii_digit).count();
    (digits > 0).then_some(start..start + digits)
}

/// The signal that an exit code below zero stands for.
fn signal_name(code: f64) -> Option<&'static str> {
    Some(match code as i64 {
        -1 => "SIGHUP",
        -2 => "SIGINT",
        -4 => "SIGILL",
        -6 => "SIGABRT",
        -7 => "SIGBUS",
        -8 => "SIGFPE",
        -9 => "SIGKILL",
        -11 => "SIGSEGV",
        -15 => "SIGTERM",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::StrLines;

    fn text<'b>(block: &'b Block, name: &str) -> Option<&'b str> {
        block.texts.iter().find(|(n, _)| n == name).map(|(_, text)| text.as_str())
    }

    fn number(block: &Block, name: &str) -> Option<f64> {
        block.numbers.iter().find(|n| n.name == name).map(|n| n.value.as_f64())
    }

    #[test]
    fn the_first_observed_failure_is_data() {
        let lines = StrLines::new(
            "ChildFailedError:\n==========\ntrain.py FAILED\n----------\nFailures:\n[1]:\n  time      : 2025-11-29_10:12:01\n  rank      : 5 (local_rank: 1)\n  exitcode  : -15 (pid: 12)\n----------\nRoot Cause (first observed failure):\n[0]:\n  time      : 2025-11-29_10:12:00\n  host      : node01\n  rank      : 4 (local_rank: 0)\n  exitcode  : -9  (pid: 11)  (SIGKILL)\n  error_file: <N/A>\n  traceback : Signal 9 (SIGKILL) received by PID 11\n==========\nnext\n",
        );
        let block = read(&crate::log::blocks::match_at(0, 17), &lines).unwrap();
        assert_eq!((number(&block, "rank"), number(&block, "exitcode"), number(&block, "pid")), (Some(4.0), Some(-9.0), Some(11.0)));
        assert_eq!((text(&block, "host"), text(&block, "signal_name")), (Some("node01"), Some("SIGKILL")));
        assert_eq!((number(&block, "other_failures"), text(&block, "exception"), block.end), (Some(1.0), None, (18, 10)));
    }

    #[test]
    fn a_summary_in_one_line_is_read() {
        let line = "errors.ChildFailedError: ============ train.py FAILED ------------ Failures: [1]: time : 2024-11-29_10:12:01 host : node01 rank : 5 (local_rank: 1) exitcode : -15 (pid: 12) error_file: <N/A> traceback : Signal 15 (SIGTERM) received by PID 12 ------------ Root Cause (first observed failure): [0]: time : 2024-11-29_10:12:00 host : node01 rank : 4 (local_rank: 0) exitcode : -9 (pid: 11) error_file: <N/A> traceback : Signal 9 (SIGKILL) received by PID 11 ============\n";
        let block = read(&crate::log::blocks::match_at(0, 24), &StrLines::new(line)).unwrap();
        assert_eq!((number(&block, "rank"), number(&block, "exitcode"), number(&block, "pid")), (Some(4.0), Some(-9.0), Some(11.0)));
        assert_eq!(
            (text(&block, "host"), text(&block, "time"), number(&block, "other_failures")),
            (Some("node01"), Some("2024-11-29_10:12:00"), Some(1.0))
        );
        assert_eq!(block.end, (0, line.trim_end().len()));
    }

    #[test]
    fn a_summary_in_a_record_is_read() {
        let line = r#"{"level":"error","message":"errors.ChildFailedError: \n============\nRoot Cause (first observed failure):\n[0]:\n  time      : 2024-11-29_10:12:00\n  host      : node01\n  rank      : 3 (local_rank: 3)\n  exitcode  : 1 (pid: 12345)\n============"}"#;
        let block = read(&crate::log::blocks::match_at(0, 50), &StrLines::new(line)).unwrap();
        assert_eq!((number(&block, "rank"), number(&block, "exitcode"), text(&block, "host")), (Some(3.0), Some(1.0), Some("node01")));
        assert!(block.end.1 <= line.len());
    }

    #[test]
    fn a_recorded_traceback_gives_its_exception() {
        let lines = StrLines::new(
            "x\n==========\nRoot Cause:\n[0]:\n  time: 2021-09-01_10:00:00\n  rank: 0 (local_rank: 0)\n  exitcode: 1 (pid: 7)\n  error_file: /tmp/e/error.json\n  msg: Traceback (most recent call last):\n    File \"train.py\", line 3, in main\n    ValueError: bad batch\n\n==========\nOther Failures:\n  <NO_OTHER_FAILURES>\n**********\n",
        );
        let block = read(&crate::log::blocks::match_at(0, 1), &lines).unwrap();
        assert_eq!((text(&block, "exception"), text(&block, "error_file")), (Some("ValueError: bad batch"), Some("/tmp/e/error.json")));
    }
}
