//! What a step line says of memory: each size with the statistic it is, by the words of its name.
//!
//! A name and a number behind it make a pair (`mem 41.3GB`, `max_mem: 2345M`, `'memory(GiB)': 41.2`); the words of the name
//! tell the statistic. Beside them stand the columns of YOLO's table. Every printer divides by 1024 whatever it calls the
//! unit, except Composer, whose `memory/…_mem` are units of 10^9.
//! Limits: a bare number counts only where its size leaves one reading; shares in percent are no sizes.

use std::ops::Range;
use std::sync::LazyLock;

use regex::{Captures, Regex};

use crate::log::rules::page::ascii;
use crate::log::units::{self, Unit};

/// Pairs of a line that are looked at.
const MOST_PAIRS: usize = 64;
const MIB: f64 = 1024.0 * 1024.0;
const GIB: f64 = 1024.0 * MIB;

/// What a size counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::log) enum Statistic {
    /// Memory in use now.
    Used,
    /// The most that was in use; may never fall by its nature.
    Peak,
    /// What the allocator holds, its cache too; seldom falls.
    Reserved,
    /// What is left.
    Free,
    /// Memory of the host.
    Host,
}

/// A size in a line.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::log) struct Reading {
    pub statistic: Statistic,
    /// Its name as it is printed.
    pub name: String,
    /// Where its name begins.
    pub start: usize,
    /// Where the value stands, its unit too.
    pub value: Range<usize>,
    pub bytes: f64,
    /// Size of the card, where it stands beside the value or follows from a percentage.
    pub total: Option<f64>,
}

struct Forms {
    pair: Regex,
    table: Regex,
    shape: Regex,
}

static FORMS: LazyLock<Option<Forms>> = LazyLock::new(|| {
    const PAIR: &str = concat!(
        r#"(?P<name>[A-Za-z][\w./-]*(?: [A-Za-z][\w./-]*){0,3})(?:\(\)| ?\((?P<label>[A-Za-z]+)\))?['"]?\s*(?:[:=]\s*)?['"]?"#,
        r"(?P<value>\d+(?:,\d{3})*(?:\.\d+)?(?:[eE][-+]?\d+)?)",
        r"(?:\s?(?P<unit>(?:[KMGTkmgt][iI]?[Bb]|[KMGT]|bytes|B)\b|%))?",
        r"(?:\s?/\s?(?P<total>\d+(?:\.\d+)?)\s?(?P<total_unit>[MGTmgt][iI]?[Bb]|[MGT])\b)?",
        r"(?:\s?\(\s?(?P<percent>\d+(?:\.\d+)?)\s?%)?",
    );
    // What a step works on: more of it needs more memory.
    const SHAPE: &str = concat!(
        r"(?i)(?:\b|_|/)(?:seq(?:uence)?_?len(?:gth)?s?|seqlen|seq|max_len(?:gth)?|(?:response|completion|prompt|context)s?_len(?:gth)?s?",
        r"|completions/mean_length|batch_?size|bsz|imgsz|resolution|image_size|length)",
        r#"(?:/mean)?['"]?\s*[:= ]\s*['"]?(?P<value>\d+(?:\.\d+)?)"#,
    );
    Some(Forms {
        pair: Regex::new(&ascii(PAIR, true)).ok()?,
        table: Regex::new(r"^\s*\d+/\d+\s+(?P<value>\d+(?:\.\d+)?)(?P<unit>[GM])\s").ok()?,
        shape: Regex::new(&ascii(SHAPE, true)).ok()?,
    })
});

/// Can a raw line hold a size of memory? Most lines cannot, and need no closer look.
pub(in crate::log) fn may_hold(raw: &str) -> bool {
    // The last one is the second column of YOLO's table.
    ["mem", "Mem", "MEM", "lloc", "eserved", "gb_free", "VRAM", "vram", "rss", "RSS", "G  "].iter().any(|words| raw.contains(words))
}

/// The sizes of a clean line.
pub(in crate::log) fn read(text: &str) -> Vec<Reading> {
    let Some(forms) = FORMS.as_ref() else { return Vec::new() };
    if let Some(found) = forms.table.captures(text) {
        let size = found.name("value").zip(found.name("unit"));
        return size.and_then(|(value, unit)| table_column(value.range(), value.as_str(), unit.as_str())).into_iter().collect();
    }
    // To find the pairs costs little, to take one apart much: only those are that may be about memory.
    let pairs = forms.pair.find_iter(text).take(MOST_PAIRS).filter(|found| may_hold(found.as_str()));
    pairs.filter_map(|found| pair(&forms.pair.captures(found.as_str())?, found.start())).collect()
}

/// The size of what the step works on, where the line says it: lengths, batch, resolution.
pub(in crate::log) fn shape(text: &str) -> Option<f64> {
    FORMS.as_ref()?.shape.captures(text)?.name("value")?.as_str().parse().ok()
}

fn table_column(range: Range<usize>, value: &str, unit: &str) -> Option<Reading> {
    let bytes = units::read(&format!("{value}{unit}"), Some(Unit::Binary))?.0.as_f64();
    let value = range.start..range.end + unit.len();
    Some(Reading { statistic: Statistic::Reserved, name: "GPU_mem".to_owned(), start: value.start, value, bytes, total: None })
}

