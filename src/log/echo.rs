//! Lines that show source code or quote a message, and report nothing themselves; and source glued to what it raised.

use std::sync::LazyLock;

use regex::Regex;

use super::record::Record;
use super::rules::page::ascii;

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
    use crate::log::record::read;
    use crate::text::clean::segments;

    fn record(line: &str) -> Record {
        read(segments(line, 0).remove(0))
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
