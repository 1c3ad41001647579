//! Configs of models in the editor: hints, hovers, marks and the lens, over real stdio.
#![allow(clippy::unwrap_used, clippy::expect_used)] // Helpers of tests are tests too.

mod common;

use common::{Client, range};
use serde_json::{Value, json};
use trainwreck::explain::config::{self, MOST_CHARACTERS, Outcome};
use trainwreck::model::checks::Around;

/// Whatever the file is called.
const FILE: &str = "file:///home/user/llama-8b/config-copy.json";
const LLAMA: &str = r#"{
  // A comment is read, and so is a last comma.
  "architectures": ["LlamaForCausalLM"],
  "model_type": "llama",
  "hidden_size": 4096,
  "intermediate_size": 14336,
  "num_hidden_layers": 32,
  "num_attention_heads": 32,
  "num_key_value_heads": 8,
  "max_position_embeddings": 131072,
  "vocab_size": 128256,
  "torch_dtype": "bfloat16",
}
"#;

fn hints(client: &mut Client, uri: &str) -> Vec<(u64, u64, String)> {
    let all = json!({"textDocument": {"uri": uri}, "range": range((0, 0), (999, 0))});
    let hints = client.request("textDocument/inlayHint", all);
    let hint = |hint: &Value| {
        let at = &hint["position"];
        (at["line"].as_u64().unwrap(), at["character"].as_u64().unwrap(), hint["label"].as_str().unwrap().to_owned())
    };
    hints.as_array().unwrap().iter().map(hint).collect()
}

fn lines(client: &mut Client, uri: &str) -> Vec<(u64, String)> {
    hints(client, uri).into_iter().map(|(line, _, text)| (line, text)).collect()
}

fn titles(client: &mut Client, uri: &str) -> Vec<String> {
    let lens = client.request("textDocument/codeLens", json!({"textDocument": {"uri": uri}}));
    lens.as_array().unwrap().iter().map(|one| one["command"]["title"].as_str().unwrap().to_owned()).collect()
}

fn hover(client: &mut Client, line: usize, character: usize) -> String {
    client.hover(FILE, line, character)["contents"]["value"].as_str().unwrap().to_owned()
}

fn owned(list: &[(u64, &str)]) -> Vec<(u64, String)> {
    list.iter().map(|(line, text)| (*line, (*text).to_owned())).collect()
}

const SHOWN: [(u64, &str); 4] =
    [(6, "8.03 B parameters"), (8, "KV 128 KiB/token"), (9, "KV 16 GiB at 131,072 tokens"), (11, "weights 14.96 GiB")];

#[test]
fn a_config_has_hints_hovers_and_a_lens() {
    let mut client = Client::start();
    client.open(FILE, "jsonc", LLAMA);
    assert_eq!(client.diagnostics(FILE, 1), Vec::<Value>::new());
    assert_eq!(lines(&mut client, FILE), owned(&SHOWN));
    let end = LLAMA.lines().nth(8).unwrap().len() as u64;
    assert_eq!(hints(&mut client, FILE)[1].1, end, "behind the comma, at the end of the line");
    let over = titles(&mut client, FILE);
    assert_eq!(over[..3], ["8.03 B parameters", "weights 14.96 GiB", "KV 1 GiB at 8k context"]);
    assert!(over[3].starts_with("inference, 8,192 tokens · ") && over[3].ends_with(" · fits 24 GB cards and larger"), "{over:?}");
    assert_eq!(over[7..], ["change GPU", "change task"]);

    let kv = hover(&mut client, 8, 5);
    assert!(kv.contains("32 layers × 2 (keys and values) × 8 KV heads × 128 × 2 bytes = 131,072 bytes (128 KiB)"), "{kv}");
    assert!(kv.contains("Left out, `llama` takes 32"), "{kv}");
    let dtype = hover(&mut client, 11, 20);
    assert!(dtype.contains("8,030,261,248 parameters × 2 bytes = 16,060,522,496 bytes (14.96 GiB)"), "{dtype}");
    assert_eq!(client.hover(FILE, 1, 5), Value::Null, "a comment needs no explanation");
    assert_eq!(client.shut_down(), Some(0));
}

