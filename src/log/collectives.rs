//! Collectives across ranks: who waited in which one, who never joined, and whether the ranks were in the same one.
//!
//! Read from the findings of watchdog timeouts and status lines (torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp 2.1 to
//! 2.9: `SeqNum`, `OpType`, `NumelIn`, `NumelOut`; `last enqueued`, `last completed`). Sequence numbers count for one
//! process group; numbers of different groups are not compared. A group is told by its unique name (`PG GUID`), since the
//! groups of different ranks can have one `PG ID`.

mod evidence;

use std::collections::{BTreeMap, BTreeSet};

pub use evidence::Evidence;

use super::finding::Finding;
use super::marks::ABSENT;
use super::vocabulary::{Cause, Kind};
use evidence::{Group, Report, waited_in};

/// Ranks that must have waited before the absence of another says something.
const LEAST_WAITING: usize = 2;
/// A rank that is further behind counts in another group: within one, all up to the number before it are complete.
const MOST_BEHIND: i64 = 8;
/// Missing ranks that a remedy names.
const MOST_NAMED: usize = 8;
/// Operations whose sizes are the same on all ranks.
const SAME_SIZE: [&str; 6] = ["ALLREDUCE", "BROADCAST", "REDUCE", "_ALLGATHER_BASE", "_REDUCE_SCATTER_BASE", "ALLREDUCE_COALESCED"];
/// Operations between some ranks only: the others are in none of them, and the two sides call different ones.
const PAIRWISE: [&str; 4] = ["SEND", "RECV", "RECVANYSOURCE", "COALESCED"];
/// The group of all ranks.
const WHOLE: &str = "default_pg";

/// What one rank was in when its watchdog gave up.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Call {
    /// The operation, `ALLREDUCE`; none where only numbers are printed.
    pub op: Option<String>,
    /// Elements in and out, where printed.
    pub numel: Option<(i64, i64)>,
}

impl Call {
    fn is_pairwise(&self) -> bool {
        self.op.as_deref().is_some_and(|op| PAIRWISE.contains(&op))
    }
}

/// How far one rank had come in the group of a collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The rank.
    pub rank: u32,
    /// The last collective that it launched.
    pub enqueued: i64,
    /// The last one that finished there, where printed.
    pub completed: Option<i64>,
}

impl Progress {
    /// Did it launch something that never finished?
    pub fn waits(&self) -> bool {
        self.completed.is_some_and(|completed| completed < self.enqueued)
    }
}

/// One collective that some ranks waited in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Collective {
    /// The process group, where printed.
    pub group: Option<String>,
    /// No line names the group, and the ranks number themselves as members of several.
    pub mixed: bool,
    /// Sequence number in its process group.
    pub seq: i64,
    /// What the ranks called, each with its ranks; more than one entry: the program took different paths.
    pub calls: Vec<(Call, Vec<u32>)>,
    /// Ranks of the run that did not report this timeout, when at least two did and these are fewer.
    pub missing: Vec<u32>,
    /// Where only a part of the ranks belongs to the group: ranks of the run that waited in no collective at all, when
    /// nearly all others did.
    pub absent: Vec<u32>,
    /// Those of them that report nothing else that went wrong, although something was found or read of them.
    pub unexplained: Vec<u32>,
    /// Ranks of the run of which there is nothing at all: no finding, no file, no line.
    pub silent: Vec<u32>,
    /// Ranks whose last enqueued collective is an earlier one, with its number.
    pub behind: Vec<(u32, i64)>,
    /// How far each rank had come, where it says so, by rank.
    pub progress: Vec<Progress>,
    /// How many ranks the run has, where its logs say so.
    pub world: Option<u32>,
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
        let told = !self.missing.is_empty() && !self.is_desynchronised();
        (told && is_timeout(finding) && self.is_of(finding)).then_some(&self.missing)
    }

    /// Does a finding speak of this collective?
    fn is_of(&self, finding: &Finding) -> bool {
        finding.number("seq").is_some_and(|seq| seq.value.as_f64() as i64 == self.seq)
    }

    /// Were the ranks in different operations, or in one of different sizes? Not told where they may be in different groups.
    pub fn is_desynchronised(&self) -> bool {
        let compared = |call: &&(Call, Vec<u32>)| !self.mixed && !call.0.is_pairwise();
        let mut calls = self.calls.iter().filter(compared).filter_map(|(call, _)| Some((call.op.as_ref()?, call.numel)));
        let Some((op, numel)) = calls.next() else { return false };
        calls.any(|(other, size)| {
            let size_counts = SAME_SIZE.contains(&op.as_str());
            other != op || (size_counts && size.is_some() && numel.is_some() && size != numel)
        })
    }
}

