//! The language server under bad input, impatient clients and large files.
#![allow(clippy::unwrap_used, clippy::expect_used)] // Helpers of tests are tests too.

mod common;

use common::{Client, OOM, STEP, at, dead_run, range, rich};
use serde_json::{Value, json};

const RUN: &str = "file:///home/user/run.log";
const BIG: &str = "file:///home/user/big.log";

/// A healthy log of this many megabytes that ends in an error.
fn big(megabytes: usize) -> String {
    let mut text = String::with_capacity(megabytes * 1_000_000 + 1_000);
    while text.len() < megabytes * 1_000_000 {
        text.push_str(STEP);
        text.push('\n');
    }
    text.push_str(OOM);
    text.push('\n');
    text
}

/// Puts a step in front of everything.
fn push_down() -> Value {
    json!([{"range": range((0, 0), (0, 0)), "text": format!("{STEP}\n")}])
}

#[test]
fn the_last_of_a_burst_of_changes_is_seen() {
    let mut client = Client::start();
    client.open(RUN, "log", &dead_run());
    for version in 2..=1001 {
        client.change(RUN, version, push_down());
    }
    let hover = client.hover(RUN, 1002, 60);
    assert_eq!(hover["range"]["start"]["line"], 1002);
    assert_eq!(client.diagnostics(RUN, 1001)[0]["range"]["start"]["line"], 1002);
    // And each single one by the request behind it.
    for version in 1002..1300 {
        client.change(RUN, version, push_down());
        let line = version + 1;
        assert_eq!(client.hover(RUN, line as usize, 60)["range"]["start"]["line"], line);
    }
    assert_eq!(client.shut_down(), Some(0));
}

#[test]
fn diagnostics_never_belong_to_an_older_text() {
    let mut client = Client::start();
    client.open(RUN, "log", &dead_run());
    let last = 400;
    for version in 2..=last {
        client.change(RUN, version, push_down());
        if version % 40 == 0 {
            client.hover(RUN, 0, 0);
        }
    }
    let mut seen = vec![(json!(last), client.diagnostics(RUN, last))];
    for message in client.unread().filter(|m| m["method"] == "textDocument/publishDiagnostics") {
        let marks = message["params"]["diagnostics"].as_array().unwrap().clone();
        seen.push((message["params"]["version"].clone(), marks));
    }
    for (version, marks) in seen {
        assert_eq!(marks[0]["range"]["start"]["line"], json!(version.as_i64().unwrap() + 1), "version {version}");
    }
    assert_eq!(client.shut_down(), Some(0));
}

#[test]
fn bodies_that_cannot_be_parsed_are_survived() {
    let mut client = Client::start();
    let deep = format!(r#"{{"jsonrpc":"2.0","method":"x","params":{}{}}}"#, "[".repeat(9999), "]".repeat(9999));
    for body in ["{", "", "[]", "null", r#"{"jsonrpc":"2.0","id":{},"method":5}"#, "\u{0}", &deep, "{}"] {
        client.body(body.as_bytes());
    }
    client.body(b"{\"jsonrpc\":\"2.0\",\"method\":\"\xff\xfe\"}");
    client.notify("$/unknown", json!({}));
    client.notify("unknown/note", json!([1]));
    // The parameters are of the wrong type: the notification is lost, the server is not.
    client.notify("textDocument/didOpen", json!({"textDocument": 5}));
    let id = client.ask("unknown/request", json!({}));
    assert_eq!(client.answer(id)["error"]["code"], -32601);
    client.open(RUN, "log", &dead_run());
    assert_eq!(client.diagnostics(RUN, 1)[0]["code"], "cuda-oom");
    assert_eq!(client.shut_down(), Some(0));
}

#[test]
fn half_of_a_surrogate_pair_keeps_its_column() {
    let mut client = Client::start();
    client.open(RUN, "log", &dead_run());
    client.diagnostics(RUN, 1);
    // A client that cuts an emoji in two sends its halves one after the other.
    for (version, half) in [(2, "\\ud83d"), (3, "\\ude00")] {
        let change = format!(
            r#"{{"jsonrpc":"2.0","method":"textDocument/didChange","params":{{"textDocument":{{"uri":"{RUN}","version":{version}}},
            "contentChanges":[{{"range":{{"start":{{"line":2,"character":{at}}},"end":{{"line":2,"character":{at}}}}},"text":"{half}"}}]}}}}"#,
            at = version - 2
        );
        client.body(change.as_bytes());
    }
    let root = &client.diagnostics(RUN, 3)[0];
    assert_eq!(root["range"]["start"]["line"], 2);
    assert!(root["range"]["start"]["character"].as_u64().unwrap() >= 2);
    assert_eq!(client.shut_down(), Some(0));
}

