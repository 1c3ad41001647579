//! Collectives across ranks: who waited in which one, who never joined, and whether the ranks were in the same one.
//!
//! Read from the findings of watchdog timeouts and status lines (torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp 2.1 to
//! 2.9: `SeqNum`, `OpType`, `NumelIn`, `NumelOut`; `last enqueued`, `last completed`). Sequence numbers count for one
//! process group; numbers of different groups are not compared.

use std::collections::{BTreeMap, BTreeSet};

use super::finding::Finding;
use super::vocabulary::{Cause, Kind, Severity};

/// Ranks that must have waited before the absence of another says something.
const LEAST_WAITING: usize = 2;
/// A rank that is further behind counts in another group: within one, all up to the number before it are complete.
const MOST_BEHIND: i64 = 8;
/// Operations whose sizes are the same on all ranks.
const SAME_SIZE: [&str; 6] = ["ALLREDUCE", "BROADCAST", "REDUCE", "_ALLGATHER_BASE", "_REDUCE_SCATTER_BASE", "ALLREDUCE_COALESCED"];

/// What one rank was in when its watchdog gave up.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Call {
    /// The operation, `ALLREDUCE`.
    pub op: String,
    /// Elements in and out, where printed.
    pub numel: Option<(i64, i64)>,
}

/// One collective that some ranks waited in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Collective {
    /// Number of the process group, where printed.
    pub group: Option<String>,
    /// Sequence number in its process group.
    pub seq: i64,
    /// What the ranks called, each with its ranks; more than one entry: the program took different paths.
    pub calls: Vec<(Call, Vec<u32>)>,
    /// Known ranks that did not report this timeout, when at least two did and these are fewer.
    pub missing: Vec<u32>,
    /// Those of them that report nothing else that went wrong.
    pub silent: Vec<u32>,
    /// Ranks whose last enqueued collective is an earlier one, with its number.
    pub behind: Vec<(u32, i64)>,
}

impl Collective {
    /// The ranks that waited, rising.
    pub fn waiting(&self) -> Vec<u32> {
        let mut ranks: Vec<u32> = self.calls.iter().flat_map(|(_, ranks)| ranks.iter().copied()).collect();
        ranks.sort_unstable();
        ranks
    }

    /// The ranks that never joined, where this finding is a timeout in this very collective and all were in the same one.
    pub fn missing_for(&self, finding: &Finding) -> Option<&[u32]> {
        let timeout = finding.kind == Kind::Nccl && finding.cause == Cause::Timeout && finding.text("op").is_some();
        let this = finding.number("seq").is_some_and(|seq| seq.value.as_f64() as i64 == self.seq);
        (timeout && this && !self.missing.is_empty() && !self.is_desynchronised()).then_some(&self.missing)
    }

    /// Were the ranks in different operations, or in one of different sizes?
    pub fn is_desynchronised(&self) -> bool {
        let mut calls = self.calls.iter().map(|(call, _)| call);
        let Some(first) = calls.next() else { return false };
        calls.any(|call| {
            let size_counts = SAME_SIZE.contains(&call.op.as_str());
            call.op != first.op || (size_counts && call.numel.is_some() && first.numel.is_some() && call.numel != first.numel)
        })
    }
}

/// The collective that most ranks waited in, from the findings of all files of a run.
///
/// `ranks` are those known otherwise, by the names of their files. `None` when no timeout names rank and number.
pub fn read<'f>(findings: impl IntoIterator<Item = &'f Finding>, ranks: &[u32]) -> Option<Collective> {
    let mut known: BTreeSet<u32> = ranks.iter().copied().collect();
    let mut waits: BTreeMap<(Option<String>, i64), BTreeMap<u32, Call>> = BTreeMap::new();
    let mut status: BTreeMap<u32, Status> = BTreeMap::new();
    let mut told: BTreeSet<u32> = BTreeSet::new();
    for finding in findings {
        let Some(rank) = finding.rank else { continue };
        known.insert(rank);
        let whole = |name: &str| finding.number(name).map(|number| number.value.as_f64() as i64);
        if finding.kind != Kind::Nccl {
            if finding.severity != Severity::Info {
                told.insert(rank);
            }
            continue;
        }
        let status = status.entry(rank).or_default();
        // A rank counts for each of its groups: only the largest number is safe to be compared.
        status.enqueued = status.enqueued.max(whole("last_enqueued").filter(|last| *last >= 0));
        let Some(seq) = whole("seq") else { continue };
        status.gave_up_at.insert(seq);
        if let Some(op) = finding.text("op") {
            let call = Call { op: op.to_owned(), numel: whole("numel_in").zip(whole("numel_out")) };
            // The number of a group is a number, its name a text.
            let group = finding.text("pg").map(str::to_owned).or_else(|| whole("pg").map(|n| n.to_string()));
            waits.entry((group, seq)).or_default().entry(rank).or_insert(call);
        }
    }
    let ((group, seq), by_rank) = waits.into_iter().max_by_key(|(_, by_rank)| by_rank.len())?;
    let waiting: BTreeSet<u32> = by_rank.keys().copied().collect();
    // Who gave up at this number, or at a later one, or in another group, was no absentee of this one for sure.
    let just_before = |last: i64| (seq - MOST_BEHIND..seq).contains(&last);
    let may_be_absent = |rank: &u32| status.get(rank).is_none_or(|status| status.gave_up_at.iter().all(|at| just_before(*at)));
    let mut missing: Vec<u32> = known.difference(&waiting).copied().filter(may_be_absent).collect();
    // A rank below the highest one that is nowhere in the text.
    if let Some(last) = waiting.iter().next_back() {
        missing.extend((0..*last).filter(|rank| !known.contains(rank)).take(waiting.len() + 1));
    }
    missing.sort_unstable();
    // Ranks of other groups wait in other collectives: only a few absent ones among many are suspects.
    if waiting.len() < LEAST_WAITING || missing.len() * 2 > waiting.len() + 1 {
        missing.clear();
    }
    let silent = missing.iter().copied().filter(|rank| !told.contains(rank)).collect();
    let mut calls: BTreeMap<Call, Vec<u32>> = BTreeMap::new();
    for (rank, call) in by_rank {
        calls.entry(call).or_default().push(rank);
    }
    let enqueued = status.into_iter().filter_map(|(rank, status)| Some((rank, status.enqueued?)));
    let behind = enqueued.filter(|(_, last)| just_before(*last)).collect();
    let mut calls: Vec<(Call, Vec<u32>)> = calls.into_iter().collect();
    calls.sort_by_key(|(_, ranks)| std::cmp::Reverse(ranks.len()));
    Some(Collective { group, seq, calls, missing, silent, behind })
}

