//! Open logs of one run point to each other, over real stdio.
#![allow(clippy::unwrap_used, clippy::expect_used)] // Helpers of tests are tests too.

mod common;

use common::{Client, OOM, STEP, rich};
use serde_json::{Value, json};

const RANK_0: &str = "file:///home/user/logs/rank_0.log";
const RANK_3: &str = "file:///home/user/logs/rank_3.log";
const OTHER: &str = "file:///home/user/logs/eval.log";

fn timeout(rank: u32) -> String {
    format!(
        "{STEP}\n[rank{rank}]:[E1129 09:20:00.100000000 ProcessGroupNCCL.cpp:616] [Rank {rank}] Watchdog caught collective operation timeout: \
         WorkNCCL(SeqNum=691, OpType=ALLREDUCE, NumelIn=64, NumelOut=64, Timeout(ms)=600000) ran for 600012 milliseconds before timing out.\n"
    )
}

/// The next marks of a document that fulfil a wish.
fn marks(client: &mut Client, uri: &str, wanted: impl Fn(&[Value]) -> bool) -> Vec<Value> {
    let found = client.wait(|message| {
        message["method"] == "textDocument/publishDiagnostics"
            && message["params"]["uri"] == uri
            && message["params"]["diagnostics"].as_array().is_some_and(|marks| wanted(marks))
    });
    found["params"]["diagnostics"].as_array().unwrap().clone()
}

#[test]
fn the_cause_in_one_open_log_explains_the_timeout_in_another() {
    let (mut client, _) = Client::with(rich(), json!({}));
    client.open(RANK_0, "log", &timeout(0));
    client.open(OTHER, "log", &timeout(1));
    assert_eq!(marks(&mut client, RANK_0, |marks| !marks.is_empty())[0]["severity"], 1, "alone, the timeout is what there is");
    assert_eq!(marks(&mut client, OTHER, |marks| !marks.is_empty())[0]["severity"], 1);

    client.open(RANK_3, "log", &format!("{STEP}\n{STEP}\n{OOM}\n"));
    let root = marks(&mut client, RANK_3, |marks| !marks.is_empty());
    assert_eq!((&root[0]["code"], &root[0]["severity"]), (&json!("cuda-oom"), &json!(1)));
    let echo = marks(&mut client, RANK_0, |marks| marks.first().is_some_and(|mark| mark["severity"] == 3));
    assert!(echo[0]["message"].as_str().unwrap().ends_with("follows from rank_3.log:3"), "{}", echo[0]["message"]);
    let place = &echo[0]["relatedInformation"][0];
    assert_eq!((&place["location"]["uri"], &place["location"]["range"]["start"]["line"]), (&json!(RANK_3), &json!(2)));
    assert!(place["message"].as_str().unwrap().starts_with("root cause: rank 3: "), "{place}");
    let column = timeout(0).lines().nth(1).unwrap().find("Watchdog").unwrap();
    let hover = client.hover(RANK_0, 1, column);
    assert!(hover["contents"]["value"].as_str().unwrap().contains("Follows from rank\\_3.log, line 3"), "{hover}");

    // What is gone explains nothing any more.
    client.notify("textDocument/didClose", json!({"textDocument": {"uri": RANK_3}}));
    marks(&mut client, RANK_0, |marks| marks.first().is_some_and(|mark| mark["severity"] == 1));
    assert_eq!(client.shut_down(), Some(0));
}

#[test]
fn files_of_one_name_are_told_apart_by_their_folder() {
    let (here, there) = ("file:///home/user/logs/node01/train.log", "file:///home/user/logs/node02/train.log");
    let (mut client, _) = Client::with(rich(), json!({}));
    client.open(here, "log", &timeout(0));
    client.open(there, "log", &format!("{STEP}\n{STEP}\n{OOM}\n"));
    let echo = marks(&mut client, here, |marks| marks.first().is_some_and(|mark| mark["severity"] == 3));
    assert!(echo[0]["message"].as_str().unwrap().ends_with("follows from node02/train.log:3"), "{}", echo[0]["message"]);
    assert_eq!(client.shut_down(), Some(0));
}

