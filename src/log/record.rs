//! The prefix of a line (rank, time, level, node) and what sort of line it is.
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

static SOURCE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let source = concat!(
        r#"^(?:(?:[-=]*>|[❱>|│E]|\d{1,5})\s+)*(?:"#,
        r#"(?:raise|assert|return|yield|except|elif|else|with|import|from|def|class|async|await|throw|catch)\b[^:]*[\w("'.]"#,
        r#"|(?:if|for|while)\s+\S.*:$"#,
        r#"|(?:self|cls|torch|logger|log|logging|warnings|os|sys|np|jax|tf|model|trainer|engine)\.[\w.\[\]]*\("#,
        r#"|(?:print|printf|fprintf|TORCH_CHECK|TORCH_WARN|LOG|WARN|INFO|NCCLCHECK|C10_CUDA_CHECK|RuntimeError|ValueError|fmt::format|echo|grep)\s*\("#,
        r#"|[\w.\[\]]+(?:\s*,\s*[\w.]+)*\s*[-+*/|&]?=\s*[\w.]+\("#,
        r#"|(?:const|let|var|auto)\s+\w+\s*=|\+\s+["']"#,
        r#"|#[^~\d]|//|/\*|\*\s|\+\+\+|---\s|@@|diff --git|\$\s|grep\b|echo\b|def\b"#,
        r#")"#
    );
    Regex::new(&ascii(source, true)).ok()
});

/// Is this the header of a traceback frame: `File "x.py", line 12, in f`?
fn is_frame(text: &str) -> bool {
    text.contains("File \"") && text.contains("\", line ")
}

/// Is source printed under this frame? The dump of a crash handler (`line 12 in f`, without a comma) has none.
fn shows_source(text: &str) -> bool {
    let Some((_, rest)) = text.split_once("\", line ") else { return false };
    is_frame(text) && !rest.trim_start_matches(|c: char| c.is_ascii_digit()).starts_with(" in ")
}

static GLUED: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let class = r"(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Exhausted)";
    Regex::new(&ascii(&format!(r"\s(?P<class>{class})(?:: ?\S|:$)"), true)).ok()
});

/// A record that begins at the exception's name, where a traceback was copied without its line breaks and source code
/// stands in front of it: `raise ValueError("bad") ValueError: bad`.
pub fn without_glued_source(record: Record) -> Record {
    let text = record.body.text.as_str();
    if !["Error:", "Exception:", "Interrupt:", "Exit:", "Exhausted:"].iter().any(|end| text.contains(end)) {
        return record;
    }
    // A comment or a changed line that quotes an exception is no source code in front of one.
    let is_code =
        text.trim_start_matches(|c: char| c.is_ascii_digit() || " ->❱".contains(c)).starts_with(|c: char| c.is_ascii_alphabetic());
    let is_source = || (is_code && SOURCE.as_ref().is_some_and(|source| source.is_match(text))) || is_frame(text);
    let Some(glued) = GLUED.as_ref().filter(|glued| glued.is_match(text) && is_source()) else { return record };
    let names = glued.captures_iter(text).filter_map(|found| found.name("class"));
    let is_glued = |start: &usize| {
        let code = text[..*start].trim_end();
        // A class that the code itself names: `except ValueError: pass`.
        !["except", "raise", ",", "|"].iter().any(|end| code.ends_with(end)) && !ends_in_string(code)
    };
    let Some(start) = names.map(|class| class.start()).find(is_glued) else { return record };
    Record { body: record.body.skip(start), ..record }
}

/// Is a string of source code still open at the end of this text?
fn ends_in_string(text: &str) -> bool {
    let mut open = None;
    let mut escaped = false;
    for byte in text.bytes() {
        match open {
            Some(_) if escaped => escaped = false,
            Some(_) if byte == b'\\' => escaped = true,
            Some(quote) if byte == quote => open = None,
            None if matches!(byte, b'"' | b'\'') => open = Some(byte),
            _ => {}
        }
    }
    open.is_some()
}

/// Does this line echo source code, so that what it says is not an event? `before` are the lines above, nearest first.
///
/// A traceback prints the failing source line under its frame, Python 3.11 and later several of them and a caret line.
pub fn is_echo(record: &Record, before: &[Record]) -> bool {
    let text = record.body.text.as_str();
    if is_frame(text) && text.trim_start_matches([' ', '│', '|']).starts_with("File \"") && !text.contains("rror: ") {
        return true;
    }
    // Source stands deeper than its frame; a line of another process in between does not. A paste may have lost the indent.
    let under = |above: &Record| shows_source(&above.body.text) && (record.indent > above.indent || above.indent == 0);
    if before.first().is_some_and(under) && looks_like_code(text) {
        return true;
    }
    // The echo of one statement can take several lines, always deeper than its frame.
    let frame = before.iter().take(8).position(|above| shows_source(&above.body.text));
    if let Some(at) = frame {
        let depth = before[at].indent;
        if record.indent > depth && before[..at].iter().all(|line| line.indent > depth) && !looks_like_message(text) {
            return true;
        }
    }
    let quoted = SOURCE.as_ref().is_some_and(|source| source.is_match(text)) || is_quotation(record);
    quoted && !looks_like_message(text) && !is_table_heading(text)
}

