//! What a configuration of DeepSpeed says about memory, and the settings of a run that follow from it.

use super::config::{Result, Section};
use super::json::Value;
use super::training::zero::{Offload, Zero};
use super::training::{LoraDtype, Optimizer, Precision, Setup, Task};

/// GPUs of a run when nothing tells their number: those of a usual machine.
pub const USUAL_GPUS: u64 = 8;

/// A configuration of DeepSpeed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeepSpeed {
    /// ZeRO stage, 0 to 3.
    pub stage: u64,
    /// What is shared out how, and where it lives.
    pub zero: Zero,
    /// Sequences of one step on one device; none for `auto`.
    pub micro_batch: Option<u64>,
    /// Steps whose gradients are added up; none for `auto`.
    pub accumulation: Option<u64>,
    /// Sequences of one step on all devices; none for `auto`.
    pub train_batch: Option<u64>,
    /// `bf16`, `fp16` or `fp32`; `bf16` where it is left to the trainer.
    pub precision: &'static str,
    /// Whether both 16-bit precisions are switched on, which is refused.
    pub both_on: bool,
    /// Whether the precision is left to the trainer.
    pub precision_open: bool,
    /// The optimiser that the file names; none where the trainer chooses.
    pub optimizer: Option<String>,
}

/// Reads a configuration of DeepSpeed.
pub fn read(c: Section<'_>) -> Result<DeepSpeed> {
    let zero = block(c, "zero_optimization", "{\"stage\": 2}")?;
    let stage = zero.int("stage", 0)?;
    if stage > 3 {
        return Err(zero.wrong("stage", format!("must be 0 to 3, and is {stage}")));
    }
    let given = |names: &str| c.str(names) != Some("auto") && c.has(names);
    let number = |names: &str| if given(names) { c.int_opt(names) } else { Ok(None) };
    let (bf16, fp16) = (switch(c, "bf16|bfloat16")?, switch(c, "fp16")?);
    let precision_open = bf16 != Switch::On && fp16 != Switch::On && (bf16 == Switch::Auto || fp16 == Switch::Auto);
    Ok(DeepSpeed {
        stage,
        zero: sharing(zero, stage, c.int_opt("gradient_accumulation_steps").ok().flatten())?,
        micro_batch: number("train_micro_batch_size_per_gpu")?.filter(|&size| size > 0),
        accumulation: number("gradient_accumulation_steps")?.filter(|&steps| steps > 0),
        train_batch: number("train_batch_size")?.filter(|&size| size > 0),
        precision: match (bf16, fp16) {
            (Switch::On, _) => "bf16",
            (_, Switch::On) => "fp16",
            (Switch::Auto, _) | (_, Switch::Auto) => "bf16",
            _ => "fp32",
        },
        both_on: bf16 == Switch::On && fp16 == Switch::On,
        precision_open,
        optimizer: c.section("optimizer").str("type").map(str::to_owned),
    })
}

/// A block that can be switched on, off, or left to the trainer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Switch {
    On,
    Off,
    Auto,
}

fn switch(c: Section<'_>, names: &str) -> Result<Switch> {
    let section = block(c, names, "{\"enabled\": true}")?;
    Ok(match section.node("enabled").map(|(_, node)| &node.value) {
        None | Some(Value::Bool(false) | Value::Integer(0)) => Switch::Off,
        Some(Value::Bool(true) | Value::Integer(1)) => Switch::On,
        Some(Value::String(word)) if word == "auto" => Switch::Auto,
        Some(_) => return Err(section.wrong("enabled", "must be true, false or \"auto\"".to_owned())),
    })
}

/// A block of the file; a value that is no object is refused, not passed over.
fn block<'a>(c: Section<'a>, names: &str, example: &str) -> Result<Section<'a>> {
    match c.node(names) {
        Some((_, node)) if !matches!(node.value, Value::Object(_)) => Err(c.wrong(names, format!("must be an object such as {example}"))),
        _ => Ok(c.section(names)),
    }
}

/// Elements of the largest bucket that is planned.
const MOST_BUCKET: u64 = 1 << 40;

