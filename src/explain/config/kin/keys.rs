//! The keys of files around a model: where they stand, what holds when they are left out, and what may be written.

use crate::explain::texts::{Language, has, text};
use crate::model::documents::Document;

/// A key of such a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// Name of the object around it; empty for the outermost.
    pub inside: &'static str,
    /// The key.
    pub name: &'static str,
    /// What holds when it is left out; empty where nothing does.
    pub default: &'static str,
    /// Values that may be written, parted by `|`; empty where they cannot be listed.
    pub values: &'static str,
}

const FLAG: &str = "true|false";

const fn key(inside: &'static str, name: &'static str, default: &'static str, values: &'static str) -> Key {
    Key { inside, name, default, values }
}

const ADAPTER: &[Key] = &[
    key("", "peft_type", "", "LORA|ADALORA|IA3|LOHA|LOKR|OFT|BOFT|VERA|PREFIX_TUNING|PROMPT_TUNING|P_TUNING"),
    key("", "task_type", "", "CAUSAL_LM|SEQ_2_SEQ_LM|SEQ_CLS|TOKEN_CLS|QUESTION_ANS|FEATURE_EXTRACTION"),
    key("", "base_model_name_or_path", "", ""),
    key("", "revision", "", ""),
    key("", "r", "8", ""),
    key("", "lora_alpha", "8", ""),
    key("", "lora_dropout", "0.0", ""),
    key("", "target_modules", "", "all-linear"),
    key("", "exclude_modules", "", ""),
    key("", "target_parameters", "", ""),
    key("", "modules_to_save", "", ""),
    key("", "layers_to_transform", "", ""),
    key("", "layers_pattern", "", ""),
    key("", "rank_pattern", "{}", ""),
    key("", "alpha_pattern", "{}", ""),
    key("", "bias", "none", "none|all|lora_only"),
    key("", "lora_bias", "false", FLAG),
    key("", "use_rslora", "false", FLAG),
    key("", "use_dora", "false", FLAG),
    key("", "fan_in_fan_out", "false", FLAG),
    key("", "init_lora_weights", "true", "true|false|gaussian|pissa|olora|loftq|eva|corda"),
    key("", "inference_mode", "false", FLAG),
    key("", "trainable_token_indices", "", ""),
];

const GENERATION: &[Key] = &[
    key("", "max_new_tokens", "", ""),
    key("", "max_length", "20", ""),
    key("", "min_new_tokens", "", ""),
    key("", "min_length", "0", ""),
    key("", "do_sample", "false", FLAG),
    key("", "temperature", "1.0", ""),
    key("", "top_k", "50", ""),
    key("", "top_p", "1.0", ""),
    key("", "min_p", "", ""),
    key("", "typical_p", "1.0", ""),
    key("", "repetition_penalty", "1.0", ""),
    key("", "no_repeat_ngram_size", "0", ""),
    key("", "num_beams", "1", ""),
    key("", "num_return_sequences", "1", ""),
    key("", "length_penalty", "1.0", ""),
    key("", "early_stopping", "false", FLAG),
    key("", "use_cache", "true", FLAG),
    key("", "cache_implementation", "", "dynamic|static|offloaded|offloaded_static|quantized|sliding_window|hybrid"),
    key("", "bos_token_id", "", ""),
    key("", "eos_token_id", "", ""),
    key("", "pad_token_id", "", ""),
    key("", "transformers_version", "", ""),
    key("", "_from_model_config", "false", FLAG),
];

