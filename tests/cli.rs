//! Transcripts of the commands: `tests/cli/*.txt` hold a command line, its exit code and what it prints.
//!
//! `UPDATE_TRANSCRIPTS=1 cargo test --test cli` writes them anew; the difference is then to be read.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test may fail that way

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn trainwreck(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_trainwreck"));
    command.args(args).current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli")).stdin(Stdio::null());
    command
}

fn transcript(command: &str, output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).lines().map(|line| format!("{}\n", line.trim_end())).collect::<String>();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    let err = if err.is_empty() { String::new() } else { format!("--- stderr\n{err}") };
    format!("$ {command}\n--- exit {}\n{out}{err}", output.status.code().unwrap_or(-1))
}

#[test]
fn transcripts_hold() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli");
    let update = std::env::var_os("UPDATE_TRANSCRIPTS").is_some();
    let mut problems = Vec::new();
    let mut seen = 0;
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|ending| ending != "txt") {
            continue;
        }
        seen += 1;
        let expected = std::fs::read_to_string(&path).unwrap();
        let command = expected.lines().next().and_then(|line| line.strip_prefix("$ ")).expect("a transcript begins with `$ `").to_owned();
        let args: Vec<&str> = command.split_whitespace().skip(1).collect();
        let got = transcript(&command, &trainwreck(&args).output().unwrap());
        if got != expected && update {
            std::fs::write(&path, got).unwrap();
        } else if got != expected {
            problems.push(format!("{}:\n{got}", path.display()));
        }
    }
    assert!(seen > 5, "the transcripts are missing");
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
}

#[test]
fn a_copied_exception_is_explained() {
    let output = trainwreck(&["explain", "KeyError: 'text'"]).output().unwrap();
    let page = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && page.contains("# Python exception"), "{page}");
}

#[test]
fn standard_input_is_read() {
    let mut child = trainwreck(&["check", "--format", "jsonl", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"step 1\nRuntimeError: CUDA error: out of memory\n").unwrap();
    let output = child.wait_with_output().unwrap();
    let line = String::from_utf8(output.stdout).unwrap();
    let finding: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!((output.status.code(), finding["line"].as_u64(), finding["kind"].as_str()), (Some(1), Some(2), Some("oom")));
    assert_eq!(finding["file"], "<stdin>");
}

#[test]
fn the_plan_stands_in_sarif_where_its_finding_is_told() {
    let output = trainwreck(&["check", "--format", "sarif", "plan-ranks"]).output().unwrap();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let results = report["runs"][0]["results"].as_array().unwrap();
    let oom = results.iter().find(|result| result["ruleId"] == "cuda-oom").unwrap();
    assert!(oom["message"]["text"].as_str().unwrap().contains("the plan expects for LlamaForCausalLM, full training, 4 × 2,048"), "{oom}");
    let model = &oom["properties"]["plan"]["model"];
    assert_eq!((&model["line"], &model["file"]), (&20.into(), &"plan-ranks/rank_0.log".into()));
    assert!(results.iter().filter(|result| result["ruleId"] != "cuda-oom").all(|result| result["properties"]["plan"].is_null()));
}

#[test]
fn a_closed_pipe_is_no_error() {
    let mut child = trainwreck(&["rules"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stderr).as_ref()), (Some(0), ""));
}

#[test]
fn hostile_input_gives_an_answer() {
    let folder = std::env::temp_dir().join(format!("trainwreck-hostile-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let oom = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.64 GiB of which 1.18 GiB is free.";
    let mut long = vec![b'x'; 20 << 20];
    long.extend_from_slice(format!(" {oom} ").as_bytes());
    long.extend(vec![b'y'; 20 << 20]);
    let cases: Vec<(&str, Vec<u8>, Option<i32>)> = vec![
        ("binary.log", (0..=255u8).cycle().take(100_000).collect(), Some(2)),
        ("invalid.log", [b"\xff\xfe\xfd bad ".as_slice(), oom.as_bytes(), b"\n\xc3\x28\n"].concat(), None),
        ("latin1.log", [b"caf\xe9 ".as_slice(), oom.as_bytes(), b"\n"].concat(), Some(1)),
        ("long.log", long, Some(1)),
        ("empty.log", Vec::new(), Some(0)),
        ("escape.log", format!("\x1b[31m{oom}\x1b[\x1b]0;\x1b[9999999999").into_bytes(), Some(1)),
        ("cr.log", format!("{}\r{oom}\r", "\r".repeat(100_000)).into_bytes(), Some(1)),
        ("utf16.log", std::iter::once(0xfeffu16).chain(format!("{oom}\r\n").encode_utf16()).flat_map(u16::to_le_bytes).collect(), Some(1)),
    ];
    for (name, bytes, code) in cases {
        let path = folder.join(name);
        std::fs::write(&path, bytes).unwrap();
        let output = trainwreck(&["check", path.to_str().unwrap()]).output().unwrap();
        if let Some(code) = code {
            assert_eq!(output.status.code(), Some(code), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        }
        assert!(output.status.code().is_some_and(|code| code < 3), "{name}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_pipe_is_masked_and_complaints_too() {
    let text = "/home/mmiller/run/train.py\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. of mmiller\n";
    let mut command = trainwreck(&["check", "--redact", "--all", "/dev/stdin", "/home/mmiller/none.log"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let (report, complaint) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(report.contains("error[cuda-oom]"), "{report}");
    assert!(complaint.contains("none.log: cannot be read"), "{complaint}");
    assert!(!report.contains("mmiller") && !complaint.contains("mmiller"), "{report}{complaint}");
}
