//! A caching allocator's out-of-memory message: who holds the card, and why the request failed.
//!
//! Two generations of wording (c10/cuda/CUDACachingAllocator.cpp): until torch 2.0 `reserved in total` contains
//! `already allocated`; since 2.1 the message prints what is reserved and not allocated, and what NVML says of each
//! process. `free` and `total` are the device's (`cudaMemGetInfo`), the rest is this process's own.
//!
//! Order of the verdict: one allocation too large for the card; a limit below the card; fragmentation; memory held by
//! others; a limit that is not printed, or nothing that explains it, when much more was free than was asked for;
//! honestly full. Numbers that contradict each other are
//! named and nothing is derived from them.

use super::holders::{Holder, listed};
use crate::log::finding::Number;
use crate::log::vocabulary::Cause;

/// Share of the card from which one request counts as huge.
const HUGE_SHARE: f64 = 0.5;
/// A limit from this share of the card on is no limit.
const LIMIT_SHARE: f64 = 0.97;
/// Unused reserve counts as fragmentation from this share of the card on.
const FRAGMENTED_SHARE: f64 = 0.10;
/// Memory of others counts from this share of the card ...
const OTHERS_SHARE: f64 = 0.15;
/// ... and this many bytes on: a CUDA context is smaller.
const OTHERS_BYTES: u64 = 3 << 29;
/// Free memory below this share of the card explains nothing: the card is full.
const SPARE_SHARE: f64 = 0.05;
/// Free memory of this many times the request that was refused all the same speaks of a limit that is not printed.
const UNPRINTED_LIMIT: u64 = 10;
/// The allocator's smallest segments are 2 and 20 MiB.
const SMALL_SEGMENTS: u64 = 20 << 20;
/// Messages print two decimals; sums may be off by this much.
const ROUNDING: u64 = 32 << 20;
/// The CUDA context and libraries of one process take at most about this much beside the allocator.
const CONTEXT_BYTES: u64 = 3 << 29;

/// The account of a card at the moment of the message. All sizes in bytes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeviceOom {
    /// Why the request failed.
    pub cause: Cause,
    /// The sort of device that the message names; `None` for CUDA.
    pub device: Option<String>,
    /// The request (the allocator's rounded segment, not the tensor).
    pub tried: Option<u64>,
    /// The card, as the driver reports it.
    pub total: Option<u64>,
    /// What the driver would still give.
    pub free: Option<u64>,
    /// Live blocks of this process.
    pub allocated: Option<u64>,
    /// All segments of this process's allocator; contains `allocated`.
    pub reserved: Option<u64>,
    /// `reserved - allocated`.
    pub unused: Option<u64>,
    /// What this process uses beside its allocator: context, NCCL, libraries.
    pub non_pytorch: Option<u64>,
    /// What the rest of the card holds.
    pub others: Option<Others>,
    /// Processes that the message lists and that are not this one, the largest first.
    pub holders: Vec<Holder>,
    /// The limit set below the card.
    pub limit: Option<u64>,
    /// Is it the wording of releases before 2.1, which have no expandable segments?
    pub old_wording: bool,
    /// What does not add up; nothing is derived then.
    pub contradictions: Vec<Contradiction>,
}

impl DeviceOom {
    /// The one other process that the message names; nothing where there are several.
    pub fn holder(&self) -> Option<(u64, u64)> {
        let [only] = self.holders.as_slice() else { return None };
        Some((only.pid?, only.bytes))
    }

    /// Does the message say anything of what the card held?
    pub fn has_account(&self) -> bool {
        self.free.is_some() || self.allocated.is_some() || self.reserved.is_some()
    }

    /// Could the idle reserve hold the request, were it in one piece? The one place that decides what is said of it.
    pub fn idle_could_hold_it(&self) -> bool {
        self.contradictions.is_empty() && self.unused.zip(self.tried).is_some_and(|(unused, tried)| unused >= tried)
    }
}

/// Memory outside this process's allocator.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Others {
    /// Bytes.
    pub bytes: u64,
    /// Is this process's own context and libraries still in it (old wordings do not tell them apart)?
    pub with_own_context: bool,
}

/// A relation between the numbers that cannot hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contradiction {
    /// More live tensors than the card has: Windows lends system memory.
    AllocatedAboveTotal,
    /// More reserved than the card has.
    ReservedAboveTotal,
    /// More free than the card has.
    FreeAboveTotal,
    /// Live tensors above the reserve that contains them.
    AllocatedAboveReserved,
    /// Reserve and free memory together above the card.
    ReservedAndFreeAboveTotal,
    /// This process above the card.
    ProcessAboveTotal,
}

