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

/// Recognises a file by its keys.
pub fn recognise(root: Section<'_>) -> Document {
    let has_all = |names: &[&str]| names.iter().all(|name| root.has(name));
    let is_object = |name: &str| matches!(root.node(name).map(|(_, node)| &node.value), Some(Value::Object(_)));
    let is_list = |name: &str| matches!(root.node(name).map(|(_, node)| &node.value), Some(Value::Array(_)));
    if root.has("peft_type") && root.has("base_model_name_or_path|r|target_modules") {
        return Document::AdapterConfig;
    }
    if is_object("weight_map") {
        return Document::WeightsIndex;
    }
    if is_list("log_history") && root.has("global_step|max_steps") {
        return Document::TrainerState;
    }
    if is_object("zero_optimization")
        || has_all(&["train_micro_batch_size_per_gpu"])
        || has_all(&["train_batch_size", "gradient_accumulation_steps"])
    {
        return Document::DeepSpeedConfig;
    }
    if has_all(&["dim", "n_layers", "n_heads"]) && !root.has("model_type") {
        return Document::OriginalParams;
    }
    let sizes = [
        "hidden_size|d_model|n_embd|dim",
        "num_hidden_layers|n_layer|n_layers|num_layers|encoder_layers",
        "num_attention_heads|n_head|n_heads|num_heads|encoder_attention_heads",
        "vocab_size|padded_vocab_size",
    ];
    let usual = sizes.iter().filter(|names| root.has(names)).count();
    let nested = ["text_config", "vision_config", "llm_config", "thinker_config"].iter().any(|name| is_object(name));
    let named = root.str("model_type").is_some() || is_list("architectures");
    if usual >= 3 || (named && (usual >= 1 || nested || is_list("architectures"))) {
        return Document::ModelConfig;
    }
    if root.has("_from_model_config")
        || (root.has("transformers_version") && root.has("eos_token_id|bos_token_id|max_new_tokens|do_sample"))
    {
        return Document::GenerationConfig;
    }
    Document::Other
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
    }
}
