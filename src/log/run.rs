//! One run told over several files: the ranks of a job write one log each, and the cause stands in one of them.
//!
//! Each file is told by itself first; joining picks the root cause among theirs and makes what followed elsewhere a
//! consequence. Files belong together only where their names say so: a rank, a node, a task of one job.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use regex::{Captures, Regex};

use super::collectives::{self, Collective, Evidence};
use super::groups;
use super::marks;
use super::root;
use super::uncaught;
use super::vocabulary::{Cause, Role, Severity};
use super::{Analysis, Finding};

/// One file of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Part {
    /// Its name, as the reader knows it.
    pub name: String,
    /// The rank whose file it is, where the name says so.
    pub rank: Option<u32>,
    /// What it says.
    pub analysis: Analysis,
}

/// A finding of one of the parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Index of the part.
    pub part: usize,
    /// Index into its findings.
    pub finding: usize,
}

/// Joins the stories of the parts: returns the finding that explains the others, and gives all of them the roles and
/// severities that they have in the whole run.
pub fn join(parts: &mut [Part]) -> Option<Place> {
    for part in parts.iter_mut() {
        give_ranks(part);
    }
    let told: Vec<Told> = parts.iter().map(|part| Told::of(&part.analysis, part.rank)).collect();
    let told: Vec<&Told> = told.iter().collect();
    let collective = waited_in(&told);
    for part in parts.iter_mut() {
        compare(&mut part.analysis, collective.as_ref());
    }
    let root = root(parts, &told)?;
    let lead = &parts[root.part].analysis.findings[root.finding];
    let same_event = (lead.rule.clone(), lead.cause);
    let is_marked = lead.text(marks::RANKS).is_some();
    let is_several = |part: &Part| part.analysis.findings.iter().any(|finding| finding.rank.is_some_and(|rank| rank > 0));
    if !is_marked && parts.iter().any(is_several) {
        let texts = &mut parts[root.part].analysis.findings[root.finding].texts;
        texts.push((marks::RANKS.to_owned(), "several".to_owned()));
    }
    for (nth, part) in parts.iter_mut().enumerate() {
        let Analysis { findings, story } = &mut part.analysis;
        if nth == root.part {
            if story.root != Some(root.finding) {
                promote(findings, story, root.finding);
            }
            continue;
        }
        demote(findings, story, &same_event);
    }
    Some(root)
}

/// Makes the root cause of a part what it is when another part has the run's.
fn demote(findings: &mut [Finding], story: &mut super::Story, event: &(Arc<str>, Cause)) {
    let Some(own) = story.root.take() else { return };
    let members = story.group_of(own).map_or_else(|| vec![own], |group| group.members.clone());
    let same = findings[own].rule == event.0 && findings[own].cause == event.1;
    for member in members {
        let finding = &mut findings[member];
        finding.role = if same || member != own { Role::Repeat } else { Role::Consequence };
        if !same && finding.severity == Severity::Error {
            finding.severity = Severity::Warning;
        }
    }
}

/// What a file says that matters to the others of its run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Told {
    root: Option<Finding>,
    exception: Option<Finding>,
    died: bool,
    evidence: Evidence,
}

impl Told {
    /// What this file says; `rank` is that of its name.
    pub fn of(analysis: &Analysis, rank: Option<u32>) -> Told {
        let Analysis { findings, story } = analysis;
        let ranked = |i: usize| Finding { rank: findings[i].rank.or(rank), ..findings[i].clone() };
        let exception = uncaught::candidate(findings, story).map(ranked);
        let evidence = Evidence::of(findings, rank, &story.ranks);
        Told { root: story.root.map(ranked), exception, died: uncaught::has_symptom(findings, story), evidence }
    }
}

/// Gives a file what came out of comparing the ranks of all files of its run.
pub fn compare(analysis: &mut Analysis, collective: Option<&Arc<Collective>>) {
    analysis.story.of_run = collective.cloned();
    if let Some(collective) = collective {
        collectives::mark(&mut analysis.findings, collective);
    }
}

/// The collective that most ranks of a run waited in.
pub fn waited_in(told: &[&Told]) -> Option<Arc<Collective>> {
    collectives::judge(told.iter().map(|one| &one.evidence)).map(Arc::new)
}

