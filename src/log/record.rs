//! The prefix of a line: rank, time, level, node.
//!
//! Lines are classified, never whole files: one log mixes launchers, loggers, C++ and bars. A prefix is peeled only where
//! its form is known; text that belongs to a message (`[PG 0 Rank 3]`, `[deepspeed]`, `ERROR: `) stays.
//! Forms: c10 and glog headers (c10/util/Logging.cpp 2.6.0), torch Python loggers, torchrun, MPI, Slurm, pdsh, Ray, vLLM,
//! Docker Compose, Kubernetes CRI, syslog and dmesg, Python logging, loguru, DeepSpeed, fairseq, TensorFlow.

use std::sync::LazyLock;

use regex::{Regex, RegexSet, RegexSetBuilder};

use super::rules::page::ascii;
use crate::text::clean::{self, Segment};
use crate::text::floor_border;

/// What the prefix of a line says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prefix {
    /// Global rank or task number.
    pub rank: Option<u32>,
    /// Is it the global rank for sure, and not the number of a process on its node?
    pub is_global: bool,
    /// Time stamp, as written.
    pub time: Option<String>,
    /// Node, host, pod or actor.
    pub host: Option<String>,
}

impl Prefix {
    /// Lines of one rank or process carry one prefix; its time stamps differ.
    pub fn is_same_source(&self, other: &Prefix) -> bool {
        (self.rank, &self.host) == (other.rank, &other.host)
    }
}

/// A line without its prefix.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// The message, with its map to the raw line. White space at both ends is taken off.
    pub body: Segment,
    /// The prefix.
    pub prefix: Prefix,
    /// Columns of white space between the prefix and the message.
    pub indent: usize,
}

/// A stack of prefixes is at most this deep.
const MOST_PREFIXES: usize = 8;
/// Ranks from this number on are no ranks.
const MOST_RANKS: u32 = 1 << 24;
/// One prefix is at most this long.
const MOST_PREFIX_BYTES: usize = 160;
/// Boxes in one another are at most this many.
const MOST_BOXES: usize = 4;
/// Sides of a drawn box. The ASCII bar is not one of them: tables are read with their bars.
const BOX_SIDES: [char; 3] = ['│', '┃', '║'];
/// Memory for the states of the prefix set, in bytes; with less it falls back to an engine many times slower.
const SET_CACHE: usize = 16 << 20;

/// The prefix forms: the set says in one pass which of them fit, the expressions then read the fields of the first.
struct Forms {
    set: RegexSet,
    each: Vec<Regex>,
    /// Which of them is the bare number of `srun --label`.
    label: usize,
}

