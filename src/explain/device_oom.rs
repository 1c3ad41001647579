//! Words for the account of a card: the verdict in a sentence, a table that adds up to the total, a hint.

use super::texts::{Language, fill, text};
use crate::log::units::binary;
use crate::log::verdict::DeviceOom;
use crate::log::verdict::device_oom::Contradiction;
use crate::log::vocabulary::Cause;

/// Width of the bar in the table, in characters.
const BAR: usize = 20;
/// Differences up to this many bytes are rounding: messages print two decimals of a GiB.
const ROUNDING: u64 = 32 << 20;

/// One row of the account.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// What it is.
    pub label: String,
    /// How many bytes.
    pub bytes: u64,
    /// Its share of the card, drawn in [`BAR`] characters.
    pub bar: String,
}

/// The verdict in one sentence, then what contradicts.
pub fn verdict(oom: &DeviceOom, language: Language) -> Vec<String> {
    let mut out = vec![sentence(oom, language)];
    for contradiction in &oom.contradictions {
        out.push(fill(language, contradiction_key(*contradiction), &values(oom)));
    }
    if !oom.contradictions.is_empty() && oom.cause != Cause::Unknown {
        out.push(text(language, "verdict.contradiction").to_owned());
    }
    if oom.idle_could_hold_it() && matches!(oom.cause, Cause::DeviceFull | Cause::OtherProcess) {
        let key = if oom.old_wording { "verdict.also-fragmented-old" } else { "verdict.also-fragmented" };
        out.push(fill(language, key, &values(oom)));
    }
    out
}

fn sentence(oom: &DeviceOom, language: Language) -> String {
    let key = match oom.cause {
        Cause::Unknown if !oom.contradictions.is_empty() => "verdict.contradiction",
        Cause::OtherProcess if oom.holder().is_some() && !oom.others.is_some_and(|o| o.with_own_context) => "verdict.other-process-named",
        Cause::OtherProcess if oom.others.is_some_and(|o| o.with_own_context) => "verdict.other-process-context",
        Cause::MemoryLimit if oom.limit.is_none() => "verdict.memory-limit-unnamed",
        Cause::DeviceFull if oom.free.is_none() || oom.total.is_none() || !oom.contradictions.is_empty() => "verdict.device-full-short",
        Cause::Unknown if !oom.has_account() => "verdict.no-account",
        Cause::Unknown if oom.free.is_none() => "cause.unknown",
        Cause::SingleHugeAllocation => "verdict.single-huge-allocation",
        Cause::Fragmentation => "verdict.fragmentation",
        Cause::OtherProcess => "verdict.other-process",
        Cause::MemoryLimit => "verdict.memory-limit",
        Cause::DeviceFull => "verdict.device-full",
        _ => "verdict.unknown",
    };
    fill(language, key, &values(oom))
}

/// The verdict in a few words for the end of the line.
pub fn hint(oom: &DeviceOom, language: Language) -> String {
    let key = match oom.cause {
        _ if !oom.contradictions.is_empty() => "hint.contradiction",
        Cause::SingleHugeAllocation => "hint.single-huge-allocation",
        Cause::Fragmentation => "hint.fragmentation",
        Cause::OtherProcess if oom.holder().is_some() => "hint.other-process-named",
        Cause::OtherProcess if oom.others.is_some_and(|o| o.with_own_context) => "hint.other-process-context",
        Cause::OtherProcess => "hint.other-process",
        Cause::MemoryLimit if oom.limit.is_none() => "hint.memory-limit-unnamed",
        Cause::MemoryLimit => "hint.memory-limit",
        Cause::DeviceFull if oom.free.is_some() && oom.total.is_some() => "hint.device-full",
        Cause::Unknown if !oom.has_account() => "hint.no-account",
        cause => return text(language, &format!("cause.{cause}")).to_owned(),
    };
    fill(language, key, &values(oom))
}

/// What the placeholders of the texts stand for.
fn values(oom: &DeviceOom) -> Vec<(&'static str, String)> {
    let device = oom.device.as_deref().unwrap_or("CUDA");
    let size = |bytes: Option<u64>| bytes.map_or_else(|| "?".to_owned(), binary);
    let share = oom.tried.zip(oom.total).map_or_else(|| "?".to_owned(), |(tried, total)| percent(tried, total));
    vec![
        ("tried", size(oom.tried)),
        ("total", size(oom.total)),
        ("free", size(oom.free)),
        ("allocated", size(oom.allocated)),
        ("reserved", size(oom.reserved)),
        ("unused", size(oom.unused)),
        ("limit", size(oom.limit)),
        ("others", size(oom.others.map(|others| others.bytes))),
        ("holder", oom.holder().map_or_else(|| "?".to_owned(), |(pid, _)| pid.to_string())),
        ("held", size(oom.holder().map(|(_, bytes)| bytes))),
        ("own", size(oom.reserved.map(|reserved| reserved + oom.non_pytorch.unwrap_or(0)))),
        ("used", size(oom.total.zip(oom.free).map(|(total, free)| total.saturating_sub(free)))),
        ("share", share),
        ("device", device.to_owned()),
        ("collectives", collectives(device).to_owned()),
        ("card", if ["NPU", "MLU", "HPU"].contains(&device) { device } else { "GPU" }.to_owned()),
    ]
}

