//! The settings of a run, with the defaults of the usual libraries, and their bounds.

use std::fmt;

use super::zero::{Offload, Zero};
use crate::model::Model;
use crate::model::quantization::{Dtype, Scheme};

/// What the model is run for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Task {
    /// Generation or another forward pass.
    Inference,
    /// Training of all parameters.
    Full,
    /// Training of LoRA adapters on a frozen base.
    Lora,
    /// LoRA on a base that is held in 4 bits.
    Qlora,
}

/// Dtypes of weights, activations and autocast.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precision {
    /// Everything in bf16.
    Bf16,
    /// Everything in fp32.
    Fp32,
    /// fp32 weights, matrix products in bf16 by autocast.
    AmpBf16,
    /// fp32 weights, matrix products in fp16 by autocast.
    AmpFp16,
    /// A frozen bf16 base and adapters, under autocast.
    Bf16BaseAmp,
}

/// The optimiser.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Optimizer {
    /// PyTorch's AdamW in its foreach form, the default on CUDA.
    AdamW,
    /// AdamW in one fused kernel.
    AdamWFused,
    /// AdamW, tensor after tensor.
    AdamWLoop,
    /// AdamW with 8-bit states of bitsandbytes.
    AdamW8bit,
    /// The same in memory that may leave the GPU.
    PagedAdamW8bit,
    /// Adafactor of transformers, without momentum.
    Adafactor,
    /// Lion.
    Lion,
    /// SGD.
    Sgd,
    /// SGD with momentum.
    SgdMomentum,
    /// Muon for matrices of layers, AdamW for the rest.
    Muon,
}

/// Implementation of attention.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attention {
    /// Matrix products with the full score matrix.
    Eager,
    /// PyTorch's scaled dot product: flash where it can.
    Sdpa,
    /// FlashAttention.
    Flash,
}

/// What is kept for the backward pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Checkpointing {
    /// Everything.
    None,
    /// The input of each layer; layers are computed again.
    Full,
    /// Results of matrix products and attention; the rest is computed again.
    Selective,
}

/// Dtype of adapters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoraDtype {
    /// PEFT's default.
    Fp32,
    /// As in torchtune, litgpt and Unsloth.
    Bf16,
}

/// Who runs inference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    /// transformers.
    Transformers,
    /// vLLM.
    Vllm,
}

/// How weights are held during inference, as a flag asks for it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Held {
    /// As stored.
    Stored,
    /// Linear layers in a scheme.
    Scheme(&'static str, Scheme),
    /// A type or mix of GGUF.
    Gguf(crate::model::gguf::Mix),
}

/// How a model is run.
#[derive(Debug, Clone, PartialEq)]
pub struct Setup {
    /// What for.
    pub task: Task,
    /// Dtype of weights in inference; none: as stored.
    pub dtype: Option<Dtype>,
    /// Quantisation of the weights in inference.
    pub held: Held,
    /// Sequences of a step on one GPU.
    pub batch: u64,
    /// Steps whose gradients are added up before the optimiser's, where a file tells.
    pub accumulation: u64,
    /// Tokens of a sequence.
    pub seq: u64,
    /// Whether a padding mask is used, which takes the flash kernel away.
    pub padded: bool,
    /// Sequences that are held at the same time in inference.
    pub concurrency: u64,
    /// Dtype of the KV cache; none: that of the weights, 16 bits where they are quantised.
    pub kv_dtype: Option<Dtype>,
    /// Whether inference computes the logits of all tokens of the prompt.
    pub all_logits: bool,
    /// Who runs inference.
    pub engine: Engine,
    /// Dtypes of training.
    pub precision: Precision,
    /// The optimiser.
    pub optimizer: Optimizer,
    /// Attention.
    pub attention: Attention,
    /// Checkpointing.
    pub checkpointing: Checkpointing,
    /// Rank of adapters.
    pub lora_r: u64,
    /// Modules with adapters; `all-linear` for all.
    pub lora_targets: Vec<String>,
    /// Dtype of adapters.
    pub lora_dtype: LoraDtype,
    /// Whether the base is prepared as PEFT does for training on quantised weights.
    pub kbit_prepare: bool,
    /// GPUs of the run.
    pub gpus: u64,
    /// Stage of ZeRO; 3 is FSDP's full shard.
    pub zero: u64,
    /// DeepSpeed's own way of sharing states out; none: as FSDP and PyTorch do.
    pub sharing: Option<Zero>,
    /// GPUs that share each matrix.
    pub tensor_parallel: u64,
    /// Stages of a pipeline.
    pub pipeline_parallel: u64,
}

