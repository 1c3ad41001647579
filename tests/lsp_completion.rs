//! Completion in a config while it is typed, over real stdio.
#![allow(clippy::unwrap_used, clippy::expect_used)] // Helpers of tests are tests too.

mod common;

use common::{Client, range};
use serde_json::{Value, json};

const FILE: &str = "file:///home/user/llama-8b/config.json";
const LLAMA: &str = r#"{
  "architectures": ["LlamaForCausalLM"], "model_type": "llama",
  "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
  "num_attention_heads": 32, "vocab_size": 128256,
  "torch_dtype": "bfloat16"
}"#;

fn complete(client: &mut Client, uri: &str, line: usize, character: usize) -> Vec<Value> {
    let at = json!({"textDocument": {"uri": uri}, "position": {"line": line, "character": character}});
    client.request("textDocument/completion", at).as_array().cloned().unwrap_or_default()
}

#[test]
fn keys_and_values_are_offered_while_one_types() {
    let (mut client, result) = Client::with(common::rich(), json!({}));
    assert_eq!(result["capabilities"]["completionProvider"]["triggerCharacters"], json!(["\""]));
    client.open(FILE, "json", LLAMA);
    client.diagnostics(FILE, 1);
    // Half a key, without the quote that closes it.
    client.change(FILE, 2, json!([{"range": range((4, 0), (4, 0)), "text": "  \"num_key\n"}]));
    let offers = complete(&mut client, FILE, 4, 10);
    assert_eq!(offers.len(), 1, "{offers:?}");
    assert_eq!(
        (&offers[0]["label"], &offers[0]["detail"]),
        (&json!("num_key_value_heads"), &json!("key and value heads of an attention layer"))
    );
    let edit = json!({"range": range((4, 2), (4, 10)), "newText": "\"num_key_value_heads\": "});
    assert_eq!(offers[0]["textEdit"], edit);
    assert_eq!(offers[0]["filterText"], edit["newText"]);
    // A value, between its quotes.
    client.change(FILE, 3, json!([{ "text": LLAMA.replace("bfloat16", "") }]));
    let labels: Vec<Value> = complete(&mut client, FILE, 4, 18).iter().map(|offer| offer["label"].clone()).collect();
    assert_eq!(labels, ["bfloat16", "float16", "float32"]);
    assert_eq!(client.shut_down(), Some(0));
}

#[test]
fn other_texts_get_no_offers() {
    let mut client = Client::start();
    for (name, text) in
        [("package.json", "{\"name\": \"a\", \"v\": \"\"}"), ("trainer_state.json", "{\"global_step\": 1, \"log_history\": [], \"\": 1}")]
    {
        let uri = format!("file:///home/user/{name}");
        client.open(&uri, "json", text);
        assert_eq!(complete(&mut client, &uri, 0, text.len() - 2), Vec::<Value>::new(), "{name}");
    }
    assert_eq!(client.shut_down(), Some(0));
}
