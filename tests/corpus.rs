//! Whole logs: what must be found in each, and the harmless ones in which nothing may be.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test may fail that way

use std::path::{Path, PathBuf};

use trainwreck::log::rules::{Rules, excerpts::Excerpt};
use trainwreck::log::vocabulary::Severity;
use trainwreck::log::{analyze, sniff};

fn logs(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus").join(folder);
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file()).collect();
    files.sort();
    assert!(!files.is_empty());
    files
}

#[test]
fn every_log_tells_what_it_should() {
    let rules = Rules::builtin();
    let mut problems = Vec::new();
    for file in logs("runs") {
        let excerpt = Excerpt::parse(&std::fs::read_to_string(&file).unwrap());
        assert!(!excerpt.expected.is_empty(), "{} expects nothing", file.display());
        for (line, message) in excerpt.deviations(&analyze(&excerpt.text, &rules), None) {
            problems.push(format!("{}:{line}: {message}", file.display()));
        }
    }
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
}

#[test]
fn harmless_files_stay_silent() {
    let rules = Rules::builtin();
    let mut problems = Vec::new();
    for file in logs("harmless") {
        let text = std::fs::read_to_string(&file).unwrap();
        if sniff::is_document(&text) {
            continue;
        }
        for f in analyze(&text, &rules).findings.iter().filter(|f| f.severity != Severity::Info) {
            problems.push(format!("{}:{}: {} {}", file.display(), f.span.line + 1, f.rule, f.message));
        }
    }
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
}
