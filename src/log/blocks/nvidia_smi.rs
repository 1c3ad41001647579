//! The default table of `nvidia-smi`: cards, and the processes that hold their memory.
//!
//! A card has two rows (three since driver 450): name, bus and ECC; then fan, temperature, power, memory and utilisation.
//! The process list stands behind the cards, its columns `GI CI` since driver 450. Widths differ by release, so rows are
//! read by their words. A page's pattern finds a card's second row, or the table's head.
//! Limits: in a container the list is usually empty although memory is used; on Windows it has no sizes.

use super::Block;
use super::row::{self, Row};
use crate::log::scan::Match;
use crate::log::units::{self, Unit};
use crate::log::vocabulary::Cause;
use crate::text::Lines;

/// Lines of the cards at most: 16 of them, with their MIG devices.
const MOST_LINES: usize = 240;
/// Processes that are read.
const MOST_PROCESSES: usize = 128;
/// Lines between the table's end and its process list.
const MOST_GAP: usize = 3;
/// A card counts as full from this share on ...
const FULL_SHARE: f64 = 0.80;
/// ... and as idle up to this utilisation in percent.
const IDLE_PERCENT: i64 = 5;
/// Processes that must stray to one card before it is a habit of the program.
const LEAST_STRAYS: usize = 2;
/// Memory of no listed process counts from this share of the card ...
const UNLISTED_SHARE: f64 = 0.05;
/// ... and this many bytes on: the driver keeps some for itself.
const UNLISTED_BYTES: u64 = 1 << 30;

/// A process of the list.
#[derive(Clone, Debug, PartialEq)]
struct Process {
    gpu: i64,
    pid: i64,
    name: String,
    /// Device memory in bytes, where it is printed.
    used: Option<u64>,
}

/// A card, from its name row on, with what its processes hold.
pub fn read_card(m: &Match, lines: &dyn Lines) -> Option<Block> {
    let mut block = read_usage(m, lines)?;
    if block.numbers.iter().any(|number| number.name == "gpu") {
        let above = Row::read(lines, m.span.line.saturating_sub(1));
        block.start = Some((above.line, above.span(0..above.text().len()).start));
    }
    Some(block)
}

/// The usage row at the match, with what stands around it.
pub fn read_usage(m: &Match, lines: &dyn Lines) -> Option<Block> {
    let mut block = Block { end: (m.span.end_line, m.span.end), ..Block::default() };
    let captured = |name: &str| m.captures.iter().find(|capture| capture.name == name).map(|capture| capture.text.as_str());
    let size = |name: &str| units::read(captured(name)?, Some(Unit::Size))?.0.bytes();
    let (used, total) = (size("used"), size("total"));
    let utilization = captured("utilization").and_then(|text| text.trim_end_matches([' ', '%']).parse::<i64>().ok());
    let gpu = m.span.line.checked_sub(1).and_then(|above| name_row(&Row::read(lines, above), &mut block));
    let list = processes(m.span.line + 1, lines);
    let mine: Vec<&Process> = match (gpu, &list) {
        (Some(gpu), Some(list)) => list.iter().filter(|process| process.gpu == gpu).collect(),
        _ => Vec::new(),
    };
    let listed = row::sum(mine.iter().filter_map(|process| process.used))?;
    if !mine.is_empty() {
        block.numbers.push(row::count("processes", mine.len() as u64));
        block.numbers.push(row::bytes("listed", listed));
    }
    if let Some(holder) = mine.iter().filter(|process| process.used.is_some()).max_by_key(|process| process.used) {
        block.numbers.push(row::count("holder_pid", holder.pid.unsigned_abs()));
        block.numbers.extend(holder.used.map(|used| row::bytes("holder_used", used)));
        block.texts.push(("holder".to_owned(), holder.name.clone()));
    }
    let (Some(used), Some(total)) = (used, total) else { return Some(block) };
    block.numbers.push(row::percent("used_share", used, total));
    let sizes_known = mine.iter().all(|process| process.used.is_some());
    let unlisted = used.saturating_sub(listed);
    if list.is_some() && sizes_known && unlisted >= UNLISTED_BYTES && unlisted as f64 >= UNLISTED_SHARE * total as f64 {
        block.numbers.push(row::bytes("unlisted", unlisted));
    }
    let full = used as f64 >= FULL_SHARE * total as f64;
    // Without a list nobody says that nothing lives there.
    let alive = !mine.is_empty() || list.is_none();
    if let Some(percent) = utilization.filter(|percent| full && alive && *percent <= IDLE_PERCENT) {
        block.cause = Some(Cause::Stalled);
        block.numbers.push(row::count("low_utilization", percent.unsigned_abs()));
    }
    Some(block)
}

