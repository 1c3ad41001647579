//! Is this text a log worth reading? Source code, Markdown and configuration opened as a log stay silent.
//!
//! A judgement over the first lines only. It errs on the side of reading: rules do not match ordinary text.

/// Lines looked at.
pub const HEAD_LINES: usize = 200;

/// File names that are logs whatever is in them.
const LOG_ENDINGS: [&str; 6] = [".log", ".out", ".err", ".csv", ".txt", ".jsonl"];

/// Should a document be read as a log?
///
/// `name` is the file's name or path, `language` the editor's id for it (empty when there is none), `head` its beginning.
pub fn looks_like_log(name: &str, language: &str, head: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let file = name.rsplit(['/', '\\']).next().unwrap_or(&name);
    let claims = matches!(language, "log" | "trainwreck-log" | "messages")
        || LOG_ENDINGS.iter().any(|ending| file.ends_with(ending))
        || file.contains(".log.")
        || ["stdout", "stderr", "slurm-", "rank"].iter().any(|start| file.starts_with(start));
    let unclaimed = matches!(language, "" | "plaintext" | "text" | "txt") && !file.contains('.');
    (claims || unclaimed) && !is_document(head)
}

/// Is this line a heading of a bug report? Such a text is Markdown around a pasted log, and the log is a real one.
fn heads_bug_report(line: &str) -> bool {
    const HEADINGS: [&str; 8] = [
        "describe the bug",
        "to reproduce",
        "expected behavi",
        "your current environment",
        "relevant log",
        "error log",
        "what happened",
        "system info",
    ];
    let Some(heading) = line.strip_prefix('#') else { return false };
    let heading = heading.trim_start_matches(['#', ' ', '*']).to_lowercase();
    HEADINGS.iter().any(|start| heading.starts_with(start))
}

/// Is the beginning of a text source code, Markdown or a JSON document?
pub fn is_document(head: &str) -> bool {
    let lines: Vec<&str> = head.lines().take(HEAD_LINES).map(str::trim_end).filter(|line| !line.trim().is_empty()).collect();
    if lines.is_empty() {
        return false;
    }
    let share = |marks: usize, of: f64| marks as f64 >= of * lines.len() as f64;
    let count = |is: &dyn Fn(&str) -> bool| lines.iter().filter(|line| is(line)).count();
    // One JSON document; JSON lines are a log.
    let first = lines[0].trim_start_matches('\u{feff}');
    if matches!(first, "{" | "[") && lines.get(1).is_some_and(|line| line.trim_start().starts_with(['"', '{', '[', '}'])) {
        return true;
    }
    if first.starts_with("diff --git") || first.starts_with("--- a/") {
        return true;
    }
    // Some programs write their error report in Markdown; it is the log of a failure all the same.
    let report = first.starts_with("# ") && first.contains("Error Report") || lines.iter().any(|line| heads_bug_report(line));
    let headings = count(&|line| ["# ", "## ", "### "].iter().any(|mark| line.starts_with(mark)));
    let fences = count(&|line| line.starts_with("```"));
    if !report && headings > 0 && (fences >= 2 || headings >= 3 && share(headings, 0.03)) && first.starts_with(['#', '<', '[', '-', '`']) {
        return true;
    }
    let code = count(&|line| {
        let text = line.trim_start();
        let starts = [
            "import ",
            "from ",
            "def ",
            "class ",
            "return ",
            "if ",
            "elif ",
            "else:",
            "for ",
            "while ",
            "try:",
            "except",
            "with ",
            "self.",
            "async ",
            "fn ",
            "let ",
            "pub ",
            "use ",
            "#include",
            "const ",
            "var ",
            "function ",
            "assert ",
            "raise ",
        ];
        // A logged dictionary ends in a brace as well, and so does a configuration printed into a log.
        let opens_block = text.ends_with('{') && !text.starts_with(['"', '\'', '{', '[']);
        // A decorator; with a blank behind the sign it is a frame of a glog stack trace.
        let decorates = text.strip_prefix('@').is_some_and(|name| name.starts_with(|c: char| c.is_alphabetic() || c == '_'));
        starts.iter().any(|start| text.starts_with(start)) || decorates || text.ends_with(';') || opens_block
    });
    let frames = count(&|line| line.contains("\", line "));
    // One line that ends in a brace is a message as likely as code.
    code >= 3 && share(code, 0.35) && frames * 4 < code
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_told_from_logs() {
        assert!(is_document("import torch\n\ndef f(x):\n    return x\n\nclass A:\n    pass\n"));
        assert!(is_document("# Troubleshooting\n\nText\n\n```\nCUDA out of memory\n```\n"));
        assert!(is_document("{\n  \"fp16\": {}\n}\n"));
        assert!(!is_document(
            "# ComfyUI Error Report\n## Error Details\n- **Node Type:** KSampler\n## Stack Trace\n```\n  File \"a.py\"\n```\n"
        ));
        assert!(!is_document("### Describe the bug\n\nIt dies.\n\n### Logs\n```shell\nRuntimeError: x\n```\n\n### System Info\n- torch\n"));
        assert!(!is_document("Traceback (most recent call last):\n  File \"a.py\", line 3, in f\n    return x\nValueError: x\n"));
        assert!(!is_document("{\"loss\": 1.0}\n{\"loss\": 2.0}\n"));
        assert!(!is_document("{'loss': 2.0}\n"));
        assert!(!is_document("{'loss': 2.0, 'epoch': 0.01}\n{'loss': 0.0, 'epoch': 0.02}\n{'loss': 0.0, 'epoch': 0.03}\n"));
        assert!(!is_document("ValueError: bad\nlosses = {'cls': nan}\n"));
        assert!(!is_document("[INFO] json = {\n    \"fp16\": {\n        \"enabled\": true\n    }\n}\nstep 1\n"));
        assert!(is_document("int f(int x) {\n    int y = x;\n    y += 2;\n    return y;\n}\n"));
        assert!(!is_document("RuntimeError: worker failed: {}\n"));
        assert!(!is_document(
            "F1129 10:15:04.766489 447 blob.cu:79] Check failed: x\n    @ 0x7f1 (unknown)\n    @ 0x7f2 net::step()\n    @ 0x7f3 main\n"
        ));
        assert!(is_document("@torch.no_grad()\ndef f(x):\n    return x\n"));
        assert!(!is_document(""));
        assert!(looks_like_log("/tmp/train.log", "", "step 1\n"));
        assert!(looks_like_log("slurm-123.out", "plaintext", "step 1\n"));
        assert!(!looks_like_log("train.py", "python", "step 1\n"));
    }
}
