//! How long an editor waits: a large log is opened, grows, and is asked about.
//!
//! `cargo bench --bench lsp_open [-- MEGABYTES]` writes a mixed log (step lines of several trainers, progress bars with
//! lone carriage returns, collectives, tracebacks, a few out-of-memory errors), speaks to the built server as an editor
//! does, and prints milliseconds:
//!
//! - `open`: from the first byte of `didOpen` to the diagnostics; `scan`: the analysis alone, on the same text;
//! - `append`: from a `didChange` that adds a line at the end to its diagnostics, the middle and the slowest of 100;
//! - `insert`: the same for a line put in at the top, which moves every finding;
//! - `hover`: a hover on an error, the middle and the slowest of 100;
//! - `whole`: a `didChange` that carries the whole text with one line more, as some editors send it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)] // a benchmark may fail that way, and prints

#[path = "../tests/common/mod.rs"]
mod common;
#[path = "common/mod.rs"]
mod logs;

use std::time::Instant;

use common::{Client, OOM, STEP, range};
use serde_json::{Value, json};

const RUN: &str = "file:///home/user/run.log";

fn main() {
    // Cargo passes flags of its own.
    let megabytes = std::env::args().find_map(|argument| argument.parse().ok()).unwrap_or(50);
    let text = logs::mixed_log(megabytes * 1_000_000);
    let lines = text.matches('\n').count();
    println!("log: {:.1} MB, {lines} lines", text.len() as f64 / 1e6);

    let rules = trainwreck::log::rules::Rules::builtin();
    let begin = Instant::now();
    let analysis = trainwreck::log::analyze(&text, &rules);
    println!("scan: {:.0} ms, {} findings", millis(begin), analysis.findings.len());

    let mut client = Client::start();
    let document = json!({"uri": RUN, "languageId": "log", "version": 1, "text": text});
    let open = message("textDocument/didOpen", json!({ "textDocument": document }));
    let begin = Instant::now();
    client.body(&open);
    let marks = client.diagnostics(RUN, 1);
    println!("open: {:.0} ms, {} marks", millis(begin), marks.len());

    let mut version = 1;
    let mut end = lines;
    let mut change = |client: &mut Client, line: usize, new: &str| {
        version += 1;
        let begin = Instant::now();
        client.change(RUN, version, json!([{"range": range((line, 0), (line, 0)), "text": format!("{new}\n")}]));
        client.diagnostics(RUN, version);
        millis(begin)
    };
    let appended: Vec<f64> = (0..100)
        .map(|i| {
            let took = change(&mut client, end, if i % 10 == 0 { OOM } else { STEP });
            end += 1;
            took
        })
        .collect();
    show("append", appended);
    show("insert", (0..20).map(|_| change(&mut client, 0, STEP)).collect());

    let error = marks[0]["range"]["start"]["line"].as_u64().unwrap_or(0) as usize + 20;
    let hovers = (0..100).map(|_| {
        let begin = Instant::now();
        let hover = client.hover(RUN, error, marks[0]["range"]["start"]["character"].as_u64().unwrap_or(0) as usize);
        assert_ne!(hover, Value::Null);
        millis(begin)
    });
    show("hover", hovers.collect());

    let more = json!([{"text": format!("{}{text}{STEP}\n", format!("{STEP}\n").repeat(20))}]);
    let whole = message("textDocument/didChange", json!({"textDocument": {"uri": RUN, "version": 1000}, "contentChanges": more}));
    let begin = Instant::now();
    client.body(&whole);
    client.diagnostics(RUN, 1000);
    println!("whole: {:.0} ms", millis(begin));
    assert_eq!(client.shut_down(), Some(0));
}

fn message(method: &str, params: Value) -> Vec<u8> {
    json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string().into_bytes()
}

fn millis(begin: Instant) -> f64 {
    begin.elapsed().as_secs_f64() * 1e3
}

fn show(what: &str, mut times: Vec<f64>) {
    times.sort_by(f64::total_cmp);
    println!("{what}: {:.1} ms in the middle, {:.1} ms at most", times[times.len() / 2], times[times.len() - 1]);
}