/// What a rank's watchdog said of its collectives.
#[derive(Default)]
struct Status {
    enqueued: Option<i64>,
    gave_up_at: BTreeSet<i64>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::analyze;
    use crate::log::rules::Rules;

    fn timeout(rank: u32, op: &str, numel: u32, enqueued: u32) -> String {
        format!(
            "[rank{rank}]:[E1129 09:20:00.100000000 ProcessGroupNCCL.cpp:616] [Rank {rank}] Watchdog caught collective operation timeout: \
             WorkNCCL(SeqNum=691, OpType={op}, NumelIn={numel}, NumelOut={numel}, Timeout(ms)=600000) ran for 600012 milliseconds before timing out.\n\
             [rank{rank}]:[E1129 09:20:00.200000000 ProcessGroupNCCL.cpp:630] [Rank {rank}] Timeout at NCCL work: 691, last enqueued NCCL work: \
             {enqueued}, last completed NCCL work: 690.\n"
        )
    }

    fn of(text: &str, ranks: &[u32]) -> Collective {
        read(&analyze(text, &Rules::builtin()).findings, ranks).unwrap()
    }

    #[test]
    fn who_waited_and_who_is_missing() {
        let text: String = [0, 1, 2, 4].map(|rank| timeout(rank, "ALLREDUCE", 64, 698)).concat();
        let found = of(&text, &[]);
        assert_eq!((found.seq, found.waiting(), found.missing.as_slice()), (691, vec![0, 1, 2, 4], [3].as_slice()));
        assert!(!found.is_desynchronised() && found.behind.is_empty());
        assert_eq!(of(&text, &[0, 1, 2, 3, 4, 5]).missing, [3, 5], "a file without findings is a rank that did not wait");
    }

    #[test]
    fn who_lags() {
        let text: String = [timeout(0, "ALLREDUCE", 64, 698), timeout(1, "ALLREDUCE", 64, 698), timeout(2, "ALLREDUCE", 64, 690)].concat();
        assert_eq!(of(&text, &[]).behind, [(2, 690)]);
    }

    #[test]
    fn nobody_is_accused_on_thin_evidence() {
        let ranks = |ranks: &[u32]| -> String { ranks.iter().map(|rank| timeout(*rank, "ALLREDUCE", 64, 698)).collect() };
        // Rank 3 gave up at the same collective; only its own report of it is not there.
        let status = "[rank3]:[E1129 09:20:00.200000000 ProcessGroupNCCL.cpp:630] [Rank 3] Timeout at NCCL work: 691, last enqueued NCCL \
                      work: 698, last completed NCCL work: 690.\n";
        assert_eq!(of(&format!("{}{status}", ranks(&[0, 1, 2])), &[]).missing, [0; 0]);
        // Rank 3 waits in a collective of another group, with a count of its own.
        let other = timeout(3, "BROADCAST", 64, 13).replace("691", "12");
        let found = of(&format!("{}{other}", ranks(&[0, 1, 2])), &[]);
        assert_eq!((found.missing, found.behind), (vec![], vec![]));
        // It gave up at the number before: it did not come to this one.
        let before = timeout(3, "ALLREDUCE", 64, 690).replace("691", "690");
        let found = of(&format!("{}{before}", ranks(&[0, 1, 2])), &[]);
        assert_eq!((found.missing, found.silent, found.behind), (vec![3], vec![3], vec![(3, 690)]));
        // A rank with a cause of its own is missing, and not silent.
        let found = of(&format!("{}[rank3]: RuntimeError: CUDA error: out of memory\n", ranks(&[0, 1, 2])), &[]);
        assert_eq!((found.missing, found.silent), (vec![3], vec![]));
    }

    #[test]
    fn different_operations_or_sizes_at_one_number() {
        let op: String = [timeout(0, "ALLREDUCE", 64, 698), timeout(1, "BROADCAST", 64, 698)].concat();
        assert!(of(&op, &[]).is_desynchronised());
        let size: String = [timeout(0, "ALLREDUCE", 64, 698), timeout(1, "ALLREDUCE", 65, 698)].concat();
        assert!(of(&size, &[]).is_desynchronised());
        let uneven: String = [timeout(0, "ALLTOALL_BASE", 64, 698), timeout(1, "ALLTOALL_BASE", 65, 698)].concat();
        assert!(!of(&uneven, &[]).is_desynchronised());
    }
}