/// The two heading rows of `nvidia-smi dmon` and `pmon` begin like a comment.
fn is_table_heading(text: &str) -> bool {
    text.starts_with("# gpu  ") || text.starts_with("# Idx  ")
}

/// Texts that quote a message and report no event: requests with their prompts, records of data sets, strings of source
/// code, statements and addresses, metrics, change lists, tables and questions of documentation.
static QUOTATION: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let forms = [
        // requests that a server logs with the user's prompt, and records of conversations
        r#"\bReceived? (?:request|obj)\b|\bprompt['"]?\s*[:=]\s*['"]|\bGenerateReqInput\("#,
        r#"^\{.*"(?:instruction|prompt|question|completion|chosen|rejected)"\s*:\s*["\[{]|"role"\s*:\s*"(?:user|system|assistant|tool)""#,
        // strings of source code: in an argument list, continued, prefixed, compared, assigned, returned, added by a diff
        r#"^(?:[-+]\s+)?[rfbuRFBUL]{0,2}"(?:[^"\\]|\\.)*"\s*(?:\\|[,;)][\s,;)\]}\\]*)\s*(?:#.*)?$"#,
        r#"^(?:[-+]\s+)?[rfbuRFBUL]{1,2}"(?:[^"\\]|\\.)*"\s*(?:#.*)?$"#,
        r#"^(?:or|and|not|in)\s+[rfbuRFBU]{0,2}["']"#,
        r#"^[\w.\[\]]+ \+?= \(?[rfbuRFBUL]{0,2}["'].*["'][\s,;)]*$"#,
        r#"^(?:case\b[^"]{1,80}|default\s*):\s*return\b"#,
        r#"^\+{1,3} (?:echo|printf|grep|awk|sed)\b|^\+ {4,}\S"#,
        r#"^(?:- )?(?:pattern|regexp?|expr|match|description|help)\s*:\s*["']"#,
        // statements, addresses, metrics
        r#"\b(?:INSERT INTO|SELECT .{1,200} FROM|UPDATE \w+ SET|DELETE FROM)\b"#,
        r#""(?:GET|POST|PUT|HEAD|DELETE|PATCH) [^"]* HTTP/\d"#,
        r#"^[A-Za-z_:][\w:]*\{[^}]*\}\s+(?:NaN|[-+]?(?:[\d.]+(?:e[-+]?\d+)?|Inf))(?:\s+\d+)?$"#,
        // change lists, tables, questions
        r#"^(?:[-*]\s+|[0-9a-f]{7,12}\s+)?(?:\[[\w/ -]{1,24}\]\s*)?(?i:(?:bug|hot)?fix(?:e[ds])?|handle[ds]?|avoid(?:s|ed)?|prevent(?:s|ed)?)[ :(]"#,
        r#"^\|\s*`"#,
        r#"^(?i:if (?:you (?:see|get|encounter|hit|receive|face|run into)|dmesg|the log|your log))\b"#,
        // cells of an HTML table, a log line sent by hand, tasks set to a model, turns of a chat
        r#"^<(?:td|th|li|option|h[1-6])\b[^>]*>"#,
        r#"^logger\s+(?:-\w+\s+[\w.]+\s+)*["']"#,
        r#"^(?:Explain|Translate|Summari[sz]e|Classify|Paraphrase)\b[^:]{0,60}[:\s]"#,
        r#"^\[(?:prompt|response|ground_truth|question|answer|user|assistant)\]"#,
        r#"^(?:User|Human|Assistant): |^<[a-z][\w-]{0,30}> "#,
        // what a model wrote or was given, printed during training
        r#"^(?:Samples?|Generated(?: text)?|Generation|Completion|Prediction|Reference|Target)(?: \d+)?\s*[:=]\s"#,
        r#"^(?:Input|Output|Text|Example|Label|Source|Response|Instruction|Prompt|Decoded)(?: \d+)?\s*[:=]\s*["'`]"#,
        // Chinese: a question with its answer, "if you meet ..."
        r#"^(?:Q|A|问|答|问题|回答)\d*\s*："#,
        r#"(?:如果|若|如遇|倘若).{0,60}[`“「]"#,
        r#"(?i)^.{0,200}\b(?:what does|how (?:do|can|could|should|to)(?: I| we| you| one)? (?:fix|avoid|solve|debug|handle|prevent|resolve|interpret))\s.{0,20}["'`]"#,
    ];
    Regex::new(&ascii(&forms.map(|form| format!("(?:{form})")).join("|"), true)).ok()
});

/// Does this line quote a message rather than report it?
pub fn is_quotation(record: &Record) -> bool {
    QUOTATION.as_ref().is_some_and(|quotation| quotation.is_match(&record.body.text))
}

/// An exception line: a dotted class name, a colon, a text.
fn looks_like_message(text: &str) -> bool {
    static MESSAGE: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r"^[A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Warning|Exit): \S").ok());
    MESSAGE.as_ref().is_some_and(|message| message.is_match(text))
}