/// Processes that hold little on one card and much on another one each: contexts opened on the wrong card. The match is the
/// heading of the list; nothing when there are no such processes.
///
/// Processes that hold memory on every card alike (peer access) are none, nor is a single process over several cards.
pub fn read_strays(m: &Match, lines: &dyn Lines) -> Option<Block> {
    let list = processes(m.span.line, lines)?;
    let on = |gpu: i64| list.iter().filter(move |process| process.gpu == gpu);
    let home = |pid: i64| list.iter().filter(|process| process.pid == pid).max_by_key(|process| process.used).map(|process| process.gpu);
    let strays = |gpu: i64| -> Vec<&Process> { on(gpu).filter(|process| home(process.pid) != Some(gpu)).collect() };
    let mut gpus: Vec<i64> = list.iter().map(|process| process.gpu).collect();
    gpus.sort_unstable();
    gpus.dedup();
    let crowded: Vec<i64> = gpus.iter().copied().filter(|gpu| !strays(*gpu).is_empty()).collect();
    let [gpu] = crowded.as_slice() else { return None };
    let strays = strays(*gpu);
    let used = row::sum(strays.iter().map(|process| process.used).collect::<Option<Vec<u64>>>()?)?;
    let mut homes: Vec<i64> = strays.iter().filter_map(|process| home(process.pid)).collect();
    homes.sort_unstable();
    homes.dedup();
    if strays.len() < LEAST_STRAYS || homes.len() < strays.len() {
        return None;
    }
    let mut block = Block { end: (m.span.end_line, m.span.end), ..Block::default() };
    block.numbers.push(row::count("gpu", gpu.unsigned_abs()));
    block.numbers.push(row::count("strays", strays.len() as u64));
    block.numbers.push(row::bytes("stray_memory", used));
    Some(block)
}

/// The head of a table: how many cards, what they hold together.
pub fn read_head(m: &Match, lines: &dyn Lines) -> Option<Block> {
    let mut block = Block { end: (m.span.end_line, m.span.end), ..Block::default() };
    let (mut cards, mut idle, mut used_sum, mut total_sum) = (0, 0, 0u64, 0u64);
    for i in m.span.line + 1..lines.count().min(m.span.line + MOST_LINES) {
        let row = Row::read(lines, i);
        let text = row.text();
        if !is_table(text) || ["NVIDIA-SMI ", "Processes:", "MIG devices:"].iter().any(|heading| text.contains(heading)) {
            break;
        }
        let Some((used, total, utilization)) = usage_row(&row) else { continue };
        cards += 1;
        used_sum = used_sum.checked_add(used)?;
        total_sum = total_sum.checked_add(total)?;
        idle += u64::from(utilization == Some(0));
    }
    if cards > 0 {
        block.numbers.push(row::count("cards", cards));
        block.numbers.push(row::count("idle_cards", idle));
        block.numbers.push(row::bytes("used", used_sum));
        block.numbers.push(row::bytes("total", total_sum));
    }
    Some(block)
}

fn is_table(text: &str) -> bool {
    text.is_empty() || text.starts_with(['|', '+'])
}

