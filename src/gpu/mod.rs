//! The catalogue of accelerators: memory, names, cloud instances, and recognition from a total.
//!
//! The data stands in `catalogue.toml`, with its sources, and is read once, on first use. Memory is
//! what PyTorch or the driver reports, never the size as sold: a driver keeps a part on Linux, error
//! correction takes a sixteenth on some cards, and vendors count in different units. A total in a
//! log names a set of cards, rarely one: see [`recognise`].

pub mod cards;

use std::sync::LazyLock;

use serde::Deserialize;

const MIB: u64 = 1 << 20;
const GIB: f64 = (1u64 << 30) as f64;

/// One kind of accelerator.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Gpu {
    /// Short name, unique: `rtx-4090`.
    pub id: String,
    /// Product string of the vendor's tool.
    pub name: String,
    /// Other names, lower case.
    #[serde(default)]
    pub aliases: Vec<String>,
    /// Vendor, lower case.
    pub vendor: String,
    /// Architecture, lower case.
    pub architecture: String,
    /// Compute capability of NVIDIA cards: `8.9`.
    pub compute_capability: Option<String>,
    /// `datacenter`, `consumer`, `workstation`, `laptop` ...
    pub kind: String,
    /// Size as sold.
    pub memory_gb: Option<f64>,
    /// Sizes as sold where there are several.
    #[serde(default)]
    pub memory_options_gb: Vec<f64>,
    /// Totals that the vendor's tool shows, in MiB; the usual state first.
    #[serde(default)]
    pub memory_total_mib: Vec<f64>,
    /// The same with error correction on.
    #[serde(default)]
    memory_total_mib_ecc_on: Numbers,
    /// The same with error correction off.
    #[serde(default)]
    memory_total_mib_ecc_off: Numbers,
    /// Totals that the runtime reported, in MiB.
    #[serde(default)]
    pub torch_total_mib: Vec<f64>,
    /// Totals as PyTorch prints them on Linux, in GiB.
    #[serde(default)]
    pub torch_total_gib: Vec<f64>,
    /// Totals as PyTorch prints them where nothing is reserved, in GiB.
    #[serde(default)]
    pub torch_total_gib_full: Vec<f64>,
    /// Least and most that the driver was seen to keep on Linux, in MiB.
    #[serde(default)]
    pub driver_reserved_mib: Vec<f64>,
    /// Memory bandwidth in GB/s.
    pub bandwidth_gb_s: Option<f64>,
    /// Whether matrix units compute in bf16.
    pub bf16: Option<bool>,
    /// Whether matrix units compute in fp8.
    pub fp8: Option<bool>,
    /// Slices of the card that MIG offers.
    #[serde(default)]
    pub mig: Vec<Mig>,
}

/// A slice of a card.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Mig {
    /// Name of the profile: `1g.10gb`.
    pub profile: String,
    /// Its memory as PyTorch prints it, in GiB.
    pub memory_gib: Option<f64>,
}

/// A type of cloud machine.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Instance {
    /// Cloud.
    pub provider: String,
    /// Name of the type: `p4d.24xlarge`.
    #[serde(rename = "type")]
    pub name: String,
    /// Its accelerator.
    pub gpu: Option<String>,
    /// Accelerators it may have, where the cloud does not say.
    #[serde(default)]
    pub gpu_candidates: Vec<String>,
    /// How many.
    pub gpu_count: Option<u64>,
    /// Memory of the slice of a shared accelerator, in GB.
    pub slice_gb: Option<f64>,
}

/// A number or a list of numbers.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(untagged)]
enum Numbers {
    #[default]
    None,
    One(f64),
    Many(Vec<f64>),
}

impl Numbers {
    fn as_slice(&self) -> &[f64] {
        match self {
            Numbers::None => &[],
            Numbers::One(number) => std::slice::from_ref(number),
            Numbers::Many(numbers) => numbers,
        }
    }
}