/// A pair, taken apart; it stands at `at` in its line.
fn pair(found: &Captures<'_>, at: usize) -> Option<Reading> {
    let name = found.name("name")?;
    let words = words(name.as_str());
    let has = |any: &[&str]| words.iter().any(|word| any.contains(&word.as_str()));
    let is_memory = has(&["mem", "memory", "vram"]) || words.iter().any(|word| word.ends_with("mem"));
    let is_memory_by_unit = has(&["allocated", "alloc", "reserved", "cached", "rss"]);
    let is_free = has(&["free", "avail", "available"]) && (is_memory || has(&["gb", "gib", "mb", "mib"]));
    if !(is_memory || is_memory_by_unit || is_free) || has(&OTHER_WORDS) {
        return None;
    }
    let value = found.name("value")?;
    let unit = found.name("unit").or_else(|| found.name("total_unit")).or_else(|| found.name("label")).map(|unit| unit.as_str());
    let percent = found.name("percent").and_then(|percent| percent.as_str().parse::<f64>().ok());
    let statistic = if is_free {
        Statistic::Free
    } else if has(&["cpu", "ram", "rss", "host"]) && !has(&["gpu", "cuda"]) {
        Statistic::Host
    } else if has(&["reserved", "cached", "cache"]) || percent.is_some() || is_swift(name.as_str(), found) {
        // torchtitan alone prints a share behind: its number is the reserve.
        Statistic::Reserved
    } else if has(&["max", "peak"]) || words.iter().any(|word| word.starts_with("max")) {
        Statistic::Peak
    } else {
        Statistic::Used
    };
    let number = value.as_str();
    let bytes = match unit {
        Some("%") => return None,
        Some(unit) => units::read(&format!("{} {}", number, unit_word(unit)?), Some(Unit::Binary))?.0.as_f64(),
        None if !(is_memory || is_free) => return None,
        None => bare(number, name.as_str(), &words, statistic)?,
    };
    let total = found.name("total").zip(found.name("total_unit")).and_then(|(total, unit)| {
        Some(units::read(&format!("{} {}", total.as_str(), unit_word(unit.as_str())?), Some(Unit::Binary))?.0.as_f64())
    });
    let share = percent.filter(|percent| (1.0..=100.0).contains(percent)).map(|percent| bytes / percent * 100.0);
    let (start, value) = (at + name.start(), at + value.start()..at + found.name("unit").map_or(value.end(), |unit| unit.end()));
    (bytes > 0.0).then(|| Reading { statistic, name: name.as_str().to_owned(), start, value, bytes, total: total.or(share) })
}

/// Words of names that are about memory and are no size in use.
const OTHER_WORDS: [&str; 25] = [
    "inactive",
    "util",
    "utilization",
    "percent",
    "pct",
    "frac",
    "fraction",
    "ratio",
    "total",
    "limit",
    "capacity",
    "threshold",
    "budget",
    "delta",
    "bandwidth",
    "bw",
    "retries",
    "count",
    "num",
    "estimated",
    "theoretical",
    "disk",
    "hd",
    "swap",
    "kv",
];

/// ms-swift's `'memory(GiB)'` is the most that was reserved.
fn is_swift(name: &str, found: &Captures<'_>) -> bool {
    name == "memory" && found.name("label").is_some_and(|label| label.as_str() == "GiB")
}

/// A unit in the letters that sizes are read by.
fn unit_word(unit: &str) -> Option<&'static str> {
    Some(match unit.to_ascii_lowercase().as_str() {
        "kib" | "kb" | "k" => "KiB",
        "mib" | "mb" | "m" | "megabytes" => "MiB",
        "gib" | "gb" | "g" | "gigabytes" => "GiB",
        "tib" | "tb" | "t" => "TiB",
        "b" | "bytes" => "bytes",
        _ => return None,
    })
}

/// A number without a unit: its name may hold the unit, else its size must leave one reading.
fn bare(number: &str, name: &str, words: &[String], statistic: Statistic) -> Option<f64> {
    let value: f64 = number.replace(',', "").parse().ok()?;
    if let Some(unit) = words.iter().find_map(|word| unit_word(word).filter(|_| word.len() > 1)) {
        return Some(units::read(&format!("{value} {unit}"), Some(Unit::Binary))?.0.as_f64());
    }
    if number.contains('.') {
        let names_statistic = statistic != Statistic::Used || words.iter().any(|word| word.starts_with("alloc") || word == "active");
        return match value {
            // Composer's memory monitor.
            _ if name.contains("memory/") && name.ends_with("_mem") => Some(value * 1e9),
            _ if !names_statistic => None,
            x if (1.5..1024.0).contains(&x) => Some(x * GIB),
            x if (1024.0..4e6).contains(&x) => Some(x * MIB),
            _ => None,
        };
    }
    match value {
        x if (256.0..4e6).contains(&x) => Some(x * MIB),
        x if x >= 256.0 * MIB => Some(x),
        _ => None,
    }
}

