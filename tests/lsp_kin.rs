//! Files around a model in the editor, over real stdio and on a real disk; and JSON that is none of ours.
#![allow(clippy::unwrap_used, clippy::expect_used)] // Helpers of tests are tests too.

mod common;

use std::path::{Path, PathBuf};

use common::{Client, range};
use serde_json::{Value, json};

const LLAMA: &str = r#"{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336,
  "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "max_position_embeddings": 131072,
  "vocab_size": 128256, "torch_dtype": "bfloat16"}"#;

/// A folder of its own, gone afterwards.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("trainwreck-{}-{name}", std::process::id()));
        std::fs::create_dir_all(path.join("checkpoint-500")).unwrap();
        Folder(path.canonicalize().unwrap())
    }

    fn put(&self, name: &str, text: &str) {
        std::fs::write(self.0.join(name), text).unwrap();
    }

    fn uri(&self, name: &str) -> String {
        format!("file://{}", Path::new(&self.0).join(name).display())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn titles(client: &mut Client, uri: &str) -> Vec<String> {
    let lens = client.request("textDocument/codeLens", json!({"textDocument": {"uri": uri}}));
    lens.as_array().into_iter().flatten().map(|one| one["command"]["title"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn an_adapter_is_counted_on_the_config_above() {
    let folder = Folder::new("adapter");
    folder.put("config.json", LLAMA);
    let mut client = Client::start();
    let text = r#"{"peft_type": "LORA", "r": 16, "target_modules": "all-linear", "base_model_name_or_path": "/etc/passwd"}"#;
    let uri = folder.uri("checkpoint-500/adapter_config.json");
    client.open(&uri, "json", text);
    let over = titles(&mut client, &uri);
    assert_eq!(over[0], "LoRA of rank 16 on all linear layers");
    assert_eq!(over[1..4], ["41.9 M trained parameters, 0.52 % of 8.03 B", "160 MiB in fp32, 80 MiB in bf16", "model: ../config.json"]);
    assert!(over[4].starts_with("LoRA, 2,048 tokens · 33.89 GiB · ") && over[5].starts_with("QLoRA, 2,048 tokens · "), "{over:?}");
    let lonely = "file:///nowhere/at/all/adapter_config.json";
    client.open(lonely, "json", text);
    assert!(titles(&mut client, lonely)[1].starts_with("base model /etc/passwd not found"));
    assert_eq!(client.shut_down(), Some(0));
}

#[test]
fn config_and_index_are_held_against_each_other() {
    let folder = Folder::new("index");
    let index = r#"{"metadata": {"total_size": 32121044992}, "weight_map": {"model.embed_tokens.weight": "a", "lm_head.weight": "a"}}"#;
    folder.put("config.json", LLAMA);
    folder.put("model.safetensors.index.json", index);
    let mut client = Client::start();
    for (name, text) in [("config.json", LLAMA), ("model.safetensors.index.json", index)] {
        let uri = folder.uri(name);
        client.open(&uri, "json", text);
        let marks = client.diagnostics(&uri, 1);
        assert_eq!((marks.len(), &marks[0]["code"]), (1, &json!("config-index-mismatch")), "{name}: {marks:?}");
        assert!(marks[0]["message"].as_str().unwrap().contains("Both would agree with float32"), "{marks:?}");
    }
    assert_eq!(client.shut_down(), Some(0));
}

#[test]
fn the_history_of_a_trainer_is_marked_at_its_entry() {
    let mut client = Client::start();
    let uri = "file:///home/user/run/trainer_state.json";
    let text = "{\n \"global_step\": 20,\n \"log_history\": [\n  {\"step\": 10, \"loss\": 1.5},\n  {\"step\": 20, \"loss\": NaN}\n ]\n}\n";
    client.open(uri, "json", text);
    let marks = client.diagnostics(uri, 1);
    assert_eq!((&marks[0]["code"], &marks[0]["range"]["start"]["line"]), (&json!("trainer-non-finite"), &json!(4)));
    let hover = client.hover(uri, 4, 24)["contents"]["value"].to_string();
    assert!(hover.contains("trainwreck explain trainer-non-finite"), "{hover}");
    assert_eq!(client.shut_down(), Some(0));
}

#[test]
fn deepspeed_is_planned_on_the_config_beside_it_and_the_gpu() {
    let folder = Folder::new("deepspeed");
    folder.put("config.json", LLAMA);
    let settings = json!({"initializationOptions": {"gpu": "a100-sxm4-80gb", "gpus": 4, "sequenceLength": 4096}});
    let (mut client, _) = Client::with(common::rich(), settings);
    let uri = folder.uri("ds_config.json");
    let text =
        "{\n \"bf16\": {\"enabled\": true},\n \"zero_optimization\": {\n  \"stage\": 2\n },\n \"train_micro_batch_size_per_gpu\": 2\n}";
    client.open(&uri, "json", text);
    let over = titles(&mut client, &uri);
    assert_eq!(over[..2], ["ZeRO 2, bf16, 2 sequences a GPU", "model: config.json"]);
    assert!(over[2].starts_with("full fine-tuning, 2 × 4,096 tokens on each of 4 GPUs · "), "{over:?}");
    assert!(over[3].starts_with("with gradient checkpointing · ") && over[3].contains("of 79.25 GiB"), "{over:?}");
    let all = json!({"textDocument": {"uri": uri}, "range": range((0, 0), (999, 0))});
    let hints = client.request("textDocument/inlayHint", all);
    // 2 bytes of weights, and 14 over 4 GPUs of gradients, masters and states.
    assert_eq!((&hints[0]["position"]["line"], &hints[0]["label"]), (&json!(3), &json!("41.13 GiB of states a GPU")));
    assert_eq!(hints[1]["position"]["line"], json!(5));
    assert_eq!(client.shut_down(), Some(0));
}

#[test]
fn json_that_is_none_of_ours_stays_silent() {
    let mut client = Client::start();
    let cases = [
        (
            "package",
            r#"{"name": "left-pad", "version": "1.0.0", "main": "index.js", "scripts": {"test": "node ."}, "dependencies": {"a": "^1"}}"#,
        ),
        ("tsconfig", r#"{"compilerOptions": {"target": "es2022", "strict": true}, "include": ["src"], "references": []}"#),
        ("composer", r#"{"name": "a/b", "type": "library", "require": {"php": ">=8"}, "autoload": {"psr-4": {"A\\": "src/"}}}"#),
        ("settings", r#"{"editor.fontSize": 13, "files.exclude": {"**/.git": true}, "[python]": {"editor.tabSize": 4}}"#),
        ("dataset", r#"[{"instruction": "add", "input": "1 2", "output": "3", "model_type": "llama", "hidden_size": 64}]"#),
        (
            "tokenizer_config",
            r#"{"tokenizer_class": "LlamaTokenizer", "model_max_length": 4096, "bos_token": "<s>", "add_bos_token": true}"#,
        ),
        ("openapi", r#"{"openapi": "3.1.0", "paths": {}, "components": {"schemas": {"model_type": {"type": "string"}}}}"#),
        ("results", r#"{"loss": NaN, "accuracy": 0.5, "num_layers": 3}"#),
        ("preprocessor_config", r#"{"image_processor_type": "A", "size": {"height": 224}, "do_resize": true}"#),
    ];
    for (name, text) in cases {
        let uri = format!("file:///home/user/{name}.json");
        client.open(&uri, "json", text);
        let all = json!({"textDocument": {"uri": uri}, "range": range((0, 0), (999, 0))});
        assert_eq!(client.request("textDocument/inlayHint", all), json!([]), "{name}");
        assert_eq!(titles(&mut client, &uri), Vec::<String>::new(), "{name}");
        let here = json!({"textDocument": {"uri": uri}, "position": {"line": 0, "character": 3}});
        assert_eq!(client.request("textDocument/hover", here), Value::Null, "{name}");
    }
    assert!(client.unread().all(|message| message["method"] != "textDocument/publishDiagnostics"));
    assert_eq!(client.shut_down(), Some(0));
}
