//! Flags of `trainwreck fit` that say how a model is run, and on what.

use clap::{Args, ValueEnum};

use crate::gpu::cards::{Card, card, classes};
use crate::model::deepspeed::{DeepSpeed, USUAL_GPUS};
use crate::model::gguf::Mix;
use crate::model::quantization::{Dtype, Scheme};
use crate::model::training::setup::Held;
use crate::model::training::zero::{Offload, Zero};
use crate::model::training::{Attention, Checkpointing, Engine, LoraDtype, Optimizer, Precision, Setup, Task};

/// How the model is run. Flags that are left out take the defaults of the usual libraries.
#[derive(Debug, Clone, Default, Args)]
pub struct Flags {
    /// GPUs to try: ids of `trainwreck gpus`, names, cloud machines, or sizes like 24GiB.
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    pub gpu: Vec<String>,
    /// GPUs of the run.
    #[arg(long, value_name = "N")]
    pub gpus: Option<u64>,
    /// What the model is run for.
    #[arg(long, value_enum)]
    pub task: Option<TaskFlag>,
    /// Dtype of the weights in inference: bf16, fp16, fp32 ...
    #[arg(long)]
    pub dtype: Option<String>,
    /// Quantisation of the weights in inference: nf4, int8, fp8, gptq-int4, awq-int4, Q4_K_M ...
    #[arg(long)]
    pub quantization: Option<String>,
    /// Sequences of a step on one GPU.
    #[arg(long)]
    pub batch: Option<u64>,
    /// Tokens of a sequence.
    #[arg(long)]
    pub seq: Option<u64>,
    /// The batch has a padding mask, which takes the flash kernel away.
    #[arg(long)]
    pub padded: bool,
    /// Sequences at the same time in inference.
    #[arg(long)]
    pub concurrency: Option<u64>,
    /// Dtype of the KV cache: bf16, fp8 ...
    #[arg(long)]
    pub kv_dtype: Option<String>,
    /// Logits that inference computes of a prompt.
    #[arg(long, value_enum)]
    pub logits: Option<LogitsFlag>,
    /// Who runs inference.
    #[arg(long, value_enum)]
    pub engine: Option<EngineFlag>,
    /// Dtypes of training.
    #[arg(long, value_enum)]
    pub precision: Option<PrecisionFlag>,
    /// Optimiser.
    #[arg(long, value_enum)]
    pub optimizer: Option<OptimizerFlag>,
    /// Attention.
    #[arg(long, value_enum)]
    pub attention: Option<AttentionFlag>,
    /// What is computed again in the backward pass.
    #[arg(long, value_enum)]
    pub checkpointing: Option<CheckpointingFlag>,
    /// Rank of the adapters.
    #[arg(long, value_name = "R")]
    pub lora_r: Option<u64>,
    /// Modules with adapters, or all-linear.
    #[arg(long, value_name = "MODULES", value_delimiter = ',')]
    pub lora_targets: Vec<String>,
    /// Dtype of the adapters.
    #[arg(long, value_enum)]
    pub lora_dtype: Option<LoraDtypeFlag>,
    /// Prepare the base as PEFT does: norms, embedding and head in fp32.
    #[arg(long, value_name = "BOOL")]
    pub kbit_prepare: Option<bool>,
    /// Stage of ZeRO; 3 stands for FSDP's full shard too.
    #[arg(long, value_name = "STAGE")]
    pub zero: Option<u64>,
    /// What DeepSpeed moves out of the GPU: masters and optimiser states, or the weights too (stage 3).
    #[arg(long, value_enum)]
    pub offload: Option<OffloadFlag>,
    /// GPUs that share each matrix.
    #[arg(long, value_name = "N")]
    pub tensor_parallel: Option<u64>,
    /// Stages of a pipeline.
    #[arg(long, value_name = "N")]
    pub pipeline_parallel: Option<u64>,
}