/// Which of the files holds the root cause of the run, and the finding.
pub fn choose<'t>(told: &[&'t Told]) -> Option<(usize, &'t Finding)> {
    let mut best: Option<(usize, &Finding)> = None;
    for (part, finding) in told.iter().enumerate().filter_map(|(part, one)| Some((part, one.root.as_ref()?))) {
        if best.is_none_or(|(_, now)| root::explains_run_better(finding, now)) {
            best = Some((part, finding));
        }
    }
    if best.is_some_and(|(_, finding)| finding.precedence < uncaught::SYMPTOMS_FROM) {
        return best;
    }
    let died = best.is_some() || told.iter().any(|one| one.died);
    let exception = || told.iter().enumerate().find_map(|(part, one)| Some((part, one.exception.as_ref()?)));
    if died { exception().or(best) } else { best }
}

/// Makes a finding of a file its root cause, since it is that of the run: an exception that explains what others saw.
pub fn lead(analysis: &mut Analysis, root: &Finding) {
    let Analysis { findings, story } = analysis;
    let at = findings.iter().position(|finding| finding.span == root.span && finding.rule == root.rule);
    if let Some(at) = at.filter(|&at| story.root != Some(at)) {
        promote(findings, story, at);
    }
}

/// Gives a file the roles that it has in a run whose root cause stands in another one.
///
/// `file` is how that one is called where its finding is named.
pub fn follow(analysis: &mut Analysis, root: &Finding, file: &str) {
    let Analysis { findings, story } = analysis;
    let event = (root.rule.clone(), root.cause);
    if story.root.is_some_and(|own| findings[own].rule == event.0 && findings[own].cause == event.1) {
        // The same event once more: each file may have its own.
        return;
    }
    demote(findings, story, &event);
    story.elsewhere = Some(Elsewhere { file: file.to_owned(), line: root.span.line, rank: root.rank, title: root.title.clone() });
}

/// The root cause of a run, seen from another of its files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Elsewhere {
    /// The file that it stands in.
    pub file: String,
    /// Its line, 0-based.
    pub line: usize,
    /// Its rank, where known.
    pub rank: Option<u32>,
    /// The title of its rule.
    pub title: Arc<str>,
}

/// The rank of the file is the rank of its findings that name none.
fn give_ranks(part: &mut Part) {
    let Some(rank) = part.rank else { return };
    for finding in &mut part.analysis.findings {
        finding.rank = finding.rank.or(Some(rank));
    }
    let Analysis { findings, story } = &mut part.analysis;
    for group in &mut story.groups {
        group.ranks = groups::ranks_of(&group.members, findings);
    }
}

/// Makes a finding the root cause of its part, and the former one a consequence.
fn promote(findings: &mut [Finding], story: &mut super::Story, new: usize) {
    if let Some(old) = story.root.replace(new) {
        findings[old].role = Role::Consequence;
        if findings[old].severity == Severity::Error {
            findings[old].severity = Severity::Warning;
        }
    }
    (findings[new].role, findings[new].severity) = (Role::RootCause, Severity::Error);
}

/// The root cause among the parts' own; else an exception that one of them printed and that explains the symptoms.
fn root(parts: &[Part], told: &[&Told]) -> Option<Place> {
    let (part, finding) = choose(told)?;
    let Analysis { findings, story } = &parts[part].analysis;
    let is_root = told[part].root.as_ref().is_some_and(|root| std::ptr::eq(root, finding));
    Some(Place { part, finding: if is_root { story.root? } else { uncaught::candidate(findings, story)? } })
}

/// What a path says about the run that a file belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Membership {
    /// The same for all files of the run.
    pub key: String,
    /// The rank, where the path names one.
    pub rank: Option<u32>,
}

struct Names {
    torchrun: Regex,
    made_up: Regex,
    slurm: Regex,
    index: Regex,
    stream: Regex,
}

static NAMES: LazyLock<Option<Names>> = LazyLock::new(|| {
    Some(Names {
        // torchrun --log-dir: RUN/attempt_0/3/stderr.log
        torchrun: Regex::new(r"(?P<head>attempt_\d+[/\\])(?P<rank>\d+)(?P<tail>[/\\](?:stdout|stderr)\.log)$").ok()?,
        // The folder of a run: its id, and eight characters that make it a new one.
        made_up: Regex::new(r"(?P<head>_)[a-z0-9_]{8}(?P<tail>[/\\])$").ok()?,
        // srun --output=slurm-%j-%t.out; `%A_%a` are the elements of an array, runs of their own
        slurm: Regex::new(r"(?P<head>(?:^|[/\\])(?:slurm|job)[-_.]?\d+-)(?:[A-Za-z][\w.]*-)?(?P<rank>\d+)(?P<tail>\.(?:out|err|log))$").ok()?,
        index: Regex::new(r"(?i)(?P<head>^|[^A-Za-z])(?P<word>(?:global_|local_|node_)?rank|node|host|worker|nid|replica)(?P<glue>[-_.=]?)(?P<index>\d{1,8})")
            .ok()?,
        stream: Regex::new(r"(?i)(?:stdout|stderr|\.out|\.err)(?P<tail>\.log|\.txt)?$").ok()?,
    })
});