/// Used, total and utilisation of a card's second row.
fn usage_row(row: &Row) -> Option<(u64, u64, Option<i64>)> {
    let cells = row.cells();
    let [first, memory, busy] = cells.as_slice() else { return None };
    // A row of a MIG device has the same form but no `Pwr:Usage/Cap`.
    row.get(first).contains('/').then_some(())?;
    let (used, total) = row.get(memory).split_once('/')?;
    let size = |text: &str| units::read(text, Some(Unit::Size))?.0.bytes();
    let utilization = row.get(busy).split('%').next().and_then(|text| text.trim().parse().ok());
    Some((size(used)?, size(total)?, utilization))
}

/// Index, name, bus and ECC count of a card's first row; gives back the index.
fn name_row(row: &Row, block: &mut Block) -> Option<i64> {
    let cells = row.cells();
    let [first, bus, ecc] = cells.as_slice() else { return None };
    let text = row.get(first);
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let gpu = text[..digits].parse().ok()?;
    let name = text[digits..].trim();
    // Persistence mode stands behind the name, on Windows the driver model.
    let name = ["On", "Off", "WDDM", "TCC", "MCDM"].iter().find_map(|mode| name.strip_suffix(mode)).map_or(name, str::trim_end);
    block.numbers.extend(row.number("gpu", first.start..first.start + digits, Unit::Index));
    block.numbers.extend(row.number("ecc", ecc.clone(), Unit::Count));
    block.texts.push(("name".to_owned(), name.to_owned()));
    block.texts.extend(row.get(bus).split_whitespace().next().map(|bus| ("bus".to_owned(), bus.to_owned())));
    Some(gpu)
}

/// The process list behind line `from`; `None` when there is none, as in a part of a table.
fn processes(from: usize, lines: &dyn Lines) -> Option<Vec<Process>> {
    let last = lines.count().min(from + MOST_LINES);
    let mut gap = 0;
    let mut at = from;
    let heading = loop {
        if at >= last {
            return None;
        }
        // Whatever stands in front of the bars, a line of the table ends in one.
        let line = lines.line(at);
        let inner = line.starts_with('{').then(|| Row::read(lines, at));
        let text = inner.as_ref().map_or(line.trim_end(), Row::text);
        gap = if text.is_empty() { gap + 1 } else { 0 };
        if gap > MOST_GAP || !(text.is_empty() || text.ends_with(['|', '+'])) || text.contains("NVIDIA-SMI ") {
            return None;
        }
        if text.contains("Processes:") {
            break at;
        }
        at += 1;
    };
    let mut out = Vec::new();
    for i in heading + 1..lines.count().min(heading + MOST_PROCESSES) {
        let row = Row::read(lines, i);
        if !row.text().starts_with(['|', '+']) || row.text().contains("NVIDIA-SMI ") {
            break;
        }
        out.extend(process(&row));
    }
    Some(out)
}

/// A row `|  0  N/A  N/A  4242  C  python  61206MiB |`.
fn process(row: &Row) -> Option<Process> {
    let text = row.text().strip_prefix('|')?.strip_suffix('|')?;
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let gpu = words.first()?.parse().ok()?;
    let kind = words.iter().take(5).position(|word| matches!(*word, "C" | "G" | "C+G" | "M" | "M+C"))?;
    let pid = words.get(kind.checked_sub(1)?)?.parse().ok()?;
    let (last, name) = words[kind + 1..].split_last()?;
    let used = units::read(last, Some(Unit::Size)).and_then(|(value, _)| value.bytes());
    Some(Process { gpu, pid, name: name.join(" "), used })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::finding::{Number, Span};
    use crate::log::scan::Capture;
    use crate::text::StrLines;

    fn card(text: &str, line: usize, used: &str, total: &str, busy: &str) -> Block {
        let lines = StrLines::new(text);
        let mut m = crate::log::blocks::match_at(line, 10);
        let span = Span { line, start: 0, end_line: line, end: 1 };
        for (name, text) in [("used", used), ("total", total), ("utilization", busy)] {
            m.captures.push(Capture { name: name.to_owned(), text: text.to_owned(), span });
        }
        read_card(&m, &lines).unwrap()
    }

    fn number<'b>(block: &'b Block, name: &str) -> Option<&'b Number> {
        block.numbers.iter().find(|number| number.name == name)
    }

    const TABLE: &str = "\
|   0  NVIDIA A100-SXM4-80GB          On  | 00000000:07:00.0 Off |                    0 |
| N/A   41C    P0              62W / 400W |  78412MiB / 81920MiB |      0%      Default |
|                                         |                      |             Disabled |
+-----------------------------------------+----------------------+----------------------+
                                                                                         
