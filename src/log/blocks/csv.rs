//! Series and lists of `nvidia-smi`: `--query-gpu=... --format=csv`, `--query-compute-apps=...`, `dmon`.
//!
//! A comma and a blank between cells, units in the heading's brackets and behind each value unless `nounits`; missing values
//! are `[N/A]`. `dmon` has columns between blanks under a heading `# gpu ...`, which repeats every 20 to 30 rows; its `fb` is
//! in units of 2^20 bytes. Several cards take turns, told apart by `index`, `uuid` or the bus. Rows are read from the raw
//! lines: their time stamps would be taken for prefixes.
//! Limits: without a heading (`noheader`) there is no table.

use super::{Block, row};
use crate::log::finding::Number;
use crate::log::scan::Match;
use crate::log::units::{self, Unit, Value};
use crate::log::verdict::memory_series;
use crate::text::Lines;

/// Rows of a table that are read.
const MOST_ROWS: usize = 20_000;
/// Cards that are followed.
const MOST_CARDS: usize = 64;
/// A longer line is no row.
const MOST_BYTES: usize = 1 << 10;
/// A shorter pause says nothing ...
const LEAST_IDLE_SECONDS: i64 = 300;
/// ... and without time stamps, one of fewer samples.
const LEAST_IDLE_SAMPLES: usize = 30;
/// Two headings of `dmon` stand at most so far apart.
const HEADING_EVERY: usize = 80;

/// A table: its columns, without units, and its rows.
struct Table {
    columns: Vec<String>,
    /// The unit of the column with memory in use, where the heading names one.
    unit: Option<Unit>,
    rows: Vec<(usize, Vec<String>)>,
}

impl Table {
    fn column(&self, names: &[&str]) -> Option<usize> {
        names.iter().find_map(|name| self.columns.iter().position(|column| column == name))
    }
}

/// A card's series.
#[derive(Default)]
struct Series {
    card: String,
    used: Vec<f64>,
    busy: Vec<f64>,
    total: Option<f64>,
    free: Option<f64>,
    times: Vec<String>,
}

/// Memory that climbs to the end of a series; nothing otherwise.
pub fn read_growth(m: &Match, lines: &dyn Lines) -> Option<Block> {
    let table = csv(m.span.line, lines)?;
    for series in cards(&table) {
        let mut numbers = Vec::new();
        let free = series.free.or_else(|| Some(series.total? - series.used.last()?));
        if memory_series::add_growth(&series.used, free, &mut numbers).is_some() {
            return Some(block(m, &series, numbers));
        }
    }
    None
}

/// A card that worked, then stands still and keeps its memory; nothing otherwise.
pub fn read_stalled(m: &Match, lines: &dyn Lines) -> Option<Block> {
    let table = if lines.line(m.span.line).contains("# gpu") { dmon(m.span.line, lines)? } else { csv(m.span.line, lines)? };
    // Of `pmon` every row is a process, not a card.
    if table.column(&["pid"]).is_some() {
        return None;
    }
    for series in cards(&table) {
        let Some(idle) = memory_series::stalled(&series.busy, &series.used) else { continue };
        let long = match seconds_idle(&series.times, idle) {
            Some(seconds) => seconds >= LEAST_IDLE_SECONDS,
            None => idle >= LEAST_IDLE_SAMPLES,
        };
        if !long {
            continue;
        }
        let mut numbers = vec![row::count("idle_samples", idle as u64)];
        numbers.extend(series.used.last().map(|used| row::bytes("used", *used as u64)));
        numbers.extend(series.total.map(|total| row::bytes("total", total as u64)));
        let mut block = block(m, &series, numbers);
        let since = series.times.get(series.times.len() - idle).filter(|time| !time.is_empty());
        block.texts.extend(since.map(|time| ("since".to_owned(), time.clone())));
        return Some(block);
    }
    None
}

/// The processes of a list, and the one that holds most.
pub fn read_apps(m: &Match, lines: &dyn Lines) -> Option<Block> {
    let table = csv(m.span.line, lines)?;
    let (pid, used) = (table.column(&["pid"])?, table.column(&["used_gpu_memory", "used_memory"])?);
    let name = table.column(&["process_name", "name"]);
    let sizes: Vec<Option<u64>> = table.rows.iter().map(|(_, cells)| size(&cells[used], table.unit).map(|bytes| bytes as u64)).collect();
    let most = sizes.iter().enumerate().filter_map(|(i, bytes)| Some((bytes.as_ref()?, i))).max()?;
    let mut block = Block { end: (m.span.end_line, m.span.end), ..Block::default() };
    block.numbers.push(row::count("processes", table.rows.len() as u64));
    block.numbers.push(row::bytes("listed", row::sum(sizes.iter().flatten().copied())?));
    let (line, cells) = &table.rows[most.1];
    block.numbers.extend(cells[pid].parse().ok().map(|pid| row::count("holder_pid", pid)));
    block.numbers.push(row::bytes("holder_used", *most.0));
    block.texts.extend(name.map(|name| ("holder".to_owned(), cells[name].clone())));
    block.end = table.rows.last().map_or((*line, 0), |(line, _)| (*line, lines.line(*line).trim_end().len()));
    Some(block)
}

