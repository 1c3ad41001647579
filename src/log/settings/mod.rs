//! The settings that a run prints into its own log: config of the model, batch, lengths, dtypes, optimiser, sharding.
//!
//! Read on demand, for a file with a device out-of-memory error; above that line only, and there the first lines and the
//! last ones: runs print their settings at the start, a restarted one further down. What is printed twice counts as
//! printed last. Sources of the forms: the trainer, the configs and the arguments of transformers, PEFT, DeepSpeed's
//! print of its configuration, Megatron's arguments, Axolotl, LLaMA-Factory, Lightning, vLLM, SGLang, TGI.

mod keys;
mod others;

use std::collections::BTreeMap;

pub use others::{At, add_others};

use super::echo;
use super::record::{self, Record};
use crate::text::{Lines, clean, floor_border};

/// Lines at the beginning of a log that are searched ...
const HEAD_LINES: usize = 5000;
/// ... and lines above the error.
const NEAR_LINES: usize = 2000;
/// A line is read up to this length.
const MOST_LINE: usize = 32 << 10;
/// Lines and bytes of one printed config.
const MOST_DUMP_LINES: usize = 800;
const MOST_DUMP_BYTES: usize = 256 << 10;
/// Printed configs that are kept.
const MOST_DUMPS: usize = 12;

/// What a run can say of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Setting {
    /// Sequences of a step on one GPU.
    Batch,
    /// Steps whose gradients are added up.
    Accumulation,
    /// Sequences of a step over all GPUs and accumulated steps.
    TotalBatch,
    /// Parameters that are trained.
    Trainable,
    /// All parameters, adapters too.
    AllParameters,
    /// Longest training sequence.
    Sequence,
    /// Longest sequence of a server.
    ServedLength,
    /// Training in bf16.
    Bf16,
    /// Training in fp16.
    Fp16,
    /// `bf16`, `fp16` or `no`.
    MixedPrecision,
    /// Dtype of the weights, as asked for.
    Dtype,
    /// Dtype in which the weights were made or loaded.
    LoadDtype,
    /// What is trained was cast to 32 bits.
    Upcast,
    /// Name of the optimiser.
    Optimizer,
    /// Whether layers are computed again.
    Checkpointing,
    /// Megatron's `full` or `selective`.
    Recompute,
    /// Implementation of attention.
    Attention,
    /// Stage of ZeRO.
    Zero,
    /// Strategy of FSDP.
    Fsdp,
    /// Megatron's sharded optimiser states.
    DistributedOptimizer,
    /// Processes, one a GPU.
    Gpus,
    /// Rank of adapters.
    LoraRank,
    /// Modules with adapters.
    LoraTargets,
    /// `full`, `lora`, `qlora`, `freeze`.
    Method,
    /// Whether the base is held in 4 bits.
    FourBit,
    /// GPUs that share each matrix.
    TensorParallel,
    /// Stages of a pipeline.
    PipelineParallel,
    /// Share of the card that a server takes.
    MemoryShare,
    /// Quantisation that a server was asked for.
    Quantization,
    /// Dtype of the KV cache.
    KvDtype,
    /// Name or path of the model. Shown, never opened.
    ModelName,
}

/// A value and where it was said.
#[derive(Clone, Debug, PartialEq)]
pub struct Told<T> {
    /// The value.
    pub value: T,
    /// Its line.
    pub line: At,
}

/// A serving engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// vLLM.
    Vllm,
    /// SGLang.
    Sglang,
    /// Text Generation Inference.
    Tgi,
}

impl Engine {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Engine::Vllm => "vLLM",
            Engine::Sglang => "SGLang",
            Engine::Tgi => "TGI",
        }
    }
}

/// What a run said of itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunSettings {
    /// Configs that were printed as `SomeConfig { ... }`, as JSON: of models and of other things.
    pub configs: Vec<Told<String>>,
    /// The configuration of DeepSpeed that was printed last, as JSON.
    pub deepspeed: Option<Told<String>>,
    /// Arguments printed with dots between name and value, as Megatron does.
    pub arguments: BTreeMap<String, Told<String>>,
    /// The server that started.
    pub engine: Option<Told<Engine>>,
    /// The line that says that training began.
    pub training: Option<At>,
    values: BTreeMap<Setting, Told<String>>,
}

impl RunSettings {
    /// A setting as printed.
    pub fn get(&self, setting: Setting) -> Option<Told<&str>> {
        self.values.get(&setting).map(|told| Told { value: told.value.as_str(), line: told.line })
    }

    /// A setting as a whole number.
    pub fn number(&self, setting: Setting) -> Option<Told<u64>> {
        let told = self.values.get(&setting)?;
        Some(Told { value: told.value.replace([',', '_'], "").parse().ok()?, line: told.line })
    }

