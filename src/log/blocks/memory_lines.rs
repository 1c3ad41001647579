//! Lines that print what PyTorch's allocator holds: DeepSpeed's `see_memory_usage`, Megatron's memory line, plain prints.
//!
//! Every printer's GB and MB are binary here (they divide by 1024). DeepSpeed prints three lines: a label, `MA Max_MA CA
//! Max_CA`, host memory. A series is what one call site of one rank prints again and again: the text around the numbers
//! without its digits.
//! Limits: DeepSpeed's `Max_CA` is rounded to whole GB, and its peaks start anew at each line.

use std::sync::LazyLock;

use regex::Regex;

use super::Block;
use super::row::{self, Row};
use crate::log::finding::Number;
use crate::log::rules::page::ascii;
use crate::log::scan::Match;
use crate::log::units::{self, Unit};
use crate::log::verdict::memory_series;
use crate::log::vocabulary::Cause;
use crate::text::Lines;

/// Samples of a series.
const MOST_SAMPLES: usize = 4_000;
/// Two lines of a series stand at most so many lines apart ...
const MOST_GAP: usize = 4_000;
/// ... and so many lines of other series.
const MOST_BETWEEN: usize = 64;
/// The reserve's peak above the tensors' peak is fragmentation from this share on ...
const SLACK_SHARE: f64 = 0.20;
/// ... and this many bytes.
const SLACK_BYTES: u64 = 2 << 30;

/// A dialect: words that every line of it holds, and its numbers.
struct Dialect {
    mark: &'static str,
    form: Regex,
    unit: Unit,
}

static DIALECTS: LazyLock<Option<Vec<Dialect>>> = LazyLock::new(|| {
    let dialect = |mark, form: &str, unit| Some(Dialect { mark, form: Regex::new(&ascii(form, true)).ok()?, unit });
    Some(vec![
        dialect(
            "Max_MA ",
            r"\bMA (?P<allocated>[\d.]+ [GM]B)[\s|]+Max_MA [\d.]+ [GM]B[\s|]+CA (?P<reserved>[\d.]+ [GM]B)[\s|]+Max_CA",
            Unit::Binary,
        )?,
        dialect(
            "memory (MB) |",
            r"memory \(MB\) \| allocated: (?P<allocated>[\d.]+) \| max allocated: [\d.]+ \| reserved: (?P<reserved>[\d.]+)",
            Unit::BinaryMb,
        )?,
        dialect(
            "eserved",
            r"(?:^|[^_a-z])[Aa]llocated ?[:=]? ?(?P<allocated>[\d.,]+ ?[KMG]i?B)\b.{1,40}?[Rr]eserved ?[:=]? ?(?P<reserved>[\d.,]+ ?[KMG]i?B)\b",
            Unit::Binary,
        )?,
        dialect(
            "eserved",
            r"\b(?P<allocated>[\d.,]+ ?[KMG]i?B) allocated\b.{1,40}?\b(?P<reserved>[\d.,]+ ?[KMG]i?B) reserved\b",
            Unit::Binary,
        )?,
    ])
});

/// One line of a series.
struct Sample {
    allocated: Number,
    reserved: Number,
    /// What tells this series from others.
    key: String,
}