#[derive(Debug, Default, Deserialize)]
struct AliasGroup {
    alias: String,
    candidates: Vec<String>,
}

/// The catalogue.
#[derive(Debug, Default, Deserialize)]
pub struct Catalogue {
    /// Accelerators.
    #[serde(rename = "gpu")]
    pub gpus: Vec<Gpu>,
    #[serde(rename = "alias_group", default)]
    alias_groups: Vec<AliasGroup>,
    /// Cloud machines.
    #[serde(rename = "instance", default)]
    pub instances: Vec<Instance>,
}

/// Where a usable total comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Basis {
    /// The runtime was seen to report it.
    Reported,
    /// The total of the vendor's tool, less what drivers keep on Linux.
    Tool,
    /// The size as sold, less a margin.
    Nominal,
}

/// What a name stands for.
#[derive(Debug, Clone, PartialEq)]
pub enum Found<'a> {
    /// One accelerator, so many of them.
    Gpu(&'a Gpu, u64),
    /// Several accelerators share the name.
    Several(Vec<&'a Gpu>),
    /// Nothing.
    Nothing,
}

/// The catalogue, read on first use.
pub fn catalogue() -> &'static Catalogue {
    static CATALOGUE: LazyLock<Catalogue> = LazyLock::new(|| toml::from_str(include_str!("catalogue.toml")).unwrap_or_default());
    &CATALOGUE
}

impl Gpu {
    /// Totals that the vendor's tool may show, in MiB, in any state of error correction.
    pub fn tool_totals_mib(&self) -> impl Iterator<Item = f64> + '_ {
        let states = [self.memory_total_mib_ecc_on.as_slice(), self.memory_total_mib_ecc_off.as_slice()];
        self.memory_total_mib.iter().copied().chain(states.into_iter().flatten().copied())
    }

    /// Bytes that PyTorch reports as total on Linux, and how far that is known.
    pub fn usable_bytes(&self) -> Option<(u64, Basis)> {
        let least = |numbers: &[f64]| numbers.iter().copied().reduce(f64::min);
        if let Some(gib) = least(&self.torch_total_gib) {
            // The raw total that prints so, where it was seen.
            let raw = self.torch_total_mib.iter().find(|mib| (**mib / 1024.0 - gib).abs() < 0.011);
            return Some((raw.map_or((gib * GIB) as u64, |mib| (mib * MIB as f64) as u64), Basis::Reported));
        }
        if let Some(mib) = self.memory_total_mib.first() {
            // Drivers keep 244 to 766 MiB of the cards of the last ten years.
            let kept = self.driver_reserved_mib.last().copied().unwrap_or(if *mib > 40_000.0 { 700.0 } else { 450.0 });
            return Some((((mib - kept).max(0.0) * MIB as f64) as u64, Basis::Tool));
        }
        let gb = self.memory_gb.or_else(|| least(&self.memory_options_gb))?;
        let gib = if self.vendor == "amd" { gb - 16.0 / 1024.0 } else { gb * 0.98 };
        Some(((gib * GIB) as u64, Basis::Nominal))
    }
}

impl Catalogue {
    /// An accelerator by its id.
    pub fn by_id(&self, id: &str) -> Option<&Gpu> {
        self.gpus.iter().find(|gpu| gpu.id == id)
    }

