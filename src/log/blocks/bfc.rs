//! The memory dump of TensorFlow's BFC allocator: is the share of the card full, in pieces, or did the driver refuse?
//!
//! `Bin`, `Free at`, `InUse at` lines (one a chunk, thousands of them), then `Sum Total of in-use chunks`, the size of the
//! pool (since 2.0), and `Stats:` with bare byte counts that carry no prefix. Up to 1.x the message stands behind the dump,
//! since 2.x in front of it. Format: tensorflow/core/common_runtime/bfc_allocator.cc.

use super::Block;
use super::row::{self, Row};
use crate::log::finding::Number;
use crate::log::scan::Match;
use crate::log::units::{self, Unit};
use crate::log::vocabulary::Cause;
use crate::text::Lines;

/// Lines of a dump that are looked through.
const MOST_LINES: usize = 20_000;
/// Lines between the message and the begin or end of its dump.
const NEAR: usize = 16;
/// Lines behind the sum in which the statistics stand.
const MOST_STATS: usize = 14;

const SUM: &str = "Sum Total of in-use chunks: ";

/// Where XLA has its copy of the allocator, outside of TensorFlow: JAX and PyTorch/XLA.
const XLA: [&str; 3] = ["external/xla/xla/", "external/tsl/tsl/", "external/org_tensorflow/tensorflow/"];

/// Did XLA print a message, and not TensorFlow?
pub fn is_xla(m: &Match, lines: &dyn Lines) -> bool {
    let line = lines.line(m.span.line);
    XLA.iter().any(|path| line.contains(path))
}

/// An out-of-memory message of XLA.
pub fn read_xla(m: &Match, _: &dyn Lines) -> Option<Block> {
    Some(Block { end: (m.span.end_line, m.span.end), ..Block::default() })
}

/// An out-of-memory message, with the numbers of its dump where there is one.
pub fn read_message(m: &Match, lines: &dyn Lines) -> Option<Block> {
    let mut block = Block { end: (m.span.end_line, m.span.end), ..Block::default() };
    if let Some(sum) = sum_above(m.span.line, lines).or_else(|| sum_below(m.span.end_line, lines)) {
        let captured = m.captures.iter().find(|capture| capture.name == "tried");
        let tried = captured.and_then(|capture| units::read(&capture.text, Some(Unit::Size))).and_then(|(value, _)| value.bytes());
        add_numbers(sum, tried, lines, &mut block);
    }
    Some(block)
}

/// The dump itself. The match is the line with the sum.
pub fn read_dump(m: &Match, lines: &dyn Lines) -> Option<Block> {
    let mut block = Block { end: (m.span.end_line, m.span.end), ..Block::default() };
    let tried = tried_around(m.span.line, lines);
    block.numbers.extend(tried.clone());
    let end = add_numbers(m.span.line, tried.and_then(|number| number.value.bytes()), lines, &mut block);
    block.end = end.unwrap_or(block.end);
    block.numbers.iter().any(|number| number.name == "limit").then_some(block)
}

/// Old releases print the message behind the dump.
fn sum_above(line: usize, lines: &dyn Lines) -> Option<usize> {
    (line.saturating_sub(NEAR)..line).rev().find(|&i| lines.line(i).contains(SUM))
}

/// New releases print it in front: the dump must begin soon, and end before the next message.
fn sum_below(line: usize, lines: &dyn Lines) -> Option<usize> {
    let begins =
        |i: usize| ["Current allocation summary follows", "BFCAllocator dump for", "Bin ("].iter().any(|t| lines.line(i).contains(t));
    let begin = (line + 1..lines.count().min(line + NEAR)).find(|&i| begins(i))?;
    for i in begin..lines.count().min(begin + MOST_LINES) {
        let text = lines.line(i);
        if text.contains(SUM) {
            return Some(i);
        }
        if text.contains("an out of memory trying to allocate") {
            return None;
        }
    }
    None
}

/// The request that the dump belongs to: behind it (old), or in front of it.
fn tried_around(sum: usize, lines: &dyn Lines) -> Option<Number> {
    let read = |i: usize| -> Option<Number> {
        let row = Row::read(lines, i);
        let start = row.text().find("an out of memory trying to allocate ")? + "an out of memory trying to allocate ".len();
        let end = start + row.text()[start..].find("B").map(|at| at + 1)?;
        row.number("tried", start..end, Unit::Size)
    };
    let behind = (sum..lines.count().min(sum + NEAR)).find_map(read);
    behind.or_else(|| (sum.saturating_sub(MOST_LINES)..sum).rev().take_while(|&i| !lines.line(i).contains(SUM)).find_map(read))
}

/// Adds what the dump around the line with the sum says; gives back where it ends.
fn add_numbers(sum: usize, tried: Option<u64>, lines: &dyn Lines, block: &mut Block) -> Option<(usize, usize)> {
    let mut end = None;
    let mut found: Vec<Number> = Vec::new();
    for i in sum + 1..lines.count().min(sum + MOST_STATS) {
        let row = Row::read(lines, i);
        for (label, name) in
            [("Total bytes in pool: ", "pool"), ("total_region_allocated_bytes_: ", "pool"), ("available bytes: ", "available")]
        {
            if let Some(at) = row.text().find(label).map(|at| at + label.len()) {
                let digits = row.text()[at..].bytes().take_while(u8::is_ascii_digit).count();
                found.extend(row.number(name, at..at + digits, Unit::Bytes));
            }
        }
        let Some((key, value)) = row.field() else { continue };
        let name = match key {
            "Limit" => "limit",
            "InUse" => "used",
            "MaxInUse" => "peak_used",
            "MaxAllocSize" => "largest_allocation",
            _ => continue,
        };
        found.extend(row.number(name, value, Unit::Bytes));
        end = Some((i, row.end()));
    }
    found.dedup_by(|later, earlier| later.name == earlier.name);
    let get = |name: &str| found.iter().find(|number| number.name == name).and_then(|number| number.value.bytes());
    let (limit, used) = (get("limit")?, get("used")?);
    let free = limit.saturating_sub(used);
    let chunks = free_chunks(sum, lines);
    let available = get("available");
    block.cause = tried.map(|tried| cause(tried, free, available, chunks));
    block.numbers.extend(found);
    block.numbers.push(row::bytes("free", free));
    if let Some((count, total, largest)) = chunks {
        block.numbers.push(row::count("free_chunks", count));
        block.numbers.push(row::bytes("free_in_chunks", total));
        block.numbers.push(row::bytes("largest_free", largest));
    }
    end
}

