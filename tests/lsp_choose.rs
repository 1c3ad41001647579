//! The choice of a GPU and a task, over real stdio.
#![allow(clippy::unwrap_used, clippy::expect_used)] // Helpers of tests are tests too.

mod common;

use common::{Client, rich};
use serde_json::{Value, json};

const FILE: &str = "file:///home/user/llama-8b/config.json";
const LLAMA: &str = r#"{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336,
  "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "max_position_embeddings": 131072,
  "vocab_size": 128256, "torch_dtype": "bfloat16"}"#;

/// Titles and commands of the lenses.
fn lenses(client: &mut Client) -> Vec<(String, String)> {
    let lens = client.request("textDocument/codeLens", json!({"textDocument": {"uri": FILE}}));
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    lens.as_array().unwrap().iter().map(|one| (text(&one["command"]["title"]), text(&one["command"]["command"]))).collect()
}

fn execute(client: &mut Client, command: &str, arguments: Value) -> Value {
    let mut params = json!({ "command": command });
    if !arguments.is_null() {
        params["arguments"] = arguments;
    }
    client.request("workspace/executeCommand", params)
}

/// A client that can be told to ask again.
fn refreshing() -> Value {
    let mut capabilities = rich();
    for feature in ["codeLens", "inlayHint", "diagnostics"] {
        capabilities["workspace"][feature] = json!({"refreshSupport": true});
    }
    capabilities
}

#[test]
fn a_choice_given_as_an_argument_changes_the_lenses() {
    let (mut client, result) = Client::with(refreshing(), json!({}));
    let commands = &result["capabilities"]["executeCommandProvider"]["commands"];
    assert_eq!(*commands, json!(["trainwreck.chooseGpu", "trainwreck.chooseTask", "trainwreck.gpus"]));
    client.open(FILE, "json", LLAMA);
    assert!(lenses(&mut client)[3].0.ends_with("fits 24 GB cards and larger"));
    assert_eq!(execute(&mut client, "trainwreck.chooseGpu", json!(["rtx-4090"])), Value::Null);
    client.wait(|message| message["method"] == "workspace/codeLens/refresh");
    let over = lenses(&mut client);
    let (title, command) = &over[3];
    assert!(title.contains(" of 23.52 GiB on rtx-4090 · fits, ") && command == "trainwreck.chooseGpu", "{over:?}");
    assert!(over[6].0.contains("full fine-tuning") && over[5].0.contains("does not fit, "), "{over:?}");
    execute(&mut client, "trainwreck.chooseTask", json!(["lora"]));
    let over = lenses(&mut client);
    assert!(over[3].0.starts_with("LoRA, 2,048 tokens · ") && over[4].0.starts_with("would fit with gradient checkpointing: "), "{over:?}");
    execute(&mut client, "trainwreck.chooseTask", json!(["qlora"]));
    let over = lenses(&mut client);
    assert!(over[3].0.starts_with("QLoRA, 2,048 tokens · ") && over[3].0.contains(" · fits, "), "{over:?}");
    execute(&mut client, "trainwreck.chooseGpu", json!(["none"]));
    execute(&mut client, "trainwreck.chooseTask", json!(["all"]));
    assert!(lenses(&mut client)[3].0.ends_with("fits 24 GB cards and larger"));
    assert_eq!(client.shut_down(), Some(0));
}

#[test]
fn without_an_argument_the_user_is_asked() {
    let mut client = Client::start();
    client.answers = false;
    client.open(FILE, "json", LLAMA);
    execute(&mut client, "trainwreck.chooseGpu", json!([]));
    let question = client.wait(|message| message["method"] == "window/showMessageRequest");
    let actions = question["params"]["actions"].as_array().unwrap();
    let offered = actions.iter().find(|action| action["title"].as_str().unwrap().starts_with("t4 · ")).unwrap();
    client.send(json!({"id": question["id"], "result": offered}));
    // The answer is read in the order of the messages; the choice is made right behind it.
    let on_t4 = (0..200).any(|_| lenses(&mut client)[3].0.contains(" on t4 · "));
    assert!(on_t4, "{:?}", lenses(&mut client));
    // A question that is put away changes nothing.
    execute(&mut client, "trainwreck.chooseTask", Value::Null);
    let question = client.wait(|message| message["method"] == "window/showMessageRequest");
    client.send(json!({"id": question["id"], "result": null}));
    assert_eq!(lenses(&mut client).len(), 9);
    assert_eq!(client.shut_down(), Some(0));
}

#[test]
fn settings_are_the_start_and_a_later_one_is_newer() {
    let (mut client, _) = Client::with(rich(), json!({"initializationOptions": {"gpu": "l40s", "task": "lora"}}));
    client.open(FILE, "json", LLAMA);
    assert!(lenses(&mut client)[3].0.starts_with("LoRA, 2,048 tokens · "));
    execute(&mut client, "trainwreck.chooseGpu", json!(["h200"]));
    // Settings that say the same leave the choice alone.
    client.notify("workspace/didChangeConfiguration", json!({"settings": {"trainwreck": {"gpu": "l40s", "maxFindings": 3}}}));
    assert!(lenses(&mut client)[3].0.contains(" on h200 · "));
    client.notify("workspace/didChangeConfiguration", json!({"settings": {"trainwreck": {"gpu": "a100"}}}));
    let over = lenses(&mut client);
    assert!(over[3].0.starts_with("GPU a100: could be a100-"), "{over:?}");
    assert_eq!(client.shut_down(), Some(0));
}

#[test]
fn the_catalogue_is_listed_and_nonsense_is_refused() {
    let mut client = Client::start();
    let list = execute(&mut client, "trainwreck.gpus", json!([]));
    let card = list.as_array().unwrap().iter().find(|card| card["id"] == "rtx-4090").unwrap();
    assert!(card["memory_bytes"].as_u64().unwrap() > 23 << 30 && card["name"].is_string());
    for (command, argument) in [("trainwreck.chooseGpu", "abacus"), ("trainwreck.chooseTask", "juggling"), ("trainwreck.other", "x")] {
        let id = client.ask("workspace/executeCommand", json!({"command": command, "arguments": [argument]}));
        assert!(client.answer(id)["error"]["code"].as_i64().unwrap() < 0, "{command}");
    }
    assert_eq!(client.shut_down(), Some(0));
}

#[test]
fn an_argument_that_is_no_text_is_refused() {
    let (mut client, _) = Client::with(refreshing(), json!({}));
    client.open(FILE, "json", LLAMA);
    for arguments in [json!([5]), json!([null]), json!([{}]), json!([[]])] {
        for command in ["trainwreck.chooseGpu", "trainwreck.chooseTask"] {
            let id = client.ask("workspace/executeCommand", json!({"command": command, "arguments": arguments}));
            let error = client.answer(id)["error"].clone();
            assert_eq!(error["code"], -32602, "{error}");
            assert!(error["message"].as_str().unwrap().contains("a name is wanted"), "{error}");
        }
    }
}
