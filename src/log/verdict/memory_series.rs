//! Memory over time and over cards: growth that never falls, one card far above the others.
//!
//! A page captures the rows of a table as one text, or a block reads them; without growth or imbalance there is no finding
//! at all: a healthy series is silence. Growth during warm-up (it flattens) and a sawtooth (it falls) are not
//! growth.

use crate::log::finding::Number;
use crate::log::units::{self, Unit, Value};

/// A series needs this many samples.
const LEAST_SAMPLES: usize = 8;
/// A short series of this many speaks when its steps are equal.
const FEWEST_SAMPLES: usize = 5;
/// Steps that may stay level or fall a little, as a share.
const LEVEL_SHARE: f64 = 0.10;
/// A fall of more than this share of the rise so far ends the suspicion.
const FALL_SHARE: f64 = 0.05;
/// The second half must bring at least this share of the rise: warm-up flattens.
const LATE_SHARE: f64 = 0.35;
/// A rise below this is noise.
const LEAST_RISE: f64 = 256.0 * 1024.0 * 1024.0;

/// A reserve that climbs by less than this over the whole series is no fragmentation ...
const LEAST_FRAGMENTS: f64 = 1024.0 * 1024.0 * 1024.0;
/// ... and neither is one that climbs in fewer steps.
const LEAST_STEPS: usize = 4;

/// A longer series is cut into this many parts.
const MOST_SAMPLES: usize = 40;

/// A card works from this utilisation in percent on ...
const BUSY_PERCENT: f64 = 30.0;
/// ... in at least this many samples ...
const LEAST_BUSY: usize = 3;
/// ... and does nothing up to this one ...
const IDLE_PERCENT: f64 = 1.0;
/// ... for at least this many samples at the end.
const LEAST_IDLE: usize = 10;
/// It still holds this share of what it held while it worked.
const HELD_SHARE: f64 = 0.90;

/// Cards needed to speak of imbalance.
const LEAST_CARDS: usize = 3;
/// The fullest card against the median of the others.
const ABOVE_OTHERS: f64 = 1.25;
/// The difference as a share of the card.
const DIFFERENCE_SHARE: f64 = 0.10;
/// The fullest card must be filled at least so far.
const FULLEST_SHARE: f64 = 0.60;

/// Growth in lines that print a size behind the same words: `memory use: 3402.12MB`. Other lines may stand between them.
pub fn line_growth(rows: &str, numbers: &mut Vec<Number>) -> Option<()> {
    let series: Vec<f64> = rows.lines().filter_map(size_behind_words).collect();
    add_growth(&series, None, numbers)
}

fn size_behind_words(row: &str) -> Option<f64> {
    let at = row.to_ascii_lowercase().find("memory us")?;
    let text = row[at..].split_once(':')?.1.trim_start();
    let digits = text.find(|c: char| !(c.is_ascii_digit() || c == '.'))?;
    let unit = text[digits..].trim_start();
    let letters = unit.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(unit.len());
    size(&format!("{} {}", &text[..digits], &unit[..letters]), None)
}

fn size(text: &str, unit: Option<Unit>) -> Option<f64> {
    let labelled = text.trim().ends_with(|c: char| c.is_ascii_alphabetic());
    let unit = if labelled { Some(Unit::Size) } else { unit };
    Some(units::read(text, unit)?.0.bytes()? as f64)
}

/// Judges a series of bytes in use; `free` is what was left at its end.
///
/// Adds `used`, `growth` (bytes a sample), `free` and `samples_left` to the numbers. `None` without steady growth.
pub fn add_growth(series: &[f64], free: Option<f64>, numbers: &mut Vec<Number>) -> Option<()> {
    // A long series is judged by the floor of each part, so that plateaus between two steps are no standstill.
    let part = series.len().div_ceil(MOST_SAMPLES).max(1);
    let floors: Vec<f64> = series.chunks_exact(part).map(|chunk| chunk.iter().copied().fold(f64::INFINITY, f64::min)).collect();
    let growth = steady_growth(&floors)? / part as f64;
    let last = *series.last()?;
    let mut push = |name: &str, bytes: f64| {
        numbers.push(Number {
            name: name.to_owned(),
            value: Value::Bytes(bytes as u64),
            unit: Unit::Bytes,
            text: units::binary(bytes as u64),
            span: None,
        });
    };
    push("used", last);
    push("growth", growth);
    if let Some(free) = free.filter(|free| *free >= 0.0) {
        push("free", free);
        let left = (free / growth).floor();
        let value = Value::Int(left as i64);
        numbers.push(Number { name: "samples_left".to_owned(), value, unit: Unit::Count, text: format!("{left}"), span: None });
    }
    Some(())
}