/// A line of DeepSpeed or Megatron with what stands around it.
pub fn read_line(m: &Match, lines: &dyn Lines) -> Option<Block> {
    let mut block = Block { end: (m.span.end_line, m.span.end), ..Block::default() };
    let size = |name: &str| {
        let capture = m.captures.iter().find(|capture| capture.name == name)?;
        let unit = if capture.text.ends_with('B') { Unit::Binary } else { Unit::BinaryMb };
        units::read(&capture.text, Some(unit))?.0.bytes()
    };
    if let (Some(allocated), Some(reserved)) = (size("allocated"), size("reserved")) {
        block.numbers.push(row::bytes("reserved_unallocated", reserved.saturating_sub(allocated)));
    }
    if let (Some(allocated), Some(reserved)) = (size("peak_allocated"), size("peak_reserved")) {
        let slack = reserved.saturating_sub(allocated);
        block.numbers.push(row::bytes("peak_slack", slack));
        // DeepSpeed rounds one of the two to whole GB, so a small slack may be none.
        if slack >= SLACK_BYTES && slack as f64 >= SLACK_SHARE * reserved as f64 {
            block.cause = Some(Cause::Fragmentation);
        }
    }
    let below = Row::read(lines, m.span.end_line + 1);
    if let Some(rest) = below.text().strip_prefix("CPU Virtual Memory:") {
        let start = below.text().len() - rest.len();
        if let Some(at) = rest.find("used = ").map(|at| start + at + "used = ".len()) {
            let end = below.text()[at..].find(',').map_or(at, |comma| at + comma);
            block.numbers.extend(below.number("host_used", at..end, Unit::Binary));
        }
        if let Some(at) = rest.find("percent = ").map(|at| start + at + "percent = ".len()) {
            let end = below.text()[at..].find('%').map_or(at, |sign| at + sign);
            block.numbers.extend(below.number("host_percent", at..end, Unit::Percent));
        }
    }
    Some(block)
}

/// A print of allocated and reserved memory; of a series only its first line, because the others say the same.
pub fn read_print(m: &Match, lines: &dyn Lines) -> Option<Block> {
    let sample = sample(m.span.line, lines)?;
    if has_turn_above(&sample.key, m.span.line, lines) {
        return None;
    }
    let mut block = Block { end: (m.span.end_line, m.span.end), ..Block::default() };
    let (allocated, reserved) = (sample.allocated.value.bytes()?, sample.reserved.value.bytes()?);
    block.numbers = vec![sample.allocated, sample.reserved];
    block.numbers.push(row::bytes("reserved_unallocated", reserved.saturating_sub(allocated)));
    Some(block)
}

/// A print of one size; of prints with the same words close together only the first.
pub fn read_peak(m: &Match, lines: &dyn Lines) -> Option<Block> {
    let line = lines.line(m.span.line);
    let words = line.get(m.span.start..).unwrap_or("").split(|c: char| c.is_ascii_digit()).next().unwrap_or("");
    let again = (m.span.line.saturating_sub(MOST_BETWEEN)..m.span.line).any(|i| lines.line(i).contains(words));
    (!again).then(|| Block { end: (m.span.end_line, m.span.end), ..Block::default() })
}

/// The series that begins at the match: tensors that only grow, or a reserve that grows over level tensors.
pub fn read_series(m: &Match, lines: &dyn Lines) -> Option<Block> {
    let first = sample(m.span.line, lines)?;
    if has_turn_above(&first.key, m.span.line, lines) {
        return None;
    }
    let (mut allocated, mut reserved) = (Vec::new(), Vec::new());
    let (mut last, mut between) = (m.span.line, 0);
    for i in m.span.line..lines.count() {
        if i > last + MOST_GAP || between > MOST_BETWEEN || allocated.len() >= MOST_SAMPLES {
            break;
        }
        let Some(sample) = sample(i, lines) else { continue };
        if sample.key != first.key {
            between += 1;
            continue;
        }
        (last, between) = (i, 0);
        allocated.push(sample.allocated.value.as_f64());
        reserved.push(sample.reserved.value.as_f64());
    }
    let mut block = Block { end: (m.span.end_line, m.span.end), ..Block::default() };
    if memory_series::add_growth(&allocated, None, &mut block.numbers).is_some() {
        block.cause = Some(Cause::MemoryGrowth);
    } else {
        let rise = memory_series::fragmenting(&allocated, &reserved)?;
        block.cause = Some(Cause::Fragmentation);
        block.numbers.push(row::bytes("reserved_rise", rise as u64));
        block.numbers.extend(allocated.last().map(|bytes| row::bytes("allocated", *bytes as u64)));
    }
    block.numbers.extend(reserved.last().map(|bytes| row::bytes("reserved", *bytes as u64)));
    block.numbers.push(row::count("samples", allocated.len() as u64));
    Some(block)
}

