//! `torch.cuda.memory_summary()`: the caching allocator's account of one device.
//!
//! Rows of five cells between bars (torch/cuda/memory.py, torch 1.4 to 2.15); `abbreviated=True` leaves the two pool rows
//! out. Sizes are floored to their unit: `MB` and `KB` in old releases, `MiB` and `KiB` since, both binary. Counts step at
//! 750,000 to `K`, decimal. The page's pattern finds the line with the device.

use super::Block;
use super::row::{self, Row};
use crate::log::finding::Number;
use crate::log::scan::Match;
use crate::log::units::{Unit, Value};
use crate::log::vocabulary::{Cause, Severity};
use crate::text::Lines;

/// Lines of a summary at most, the longest has 44.
const MOST_LINES: usize = 64;
/// Split blocks are fragmentation from this share of the reserve on ...
const FRAGMENTED_SHARE: f64 = 0.10;
/// ... and this many bytes.
const FRAGMENTED_BYTES: u64 = 512 << 20;
/// Failed `cudaMalloc` calls that speak of a device which is full again and again.
const MANY_RETRIES: f64 = 10.0;

/// Rows that are numbers of the finding: first cell, name of the current value, name of the peak.
const ROWS: [(&str, &str, &str); 9] = [
    ("Allocated memory", "allocated", "peak_allocated"),
    ("Active memory", "active", "peak_active"),
    ("Requested memory", "requested", "peak_requested"),
    ("GPU reserved memory", "reserved", "peak_reserved"),
    ("Non-releasable memory", "inactive_split", "peak_inactive_split"),
    ("Allocations", "blocks", ""),
    ("GPU reserved segments", "segments", ""),
    ("Non-releasable allocs", "inactive_blocks", ""),
    ("Oversize allocations", "oversize_blocks", ""),
];

/// Reads the summary around the match.
pub fn read(m: &Match, lines: &dyn Lines) -> Option<Block> {
    let first = m.span.line;
    let mut block = Block { end: (m.span.end_line, m.span.end), ..Block::default() };
    let mut topic = "";
    let mut metrics = false;
    for i in first + 1..lines.count().min(first + MOST_LINES) {
        let row = Row::read(lines, i);
        let text = row.text();
        if !text.starts_with('|') {
            break;
        }
        block.end = (i, row.end());
        if text.starts_with("|==") && metrics && !topic.is_empty() {
            break;
        }
        let cells = row.cells();
        match cells.as_slice() {
            [ooms, retries] => {
                block.numbers.extend(counter(&row, "CUDA OOMs:", "ooms", ooms.clone()));
                block.numbers.extend(counter(&row, "cudaMalloc retries:", "retries", retries.clone()));
            }
            [name, now, peak, ..] if cells.len() == 5 => {
                let name = row.get(name);
                metrics |= name == "Metric";
                if let Some((row_name, current, high)) = ROWS.iter().find(|(row_name, ..)| *row_name == name) {
                    topic = row_name;
                    block.numbers.extend(value(&row, current, now.clone()));
                    block.numbers.extend(Some(*high).filter(|high| !high.is_empty()).and_then(|high| value(&row, high, peak.clone())));
                } else if name == "from small pool" {
                    let pool = match topic {
                        "GPU reserved segments" => "small_segments",
                        "Non-releasable allocs" => "small_inactive_blocks",
                        _ => continue,
                    };
                    block.numbers.extend(value(&row, pool, now.clone()));
                } else if name != "from large pool" && name != "Metric" {
                    topic = name_of_unread(name);
                }
            }
            _ => {}
        }
    }
    judge(&mut block);
    // A heading without its table says nothing.
    block.numbers.iter().any(|number| number.name == "allocated").then_some(block)
}

/// A row that is not read still is a row.
fn name_of_unread(name: &str) -> &'static str {
    if name.is_empty() { "" } else { "other" }
}

fn counter(row: &Row, label: &str, name: &str, cell: std::ops::Range<usize>) -> Option<Number> {
    let rest = row.get(&cell).strip_prefix(label)?;
    let start = cell.end - rest.trim_start().len();
    row.number(name, start..cell.end, Unit::Count)
}