/// Reads the account from the captures of an allocator message.
///
/// `None` when the message has no request and no total: there is nothing to judge.
pub fn judge(numbers: &[Number], texts: &[(String, String)]) -> Option<DeviceOom> {
    let get = |name: &str| numbers.iter().find(|n| n.name == name).and_then(|n| n.value.bytes());
    let (tried, total) = (get("tried"), get("total"));
    if tried.is_none() && total.is_none() {
        return None;
    }
    let mut oom = DeviceOom { tried, total, free: get("free"), allocated: get("allocated"), limit: get("limit"), ..DeviceOom::default() };
    oom.old_wording = get("reserved").is_some();
    let unused = get("reserved_unallocated");
    // torch 1.0 to 1.3 print `cached`; captured logs show the cache beside the live blocks, not around them.
    let beside = get("cached").filter(|&cached| oom.allocated.is_some_and(|allocated| cached < allocated));
    let unused = unused.or(beside);
    oom.reserved = get("reserved").or_else(|| oom.allocated?.checked_add(unused?)).or_else(|| get("cached"));
    oom.unused = unused.or_else(|| oom.reserved?.checked_sub(oom.allocated?));
    oom.contradictions = contradictions(&oom, get("process_in_use"));
    if oom.contradictions.is_empty() {
        let pid = numbers.iter().find(|n| n.name == "other_pid").map(|n| n.value.as_f64() as u64);
        let first = get("other_processes_in_use").map(|bytes| Holder { pid, bytes });
        oom.holders = first.into_iter().chain(listed(texts)).collect();
        oom.holders.sort_by_key(|holder| std::cmp::Reverse(holder.bytes));
        add_others(&mut oom, get("process_in_use"));
    }
    oom.cause = cause(&oom, texts);
    oom.device = texts.iter().find(|(name, _)| name == "device").map(|(_, device)| device.clone());
    Some(oom)
}

fn contradictions(oom: &DeviceOom, process: Option<u64>) -> Vec<Contradiction> {
    let Some(total) = oom.total else { return Vec::new() };
    let above = |value: Option<u64>, limit: u64| value.is_some_and(|value| value > limit.saturating_add(ROUNDING));
    let mut out = Vec::new();
    if above(oom.allocated, total) {
        out.push(Contradiction::AllocatedAboveTotal);
    }
    if above(oom.reserved, total) && out.is_empty() {
        out.push(Contradiction::ReservedAboveTotal);
    }
    if above(oom.free, total) {
        out.push(Contradiction::FreeAboveTotal);
    }
    if oom.reserved.is_some_and(|reserved| above(oom.allocated, reserved)) {
        out.push(Contradiction::AllocatedAboveReserved);
    }
    if out.is_empty() && above(oom.reserved.zip(oom.free).map(|(reserved, free)| reserved.saturating_add(free)), total) {
        out.push(Contradiction::ReservedAndFreeAboveTotal);
    }
    if above(process, total) && out.is_empty() {
        out.push(Contradiction::ProcessAboveTotal);
    }
    out
}

/// Who holds the rest of the card: total - free - this process.
fn add_others(oom: &mut DeviceOom, process: Option<u64>) {
    let (Some(total), Some(free)) = (oom.total, oom.free) else { return };
    let used = total.saturating_sub(free);
    if let Some(process) = process {
        oom.non_pytorch = oom.reserved.and_then(|reserved| process.checked_sub(reserved));
        oom.others = Some(Others { bytes: used.saturating_sub(process), with_own_context: false });
        return;
    }
    let Some(reserved) = oom.reserved else { return };
    // In a container the process cannot find itself in NVML's list: the entry nearest to its own size is itself.
    let is_own = |bytes: u64| bytes.saturating_add(ROUNDING) >= reserved && bytes.saturating_sub(reserved) <= CONTEXT_BYTES;
    let candidates = oom.holders.iter().enumerate().filter(|(_, holder)| is_own(holder.bytes));
    match candidates.min_by_key(|(_, holder)| holder.bytes.abs_diff(reserved)).map(|(nth, _)| nth) {
        Some(nth) => {
            let own = oom.holders.remove(nth).bytes;
            oom.non_pytorch = Some(own.saturating_sub(reserved));
            oom.others = Some(Others { bytes: used.saturating_sub(own.max(reserved)), with_own_context: false });
        }
        None => oom.others = Some(Others { bytes: used.saturating_sub(reserved), with_own_context: true }),
    }
}