fn looks_like_code(text: &str) -> bool {
    !looks_like_message(text) || text.ends_with('(')
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

    #[test]
    fn source_glued_to_its_exception_goes() {
        for (line, body) in [
            ("    raise ValueError(\"Loss is {}\") ValueError: Loss is 3", "ValueError: Loss is 3"),
            ("File \"/a/t.py\", line 12, in f return g(x) torch.OutOfMemoryError: CUDA", "torch.OutOfMemoryError: CUDA"),
            (
                "raise ChildFailedError( torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ===",
                "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ===",
            ),
        ] {
            assert_eq!(without_glued_source(record(line)).body.text, body);
        }
        for line in [
            "raise RuntimeError(\"Engine died. Cause: ValueError: bad\")",
            "raise RuntimeError('it said \\' ValueError: bad')",
            "RuntimeError: worker 3 said ValueError: bad",
            "except ValueError: pass",
        ] {
            assert_eq!(without_glued_source(record(line)).body.text, line);
        }
    }

    #[test]
    fn quotations_are_no_events() {
        for line in [
            "INFO 05-22 02:20:59 [logger.py:39] Received request cmpl-0a1b-0: prompt: 'Killed', params: SamplingParams(n=1)",
            "{\"messages\": [{\"role\": \"user\", \"content\": \"loss: nan, why?\"}]}",
            "        or \"Some NCCL operations have failed\" in log_text",
            "        f\"CUDA call failed lazily at initialization with error: {str(e)}\\n\\n\"",
            "    \"CUDA driver error: unknown error\",  \\",
            "errorString = r\"CUDA error: invalid device ordinal\"",
            "- Fix `loss: nan` when using label smoothing (#1234)",
            "a1b2c3d Fixed CUDA out of memory on resume",
            "kube_pod_container_status_terminated_reason{container=\"trainer\",reason=\"OOMKilled\"} 0",
            "LOG:  statement: SELECT id FROM jobs WHERE exit_code = 137;",
            "What does `exit code: 137` mean?",
            "Sample: 'The process was Killed because CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 10.76 GiB total capacity)' is common.",
            "Generated: RuntimeError: NCCL error is something users see.",
            "Output 3: \"Killed\"",
        ] {
            assert!(is_quotation(&record(line)), "{line}");
        }
        for line in [
            "How can I fix RuntimeError: CUDA out of memory. Tried to allocate 1.16 GiB",
            "level=error msg=\"container exited\" reason=\"OOMKilled\"",
            "\"reason\": \"OOMKilled\",",
            "RuntimeError: CUDA error: device-side assert triggered",
            "step 12 loss nan",
            "Output: RuntimeError: CUDA error: out of memory",
        ] {
            assert!(!is_quotation(&record(line)), "{line}");
        }
    }

    #[test]
    fn echoed_source_is_no_event() {
        let echo = |lines: &[&str]| {
            let records: Vec<Record> = lines.iter().rev().map(|line| record(line)).collect();
            is_echo(&records[0], &records[1..])
        };
        assert!(echo(&["  File \"a.py\", line 3, in f", "    raise RuntimeError(\"CUDA out of memory. \""]));
        assert!(echo(&["  File \"a.py\", line 3, in f", "    work = group.broadcast([tensor], opts)"]));
        assert!(echo(&["    raise RuntimeError(f\"NCCL timed out\")"]));
        assert!(echo(&["logger.error(\"Killed\")"]));
        assert!(!echo(&["  File \"a.py\", line 3, in f", "    f()", "torch.OutOfMemoryError: CUDA out of memory."]));
        assert!(!echo(&["RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB"]));
        assert!(!echo(&["  File \"a.py\", line 3 in f", "Segmentation fault (core dumped)"]));
        assert!(!echo(&["  File \"a.py\", line 3, in f", "Segmentation fault (core dumped)"]));
        assert!(echo(&["File \"a.py\", line 3, in f", "work = group.broadcast([tensor], opts)"]));
        assert!(!echo(&["Killed"]));
        assert!(echo(&["logger -t kernel \"NVRM: Xid (PCI:0000:04:00): 79, GPU has fallen off the bus\""]));
        assert!(echo(&["<td>NVRM: Xid (PCI:0000:04:00): 48, DBE</td>"]));
        assert!(echo(&["[prompt] Why is there no space left on device?"]));
        assert!(echo(&["如果遇到 `CUDA error: no kernel image is available`，请重新编译。"]));
        assert!(!echo(&["报错RuntimeError: CUDA error: an illegal memory access was encountered"]));
        assert!(!echo(&["  File \"train.py\", line 20 in <module>", "Segmentation fault (core dumped)"]));
        assert!(!echo(&["  File \"a.py\", line 3, in f", "slurmstepd: error: Detected 1 oom_kill event in StepId=4.0."]));
        assert!(!echo(&["  File \"a.py\", line 3, in f", "torch.cuda.OutOfMemoryError: CUDA out of memory."]));
    }
}