    /// A setting as a switch.
    pub fn switch(&self, setting: Setting) -> Option<Told<bool>> {
        let told = self.values.get(&setting)?;
        let value = match told.value.to_ascii_lowercase().as_str() {
            "true" | "yes" | "on" | "1" | "4" => true,
            "false" | "no" | "off" | "0" | "8" => false,
            _ => return None,
        };
        Some(Told { value, line: told.line })
    }

    /// Nothing was said.
    pub fn is_empty(&self) -> bool {
        *self == RunSettings::default()
    }
}

/// Reads what a log says above a line.
pub fn read(lines: &dyn Lines, before: usize) -> RunSettings {
    let end = before.min(lines.count());
    let mut out = RunSettings::default();
    let near = end.saturating_sub(NEAR_LINES).max(HEAD_LINES);
    read_range(lines, 0, end.min(HEAD_LINES), &mut out);
    read_range(lines, near, end, &mut out);
    out
}

fn read_range(lines: &dyn Lines, from: usize, to: usize, out: &mut RunSettings) {
    let (mut at, mut echo) = (from, false);
    while at < to {
        let raw = lines.line(at);
        let raw = &raw[..floor_border(&raw, MOST_LINE)];
        let was_frame = std::mem::replace(&mut echo, raw.contains("File \"") && raw.contains("\", line "));
        let opens = raw.trim_end().ends_with('{');
        if was_frame || !(opens || raw.contains(" ..") || says_start(raw) || keys::may_tell(raw)) {
            at += 1;
            continue;
        }
        let record = message(raw);
        let text = record.body.text.as_str();
        if opens && let Some(dump) = dump_name(text) {
            let (json, behind) = collect(lines, at, to);
            if let Some(json) = json {
                keep_dump(out, dump, Told { value: json, line: At::here(at) });
            }
            at = behind;
            continue;
        }
        if !echo::is_quotation(&record) {
            read_line(text, At::here(at), out);
        }
        at += 1;
    }
}

/// The last clean message of a raw line.
fn message(raw: &str) -> Record {
    clean::segments(raw, 0).into_iter().next_back().map_or_else(Record::default, record::read)
}

fn says_start(raw: &str) -> bool {
    ["Running training", "LLM engine", "ServerArgs(", "Args {", "non-default args"].iter().any(|mark| raw.contains(mark))
}

fn read_line(text: &str, line: At, out: &mut RunSettings) {
    if text.contains("***** Running training *****") {
        out.training = Some(line);
    }
    let engine = if text.contains("LLM engine ") && text.contains("with config: ") || text.contains("non-default args: ") {
        Some(Engine::Vllm)
    } else if text.contains("server_args=ServerArgs(") {
        Some(Engine::Sglang)
    } else if text.starts_with("Args {") || text.contains("text_generation_launcher: Args {") {
        Some(Engine::Tgi)
    } else {
        None
    };
    if let Some(value) = engine {
        out.engine = Some(Told { value, line });
    }
    if let Some((name, value)) = dotted(text) {
        out.arguments.insert(name.to_owned(), Told { value: value.to_owned(), line });
    }
    keys::read(text, &mut |setting, value| {
        out.values.insert(setting, Told { value: value.to_owned(), line });
    });
}

/// `num_layers ........ 32` as Megatron prints it: at least two dots.
fn dotted(text: &str) -> Option<(&str, &str)> {
    let (name, rest) = text.split_once(" ..")?;
    let value = rest.trim_start_matches('.').strip_prefix(' ')?.trim();
    let is_name = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    (is_name && !value.is_empty() && value.len() < 200).then_some((name, value))
}

/// What an opened brace begins.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Dump {
    /// `LlamaConfig {`
    Config,
    /// `json = {` of DeepSpeed.
    DeepSpeed,
}

fn dump_name(text: &str) -> Option<Dump> {
    let head = text.strip_suffix('{')?.trim_end();
    if head == "json =" {
        return Some(Dump::DeepSpeed);
    }
    let class = head.rsplit(' ').next()?;
    let is_class = class.len() > "Config".len() && class.ends_with("Config") && class.bytes().all(|b| b.is_ascii_alphanumeric());
    (is_class && class.starts_with(|c: char| c.is_ascii_uppercase()) && (head == class || head.ends_with(&format!("onfig {class}"))))
        .then_some(Dump::Config)
}

/// The object whose brace ends a line, and the line behind it; no object when it does not end soon.
fn collect(lines: &dyn Lines, at: usize, to: usize) -> (Option<String>, usize) {
    let mut json = "{\n".to_owned();
    let mut depth = 1usize;
    for line in at + 1..to.min(at + MOST_DUMP_LINES) {
        let raw = lines.line(line);
        let record = message(&raw[..floor_border(&raw, MOST_LINE)]);
        let text = record.body.text.as_str();
        json.push_str(text);
        json.push('\n');
        depth = depth_behind(text, depth);
        if depth == 0 {
            return (Some(json), line + 1);
        }
        if json.len() > MOST_DUMP_BYTES {
            break;
        }
    }
    (None, at + 1)
}