fn cause(oom: &DeviceOom, texts: &[(String, String)]) -> Cause {
    let (Some(tried), Some(total)) = (oom.tried, oom.total) else {
        return if texts.iter().any(|(name, _)| name == "limit_text") { Cause::MemoryLimit } else { Cause::Unknown };
    };
    let share = |bytes: u64| bytes as f64 / total.max(1) as f64;
    if share(tried) >= HUGE_SHARE {
        return Cause::SingleHugeAllocation;
    }
    if let Some(limit) = oom.limit {
        let used = oom.reserved.or(oom.allocated).unwrap_or(0);
        if share(limit) < LIMIT_SHARE && limit.saturating_sub(used) < tried {
            return Cause::MemoryLimit;
        }
    }
    if oom.contradictions.contains(&Contradiction::AllocatedAboveTotal) || oom.contradictions.contains(&Contradiction::ReservedAboveTotal) {
        // Windows lent system memory: more than the card is in use, whatever the details.
        return Cause::DeviceFull;
    }
    let contradicted = |what: Contradiction| oom.contradictions.contains(&what);
    if contradicted(Contradiction::ReservedAndFreeAboveTotal) || contradicted(Contradiction::FreeAboveTotal) {
        // What was free is itself in doubt.
        return Cause::Unknown;
    }
    // Numbers that another source contradicts (WSL prints 2^64 bytes for a process) leave the allocator's own ones sound.
    let own_numbers_hold = !contradicted(Contradiction::AllocatedAboveReserved);
    if own_numbers_hold && oom.unused.is_some_and(|unused| unused >= tried && share(unused) >= FRAGMENTED_SHARE) {
        return Cause::Fragmentation;
    }
    if !oom.contradictions.is_empty() {
        // Less free than was asked for: whatever else does not add up, the card had no room.
        return if oom.free.is_some_and(|free| free < tried) { Cause::DeviceFull } else { Cause::Unknown };
    }
    if oom.others.is_some_and(|others| share(others.bytes) >= OTHERS_SHARE && others.bytes >= OTHERS_BYTES) {
        return Cause::OtherProcess;
    }
    match oom.free {
        Some(free) if free > tried && share(free) >= SPARE_SHARE => unexplained(tried, free),
        None if !oom.has_account() => Cause::Unknown,
        _ => Cause::DeviceFull,
    }
}