/// The collective that most ranks waited in, from what all files of a run say; `None` when no line names rank and number.
pub fn judge<'e>(evidence: impl IntoIterator<Item = &'e Evidence>) -> Option<Collective> {
    let all: Vec<&Evidence> = evidence.into_iter().collect();
    let reports = || all.iter().flat_map(|one| &one.reports);
    let (group, seq, by_rank) = waited_in(&reports)?;
    let here = |report: &&Report| group.is_none() || report.group.is_none() || report.group.as_ref().map(|g| &g.id) == group.as_ref();
    let mut status: BTreeMap<u32, Status> = BTreeMap::new();
    for report in reports().filter(here) {
        let status = status.entry(report.rank).or_default();
        // A rank counts for each of its groups: only the largest number is safe to be compared.
        if report.enqueued > status.enqueued {
            (status.enqueued, status.completed) = (report.enqueued, report.completed);
        }
    }
    let waiting: BTreeSet<u32> = by_rank.keys().copied().collect();
    let world = world(&all);
    // The ranks that the run has for sure: those that are heard of, and all below the number of ranks or the highest one.
    let heard: BTreeSet<u32> = all.iter().flat_map(|one| one.heard.iter().copied()).collect();
    let below = world.or_else(|| waiting.iter().next_back().copied()).unwrap_or(0);
    let silent: Vec<u32> = (0..below).filter(|rank| !heard.contains(rank)).collect();
    // Who gave up at this number, or at a later one, or in another group, was no absentee of this one for sure.
    let just_before = |last: i64| (seq.saturating_sub(MOST_BEHIND)..seq).contains(&last);
    let elsewhere: BTreeSet<u32> =
        reports().filter(|report| report.seq.is_some_and(|at| !just_before(at))).map(|report| report.rank).collect();
    let quiet = |rank: &u32| !waiting.contains(rank) && !elsewhere.contains(rank);
    // Ranks of other groups wait in other collectives: only a few absent ones among many are suspects. The logs of other
    // nodes may not be here; that lets nobody off in the midst of those that waited.
    let few = |ranks: &Vec<u32>, among: usize| ranks.len() * 2 <= among + 1;
    let midst = |rank: &&u32| waiting.range(..**rank).next().is_some() && waiting.range(**rank..).next().is_some();
    let known = heard.iter().filter(|rank| quiet(rank));
    let all_missing: Vec<u32> = known.clone().chain(&silent).copied().collect::<BTreeSet<u32>>().into_iter().collect();
    let inner: Vec<u32> = known.chain(silent.iter().filter(midst)).copied().collect::<BTreeSet<u32>>().into_iter().collect();
    let mut missing = [all_missing, inner].into_iter().find(|ranks| few(ranks, waiting.len())).unwrap_or_default();
    let part = reports().any(|report| {
        let names_part = |own: &Group| Some(&own.id) == group.as_ref() && own.name.as_deref().is_some_and(|name| name != WHOLE);
        report.group.as_ref().is_some_and(names_part)
    });
    let renumbered = |report: &Report| report.seq == Some(seq) && report.inner.is_some_and(|inner| inner != report.rank);
    let mixed = group.is_none() && reports().any(renumbered);
    let part = part || mixed;
    if part || waiting.len() < LEAST_WAITING || by_rank.values().any(Call::is_pairwise) {
        missing.clear();
    }
    // Where groups wait for each other, who waits in none of them is the one that they wait for.
    let reporting: BTreeSet<u32> = reports().map(|report| report.rank).collect();
    let others: Vec<u32> = heard.iter().chain(&silent).copied().filter(|rank| !reporting.contains(rank)).collect();
    let absent = if part && reporting.len() > LEAST_WAITING && few(&others, reporting.len()) { others } else { Vec::new() };
    let explained = |rank: &u32| all.iter().any(|one| one.told.contains(rank)) || !heard.contains(rank);
    let unexplained = missing.iter().chain(&absent).copied().filter(|rank| !explained(rank)).collect();
    let mut calls: BTreeMap<Call, Vec<u32>> = BTreeMap::new();
    for (rank, call) in by_rank {
        calls.entry(call).or_default().push(rank);
    }
    let progress: Vec<Progress> = status
        .into_iter()
        .filter_map(|(rank, status)| Some(Progress { rank, enqueued: status.enqueued?, completed: status.completed }))
        .collect();
    let behind = progress.iter().filter(|one| just_before(one.enqueued)).map(|one| (one.rank, one.enqueued)).collect();
    let mut calls: Vec<(Call, Vec<u32>)> = calls.into_iter().collect();
    calls.sort_by_key(|(_, ranks)| std::cmp::Reverse(ranks.len()));
    // The log of one rank alone says nothing of the others. A gap below the highest rank counts only beside few.
    let several = waiting.len() >= LEAST_WAITING;
    let silent = if several && (world.is_some() || !missing.is_empty()) { silent } else { Vec::new() };
    Some(Collective { group, mixed, seq, calls, missing, absent, unexplained, silent, behind, progress, world })
}

