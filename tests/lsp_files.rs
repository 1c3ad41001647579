//! Hovers, completion and marks in the files around a model, over real stdio and on a real disk.
#![allow(clippy::unwrap_used, clippy::expect_used)] // Helpers of tests are tests too.

mod common;

use std::path::PathBuf;

use common::{Client, range};
use serde_json::{Value, json};

const LLAMA: &str = r#"{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336,
  "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "max_position_embeddings": 131072,
  "vocab_size": 128256, "torch_dtype": "bfloat16"}"#;

/// A folder with a config, gone afterwards.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("trainwreck-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        std::fs::write(path.join("config.json"), LLAMA).unwrap();
        Folder(path.canonicalize().unwrap())
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

/// The place of a word in a text, by line and column of its first letter.
fn place(text: &str, word: &str) -> (usize, usize) {
    let at = text.find(word).unwrap_or_else(|| panic!("{word}"));
    (text[..at].matches('\n').count(), at - text[..at].rfind('\n').map_or(0, |line| line + 1))
}

fn hover(client: &mut Client, uri: &str, text: &str, word: &str) -> String {
    let (line, column) = place(text, word);
    client.hover(uri, line, column + 1)["contents"]["value"].as_str().unwrap_or_default().to_owned()
}

/// What is offered behind a word, as it would be written.
fn offered(client: &mut Client, uri: &str, text: &str, word: &str) -> Vec<String> {
    let (line, column) = place(text, word);
    let at = json!({"textDocument": {"uri": uri}, "position": {"line": line, "character": column + word.len()}});
    let offers = client.request("textDocument/completion", at);
    offers.as_array().into_iter().flatten().map(|offer| offer["textEdit"]["newText"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn an_adapter_is_explained_completed_and_held_against_its_base() {
    let folder = Folder::new("files-adapter");
    let mut client = Client::start();
    let uri = folder.uri("adapter_config.json");
    let text = "{\n \"peft_type\": \"LORA\",\n \"task_type\": \"CAUSAL_LM\",\n \"r\": 16,\n \"bias\": \"none\",\n \"target_modules\": [\n  \"q_proj\",\n  \"c_attn\"\n ]\n}\n";
    client.open(&uri, "json", text);
    let marks = client.diagnostics(&uri, 1);
    assert_eq!((marks.len(), &marks[0]["code"], &marks[0]["severity"]), (1, &json!("adapter-target-missing"), &json!(2)));
    assert_eq!(marks[0]["range"], range((7, 2), (7, 10)));
    assert!(marks[0]["message"].as_str().unwrap().contains("q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj"), "{marks:?}");
    let rank = hover(&mut client, &uri, text, "\"r\"");
    assert!(rank.contains("Left out: `8`") && rank.contains("16 × (out + in), summed over 32 modules = 4,194,304 parameters"), "{rank}");
    let targets = hover(&mut client, &uri, text, "\"q_proj\"");
    assert!(targets.contains("| `q_proj` | 32 | 4,096 × 4,096 | 4,194,304 |") && !targets.contains("c_attn"), "{targets}");
    let task = hover(&mut client, &uri, text, "\"task_type\"");
    assert!(task.contains("`CAUSAL_LM`: generation"), "{task}");
    // A new item of the list, half typed; the JSON is broken.
    let typed = text.replace("\"c_attn\"\n", "\"k_p\n");
    client.change(&uri, 2, json!([{ "text": typed }]));
    assert_eq!(offered(&mut client, &uri, &typed, "\"k_p"), ["\"k_proj\""]);
    let bias = text.replace("\"none\"", "\"");
    client.change(&uri, 3, json!([{ "text": bias }]));
    assert_eq!(offered(&mut client, &uri, &bias, "\"bias\": \""), ["\"none\"", "\"all\"", "\"lora_only\""]);
    let key = text.replace("\"bias\": \"none\"", "\"lora_d");
    client.change(&uri, 4, json!([{ "text": key }]));
    assert_eq!(offered(&mut client, &uri, &key, "\"lora_d"), ["\"lora_dropout\": "]);
    assert_eq!(client.shut_down(), Some(0));
}

#[test]
fn deepspeed_is_explained_with_every_term_and_completed() {
    let folder = Folder::new("files-deepspeed");
    let (mut client, _) = Client::with(common::rich(), json!({"initializationOptions": {"gpus": 8}}));
    let uri = folder.uri("ds_config.json");
    let text = "{\n \"bf16\": {\"enabled\": true},\n \"zero_optimization\": {\n  \"stage\": 2,\n  \"reduce_bucket_size\": 2e8,\n  \"offload_optimizer\": {\"device\": \"none\"}\n },\n \"train_micro_batch_size_per_gpu\": 1\n}\n";
    client.open(&uri, "json", text);
    assert_eq!(client.diagnostics(&uri, 1), Vec::<Value>::new());
    let stage = hover(&mut client, &uri, text, "\"stage\"");
    assert!(stage.contains("`2`: gradients too."), "{stage}");
    assert!(stage.contains("| weights | 14.96 GiB | 8,030,261,248 parameters x 2 B |"), "{stage}");
    assert!(stage.contains("| optimiser states | 11.22 GiB | 8,030,261,248 trained x"), "{stage}");
    assert!(stage.contains("assumed: 2,048 tokens a sequence") && !stage.contains("8 GPUs \\(setting"), "{stage}");
    let bucket = hover(&mut client, &uri, text, "\"reduce_bucket_size\"");
    assert!(
        bucket.contains("Left out: `5e8`") && bucket.contains("1 x 200,000,000 elements x 2 B") && bucket.contains("= 381.47 MiB"),
        "{bucket}"
    );
    for (from, to, word, offers) in [
        ("\"device\": \"none\"", "\"device\": \"n", "\"device\": \"n", vec!["\"none\"", "\"nvme\""]),
        ("\"stage\": 2", "\"stage\": ", "\"stage\": ", vec!["0", "1", "2", "3"]),
        ("\"reduce_bucket_size\": 2e8", "\"stage3_max_l", "\"stage3_max_l", vec!["\"stage3_max_live_parameters\": "]),
        (" \"train_micro", " \"optimizer\": {\"type\": \"L\"}, \"train_micro", "\"type\": \"L", vec!["\"Lion\"", "\"Lamb\""]),
    ] {
        let typed = text.replace(from, to);
        client.change(&uri, 2, json!([{ "text": typed }]));
        assert_eq!(offered(&mut client, &uri, &typed, word), offers, "{typed}");
    }
    assert_eq!(client.shut_down(), Some(0));
}

#[test]
fn generation_index_and_history_are_explained() {
    let folder = Folder::new("files-others");
    let mut client = Client::start();
    let generation = "{\"_from_model_config\": true, \"eos_token_id\": 2, \"max_new_tokens\": 4096, \"num_beams\": 4}";
    let uri = folder.uri("generation_config.json");
    client.open(&uri, "json", generation);
    let beams = hover(&mut client, &uri, generation, "\"num_beams\"");
    assert!(beams.contains("4 sequences at once: 2 GiB of KV cache at 4,096 tokens"), "{beams}");
    let index = "{\"metadata\": {\"total_size\": 16060522496}, \"weight_map\": {\"lm_head.weight\": \"model-00001-of-00004.safetensors\"}}";
    let uri = folder.uri("model.safetensors.index.json");
    client.open(&uri, "json", index);
    let size = hover(&mut client, &uri, index, "\"total_size\"");
    assert!(size.contains("16,060,522,496 bytes = 14.96 GiB"), "{size}");
    assert_eq!(hover(&mut client, &uri, index, "\"lm_head.weight\""), "", "a tensor needs no explanation");
    let history = "{\"global_step\": 2, \"log_history\": [\n {\"step\": 1, \"loss\": 1.5, \"grad_norm\": 0.5}\n]}";
    let uri = folder.uri("trainer_state.json");
    client.open(&uri, "json", history);
    let loss = hover(&mut client, &uri, history, "\"loss\"");
    assert!(loss.contains("`loss`") && loss.contains("1.5") && loss.contains("NaN"), "{loss}");
    assert_eq!(client.shut_down(), Some(0));
}

#[test]
fn while_a_file_around_a_model_is_broken_its_hints_move_with_their_lines() {
    let folder = Folder::new("files-broken");
    let (mut client, _) = Client::with(common::rich(), json!({"initializationOptions": {"gpus": 8}}));
    let uri = folder.uri("ds_config.json");
    let text =
        "{\n \"bf16\": {\"enabled\": true},\n \"zero_optimization\": {\n  \"stage\": 2\n },\n \"train_micro_batch_size_per_gpu\": 1\n}\n";
    client.open(&uri, "json", text);
    client.diagnostics(&uri, 1);
    let lines = |client: &mut Client| -> Vec<u64> {
        let all = json!({"textDocument": {"uri": uri}, "range": range((0, 0), (999, 0))});
        let hints = client.request("textDocument/inlayHint", all);
        hints.as_array().unwrap().iter().map(|hint| hint["position"]["line"].as_u64().unwrap()).collect()
    };
    assert_eq!(lines(&mut client), [3, 5]);
    // The brace that closes the block goes, then two lines come above.
    client.change(&uri, 2, json!([{"range": range((4, 0), (5, 0)), "text": ""}]));
    assert_eq!(lines(&mut client), [3, 4]);
    client.change(&uri, 3, json!([{"range": range((1, 0), (1, 0)), "text": "\n\n"}]));
    assert_eq!(lines(&mut client), [5, 6]);
    assert_eq!(client.shut_down(), Some(0));
}

#[test]
fn no_file_is_too_strange() {
    let folder = Folder::new("files-strange");
    let mut client = Client::start();
    let uri = folder.uri("strange.json");
    let zero = "\"zero_optimization\": {\"stage\": 3, \"reduce_bucket_size\": 1e400, \"sub_group_size\": 0, \"offload_param\": 7, \"overlap_comm\": []}";
    let cases = [
        format!("{{{zero}, \"train_micro_batch_size_per_gpu\": -1}}"),
        format!("{{{zero}, \"train_micro_batch_size_per_gpu\": 99999999999999999999, \"gradient_accumulation_steps\": 0}}"),
        "{\"zero_optimization\": {\"stage\": \"2\"}, \"train_batch_size\": NaN, \"bf16\": {\"enabled\": \"yes\"}}".to_owned(),
        "{\"peft_type\": \"LORA\", \"r\": 0, \"target_modules\": \"((((\"}".to_owned(),
        "{\"peft_type\": \"LORA\", \"r\": 1e308, \"target_modules\": [1, null, {}], \"rank_pattern\": {\"(\": -1}, \"layers_to_transform\": \"x\"}".to_owned(),
        "{\"peft_type\": \"LORA\", \"r\": 68719476736, \"target_modules\": \"all-linear\", \"layers_to_transform\": [-1]}".to_owned(),
        "{\"peft_type\": \"LORA\", \"r\": 68719476736, \"target_modules\": \"all-linear\", \"rank_pattern\": {\".*\": 170141183460469231731687303715884105727}}".to_owned(),
        "{\"_from_model_config\": true, \"max_new_tokens\": 170141183460469231731687303715884105727, \"num_beams\": 68719476736}".to_owned(),
        "{\"_from_model_config\": 1, \"max_new_tokens\": 68719476736, \"num_beams\": 68719476736, \"\\u00e9\\ud83d\\ude00\": 1}".to_owned(),
        "{\"metadata\": {\"total_size\": -1e999}, \"weight_map\": {}}".to_owned(),
        "{\"log_history\": [[], 1, {\"loss\": \"x\", \"step\": -1}, {\"loss\": 1e999}], \"max_steps\": {}}".to_owned(),
    ];
    client.open(&uri, "json", "{}");
    for (version, text) in (2..).zip(&cases) {
        client.change(&uri, version, json!([{ "text": text }]));
        let all = json!({"textDocument": {"uri": uri}, "range": range((0, 0), (999, 0))});
        client.request("textDocument/inlayHint", all);
        client.request("textDocument/codeLens", json!({"textDocument": {"uri": uri}}));
        for column in (0..text.len()).step_by(7) {
            client.hover(&uri, 0, column);
            let at = json!({"textDocument": {"uri": uri}, "position": {"line": 0, "character": column}});
            client.request("textDocument/completion", at);
        }
    }
    assert_eq!(client.shut_down(), Some(0));
}
