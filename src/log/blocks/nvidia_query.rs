//! `nvidia-smi -q`: sections of `key : value` rows under a heading, one card after the other.
//!
//! A section's rows stand deeper than its heading (4 blanks a level); the column of the colon differs by driver. Since Ada
//! and Hopper temperatures are margins to a limit (`GPU T.Limit Temp`), before they are degrees. ECC counters have two
//! layouts: `SRAM Uncorrectable` rows (Ampere on), and `Double Bit` with a `Total` row before.

use super::Block;
use super::row::{self, Row};
use crate::log::scan::Match;
use crate::log::units::Unit;
use crate::text::Lines;

/// Rows of a section at most.
const MOST_ROWS: usize = 48;
/// Lines above a section in which the card's own line is looked for.
const MOST_ABOVE: usize = 400;

/// The temperatures of a card that is too hot; nothing for a card within its limits. The match is the current one's row.
pub fn read_heat(m: &Match, lines: &dyn Lines) -> Option<Block> {
    let mut block = start(m, lines);
    let depth = Row::read(lines, m.span.line).indent();
    let mut get = [None::<i64>; 6];
    const KEYS: [(&str, &str); 6] = [
        ("GPU Current Temp", "temperature"),
        ("GPU T.Limit Temp", "margin"),
        ("GPU Slowdown Temp", "slowdown"),
        ("GPU Slowdown T.Limit Temp", "slowdown_margin"),
        ("Memory Current Temp", "memory_temperature"),
        ("Memory Max Operating Temp", "memory_limit"),
    ];
    for row in (m.span.line..lines.count().min(m.span.line + MOST_ROWS)).map(|i| Row::read(lines, i)) {
        let Some((key, value)) = row.field().filter(|_| row.indent() == depth) else { break };
        let Some(at) = KEYS.iter().position(|(name, _)| *name == key) else { continue };
        if at == 0 && row.line > m.span.line {
            break;
        }
        let Some(degrees) = row.get(&value).strip_suffix('C').and_then(|text| text.trim().parse().ok()) else { continue };
        get[at] = Some(degrees);
        block.numbers.extend(row.number(KEYS[at].1, value, Unit::Count));
        block.end = (row.line, row.end());
    }
    let [current, margin, slowdown, slowdown_margin, memory, memory_limit] = get;
    let at_limit = current.zip(slowdown).is_some_and(|(now, limit)| now >= limit && limit > 0);
    let no_margin = margin.is_some_and(|margin| margin <= slowdown_margin.unwrap_or(0));
    let memory_hot = memory.zip(memory_limit).is_some_and(|(now, limit)| now > limit && limit > 0);
    (at_limit || no_margin || memory_hot).then_some(block)
}

/// The counters of a card with uncorrected errors since its reset; nothing for a sound card. The match is the heading.
pub fn read_ecc(m: &Match, lines: &dyn Lines) -> Option<Block> {
    let mut block = start(m, lines);
    let depth = Row::read(lines, m.span.line).indent();
    let (mut span, mut bits) = ("", "");
    let mut sums = [0u64; 4];
    for row in (m.span.line + 1..lines.count().min(m.span.line + MOST_ROWS)).map(|i| Row::read(lines, i)) {
        if row.text().is_empty() || row.indent() <= depth {
            break;
        }
        block.end = (row.line, row.end());
        let text = row.text().to_owned();
        let Some((key, value)) = row.field() else {
            match text.as_str() {
                "Volatile" | "Aggregate" => (span, bits) = (if text == "Volatile" { "volatile" } else { "aggregate" }, ""),
                "Single Bit" => bits = "single",
                "Double Bit" => bits = "double",
                _ => (span, bits) = ("", ""),
            }
            continue;
        };
        let Ok(count) = row.get(&value).parse::<u64>() else { continue };
        let corrected = match (bits, key) {
            ("single", "Total") => true,
            ("double", "Total") => false,
            ("", key) if key.contains("Uncorrectable") => false,
            ("", key) if key.ends_with(" Correctable") => true,
            _ => continue,
        };
        let at = match (span, corrected) {
            ("volatile", false) => 0,
            ("volatile", true) => 1,
            ("aggregate", false) => 2,
            ("aggregate", true) => 3,
            _ => continue,
        };
        sums[at] = sums[at].saturating_add(count);
    }
    let names = ["ecc", "corrected", "lifetime_ecc", "lifetime_corrected"];
    block.numbers.extend(names.iter().zip(sums).map(|(name, sum)| row::count(name, sum)));
    (sums[0] > 0).then_some(block)
}

