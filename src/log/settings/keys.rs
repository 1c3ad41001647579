//! The names under which runs print their settings, and reading a value behind a name.
//!
//! Forms: `key=value` (dataclasses and namespaces of Python), `key: value` and `"key": value` (YAML, JSON, dictionaries),
//! `key ..... value` (Megatron, DeepSpeed), `key = value` (the trainer of transformers), `--key value` and `--key=value`
//! (echoed commands). A name in backticks or in advice sets nothing.

use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, MatchKind};

use super::Setting;
use crate::text::floor_border;

/// Bytes of a value that are kept.
const MOST_VALUE: usize = 300;

/// Names of settings, as printed.
const NAMES: &[(&str, Setting)] = &[
    ("per_device_train_batch_size", Setting::Batch),
    ("train_micro_batch_size_per_gpu", Setting::Batch),
    ("micro_batch_size", Setting::Batch),
    ("Instantaneous batch size per device", Setting::Batch),
    ("gradient_accumulation_steps", Setting::Accumulation),
    ("Gradient Accumulation steps", Setting::Accumulation),
    ("Total train batch size (w. parallel, distributed & accumulation)", Setting::TotalBatch),
    ("Number of trainable parameters", Setting::Trainable),
    ("trainable params", Setting::Trainable),
    ("all params", Setting::AllParameters),
    ("max_seq_length", Setting::Sequence),
    ("cutoff_len", Setting::Sequence),
    ("sequence_len", Setting::Sequence),
    ("seq_length", Setting::Sequence),
    ("seq_len", Setting::Sequence),
    ("--model_max_length", Setting::Sequence),
    ("--max_length", Setting::Sequence),
    ("max_length", Setting::Sequence),
    ("max_seq_len", Setting::ServedLength),
    ("max_model_len", Setting::ServedLength),
    ("context_length", Setting::ServedLength),
    ("max_total_tokens", Setting::ServedLength),
    ("bf16", Setting::Bf16),
    ("bfloat16_enabled", Setting::Bf16),
    ("fp16", Setting::Fp16),
    ("fp16_enabled", Setting::Fp16),
    ("mixed_precision", Setting::MixedPrecision),
    ("dtype", Setting::Dtype),
    ("torch_dtype", Setting::Dtype),
    ("optim", Setting::Optimizer),
    ("optimizer", Setting::Optimizer),
    ("optimizer_name", Setting::Optimizer),
    ("gradient_checkpointing", Setting::Checkpointing),
    ("recompute_granularity", Setting::Recompute),
    ("attn_implementation", Setting::Attention),
    ("zero_optimization_stage", Setting::Zero),
    ("zero_stage", Setting::Zero),
    ("fsdp", Setting::Fsdp),
    ("fsdp_sharding_strategy", Setting::Fsdp),
    ("use_distributed_optimizer", Setting::DistributedOptimizer),
    ("world_size", Setting::Gpus),
    ("num_processes", Setting::Gpus),
    ("Num processes", Setting::Gpus),
    ("lora_r", Setting::LoraRank),
    ("lora_rank", Setting::LoraRank),
    ("lora_target_modules", Setting::LoraTargets),
    ("lora_target", Setting::LoraTargets),
    ("adapter", Setting::Method),
    ("finetuning_type", Setting::Method),
    ("Fine-tuning method", Setting::Method),
    ("load_in_4bit", Setting::FourBit),
    ("quantization_bit", Setting::FourBit),
    ("tensor_parallel_size", Setting::TensorParallel),
    ("tensor_model_parallel_size", Setting::TensorParallel),
    ("tp_size", Setting::TensorParallel),
    ("num_shard", Setting::TensorParallel),
    ("pipeline_parallel_size", Setting::PipelineParallel),
    ("pipeline_model_parallel_size", Setting::PipelineParallel),
    ("pp_size", Setting::PipelineParallel),
    ("gpu_memory_utilization", Setting::MemoryShare),
    ("mem_fraction_static", Setting::MemoryShare),
    ("quantization", Setting::Quantization),
    ("quantize", Setting::Quantization),
    ("kv_cache_dtype", Setting::KvDtype),
    ("model", Setting::ModelName),
    ("model_id", Setting::ModelName),
    ("model_path", Setting::ModelName),
    ("model_name_or_path", Setting::ModelName),
    ("base_model", Setting::ModelName),
];