#[test]
fn the_line_from_which_a_run_diverged_is_marked() {
    let loss = |i: i32| if i < 40 { 1.6 + f64::from(i % 5) / 100.0 } else { 2.1 * 1.4f64.powi(i - 40) };
    let mut log: String = (0..48).map(|i| format!("step {i} | loss {:.4} | grad_norm 0.9\n", loss(i))).collect();
    log.push_str("step 48 | loss nan | grad_norm nan\nstep 49 | loss nan | grad_norm nan\n");
    let (mut client, _) = Client::with(rich(), json!({}));
    client.open(OTHER, "log", &log);
    let marks = marks(&mut client, OTHER, |marks| !marks.is_empty());
    let [root, begin] = marks.as_slice() else { panic!("{marks:?}") };
    assert_eq!((&root["range"]["start"]["line"], &root["severity"]), (&json!(48), &json!(1)));
    assert_eq!((&begin["range"]["start"]["line"], &begin["severity"], &begin["code"]), (&json!(40), &json!(3), &root["code"]));
    let said = begin["message"].as_str().unwrap();
    assert!(said.starts_with("Diverging from step 40 (line 41): loss 2.10") && said.ends_with("follows on line 49"), "{said}");
    assert_eq!(client.shut_down(), Some(0));
}

fn rank(rank: u32) -> String {
    format!("file:///home/user/logs/rank_{rank}.log")
}

#[test]
fn the_ranks_of_all_open_logs_are_compared() {
    let (mut client, _) = Client::with(rich(), json!({}));
    client.open(&rank(0), "log", &format!("using world size: 6, data-parallel size: 6\n{}", timeout(0)));
    assert!(marks(&mut client, &rank(0), |marks| !marks.is_empty())[0]["message"].as_str().unwrap().ends_with("did not join"));
    for one in [1, 2, 4] {
        client.open(&rank(one), "log", &timeout(one));
    }
    // It gave up without being in this one; rank 5 has no log at all.
    client.open(
        &rank(3),
        "log",
        &format!(
            "{STEP}\n[rank3]:[E1129 09:20:00.200000000 ProcessGroupNCCL.cpp:1682] [PG ID 0 PG GUID 0(default_pg) Rank 3] Received a dump signal \
             due to a collective timeout from  rank 2 and we will try our best to dump the debug info. Last enqueued NCCL work: 690, last \
             completed NCCL work: 690.\n"
        ),
    );
    let says = |marks: &[Value], what: &str| marks.first().is_some_and(|mark| mark["message"].as_str().unwrap().contains(what));
    marks(&mut client, &rank(0), |marks| says(marks, "Ranks 3, 5 never joined ALLREDUCE number 691; ranks 0-2, 4 waited 10 min"));
    let column = timeout(0).lines().nth(1).unwrap().find("Watchdog").unwrap();
    let hover = client.hover(&rank(0), 2, column)["contents"]["value"].as_str().unwrap().to_owned();
    for part in [
        "**Ranks 3, 5 never joined ALLREDUCE number 691; ranks 0-2, 4 waited 10 min.**",
        "Rank 3 lags: the last one that it launched is number 690, before 691.",
        "1 of 6 ranks is silent (5)",
    ] {
        assert!(hover.contains(part), "{part}\n{hover}");
    }
    let hover = client.hover(&rank(3), 1, 120)["contents"]["value"].as_str().unwrap().to_owned();
    assert!(hover.contains("It has finished all that it launched, up to number 690"), "{hover}");
    // One of them was in another operation.
    client.open(&rank(4), "log", &timeout(4).replace("ALLREDUCE", "BROADCAST"));
    marks(&mut client, &rank(0), |marks| says(marks, "BROADCAST of 64 elements on rank 4"));
    assert_eq!(client.shut_down(), Some(0));
}

#[test]
fn the_log_of_the_cause_lists_what_followed_in_the_others() {
    let (mut client, _) = Client::with(rich(), json!({}));
    client.open(RANK_3, "log", &format!("{STEP}\n{STEP}\n{OOM}\n"));
    assert!(marks(&mut client, RANK_3, |marks| !marks.is_empty())[0]["relatedInformation"].is_null());
    client.open(OTHER, "log", &timeout(1));
    for one in (0..16).filter(|one| *one != 3) {
        client.open(&rank(one), "log", &timeout(one));
    }
    let listed = |mark: &Value| mark["relatedInformation"].as_array().map_or(0, Vec::len);
    let root = marks(&mut client, RANK_3, |marks| {
        marks[0]["relatedInformation"]
            .as_array()
            .is_some_and(|list| list.last().is_some_and(|last| last["message"].as_str().unwrap().contains("and 5 more")))
    });
    assert_eq!(listed(&root[0]), 11);
    let first = &root[0]["relatedInformation"][0];
    assert_eq!((&first["location"]["uri"], &first["location"]["range"]["start"]["line"]), (&json!(RANK_0), &json!(1)));
    assert!(first["message"].as_str().unwrap().starts_with("followed: Rank 0 waited 10 min in ALLREDUCE"), "{first}");
    assert!(!root[0]["relatedInformation"].to_string().contains("eval.log"));
    assert_eq!(client.shut_down(), Some(0));
}
