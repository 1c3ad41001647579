//! A client's session with the language server, from start to exit.
#![allow(clippy::unwrap_used, clippy::expect_used)] // Helpers of tests are tests too.

mod common;

use std::path::Path;

use common::{Client, OOM, STEP, dead_run, pulling, range, rich};
use serde_json::{Value, json};

const RUN: &str = "file:///home/user/run.log";

#[test]
fn a_session_from_start_to_exit() {
    let (mut client, hello) = Client::with(rich(), json!({}));
    let can = &hello["capabilities"];
    assert_eq!(can["positionEncoding"], "utf-16");
    assert_eq!(can["textDocumentSync"]["change"], 2);
    assert_eq!(can["hoverProvider"], true);
    assert!(can.get("diagnosticProvider").is_none(), "a client that cannot ask is sent its diagnostics");
    assert_eq!(hello["serverInfo"]["name"], "trainwreck");

    client.open(RUN, "log", &dead_run());
    let marks = client.diagnostics(RUN, 1);
    let root = &marks[0];
    assert_eq!(root["code"], "cuda-oom");
    assert_eq!(root["severity"], 1);
    assert_eq!(root["source"], "trainwreck");
    assert_eq!(root["range"]["start"]["line"], 2);
    assert!(root["codeDescription"]["href"].as_str().unwrap().ends_with("/cuda-oom.md"));
    let echo = marks.iter().find(|mark| mark["range"]["start"]["line"] == 3).expect("the watchdog line has a mark");
    assert_eq!(echo["severity"], 3, "what only followed is information");
    assert_eq!(echo["tags"], json!([1]));
    let related = |mark: &Value| mark["relatedInformation"][0]["location"]["range"]["start"]["line"].clone();
    assert_eq!((related(root), related(echo)), (json!(3), json!(2)), "they point to each other");

    let column = OOM.find("2.00 GiB").unwrap();
    let hover = client.hover(RUN, 2, column + 1);
    assert_eq!(hover["contents"]["kind"], "markdown");
    assert!(hover["contents"]["value"].as_str().unwrap().len() > 10);
    assert_eq!(client.hover(RUN, 0, 3), Value::Null, "a healthy step needs no explanation");

    let hints = |client: &mut Client, lines: (usize, usize)| {
        let range = range((lines.0, 0), (lines.1, 0));
        client.request("textDocument/inlayHint", json!({"textDocument": {"uri": RUN}, "range": range}))
    };
    let shown = hints(&mut client, (0, 5));
    assert_eq!(shown.as_array().unwrap().len(), 1);
    assert_eq!(shown[0]["position"], json!({"line": 2, "character": OOM.find("2.00 GiB").unwrap() + 8}), "behind what is underlined");
    assert_eq!(hints(&mut client, (3, 5)), json!([]), "only inside the range that was asked for");

    let outline = client.request("textDocument/documentSymbol", json!({"textDocument": {"uri": RUN}}));
    assert!(outline[0]["name"].as_str().unwrap().starts_with("root cause"));
    assert_eq!(outline[0]["children"][0]["range"]["start"]["line"], 3);

    // A step is put in front: everything moves down by a line.
    client.change(RUN, 2, json!([{"range": range((0, 0), (0, 0)), "text": format!("{STEP}\n")}]));
    assert_eq!(client.diagnostics(RUN, 2)[0]["range"]["start"]["line"], 3);
    // The error is taken out.
    client.change(RUN, 3, json!([{"range": range((3, 0), (5, 0)), "text": ""}]));
    assert_eq!(client.diagnostics(RUN, 3), Vec::<Value>::new());
    // The whole text comes anew.
    client.change(RUN, 4, json!([{"text": dead_run()}]));
    assert_eq!(client.diagnostics(RUN, 4)[0]["code"], "cuda-oom");

    client.notify("textDocument/didClose", json!({"textDocument": {"uri": RUN}}));
    let last = client.wait(|m| m["method"] == "textDocument/publishDiagnostics");
    assert_eq!(last["params"]["diagnostics"], json!([]), "a closed document has no marks");
    assert_eq!(client.hover(RUN, 2, column), Value::Null);
    assert_eq!(client.shut_down(), Some(0));
}