/// A size with its unit, or a count with `K` or `M` behind it.
fn value(row: &Row, name: &str, cell: std::ops::Range<usize>) -> Option<Number> {
    let text = row.get(&cell);
    if text.ends_with('B') {
        return row.number(name, cell, Unit::Binary);
    }
    let scale = match text.bytes().last()? {
        b'K' => 1000,
        b'M' => 1_000_000,
        _ => 1,
    };
    let mut number = row.number(name, cell, Unit::Count)?;
    if let Value::Int(n) = number.value {
        number.value = Value::Int(n.saturating_mul(scale));
    }
    Some(number)
}

fn judge(block: &mut Block) {
    let get = |name: &str| block.numbers.iter().find(|number| number.name == name).map(|number| number.value);
    let size = |name: &str| get(name).and_then(Value::bytes);
    let count = |name: &str| get(name).map_or(0.0, Value::as_f64);
    let (Some(allocated), Some(reserved)) = (size("allocated"), size("reserved")) else { return };
    let inactive = size("inactive_split").unwrap_or(0);
    let active = size("active").unwrap_or(allocated);
    let fragmented = inactive >= FRAGMENTED_BYTES && inactive as f64 >= FRAGMENTED_SHARE * reserved as f64;
    if fragmented {
        block.cause = Some(Cause::Fragmentation);
    }
    if count("ooms") > 0.0 || (fragmented && count("retries") >= MANY_RETRIES) {
        block.severity = Some(Severity::Warning);
    }
    let unused = reserved.saturating_sub(allocated);
    let releasable = reserved.saturating_sub(active).saturating_sub(inactive);
    block.numbers.push(row::bytes("reserved_unallocated", unused));
    block.numbers.push(row::bytes("releasable", releasable));
    block.numbers.push(row::percent("unused_share", unused, reserved));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::StrLines;

    fn summary(rows: &str) -> Option<Block> {
        let text = format!("|  PyTorch CUDA memory summary, device ID 0  |\n|---|\n{rows}\nstep 3\n");
        let lines = StrLines::new(&text);
        read(&crate::log::blocks::match_at(0, 0), &lines)
    }

    fn number(block: &Block, name: &str) -> f64 {
        block.numbers.iter().find(|n| n.name == name).unwrap_or_else(|| panic!("no {name}")).value.as_f64()
    }

    #[test]
    fn split_blocks_are_fragmentation_and_free_segments_are_not() {
        let rows = "|  CUDA OOMs: 0  |  cudaMalloc retries: 12  |\n|===|\n| Metric | Cur Usage | Peak Usage | Tot Alloc | Tot Freed |\n|---|\n\
            | Allocated memory | 10240 MiB | 12288 MiB | 1 GiB | 0 B |\n| Active memory | 10240 MiB | 12288 MiB | 1 GiB | 0 B |\n\
            | GPU reserved memory | 14336 MiB | 14336 MiB | 1 GiB | 0 B |\n| Non-releasable memory | 3072 MiB | 4096 MiB | 1 GiB | 0 B |\n\
            | GPU reserved segments | 812 K | 900 | 1 | 1 |\n|       from small pool | 41 | 50 | 1 | 1 |\n|===|";
        let block = summary(rows).unwrap();
        assert_eq!((block.cause, block.severity), (Some(Cause::Fragmentation), Some(Severity::Warning)));
        assert_eq!(number(&block, "reserved_unallocated"), 4096.0 * 1048576.0);
        assert_eq!(number(&block, "releasable"), 1024.0 * 1048576.0);
        assert_eq!((number(&block, "segments"), number(&block, "small_segments")), (812_000.0, 41.0));
        assert_eq!(block.end, (12, 5));
        let quiet = summary(&rows.replace("3072 MiB", "64 MiB")).unwrap();
        assert_eq!((quiet.cause, quiet.severity), (None, None));
        assert!(summary("step 2").is_none());
    }

    #[test]
    fn a_cut_table_keeps_what_it_has() {
        let block = summary("|===|\n| Metric | Cur Usage | Peak Usage | Tot Alloc | Tot Freed |\n|---|\n| Allocated memory | 14935 MB | 15377 MB | 995 GB | 980 GB |").unwrap();
        assert_eq!(number(&block, "allocated"), 14935.0 * 1048576.0);
        assert_eq!(block.severity, None);
    }
}