/// Much was free and the request was refused all the same.
///
/// The driver refuses an ordinary request beside many times its size only when a limit stands in between that the message
/// does not print (a memory fraction since torch 2.1, a share of a container). Requests of one smallest segment fail for
/// other reasons too (mappings or handles used up), so they stay unexplained.
fn unexplained(tried: u64, free: u64) -> Cause {
    let many = free / tried.max(1) >= UNPRINTED_LIMIT;
    if many && tried > SMALL_SEGMENTS { Cause::MemoryLimit } else { Cause::Unknown }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::units::{self, Unit};

    fn account(pairs: &[(&str, &str)]) -> DeviceOom {
        let numbers: Vec<Number> = pairs
            .iter()
            .map(|(name, text)| Number {
                name: (*name).to_owned(),
                value: units::read(text, Some(Unit::Size)).unwrap().0,
                unit: Unit::Size,
                text: (*text).to_owned(),
                span: None,
            })
            .collect();
        judge(&numbers, &[]).unwrap()
    }

    #[test]
    fn the_order_of_causes() {
        let new = |tried, total, free, process, allocated, unused| {
            account(&[
                ("tried", tried),
                ("total", total),
                ("free", free),
                ("process_in_use", process),
                ("allocated", allocated),
                ("reserved_unallocated", unused),
            ])
            .cause
        };
        assert_eq!(new("50 GiB", "79.15 GiB", "60 GiB", "10 GiB", "9 GiB", "500 MiB"), Cause::SingleHugeAllocation);
        assert_eq!(new("2 GiB", "79.15 GiB", "1 GiB", "78 GiB", "60 GiB", "17 GiB"), Cause::Fragmentation);
        assert_eq!(new("2 GiB", "79.15 GiB", "1 GiB", "40 GiB", "38 GiB", "1 GiB"), Cause::OtherProcess);
        assert_eq!(new("2 GiB", "79.15 GiB", "1 GiB", "78 GiB", "76 GiB", "1 GiB"), Cause::DeviceFull);
        assert_eq!(new("98 MiB", "4 GiB", "2.86 GiB", "1.1 GiB", "254 MiB", "97 MiB"), Cause::MemoryLimit);
        assert_eq!(new("2 MiB", "288 GiB", "203 GiB", "84 GiB", "68 GiB", "15 GiB"), Cause::Unknown);
        assert_eq!(new("1 GiB", "24 GiB", "3 GiB", "20.9 GiB", "19 GiB", "1 GiB"), Cause::Unknown);
        let short = account(&[("tried", "20 MiB"), ("total", "10.76 GiB")]);
        assert_eq!(short.cause, Cause::Unknown, "nothing says that the card is full");
        assert_eq!(new("32 MiB", "4 GiB", "41 MiB", "3.94 GiB", "3.6 GiB", "2 MiB"), Cause::DeviceFull);
    }

    #[test]
    fn a_container_does_not_take_itself_for_another() {
        let oom = account(&[
            ("tried", "64 MiB"),
            ("total", "23.6 GiB"),
            ("free", "20 MiB"),
            ("other_processes_in_use", "23.5 GiB"),
            ("allocated", "22 GiB"),
            ("reserved_unallocated", "1 GiB"),
        ]);
        assert_eq!(oom.cause, Cause::DeviceFull);
        assert!(!oom.others.unwrap().with_own_context);
    }

    #[test]
    fn who_holds_the_card_is_named_and_oneself_is_not_among_them() {
        let account = |list: &str| {
            let size = |name: &str, text: &str| Number {
                name: name.to_owned(),
                value: units::read(text, Some(Unit::Size)).unwrap().0,
                unit: Unit::Size,
                text: text.to_owned(),
                span: None,
            };
            let numbers = [
                size("tried", "224 MiB"),
                size("total", "23.64 GiB"),
                size("free", "18.88 MiB"),
                size("allocated", "3.01 GiB"),
                size("reserved_unallocated", "60.10 MiB"),
            ];
            judge(&numbers, &[("processes".to_owned(), list.to_owned())]).unwrap()
        };
        let gib = |x: f64| (x * f64::from(1 << 30)) as u64;
        let oom = account(" Process 4411 has 20.10 GiB memory in use. Process 9921 has 3.50 GiB memory in use.");
        assert_eq!(oom.holders, [Holder { pid: Some(4411), bytes: gib(20.10) }]);
        assert!(oom.others.is_some_and(|others| !others.with_own_context && others.bytes.abs_diff(gib(20.12)) < ROUNDING));
        // Without an entry of its size nothing tells it from the others.
        let oom = account("Process4411has20.10GiBmemoryinuse.");
        assert_eq!((oom.holders.len(), oom.others.map(|others| others.with_own_context)), (1, Some(true)));
    }

    #[test]
    fn impossible_numbers_are_named_and_nothing_is_derived() {
        let oom = account(&[
            ("tried", "2.00 GiB"),
            ("total", "8.00 GiB"),
            ("allocated", "6.32 GiB"),
            ("free", "1.56 GiB"),
            ("reserved", "7.88 GiB"),
        ]);
        assert_eq!((oom.cause, oom.others), (Cause::Unknown, None));
        assert_eq!(oom.contradictions, [Contradiction::ReservedAndFreeAboveTotal]);
        let roomy = account(&[
            ("tried", "1.00 GiB"),
            ("total", "8.00 GiB"),
            ("allocated", "7.32 GiB"),
            ("free", "1.56 GiB"),
            ("reserved", "7.88 GiB"),
        ]);
        assert_eq!(roomy.cause, Cause::Unknown);
    }

    #[test]
    fn sizes_near_the_end_of_the_range_are_no_overflow() {
        let wsl = |name| {
            account(&[
                ("tried", "512.00 MiB"),
                ("total", "8.00 GiB"),
                ("free", "0 bytes"),
                (name, "17179869184.00 GiB"),
                ("allocated", "7.05 GiB"),
                ("reserved_unallocated", "102.66 MiB"),
            ])
        };
        assert_eq!(wsl("process_in_use").cause, Cause::DeviceFull);
        assert_eq!(wsl("process_in_use").contradictions, [Contradiction::ProcessAboveTotal]);
        assert_eq!(wsl("other_processes_in_use").cause, Cause::DeviceFull);
    }
}