/// What a rank's watchdog said of its collectives.
#[derive(Default)]
struct Status {
    enqueued: Option<i64>,
    completed: Option<i64>,
}

/// Says of the timeouts in a collective why they came, where the ranks were in different ones, and who never joined it.
pub fn mark(findings: &mut [Finding], collective: &Collective) {
    let desynchronised = collective.is_desynchronised();
    for finding in findings.iter_mut().filter(|finding| is_timeout(finding)) {
        // The other files of a run may know better than this one.
        finding.texts.retain(|(name, _)| name != ABSENT);
        if desynchronised && collective.is_of(finding) {
            finding.cause = Cause::Desync;
        }
        let missing = collective.missing_for(finding).filter(|missing| missing.len() <= MOST_NAMED);
        let named = missing.map(|missing| missing.iter().map(u32::to_string).collect::<Vec<_>>().join(", "));
        let word = if missing.is_some_and(|missing| missing.len() == 1) { "rank" } else { "ranks" };
        finding.texts.extend(named.map(|named| (ABSENT.to_owned(), format!("{word} {named}"))));
    }
}

/// Is it a timeout that names the collective it waited in?
fn is_timeout(finding: &Finding) -> bool {
    finding.kind == Kind::Nccl && finding.cause == Cause::Timeout && finding.text("op").is_some()
}

