//! Memory over time before a device out-of-memory error, from the step lines above it.
//!
//! Read only where such an error is the root cause, so that a healthy log costs nothing. Dialects: torchtitan
//! (`memory: 38.41GiB(48.5%)`), mmengine (`memory: 12345`, MiB), detectron2 (`max_mem: 2345M`), Ultralytics' table
//! (`6/100 6.61G`), Axolotl (`'memory/max_allocated (GiB)': 31.2`), plain `allocated=… reserved=…`. Ranks that take turns
//! make a zigzag, which is no growth.

use std::sync::LazyLock;

use regex::Regex;

use super::progress::Steps;
use super::record;
use super::units::{self, Unit};
use super::verdict::memory_series::steady_growth;
use crate::text::{clean, floor_border};

/// Lines read above the error.
const MOST_LINES: usize = 2000;
/// Bytes of a line that are read.
const MOST_BYTES: usize = 2048;
/// Live tensors that move by at most this share are level.
const LEVEL: f64 = 0.03;

/// Steady growth of memory up to the error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trend {
    /// Only what PyTorch holds grew, while live tensors stayed level: fragmentation.
    pub only_reserved: bool,
    /// First line of the series, 0-based.
    pub first_line: usize,
    /// Last line of the series, 0-based.
    pub last_line: usize,
    /// Bytes on the first line.
    pub first: u64,
    /// Bytes on the last line.
    pub last: u64,
    /// Bytes a step, where the lines say their steps.
    pub a_step: Option<u64>,
}

struct Forms {
    allocated: Regex,
    table: Regex,
    reserved: Regex,
}

static FORMS: LazyLock<Option<Forms>> = LazyLock::new(|| {
    const SIZE: &str = r#"(?: ?\((?P<label>GiB|MiB|GB|MB)\))?['"]?\s*[:=]\s*['"]?(?P<value>\d+(?:\.\d+)?)\s?(?P<unit>GiB|MiB|GB|MB|G|M)?"#;
    let named = |names: &str| Regex::new(&format!(r"(?i)\b(?:\w+/)?(?:{names}){SIZE}(?:\b|\()")).ok();
    Some(Forms {
        allocated: named(r"(?:max_|gpu_)*mem(?:ory)?(?:_(?:allocated|alloc|used|active))?|(?:max_)?allocated|max_(?:mem_)?active")?,
        table: Regex::new(r"^\s*\d+/\d+\s+(?P<value>\d+(?:\.\d+)?)(?P<unit>[GM])\s").ok()?,
        reserved: named(r"(?:max_|gpu_)*(?:mem(?:ory)?_)?reserved")?,
    })
});

/// A line's memory in bytes.
#[derive(Clone, Copy)]
struct Sample {
    line: usize,
    step: Option<u64>,
    bytes: f64,
}

/// The growth in the step lines of `[first, until)`; `None` when memory did not climb steadily to the end.
pub(super) fn trend(first: usize, until: usize, steps: &Steps<'_>) -> Option<Trend> {
    let forms = FORMS.as_ref()?;
    let (mut allocated, mut reserved) = (Vec::new(), Vec::new());
    for line in first.max(until.saturating_sub(MOST_LINES))..until {
        let Some(now) = steps.at(line) else { continue };
        let raw = steps.lines.line(line);
        let Some(segment) = clean::segments(&raw[..floor_border(&raw, MOST_BYTES)], 0).pop() else { continue };
        let text = record::read(segment).body.text;
        let sample = |bytes: f64| Sample { line, step: now.step, bytes };
        allocated.extend(size(&forms.allocated, &text).or_else(|| size(&forms.table, &text)).map(sample));
        reserved.extend(size(&forms.reserved, &text).map(sample));
    }
    grown(&allocated, false).or_else(|| if is_level(&allocated) { grown(&reserved, true) } else { None })
}

fn grown(series: &[Sample], only_reserved: bool) -> Option<Trend> {
    let bytes: Vec<f64> = series.iter().map(|sample| sample.bytes).collect();
    steady_growth(&bytes)?;
    let (first, last) = (series.first()?, series.last()?);
    let between = last.step.zip(first.step).and_then(|(last, first)| last.checked_sub(first)).filter(|&steps| steps > 0);
    Some(Trend {
        only_reserved,
        first_line: first.line,
        last_line: last.line,
        first: first.bytes as u64,
        last: last.bytes as u64,
        a_step: between.map(|steps| ((last.bytes - first.bytes) / steps as f64) as u64),
    })
}

fn is_level(series: &[Sample]) -> bool {
    let (least, most) =
        series.iter().fold((f64::INFINITY, 0.0), |(least, most), sample| (f64::min(least, sample.bytes), f64::max(most, sample.bytes)));
    !series.is_empty() && most <= (1.0 + LEVEL) * least
}

/// PyTorch's printers divide by 2^30 and 2^20 whatever they call it; a bare whole number is MiB.
fn size(form: &Regex, text: &str) -> Option<f64> {
    let found = form.captures(text)?;
    let value = found.name("value")?.as_str();
    let unit = found.name("unit").or_else(|| found.name("label")).map(|unit| unit.as_str());
    let unit = unit.or_else(|| (!value.contains('.')).then_some("MiB"))?;
    Some(units::read(&format!("{value} {unit}"), Some(Unit::Binary))?.0.bytes()? as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::StrLines;

    fn told(line: impl Fn(u64) -> String) -> Option<Trend> {
        let text: String = (0..12).map(|i| line(i) + "\n").collect();
        let lines = StrLines::new(&text);
        trend(0, 12, &Steps::new(&lines))
    }

    #[test]
    fn a_leak_in_each_dialect() {
        let titan =
            told(|i| format!("step: {}  loss:  4.1234  memory: {}.50GiB({}.00%)  tps: 7,000", 10 * (i + 1), 30 + i, 40 + i)).unwrap();
        assert_eq!((titan.a_step, titan.first, titan.only_reserved), (Some((1 << 30) / 10), 30 * (1 << 30) + (1 << 29), false));
        let mm =
            told(|i| format!("Iter(train) [ {}/1000]  lr: 1.0e-03  time: 0.3  memory: {}  loss: 0.41", i + 1, 9000 + 500 * i)).unwrap();
        assert_eq!((mm.first, mm.last), (9000 << 20, 14500 << 20));
        assert!(told(|i| format!("iter: {i}  total_loss: 1.5  lr: 0.02  max_mem: {}M", 9000 + 500 * i)).is_some());
        let reserved = told(|i| format!("step {i} loss 2.0 allocated=20.10GB reserved={}.0GB", 30 + i)).unwrap();
        assert!(reserved.only_reserved);
    }

    #[test]
    fn level_warm_up_and_sawtooth_are_silence() {
        assert_eq!(told(|i| format!("step: {i}  loss:  4.1234  memory: 30.50GiB(40.00%)")), None);
        assert_eq!(told(|i| format!("step: {i}  loss:  4.1  memory: {}.50GiB(40.00%)", 30 + 4 * i.min(2))), None);
        assert_eq!(told(|i| format!("step: {i}  loss:  4.1  memory: {}.50GiB(40.00%)", 30 + i % 3)), None);
        assert_eq!(told(|i| format!("step {i} loss 2.0 throughput {}", 100 + 50 * i)), None);
    }
}
