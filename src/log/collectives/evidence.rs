//! What the lines of a log say of collectives, kept for a comparison of ranks over several files.

use std::collections::{BTreeMap, BTreeSet};

use super::Call;
use crate::log::finding::Finding;
use crate::log::ranks::Ranks;
use crate::log::vocabulary::{Kind, Severity};

/// Reports of one file that are kept.
const MOST_REPORTS: usize = 1 << 16;

/// A process group as a line names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Group {
    /// Its unique name.
    pub id: String,
    /// Its description, where printed.
    pub name: Option<String>,
}

/// One line about a collective.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Report {
    /// Who wrote it.
    pub rank: u32,
    /// Its number inside the process group, where printed.
    pub inner: Option<u32>,
    /// The process group, where printed.
    pub group: Option<Group>,
    /// The collective that failed.
    pub seq: Option<i64>,
    /// What it was.
    pub call: Option<Call>,
    /// The last collective that the rank launched.
    pub enqueued: Option<i64>,
    /// The last one that finished there.
    pub completed: Option<i64>,
}

/// What one file says of the collectives of its ranks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Evidence {
    pub(super) reports: Vec<Report>,
    /// Ranks that report something else that went wrong.
    pub(super) told: BTreeSet<u32>,
    /// Ranks of which something was found or read.
    pub(super) heard: BTreeSet<u32>,
    /// How many ranks the run has.
    pub(super) world: Option<u32>,
}

impl Evidence {
    /// Collects what the findings of a file say. `file_rank` is the rank whose file it is, `ranks` those that wrote into it.
    pub fn of(findings: &[Finding], file_rank: Option<u32>, ranks: &Ranks) -> Evidence {
        let mut out = Evidence { world: ranks.world, ..Evidence::default() };
        out.heard.extend(ranks.wrote.iter().copied().chain(file_rank));
        for finding in findings {
            let Some(rank) = finding.rank.or(file_rank) else { continue };
            out.heard.insert(rank);
            if finding.kind != Kind::Nccl {
                if finding.severity != Severity::Info {
                    out.told.insert(rank);
                }
                continue;
            }
            let report = report(finding, rank);
            let says = report.seq.is_some() || report.enqueued.is_some();
            if says && out.reports.len() < MOST_REPORTS && out.reports.last() != Some(&report) {
                out.reports.push(report);
            }
        }
        out
    }
}

fn report(finding: &Finding, rank: u32) -> Report {
    let whole = |name: &str| finding.number(name).map(|number| number.value.as_f64() as i64);
    // The number of a group is a number, its name a text.
    let id = finding.text("pg").map(str::to_owned).or_else(|| whole("pg").map(|n| n.to_string()));
    let name = finding.text("pg_name").map(str::to_owned);
    let numel = whole("numel_in").zip(whole("numel_out"));
    Report {
        rank,
        inner: whole("group_rank").and_then(|inner| u32::try_from(inner).ok()),
        group: id.map(|id| Group { id, name }),
        seq: whole("seq"),
        call: finding.text("op").map(|op| Call { op: Some(op.to_owned()), numel }),
        enqueued: whole("last_enqueued").filter(|last| *last >= 0),
        completed: whole("last_completed").filter(|last| *last >= -1),
    }
}

/// Group, number, and the calls of those that waited, by rank.
pub(super) type Waited = (Option<String>, i64, BTreeMap<u32, Call>);

/// The collective that most ranks waited in.
pub(super) fn waited_in<'r, I: Iterator<Item = &'r Report>>(reports: &impl Fn() -> I) -> Option<Waited> {
    // A timeout hardly ever names its group, the status line beside it does.
    let mut group_of: BTreeMap<(u32, i64), &str> = BTreeMap::new();
    for report in reports() {
        if let (Some(group), Some(seq)) = (&report.group, report.seq) {
            group_of.insert((report.rank, seq), &group.id);
        }
    }
    let mut waits: BTreeMap<(i64, Option<&str>), BTreeMap<u32, Call>> = BTreeMap::new();
    let mut add = |rank: u32, seq: i64, own: Option<&'r Group>, call: Call| {
        let group = own.map(|group| group.id.as_str()).or_else(|| group_of.get(&(rank, seq)).copied());
        waits.entry((seq, group)).or_default().entry(rank).or_insert(call);
    };
    for report in reports() {
        if let (Some(seq), Some(call)) = (report.seq, &report.call) {
            add(report.rank, seq, report.group.as_ref(), call.clone());
        }
    }
    if !reports().any(|report| report.seq.is_some() && report.call.is_some()) {
        // Numbers alone: what was launched and did not finish is what a rank waited in.
        for report in reports() {
            let unfinished = report.completed.filter(|completed| report.enqueued.is_some_and(|enqueued| *completed < enqueued));
            if let Some(seq) = report.seq.or(unfinished.and_then(|completed| completed.checked_add(1))) {
                add(report.rank, seq, report.group.as_ref(), Call { op: None, numel: None });
            }
        }
    }
    // Lines that name no group belong to the only one that is named at their number.
    let unnamed: Vec<i64> = waits.keys().filter(|(_, group)| group.is_none()).map(|(seq, _)| *seq).collect();
    for seq in unnamed {
        let mut named = waits.range((seq, Some(""))..).map(|(key, _)| *key).take_while(|(at, _)| *at == seq);
        if let (Some(only), None) = (named.next(), named.next())
            && let Some(ranks) = waits.remove(&(seq, None))
        {
            let all = waits.entry(only).or_default();
            for (rank, call) in ranks {
                all.entry(rank).or_insert(call);
            }
        }
    }
    let ((seq, group), by_rank) = waits.into_iter().max_by_key(|((seq, _), by_rank)| (by_rank.len(), std::cmp::Reverse(*seq)))?;
    Some((group.map(str::to_owned), seq, by_rank))
}
