//! What a JSON file is, by its content: a model config, or one of the files that lie beside one.
//!
//! The name of a file is not looked at. Files of other kinds are none of these, and stay silent.

use super::config::Section;
use super::json::Value;

/// Kinds of JSON files around a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Document {
    /// `config.json` of a model.
    ModelConfig,
    /// `params.json` of Llama's or Mistral's original checkpoints.
    OriginalParams,
    /// `adapter_config.json` of PEFT.
    AdapterConfig,
    /// `model.safetensors.index.json`: which file holds which tensor.
    WeightsIndex,
    /// `generation_config.json`.
    GenerationConfig,
    /// Configuration of DeepSpeed.
    DeepSpeedConfig,
    /// `trainer_state.json` of a training run.
    TrainerState,
    /// Something else.
    Other,
}

/// Recognises a file by its keys, and by the kind of their values: a word like `n_layers` or `architectures` alone is
/// used by many programs.
pub fn recognise(root: Section<'_>) -> Document {
    let value = |name: &str| root.node(name).map(|(_, node)| &node.value);
    let is_object = |name: &str| matches!(value(name), Some(Value::Object(_)));
    let is_list = |name: &str| matches!(value(name), Some(Value::Array(_)));
    if root.str("peft_type").is_some() && root.has("base_model_name_or_path|r|target_modules") {
        return Document::AdapterConfig;
    }
    if is_weight_map(value("weight_map")) || is_object("weight_map") && root.section("metadata").has("total_size") {
        return Document::WeightsIndex;
    }
    if is_list("log_history") && root.has("global_step|max_steps") {
        return Document::TrainerState;
    }
    if is_deepspeed(root) {
        return Document::DeepSpeedConfig;
    }
    let sizes = ["dim", "n_layers", "n_heads"].iter().all(|name| root.has(name));
    if sizes && root.has("norm_eps|multiple_of|ffn_dim_multiplier|n_kv_heads") && !root.has("model_type") {
        return Document::OriginalParams;
    }
    if is_model(root, is_object) {
        return Document::ModelConfig;
    }
    if root.has("_from_model_config")
        || (root.has("transformers_version") && root.has("eos_token_id|bos_token_id|max_new_tokens|do_sample"))
    {
        return Document::GenerationConfig;
    }
    Document::Other
}

fn is_model(root: Section<'_>, is_object: impl Fn(&str) -> bool) -> bool {
    let sizes = [
        "hidden_size|d_model|n_embd|dim",
        "num_hidden_layers|n_layer|n_layers|num_layers|encoder_layers",
        "num_attention_heads|n_head|n_heads|num_heads|encoder_attention_heads",
        "vocab_size|padded_vocab_size",
    ];
    let usual = sizes.iter().filter(|names| root.has(names)).count();
    let class = root.strings("architectures").iter().any(|name| is_class(name));
    let nested = ["text_config", "vision_config", "llm_config", "thinker_config"].iter().any(|name| is_object(name));
    if root.str("model_type").is_some() || class {
        return usual >= 1 || nested || class;
    }
    // Without a name, all sizes are asked for, or a spelling that only models have.
    usual == sizes.len() || ["n_embd", "n_layer", "n_head"].iter().all(|name| root.has(name))
}

/// Whether a name is that of a class of models, and none of a processor: `amd64`, `arm64`.
fn is_class(name: &str) -> bool {
    let upper = name.chars().filter(char::is_ascii_uppercase).count();
    let lower = name.chars().filter(char::is_ascii_lowercase).count();
    name.starts_with(|c: char| c.is_ascii_uppercase()) && upper >= 2 && lower >= 2
}

/// Whether an object names the file of each tensor.
fn is_weight_map(value: Option<&Value>) -> bool {
    const ENDINGS: [&str; 5] = [".safetensors", ".bin", ".pt", ".pth", ".msgpack"];
    let Some(Value::Object(members)) = value else {
        return false;
    };
    let is_file = |value: &Value| matches!(value, Value::String(name) if ENDINGS.iter().any(|ending| name.ends_with(ending)));
    members.first().is_none_or(|first| is_file(&first.node.value))
}

