//! Which ranks a run has, as far as its log says: their number, and those that wrote a line.
//!
//! Numbers of all processes: `world_size=8` in its many spellings (c10d, DeepSpeed, Megatron, accelerate, Lightning),
//! the launch configs of torchrun, an echoed `torchrun --nnodes 2 --nproc-per-node 4`. Two different ones leave it open.
//! Numbers of a part of them, which only say that there are at least so many: `nranks 8` of an NCCL communicator,
//! `LOCAL_WORLD_SIZE=8`, one node of unknown many.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use aho_corasick::AhoCorasick;
use regex::Regex;

use super::echo;
use super::record;
use crate::text::{Lines, clean, floor_border};

/// Lines at the beginning of a log or of an attempt that are searched for the number of ranks.
const HEAD_LINES: usize = 5000;
/// Lines on each side of a failure whose ranks are read.
const NEAR_LINES: usize = 2000;
/// A line is read up to this length.
const MOST_BYTES: usize = 4096;
/// More processes than this are no processes.
const MOST_RANKS: u32 = 1 << 20;

/// The ranks of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ranks {
    /// How many there are, where the log says so.
    pub world: Option<u32>,
    /// Those that wrote a line near the failure, rising.
    pub wrote: Vec<u32>,
}

/// Words of which one stands in every line that tells the number of ranks.
const WORDS: [&str; 12] = [
    "orld_size",
    "orld size",
    "WORLD_SIZE",
    " nranks ",
    "nproc_per_node",
    "nproc-per-node",
    "min_nodes",
    "max_nodes",
    "Num processes: ",
    "accelerate launch",
    "processes registered. Starting with",
    "initialization options: size",
];

/// Words that make a number of ranks one of something else, or of another run.
const OTHERS: [&str; 9] = ["checkpoint", "parallel", "usage:", "default:", "expected", "should", "must", "example", "saved"];

struct Forms {
    words: AhoCorasick,
    total: Vec<Regex>,
    part: Regex,
    per_node: Regex,
    nodes: Regex,
    launch: Regex,
}

static FORMS: LazyLock<Option<Forms>> = LazyLock::new(|| {
    let total = [
        r#"(?:^|[^\w.`$-]|dist_|\bglobal_)(?i:world[_ ]sizes?)["'`]?(?:\s?[:=]\s?|\s\.{2,}\s|\s)\[?(\d{1,7})\b"#,
        r"^Num processes: (\d{1,7})$|\baccelerate launch .*--num[_-]processes[= ](\d{1,7})\b",
        r"All distributed processes registered\. Starting with (\d{1,7}) processes",
        r"\(default_pg\) Rank \d+\] ProcessGroupNCCL initialization options: size: (\d{1,7})\b",
    ];
    Some(Forms {
        words: AhoCorasick::new(WORDS).ok()?,
        total: total.iter().map(|form| Regex::new(form).ok()).collect::<Option<_>>()?,
        part: Regex::new(r"\bnranks (\d{1,7}) cudaDev|\bLOCAL_WORLD_SIZE\s?[:=]\s?(\d{1,7})\b").ok()?,
        per_node: Regex::new(r"--nproc[_-]per[_-]node[= ](\d{1,5})\b").ok()?,
        nodes: Regex::new(r"--nnodes[= ](\S+)").ok()?,
        launch: Regex::new(r"^(nproc_per_node|min_nodes|max_nodes)\s*: (\d{1,5})$").ok()?,
    })
});

/// What was read so far.
#[derive(Default)]
struct Told {
    totals: BTreeSet<u32>,
    at_least: u32,
    /// torchrun's launch configs: processes of a node, least and most nodes.
    launch: [Option<u32>; 3],
}

impl Told {
    fn world(mut self) -> Option<u32> {
        if let [Some(a_node), Some(least), Some(most)] = self.launch {
            match least == most {
                true => self.total(a_node.checked_mul(least)),
                false => self.at_least = self.at_least.max(a_node),
            }
        }
        let mut totals = self.totals.iter();
        match (totals.next(), totals.next()) {
            (Some(&total), None) => (total >= self.at_least).then_some(total),
            (None, _) => (self.at_least > 1).then_some(self.at_least),
            _ => None,
        }
    }