/// Does a line of the same series stand above?
fn has_turn_above(key: &str, line: usize, lines: &dyn Lines) -> bool {
    let above = (line.saturating_sub(MOST_GAP)..line).rev().filter_map(|i| sample(i, lines)).take(MOST_BETWEEN);
    above.into_iter().any(|sample| sample.key == key)
}

/// Reads a line of any dialect.
fn sample(i: usize, lines: &dyn Lines) -> Option<Sample> {
    let dialects = DIALECTS.as_ref()?;
    let raw = lines.line(i);
    if !dialects.iter().any(|dialect| raw.contains(dialect.mark)) {
        return None;
    }
    let row = Row::read(lines, i);
    let (nth, dialect, found) =
        dialects.iter().enumerate().find_map(|(nth, dialect)| Some((nth, dialect, dialect.form.captures(row.text())?)))?;
    let number = |name: &str| row.number(name, found.name(name)?.range(), dialect.unit);
    let (allocated, reserved) = (number("allocated")?, number("reserved")?);
    let start = found.get(0)?.start();
    let words = match dialect.mark {
        "Max_MA " => i.checked_sub(1).map(|above| Row::read(lines, above).text().to_owned()).unwrap_or_default(),
        // `[Rank 3] (after 5 iterations)`: the rank stays, the count goes.
        "memory (MB) |" => row.text()[..start].split('(').next().unwrap_or("").to_owned(),
        _ => without_digits(&row.text()[..start]),
    };
    let words = if dialect.mark == "Max_MA " { without_digits(&words) } else { words };
    Some(Sample { allocated, reserved, key: format!("{nth} {:?} {words}", row.rank()) })
}

fn without_digits(text: &str) -> String {
    text.chars().filter(|c| !c.is_ascii_digit() && *c != '.').collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::StrLines;

    fn series(line: impl Fn(usize) -> String) -> Option<Block> {
        let text: String = (0..24).map(|i| line(i) + "\n").collect();
        let at = usize::from(text.starts_with("after"));
        read_series(&crate::log::blocks::match_at(at, 10), &StrLines::new(&text))
    }

    #[test]
    fn call_sites_are_series_of_their_own() {
        let usage = |allocated: f64, reserved: f64| {
            format!(
                "MA {allocated:.2} GB         Max_MA 30.1 GB         CA {reserved:.2} GB         Max_CA 40 GB \nCPU Virtual Memory:  used = 121.22 GB, percent = 24.1%"
            )
        };
        let sites = |i: usize| {
            format!("after forward {i}\n{}\nafter step {i}\n{}", usage(20.0, 24.0 + 0.6 * i as f64), usage(12.0, 24.0 + 0.6 * i as f64))
        };
        assert_eq!(series(sites).unwrap().cause, Some(Cause::Fragmentation));
        let leak = |i: usize| format!("after forward {i}\n{}", usage(20.0 + 0.3 * i as f64, 24.0 + 0.6 * i as f64));
        let block = series(leak).unwrap();
        assert_eq!((block.cause, block.numbers.last().unwrap().text.as_str()), (Some(Cause::MemoryGrowth), "24"));
        assert!(series(|i| format!("after forward {i}\n{}", usage(20.0, 24.0))).is_none());
    }

    #[test]
    fn ranks_are_series_of_their_own() {
        let line = |i: usize| {
            format!(
                " [Rank {}] (after {i} iterations) memory (MB) | allocated: {}.5 | max allocated: 30000.0 | reserved: 32000.0 | max reserved: 32000.0",
                i % 2,
                20000 + 500 * (i / 2) * (i % 2)
            )
        };
        assert!(series(line).is_none());
        assert!(series(|i| line(2 * i + 1)).is_some());
    }
}
