//! Columns in every encoding a client may ask for, around characters that have different sizes in them.
#![allow(clippy::unwrap_used, clippy::expect_used)] // Helpers of tests are tests too.

mod common;

use common::{Client, OOM, range, rich};
use serde_json::{Value, json};

const RUN: &str = "file:///home/user/run.log";
const ENCODINGS: [&str; 3] = ["utf-8", "utf-16", "utf-32"];

fn start(offered: &[&str]) -> (Client, Value) {
    let mut capabilities = rich();
    capabilities["general"] = json!({"positionEncodings": offered});
    Client::with(capabilities, json!({}))
}

/// How many units of an encoding a text has.
fn units(text: &str, encoding: &str) -> usize {
    match encoding {
        "utf-8" => text.len(),
        "utf-16" => text.encode_utf16().count(),
        _ => text.chars().count(),
    }
}

/// The part of a line between two columns.
fn cut<'t>(line: &'t str, encoding: &str, from: &Value, to: &Value) -> &'t str {
    let byte = |column: &Value| {
        let column = column.as_u64().unwrap() as usize;
        let borders = line.char_indices().map(|(at, _)| at).chain([line.len()]);
        borders.into_iter().find(|&at| units(&line[..at], encoding) == column).expect("a column on a character border")
    };
    &line[byte(from)..byte(to)]
}

#[test]
fn the_first_known_encoding_is_taken() {
    for (offered, taken) in
        [(vec!["utf-8", "utf-16"], "utf-8"), (vec!["utf-32", "utf-8"], "utf-32"), (vec!["utf-16"], "utf-16"), (vec!["ebcdic"], "utf-16")]
    {
        let (client, hello) = start(&offered);
        assert_eq!(hello["capabilities"]["positionEncoding"], taken);
        assert_eq!(client.shut_down(), Some(0));
    }
}

#[test]
fn the_same_text_is_marked_in_every_encoding() {
    let lines = [
        format!("é😀 模型 | {OOM}"),
        format!(" 37%|███▋      | 371/1000 [01:02<01:44]\r 38%|███▊      | 380/1000\r{OOM}"),
        format!("\u{1b}[31m{OOM}\u{1b}[0m"),
    ];
    for line in &lines {
        let mut marked = Vec::new();
        for encoding in ENCODINGS {
            let (mut client, _) = start(&[encoding]);
            client.open(RUN, "log", &format!("a\r\n{line}\r\nb\n"));
            let marks = client.diagnostics(RUN, 1);
            let at = &marks[0]["range"];
            assert_eq!((&at["start"]["line"], &at["end"]["line"]), (&json!(1), &json!(1)));
            let part = cut(line, encoding, &at["start"]["character"], &at["end"]["character"]);
            assert!(part.contains("CUDA out of memory"), "{encoding}: {part:?}");
            marked.push(part);
            // The line is long: the hint stands behind what is underlined, where it can be seen.
            let everything = json!({"textDocument": {"uri": RUN}, "range": range((0, 0), (9, 0))});
            let hints = client.request("textDocument/inlayHint", everything);
            assert_eq!(hints[0]["position"], at["end"]);
            // The number is found where the client sees it.
            let number = units(&line[..line.find("2.00 GiB").unwrap()], encoding);
            let hover = client.hover(RUN, 1, number + 1);
            let from = hover["range"]["start"]["character"].as_u64().unwrap() as usize;
            let to = hover["range"]["end"]["character"].as_u64().unwrap() as usize;
            assert!(from <= number + 1 && number < to, "{encoding}: {hover}");
            assert_eq!(client.shut_down(), Some(0));
        }
        assert_eq!(marked[0], marked[1]);
        assert_eq!(marked[0], marked[2]);
    }
}

#[test]
fn a_lone_cr_may_come_as_a_line_end_or_stay_inside_the_line() {
    let bars = " 37%|###7      | 371/1000\r 38%|###8      | 380/1000\r";
    let kept = format!("{bars}{OOM}\n");
    let split = kept.replace('\r', "\n");
    for (text, line) in [(&kept, 0), (&split, 2)] {
        let mut client = Client::start();
        client.open(RUN, "log", text);
        assert_eq!(client.diagnostics(RUN, 1)[0]["range"]["start"]["line"], line);
        assert_eq!(client.shut_down(), Some(0));
    }
}

#[test]
fn positions_that_do_not_exist_are_moved_to_the_nearest() {
    let mut client = Client::start();
    client.open(RUN, "log", "one\r\ntwo\r\n");
    // Behind the line's end: at its end, before the CR. Behind the last line: at the end of the text.
    let changes = json!([
        {"range": range((0, 99), (0, 99)), "text": "!"},
        {"range": range((99, 0), (99, 5)), "text": format!("{OOM}\n")}
    ]);
    client.change(RUN, 2, changes);
    let marks = client.diagnostics(RUN, 2);
    assert_eq!(marks[0]["range"]["start"]["line"], 2);
    // "one!" is a line of four characters now: this takes the first line away and nothing else.
    client.change(RUN, 3, json!([{"range": range((0, 0), (1, 0)), "text": ""}]));
    assert_eq!(client.diagnostics(RUN, 3)[0]["range"]["start"]["line"], 1);
    client.hover(RUN, 4_000_000, 4_000_000);
    assert_eq!(client.shut_down(), Some(0));
}

#[test]
fn a_hint_is_never_behind_what_an_editor_draws() {
    let mut client = Client::start();
    let line = format!("{OOM}{}", " and so on".repeat(2_000));
    client.open(RUN, "log", &line);
    client.diagnostics(RUN, 1);
    let everything = json!({"textDocument": {"uri": RUN}, "range": range((0, 0), (9, 0))});
    let hints = client.request("textDocument/inlayHint", everything);
    assert!(hints[0]["position"]["character"].as_u64().unwrap() < 10_000);
    assert_eq!(client.shut_down(), Some(0));
}
