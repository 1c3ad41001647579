//! Hostile and absurd configs: a clear answer at a key, never a panic.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test may fail that way

use proptest::prelude::*;
use trainwreck::model::{self, architectures};

/// Any JSON value, with the keys and words that configs use.
fn value() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        any::<bool>().prop_map(|flag| flag.to_string()),
        any::<i64>().prop_map(|number| number.to_string()),
        (0u64..70_000).prop_map(|number| number.to_string()),
        any::<f64>().prop_map(|number| if number.is_finite() { format!("{number:?}") } else { "NaN".to_owned() }),
        "[ -~]{0,12}".prop_map(|text| format!("{text:?}")),
        Just("\"full_attention\"".to_owned()),
        Just("Infinity".to_owned()),
    ];
    leaf.prop_recursive(3, 24, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(|items| format!("[{}]", items.join(","))),
            prop::collection::vec((key(), inner), 0..6).prop_map(|members| object(&members)),
        ]
    })
}

fn object(members: &[(String, String)]) -> String {
    let members: Vec<String> = members.iter().map(|(name, value)| format!("{name:?}: {value}")).collect();
    format!("{{{}}}", members.join(","))
}

fn key() -> impl Strategy<Value = String> {
    let usual = [
        "hidden_size",
        "num_hidden_layers",
        "num_attention_heads",
        "num_key_value_heads",
        "head_dim",
        "vocab_size",
        "intermediate_size",
        "layer_types",
        "num_experts",
        "n_routed_experts",
        "num_experts_per_tok",
        "moe_intermediate_size",
        "text_config",
        "vision_config",
        "audio_config",
        "quantization_config",
        "quant_method",
        "bits",
        "group_size",
        "kv_lora_rank",
        "q_lora_rank",
        "qk_rope_head_dim",
        "v_head_dim",
        "sliding_window",
        "block_configs",
        "attn_config",
        "ffn_config",
        "mamba_expand",
        "mamba_n_heads",
        "conv_kernel",
        "image_size",
        "patch_size",
        "d_model",
        "encoder_layers",
        "decoder_layers",
        "conv_dim",
        "compress_ratios",
        "linear_attn_config",
        "config_groups",
        "ignore",
        "weight_block_size",
        "hybrid_override_pattern",
        "full_attn_layers",
        "num_kv_shared_layers",
        "mlp_ratio",
        "n_embd",
        "n_layer",
        "n_head",
        "downsample_ratio",
        "id2label",
        "torch_dtype",
    ];
    prop_oneof![4 => prop::sample::select(usual.to_vec()).prop_map(str::to_owned), 1 => "[a-z_]{1,10}"]
}

fn families() -> Vec<&'static str> {
    let text = architectures::TEXT.iter().map(|(name, _)| *name);
    text.chain(architectures::WHOLE.iter().map(|(name, _)| *name)).chain(["", "unheard_of"]).collect()
}

/// Uses every number that a model gives.
fn use_up(model: &model::Model) {
    let _ = (model.total(), model.active(), model.low(), model.high(), model.weights_bytes(), model.kv_bytes_per_token(2));
    let _ = model.inventory.lora(16, &["q_proj", "v_proj"]);
    for engine in [model::kv_cache::Engine::Transformers, model::kv_cache::Engine::Vllm { block: 16, batched_tokens: 8192 }] {
        let _ = model::kv_cache::bytes_per_sequence(&model.inventory, engine, 8192, 2, 4, 1500);
    }
    let _ = model::gguf::stored_bytes(&model.inventory, model::gguf::Mix::Q4KM);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn any_keys_and_values_of_any_family(family in prop::sample::select(families()), members in prop::collection::vec((key(), value()), 0..24)) {
        let mut members = members;
        members.push(("model_type".to_owned(), format!("{family:?}")));
        let text = object(&members);
        match model::read(&text) {
            Ok(model) => use_up(&model),
            Err(error) => {
                prop_assert!(!error.message.is_empty());
                prop_assert!(text.get(error.span.clone()).is_some(), "{:?} is no range of the text", error.span);
            }
        }
    }

    #[test]
    fn any_text(text in "\\PC{0,200}") {
        if let Err(error) = model::read(&text) {
            prop_assert!(text.get(error.span.clone()).is_some());
        }
    }
}

#[test]
fn absurd_values_are_named_at_their_key() {
    let cases = [
        (r#"{"model_type": "llama", "hidden_size": -4096}"#, "hidden_size", "-4096"),
        (r#"{"model_type": "llama", "hidden_size": "4096"}"#, "hidden_size", "\"4096\""),
        (r#"{"model_type": "llama", "num_hidden_layers": 1000000000}"#, "num_hidden_layers", "1000000000"),
        (r#"{"model_type": "llama", "vocab_size": 1e300}"#, "vocab_size", "1e300"),
        (r#"{"model_type": "llama", "num_attention_heads": 0}"#, "num_attention_heads", "0"),
        (r#"{"model_type": "qwen3", "tie_word_embeddings": "yes"}"#, "tie_word_embeddings", "\"yes\""),
    ];
    for (text, key, value) in cases {
        let error = model::read(text).unwrap_err();
        assert_eq!(error.key, key, "{text}");
        assert_eq!(&text[error.span.clone()], value, "{text}");
        assert!(error.message.contains(key), "{}", error.message);
    }
}

#[test]
fn deep_nesting_and_large_texts_are_refused() {
    let deep = format!("{{\"model_type\": \"llama\", \"a\": {}}}", "[".repeat(100_000));
    assert!(model::read(&deep).unwrap_err().message.contains("nested"));
    let huge = " ".repeat(65 << 20);
    assert!(model::read(&huge).unwrap_err().message.contains("64 MiB"));
}

#[test]
fn broken_json_says_where() {
    let text = "{\n  \"model_type\": \"llama\",\n  \"hidden_size\" 4096\n}";
    let error = model::read(text).unwrap_err();
    assert_eq!(text[..error.span.start].matches('\n').count(), 2);
}

#[test]
fn a_file_without_sizes_says_what_is_missing() {
    let error = model::read(r#"{"model_type": "unheard_of", "hidden_size": 64}"#).unwrap_err();
    assert_eq!(error.key, "num_hidden_layers");
    assert!(error.message.contains("unheard_of"));
}

#[test]
fn large_texts_take_time_by_their_length_only() {
    let many_keys = format!("{{\"model_type\": \"llama\"{}}}", (0..400_000).map(|n| format!(", \"key{n}\": {n}")).collect::<String>());
    let many_values = format!("{{\"model_type\": \"llama\", \"a\": [{}0]}}", "0,".repeat(5_000_000));
    let long_string = format!("{{\"model_type\": \"llama\", \"a\": \"{}\"}}", "x\\n".repeat(4_000_000));
    let blanks = format!("{{\"model_type\": {}\"llama\"}}", "/**/ ".repeat(2_000_000));
    let started = std::time::Instant::now();
    let error = model::read(&many_keys).unwrap_err();
    assert_eq!((error.key.as_str(), &many_keys[error.span.clone()]), ("key4095", "\"key4095\""));
    assert!(error.message.contains("400001 keys"), "{}", error.message);
    assert!(model::read(&many_values).unwrap_err().message.contains("more values"));
    assert!(model::read(&long_string).is_ok());
    assert!(model::read(&blanks).is_ok());
    // Generous: a slow machine under load in a debug build.
    assert!(started.elapsed().as_secs() < 30, "{:?}", started.elapsed());
}