/// Samples at the end of a series in which a card holds its memory and does nothing, after it had worked.
///
/// `None` when it never worked, gave its memory back, works still, or has paused as long before and gone on: a server
/// between requests, an evaluation between epochs.
pub fn stalled(busy_percent: &[f64], used: &[f64]) -> Option<usize> {
    let is_idle = |x: &f64| *x <= IDLE_PERCENT;
    let idle = busy_percent.iter().rev().take_while(|x| is_idle(x)).count();
    let (worked, _) = busy_percent.split_at(busy_percent.len() - idle);
    let busy = worked.iter().filter(|x| **x >= BUSY_PERCENT).count();
    if idle < LEAST_IDLE || busy < LEAST_BUSY || used.len() != busy_percent.len() {
        return None;
    }
    let longest_pause = worked.split(|x| !is_idle(x)).skip(1).map(<[f64]>::len).max().unwrap_or(0);
    let mut while_busy: Vec<f64> = worked.iter().zip(used).filter(|(x, _)| **x >= BUSY_PERCENT).map(|(_, used)| *used).collect();
    while_busy.sort_by(f64::total_cmp);
    let usual = *while_busy.get(while_busy.len() / 2)?;
    let holds = used[worked.len()..].iter().all(|now| *now >= HELD_SHARE * usual);
    (holds && usual > 0.0 && idle >= 2 * longest_pause).then_some(idle)
}

/// The rise of the reserve over a series in which the live tensors stay level: pieces that fit no request pile up.
///
/// `None` when the reserve levels off, falls, or follows the tensors.
pub fn fragmenting(allocated: &[f64], reserved: &[f64]) -> Option<f64> {
    if reserved.len() < LEAST_SAMPLES || allocated.len() != reserved.len() {
        return None;
    }
    let (first, last, middle) = (*reserved.first()?, *reserved.last()?, reserved[reserved.len() / 2]);
    let rise = last - first;
    let mut high = first;
    let falls = reserved.iter().any(|now| {
        high = f64::max(high, *now);
        high - now > FALL_SHARE * rise
    });
    let steps = reserved.windows(2).filter(|pair| pair[1] > pair[0]).count();
    let (least, most) = allocated.iter().fold((f64::INFINITY, 0.0), |(least, most), &now| (f64::min(least, now), f64::max(most, now)));
    let level = most - least <= LEVEL_SHARE * rise;
    let climbs = rise >= LEAST_FRAGMENTS && rise >= LEVEL_SHARE * first && last - middle >= LATE_SHARE * rise && steps >= LEAST_STEPS;
    (climbs && level && !falls).then_some(rise)
}

/// Bytes a sample, when a series climbs steadily to its end.
pub(in crate::log) fn steady_growth(series: &[f64]) -> Option<f64> {
    if series.len() < LEAST_SAMPLES && !is_even_climb(series) {
        return None;
    }
    let rise = series.last()? - series.first()?;
    let middle = series[series.len() / 2];
    let late = series.last()? - middle;
    if rise < LEAST_RISE || late < LATE_SHARE * rise {
        return None;
    }
    let mut high = series[0];
    let mut level = 0;
    for pair in series.windows(2) {
        high = f64::max(high, pair[1]);
        if high - pair[1] > FALL_SHARE * rise {
            return None;
        }
        level += usize::from(pair[1] <= pair[0]);
    }
    let steps = (series.len() - 1) as f64;
    (level as f64 <= LEVEL_SHARE * steps).then_some(rise / steps)
}

/// A short series speaks only when it climbs by equal steps to half as much again.
fn is_even_climb(series: &[f64]) -> bool {
    let steps: Vec<f64> = series.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let (least, most) = steps.iter().fold((f64::INFINITY, 0.0), |(least, most), &step| (f64::min(least, step), f64::max(most, step)));
    steps.len() + 1 >= FEWEST_SAMPLES && least > 0.0 && most <= 2.0 * least && series[series.len() - 1] >= 1.5 * series[0]
}

/// Imbalance in rows like `GPU 0: memory allocated 28.6 GB / 32 GB`.
///
/// Adds `gpu`, `used`, `total` and `others` (median of the other cards). `None` when the cards are alike.
pub fn imbalance(rows: &str, numbers: &mut Vec<Number>) -> Option<()> {
    let cards: Vec<(f64, f64, f64)> = rows.lines().map_while(card).collect();
    if cards.len() < LEAST_CARDS {
        return None;
    }
    let fullest = cards.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let mut others: Vec<f64> = cards.iter().filter(|card| card.0 != fullest.0).map(|card| card.1).collect();
    others.sort_by(f64::total_cmp);
    let median = *others.get(others.len() / 2)?;
    let (gpu, used, total) = fullest;
    if used < ABOVE_OTHERS * median || used - median < DIFFERENCE_SHARE * total || used < FULLEST_SHARE * total {
        return None;
    }
    numbers.push(Number { name: "gpu".to_owned(), value: Value::Int(gpu as i64), unit: Unit::Index, text: format!("{gpu}"), span: None });
    for (name, bytes) in [("used", used), ("total", total), ("others", median)] {
        let value = Value::Bytes(bytes as u64);
        numbers.push(Number { name: name.to_owned(), value, unit: Unit::Bytes, text: units::binary(bytes as u64), span: None });
    }
    Some(())
}