#[test]
fn exit_codes_say_whether_shutdown_came() {
    assert_eq!(Client::start().shut_down(), Some(0), "the input is still open");
    let mut rude = Client::start();
    rude.notify("exit", Value::Null);
    assert_eq!(rude.exit_code(), Some(1));
    let mut gone = Client::start();
    gone.hang_up();
    assert_eq!(gone.exit_code(), Some(1));
    let mut polite = Client::start();
    polite.request("shutdown", Value::Null);
    polite.hang_up();
    assert_eq!(polite.exit_code(), Some(0));
    let mut broken = Client::start();
    broken.raw(b"Content-Length: many\r\n\r\n{}");
    assert_eq!(broken.exit_code(), Some(1));
    let mut never = Client::spawn();
    never.hang_up();
    assert_eq!(never.exit_code(), Some(1));
}

#[test]
fn requests_at_the_wrong_time_are_refused() {
    let mut client = Client::spawn();
    let id = client.ask("textDocument/hover", at(RUN, 0, 0));
    assert_eq!(client.answer(id)["error"]["code"], -32002);
    // Too early as well, and large: not kept.
    client.open(BIG, "log", &big(1));
    client.request("initialize", json!({"capabilities": rich(), "processId": null, "rootUri": null}));
    client.notify("initialized", json!({}));
    client.open(RUN, "log", &dead_run());
    client.diagnostics(RUN, 1);
    assert!(!client.unread().any(|m| m["params"]["uri"] == BIG));
    client.request("shutdown", Value::Null);
    let id = client.ask("textDocument/hover", at(RUN, 0, 0));
    assert_eq!(client.answer(id)["error"]["code"], -32600);
    client.notify("exit", Value::Null);
    assert_eq!(client.exit_code(), Some(0));
}

#[test]
fn a_client_that_never_answers_is_served() {
    let mut capabilities = rich();
    capabilities["workspace"] = json!({"configuration": true, "inlayHint": {"refreshSupport": true},
        "didChangeConfiguration": {"dynamicRegistration": true}, "didChangeWatchedFiles": {"dynamicRegistration": true}});
    let (mut client, _) = Client::with(capabilities, json!({}));
    client.answers = false;
    client.open(RUN, "log", &dead_run());
    for version in 2..300 {
        client.notify("workspace/didChangeConfiguration", json!({"settings": null}));
        client.change(RUN, version, push_down());
    }
    assert_eq!(client.hover(RUN, 300, 60)["range"]["start"]["line"], 300);
    assert_eq!(client.shut_down(), Some(0));
}

#[test]
fn others_are_answered_while_a_large_file_is_read() {
    let mut client = Client::start();
    client.open(RUN, "log", &dead_run());
    client.diagnostics(RUN, 1);
    client.open(BIG, "log", &big(6));
    let hover = client.hover(RUN, 2, 60);
    assert_eq!(hover["range"]["start"]["line"], 2);
    let early = client.unread().any(|m| m["params"]["uri"] == BIG);
    assert!(!early, "the answer came before the large file was read");
    // A request about the large file that is not wanted any more.
    let id = client.ask("textDocument/hover", at(BIG, 0, 0));
    client.notify("$/cancelRequest", json!({ "id": id }));
    assert_eq!(client.answer(id)["error"]["code"], -32800);
    // It grows while it is read; the reading goes on with what came.
    client.change(BIG, 2, push_down());
    let marks = client.diagnostics(BIG, 2);
    let lines = big(6).lines().count();
    assert_eq!(marks[0]["range"]["start"]["line"], lines);
    // Appended lines, with the whole text and as an edit.
    let end = (lines + 1, 0);
    client.change(BIG, 3, json!([{"range": range(end, end), "text": format!("{STEP}\n{OOM}\n")}]));
    assert_eq!(client.diagnostics(BIG, 3)[0]["code"], "cuda-oom");
    client.change(BIG, 4, json!([{"text": big(6)}]));
    assert_eq!(client.diagnostics(BIG, 4)[0]["range"]["start"]["line"], lines - 1);
    assert_eq!(client.shut_down(), Some(0));
}

#[test]
fn a_document_opened_anew_is_read_anew() {
    let mut client = Client::start();
    client.open(BIG, "log", &big(5));
    client.open(BIG, "log", &dead_run());
    assert_eq!(client.diagnostics(BIG, 1)[0]["range"]["start"]["line"], 2);
    client.open(BIG, "log", &big(5));
    client.notify("textDocument/didClose", json!({"textDocument": {"uri": BIG}}));
    client.open(BIG, "log", STEP);
    assert_eq!(client.hover(BIG, 0, 1), Value::Null);
    assert_eq!(client.shut_down(), Some(0));
}

#[test]
fn one_endless_line_is_survived() {
    let mut client = Client::start();
    let line = "\rstep 1/2 |####| 50%".repeat(250_000);
    client.open(RUN, "log", &format!("{line}\n{OOM}\n"));
    assert_eq!(client.diagnostics(RUN, 1)[0]["range"]["start"]["line"], 1);
    client.change(RUN, 2, json!([{"range": range((0, 4_000_000), (0, 4_000_000)), "text": "\r"}]));
    client.diagnostics(RUN, 2);
    client.hover(RUN, 0, 4_999_999);
    assert_eq!(client.shut_down(), Some(0));
}
