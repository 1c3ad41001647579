//! When: the time stamps and steps in the lines around an event.

use std::sync::LazyLock;

use regex::Regex;

use crate::log::{progress, record};
use crate::text::{Lines, clean, floor_border};

/// Lines above an event that are searched for a step line.
const STEP_LINES: usize = 2000;
/// Lines around an event that are searched for a time stamp.
const TIME_LINES: usize = 200;
/// Bytes of a line that are read for its prefix.
const PREFIX_BYTES: usize = 1024;

/// The step of a line itself, or of the nearest one above, with its line.
pub(super) fn step_at(lines: &dyn Lines, line: usize) -> Option<(u64, usize)> {
    (line.saturating_sub(STEP_LINES)..=line).rev().find_map(|i| Some((progress::of_line(lines, i)?.step?, i)))
}

/// The epoch that a step line reports in place of a step, as printed: of the line itself, or of the nearest one above.
pub(super) fn epoch_at(lines: &dyn Lines, line: usize) -> Option<(String, usize)> {
    static EPOCH: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r#"(?i)\bepoch['"]?\s*[:=]\s*['"]?(\d+(?:\.\d+)?)"#).ok());
    let form = EPOCH.as_ref()?;
    (line.saturating_sub(STEP_LINES)..=line).rev().find_map(|i| {
        progress::of_line(lines, i)?;
        let raw = lines.line(i);
        let head = &raw[..floor_border(&raw, PREFIX_BYTES)];
        Some((form.captures(head)?.get(1)?.as_str().to_owned(), i))
    })
}

/// The time stamp of the nearest line above that has one.
pub(super) fn time_above(lines: &dyn Lines, line: usize) -> Option<String> {
    (line.saturating_sub(TIME_LINES)..line).rev().find_map(|i| time_of(lines, i))
}

/// The first time stamp below, and its line.
pub(super) fn time_below(lines: &dyn Lines, line: usize) -> Option<(String, usize)> {
    (line + 1..(line + TIME_LINES).min(lines.count())).find_map(|i| Some((time_of(lines, i)?, i)))
}

fn time_of(lines: &dyn Lines, i: usize) -> Option<String> {
    let raw = lines.line(i);
    let head = &raw[..floor_border(&raw, PREFIX_BYTES)];
    clean::segments(head, 0).into_iter().rev().find_map(|segment| record::read(segment).prefix.time)
}

/// A stamp for reading: glog writes month and day as one number (`1129 10:41:12.100000`), c10 without a leading zero.
pub(super) fn readable(time: &str) -> String {
    let digits = time.bytes().take_while(u8::is_ascii_digit).count();
    let month = match digits {
        4 => 2,
        3 => 1,
        _ => return time.to_owned(),
    };
    match time[digits..].starts_with(' ') {
        true => format!("{:0>2}-{}", &time[..month], &time[month..]),
        false => time.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_are_readable() {
        assert_eq!(readable("1129 10:41:12.100000"), "11-29 10:41:12.100000");
        assert_eq!(readable("103 10:41:12.1"), "01-03 10:41:12.1");
        for same in ["2026-11-29T02:11:09", "11-29 09:12:51", "Nov 29 03:14:07", "10:41:12"] {
            assert_eq!(readable(same), same);
        }
    }
}