    /// What an id, a product name, an alias or a cloud machine stands for.
    pub fn find(&self, name: &str) -> Found<'_> {
        let wanted = plain(name);
        let short = wanted.strip_prefix("nvidia ").unwrap_or(&wanted);
        let own = |gpu: &&Gpu| {
            let alias = |alias: &String| plain(alias) == wanted || plain(alias) == short;
            plain(&gpu.id) == wanted || gpu.aliases.iter().any(alias)
        };
        if let Some(gpu) = self.gpus.iter().find(own) {
            return Found::Gpu(gpu, 1);
        }
        // One product string may stand for several sizes: only a total tells them apart.
        let named: Vec<&Gpu> = self.gpus.iter().filter(|gpu| plain(&gpu.name) == wanted).collect();
        match named.as_slice() {
            [] => {}
            [one] => return Found::Gpu(one, 1),
            _ => return Found::Several(named),
        }
        if let Some(group) = self.alias_groups.iter().find(|group| plain(&group.alias) == wanted || plain(&group.alias) == short) {
            return Found::Several(group.candidates.iter().filter_map(|id| self.by_id(id)).collect());
        }
        let machine = self.instances.iter().find(|machine| machine.name.eq_ignore_ascii_case(name.trim()));
        let Some(machine) = machine else {
            return Found::Nothing;
        };
        match machine.gpu.as_deref().and_then(|id| self.by_id(id)) {
            Some(gpu) => Found::Gpu(gpu, machine.gpu_count.unwrap_or(1).max(1)),
            None => match machine.gpu_candidates.iter().filter_map(|id| self.by_id(id)).collect::<Vec<_>>() {
                candidates if candidates.is_empty() => Found::Nothing,
                candidates => Found::Several(candidates),
            },
        }
    }

    /// Accelerators whose id, name, alias, architecture or vendor contains all words of a filter,
    /// and those of a cloud machine of that name.
    pub fn filter(&self, filter: &str) -> Vec<&Gpu> {
        let wanted = plain(filter);
        let words: Vec<&str> = wanted.split(' ').filter(|word| !word.is_empty()).collect();
        let text = |gpu: &Gpu| plain(&format!("{} {} {} {} {}", gpu.id, gpu.name, gpu.aliases.join(" "), gpu.architecture, gpu.vendor));
        let hits: Vec<&Gpu> = self.gpus.iter().filter(|gpu| words.iter().all(|word| text(gpu).contains(word))).collect();
        if !hits.is_empty() {
            return hits;
        }
        match self.find(filter) {
            Found::Gpu(gpu, _) => vec![gpu],
            Found::Several(gpus) => gpus,
            Found::Nothing => Vec::new(),
        }
    }
}

/// Lower case, with single spaces for everything that separates words.
fn plain(name: &str) -> String {
    let spaced: String =
        name.chars().map(|letter| if matches!(letter, '-' | '_' | ' ' | '\t') { ' ' } else { letter.to_ascii_lowercase() }).collect();
    spaced.split(' ').filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

/// What a total in a log says about the card.
#[derive(Debug, Clone, PartialEq)]
pub struct Recognition<'a> {
    /// Cards that were seen to print exactly this total.
    pub seen: Vec<&'a Gpu>,
    /// Further cards of the size class; these are not excluded.
    pub possible: Vec<&'a Gpu>,
    /// Size class in GB as sold, where one can be named: "a 24 GB card".
    pub class_gb: Option<u64>,
}

impl<'a> Recognition<'a> {
    /// The card, only where no other is left.
    pub fn single(&self) -> Option<&'a Gpu> {
        match (self.seen.as_slice(), self.possible.as_slice()) {
            ([one], []) | ([], [one]) => Some(one),
            _ => None,
        }
    }
}

/// Recognises the size class of a card from the total that the runtime reports.
///
/// A card fits if its tool's total exceeds the value by 50 to 1000 MiB (what a Linux driver keeps)
/// or equals it within 4 MiB (Windows); where the tool's total is not known, the size as sold may
/// exceed it by up to 1300 MiB. AMD cards report 16 MiB less than their size.
pub fn recognise(total_bytes: u64) -> Recognition<'static> {
    let mib = total_bytes as f64 / MIB as f64;
    let gib = (total_bytes as f64 / GIB * 100.0).round() / 100.0;
    let near = |value: &f64| (value - gib).abs() < 0.0051;
    let (mut seen, mut possible) = (Vec::new(), Vec::new());
    for gpu in &catalogue().gpus {
        let prints = gpu.torch_total_gib.iter().any(near)
            || gpu.torch_total_gib_full.iter().any(near)
            || gpu.mig.iter().filter_map(|slice| slice.memory_gib.as_ref()).any(near);
        if prints {
            seen.push(gpu);
        } else if in_bracket(gpu, mib) {
            possible.push(gpu);
        }
    }
    let mut sizes: Vec<u64> = seen
        .iter()
        .chain(&possible)
        .filter(|gpu| !gpu.mig.iter().filter_map(|slice| slice.memory_gib.as_ref()).any(near))
        .filter_map(|gpu| gpu.memory_gb)
        .map(|gb| gb as u64)
        .collect();
    sizes.sort_unstable();
    // Cards sold as 44 to 48 GB, say, are one class: named only when most agree.
    let common = sizes.get(sizes.len() / 2).copied();
    let class_gb = common.filter(|size| sizes.iter().filter(|other| *other == size).count() * 2 > sizes.len());
    Recognition { seen, possible, class_gb }
}