static PREFIXES: LazyLock<Option<Forms>> = LazyLock::new(|| {
    const DATE: &str = r"\d{4}[-/]\d\d[-/]\d\d[T _]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z| ?[+-]\d\d:?\d\d)?";
    const LEVEL: &str = r"(?:TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|CRITICAL|FATAL|SUCCESS)";
    const LABEL: &str = r"(?P<rank>\d{1,5}):\s";
    let forms = [
        // [rank3]:  [default3]:  [1,3]<stderr>:  and a space or a further header behind
        r"\[(?:rank|default|trainer|worker|role|[a-z_]+_?rank)(?P<rank>\d+)(?:\|\d+)?\]:\s?".to_owned(),
        r"\[\d+,(?P<rank>\d+)\]<(?:stdout|stderr|stddiag)>:\s?".to_owned(),
        // SageMaker's MPI: [1,mpirank:3,algo-1]<stderr>:
        r"\[\d+,mpirank:(?P<rank>\d+),(?P<host>[\w.-]+)\]<(?:stdout|stderr|stddiag)>:\s?".to_owned(),
        r"\[rank: (?P<rank>\d+)\]\s+".to_owned(),
        // c10: [E1129 10:11:12.123456789 file.cpp:616]   [E file.cpp:475]
        r"\[[IWEFVC](?P<time>\d{3,4} \d\d:\d\d:\d\d\.\d+)? ?[\w./-]+\.(?:cpp|cc|h|hpp|cu|py):\d+\]\s".to_owned(),
        // glog, absl and torch loggers: E1129 10:11:12.123456 1234 file.cc:616]
        r"[IWEFVC](?P<time>\d{4} \d\d:\d\d:\d\d\.\d+)\s+\d+ [\w./<>-]+:\d+\]\s".to_owned(),
        // TensorFlow: 2024-07-20 14:32:01.123456: W path/file.cc:42]
        format!(r"(?P<time>{DATE}): [IWEF] [\w./-]+:\d+\]\s?"),
        // Kubernetes CRI, then any date, bare or in brackets, with the separators loggers put behind it
        format!(r"(?P<time>{DATE}) (?:stdout|stderr) [FP]\s"),
        format!(r"\[(?:task )?(?P<time>{DATE})(?: TP\d+)?(?: DP\d+)?(?: PP\d+)?(?: EP\d+)?\]:?\s+"),
        format!(r"(?P<time>{DATE}) ?(?:[-|:,>]{{1,2}}\s+|\s+|$)"),
        r"\[?(?P<time>\d\d:\d\d:\d\d(?:[.,]\d+)?)\]?:?\s+(?:[-|]\s+)?".to_owned(),
        // syslog, journal and dmesg
        r"(?P<time>[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?: \d{4})?) (?P<host>[\w.-]+) [\w./@-]+(?:\[\d+\])?: ".to_owned(),
        r"(?P<time>[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d)\s+".to_owned(),
        r"\[(?P<time>[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4})\]\s".to_owned(),
        r"\[ *(?P<time>\d+\.\d{6})\](?:\[ *[TC]\d+\])?\s".to_owned(),
        r"kernel:\s".to_owned(),
        // Ray actors and vLLM processes: (RayTrainWorker pid=123, ip=10.0.0.4)  (raylet)
        r"\((?P<host>raylet|autoscaler|[\w:.<>\[\]() -]+? pid=\d+(?:, ip=[\da-fA-F.:]+)?)\)\s".to_owned(),
        r"\((?:VllmWorker|VllmWorkerProcess|Worker\S*) rank=(?P<rank>\d+) pid=\d+\)\s".to_owned(),
        // Docker Compose: vllm-1  |
        r"(?P<host>[A-Za-z][\w.-]*) +\| ".to_owned(),
        // Kubernetes: [pod/name/container]
        r"\[pod/(?P<host>[\w./-]+)\]\s".to_owned(),
        // pdsh and torchrun node names with a number, or the address of the node: node01:  worker-5:  10.0.0.4:
        r"(?P<host>(?:[a-z][a-z_]*[-.]?)+\d[\w.-]*|(?:\d{1,3}\.){3}\d{1,3}):\s+".to_owned(),
        // Accelerate's passed-on output
        r"std(?:err|out): ".to_owned(),
        // srun --label, and line counters that viewers put in front
        LABEL.to_owned(),
        r"\[\d{1,7}\]\s".to_owned(),
        // Determined: the container, the rank, two bars
        r"[0-9a-f]{8} (?:\[rank=(?P<rank>\d+)\] )?\|\|\s".to_owned(),
        // [INFO]  [INFO|trainer.py:123]  [WARNING][file]
        format!(r"\[{LEVEL}(?:\|[^\]]{{1,80}})?\]:?\s*(?:>> )?"),
        // vLLM: ERROR 09-10 12:22:13 [core.py:1346]
        format!(r"{LEVEL} (?P<time>\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?) \[?[\w./-]+:\d+\]\s?"),
        // Python's default: ERROR:module:
        format!(r"{LEVEL}:[A-Za-z_][\w.]*:\s?"),
        // loguru and fairseq: | INFO     | module:function:12 -
        format!(r"\|?\s*{LEVEL}\s*\|\s*[\w.:<>/-]+\s*[-|]\s"),
        // name - LEVEL -  and  LEVEL - name -
        format!(r"(?:- )?[\w./<>-]+ - {LEVEL} - (?:[\w./<>-]+:\d+ - )?"),
        format!(r"{LEVEL} - (?:[\w./<>:-]+ - )?"),
        // torch.distributed.elastic...: [ERROR]   DeepSpeed: [loss_scaler.py:181:update_scale]
        format!(r"torch\.[\w.]+: \[{LEVEL}\]\s"),
        r"\[[\w./-]+\.py:\d+(?::[\w<>]+)?\]\s".to_owned(),
        r">> ".to_owned(),
        // a quotation mark of a mail or an issue
        r"> ".to_owned(),
    ];
    let label = forms.iter().position(|form| form == LABEL)?;
    let forms: Vec<String> = forms.iter().map(|form| ascii(&format!("^(?:{form})"), true)).collect();
    let each = forms.iter().map(|form| Regex::new(form)).collect::<Result<_, _>>().ok()?;
    let set = RegexSetBuilder::new(&forms).dfa_size_limit(SET_CACHE).build().ok()?;
    Some(Forms { set, each, label })
});