/// The lower-case words of a name: `MaxMemAllocated`, `gpu_mem`, `memory/max_active`.
fn words(name: &str) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    let mut last = ' ';
    for c in name.chars() {
        if !c.is_ascii_alphanumeric() {
            last = ' ';
            continue;
        }
        if last == ' ' || (c.is_ascii_uppercase() && last.is_ascii_lowercase()) {
            out.push(String::new());
        }
        if let Some(word) = out.last_mut() {
            word.push(c.to_ascii_lowercase());
        }
        last = c;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_trainer_prints_its_memory() {
        use Statistic::{Free, Host, Peak, Reserved, Used};
        let cases = [
            ("step 120 loss 2.1 mem 41.3GB", Used, 41.3 * GIB),
            ("step: 12  loss:  4.1234  grad_norm:  1.0  memory: 45.10GiB(57.00%)  tps: 7,000", Reserved, 45.1 * GIB),
            ("eta: 0:12  iter: 19  total_loss: 1.2  lr: 0.02  max_mem: 2345M", Peak, 2345.0 * MIB),
            ("Epoch(train) [1][10/100]  lr: 1.0e-03  time: 0.3  memory: 9000  loss: 0.41", Used, 9000.0 * MIB),
            ("Epoch: [0]  [  20/1251]  loss: 6.93 (6.95)  data: 0.0021  max mem: 10234", Peak, 10234.0 * MIB),
            ("Train: [0/300][10/1251]\teta 0:12:34 lr 0.000001\tloss 6.9123 (6.93)\tmem 10234MB", Used, 10234.0 * MIB),
            ("epoch 001:   10 / 5000 loss=9.1, ppl=550, num_updates=10, gnorm=2.1, gb_free=12.3, wall=8", Free, 12.3 * GIB),
            ("      6/100      6.61G      1.194      1.294        32        640: 100%", Reserved, 6.61 * GIB),
            ("{'loss': 1.2, 'memory/max_allocated (GiB)': 31.2, 'epoch': 0.1}", Peak, 31.2 * GIB),
            ("{'loss': 1.2, 'memory(GiB)': 41.2, 'epoch': 0.1}", Reserved, 41.2 * GIB),
            ("{\"step\": 10, \"loss\": 1.2, \"memory/allocated\": 12.5}", Used, 12.5 * GIB),
            ("iteration 10/ 100 | mem-max-allocated-bytes: 42949672960 | lm loss: 1.9E+00", Peak, 40.0 * GIB),
            ("epoch=0/micro_step=20/global_step=10, CurrSamplesPerSec=9.1, MemAllocated=30.2GB", Used, 30.2 * GIB),
            ("Step 12 | loss:1.2 lr:2e-05 peak_memory_active:41.2", Peak, 41.2 * GIB),
            ("step:12 - actor/pg_loss:0.01 - perf/max_memory_allocated_gb:41.5", Peak, 41.5 * GIB),
            ("step:12 - actor/pg_loss:0.01 - perf/cpu_memory_used_gb:101.5", Host, 101.5 * GIB),
            ("global_step: 10, loss: 2.1, max_mem_reserved: 8000 MB", Reserved, 8000.0 * MIB),
            ("iteration: 12 / 1000 | lm_loss: 10.5 | cuda_memory_allocated: 11.3G", Used, 11.3 * GIB),
            ("\t Train memory/current_allocated_mem: 6.5", Used, 6.5e9),
            ("step 10 loss 2.1 | mem 41.0/80.0GB", Used, 41.0 * GIB),
            ("step 10 loss 2.1 torch.cuda.memory_allocated()=42949672960", Used, 40.0 * GIB),
        ];
        for (line, statistic, bytes) in cases {
            let all = read(line);
            assert_eq!(all.len(), 1, "{line}: {all:?}");
            assert_eq!((all[0].statistic, (all[0].bytes - bytes).abs() < 1.0), (statistic, true), "{line}: {all:?}");
            assert!(may_hold(line), "{line}");
        }
        assert_eq!(read("memory: 40.00GiB(50.00%)")[0].total, Some(80.0 * GIB));
        assert_eq!(read("mem 41.0/80.0GB")[0].total, Some(80.0 * GIB));
    }

    #[test]
    fn what_is_no_size_in_use_is_no_reading() {
        for line in [
            "step 10 loss 2.1 gpu_mem 57%",
            "step 10 loss 2.1 mem_util: 57.3",
            "step 10 members 4000 loss 2.1",
            "CPUs allocated: 16 loss 2.0",
            "GPU memory total: 80.0GB",
            "hd_total_memory_tb: 1.2T",
            "number of memory retries: 1000",
            "remember 4000 MB of text",
        ] {
            assert_eq!(read(line), [], "{line}");
        }
    }

    #[test]
    fn what_a_step_works_on() {
        assert_eq!(shape("step 3 loss 2.1 seq_len 2048 mem 41.3GB"), Some(2048.0));
        assert_eq!(shape("{'loss': 0.1, 'completions/mean_length': 312.5}"), Some(312.5));
        assert_eq!(shape("step 3 loss 2.1 mem 41.3GB"), None);
    }
}