macro_rules! flag {
    ($(#[$doc:meta])* $name:ident => $target:ident { $($(#[$variant:meta])* $from:ident => $to:ident),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
        pub enum $name {
            $($(#[$variant])* $from,)+
        }

        impl From<$name> for $target {
            fn from(flag: $name) -> Self {
                match flag {
                    $($name::$from => $target::$to,)+
                }
            }
        }
    };
}

flag! {
    /// Values of `--task`.
    TaskFlag => Task {
        /// Generation.
        Inference => Inference,
        /// Training of all parameters.
        Full => Full,
        /// LoRA.
        Lora => Lora,
        /// LoRA on 4-bit weights.
        Qlora => Qlora,
    }
}
flag! {
    /// Values of `--engine`.
    EngineFlag => Engine {
        /// transformers.
        Transformers => Transformers,
        /// vLLM.
        Vllm => Vllm,
    }
}
flag! {
    /// Values of `--precision`.
    PrecisionFlag => Precision {
        /// All in bf16.
        Bf16 => Bf16,
        /// All in fp32.
        Fp32 => Fp32,
        /// fp32 weights under bf16 autocast.
        AmpBf16 => AmpBf16,
        /// fp32 weights under fp16 autocast.
        AmpFp16 => AmpFp16,
        /// A frozen bf16 base under autocast.
        Bf16BaseAmp => Bf16BaseAmp,
    }
}
flag! {
    /// Values of `--optimizer`.
    OptimizerFlag => Optimizer {
        /// AdamW, PyTorch's foreach form.
        #[value(name = "adamw")]
        AdamW => AdamW,
        /// AdamW, fused.
        #[value(name = "adamw-fused")]
        AdamWFused => AdamWFused,
        /// AdamW, one tensor at a time.
        #[value(name = "adamw-loop")]
        AdamWLoop => AdamWLoop,
        /// 8-bit AdamW.
        #[value(name = "adamw-8bit")]
        AdamW8bit => AdamW8bit,
        /// Paged 8-bit AdamW.
        #[value(name = "paged-adamw-8bit")]
        PagedAdamW8bit => PagedAdamW8bit,
        /// Adafactor.
        Adafactor => Adafactor,
        /// Lion.
        Lion => Lion,
        /// SGD.
        Sgd => Sgd,
        /// SGD with momentum.
        SgdMomentum => SgdMomentum,
        /// Muon.
        Muon => Muon,
    }
}
flag! {
    /// Values of `--attention`.
    AttentionFlag => Attention {
        /// The full score matrix.
        Eager => Eager,
        /// PyTorch's scaled dot product.
        Sdpa => Sdpa,
        /// FlashAttention.
        Flash => Flash,
    }
}
flag! {
    /// Values of `--checkpointing`.
    CheckpointingFlag => Checkpointing {
        /// Nothing is computed again.
        None => None,
        /// Every layer is computed again.
        Full => Full,
        /// Cheap operations are computed again.
        Selective => Selective,
    }
}
flag! {
    /// Values of `--lora-dtype`.
    LoraDtypeFlag => LoraDtype {
        /// PEFT's default.
        Fp32 => Fp32,
        /// 16 bits.
        Bf16 => Bf16,
    }
}

/// Values of `--logits`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogitsFlag {
    /// Of the last token, as generation does.
    Last,
    /// Of all tokens.
    All,
}

/// Values of `--offload`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OffloadFlag {
    /// Nothing.
    None,
    /// Masters and optimiser states.
    Optimizer,
    /// The weights too.
    All,
}

impl Flags {
    /// The settings of the flags alone, checked.
    pub fn setup(&self) -> Result<Setup, String> {
        self.over(None, None)
    }

    /// The settings, checked: a task's defaults, then a configuration of DeepSpeed, then rank and modules of an adapter,
    /// then the flags.
    pub fn over(&self, file: Option<&DeepSpeed>, lora: Option<(u64, Vec<String>)>) -> Result<Setup, String> {
        let usual = match (&lora, file) {
            (Some(_), _) => Task::Lora,
            (None, Some(_)) => Task::Full,
            (None, None) => Task::Inference,
        };
        let mut setup = Setup::new(self.task.map_or(usual, Task::from));
        if let Some((rank, targets)) = lora {
            setup.lora_r = rank;
            setup.lora_targets = targets;
        }
        let model = self.tensor_parallel.unwrap_or(1).saturating_mul(self.pipeline_parallel.unwrap_or(1)).max(1);
        // The cards of the machine that is named take part, where states are shared out.
        let machine = self.machine().filter(|count| *count > model && count.is_multiple_of(model));
        if let Some(file) = file {
            setup.gpus = self.gpus.or(machine).unwrap_or(USUAL_GPUS);
            file.put(&mut setup);
        }
        let named = |name: &str| Dtype::parse(name).ok_or_else(|| format!("--dtype {name}: not known; bf16, fp16, fp32, fp8 and int8 are"));
        setup.dtype = self.dtype.as_deref().map(named).transpose()?;
        setup.kv_dtype = match self.kv_dtype.as_deref() {
            Some("auto") | None => None,
            Some(name) => {
                Some(Dtype::parse(name).ok_or_else(|| format!("--kv-dtype {name}: not known; bf16, fp16, fp32, fp8 and int8 are"))?)
            }
        };
        if setup.task == Task::Inference && setup.dtype.is_none() {
            setup.dtype = self.precision.map(|precision| match precision {
                PrecisionFlag::Fp32 => Dtype::Float32,
                PrecisionFlag::AmpFp16 => Dtype::Float16,
                _ => Dtype::Bfloat16,
            });
        }
        if let Some(name) = self.quantization.as_deref() {
            setup.held = held(name)?;
        }
        fn put<T, F: Into<T> + Copy>(place: &mut T, flag: Option<F>) {
            if let Some(value) = flag {
                *place = value.into();
            }
        }
        put(&mut setup.batch, self.batch);
        put(&mut setup.seq, self.seq);
        put(&mut setup.concurrency, self.concurrency);
        put(&mut setup.engine, self.engine);
        put(&mut setup.precision, self.precision);
        put(&mut setup.optimizer, self.optimizer);
        put(&mut setup.attention, self.attention);
        put(&mut setup.checkpointing, self.checkpointing);
        put(&mut setup.lora_r, self.lora_r);
        put(&mut setup.lora_dtype, self.lora_dtype);
        put(&mut setup.kbit_prepare, self.kbit_prepare);
        put(&mut setup.zero, self.zero);
        put(&mut setup.tensor_parallel, self.tensor_parallel);
        put(&mut setup.pipeline_parallel, self.pipeline_parallel);
        setup.padded = self.padded;
        setup.all_logits = self.logits == Some(LogitsFlag::All);
        if !self.lora_targets.is_empty() {
            setup.lora_targets = self.lora_targets.iter().map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect();
        }
        if let Some(offload) = self.offload {
            let mut sharing = setup.sharing.unwrap_or(Zero { overlap: setup.zero == 3, ..Zero::default() });
            sharing.optimizer = if offload == OffloadFlag::None { Offload::None } else { Offload::Host };
            sharing.parameters = if offload == OffloadFlag::All { Offload::Host } else { Offload::None };
            setup.sharing = Some(sharing);
        }
        setup.gpus = match (self.gpus, file) {
            (Some(gpus), _) => gpus,
            (None, Some(_)) => setup.gpus,
            (None, None) => machine.filter(|_| setup.zero > 0).unwrap_or(model),
        };
        setup.check().map_err(|error| error.to_string())?;
        Ok(setup)
    }

    /// Cards of the machine that is named, when it is one machine.
    fn machine(&self) -> Option<u64> {
        match self.gpu.as_slice() {
            [name] => card(name.trim()).ok().map(|card| card.count),
            _ => None,
        }
    }

    /// Whether a machine of several cards is named.
    pub fn names_machine(&self) -> bool {
        self.machine().is_some_and(|count| count > 1)
    }

    /// The GPUs to try: those named, else the classes.
    pub fn gpus(&self) -> Result<Vec<Card>, String> {
        if self.gpu.is_empty() {
            return Ok(classes());
        }
        self.gpu.iter().map(|name| card(name.trim()).map_err(|why| format!("--gpu {why}"))).collect()
    }
}

/// A quantisation by the name that people use.
fn held(name: &str) -> Result<Held, String> {
    let lower = name.to_ascii_lowercase().replace('_', "-");
    let scheme = match lower.as_str() {
        "none" | "stored" => return Ok(Held::Stored),
        "nf4" | "nf4-double" | "bnb-4bit" | "bnb-nf4" | "fp4" => ("bitsandbytes nf4", Scheme::Bnb4 { double: true }),
        "nf4-single" | "bnb-4bit-single" => ("bitsandbytes nf4", Scheme::Bnb4 { double: false }),
        "int8" | "bnb-8bit" | "llm.int8" => ("bitsandbytes int8", Scheme::Bnb8),
        "fp8" => ("fp8 in blocks of 128", Scheme::Fp8Block { rows: 128, columns: 128 }),
        "fp8-tensor" => ("fp8", Scheme::Fp8Tensor { activations: false }),
        "int4" | "gptq" | "gptq-int4" => ("GPTQ int4", Scheme::Gptq { bits: 4, group: 128 }),
        "gptq-int8" => ("GPTQ int8", Scheme::Gptq { bits: 8, group: 128 }),
        "awq" | "awq-int4" => ("AWQ int4", Scheme::Awq { bits: 4, group: 128 }),
        "mxfp4" => ("MXFP4", Scheme::Mxfp4),
        "nvfp4" => ("NVFP4", Scheme::Nvfp4),
        _ => {
            return Mix::parse(name).map(Held::Gguf).ok_or_else(|| {
                format!(
                    "--quantization {name}: not known; nf4, int8, fp8, gptq-int4, gptq-int8, awq-int4, mxfp4, nvfp4 and types of GGUF like Q4_K_M are"
                )
            });
        }
    };
    Ok(Held::Scheme(scheme.0, scheme.1))
}