/// Words in front of a colon or a bar that name no host.
const NO_HOST: &[&str] = &[
    "step",
    "epoch",
    "iter",
    "iteration",
    "batch",
    "line",
    "layer",
    "block",
    "level",
    "phase",
    "stage",
    "cuda",
    "v",
    "ep",
    "gpu",
    "loss",
    "top",
    "fold",
    "run",
    "rank",
    "acc",
    "seed",
    "trace",
    "debug",
    "info",
    "notice",
    "warn",
    "warning",
    "error",
    "critical",
    "fatal",
    "success",
];

/// Takes the prefixes off a clean segment.
pub fn read(segment: Segment) -> Record {
    let mut record = Record { body: segment, ..Record::default() };
    for _ in 0..MOST_PREFIXES {
        trim_start(&mut record);
        open_boxes(&mut record);
        let Some(length) = glued_carets(&record.body.text).or_else(|| peel(&record.body.text, &mut record.prefix)) else { break };
        record.body = std::mem::take(&mut record.body).skip(length);
        record.indent = 0;
    }
    trim_start(&mut record);
    let end = record.body.text.trim_end().len();
    record.body.text.truncate(end);
    record
}

/// Takes the two sides off a line in drawn boxes, as `rich` draws them: one in another round local variables.
fn open_boxes(record: &mut Record) {
    for _ in 0..MOST_BOXES {
        let text = record.body.text.trim_end();
        let Some(side) = BOX_SIDES.into_iter().find(|&side| text.starts_with(side)) else { return };
        let Some(inner) = text.strip_prefix(side).and_then(|text| text.strip_suffix(side)) else { return };
        let end = side.len_utf8() + inner.trim_end().len();
        record.body.text.truncate(end);
        record.body = std::mem::take(&mut record.body).skip(side.len_utf8());
        record.indent += 1;
        trim_start(record);
    }
}

/// What is seen last of the beginning of a raw line.
pub fn last(raw: &str, most_bytes: usize) -> Record {
    clean::segments(&raw[..floor_border(raw, most_bytes)], 0).pop().map(read).unwrap_or_default()
}

fn trim_start(record: &mut Record) {
    let blank = record.body.text.len() - record.body.text.trim_start().len();
    if blank > 0 {
        record.indent += blank;
        record.body = std::mem::take(&mut record.body).skip(blank);
    }
}

/// Length of a traceback's caret line to which another process's line was glued without a line end.
fn glued_carets(text: &str) -> Option<usize> {
    let carets = text.bytes().take_while(|b| matches!(b, b'^' | b'~')).count();
    let glued = text[carets..].starts_with(|c: char| c == '[' || c.is_ascii_alphanumeric());
    (carets >= 3 && glued).then_some(carets)
}