#[test]
fn a_client_that_asks_gets_its_diagnostics_once() {
    let (mut client, hello) = Client::with(pulling(), json!({}));
    assert_eq!(hello["capabilities"]["diagnosticProvider"]["interFileDependencies"], false);
    client.open(RUN, "log", &dead_run());
    let first = client.pull(RUN);
    assert_eq!(first["kind"], "full");
    assert_eq!(first["items"][0]["code"], "cuda-oom");
    let known = json!({"textDocument": {"uri": RUN}, "previousResultId": first["resultId"]});
    let second = client.request("textDocument/diagnostic", known.clone());
    assert_eq!(second, json!({"kind": "unchanged", "resultId": first["resultId"]}));
    client.change(RUN, 2, json!([{"text": STEP}]));
    let third = client.request("textDocument/diagnostic", known);
    assert_eq!(third["items"], json!([]));
    assert_eq!(client.pull("file:///not/open.log")["items"], json!([]));
    assert!(!client.unread().any(|m| m["method"] == "textDocument/publishDiagnostics"), "none is sent unasked");
    assert_eq!(client.shut_down(), Some(0));
}

#[test]
fn a_plain_client_gets_plain_things() {
    let (mut client, hello) = Client::with(json!({}), json!({}));
    assert_eq!(hello["capabilities"]["positionEncoding"], "utf-16");
    client.open(RUN, "log", &dead_run());
    let marks = client.wait(|m| m["method"] == "textDocument/publishDiagnostics");
    assert!(marks["params"].get("version").is_none());
    let root = &marks["params"]["diagnostics"][0];
    assert_eq!(root["code"], "cuda-oom");
    for member in ["relatedInformation", "codeDescription", "tags"] {
        assert!(root.get(member).is_none(), "{member}");
    }
    let outline = client.request("textDocument/documentSymbol", json!({"textDocument": {"uri": RUN}}));
    assert_eq!(outline[0]["location"]["uri"], RUN);
    assert_eq!(client.shut_down(), Some(0));
}

#[test]
fn what_is_no_log_stays_silent() {
    let mut client = Client::start();
    let python = format!("import torch\n\n\ndef main():\n    raise RuntimeError(\"\"\"{OOM}\"\"\")\n");
    let texts = [
        ("file:///home/user/train.py", "python", python.as_str()),
        ("file:///home/user/README.md", "markdown", "# Memory\n\nCUDA out of memory. Tried to allocate 2.00 GiB.\n"),
        ("file:///home/user/empty.log", "log", ""),
    ];
    for (uri, language, text) in texts {
        client.open(uri, language, text);
        assert_eq!(client.hover(uri, 0, 0), Value::Null);
    }
    client.open(RUN, "log", &dead_run());
    client.diagnostics(RUN, 1);
    let loud = |m: &&Value| m["params"]["diagnostics"].as_array().is_some_and(|list| !list.is_empty());
    assert_eq!(client.unread().find(loud), None);
    assert_eq!(client.shut_down(), Some(0));
}

#[test]
fn marks_are_capped_and_the_last_counts_the_rest() {
    let options = json!({"initializationOptions": {"maxFindings": 3}});
    let (mut client, _) = Client::with(rich(), options);
    // Different errors, so that they cannot all be folded into one.
    let other = "RuntimeError: CUDA error: device-side assert triggered";
    let killed = "slurmstepd: error: Detected 1 oom_kill event in StepId=4711.batch. Some of the step tasks have been OOM Killed.";
    let port = "RuntimeError: The server socket has failed to listen on any local network address. The server socket has failed to bind to [::]:29500 (errno: 98 - Address already in use).";
    let text: String =
        (0..40).map(|_| format!("{OOM}\n{STEP}\n{other}\n{STEP}\n{WATCHDOG}\n{killed}\n{port}\n", WATCHDOG = common::WATCHDOG)).collect();
    client.open(RUN, "log", &text);
    let marks = client.diagnostics(RUN, 1);
    assert_eq!(marks.len(), 3, "{marks:?}");
    assert!(marks[2]["message"].as_str().unwrap().contains("more findings"), "{}", marks[2]);
    // With room for one, it is the root cause.
    client.notify("workspace/didChangeConfiguration", json!({"settings": {"maxFindings": 1}}));
    assert_eq!(client.diagnostics(RUN, 1), [marks[0].clone()]);
    assert_eq!(client.shut_down(), Some(0));
}