/// The library that joins cards of this sort.
fn collectives(device: &str) -> &'static str {
    match device {
        "HIP" => "RCCL",
        "XPU" => "oneCCL",
        "NPU" | "HPU" => "HCCL",
        "MUSA" => "MCCL",
        "MLU" => "CNCL",
        _ => "NCCL",
    }
}

/// What stands over the account of the card.
pub fn head(oom: &DeviceOom, language: Language) -> String {
    fill(language, "table.head", &values(oom))
}

/// A share in whole percent.
pub fn percent(part: u64, whole: u64) -> String {
    format!("{:.0} %", 100.0 * part as f64 / whole.max(1) as f64)
}

/// The account of the card, row by row; the rows add up to the total exactly.
///
/// `None` when numbers are missing or contradict each other: a table that does not add up is worse than none.
pub fn rows(oom: &DeviceOom, language: Language) -> Option<Vec<Row>> {
    let (total, free, allocated, reserved) = (oom.total?, oom.free?, oom.allocated?, oom.reserved?);
    if !oom.contradictions.is_empty() {
        return None;
    }
    let unused = reserved.checked_sub(allocated)?;
    let rest = total.checked_sub(free)?.checked_sub(reserved)?;
    let mut rows = vec![("table.allocated", allocated), ("table.unused", unused)];
    match oom.non_pytorch.filter(|own| *own <= rest) {
        // What is left between numbers of two decimals is rounding, not another process.
        Some(own) if rest - own <= ROUNDING => rows.push(("table.non-pytorch", rest)),
        Some(own) => {
            rows.push(("table.non-pytorch", own));
            rows.push(("table.others", rest - own));
        }
        None => rows.push(("table.others-context", rest)),
    }
    rows.push(("table.free", free));
    let values = values(oom);
    let row = |(key, bytes): (&str, u64)| Row { label: fill(language, key, &values), bytes, bar: bar(bytes, total) };
    let mut out: Vec<Row> = rows.into_iter().map(row).collect();
    out.push(row(("table.total", total)));
    Some(out)
}

fn bar(bytes: u64, total: u64) -> String {
    let cells = (BAR as f64 * bytes as f64 / total.max(1) as f64).round() as usize;
    "█".repeat(cells.min(BAR))
}

/// The account as a Markdown table.
pub fn table(oom: &DeviceOom, language: Language) -> Option<String> {
    let rows = rows(oom, language)?;
    let total = oom.total?;
    let mut out = format!("| {} | | | |\n|:--|--:|--:|:--|\n", head(oom, language));
    for row in &rows {
        out.push_str(&format!("| {} | {} | {} | {} |\n", row.label, binary(row.bytes), percent(row.bytes, total), row.bar));
    }
    Some(out)
}

fn contradiction_key(contradiction: Contradiction) -> &'static str {
    match contradiction {
        Contradiction::AllocatedAboveTotal => "contradiction.allocated-above-total",
        Contradiction::ReservedAboveTotal => "contradiction.reserved-above-total",
        Contradiction::FreeAboveTotal => "contradiction.free-above-total",
        Contradiction::AllocatedAboveReserved => "contradiction.allocated-above-reserved",
        Contradiction::ReservedAndFreeAboveTotal => "contradiction.reserved-and-free-above-total",
        Contradiction::ProcessAboveTotal => "contradiction.process-above-total",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gib(x: f64) -> Option<u64> {
        Some((x * f64::from(1 << 30)) as u64)
    }

    #[test]
    fn the_rows_add_up_to_the_card() {
        let oom = DeviceOom {
            cause: Cause::Fragmentation,
            tried: gib(2.0),
            total: gib(79.15),
            free: gib(1.18),
            allocated: gib(70.9),
            reserved: gib(77.32),
            unused: gib(6.42),
            non_pytorch: gib(0.64),
            ..DeviceOom::default()
        };
        let rows = rows(&oom, Language::English).unwrap();
        let (total, parts) = rows.split_last().unwrap();
        assert_eq!(parts.iter().map(|row| row.bytes).sum::<u64>(), total.bytes);
        assert_eq!(parts[2].label, "this process: CUDA context, NCCL, libraries");
        let on = |device: &str| DeviceOom { device: Some(device.to_owned()), ..oom.clone() };
        assert_eq!(super::rows(&on("HIP"), Language::English).unwrap()[2].label, "this process: HIP context, RCCL, libraries");
        assert_eq!(
            (head(&on("HIP"), Language::English), head(&on("NPU"), Language::English)),
            ("on this GPU".to_owned(), "on this NPU".to_owned())
        );
        assert_eq!(
            verdict(&oom, Language::English)[0],
            "Fragmentation: 6.42 GiB is reserved by PyTorch and unused, more than the 2.00 GiB asked for, but no free block is large enough."
        );
    }

    #[test]
    fn no_table_is_drawn_of_contradicting_numbers() {
        let oom = DeviceOom {
            total: gib(8.0),
            free: gib(1.56),
            allocated: gib(6.32),
            reserved: gib(7.88),
            contradictions: vec![Contradiction::ReservedAndFreeAboveTotal],
            ..DeviceOom::default()
        };
        assert_eq!(table(&oom, Language::English), None);
        assert!(verdict(&oom, Language::English)[1].contains("7.88 GiB reserved and 1.56 GiB free"));
    }
}