/// Length of the first prefix that fits, whose fields go to `prefix`.
fn peel(text: &str, prefix: &mut Prefix) -> Option<usize> {
    let forms = PREFIXES.as_ref()?;
    // A prefix is short; the set need not read on.
    let head = &text[..floor_border(text, MOST_PREFIX_BYTES)];
    for form in forms.set.matches(head) {
        let Some(found) = forms.each[form].captures(head) else { continue };
        let host = found.name("host").map(|m| m.as_str());
        let rest = found.get(0).map_or("", |whole| &text[whole.end()..]);
        if host.is_some_and(names_no_host) || (form == forms.label && begins_with_value(rest)) {
            continue;
        }
        let keep = |slot: &mut Option<String>, text: Option<&str>| {
            if slot.is_none() {
                *slot = text.map(str::to_owned);
            }
        };
        keep(&mut prefix.host, host);
        keep(&mut prefix.time, found.name("time").map(|m| m.as_str()));
        let rank = found.name("rank").and_then(|m| m.as_str().parse().ok()).filter(|&rank| rank < MOST_RANKS);
        // A launcher's own number may be that of a process on its node, `[default3]:`; torch prints the global one.
        let is_global = head.starts_with("[rank");
        if rank.is_some() && (prefix.rank.is_none() || (is_global && !prefix.is_global)) {
            (prefix.rank, prefix.is_global) = (rank, is_global);
        }
        return found.get(0).map(|whole| whole.len()).filter(|&length| length > 0);
    }
    None
}

/// Does a decimal value come first? Then the number in front of it counts steps, as darknet's ` 1201: 2.31, 2.12 avg`.
fn begins_with_value(rest: &str) -> bool {
    let value = rest.trim_start_matches(['-', '+', ' ']);
    let digits = value.bytes().take_while(u8::is_ascii_digit).count();
    let decimal = digits > 0 && value[digits..].starts_with('.') && value[digits + 1..].starts_with(|c: char| c.is_ascii_digit());
    decimal || ["nan,", "inf,"].iter().any(|word| value.starts_with(word))
}