/// The number of ranks that all files agree on.
fn world(all: &[&Evidence]) -> Option<u32> {
    let said: BTreeSet<u32> = all.iter().filter_map(|one| one.world).collect();
    let highest = all.iter().filter_map(|one| one.heard.last()).max();
    let only = said.first().filter(|_| said.len() == 1)?;
    highest.is_none_or(|highest| highest < only).then_some(*only)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::analyze;
    use crate::log::ranks::Ranks;
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
        let analysis = analyze(text, &Rules::builtin());
        let files = ranks.iter().map(|rank| Evidence::of(&[], Some(*rank), &Ranks::default()));
        let all: Vec<Evidence> = files.chain([Evidence::of(&analysis.findings, None, &analysis.story.ranks)]).collect();
        judge(&all).unwrap()
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
        assert_eq!((found.missing, found.unexplained, found.behind), (vec![3], vec![3], vec![(3, 690)]));
        // A rank with a cause of its own is missing, and explained.
        let found = of(&format!("{}[rank3]: RuntimeError: CUDA error: out of memory\n", ranks(&[0, 1, 2])), &[]);
        assert_eq!((found.missing, found.unexplained, found.silent), (vec![3], vec![], vec![]));
    }

    #[test]
    fn different_operations_or_sizes_at_one_number() {
        let op: String = [timeout(0, "ALLREDUCE", 64, 698), timeout(1, "BROADCAST", 64, 698)].concat();
        assert!(of(&op, &[]).is_desynchronised());
        let size: String = [timeout(0, "ALLREDUCE", 64, 698), timeout(1, "ALLREDUCE", 65, 698)].concat();
        assert!(of(&size, &[]).is_desynchronised());
        // The two sides of a transfer, and ranks that take no part in it.
        let pair: String = [timeout(0, "SEND", 64, 698), timeout(1, "RECV", 64, 698), timeout(3, "RECV", 64, 698)].concat();
        assert!(!of(&pair, &[]).is_desynchronised() && of(&pair, &[]).missing.is_empty());
        // Two groups of two, which no line names: 2 and 3 are 0 and 1 in theirs.
        let other = |rank: u32| timeout(rank, "BROADCAST", 64, 698).replace(&format!("[Rank {rank}]"), &format!("[Rank {}]", rank - 2));
        let groups: String = [timeout(0, "ALLREDUCE", 64, 698), timeout(1, "ALLREDUCE", 64, 698), other(2), other(3)].concat();
        assert!(!of(&groups, &[]).is_desynchronised());
        let uneven: String = [timeout(0, "ALLTOALL_BASE", 64, 698), timeout(1, "ALLTOALL_BASE", 65, 698)].concat();
        assert!(!of(&uneven, &[]).is_desynchronised());
    }

    fn status(rank: u32, enqueued: i64, completed: i64) -> String {
        format!(
            "[rank{rank}]:[E626 16:48:25.440243908 ProcessGroupNCCL.cpp:1682] [PG ID 0 PG GUID 0(default_pg) Rank {rank}] Received a dump signal \
             due to a collective timeout from  rank 1 and we will try our best to dump the debug info. Last enqueued NCCL work: {enqueued}, \
             last completed NCCL work: {completed}.\n"
        )
    }

    #[test]
    fn the_highest_ranks_are_missed_when_their_number_is_known() {
        let waits: String = (0..6).map(|rank| timeout(rank, "ALLREDUCE", 64, 698)).collect();
        let unknown = of(&waits, &[]);
        assert_eq!((unknown.world, unknown.missing, unknown.silent), (None, vec![], vec![]));
        let known = of(&format!("using world size: 8, data-parallel size: 8\n[rank6]: step 3 loss 2.0\n{waits}"), &[]);
        assert_eq!((known.world, known.missing.as_slice(), known.silent.as_slice()), (Some(8), [6, 7].as_slice(), [7].as_slice()));
        assert_eq!(known.unexplained, [6], "it wrote lines, and none of them says why");
        // The other node's log is not here: it is said, and nobody is accused.
        let node = of(&format!("using world size: 16, data-parallel size: 16\n{waits}"), &[]);
        assert_eq!((node.missing.len(), node.silent.len()), (0, 10));
        // One rank's own log says nothing of the others.
        assert!(of(&format!("using world size: 8, data-parallel size: 8\n{}", timeout(0, "ALLREDUCE", 64, 698)), &[]).silent.is_empty());
        // In the midst of those that waited a rank is missed, whatever the other node says.
        let gap: String = [8, 9, 10, 12, 13, 14, 15].map(|rank| timeout(rank, "ALLREDUCE", 64, 698)).concat();
        assert_eq!(of(&format!("using world size: 16, data-parallel size: 16\n{gap}"), &[]).missing, [11]);
        // A rank that cannot be: the number was of something else.
        let wrong = of(&format!("using world size: 4, data-parallel size: 4\n{waits}"), &[]);
        assert_eq!((wrong.world, wrong.missing, wrong.silent), (None, vec![], vec![]));
    }

    #[test]
    fn counters_alone_tell_who_lags() {
        let text: String = [status(0, 698, 690), status(1, 697, 690), status(2, 690, 690), status(3, 698, 690)].concat();
        let found = of(&text, &[]);
        assert_eq!((found.seq, found.group.as_deref(), found.waiting()), (691, Some("0"), vec![0, 1, 3]));
        assert_eq!((found.behind, found.missing), (vec![(2, 690)], vec![2]));
        assert!(found.progress[0].waits() && !found.progress[2].waits());
    }

    #[test]
    fn a_part_of_the_ranks_accuses_nobody_outside_it() {
        let group = |rank: u32| {
            format!(
                "[rank{rank}]:[E813 12:25:30.692163833 ProcessGroupNCCL.cpp:2271] [PG ID 1 PG GUID 3(tp) Rank {rank}]  failure detected by \
                 watchdog at work sequence id: 691 PG status: last enqueued work: 698, last completed work: 690\n"
            )
        };
        let text: String =
            (0..4).map(|rank| format!("{}{}", timeout(rank, "ALLREDUCE", 64, 698).lines().next().unwrap(), "\n") + &group(rank)).collect();
        let found = of(&format!("world_size=6\n{text}[rank4]: step 3 loss 2.0\n"), &[]);
        assert_eq!((found.group.as_deref(), found.missing, found.silent), (Some("3"), vec![], vec![5]));
        // The two that wait in no group are those that all others wait for.
        assert_eq!((found.absent, found.unexplained), (vec![4, 5], vec![4]));
        // The numbers inside the groups are not the ranks.
        let inside: String = (0..4).map(|rank| group(rank).replace(&format!(" Rank {rank}]"), &format!(" Rank {}]", rank % 2))).collect();
        assert_eq!(of(&inside, &[]).waiting(), [0, 1, 2, 3]);
    }
}