/// The run that a file of this path belongs to; `None` when the path names no rank, node or task.
pub fn membership(path: &str) -> Option<Membership> {
    let names = NAMES.as_ref()?;
    if let Some(found) = names.torchrun.captures(path) {
        let before = &path[..found.get(0)?.start()];
        let folder = indexed(before, names);
        // On several nodes the folder's number is the rank on its node, and each node makes up a name for the run.
        let head = folder.as_ref().map_or(before.into(), |(key, _)| names.made_up.replace(key, "${head}*${tail}"));
        let key = format!("{head}{}*{}", &found["head"], &found["tail"]);
        let rank = if folder.is_some() { None } else { found["rank"].parse().ok() };
        return Some(Membership { key: without_stream(&key, names), rank });
    }
    if let Some(found) = names.slurm.captures(path) {
        let rank = found["rank"].parse().ok();
        let key = names.slurm.replace(path, |found: &Captures<'_>| format!("{}*{}", &found["head"], &found["tail"]));
        return Some(Membership { key: without_stream(&key, names), rank });
    }
    let (key, rank) = indexed(path, names)?;
    Some(Membership { key: without_stream(&key, names), rank })
}

/// A path with the numbers of its ranks and nodes taken out, and the rank that it names.
fn indexed(path: &str, names: &Names) -> Option<(String, Option<u32>)> {
    let mut rank = None;
    let mut any = false;
    let key = names.index.replace_all(path, |found: &Captures<'_>| {
        any = true;
        // A local rank repeats on every node, and the number of a worker or node is no rank.
        if matches!(found["word"].to_ascii_lowercase().as_str(), "rank" | "global_rank") {
            rank = found["index"].parse().ok();
        }
        format!("{}{}{}*", &found["head"], &found["word"], &found["glue"])
    });
    any.then(|| (key.into_owned(), rank))
}

/// Standard output and error of one rank belong to one run.
fn without_stream(key: &str, names: &Names) -> String {
    names.stream.replace(key, "*").into_owned()
}