#[test]
fn settings_are_heard_at_the_start_and_later() {
    let off = json!({"rules": {"disabled": ["cuda-oom"]}, "inlayHints": {"enabled": false}});
    let (mut client, _) = Client::with(rich(), json!({"initializationOptions": off}));
    client.open(RUN, "log", &dead_run());
    let has_oom = |marks: &[Value]| marks.iter().any(|mark| mark["code"] == "cuda-oom");
    assert!(!has_oom(&client.diagnostics(RUN, 1)));
    client.notify("workspace/didChangeConfiguration", json!({"settings": {"trainwreck": {"rules": {"disabled": []}}}}));
    assert!(has_oom(&client.diagnostics(RUN, 1)));
    let everything = json!({"textDocument": {"uri": RUN}, "range": range((0, 0), (9, 0))});
    assert_eq!(client.request("textDocument/inlayHint", everything.clone()), json!([]));
    let on = json!({"settings": {"inlayHints": {"enabled": true}}});
    client.notify("workspace/didChangeConfiguration", on);
    let off_again = client.request("textDocument/inlayHint", everything);
    assert_eq!(off_again.as_array().unwrap().len(), 0, "without its rule there is no hint");
    assert_eq!(client.shut_down(), Some(0));
}

#[test]
fn settings_are_asked_for_where_the_client_answers() {
    let mut capabilities = rich();
    capabilities["workspace"] = json!({"configuration": true, "didChangeConfiguration": {"dynamicRegistration": true},
        "didChangeWatchedFiles": {"dynamicRegistration": true}});
    let (mut client, _) = Client::with(capabilities, json!({}));
    client.answers = false;
    let question = client.wait(|m| m["method"] == "workspace/configuration");
    assert_eq!(question["params"]["items"], json!([{"section": "trainwreck"}]));
    let registered = client.wait(|m| m["method"] == "client/registerCapability");
    assert_eq!(registered["params"]["registrations"].as_array().unwrap().len(), 2);
    client.open(RUN, "log", &dead_run());
    assert_eq!(client.diagnostics(RUN, 1)[0]["code"], "cuda-oom");
    client.send(json!({"id": question["id"], "result": [{"rules": {"disabled": ["cuda-oom"]}}]}));
    let marks = client.diagnostics(RUN, 1);
    assert!(marks.iter().all(|mark| mark["code"] != "cuda-oom"));
    assert_eq!(client.shut_down(), Some(0));
}

#[test]
fn pages_of_the_workspace_are_loaded_and_their_mistakes_marked() {
    let folder = std::env::temp_dir().join(format!("trainwreck-lsp-{}", std::process::id()));
    let pages = folder.join(".trainwreck/rules");
    std::fs::create_dir_all(&pages).unwrap();
    let page = pages.join("broken.md");
    std::fs::write(&page, "no front matter\n").unwrap();
    let root = format!("file://{}", folder.display());
    let uri = format!("file://{}", page.display());
    let workspace = json!({"workspaceFolders": [{"uri": root, "name": "w"}]});
    let (mut client, _) = Client::with(rich(), workspace);
    let marks = |client: &mut Client| {
        let message = client.wait(|m| m["method"] == "textDocument/publishDiagnostics" && m["params"]["uri"] == uri);
        message["params"]["diagnostics"].as_array().unwrap().clone()
    };
    let mistakes = marks(&mut client);
    assert_eq!(mistakes[0]["severity"], 1);
    // A page with the id of a built-in one takes its place, and that is said on it.
    std::fs::copy(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/workspace-own/.trainwreck/rules/segfault.md"),
        pages.join("segfault.md"),
    )
    .unwrap();
    let own = format!("file://{}", pages.join("segfault.md").display());
    client.notify("workspace/didChangeWatchedFiles", json!({"changes": [{"uri": own, "type": 1}]}));
    let note = client.wait(|m| m["method"] == "textDocument/publishDiagnostics" && m["params"]["uri"] == own);
    let note = &note["params"]["diagnostics"][0];
    assert_eq!((&note["severity"], &note["range"]["start"]["line"]), (&json!(3), &json!(1)), "{note}");
    assert!(note["message"].as_str().unwrap().contains("replaces the built-in page `segfault`"));
    // The other built-in pages work all the same.
    client.open(RUN, "log", &dead_run());
    assert_eq!(client.diagnostics(RUN, 1)[0]["code"], "cuda-oom");
    // The page is taken away, and the client says so.
    std::fs::remove_file(&page).unwrap();
    client.notify("workspace/didChangeWatchedFiles", json!({"changes": [{"uri": uri, "type": 3}]}));
    let wanted = |m: &Value| m["params"]["uri"] == uri && m["params"]["diagnostics"].as_array().is_some_and(Vec::is_empty);
    client.wait(|m| m["method"] == "textDocument/publishDiagnostics" && wanted(m));
    assert_eq!(client.shut_down(), Some(0));
    std::fs::remove_dir_all(&folder).unwrap();
}
