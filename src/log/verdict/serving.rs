//! A serving engine's start-up arithmetic: what fits instead, and who holds the memory that is missing.
//!
//! An engine fills the card up to a share (`--gpu-memory-utilization`); the KV cache gets what weights, activations and
//! other memory leave of it. The messages print some of the terms; the answers that a reader needs follow from them and
//! are added to the numbers of the finding, so that a page's prose can name them. Lengths are rounded down to whole
//! blocks; the proportion of length and bytes is exact for plain attention and too careful for other layers.

use crate::log::finding::Number;
use crate::log::units::{self, Unit, Value};
use crate::log::vocabulary::Cause;

/// Tokens of a block of the KV cache.
const BLOCK: f64 = 16.0;
/// Memory of others counts from this share of the card ...
const OTHERS_SHARE: f64 = 0.15;
/// ... and this many bytes on; a desktop or a CUDA context is smaller.
const OTHERS_BYTES: u64 = 3 << 29;

/// One request does not fit: adds `bytes_per_token`, `missing` and `largest_model_len` where the message allows it.
pub fn kv_cache(numbers: &mut Vec<Number>) {
    let value = |name: &str| number(numbers, name).map(|n| n.value.as_f64()).filter(|x| *x > 0.0);
    let (needed, available, length) = (value("needed"), value("available"), value("max_seq_len"));
    let mut added = Vec::new();
    if let (Some(needed), Some(length)) = (needed, length) {
        added.push(bytes("bytes_per_token", (needed / length) as u64));
    }
    if let (Some(needed), Some(available)) = (needed, available) {
        added.push(bytes("missing", (needed - available).max(0.0) as u64));
    }
    let by_proportion = || Some(length? * available? / needed?);
    let largest = value("estimated_max_model_len").or_else(|| value("kv_tokens")).or_else(by_proportion);
    if let Some(tokens) = largest.map(|tokens| (tokens / BLOCK).floor() * BLOCK).filter(|tokens| *tokens >= BLOCK) {
        let value = Value::Int(tokens as i64);
        added.push(Number { name: "largest_model_len".to_owned(), value, unit: Unit::Count, text: format!("{tokens}"), span: None });
    }
    numbers.extend(added);
}

/// The card is not free enough for the share: adds `held` and `largest_utilization`, and says whether others hold it.
pub fn startup_memory(numbers: &mut Vec<Number>) -> Option<Cause> {
    let size = |name: &str| number(numbers, name).and_then(|n| n.value.bytes());
    let (total, free) = (size("total")?, size("free")?);
    if free > total || total == 0 {
        return None;
    }
    let held = total - free;
    let share = (free as f64 / total as f64 * 100.0 - 0.5).floor().max(0.0) / 100.0;
    numbers.push(bytes("held", held));
    numbers.push(Number {
        name: "largest_utilization".to_owned(),
        value: Value::Float(share),
        unit: Unit::Count,
        text: format!("{share:.2}"),
        span: None,
    });
    let others = held >= OTHERS_BYTES && held as f64 >= OTHERS_SHARE * total as f64;
    Some(if others { Cause::OtherProcess } else { Cause::MemoryLimit })
}

fn number<'n>(numbers: &'n [Number], name: &str) -> Option<&'n Number> {
    numbers.iter().find(|number| number.name == name)
}

fn bytes(name: &str, bytes: u64) -> Number {
    Number { name: name.to_owned(), value: Value::Bytes(bytes), unit: Unit::Bytes, text: units::binary(bytes), span: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(name: &str, n: i64) -> Number {
        Number { name: name.to_owned(), value: Value::Int(n), unit: Unit::Count, text: n.to_string(), span: None }
    }

    fn get(numbers: &[Number], name: &str) -> f64 {
        number(numbers, name).map_or(f64::NAN, |n| n.value.as_f64())
    }

    #[test]
    fn a_length_that_fits_follows_from_the_proportion() {
        let mut numbers = vec![bytes("needed", 24 << 30), bytes("available", 6 << 30), count("max_seq_len", 1 << 20)];
        kv_cache(&mut numbers);
        assert_eq!(get(&numbers, "bytes_per_token"), 24.0 * 1024.0);
        assert_eq!(get(&numbers, "largest_model_len"), f64::from(1 << 18));
        assert_eq!(get(&numbers, "missing"), 18.0 * f64::from(1 << 30));
    }

    #[test]
    fn what_the_engine_estimates_or_holds_comes_first() {
        let mut numbers = vec![count("max_seq_len", 4096), count("kv_tokens", 3664)];
        kv_cache(&mut numbers);
        assert_eq!(get(&numbers, "largest_model_len"), 3664.0);
        let mut numbers = vec![count("max_seq_len", 4096)];
        kv_cache(&mut numbers);
        assert_eq!(numbers.len(), 1);
    }

    #[test]
    fn a_desktop_is_told_from_another_process() {
        let card = |free: f64, total: f64| {
            let size = |x: f64| (x * f64::from(1 << 30)) as u64;
            let mut numbers = vec![bytes("free", size(free)), bytes("total", size(total))];
            (startup_memory(&mut numbers), get(&numbers, "largest_utilization"))
        };
        assert_eq!(card(22.76, 24.0), (Some(Cause::MemoryLimit), 0.94));
        assert_eq!(card(59.32, 79.15), (Some(Cause::OtherProcess), 0.74));
        assert_eq!(card(3.22, 4.0).0, Some(Cause::MemoryLimit));
        assert_eq!(card(5.0, 4.0).0, None);
    }
}