/// The block `zero_optimization`.
fn sharing(zero: Section<'_>, stage: u64, accumulation: Option<u64>) -> Result<Zero> {
    let usual = Zero::default();
    let place = |name: &str| match zero.section(name).str("device") {
        Some("nvme") => Offload::Disk,
        Some("cpu") => Offload::Host,
        _ => Offload::None,
    };
    let old = |name: &str| zero.bool(name, false).unwrap_or(false);
    let moved = |name: &str, before: &str| match place(name) {
        Offload::None if old(before) => Offload::Host,
        place => place,
    };
    // `auto` is worked out from the width of the model by the trainer.
    let elements = |name: &str, usual: Option<u64>| -> Result<Option<u64>> {
        if zero.str(name) == Some("auto") { Ok(None) } else { Ok(elements(zero, name)?.or(usual)) }
    };
    Ok(Zero {
        optimizer: moved("offload_optimizer", "cpu_offload"),
        parameters: if stage == 3 { moved("offload_param", "cpu_offload_params") } else { Offload::None },
        reduce_bucket: match elements("reduce_bucket_size", usual.reduce_bucket)? {
            Some(most) if most > MOST_BUCKET => {
                return Err(zero.wrong("reduce_bucket_size", "is allocated at once, and no GPU holds so many elements".to_owned()));
            }
            size => size,
        },
        live: elements("stage3_max_live_parameters", Some(usual.live))?.unwrap_or(usual.live),
        reuse: elements("stage3_max_reuse_distance", Some(usual.reuse))?.unwrap_or(usual.reuse),
        sub_group: elements("sub_group_size", Some(usual.sub_group))?.unwrap_or(usual.sub_group).max(1),
        overlap: zero.bool_opt("overlap_comm").ok().flatten().unwrap_or(stage == 3),
        accumulates: accumulation.is_some_and(|steps| steps > 1),
    })
}

/// A number of elements, which is often written as `5e8`, and may be larger than any size.
fn elements(c: Section<'_>, name: &str) -> Result<Option<u64>> {
    match c.node(name).map(|(_, node)| &node.value) {
        None => Ok(None),
        Some(Value::Integer(number)) if *number >= 0 => Ok(Some(u64::try_from(*number).unwrap_or(u64::MAX))),
        Some(Value::Float(number)) if *number >= 0.0 => Ok(Some(*number as u64)),
        Some(_) => Err(c.wrong(name, "must be a number of elements that is not negative, or \"auto\"".to_owned())),
    }
}

impl DeepSpeed {
    /// GPUs of the run, where the batch sizes tell.
    pub fn gpus(&self) -> Option<u64> {
        let one = self.micro_batch?.checked_mul(self.accumulation.unwrap_or(1))?;
        let whole = self.train_batch?;
        whole.is_multiple_of(one).then_some(whole / one).filter(|&gpus| gpus > 0)
    }

    /// Sequences of one step on one of so many GPUs, where the batch sizes tell.
    pub fn batch(&self, gpus: u64) -> Option<u64> {
        let all = gpus.checked_mul(self.accumulation.unwrap_or(1)).filter(|&all| all > 0)?;
        self.micro_batch.or_else(|| self.train_batch.filter(|whole| whole.is_multiple_of(all)).map(|whole| whole / all))
    }

    /// Whether anything lives outside the GPU.
    pub fn offloads(&self) -> bool {
        self.zero.optimizer != Offload::None || self.zero.parameters != Offload::None
    }

    /// The optimiser of the plan; none for one that is not known.
    pub fn known_optimizer(&self) -> Option<Optimizer> {
        let Some(name) = &self.optimizer else {
            return Some(Optimizer::AdamWFused);
        };
        Some(match name.to_ascii_lowercase().as_str() {
            // Lamb and the 1-bit forms keep the same two moments.
            "adam" | "adamw" | "lamb" | "onebitadam" | "onebitlamb" | "zerooneadam" => Optimizer::AdamWFused,
            "lion" => Optimizer::Lion,
            "muon" => Optimizer::Muon,
            // One sum of squares for each parameter.
            "adagrad" => Optimizer::SgdMomentum,
            "sgd" => Optimizer::Sgd,
            _ => return None,
        })
    }