/// Whether the keys are those of DeepSpeed: one that nobody else has, or a batch beside another of its blocks.
fn is_deepspeed(root: Section<'_>) -> bool {
    const BLOCKS: [&str; 5] = ["fp16", "bf16", "bfloat16", "optimizer", "scheduler"];
    let block = |name: &&str| !root.section(name).is_empty() && root.section(name).has("enabled|type");
    let batch = root.has("train_batch_size|gradient_accumulation_steps");
    let own = root.has("fp16|bf16|bfloat16|steps_per_print|wall_clock_breakdown");
    root.node("zero_optimization").is_some_and(|(_, node)| matches!(node.value, Value::Object(_)))
        || root.has("train_micro_batch_size_per_gpu")
        || (batch && own && BLOCKS.iter().any(block))
}

#[cfg(test)]
mod tests {
    use super::super::json::parse;
    use super::*;

    fn kind(text: &str) -> Document {
        recognise(Section::new(&parse(text).unwrap()))
    }

    #[test]
    fn files_are_known_by_content() {
        assert_eq!(kind(r#"{"model_type": "llama", "hidden_size": 64}"#), Document::ModelConfig);
        assert_eq!(kind(r#"{"n_embd": 768, "n_layer": 12, "n_head": 12}"#), Document::ModelConfig);
        assert_eq!(kind(r#"{"architectures": ["CLIPModel"], "text_config": {}}"#), Document::ModelConfig);
        assert_eq!(kind(r#"{"dim": 4096, "n_layers": 32, "n_heads": 32, "norm_eps": 1e-5}"#), Document::OriginalParams);
        assert_eq!(kind(r#"{"peft_type": "LORA", "r": 8, "target_modules": ["q_proj"]}"#), Document::AdapterConfig);
        assert_eq!(kind(r#"{"metadata": {"total_size": 1}, "weight_map": {}}"#), Document::WeightsIndex);
        assert_eq!(kind(r#"{"weight_map": {"a.weight": "model-00001-of-00002.safetensors"}}"#), Document::WeightsIndex);
        assert_eq!(kind(r#"{"train_batch_size": 8, "fp16": {"enabled": true}}"#), Document::DeepSpeedConfig);
        assert_eq!(kind(r#"{"log_history": [], "global_step": 10}"#), Document::TrainerState);
        assert_eq!(kind(r#"{"zero_optimization": {"stage": 3}}"#), Document::DeepSpeedConfig);
        assert_eq!(kind(r#"{"_from_model_config": true, "eos_token_id": 2}"#), Document::GenerationConfig);
    }

    #[test]
    fn other_files_stay_silent() {
        assert_eq!(kind(r#"{"name": "left-pad", "version": "1.0.0", "dependencies": {}}"#), Document::Other);
        assert_eq!(kind(r#"{"compilerOptions": {"target": "es2022"}}"#), Document::Other);
        assert_eq!(kind(r#"{"type": "object", "properties": {"model_type": {"type": "string"}}}"#), Document::Other);
        assert_eq!(kind("[1, 2, 3]"), Document::Other);
        // Words that other programs use too.
        assert_eq!(kind(r#"{"name": "tool", "architectures": ["amd64", "arm64"], "os": "linux"}"#), Document::Other);
        assert_eq!(kind(r#"{"dim": 768, "n_layers": 3, "n_heads": 4, "name": "index"}"#), Document::Other);
        assert_eq!(kind(r#"{"d_model": 512, "n_layers": 6, "n_heads": 8, "lr": 0.1}"#), Document::Other);
        assert_eq!(kind(r#"{"train_batch_size": 32, "gradient_accumulation_steps": 2, "learning_rate": 1e-4}"#), Document::Other);
        assert_eq!(kind(r#"{"train_batch_size": 32, "optimizer": {"type": "adam"}}"#), Document::Other);
        assert_eq!(kind(r#"{"weight_map": {"a": 1, "b": 2}, "nodes": [1]}"#), Document::Other);
        assert_eq!(kind(r#"{"peft_type": 3, "r": 1, "target_modules": 7}"#), Document::Other);
    }
}