/// The memory of a card. The match is the heading.
pub fn read_memory(m: &Match, lines: &dyn Lines) -> Option<Block> {
    let mut block = start(m, lines);
    let depth = Row::read(lines, m.span.line).indent();
    for row in (m.span.line + 1..lines.count().min(m.span.line + MOST_ROWS)).map(|i| Row::read(lines, i)) {
        let Some((key, value)) = row.field().filter(|_| row.indent() > depth) else { break };
        let name = match key {
            "Total" => "total",
            "Reserved" => "driver_reserved",
            "Used" => "used",
            "Free" => "free",
            _ => continue,
        };
        block.numbers.extend(row.number(name, value, Unit::Size));
        block.end = (row.line, row.end());
    }
    let size = |name: &str| block.numbers.iter().find(|number| number.name == name).and_then(|number| number.value.bytes());
    let share = size("used").zip(size("total")).map(|(used, total)| row::percent("used_share", used, total))?;
    block.numbers.push(share);
    Some(block)
}

/// A block at the match, with the bus address of the card it speaks of.
fn start(m: &Match, lines: &dyn Lines) -> Block {
    let mut block = Block { end: (m.span.end_line, m.span.end), ..Block::default() };
    let depth = Row::read(lines, m.span.line).indent();
    let above = (m.span.line.saturating_sub(MOST_ABOVE)..m.span.line).rev().filter(|&i| lines.line(i).contains("GPU 0"));
    let card = above.map(|i| Row::read(lines, i)).filter(|row| row.indent() < depth).find_map(|row| {
        let bus = row.text().strip_prefix("GPU ")?;
        let is_bus = bus.len() >= 12 && bus.bytes().all(|b| b.is_ascii_hexdigit() || matches!(b, b':' | b'.'));
        is_bus.then(|| bus.to_owned())
    });
    block.texts.extend(card.map(|bus| ("bus".to_owned(), bus)));
    block
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::StrLines;

    const SECTION: &str = "\
GPU 00000000:07:00.0
    ECC Errors
        Volatile
            SRAM Correctable              : 0
            SRAM Uncorrectable Parity     : 0
            SRAM Uncorrectable SEC-DED    : 1
            DRAM Correctable              : 12
            DRAM Uncorrectable            : 2
        Aggregate
            DRAM Uncorrectable            : 5
        Aggregate Uncorrectable SRAM Sources
            SRAM L2                       : 9
    Temperature
        GPU Current Temp                  : 91 C
        GPU T.Limit Temp                  : N/A
        GPU Slowdown Temp                 : 89 C
        Memory Current Temp               : 50 C
";

    fn value(block: &Block, name: &str) -> Option<f64> {
        block.numbers.iter().find(|number| number.name == name).map(|number| number.value.as_f64())
    }

    #[test]
    fn counters_are_summed_by_life_and_by_reset() {
        let lines = StrLines::new(SECTION);
        let block = read_ecc(&crate::log::blocks::match_at(1, 14), &lines).unwrap();
        assert_eq!((value(&block, "ecc"), value(&block, "corrected"), value(&block, "lifetime_ecc")), (Some(3.0), Some(12.0), Some(5.0)));
        assert_eq!(block.texts, [("bus".to_owned(), "00000000:07:00.0".to_owned())]);
        let old = "    ECC Errors\n        Volatile\n            Single Bit\n                Total : 4\n            Double Bit\n                Device Memory : 1\n                Total : 1\n";
        let lines = StrLines::new(old);
        let block = read_ecc(&crate::log::blocks::match_at(0, 14), &lines).unwrap();
        assert_eq!((value(&block, "ecc"), value(&block, "corrected")), (Some(1.0), Some(4.0)));
    }

    #[test]
    fn heat_is_named_at_the_slowdown_limit() {
        let hot = |text: &str| read_heat(&crate::log::blocks::match_at(13, 60), &StrLines::new(text)).is_some();
        assert!(hot(SECTION));
        assert!(!hot(&SECTION.replace("91 C", "71 C")));
        assert!(hot(&SECTION.replace("91 C", "71 C").replace("N/A", "-3 C")));
        assert!(!hot(&SECTION.replace("91 C", "71 C").replace("N/A", "24 C")));
    }
}
