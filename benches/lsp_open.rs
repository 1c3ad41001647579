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

use std::fmt::Write as _;
use std::time::Instant;

use common::{Client, OOM, STEP, range};
use serde_json::{Value, json};

const RUN: &str = "file:///home/user/run.log";

fn main() {
    // Cargo passes flags of its own.
    let megabytes = std::env::args().find_map(|argument| argument.parse().ok()).unwrap_or(50);
    let text = mixed_log(megabytes * 1_000_000);
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

/// A log of so many bytes; the same every time.
fn mixed_log(bytes: usize) -> String {
    let mut log = String::with_capacity(bytes + 4096);
    let mut seed = 7_u64;
    let mut step = 0;
    while log.len() < bytes {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let noise = (seed >> 33) as usize;
        let (rank, loss) = (noise % 8, 1.0 + (noise % 9973) as f64 / 9973.0);
        step += 1;
        let _ = match noise % 23 {
            0..=7 => writeln!(log, "{{'loss': {loss:.4}, 'grad_norm': 0.91, 'learning_rate': 1.9e-05, 'epoch': {:.2}}}", step as f64 / 9e4),
            8..=11 => writeln!(
                log,
                " [2026-11-30 01:{:02}:{:02}] iteration {step:8}/ 500000 | consumed samples: {:12} | elapsed time per iteration (ms): 512.4 | \
                 learning rate: 1.500E-04 | global batch size:   512 | lm loss: {loss:.6}E+00 | loss scale: 1.0 | grad norm: 0.412 | \
                 number of skipped iterations:   0 | number of nan iterations:   0 |",
                step / 60 % 60,
                step % 60,
                step * 512
            ),
            12..=14 => writeln!(
                log,
                "INFO 11-30 01:{:02}:12 [loggers.py:127] Engine 000: Avg prompt throughput: {loss:.1} tokens/s, GPU KV cache usage: 41.2%",
                step % 60
            ),
            15 | 16 => {
                for percent in 0..6 {
                    let _ = write!(log, "\r{:3}%|{:<10}| {percent}/1000 [00:12<01:44,  8.31it/s]", percent * 16, "█".repeat(percent));
                }
                writeln!(log)
            }
            17..=19 => writeln!(
                log,
                "node01:{}:{} [{rank}] NCCL INFO Channel {:02}/24 : {rank}[{rank}] -> {}[{}] via P2P/CUMEM/read",
                4000 + rank,
                5000 + rank,
                noise % 24,
                (rank + 1) % 8,
                (rank + 1) % 8
            ),
            20 | 21 => writeln!(
                log,
                "[rank{rank}]: 2026-11-30 01:{:02}:07,{:03} - trainer - WARNING - data loader is slow, waited {loss:.2} s",
                step % 60,
                noise % 1000
            ),
            _ if noise % 40 == 1 => writeln!(
                log,
                "[rank{rank}]: Traceback (most recent call last):\n[rank{rank}]:   File \"/home/user/train.py\", line 211, in <module>\n\
                 [rank{rank}]:     main()\n[rank{rank}]: {OOM}"
            ),
            _ => writeln!(log, "\u{1b}[32mepoch 3\u{1b}[0m  é验证  val_loss={loss:.4}  acc=0.{:04}", noise % 10_000),
        };
    }
    log
}