fn in_bracket(gpu: &Gpu, mib: f64) -> bool {
    match gpu.vendor.as_str() {
        "nvidia" => {
            let mut known = gpu.tool_totals_mib().peekable();
            if known.peek().is_some() {
                return known.any(|total| (50.0..=1000.0).contains(&(total - mib)) || (total - mib).abs() <= 4.0);
            }
            gpu.memory_gb.is_some_and(|gb| (-4.0..=1300.0).contains(&(gb * 1024.0 - mib)))
        }
        "amd" => gpu.memory_gb.is_some_and(|gb| (gb * 1024.0 - 16.0 - mib).abs() <= 4.0),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(gpus: &[&Gpu]) -> Vec<String> {
        gpus.iter().map(|gpu| gpu.id.clone()).collect()
    }

    #[test]
    fn the_catalogue_is_read_and_consistent() {
        let catalogue: Catalogue = toml::from_str(include_str!("catalogue.toml")).unwrap();
        assert!(catalogue.gpus.len() >= 290);
        for machine in &catalogue.instances {
            for id in machine.gpu.iter().chain(&machine.gpu_candidates) {
                assert!(catalogue.by_id(id).is_some(), "{}: {id}", machine.name);
            }
        }
        for group in &catalogue.alias_groups {
            assert!(group.candidates.iter().all(|id| catalogue.by_id(id).is_some()), "{}", group.alias);
        }
    }

    #[test]
    fn names_aliases_and_machines_are_found() {
        let catalogue = catalogue();
        for name in ["rtx-4090", "RTX 4090", "4090", "nvidia rtx 4090"] {
            assert!(matches!(catalogue.find(name), Found::Gpu(gpu, 1) if gpu.id == "rtx-4090"), "{name}");
        }
        assert!(matches!(catalogue.find("p4d.24xlarge"), Found::Gpu(gpu, 8) if gpu.id == "a100-sxm4-40gb"));
        assert!(matches!(catalogue.find("a100"), Found::Several(_)));
        assert_eq!(catalogue.find("abacus"), Found::Nothing);
    }

    #[test]
    fn a_total_names_a_class_not_a_card() {
        let total = |gib: f64| recognise((gib * GIB) as u64);
        let ambiguous = total(23.64);
        assert!(ids(&ambiguous.seen).contains(&"rtx-4090".to_owned()) && ids(&ambiguous.seen).contains(&"titan-rtx".to_owned()));
        assert_eq!(ambiguous.class_gb, Some(24));
        assert!(ambiguous.single().is_none());
        assert_eq!(total(79.25).class_gb, Some(80));
        assert_eq!(total(44.42).class_gb, Some(48));
        assert!(total(3.0e3).seen.is_empty() && total(3.0e3).class_gb.is_none());
    }

    #[test]
    fn usable_memory_is_less_than_sold() {
        let (bytes, basis) = catalogue().by_id("rtx-4090").and_then(Gpu::usable_bytes).unwrap();
        assert_eq!(basis, Basis::Reported);
        assert!((bytes as f64 / GIB - 23.52).abs() < 0.02, "{bytes}");
    }
}