/// Sentences that say a setting in words, and the value that they stand for; empty: it follows.
const SENTENCES: &[(&str, Setting, &str)] = &[
    ("under default dtype", Setting::LoadDtype, ""),
    ("Gradient checkpointing enabled", Setting::Checkpointing, "true"),
    ("is incompatible with gradient checkpointing", Setting::Checkpointing, "true"),
    ("Upcasting trainable params to float32", Setting::Upcast, "true"),
    ("Quantizing model to 4 bit", Setting::FourBit, "true"),
    ("All distributed processes registered. Starting with", Setting::Gpus, ""),
];

/// Settings whose name is an ordinary word: only in a list of arguments, or in quotes.
const ORDINARY: &[Setting] = &[Setting::Optimizer, Setting::Dtype, Setting::ModelName, Setting::Quantization, Setting::Method];

/// Names that other lists have too: only as `name=value` at the beginning of a line, as a trainer's arguments are printed.
const AT_START: &[&str] = &["max_length"];

/// Words of sentences that advise; what they name is not set.
const ADVICE: &[&str] =
    &["try ", "consider", "recommend", "you can", "should ", "deprecated", "e.g.", "please", "instead of", "is ignored", "if you"];

static FINDER: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| {
    let words = NAMES.iter().map(|(name, _)| *name).chain(SENTENCES.iter().map(|(words, ..)| *words));
    AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(words).ok()
});

/// May a line say anything? A quick look at the raw line.
pub fn may_tell(line: &str) -> bool {
    FINDER.as_ref().is_some_and(|finder| finder.is_match(line))
}

/// Calls `keep` for every setting of a clean message.
pub fn read(text: &str, keep: &mut dyn FnMut(Setting, &str)) {
    let Some(finder) = FINDER.as_ref() else { return };
    for found in finder.find_iter(text) {
        let (before, after) = (&text[..found.start()], &text[found.end()..]);
        let Some((name, setting)) = NAMES.get(found.pattern().as_usize()) else {
            let (_, setting, value) = SENTENCES[found.pattern().as_usize() - NAMES.len()];
            let told = if value.is_empty() { first_word(after) } else { value };
            keep(setting, told);
            continue;
        };
        let dashes = before.ends_with("--") || name.starts_with("--");
        if !stands_alone(before, dashes) || advises(before) {
            continue;
        }
        if AT_START.contains(name) && !(before.is_empty() && after.starts_with('=')) {
            continue;
        }
        let Some((value, form)) = value(after, dashes) else { continue };
        if ORDINARY.contains(setting) && name.chars().all(|c| c.is_ascii_lowercase()) && form == Form::Sentence {
            continue;
        }
        if !value.is_empty() && !matches!(value, "None" | "none" | "null" | "auto" | "default" | "Auto" | "AUTO") {
            keep(*setting, value);
        }
    }
}

/// Does a name begin here, and not in the middle of another or in backticks?
fn stands_alone(before: &str, dashes: bool) -> bool {
    dashes || !before.ends_with(|c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '`' | '.' | '-' | '/' | '$'))
}

fn advises(before: &str) -> bool {
    let head = before[..floor_border(before, 200)].to_ascii_lowercase();
    ADVICE.iter().any(|word| head.contains(word))
}

/// How a value stands behind its name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// `key=value`, `"key": value`, `--key value`, dots.
    Argument,
    /// `key: value`, which a sentence may have too.
    Sentence,
}

fn value(after: &str, dashes: bool) -> Option<(&str, Form)> {
    let quoted = after.starts_with(['"', '\'']);
    let rest = if quoted { &after[1..] } else { after };
    if dashes && !quoted && (rest.starts_with(' ') || rest.is_empty()) {
        // A switch alone is on.
        let value = token(rest.trim_start());
        return Some((if value.is_empty() || value.starts_with("--") { "true" } else { value }, Form::Argument));
    }
    let trimmed = rest.trim_start_matches([' ', '\t']);
    let space = rest.len() - trimmed.len();
    if let Some(value) = trimmed.strip_prefix('=').filter(|value| !value.starts_with('=')) {
        return Some((token(value.trim_start()), Form::Argument));
    }
    if let Some(value) = trimmed.strip_prefix(':').filter(|value| !value.starts_with(':')) {
        return Some((token(value.trim_start()), if quoted { Form::Argument } else { Form::Sentence }));
    }
    let dots = trimmed.bytes().take_while(|&b| b == b'.').count();
    if space == 1 && dots >= 1 && trimmed[dots..].starts_with(' ') || space >= 2 && dots == 0 {
        return Some((token(trimmed[dots..].trim_start()), Form::Argument));
    }
    None
}