+---------------------------------------------------------------------------------------+
| Processes:                                                                            |
|  GPU   GI   CI        PID   Type   Process name                            GPU Memory |
|=======================================================================================|
|    0   N/A  N/A      4242      C   python train.py                          78400MiB |
|    1   N/A  N/A      4243      C   python                                    61206MiB |
+---------------------------------------------------------------------------------------+
";

    #[test]
    fn a_full_idle_card_with_a_process_is_stalled() {
        let block = card(TABLE, 1, "78412MiB", "81920MiB", "0%");
        assert_eq!(block.cause, Some(Cause::Stalled));
        assert_eq!(number(&block, "holder_pid").unwrap().text, "4242");
        assert_eq!(number(&block, "listed").unwrap().value.bytes(), Some(78400 << 20));
        assert!(number(&block, "unlisted").is_none());
        assert!(block.texts.contains(&("name".to_owned(), "NVIDIA A100-SXM4-80GB".to_owned())));
        assert!(block.texts.contains(&("holder".to_owned(), "python train.py".to_owned())));
        assert_eq!(card(TABLE, 1, "78412MiB", "81920MiB", "97%").cause, None);
    }

    #[test]
    fn contexts_on_the_first_card_are_strays() {
        let row = |gpu: i64, pid: i64, mib: u64| format!("|    {gpu}   N/A  N/A   {pid}      C   python   {mib}MiB |\n");
        let read = |rows: &[(i64, i64, u64)]| {
            let rows: String = rows.iter().map(|(gpu, pid, mib)| row(*gpu, *pid, *mib)).collect();
            let text = format!("| Processes:   |\n|=====|\n{rows}+----+\n");
            read_strays(&crate::log::blocks::match_at(0, 10), &StrLines::new(&text))
        };
        let block = read(&[(0, 10, 30000), (0, 11, 520), (0, 12, 520), (1, 11, 30000), (2, 12, 30000)]).unwrap();
        assert_eq!((number(&block, "gpu").unwrap().text.as_str(), number(&block, "strays").unwrap().text.as_str()), ("0", "2"));
        assert_eq!(read(&[(0, 10, 30000), (1, 11, 30000), (2, 12, 30000)]), None);
        assert_eq!(read(&[(0, 10, 9000), (1, 10, 30000), (2, 10, 30000)]), None);
        let peers = [(0, 10, 30000), (0, 11, 520), (0, 12, 520), (1, 11, 30000), (1, 10, 520), (1, 12, 520), (2, 12, 30000)];
        assert_eq!(read(&peers), None);
    }

    #[test]
    fn memory_of_no_listed_process_is_named_only_beside_a_list() {
        let empty = TABLE.replace("|    0   N/A  N/A      4242      C   python train.py                          78400MiB |\n", "");
        let block = card(&empty, 1, "78412MiB", "81920MiB", "0%");
        assert_eq!((block.cause, number(&block, "unlisted").unwrap().value.bytes()), (None, Some(78412 << 20)));
        let part: String = TABLE.lines().take(3).map(|line| format!("{line}\n")).collect();
        let block = card(&part, 1, "78412MiB", "81920MiB", "0%");
        assert_eq!((block.cause, number(&block, "unlisted")), (Some(Cause::Stalled), None));
    }
}