/// (card, used, total) of a row.
fn card(row: &str) -> Option<(f64, f64, f64)> {
    let (head, total) = row.split_once('/')?;
    let (name, text) = head.split_once(':')?;
    let gpu = name.trim().rsplit([' ', '#']).next()?.parse().ok()?;
    let start = text.find(|c: char| c.is_ascii_digit())?;
    let end = total.trim_start().find([',', ';', '(', '|']).map_or(total.len(), |at| at + (total.len() - total.trim_start().len()));
    // PyTorch's scripts print GiB and call it GB: a card of 32 GB has 32 GiB.
    let binary = |text: &str| Some(units::read(text, Some(Unit::Binary))?.0.bytes()? as f64);
    Some((gpu, binary(&text[start..])?, binary(&total[..end])?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mib(series: &[f64]) -> Option<f64> {
        steady_growth(&series.iter().map(|x| x * 1048576.0).collect::<Vec<_>>())
    }

    #[test]
    fn growth_is_steady_and_goes_on() {
        let leak: Vec<f64> = (0..20).map(|i| 12000.0 + 180.0 * f64::from(i)).collect();
        assert_eq!(mib(&leak), Some(180.0 * 1048576.0));
        let warm_up: Vec<f64> = (0..20).map(|i| 12000.0 + 2000.0 * (1.0 - (-f64::from(i)).exp())).collect();
        assert_eq!(mib(&warm_up), None);
        let sawtooth: Vec<f64> = (0..20).map(|i| 12000.0 + 400.0 * f64::from(i % 5) + 30.0 * f64::from(i)).collect();
        assert_eq!(mib(&sawtooth), None);
        assert_eq!(mib(&[1.0, 900.0, 1800.0]), None);
    }

    #[test]
    fn plateaus_of_a_long_series_are_no_standstill() {
        let leak: Vec<f64> = (0..400).map(|i| (12000.0 + 180.0 * f64::from(i / 10)) * 1048576.0).collect();
        let mut numbers = Vec::new();
        assert_eq!(add_growth(&leak, None, &mut numbers), Some(()));
        assert!((numbers[1].value.as_f64() / 1048576.0 - 18.0).abs() < 0.5);
        let level: Vec<f64> = (0..400).map(|i| (12000.0 + 900.0 * f64::from(i % 3)) * 1048576.0).collect();
        assert_eq!(add_growth(&level, None, &mut numbers), None);
    }

    #[test]
    fn a_card_that_worked_and_stands_still_is_stalled() {
        let held = [30e9; 40];
        let mut busy = vec![97.0; 25];
        busy.extend([0.0; 15]);
        assert_eq!(stalled(&busy, &held), Some(15));
        let mut freed = held;
        freed[30..].fill(1e9);
        assert_eq!(stalled(&busy, &freed), None);
        assert_eq!(stalled(&[0.0; 40], &held), None);
        let mut bursts = busy.clone();
        bursts[5..14].fill(0.0);
        assert_eq!(stalled(&bursts, &held), None);
    }

    #[test]
    fn a_reserve_that_climbs_over_level_tensors_is_fragmentation() {
        let gib = 1024.0 * 1024.0 * 1024.0;
        let reserved: Vec<f64> = (0..20).map(|i| (20.0 + 0.5 * f64::from(i / 2)) * gib).collect();
        assert_eq!(fragmenting(&[18.0 * gib; 20], &reserved), Some(4.5 * gib));
        let tensors: Vec<f64> = reserved.iter().map(|x| x - 2.0 * gib).collect();
        assert_eq!(fragmenting(&tensors, &reserved), None);
        let warm_up: Vec<f64> = (0..20).map(|i| f64::from(i.min(6)).mul_add(0.8, 20.0) * gib).collect();
        assert_eq!(fragmenting(&[18.0 * gib; 20], &warm_up), None);
    }

    #[test]
    fn one_card_far_above_the_others() {
        let rows = "GPU 0: memory allocated 28.6 GB / 32 GB\nGPU 1: memory allocated 22.4 GB / 32 GB\nGPU 2: memory allocated 20.1 GB / 32 GB\nGPU 3: memory allocated 19.2 GB / 32 GB\n";
        let mut numbers = Vec::new();
        assert_eq!(imbalance(rows, &mut numbers), Some(()));
        assert_eq!(numbers[0].value, Value::Int(0));
        assert_eq!(imbalance(&rows.replace("28.6", "22.9"), &mut numbers), None);
    }
}