/// Groups paths into runs: the indices of the files of each, in order of their first file. A run has at least two files.
pub fn group(paths: &[&str]) -> Vec<Vec<usize>> {
    let mut runs: Vec<Vec<usize>> = Vec::new();
    let mut of_key: BTreeMap<String, usize> = BTreeMap::new();
    for (i, path) in paths.iter().enumerate() {
        match membership(path) {
            Some(Membership { key, .. }) => {
                let at = *of_key.entry(key).or_insert(runs.len());
                if at == runs.len() {
                    runs.push(Vec::new());
                }
                runs[at].push(i);
            }
            None => runs.push(vec![i]),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::analyze;
    use crate::log::rules::Rules;

    fn part(name: &str, text: &str) -> Part {
        let rank = membership(name).and_then(|run| run.rank);
        Part { name: name.to_owned(), rank, analysis: analyze(text, &Rules::builtin()) }
    }

    fn timeout(rank: u32) -> String {
        format!(
            "[rank{rank}]:[E1129 09:20:00.100000000 ProcessGroupNCCL.cpp:616] [Rank {rank}] Watchdog caught collective operation timeout: \
             WorkNCCL(SeqNum=691, OpType=ALLREDUCE, NumelIn=16777216, NumelOut=16777216, Timeout(ms)=600000) ran for 600012 milliseconds \
             before timing out.\n"
        )
    }

    #[test]
    fn the_cause_in_one_file_explains_the_timeouts_in_the_others() {
        let oom = "step 80 loss 2.3\nRuntimeError: CUDA error: out of memory\n";
        let mut parts = [part("rank_0.log", &timeout(0)), part("rank_3.log", oom), part("rank_1.log", &timeout(1))];
        let root = join(&mut parts).unwrap();
        assert_eq!(root, Place { part: 1, finding: 0 });
        let lead = |i: usize| &parts[i].analysis.findings[0];
        assert_eq!((lead(0).role, lead(0).severity), (Role::Consequence, Severity::Warning));
        assert_eq!((lead(1).role, lead(1).severity, lead(1).rank), (Role::RootCause, Severity::Error, Some(3)));
        assert_eq!(parts[0].analysis.story.root, None);
    }

    #[test]
    fn memory_in_one_file_explains_the_time_limit_in_another() {
        let limit = "step 80 loss 2.3\nslurmstepd: error: *** STEP 9.0 ON n1 CANCELLED AT 2025-02-11T08:00:09 DUE TO TIME LIMIT ***\n";
        let oom = "step 80 loss 2.3\nRuntimeError: CUDA error: out of memory\n";
        for (parts, root) in [([("rank_0.log", oom), ("rank_1.log", limit)], 0), ([("rank_0.log", limit), ("rank_1.log", oom)], 1)] {
            let mut parts = parts.map(|(name, text)| part(name, text));
            assert_eq!(join(&mut parts).unwrap(), Place { part: root, finding: 0 });
        }
    }

    #[test]
    fn an_exception_in_one_file_explains_the_timeouts_in_the_others() {
        let exception = "Traceback (most recent call last):\n  File \"/home/user/train.py\", line 3, in f\n    x\nKeyError: 'text'\n";
        let mut parts = [part("rank_0.log", &timeout(0)), part("rank_1.log", &timeout(1)), part("rank_2.log", exception)];
        let root = join(&mut parts).unwrap();
        assert_eq!(root.part, 2);
        assert_eq!(parts[2].analysis.findings[root.finding].severity, Severity::Error);
        assert_eq!(parts[1].analysis.findings[0].role, Role::Consequence);
    }

    #[test]
    fn the_earlier_of_two_causes_of_one_class_explains_the_run() {
        let oom = |time: &str| format!("{time} ERROR RuntimeError: CUDA error: out of memory\n");
        let root = |first: &str, second: &str| {
            let mut parts = [part("node01/train.log", &oom(first)), part("node02/train.log", &oom(second))];
            join(&mut parts).map(|root| root.part)
        };
        assert_eq!(root("2024-11-29 10:12:09,000", "2024-11-29 10:12:01,000"), Some(1));
        assert_eq!(root("2024-11-29 10:12:01,000", "2024-11-29 10:12:09,000"), Some(0));
        assert_eq!(root("2024-11-29 10:12:09,000", "Nov 29 10:12:01"), Some(0), "stamps of two styles are not compared");
    }

    #[test]
    fn one_event_on_all_ranks_has_one_root() {
        let mut parts = [part("rank_0.log", &timeout(0)), part("rank_1.log", &timeout(1))];
        assert_eq!(join(&mut parts), Some(Place { part: 0, finding: 0 }));
        assert_eq!(parts[1].analysis.findings[0].role, Role::Repeat);
    }

    #[test]
    fn names_that_belong_together() {
        let one = |path: &str| membership(path).map(|run| (run.key, run.rank));
        assert_eq!(one("logs/j1/attempt_0/3/stderr.log"), one("logs/j1/attempt_0/3/stdout.log"));
        assert_eq!(one("logs/j1/attempt_0/3/stderr.log").unwrap().1, Some(3));
        assert_ne!(one("logs/j1/attempt_0/3/stderr.log").unwrap().0, one("logs/j1/attempt_1/3/stderr.log").unwrap().0);
        let (first, second) = ("logs/node01/none_x3k_9a2b/attempt_0/3/stderr.log", "logs/node02/none_qq81zz0a/attempt_0/3/stderr.log");
        assert_eq!(one(first), one(second));
        assert_eq!(one(first).unwrap().1, None, "the rank on its node");
        assert_eq!(one("out/train_rank_12.log"), Some(("out/train_rank_*.log".to_owned(), Some(12))));
        assert_eq!(one("out/rank3.err").unwrap().0, one("out/rank4.out").unwrap().0);
        assert_eq!(one("slurm-771-4.out"), Some(("slurm-771-**".to_owned(), Some(4))));
        assert_ne!(one("slurm-771-4.out").unwrap().0, one("slurm-772-4.out").unwrap().0);
        assert_eq!(one("slurm-771_4.out"), None, "elements of an array are runs of their own");
        assert_eq!(one("run/node01/train.log").unwrap().0, one("run/node02/train.log").unwrap().0);
        for path in ["train.log", "run1.log", "exp/gpu0.log", "2024-01-01/train.log", "frank3.log"] {
            assert_eq!(one(path), None, "{path}");
        }
        assert_eq!(group(&["rank_0.log", "other.log", "rank_1.log"]), [vec![0, 2], vec![1]]);
    }
}