    fn total(&mut self, value: Option<u32>) {
        self.totals.extend(value.filter(|value| (1..=MOST_RANKS).contains(value)));
    }
}

/// Reads which ranks a run has. `failures` are the first and the last line of what went wrong, `attempt` the first line
/// of the last attempt.
pub fn read(lines: &dyn Lines, failures: Option<(usize, usize)>, attempt: usize) -> Ranks {
    let world = world(lines, attempt).or_else(|| (attempt > 0).then(|| world(lines, 0)).flatten());
    let count = lines.count();
    let (first, last) = failures.unwrap_or((count, count));
    let mut wrote = BTreeSet::new();
    let near = first.saturating_sub(NEAR_LINES).max(attempt)..first.saturating_add(NEAR_LINES).min(count);
    let end = last.saturating_sub(NEAR_LINES).max(near.end)..last.saturating_add(NEAR_LINES).min(count);
    for line in near.chain(end) {
        wrote.extend(rank_of(&lines.line(line)));
    }
    Ranks { world, wrote: wrote.into_iter().collect() }
}

/// Reads which ranks a file tells of in which nothing was found. `file_rank` is the rank whose file it is.
pub fn of_quiet(lines: &dyn Lines, file_rank: Option<u32>) -> Ranks {
    match file_rank {
        Some(rank) => Ranks { world: world(lines, 0), wrote: vec![rank] },
        None => read(lines, None, 0),
    }
}

/// The rank that a line begins with.
fn rank_of(raw: &str) -> Option<u32> {
    // A quick look first: nearly all lines have no such prefix.
    let first = raw.bytes().find(|byte| !byte.is_ascii_whitespace())?;
    if !(first.is_ascii_digit() || matches!(first, b'[' | b'(' | b'r' | b'R' | b'\x1b')) {
        return None;
    }
    let head = &raw[..floor_border(raw, 256)];
    if !(first.is_ascii_digit() || head.contains("ank")) {
        return None;
    }
    clean::segments(head, 0).into_iter().next_back().and_then(|segment| record::read(segment).prefix.rank)
}

fn world(lines: &dyn Lines, from: usize) -> Option<u32> {
    let forms = FORMS.as_ref()?;
    let mut told = Told::default();
    for at in from..lines.count().min(from.saturating_add(HEAD_LINES)) {
        let raw = lines.line(at);
        let raw = &raw[..floor_border(&raw, MOST_BYTES)];
        if !forms.words.is_match(raw) || (at > 0 && is_frame(&lines.line(at - 1))) {
            continue;
        }
        let record = clean::segments(raw, 0).into_iter().next_back().map_or_else(record::Record::default, record::read);
        if !echo::is_quotation(&record) {
            read_line(&record.body.text, forms, &mut told);
        }
    }
    told.world()
}

/// Does the next line echo the source of a frame?
fn is_frame(line: &str) -> bool {
    line.contains("File \"") && line.contains("\", line ")
}