fn names_no_host(host: &str) -> bool {
    let word = host.trim_end_matches(|c: char| !c.is_ascii_alphabetic());
    NO_HOST.contains(&word.to_ascii_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::clean::segments;

    fn record(line: &str) -> Record {
        read(segments(line, 0).remove(0))
    }

    #[test]
    fn prefixes_are_peeled() {
        let cases = [
            ("[rank3]: RuntimeError: x", "RuntimeError: x", Some(3)),
            ("[rank1]:[E1129 10:11:12.123456789 ProcessGroupNCCL.cpp:616] [Rank 1] Watchdog", "[Rank 1] Watchdog", Some(1)),
            ("[rank1]:[E ProcessGroupNCCL.cpp:523] [Rank 1] W", "[Rank 1] W", Some(1)),
            ("[rank4]:E1129 10:11:12.123456 77 torch/distributed/run.py:702] oops", "oops", Some(4)),
            ("[default3]:[rank11]: RuntimeError: x", "RuntimeError: x", Some(11)),
            ("[1,0]<stdout>:step 3", "step 3", Some(0)),
            ("[1,mpirank:3,algo-1]<stderr>:RuntimeError: x", "RuntimeError: x", Some(3)),
            (" 1201: 2.312345, 2.1 avg loss, 0.001 rate", "1201: 2.312345, 2.1 avg loss, 0.001 rate", None),
            ("1202: -nan, nan avg loss, 0.001 rate", "1202: -nan, nan avg loss, 0.001 rate", None),
            ("worker-5: [rank22]: ValueError: x", "ValueError: x", Some(22)),
            ("(RayTrainWorker pid=123, ip=10.0.0.4) RuntimeError: x", "RuntimeError: x", None),
            ("(EngineCore_DP0 pid=12) ERROR 09-10 12:22:13 [core.py:1346] RuntimeError: x", "RuntimeError: x", None),
            ("vllm-1  | INFO 05-02 10:11:12 [utils.py:634] ok", "ok", None),
            ("node01: Killed", "Killed", None),
            ("10.3.0.42: [rank8]: ValueError: x", "ValueError: x", Some(8)),
            ("10.3.0.42:29500 did not answer", "10.3.0.42:29500 did not answer", None),
            ("stderr: [rank1]: ValueError: x", "ValueError: x", Some(1)),
            ("2024-01-14T17:41:37.636863045Z stderr F Killed", "Killed", None),
            ("2024-01-14T17:41:37.636863045Z [E ProcessGroupNCCL.cpp:828] [Rank 7] W", "[Rank 7] W", None),
            ("Jan  3 10:11:12 node01 kernel: [ 12.345678] Out of memory", "Out of memory", None),
            ("[441280.839852] Out of memory: x", "Out of memory: x", None),
            ("[Mon Dec  8 10:02:17 2025] NVRM: Xid", "NVRM: Xid", None),
            ("2020-08-01 12:39:16 | INFO | fairseq.trainer | NOTE: x", "NOTE: x", None),
            ("2023-01-25 00:21:34.569 | INFO     | trainers.base:train:256 - [R0] | E6", "[R0] | E6", None),
            ("2025-03-25 18:31:51,844 - src.utils.lora - INFO - Step 1000", "Step 1000", None),
            ("[2023-06-07 22:16:00,018] [INFO] [loss_scaler.py:181:update_scale] [deepspeed] OVERFLOW!", "[deepspeed] OVERFLOW!", None),
            ("[2024-03-26 16:50:50,221] torch.distributed.elastic.multiprocessing.api: [ERROR] failed", "failed", None),
            ("2024-07-20 14:32:01.123456: W tensorflow/core/bfc_allocator.cc:42] Allocator", "Allocator", None),
            ("ERROR:torch.distributed.elastic:failed", "failed", None),
            ("3: RuntimeError: x", "RuntimeError: x", Some(3)),
            ("[INFO|trainer.py:1812] 2024-12-04 06:02:09,301 >> ***** Running", "***** Running", None),
            ("[1743]   1%| | 10/1752", "1%| | 10/1752", None),
            ("          ^^^^^^^^[rank1]:[E1003 18:37:01.832146912 ProcessGroupNCCL.cpp:607] [Rank 1] W", "[Rank 1] W", Some(1)),
        ];
        for (line, body, rank) in cases {
            let got = record(line);
            assert_eq!((got.body.text.as_str(), got.prefix.rank), (body, rank), "{line}");
            assert!(line.ends_with(&line[got.body.raw_start(0)..]), "{line}");
            assert_eq!(&line[got.body.raw_start(0)..], body, "{line}");
        }
    }

    #[test]
    fn messages_keep_their_own_brackets() {
        for line in [
            "[PG 0 Rank 3] Timeout",
            "[enforce fail at alloc_cpu.cpp:75] err",
            "step1: loss nan",
            "ERROR: Unexpected bus error",
            "| 0  N/A |",
        ] {
            assert_eq!(record(line).body.text, line);
        }
    }

    #[test]
    fn a_box_is_opened() {
        let line = "[rank1]: │ CUDA out of mem   │";
        let got = record(line);
        assert_eq!((got.body.text.as_str(), got.prefix.rank), ("CUDA out of mem", Some(1)));
        assert_eq!(&line[got.body.raw_start(0)..got.body.raw_stop(15)], "CUDA out of mem");
        assert_eq!(record("│ │ x = 'CUDA out of memory' │     │").body.text, "x = 'CUDA out of memory'");
        assert_eq!(record("│ ❱ 31 │ run()").body.text, "│ ❱ 31 │ run()");
        assert_eq!(record("│").body.text, "│");
    }
}
