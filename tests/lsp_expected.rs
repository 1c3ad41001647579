//! A log and the config of its model meet: what a memory plan expects, in the hover of an out-of-memory error.
#![allow(clippy::unwrap_used, clippy::expect_used)] // Helpers of tests are tests too.

mod common;

use std::path::{Path, PathBuf};

use common::{Client, rich};
use serde_json::json;

fn sample(name: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli").join(name)).unwrap()
}

/// A folder of its own, gone at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("trainwreck-{name}-{}", std::process::id()));
        std::fs::create_dir_all(path.join("runs/one")).unwrap();
        Folder(path)
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.0.join(name), text).unwrap();
    }

    fn uri(&self, name: &str) -> String {
        format!("file://{}", self.0.join(name).display())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn hover(client: &mut Client, uri: &str, log: &str) -> String {
    let line = log.lines().position(|line| line.contains("OutOfMemoryError")).unwrap();
    let column = log.lines().nth(line).unwrap().find("CUDA out").unwrap();
    client.hover(uri, line, column)["contents"]["value"].as_str().unwrap().to_owned()
}

#[test]
fn a_run_that_printed_its_config_is_compared_with_a_plan() {
    let (mut client, log) = (Client::start(), sample("plan-full.log"));
    let uri = "file:///home/user/run.log";
    client.open(uri, "log", &log);
    let text = hover(&mut client, uri, &log);
    for part in [
        "**What the plan expects for LlamaForCausalLM, full training, 4 × 2,048 tokens a GPU**",
        "| optimiser states | 25.10 GiB |",
        "| this card | 79.25 GiB, the 80 GB class |",
        "The largest term is activations",
        "from the config on line 20",
        "batch 4 a GPU (line 52), 2,048 tokens (line 48), AdamW (line 14)",
        "Assumed: attention by PyTorch's fused kernel, no padding mask.",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    // The error alone says nothing of a model.
    let alone = "file:///home/user/alone.log";
    let oom = log.lines().find(|line| line.contains("OutOfMemoryError")).unwrap();
    client.open(alone, "log", oom);
    assert!(!hover(&mut client, alone, oom).contains("the plan"));
}

#[test]
fn what_rank_0_printed_counts_for_the_rank_that_failed() {
    let mut client = Client::start();
    let uri = |rank: u32| format!("file:///home/user/run/rank_{rank}.log");
    let failed = sample("plan-ranks/rank_1.log");
    client.open(&uri(1), "log", &failed);
    assert!(!hover(&mut client, &uri(1), &failed).contains("the plan"));
    client.open(&uri(0), "log", &sample("plan-ranks/rank_0.log"));
    let text = hover(&mut client, &uri(1), &failed);
    for part in [
        "**What the plan expects for LlamaForCausalLM, full training, 4 × 2,048 tokens a GPU**",
        "from the config on line 20 of `rank_0.log`",
        "batch 4 a GPU (line 52 of `rank_0.log`)",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
}

#[test]
fn one_config_beside_the_log_is_taken_and_two_are_not() {
    let folder = Folder::new("beside");
    let (log, config) = (sample("plan/two.log"), sample("plan/config.json"));
    let root = json!({ "workspaceFolders": [{"uri": folder.uri(""), "name": "w"}] });
    let mut client = Client::with(rich(), root).0;
    let uri = folder.uri("runs/one/run.log");
    // A path that the log names is never opened.
    std::fs::create_dir_all(folder.0.join("models")).unwrap();
    folder.write("models/config.json", &config);
    let log = format!("loading configuration file {}/models/config.json\n--model_name_or_path ../../models\n{log}", folder.0.display());
    client.open(&uri, "log", &log);
    assert!(!hover(&mut client, &uri, &log).contains("the plan"));
    folder.write("model.json", &config);
    folder.write("package.json", "{\"name\": \"x\"}");
    let text = hover(&mut client, &uri, &log);
    assert!(text.contains("from `model.json` beside this log"), "{text}");
    assert!(text.contains("two copies of the model take, or one in 32 bits"), "{text}");
    folder.write("runs/one/config.json", &config.replace("14336", "11008"));
    assert!(!hover(&mut client, &uri, &log).contains("the plan"));
}

#[test]
fn a_server_gets_no_advice_about_training() {
    let (mut client, log) = (Client::start(), sample("plan/serving.log"));
    let uri = "file:///home/user/serving.log";
    client.open(uri, "log", &log);
    let text = hover(&mut client, uri, &log);
    assert!(text.contains("--gpu-memory-utilization") && !text.contains("gradient") && !text.contains("LoRA"), "{text}");
}

#[test]
fn a_config_is_held_against_the_card_of_an_open_log() {
    let mut capabilities = rich();
    capabilities["workspace"]["codeLens"] = json!({"refreshSupport": true});
    let mut client = Client::with(capabilities, json!({})).0;
    let (config, log) = ("file:///home/user/m/config.json", "file:///home/user/run.log");
    client.open(config, "json", &sample("plan/config.json"));
    let lens = |client: &mut Client| {
        let lens = client.request("textDocument/codeLens", json!({"textDocument": {"uri": config}}));
        lens.as_array().unwrap().iter().map(|one| one["command"]["title"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let before = lens(&mut client);
    assert!(!before.iter().any(|title| title.contains("open log")), "{before:?}");
    client.open(log, "log", &sample("plan/serving.log"));
    client.wait(|message| message["method"] == "workspace/codeLens/refresh");
    let after = lens(&mut client);
    let expected = "24 GB class, as in an open log: inference fits, QLoRA does not fit, LoRA does not fit, full training does not fit (";
    assert!(after.iter().any(|title| title.starts_with(expected)), "{after:?}");
    // Another card in another log: none is taken.
    client.open("file:///home/user/other.log", "log", &sample("plan-full.log"));
    client.wait(|message| message["method"] == "workspace/codeLens/refresh");
    assert_eq!(lens(&mut client), before);
    client.notify("textDocument/didClose", json!({"textDocument": {"uri": "file:///home/user/other.log"}}));
    client.wait(|message| message["method"] == "workspace/codeLens/refresh");
    assert_eq!(lens(&mut client), after);
}