/// The value at the beginning of a text: a list, a number with grouped digits, or a word.
fn token(text: &str) -> &str {
    let text = &text[..floor_border(text, MOST_VALUE)];
    if let Some(close) = text.chars().next().and_then(|open| match open {
        '[' => Some(']'),
        '{' => Some('}'),
        _ => None,
    }) {
        return text.find(close).map_or("", |end| &text[..=end]);
    }
    if let Some(inside) = text.strip_prefix(['"', '\'']) {
        return inside.find(['"', '\'']).map_or("", |end| &inside[..end]);
    }
    let digits = text.bytes().take_while(|b| b.is_ascii_digit() || *b == b',').count();
    let number = text[..digits].trim_end_matches(',');
    if number.contains(',') && number.split(',').skip(1).all(|group| group.len() == 3) {
        return number;
    }
    let end = text.find(|c: char| c.is_whitespace() || matches!(c, ',' | ';' | ')' | '}' | ']' | '"' | '\'' | '|')).unwrap_or(text.len());
    text[..end].trim_end_matches('.')
}

fn first_word(text: &str) -> &str {
    text.split_whitespace().next().unwrap_or("").trim_end_matches(['.', ','])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(line: &str) -> Vec<(Setting, String)> {
        let mut out = Vec::new();
        read(line, &mut |setting, value| out.push((setting, value.to_owned())));
        out
    }

    #[test]
    fn every_form_is_read() {
        let cases = [
            ("per_device_train_batch_size=8,", Setting::Batch, "8"),
            ("  \"micro_batch_size\": 2,", Setting::Batch, "2"),
            ("  Instantaneous batch size per device = 8", Setting::Batch, "8"),
            ("  train_micro_batch_size_per_gpu  4", Setting::Batch, "4"),
            ("  zero_optimization_stage ...... 2", Setting::Zero, "2"),
            ("  Number of trainable parameters = 6,738,415,616", Setting::Trainable, "6,738,415,616"),
            ("+ torchrun train.py --bf16 --lr 1", Setting::Bf16, "true"),
            ("+ torchrun train.py --model_max_length 2048 --lr 1", Setting::Sequence, "2048"),
            ("optim=OptimizerNames.ADAMW_TORCH,", Setting::Optimizer, "OptimizerNames.ADAMW_TORCH"),
            ("fsdp=[<FSDPOption.FULL_SHARD: 'full_shard'>],", Setting::Fsdp, "[<FSDPOption.FULL_SHARD: 'full_shard'>]"),
            ("lora_target_modules: ['q_proj', 'v_proj']", Setting::LoraTargets, "['q_proj', 'v_proj']"),
            ("Instantiating LlamaForCausalLM model under default dtype torch.bfloat16.", Setting::LoadDtype, "torch.bfloat16"),
            ("Fine-tuning method: LoRA", Setting::Method, "LoRA"),
            ("config: model='org/model-7b', speculative_config=None", Setting::ModelName, "org/model-7b"),
        ];
        for (line, setting, value) in cases {
            assert_eq!(told(line), [(setting, value.to_owned())], "{line}");
        }
        let peft = told("trainable params: 4,194,304 || all params: 6,742,609,920 || trainable%: 0.0622");
        assert_eq!(peft, [(Setting::Trainable, "4,194,304".to_owned()), (Setting::AllParameters, "6,742,609,920".to_owned())]);
    }

    #[test]
    fn advice_and_other_names_set_nothing() {
        for line in [
            "Try per_device_train_batch_size=1 to save memory",
            "`gradient_checkpointing=True` is slow",
            "per_device_eval_batch_size=8,",
            "fp16_full_eval=False,",
            "eval_micro_batch_size: 4",
            "Loading model: done",
            "optimizer: step 3",
            "generate(max_length=20)",
            "\"max_length\": 20,",
            "train_micro_batch_size_per_gpu=auto",
            "resume_from_checkpoint=None",
        ] {
            let told = told(line);
            assert!(told.is_empty(), "{line}: {told:?}");
        }
    }
}