#[test]
fn while_the_json_is_broken_the_hints_stay_with_their_lines() {
    let mut client = Client::start();
    client.open(FILE, "json", LLAMA);
    client.diagnostics(FILE, 1);
    // A new line with half a key comes in front of the layers.
    client.change(FILE, 2, json!([{"range": range((6, 0), (6, 0)), "text": "  \"rope_th\n"}]));
    assert_eq!(client.diagnostics(FILE, 2), Vec::<Value>::new());
    let moved: Vec<(u64, String)> = owned(&SHOWN).into_iter().map(|(line, text)| (line + 1, text)).collect();
    assert_eq!(lines(&mut client, FILE), moved);
    assert_eq!(titles(&mut client, FILE).len(), 9);
    assert_eq!(client.hover(FILE, 9, 5), Value::Null);
    // A line goes while it is still broken: its hint goes too.
    client.change(FILE, 3, json!([{"range": range((9, 0), (10, 0)), "text": ""}]));
    assert_eq!(lines(&mut client, FILE), owned(&[(7, SHOWN[0].1), (9, SHOWN[2].1), (11 - 1 + 1, SHOWN[3].1)]));
    // It is whole again, and another model.
    client.change(FILE, 4, json!([{"text": LLAMA.replace("\"num_hidden_layers\": 32", "\"num_hidden_layers\": 16")}]));
    assert_eq!(lines(&mut client, FILE)[1], (8, "KV 64 KiB/token".to_owned()));
    // It is no config any more.
    client.change(FILE, 5, json!([{"text": "{\"name\": \"left-pad\"}"}]));
    assert_eq!(lines(&mut client, FILE), []);
    assert_eq!(client.request("textDocument/codeLens", json!({"textDocument": {"uri": FILE}})), Value::Null);
    assert_eq!(client.shut_down(), Some(0));
}

#[test]
fn what_is_wrong_is_marked_at_its_key() {
    let mut client = Client::start();
    let moe = r#""model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 9"#;
    let cases = [
        (LLAMA.replace("\"hidden_size\": 4096", "\"hidden_size\": 4100"), "config-head-width", 7),
        (LLAMA.replace("\"num_key_value_heads\": 8", "\"num_key_value_heads\": 5"), "config-kv-heads", 8),
        (LLAMA.replace("bfloat16", "bfloat17"), "config-dtype", 11),
        (LLAMA.replace("\"num_hidden_layers\": 32", "\"num_hidden_layers\": -4"), "config-value", 6),
        (LLAMA.replace("Llama", "Mixtral").replace("\"model_type\": \"llama\"", moe), "config-experts", 3),
    ];
    client.open(FILE, "json", LLAMA);
    client.diagnostics(FILE, 1);
    for (version, (text, code, line)) in (2..).zip(cases) {
        client.change(FILE, version, json!([{ "text": text }]));
        let marks = client.diagnostics(FILE, version);
        assert_eq!(marks.len(), 1, "{code}: {marks:?}");
        assert_eq!((&marks[0]["code"], &marks[0]["range"]["start"]["line"]), (&json!(code), &json!(line)));
        let link = marks[0]["codeDescription"]["href"].as_str().unwrap();
        assert!(link.ends_with(&format!("/src/explain/config/pages/{code}.md")), "{link}");
        let start = &marks[0]["range"]["start"];
        let text = client.hover(FILE, line, start["character"].as_u64().unwrap() as usize)["contents"]["value"].to_string();
        assert!(text.contains("What to do") && text.contains(&format!("trainwreck explain {code}")), "{text}");
        assert!(marks[0]["message"].as_str().unwrap().split(". ").count() >= 3, "what, why, what to do");
    }
    assert_eq!(client.shut_down(), Some(0));
}