/// A block about one card. The heading alone is marked: a series can be the whole file.
fn block(m: &Match, series: &Series, mut numbers: Vec<Number>) -> Block {
    if let Some(gpu) = series.card.parse::<i64>().ok().filter(|gpu| (0..1024).contains(gpu)) {
        numbers.push(Number { name: "gpu".to_owned(), value: Value::Int(gpu), unit: Unit::Index, text: gpu.to_string(), span: None });
    }
    numbers.push(row::count("samples", series.used.len() as u64));
    Block { end: (m.span.end_line, m.span.end), numbers, ..Block::default() }
}

/// The table under a heading of `--format=csv`.
fn csv(heading: usize, lines: &dyn Lines) -> Option<Table> {
    let line = lines.line(heading);
    let columns: Vec<(String, Option<Unit>)> = line.split(',').map(column).collect();
    if columns.len() < 2 {
        return None;
    }
    let unit = columns.iter().find(|(name, _)| is_used(name)).and_then(|(_, unit)| *unit);
    let columns: Vec<String> = columns.into_iter().map(|(name, _)| name).collect();
    let mut rows = Vec::new();
    for i in heading + 1..lines.count().min(heading + 1 + MOST_ROWS) {
        let line = lines.line(i);
        // Another heading begins another table.
        if line.len() > MOST_BYTES || line.contains("memory.used") || line.contains("_memory") {
            break;
        }
        let cells: Vec<String> = line.split(',').map(|cell| cell.trim().to_owned()).collect();
        if cells.len() != columns.len() {
            break;
        }
        rows.push((i, cells));
    }
    Some(Table { columns, unit, rows })
}

/// The table under the first of the headings of `dmon`; the others belong to it.
fn dmon(heading: usize, lines: &dyn Lines) -> Option<Table> {
    let names = |i: usize| -> Option<Vec<String>> {
        let line = lines.line(i);
        let (_, names) = line.split_once("# gpu").filter(|_| line.len() <= MOST_BYTES)?;
        let mut columns = vec!["gpu".to_owned()];
        columns.extend(names.split_ascii_whitespace().map(str::to_owned));
        Some(columns)
    };
    let columns = names(heading)?;
    if (heading.saturating_sub(HEADING_EVERY)..heading).any(|i| names(i).as_ref() == Some(&columns)) {
        return None;
    }
    let mut rows = Vec::new();
    let mut last_heading = heading;
    for i in heading + 1..lines.count().min(heading + 1 + MOST_ROWS) {
        let line = lines.line(i);
        if line.trim_start().starts_with('#') {
            match names(i) {
                Some(other) if other != columns || i > last_heading + HEADING_EVERY => break,
                Some(_) => last_heading = i,
                None => {}
            }
            continue;
        }
        let cells: Vec<String> = line.split_ascii_whitespace().map(str::to_owned).collect();
        // With `-o DT` two columns stand in front.
        let front = cells.len().checked_sub(columns.len()).filter(|front| *front <= 2 && line.len() <= MOST_BYTES);
        let Some(front) = front else { break };
        rows.push((i, cells[front..].to_vec()));
    }
    Some(Table { columns, unit: Some(Unit::BinaryMb), rows })
}

/// Name and unit of a heading's cell: `memory.used [MiB]`.
fn column(cell: &str) -> (String, Option<Unit>) {
    let cell = cell.trim();
    let (name, unit) = cell.split_once('[').map_or((cell, ""), |(name, unit)| (name, unit));
    // What stands in front of the first heading is a prefix.
    let name = name.split_ascii_whitespace().last().unwrap_or("");
    (name.to_owned(), unit.starts_with("MiB").then_some(Unit::BinaryMb))
}

fn is_used(name: &str) -> bool {
    matches!(name, "memory.used" | "used_gpu_memory" | "used_memory")
}