fn read_line(text: &str, forms: &Forms, told: &mut Told) {
    if let Some(found) = forms.launch.captures(text.trim()) {
        let place = match &found[1] {
            "nproc_per_node" => 0,
            "min_nodes" => 1,
            _ => 2,
        };
        told.launch[place] = found[2].parse().ok();
        return;
    }
    if let Some(found) = forms.per_node.captures(text) {
        let a_node: Option<u32> = found[1].parse().ok();
        let nodes = forms.nodes.captures(text).map_or(Some(1), |found| found[1].parse::<u32>().ok());
        match a_node.zip(nodes) {
            Some((a_node, nodes)) => told.total(a_node.checked_mul(nodes)),
            // `--nnodes 1:4`, `--nnodes $NODES`: one of them at least.
            None => told.at_least = told.at_least.max(a_node.unwrap_or(0)),
        }
        return;
    }
    for found in forms.part.captures_iter(text) {
        let value = found.get(1).or(found.get(2)).and_then(|value| value.as_str().parse().ok()).unwrap_or(0);
        told.at_least = told.at_least.max(if value > MOST_RANKS { 0 } else { value });
    }
    for form in &forms.total {
        let Some(found) = form.captures(text) else { continue };
        let Some((whole, value)) = found.get(0).zip(found.get(1).or(found.get(2))) else { continue };
        let before = text[..whole.end()].to_ascii_lowercase();
        let part = ["local world", "group world", "local_world", "group_world", "node world"].iter().any(|word| before.contains(word));
        if !part && !OTHERS.iter().any(|word| before.contains(word)) {
            told.total(value.as_str().parse().ok());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::StrLines;

    fn world(log: &str) -> Option<u32> {
        read(&StrLines::new(log), None, 0).world
    }

    #[test]
    fn the_number_of_ranks_is_read_in_every_spelling() {
        for line in [
            "using world size: 8, data-parallel size: 4, context-parallel size: 1, tensor-model-parallel size: 2",
            "  world_size ...................................... 8",
            "[2024-06-01 10:00:00,101] [INFO] [launch.py:163:main] dist_world_size=8",
            "INFO: Waiting in store based barrier to initialize process group for 10 secondsrank: 1, key: store_based_barrier_key:1 (world_size=8, num_workers_joined=2, timeout=0:30:00 error=None)",
            "All distributed processes registered. Starting with 8 processes",
            "Num processes: 8",
            "+ torchrun --nnodes=2 --nproc_per_node=4 --rdzv-backend c10d train.py",
            "+ accelerate launch --multi_gpu --num_processes 8 train.py",
            "+ torchrun --standalone --nproc-per-node 8 train.py",
            "node01:120:130 [0] NCCL INFO ncclCommInitRank comm 0x55 rank 0 nranks 8 cudaDev 0 nvmlDev 0 busId 1000 commId 0x1 - Init COMPLETE",
            "LOCAL_WORLD_SIZE=8",
            "  global_world_sizes=[8, 8, 8, 8]",
            "[rank0]:[I1129 10:01:02.000000000 ProcessGroupNCCL.cpp:2260] [PG ID 0 PG GUID 0(default_pg) Rank 0] ProcessGroupNCCL initialization options: size: 8, global rank: 0, TIMEOUT(ms): 600000",
            "I1129 10:01:02.100000 4200 torch/distributed/launcher/api.py:188]   min_nodes       : 2\nI1129 10:01:02.100000 4200 torch/distributed/launcher/api.py:188]   max_nodes       : 2\nI1129 10:01:02.100000 4200 torch/distributed/launcher/api.py:188]   nproc_per_node  : 4",
        ] {
            assert_eq!(world(&format!("{line}\nstep 1 loss 2.0\n")), Some(8), "{line}");
        }
    }

    #[test]
    fn what_is_not_the_number_of_ranks_is_passed_over() {
        for line in [
            "tensor parallel world size: 8",
            "local_world_size=8",
            "group_world_size=2",
            "Loaded checkpoint saved with world_size=64",
            "usage: train.py [--world_size 8]",
            "set WORLD_SIZE=$SLURM_NTASKS",
            "  File \"train.py\", line 3, in main\n    init_process_group(world_size=8)",
            "dp_world_size=4",
            "tokenizing with num_processes: 16",
        ] {
            assert_eq!(world(&format!("{line}\nstep 1 loss 2.0\n")), None, "{line}");
        }
    }

    #[test]
    fn two_numbers_leave_it_open_and_a_part_raises_nothing() {
        assert_eq!(world("world_size=8\nworld_size=16\n"), None);
        assert_eq!(world("comm 0x55 rank 0 nranks 2 cudaDev 0\nworld_size=8\n"), Some(8));
        assert_eq!(world("comm 0x55 rank 0 nranks 16 cudaDev 0\nworld_size=8\n"), None);
        assert_eq!(world("torchrun --nnodes=1:4 --nproc_per_node=8 train.py\n"), Some(8), "of one node at least");
        // A restart with fewer ranks counts.
        let log = "world_size=8\nstep 1\nrestart\nworld_size=6\n";
        assert_eq!(read(&StrLines::new(log), None, 2).world, Some(6));
    }

    #[test]
    fn who_wrote_a_line() {
        let log = "[rank0]: step 1 loss 2.0\n[rank3]: step 1 loss 2.0\n[rank0]: step 2 loss 2.0\nno rank here\n";
        assert_eq!(read(&StrLines::new(log), None, 0).wrote, [0, 3]);
    }
}
