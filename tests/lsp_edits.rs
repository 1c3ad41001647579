//! A document that was edited has the findings of one that was opened.
#![allow(clippy::unwrap_used, clippy::expect_used)] // Helpers of tests are tests too.

mod common;

use std::sync::Mutex;

use common::{Client, OOM, STEP, WATCHDOG, pulling, range};
use proptest::prelude::*;
use serde_json::{Value, json};

const EDITED: &str = "file:///home/user/edited.log";
const OPENED: &str = "file:///home/user/opened.log";

/// A piece of text: parts of logs, line ends of every kind, characters of every size.
fn piece() -> impl Strategy<Value = String> {
    let parts = prop::sample::select(vec![
        OOM,
        WATCHDOG,
        STEP,
        "{'loss': nan, 'grad_norm': nan, 'learning_rate': 2e-05, 'epoch': 0.32}",
        "Traceback (most recent call last):\n  File \"/home/user/train.py\", line 7, in <module>\n    main()",
        "[rank1]: ",
        "é😀",
        "\u{1b}[31m",
        " 37%|███▋ | 371/1000",
        "Killed",
        "\r",
        "\r\n",
        "\n",
        "\n\n",
    ]);
    prop::collection::vec(parts, 0..6).prop_map(|parts| parts.join("\n"))
}

/// The text after a change, done the slow way. Columns count UTF-16 units.
fn changed(text: &str, from: (usize, usize), to: (usize, usize), new: &str) -> String {
    let byte = |(line, column): (usize, usize)| {
        let mut start = 0;
        for (number, content) in text.split('\n').enumerate() {
            if number == line {
                let end = if start + content.len() < text.len() { content.strip_suffix('\r').unwrap_or(content) } else { content };
                let mut left = column;
                for (at, character) in end.char_indices() {
                    if left < character.len_utf16() {
                        return start + at;
                    }
                    left -= character.len_utf16();
                }
                return start + end.len();
            }
            start += content.len() + 1;
        }
        text.len()
    };
    let (a, b) = (byte(from), byte(to));
    format!("{}{new}{}", &text[..a.min(b)], &text[a.max(b)..])
}

/// Everything the server says about a document, without its address.
fn said(client: &mut Client, uri: &str) -> Value {
    let whole = json!({"textDocument": {"uri": uri}, "range": range((0, 0), (99_999, 0))});
    let marks = client.pull(uri)["items"].clone();
    let hints = client.request("textDocument/inlayHint", whole);
    let outline = client.request("textDocument/documentSymbol", json!({"textDocument": {"uri": uri}}));
    let text = json!([marks, hints, outline]).to_string().replace(uri, "");
    serde_json::from_str(&text).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, max_shrink_iters: 200, ..ProptestConfig::default() })]
    #[test]
    fn edits_equal_a_fresh_open(
        start in piece(),
        changes in prop::collection::vec(((0usize..9, 0usize..90), (0usize..9, 0usize..90), piece(), any::<bool>()), 1..6),
    ) {
        static CLIENT: Mutex<Option<Client>> = Mutex::new(None);
        let mut shared = CLIENT.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let client = shared.get_or_insert_with(|| Client::with(pulling(), json!({})).0);
        client.open(EDITED, "log", &start);
        let mut text = start;
        for (version, (from, to, new, wait)) in changes.into_iter().enumerate() {
            let (from, to) = (from.min(to), from.max(to));
            text = changed(&text, from, to, &new);
            client.change(EDITED, version as i64 + 2, json!([{"range": range(from, to), "text": new}]));
            // Sometimes each edit is analysed alone, sometimes several at once.
            if wait {
                client.pull(EDITED);
            }
        }
        client.open(OPENED, "log", &text);
        let (edited, opened) = (said(client, EDITED), said(client, OPENED));
        for uri in [EDITED, OPENED] {
            client.notify("textDocument/didClose", json!({"textDocument": {"uri": uri}}));
        }
        prop_assert_eq!(edited, opened);
    }
}

#[test]
fn a_log_that_becomes_a_document_loses_its_marks_and_gets_them_back() {
    let (mut client, _) = Client::with(pulling(), json!({}));
    client.open(EDITED, "log", &format!("{STEP}\n{OOM}\n"));
    assert_eq!(client.pull(EDITED)["items"].as_array().unwrap().len(), 1);
    let code = "import torch\nfrom torch import nn\n\ndef step(x):\n    return x\n\nclass Model:\n    pass\n";
    client.change(EDITED, 2, json!([{"range": range((0, 0), (0, 0)), "text": code}]));
    assert_eq!(client.pull(EDITED)["items"], json!([]));
    client.change(EDITED, 3, json!([{"range": range((0, 0), (8, 0)), "text": ""}]));
    assert_eq!(client.pull(EDITED)["items"].as_array().unwrap().len(), 1);
}