/// The series of each card.
fn cards(table: &Table) -> Vec<Series> {
    let Some(used) = table.column(&["memory.used", "fb"]) else { return Vec::new() };
    let card = table.column(&["index", "gpu", "uuid", "gpu_uuid", "pci.bus_id", "gpu_bus_id"]);
    let busy = table.column(&["utilization.gpu", "sm"]);
    let (total, free) = (table.column(&["memory.total"]), table.column(&["memory.free"]));
    let time = table.column(&["timestamp"]);
    let mut out: Vec<Series> = Vec::new();
    for (_, cells) in &table.rows {
        let Some(bytes) = size(&cells[used], table.unit) else { continue };
        let name = card.map_or("", |card| cells[card].as_str());
        let at = match out.iter().position(|series| series.card == name) {
            Some(at) => at,
            None if out.len() < MOST_CARDS => {
                out.push(Series { card: name.to_owned(), ..Series::default() });
                out.len() - 1
            }
            None => continue,
        };
        let series = &mut out[at];
        series.used.push(bytes);
        series.busy.extend(busy.and_then(|busy| percent(&cells[busy])));
        series.total = total.and_then(|total| size(&cells[total], table.unit));
        series.free = free.and_then(|free| size(&cells[free], table.unit));
        series.times.push(time.map_or(String::new(), |time| cells[time].clone()));
    }
    out
}

/// The time from the first idle sample to the last one, where the rows have time stamps.
fn seconds_idle(times: &[String], idle: usize) -> Option<i64> {
    let clock = |time: &String| -> Option<i64> {
        let mut parts = time.split_whitespace().last()?.split([':', '.']).map(|part| Some(i64::from(part.parse::<u32>().ok()?)));
        Some(parts.next()?? * 3600 + parts.next()?? * 60 + parts.next()??)
    };
    let first = clock(times.get(times.len().checked_sub(idle)?)?)?;
    // Over midnight the clock starts anew.
    Some((clock(times.last()?)? - first).rem_euclid(24 * 3600))
}

/// A size with its unit, or in the heading's unit.
fn size(text: &str, unit: Option<Unit>) -> Option<f64> {
    let labelled = text.ends_with(|c: char| c.is_ascii_alphabetic());
    Some(units::read(text, if labelled { Some(Unit::Size) } else { unit })?.0.bytes()? as f64)
}

fn percent(text: &str) -> Option<f64> {
    text.trim_end_matches(['%', ' ']).parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::StrLines;

    fn series(rows: &str) -> Option<Block> {
        let text = format!("timestamp, index, utilization.gpu [%], memory.used [MiB], memory.total [MiB]\n{rows}done\n");
        read_stalled(&crate::log::blocks::match_at(0, 20), &StrLines::new(&text))
    }

    #[test]
    fn each_card_has_its_own_series() {
        let mut rows = String::new();
        for i in 0..30 {
            let busy = if i < 12 { 97 } else { 0 };
            rows.push_str(&format!("2026/11/29 10:{i:02}:00.000, 0, 95 %, 30000 MiB, 81920 MiB\n"));
            rows.push_str(&format!("2026/11/29 10:{i:02}:00.000, 1, {busy} %, 30000 MiB, 81920 MiB\n"));
        }
        let block = series(&rows).unwrap();
        let number = |name: &str| block.numbers.iter().find(|number| number.name == name).unwrap().value.as_f64();
        assert_eq!((number("gpu"), number("idle_samples"), number("samples")), (1.0, 18.0, 30.0));
        assert_eq!(block.texts, [("since".to_owned(), "2026/11/29 10:12:00.000".to_owned())]);
        assert!(series(&rows.replace(", 0 %", ", 55 %")).is_none());
    }

    #[test]
    fn a_list_of_processes_names_the_largest() {
        let text = "pid, process_name, used_gpu_memory [MiB]\n4242, python, 61206 MiB\n77, Xorg, 39 MiB\n90, python, [N/A]\n\n";
        let block = read_apps(&crate::log::blocks::match_at(0, 40), &StrLines::new(text)).unwrap();
        assert_eq!(block.numbers.iter().find(|number| number.name == "holder_pid").unwrap().text, "4242");
        assert_eq!(block.end, (3, 17));
    }

    #[test]
    fn sizes_and_times_past_counting_are_none() {
        let text = "pid, process_name, used_gpu_memory [MiB]\n8, python, 9000000000000 MiB\n9, python, 9000000000000 MiB\n\n";
        assert_eq!(read_apps(&crate::log::blocks::match_at(0, 40), &StrLines::new(text)), None);
        let stamp = |hour: &str| [format!("2026/11/29 {hour}:00:00.000"), format!("2026/11/29 {hour}:30:00.000")];
        assert_eq!(seconds_idle(&stamp("10"), 2), Some(1800));
        assert_eq!(seconds_idle(&stamp("9000000000000000000"), 2), None);
    }
}
