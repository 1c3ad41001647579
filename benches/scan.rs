//! How fast a log is read, beside ripgrep looking for the same anchors in the same run.
//!
//! `cargo bench --bench scan [-- MEGABYTES]` writes a mixed log and prints milliseconds, the best of five:
//!
//! - `lines`: finding the line starts alone;
//! - `analyze`: the whole analysis: gate, patterns, verdicts, story;
//! - `check`: the built command on the file, with reading and printing;
//! - `rg`: ripgrep counting the lines that hold one of the anchors (left out where there is no ripgrep).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)] // a benchmark may fail that way, and prints

#[path = "common/mod.rs"]
mod logs;

use std::process::{Command, Stdio};
use std::time::Instant;

use trainwreck::log::{analyze, rules::Rules};
use trainwreck::text::{Lines, StrLines};

fn main() {
    let megabytes = std::env::args().find_map(|argument| argument.parse().ok()).unwrap_or(50);
    let text = logs::mixed_log(megabytes * 1_000_000);
    let rules = Rules::builtin();
    let folder = std::env::temp_dir().join(format!("trainwreck-scan-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (log, anchors) = (folder.join("run.log"), folder.join("anchors"));
    std::fs::write(&log, &text).unwrap();
    let all: Vec<&str> = rules.pages().iter().flat_map(|page| page.front.anchors.iter().map(String::as_str)).collect();
    std::fs::write(&anchors, all.join("\n")).unwrap();

    println!(
        "log: {:.1} MB, {} lines; {} pages, {} anchors",
        text.len() as f64 / 1e6,
        StrLines::new(&text).count(),
        rules.pages().len(),
        all.len()
    );
    best("lines", || StrLines::new(&text).count());
    best("analyze", || analyze(&text, &rules).findings.len());
    let run = |command: &mut Command| command.stdout(Stdio::null()).stderr(Stdio::null()).status().map(|status| status.code());
    best("check", || run(Command::new(env!("CARGO_BIN_EXE_trainwreck")).args(["check", "--format", "jsonl"]).arg(&log)).unwrap());
    if run(Command::new("rg").arg("--version")).is_ok() {
        best("rg", || run(Command::new("rg").args(["--count", "--fixed-strings", "--file"]).arg(&anchors).arg(&log)).unwrap());
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

fn best<T>(what: &str, mut work: impl FnMut() -> T) {
    let mut times: Vec<f64> = (0..5)
        .map(|_| {
            let begin = Instant::now();
            std::hint::black_box(work());
            begin.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    times.sort_by(f64::total_cmp);
    println!("{what}: {:.0} ms", times[0]);
}