const ZERO: &str = "zero_optimization";
const DEEPSPEED: &[Key] = &[
    key("", "train_micro_batch_size_per_gpu", "", "auto"),
    key("", "gradient_accumulation_steps", "1", "auto"),
    key("", "train_batch_size", "", "auto"),
    key("", "gradient_clipping", "0", "auto"),
    key("", ZERO, "", ""),
    key("", "bf16", "", ""),
    key("", "fp16", "", ""),
    key("", "optimizer", "", ""),
    key("", "scheduler", "", ""),
    key("", "activation_checkpointing", "", ""),
    key("", "zero_allow_untested_optimizer", "false", FLAG),
    key("", "zero_force_ds_cpu_optimizer", "true", FLAG),
    key("", "communication_data_type", "", "fp16|bf16|fp32"),
    key("", "steps_per_print", "10", ""),
    key("", "wall_clock_breakdown", "false", FLAG),
    key(ZERO, "stage", "0", "0|1|2|3"),
    key(ZERO, "offload_optimizer", "", ""),
    key(ZERO, "offload_param", "", ""),
    key(ZERO, "overlap_comm", "true in stage 3, else false", FLAG),
    key(ZERO, "contiguous_gradients", "true", FLAG),
    key(ZERO, "reduce_scatter", "true", FLAG),
    key(ZERO, "reduce_bucket_size", "5e8", "auto"),
    key(ZERO, "allgather_partitions", "true", FLAG),
    key(ZERO, "allgather_bucket_size", "5e8", ""),
    key(ZERO, "sub_group_size", "1e9", ""),
    key(ZERO, "stage3_max_live_parameters", "1e9", ""),
    key(ZERO, "stage3_max_reuse_distance", "1e9", ""),
    key(ZERO, "stage3_prefetch_bucket_size", "5e7", "auto"),
    key(ZERO, "stage3_param_persistence_threshold", "1e5", "auto"),
    key(ZERO, "stage3_gather_16bit_weights_on_model_save", "false", FLAG),
    key(ZERO, "round_robin_gradients", "false", FLAG),
    key(ZERO, "zero_hpz_partition_size", "1", ""),
    key(ZERO, "zero_quantized_weights", "false", FLAG),
    key(ZERO, "zero_quantized_gradients", "false", FLAG),
    key("offload_optimizer", "device", "none", "none|cpu|nvme"),
    key("offload_optimizer", "pin_memory", "false", FLAG),
    key("offload_optimizer", "nvme_path", "", ""),
    key("offload_optimizer", "ratio", "1.0", ""),
    key("offload_optimizer", "buffer_count", "4", ""),
    key("offload_optimizer", "fast_init", "false", FLAG),
    key("offload_param", "device", "none", "none|cpu|nvme"),
    key("offload_param", "pin_memory", "false", FLAG),
    key("offload_param", "nvme_path", "", ""),
    key("offload_param", "buffer_count", "5", ""),
    key("offload_param", "buffer_size", "1e8", ""),
    key("offload_param", "max_in_cpu", "1e9", ""),
    key("bf16", "enabled", "false", "true|false|auto"),
    key("fp16", "enabled", "false", "true|false|auto"),
    key("fp16", "loss_scale", "0", ""),
    key("fp16", "initial_scale_power", "16", ""),
    key("fp16", "loss_scale_window", "1000", ""),
    key("fp16", "hysteresis", "2", ""),
    key("fp16", "min_loss_scale", "1", ""),
    key("optimizer", "type", "", "AdamW|Adam|Lion|Muon|Lamb|Adagrad|OneBitAdam|ZeroOneAdam|SGD"),
    key("optimizer", "params", "", ""),
    key("scheduler", "type", "", "WarmupLR|WarmupDecayLR|WarmupCosineLR|OneCycle|LRRangeTest"),
    key("scheduler", "params", "", ""),
    key("params", "lr", "", "auto"),
    key("params", "betas", "", "auto"),
    key("params", "eps", "", "auto"),
    key("params", "weight_decay", "", "auto"),
    key("params", "torch_adam", "false", FLAG),
    key("params", "warmup_min_lr", "0", "auto"),
    key("params", "warmup_max_lr", "", "auto"),
    key("params", "warmup_num_steps", "1000", "auto"),
    key("params", "total_num_steps", "", "auto"),
    key("activation_checkpointing", "partition_activations", "false", FLAG),
    key("activation_checkpointing", "cpu_checkpointing", "false", FLAG),
    key("activation_checkpointing", "number_checkpoints", "", ""),
    key("activation_checkpointing", "contiguous_memory_optimization", "false", FLAG),
];

const TRAINER: &[Key] = &[
    key("", "global_step", "", ""),
    key("", "max_steps", "", ""),
    key("", "epoch", "", ""),
    key("", "num_train_epochs", "", ""),
    key("", "best_metric", "", ""),
    key("", "best_model_checkpoint", "", ""),
    key("", "logging_steps", "", ""),
    key("", "eval_steps", "", ""),
    key("", "save_steps", "", ""),
    key("", "train_batch_size", "", ""),
    key("", "total_flos", "", ""),
    key("", "num_input_tokens_seen", "", ""),
    key("", "log_history", "", ""),
    key("log_history", "loss", "", ""),
    key("log_history", "grad_norm", "", ""),
    key("log_history", "learning_rate", "", ""),
    key("log_history", "step", "", ""),
    key("log_history", "epoch", "", ""),
    key("log_history", "eval_loss", "", ""),
];

const INDEX: &[Key] = &[
    key("", "metadata", "", ""),
    key("metadata", "total_size", "", ""),
    key("metadata", "total_parameters", "", ""),
    key("", "weight_map", "", ""),
];

/// The keys of a kind of file.
pub fn of(document: Document) -> &'static [Key] {
    match document {
        Document::AdapterConfig => ADAPTER,
        Document::GenerationConfig => GENERATION,
        Document::DeepSpeedConfig => DEEPSPEED,
        Document::TrainerState => TRAINER,
        Document::WeightsIndex => INDEX,
        _ => &[],
    }
}

/// The part of a text's name that stands for a kind of file.
fn kind(document: Document) -> &'static str {
    match document {
        Document::AdapterConfig => "adapter",
        Document::GenerationConfig => "generation",
        Document::DeepSpeedConfig => "zero",
        Document::TrainerState => "trainer",
        _ => "index",
    }
}

/// A key by its name and the object around it.
pub fn find(document: Document, inside: &str, name: &str) -> Option<&'static Key> {
    of(document).iter().find(|key| key.inside == inside && key.name == name)
}

/// What a key is.
pub fn meaning(document: Document, key: &Key) -> &'static str {
    let kind = kind(document);
    // A key that stands in several objects has a text for each where it means something else.
    let own = format!("kin.key.{kind}.{}.{}", key.inside, key.name);
    let name = if has(Language::English, &own) { own } else { format!("kin.key.{kind}.{}", key.name) };
    text(Language::English, &name)
}

/// What a known value is; none where its name says it.
pub fn value_meaning(value: &str) -> Option<&'static str> {
    let name = format!("kin.value.{value}");
    has(Language::English, &name).then(|| text(Language::English, &name))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KINDS: [Document; 5] =
        [Document::AdapterConfig, Document::GenerationConfig, Document::DeepSpeedConfig, Document::TrainerState, Document::WeightsIndex];

    #[test]
    fn every_key_has_its_words_and_stands_once() {
        for document in KINDS {
            for (at, key) in of(document).iter().enumerate() {
                assert!(meaning(document, key).len() > 10, "{document:?}: {}.{}", key.inside, key.name);
                let twice = of(document)[at + 1..].iter().any(|other| other.inside == key.inside && other.name == key.name);
                assert!(!twice, "{document:?}: {}", key.name);
            }
        }
    }
}
