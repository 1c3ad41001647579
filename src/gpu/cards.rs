//! Cards that a plan is tried on: by name, by machine, by size, or the usual classes.

use super::{Found, Gpu};

/// A GPU to try.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Card {
    /// Id, or the class.
    pub id: String,
    /// Memory that PyTorch reports.
    pub memory: u64,
    /// Cards of the machine that was named.
    pub count: u64,
}

const GIB: f64 = (1u64 << 30) as f64;

/// Classes that are tried when no GPU is named: the smallest usual card of each.
const CLASSES: [(&str, f64); 5] =
    [("16 GB class", 14.56), ("24 GB class", 22.03), ("48 GB class", 44.35), ("80 GB class", 79.10), ("141 GB class", 139.80)];

/// The usual classes.
pub fn classes() -> Vec<Card> {
    CLASSES.iter().map(|(id, gib)| Card { id: (*id).to_owned(), memory: (gib * GIB) as u64, count: 1 }).collect()
}

/// A card by name, machine or size.
///
/// # Errors
/// Why the name stands for no card, or for several.
pub fn card(name: &str) -> Result<Card, String> {
    let of = |gpu: &Gpu, count: u64| {
        gpu.usable_bytes()
            .map(|(memory, _)| Card { id: gpu.id.clone(), memory, count })
            .ok_or_else(|| format!("{name}: its memory is not known; give a size: 24GiB"))
    };
    match super::catalogue().find(name) {
        Found::Gpu(gpu, count) => of(gpu, count),
        Found::Several(gpus) => {
            let ids: Vec<&str> = gpus.iter().map(|gpu| gpu.id.as_str()).collect();
            Err(format!("{name}: could be {}; name one of them", ids.join(", ")))
        }
        Found::Nothing => size(name).ok_or_else(|| format!("{name}: not known; `trainwreck gpus` lists all, or give a size: 24GiB")),
    }
}

/// A size with its unit: `24GiB`, `24GB`, `24564MiB`.
fn size(text: &str) -> Option<Card> {
    let units = [("gib", GIB), ("mib", GIB / 1024.0), ("gb", 1e9), ("mb", 1e6)];
    let lower = text.to_ascii_lowercase();
    let (number, unit) = units.iter().find_map(|(unit, bytes)| lower.strip_suffix(unit).map(|number| (number, *bytes)))?;
    let value: f64 = number.trim().parse().ok()?;
    let bytes = value * unit;
    if !(1.0..1e18).contains(&bytes) {
        return None;
    }
    Some(Card { id: text.to_owned(), memory: bytes as u64, count: 1 })
}