impl Setup {
    /// The defaults of a task: one sequence of 8192 tokens in inference, of 2048 in training.
    pub fn new(task: Task) -> Self {
        Self {
            task,
            dtype: None,
            held: Held::Stored,
            batch: 1,
            accumulation: 1,
            seq: if task == Task::Inference { 8192 } else { 2048 },
            padded: false,
            concurrency: 1,
            kv_dtype: None,
            all_logits: false,
            engine: Engine::Transformers,
            // Trainers run adapters under autocast; all parameters are trained in pure bf16 here.
            precision: match task {
                Task::Lora | Task::Qlora => Precision::Bf16BaseAmp,
                Task::Inference | Task::Full => Precision::Bf16,
            },
            optimizer: Optimizer::AdamW,
            attention: Attention::Sdpa,
            // PEFT's preparation of a quantised base switches it on by itself.
            checkpointing: if task == Task::Qlora { Checkpointing::Full } else { Checkpointing::None },
            lora_r: 16,
            lora_targets: vec!["all-linear".to_owned()],
            lora_dtype: LoraDtype::Fp32,
            kbit_prepare: true,
            gpus: 1,
            zero: 0,
            sharing: None,
            tensor_parallel: 1,
            pipeline_parallel: 1,
        }
    }

    /// The same with sequences no longer than the model takes.
    #[must_use]
    pub fn within(mut self, model: &Model) -> Self {
        if model.dimensions.positions > 0 {
            self.seq = self.seq.min(model.dimensions.positions);
        }
        self
    }

    /// Whether adapters are trained on a frozen base.
    pub fn is_lora(&self) -> bool {
        matches!(self.task, Task::Lora | Task::Qlora)
    }

    /// Whether autocast is on.
    pub fn is_autocast(&self) -> bool {
        matches!(self.precision, Precision::AmpBf16 | Precision::AmpFp16 | Precision::Bf16BaseAmp)
    }

    /// Whether the base was prepared for training on quantised weights.
    pub fn is_prepared(&self) -> bool {
        self.task == Task::Qlora && self.kbit_prepare
    }

    /// GPUs that hold copies or shards of the same stage.
    pub fn data_parallel(&self) -> u64 {
        let model = self.tensor_parallel.saturating_mul(self.pipeline_parallel).max(1);
        (self.gpus / model).max(1)
    }

    /// Checks bounds and what excludes each other.
    pub fn check(&self) -> Result<(), SetupError> {
        let bounds = [
            ("--batch", self.batch, 1_000_000),
            ("--seq", self.seq, 100_000_000),
            ("--concurrency", self.concurrency, 1_000_000),
            ("--lora-r", self.lora_r, 65_536),
            ("--gpus", self.gpus, 1_000_000),
            ("--tensor-parallel", self.tensor_parallel, 4096),
            ("--pipeline-parallel", self.pipeline_parallel, 4096),
        ];
        for (flag, value, most) in bounds {
            if value == 0 || value > most {
                return Err(SetupError(format!("{flag} {value}: must be between 1 and {}", digits(most))));
            }
        }
        if self.zero > 3 {
            return Err(SetupError(format!("--zero {}: the stages are 0, 1, 2 and 3", self.zero)));
        }
        let model = self.tensor_parallel.saturating_mul(self.pipeline_parallel);
        if let Some(zero) = &self.sharing {
            if zero.optimizer != Offload::None && self.zero == 0 {
                return Err(SetupError("--offload optimizer: needs ZeRO; add --zero 1, 2 or 3".to_owned()));
            }
            if zero.parameters != Offload::None && self.zero != 3 {
                return Err(SetupError("--offload all: weights move to the host in stage 3 only; add --zero 3".to_owned()));
            }
            if model > 1 {
                return Err(SetupError(
                    "DeepSpeed's ZeRO is planned without tensor and pipeline parallel; leave these flags out".to_owned(),
                ));
            }
            if self.task == Task::Qlora {
                return Err(SetupError(
                    "DeepSpeed's ZeRO is not planned for 4-bit weights; take --task lora, or --zero 3 without DeepSpeed".to_owned(),
                ));
            }
        }
        if !self.gpus.is_multiple_of(model) {
            return Err(SetupError(format!(
                "--gpus {}: must be a multiple of tensor parallel {} x pipeline parallel {}",
                self.gpus, self.tensor_parallel, self.pipeline_parallel
            )));
        }
        if self.is_lora() && self.lora_targets.is_empty() {
            return Err(SetupError("--lora-targets: names no module; `all-linear` or names like q_proj,v_proj".to_owned()));
        }
        Ok(())
    }
}

fn digits(number: u64) -> String {
    super::digits(number as f64)
}

/// Why settings cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetupError(pub String);

impl fmt::Display for SetupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for SetupError {}