    /// Puts the file's settings over others.
    pub fn put(&self, setup: &mut Setup) {
        setup.zero = self.stage;
        setup.sharing = Some(self.zero);
        setup.precision = if self.precision == "fp32" { Precision::Fp32 } else { Precision::Bf16 };
        // The engine casts the whole module, adapters too.
        setup.lora_dtype = if self.precision == "fp32" { LoraDtype::Fp32 } else { LoraDtype::Bf16 };
        setup.optimizer = self.known_optimizer().unwrap_or(Optimizer::AdamWFused);
        if let Some(gpus) = self.gpus() {
            setup.gpus = gpus;
        }
        if let Some(batch) = self.batch(setup.gpus) {
            setup.batch = batch;
        }
        setup.accumulation = self.accumulation.unwrap_or(1);
        if setup.task == Task::Inference {
            setup.task = Task::Full;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::json::parse;
    use super::*;

    fn told(text: &str) -> DeepSpeed {
        read(Section::new(&parse(text).unwrap())).unwrap()
    }

    #[test]
    fn values_that_are_left_to_the_trainer() {
        let text = r#"{"bf16": {"enabled": true}, "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu"}},
            "train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": 4}"#;
        let read = told(text);
        assert_eq!((read.stage, read.zero.optimizer, read.zero.parameters), (3, Offload::Host, Offload::None));
        assert_eq!((read.micro_batch, read.accumulation, read.precision), (None, Some(4), "bf16"));
        let auto = told(r#"{"fp16": {"enabled": "auto"}, "bf16": {"enabled": "auto"}, "zero_optimization": {"stage": 2}}"#);
        assert_eq!((auto.precision, auto.precision_open), ("bf16", true));
    }

    #[test]
    fn sizes_of_buckets() {
        let read = told(
            r#"{"zero_optimization": {"stage": 3, "reduce_bucket_size": "auto", "stage3_max_live_parameters": 1e9,
            "offload_param": {"device": "nvme"}}}"#,
        );
        assert_eq!((read.zero.reduce_bucket, read.zero.live, read.zero.parameters), (None, 1_000_000_000, Offload::Disk));
        let plain = told(r#"{"zero_optimization": {"stage": 2, "cpu_offload": true, "reduce_bucket_size": 2e8}}"#);
        assert_eq!((plain.zero.reduce_bucket, plain.zero.optimizer, plain.zero.overlap), (Some(200_000_000), Offload::Host, false));
        for (key, text) in [
            ("bf16", r#"{"bf16": true}"#),
            ("enabled", r#"{"fp16": {"enabled": "true"}}"#),
            ("enabled", r#"{"bf16": {"enabled": 1.0}}"#),
            ("zero_optimization", r#"{"zero_optimization": 2}"#),
            ("reduce_bucket_size", r#"{"zero_optimization": {"stage": 2, "reduce_bucket_size": 1e30}}"#),
        ] {
            assert_eq!(super::read(Section::new(&parse(text).unwrap())).unwrap_err().key, key, "{text}");
        }
        let wrong = parse(r#"{"zero_optimization": {"stage": 3, "reduce_bucket_size": "large"}}"#).unwrap();
        assert_eq!(super::read(Section::new(&wrong)).unwrap_err().key, "reduce_bucket_size");
    }

    #[test]
    fn gpus_follow_from_the_batches() {
        let text = r#"{"zero_optimization": {"stage": 2}, "train_batch_size": 64, "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 4}"#;
        assert_eq!(told(text).gpus(), Some(8));
        assert_eq!(told(&text.replace("64", "63")).gpus(), None);
        let whole = told(r#"{"zero_optimization": {"stage": 2}, "train_batch_size": 64, "gradient_accumulation_steps": 2}"#);
        assert_eq!((whole.gpus(), whole.batch(8), whole.batch(7)), (None, Some(4), None));
    }
}