#[test]
fn other_json_stays_silent() {
    let mut client = Client::start();
    let wide = format!("{{\"model_type\": \"llama\", \"x\": \"{}\"}}", "y".repeat(config::MOST_BYTES));
    for (name, text) in [("package", "{\"name\": \"left-pad\"}"), ("broken", "{\"model_type\": \"llama\", "), ("wide", &wide)] {
        let uri = format!("file:///home/user/{name}.json");
        client.open(&uri, "json", text);
        assert_eq!(lines(&mut client, &uri), [], "{name}");
    }
    assert!(client.unread().all(|message| message["method"] != "textDocument/publishDiagnostics"));
    assert_eq!(client.shut_down(), Some(0));
}

#[test]
fn columns_are_the_editors() {
    let mut client = Client::start();
    // On one line, and behind a character of two UTF-16 units and four bytes.
    let text = "{\"_name\": \"𝒎\", \"model_type\": \"gpt2\", \"architectures\": [\"GPT2LMHeadModel\"], \"n_head\": 12, \"n_layer\": 12, \"n_embd\": 768}";
    client.open(FILE, "json", text);
    let shown = hints(&mut client, FILE);
    let column = |key: &str| text[..text.find(key).unwrap()].encode_utf16().count() + key.len();
    assert_eq!(shown[1], (0, column("\"n_head\": 12") as u64, "KV 36 KiB/token".to_owned()));
    let hover = client.hover(FILE, 0, column("\"n_head"));
    assert_eq!(hover["range"]["start"]["character"], json!(column("\"n_head") - "\"n_head".len()));
    assert_eq!(client.shut_down(), Some(0));
}

#[test]
fn configs_that_work_have_short_hints_and_no_marks() {
    for entry in std::fs::read_dir("tests/configs").unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|ending| ending != "json") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let Outcome::Config(view) = config::read(&text) else {
            panic!("{} is a config", path.display());
        };
        assert_eq!(view.marks(&Around::default()), [], "{}", path.display());
        assert!(!view.lens().is_empty());
        for hint in view.hints() {
            assert!(hint.text.chars().count() < MOST_CHARACTERS, "{}: {}", path.display(), hint.text);
        }
    }
}

#[test]
fn every_key_of_some_configs_is_explained_in_full() {
    for name in ["deepseek-v3", "gemma-3-12b-it", "gpt-oss-120b", "qwen2.5-7b-instruct-awq", "whisper-large-v3-turbo"] {
        let text = std::fs::read_to_string(format!("tests/configs/{name}.json")).unwrap();
        let Outcome::Config(view) = config::read(&text) else {
            panic!("{name} is a config");
        };
        let mut explained = 0;
        for (at, _) in text.match_indices('"') {
            let Some(hover) = view.hover(at) else { continue };
            explained += 1;
            assert!(hover.span.start <= at && at <= hover.span.end, "{name}");
            assert!(!hover.markdown.contains('?') && !hover.markdown.contains('{'), "{name}: {}", hover.markdown);
        }
        assert!(explained > 10, "{name}");
    }
}

#[test]
fn no_text_is_too_strange() {
    let strange = [
        "",
        "{",
        "\u{feff}{}",
        "{\"model_type\": 1, \"architectures\": [], \"hidden_size\": -1, \"vocab_size\": 1e99}",
        "{\"model_type\": \"llama\", \"architectures\": [\"\\u0000$(x)\"], \"hidden_size\": \"é\", \"num_attention_heads\": 0}",
        "{\"model_type\": \"llama\", \"architectures\": [\"X\"], \"num_key_value_heads\": 0, \"num_attention_heads\": 68719476736}",
        "{\"model_type\": \"llama\", \"architectures\": {}, \"text_config\": {\"text_config\": {\"hidden_size\": 1}}, \"hidden_size\": NaN}",
        "{\"architectures\": [\"A\"], \"text_config\": null, \"quantization_config\": [], \"torch_dtype\": {\"\": \"x\"}}",
    ];
    for text in strange {
        let Outcome::Config(view) = config::read(text) else { continue };
        let _ = (view.hints(), view.lens(), view.marks(&Around::default()));
        for at in 0..=text.len() + 1 {
            let _ = view.hover(at);
        }
    }
}
