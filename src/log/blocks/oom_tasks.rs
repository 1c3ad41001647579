//! The task list of the kernel's oom-killer report: who had how much RAM when it ran out.
//!
//! A heading `[  pid  ]   uid  tgid total_vm      rss ... name`, then one row a process; `total_vm` and `rss` count pages of
//! 4 KiB (x86-64). Columns differ by kernel (`nr_ptes`, `pgtables_bytes`, since 6.x `rss_anon rss_file rss_shmem`), so they
//! are found by the heading (mm/oom_kill.c).
//! Limits: other page sizes (arm64 with 64 KiB pages) give too small values; the page says so.

use std::collections::HashMap;

use super::Block;
use super::row::{self, Row};
use crate::log::scan::Match;
use crate::text::Lines;

/// Rows of the list that are read.
const MOST_ROWS: usize = 4096;
/// Lines of other kernel messages between two rows.
const MOST_GAP: usize = 3;
/// Bytes of a page.
const PAGE: u64 = 4096;

/// Reads the list under the heading at the match.
pub fn read(m: &Match, lines: &dyn Lines) -> Option<Block> {
    let heading = Row::read(lines, m.span.line);
    let columns: Vec<&str> = heading.text().split_once("pid")?.1.split_once(']')?.1.split_ascii_whitespace().collect();
    let at = |name: &str| columns.iter().position(|column| *column == name);
    let (tgid, rss, name) = (at("tgid")?, at("rss")?, at("name")?);
    let mut block = Block { end: (m.span.end_line, m.span.end), ..Block::default() };
    // (pages, processes) by name, and the largest process.
    let mut by_name: HashMap<String, (u64, u64)> = HashMap::new();
    let mut largest: Option<(u64, u64, String)> = None;
    let (mut tasks, mut sum, mut gap) = (0u64, 0u64, 0);
    for i in m.span.line + 1..lines.count().min(m.span.line + MOST_ROWS) {
        let row = Row::read(lines, i);
        let Some((pid, pages, process)) = task(row.text(), tgid, rss, name) else {
            gap += 1;
            if gap > MOST_GAP || row.text().contains("total_vm") {
                break;
            }
            continue;
        };
        gap = 0;
        block.end = (i, row.end());
        tasks += 1;
        sum = sum.saturating_add(pages);
        let group = by_name.entry(process.clone()).or_default();
        *group = (group.0.saturating_add(pages), group.1 + 1);
        if largest.as_ref().is_none_or(|(most, ..)| pages > *most) {
            largest = Some((pages, pid, process));
        }
    }
    let (pages, pid, process) = largest?;
    block.numbers.push(row::count("tasks", tasks));
    block.numbers.push(row::bytes("resident", sum.saturating_mul(PAGE)));
    block.numbers.push(row::count("largest_pid", pid));
    block.numbers.push(row::bytes("largest_rss", pages.saturating_mul(PAGE)));
    block.texts.push(("process".to_owned(), process));
    // Many of one name can be more than the largest one: loader workers, ranks.
    let group = by_name.into_iter().filter(|(_, (_, count))| *count > 1).max_by(|a, b| (a.1.0, &b.0).cmp(&(b.1.0, &a.0)));
    if let Some((group, (pages, count))) = group.filter(|(_, (group_pages, _))| *group_pages > pages) {
        block.texts.push(("group".to_owned(), group));
        block.numbers.push(row::count("group_tasks", count));
        block.numbers.push(row::bytes("group_rss", pages.saturating_mul(PAGE)));
    }
    Some(block)
}

/// Process number, pages and name of a row.
fn task(text: &str, tgid: usize, rss: usize, name: usize) -> Option<(u64, u64, String)> {
    // `[1234567]` without blanks was taken for a line counter's prefix; the group's number stands in its own column.
    let rest = match text.strip_prefix('[') {
        Some(inside) => inside.split_once(']')?.1,
        None => text,
    };
    let words: Vec<&str> = rest.split_ascii_whitespace().collect();
    let number = |at: usize| words.get(at)?.parse::<u64>().ok();
    let process = words.get(name..).filter(|words| !words.is_empty())?.join(" ");
    // The first columns of a row are numbers throughout.
    words.get(..name)?.iter().all(|word| word.parse::<i64>().is_ok()).then_some(())?;
    Some((number(tgid)?, number(rss)?, process))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::StrLines;

    fn number(block: &Block, name: &str) -> Option<f64> {
        block.numbers.iter().find(|number| number.name == name).map(|number| number.value.as_f64())
    }

    #[test]
    fn columns_are_found_by_the_heading() {
        let new = "[  991.100000] [  pid  ]   uid  tgid total_vm      rss rss_anon rss_file rss_shmem pgtables_bytes swapents oom_score_adj name\n\
            [  991.100100] [    812]     0   812     5120      512      400      112         0    61440        0         -1000 sshd\n\
            [  991.100200] [   4411]  1000  4411 13328311  2000000  1900000   100000         0 69068000        0             0 pt_data_worker\n\
            [  991.100300] [1234567]  1000 1234567 13328311  2500000  2400000   100000         0 69068000        0             0 python3\n\
            [  991.100400] [   4412]  1000  4412 13328311  2000000  1900000   100000         0 69068000        0             0 pt_data_worker\n\
            [  991.100500] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null)\n";
        let block = read(&crate::log::blocks::match_at(0, 20), &StrLines::new(new)).unwrap();
        assert_eq!((number(&block, "largest_pid"), number(&block, "largest_rss")), (Some(1_234_567.0), Some(2_500_000.0 * 4096.0)));
        assert_eq!(
            (number(&block, "group_tasks"), number(&block, "group_rss"), number(&block, "tasks")),
            (Some(2.0), Some(4_000_000.0 * 4096.0), Some(4.0))
        );
        assert_eq!(block.end.0, 4);
    }
}