/// Depth of braces behind a line of JSON; strings do not count.
fn depth_behind(text: &str, mut depth: usize) -> usize {
    let (mut inside, mut escaped) = (false, false);
    for c in text.bytes() {
        match c {
            _ if escaped => escaped = false,
            b'\\' if inside => escaped = true,
            b'"' => inside = !inside,
            b'{' if !inside => depth += 1,
            b'}' if !inside => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    depth
}

fn keep_dump(out: &mut RunSettings, dump: Dump, told: Told<String>) {
    match dump {
        // Python prints an infinite number as JSON does not know it.
        Dump::DeepSpeed => out.deepspeed = Some(Told { value: told.value.replace(": inf", ": Infinity"), ..told }),
        // The same config is printed by every rank, and by the tokenizer again.
        Dump::Config if out.configs.iter().all(|one| one.value != told.value) && out.configs.len() < MOST_DUMPS => out.configs.push(told),
        Dump::Config => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::StrLines;

    fn settings(log: &str) -> RunSettings {
        read(&StrLines::new(log), usize::MAX)
    }

    #[test]
    fn a_trainer_tells_config_and_batch() {
        let log = concat!(
            "[INFO|configuration_utils.py:765] 2024-06-01 10:00:00,101 >> Model config LlamaConfig {\n",
            "  \"architectures\": [\n    \"LlamaForCausalLM\"\n  ],\n",
            "  \"rope_scaling\": {\"type\": \"}\"},\n",
            "  \"hidden_size\": 4096\n}\n",
            "\n",
            "[INFO|modeling_utils.py:1622] 2024-06-01 10:00:01,000 >> Instantiating LlamaForCausalLM model under default dtype torch.bfloat16.\n",
            "[rank0]: ***** Running training *****\n",
            "[INFO|trainer.py:2138] 2024-06-01 10:00:02,000 >>   Instantaneous batch size per device = 8\n",
            "  Total train batch size (w. parallel, distributed & accumulation) = 64\n",
            "  Gradient Accumulation steps = 4\n",
        );
        let told = settings(log);
        assert_eq!(told.configs.len(), 1);
        assert!(told.configs[0].value.starts_with("{\n\"architectures\"") && told.configs[0].value.trim_end().ends_with('}'));
        assert_eq!(told.number(Setting::Batch), Some(Told { value: 8, line: At::here(10) }));
        assert_eq!(told.number(Setting::TotalBatch).map(|told| told.value), Some(64));
        assert_eq!(told.get(Setting::LoadDtype).map(|told| told.value), Some("torch.bfloat16"));
        assert_eq!(told.training, Some(At::here(9)));
    }

    #[test]
    fn a_server_tells_its_arguments() {
        let log = "INFO 05-02 10:11:12 [core.py:58] Initializing a V1 LLM engine (v0.8.4) with config: model='org/model-8b', speculative_config=None, dtype=torch.bfloat16, max_seq_len=8192, tensor_parallel_size=2, quantization=None, kv_cache_dtype=auto\n";
        let told = settings(log);
        assert_eq!(told.engine, Some(Told { value: Engine::Vllm, line: At::here(0) }));
        assert_eq!(told.number(Setting::ServedLength).map(|told| told.value), Some(8192));
        assert_eq!(told.number(Setting::TensorParallel).map(|told| told.value), Some(2));
        assert_eq!(told.get(Setting::Quantization), None);
    }

    #[test]
    fn megatron_and_deepspeed_tell_theirs() {
        let log = concat!(
            "  num_layers ...................................... 32\n",
            "[2024-06-01 10:00:00,101] [INFO] [config.py:1001:print]   zero_optimization_stage ...... 2\n",
            "[2024-06-01 10:00:00,101] [INFO] [config.py:987:print_user_config]   json = {\n",
            "    \"train_micro_batch_size_per_gpu\": 4, \n    \"steps_per_print\": inf, \n    \"zero_optimization\": {\n        \"stage\": 2\n    }\n}\n",
        );
        let told = settings(log);
        assert_eq!(told.arguments["num_layers"].value, "32");
        assert_eq!(told.number(Setting::Zero).map(|told| told.value), Some(2));
        assert!(told.deepspeed.is_some_and(|told| told.value.contains("\"stage\": 2") && told.value.contains(": Infinity")));
    }

    #[test]
    fn source_echoes_and_later_lines_set_nothing() {
        let log = "  File \"train.py\", line 3, in main\n    args = Args(per_device_train_batch_size=4)\nper_device_train_batch_size=2,\n";
        assert_eq!(settings(log).number(Setting::Batch), Some(Told { value: 2, line: At::here(2) }));
        assert!(read(&StrLines::new(log), 2).is_empty());
    }

    #[test]
    fn an_endless_brace_ends() {
        let log = format!("LlamaConfig {{\n{}per_device_train_batch_size=2,\n", "  \"a\": {\n".repeat(2000));
        let told = settings(&log);
        assert!(told.configs.is_empty());
        assert_eq!(told.number(Setting::Batch).map(|told| told.value), Some(2));
    }
}