/// Number, sum and size of the largest of the free chunks above the sum; `None` when the dump lists none at all.
fn free_chunks(sum: usize, lines: &dyn Lines) -> Option<(u64, u64, u64)> {
    let (mut count, mut total, mut largest) = (0, 0u64, 0);
    let mut listed = false;
    for i in (sum.saturating_sub(MOST_LINES)..sum).rev() {
        let line = lines.line(i);
        if line.contains(SUM) || line.contains("an out of memory trying to allocate") {
            break;
        }
        let Some(at) = line.find(" of size ").filter(|at| line[..*at].contains(" at ")) else { continue };
        let digits: String = line[at + " of size ".len()..].bytes().take_while(u8::is_ascii_digit).map(char::from).collect();
        let Ok(size) = digits.parse::<u64>() else { continue };
        listed = true;
        if line[..at].contains("Free ") {
            count += 1;
            total = total.saturating_add(size);
            largest = size.max(largest);
        }
    }
    listed.then_some((count, total, largest))
}

/// Why the request failed: what is free is in pieces, the driver gave no more although the limit allows it, or all is used.
fn cause(tried: u64, free: u64, available: Option<u64>, chunks: Option<(u64, u64, u64)>) -> Cause {
    if free < tried {
        return Cause::DeviceFull;
    }
    if let Some((_, total, largest)) = chunks {
        if largest < tried && total >= tried {
            return Cause::Fragmentation;
        }
    }
    match available {
        Some(available) if available >= tried => Cause::OtherProcess,
        // All of the limit is in the pool, and enough of the pool is free, but not in one piece.
        Some(_) => Cause::Fragmentation,
        None => Cause::DeviceFull,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::units::Value;
    use crate::text::StrLines;

    fn dump(limit: u64, used: u64, pool: &str, chunks: &str) -> Block {
        let text = format!(
            "W tensorflow/core/common_runtime/bfc_allocator.cc:479] Allocator (GPU_0_bfc) ran out of memory trying to allocate 100.00MiB (rounded to 104857600)requested by op x\nCurrent allocation summary follows.\n{chunks}I tensorflow/core/common_runtime/bfc_allocator.cc:1097] Sum Total of in-use chunks: 1.27GiB\n{pool}I tensorflow/core/common_runtime/bfc_allocator.cc:1109] Stats: \nLimit:                  {limit}\nInUse:                  {used}\nMaxInUse:               {used}\nNumAllocs:                     610\nMaxAllocSize:            588800000\n\n"
        );
        let lines = StrLines::new(&text);
        let sum = (0..lines.count()).find(|&i| lines.get(i).contains(SUM)).unwrap();
        read_dump(&crate::log::blocks::match_at(sum, 40), &lines).unwrap()
    }

    fn bytes(block: &Block, name: &str) -> Option<u64> {
        block.numbers.iter().find(|number| number.name == name).and_then(|number| match number.value {
            Value::Bytes(n) => Some(n),
            _ => None,
        })
    }

    #[test]
    fn free_pieces_are_fragmentation_only_when_they_add_up() {
        let chunks = "I tensorflow/core/common_runtime/bfc_allocator.cc:1083] InUse at 7f0 of size 90000000 next 4\nI tensorflow/core/common_runtime/bfc_allocator.cc:1083] Free  at 7f1 of size 90000000 next 5\nI tensorflow/core/common_runtime/bfc_allocator.cc:1083] Free  at 7f2 of size 80000000 next 6\n";
        let block = dump(1_476_239_360, 1_300_000_000, "", chunks);
        assert_eq!(
            (block.cause, bytes(&block, "largest_free"), bytes(&block, "free")),
            (Some(Cause::Fragmentation), Some(90_000_000), Some(176_239_360))
        );
        assert_eq!(dump(1_476_239_360, 1_400_000_000, "", chunks).cause, Some(Cause::DeviceFull));
        assert_eq!((bytes(&block, "tried"), bytes(&block, "limit")), (Some(100 << 20), Some(1_476_239_360)));
    }

    #[test]
    fn a_limit_that_the_driver_does_not_fill_means_others() {
        let pool = "I tensorflow/core/common_runtime/bfc_allocator.cc:1103] Total bytes in pool: 1148427008 memory_limit_: 1843986432 available bytes: 695559424 curr_region_allocation_bytes_: 2147483648\n";
        assert_eq!(dump(1_843_986_432, 1_100_000_000, pool, "").cause, Some(Cause::OtherProcess));
        let full = pool.replace("695559424", "0");
        assert_eq!(dump(1_843_986_432, 1_100_000_000, &full, "").cause, Some(Cause::Fragmentation));
    }
}
