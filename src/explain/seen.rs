//! The card that logs speak of: a total in their memory errors names a size class, hardly ever one card.

use super::texts::{Language, fill};
use crate::gpu;
use crate::log::Analysis;
use crate::log::units::binary;
use crate::log::vocabulary::Kind;

/// Totals that are this close in share belong to one kind of card, whatever its name.
const SAME: f64 = 0.02;
/// Totals that are collected of one log.
const MOST_TOTALS: usize = 16;

/// A card of which a log gave the total.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Card {
    /// Its size class: `24 GB class`; where no class can be named, its total.
    pub name: String,
    /// The smallest total that was seen, in bytes, as the runtime reports it.
    pub memory: u64,
}

/// The distinct totals of device memory that a log's memory errors print.
pub fn totals(analysis: &Analysis) -> Vec<u64> {
    let mut out: Vec<u64> = Vec::new();
    for finding in analysis.findings.iter().filter(|finding| finding.kind == Kind::Oom) {
        let Some(total) = finding.bytes("total").filter(|total| !out.contains(total)) else { continue };
        // A total that belongs to no card was not read right.
        let known = gpu::recognise(total);
        if !known.seen.is_empty() || !known.possible.is_empty() {
            out.push(total);
        }
        if out.len() == MOST_TOTALS {
            break;
        }
    }
    out.sort_unstable();
    out
}

/// The card behind all these totals; none where they speak of different ones.
pub fn card(totals: &[u64]) -> Option<Card> {
    let (memory, largest) = (*totals.iter().min()?, *totals.iter().max()?);
    let classes: Vec<Option<u64>> = totals.iter().map(|&total| gpu::recognise(total).class_gb).collect();
    let first = classes.first().copied().flatten();
    let agree = classes.iter().all(|class| *class == first);
    let near = largest as f64 <= memory as f64 * (1.0 + SAME);
    let name = match first.filter(|_| agree) {
        Some(gb) => fill(Language::English, "seen.class", &[("gb", gb.to_string())]),
        None if near => fill(Language::English, "seen.total", &[("total", binary(memory))]),
        None => return None,
    };
    Some(Card { name, memory })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(gib: &[f64]) -> Option<String> {
        let totals: Vec<u64> = gib.iter().map(|x| (x * f64::from(1 << 30)) as u64).collect();
        card(&totals).map(|card| card.name)
    }

    #[test]
    fn a_total_names_a_class_and_two_classes_name_none() {
        assert_eq!(name(&[23.64]).as_deref(), Some("24 GB class"));
        assert_eq!(name(&[79.15, 79.25]).as_deref(), Some("80 GB class"));
        assert_eq!(name(&[23.64, 79.15]), None);
        assert_eq!(name(&[]), None);
    }
}
