//! How a run shares its states over GPUs, and in which dtypes it holds them.

use super::run::Run;
use crate::log::settings::{At, RunSettings, Setting, Told};
use crate::model::config::Section;
use crate::model::deepspeed::{DeepSpeed, read as read_deepspeed};
use crate::model::json;
use crate::model::quantization::Dtype;
use crate::model::training::{Precision, Setup, Task};

fn deepspeed(settings: &RunSettings) -> Option<Told<DeepSpeed>> {
    let told = settings.deepspeed.as_ref()?;
    let node = json::parse(&told.value).ok()?;
    Some(Told { value: read_deepspeed(Section::new(&node)).ok()?, line: told.line })
}

/// GPUs by a step's sequences: all of them over those of one GPU and its accumulated steps.
fn gpus_by_batch(settings: &RunSettings) -> Option<Told<u64>> {
    let by = |all: u64, one: u64, line: At| (one > 0 && all >= one && all.is_multiple_of(one)).then(|| Told { value: all / one, line });
    if let Some(all) = settings.number(Setting::TotalBatch) {
        let one = settings.number(Setting::Accumulation)?.value.checked_mul(settings.number(Setting::Batch)?.value)?;
        return by(all.value, one, all.line);
    }
    let told = settings.deepspeed.as_ref()?;
    let node = json::parse(&told.value).ok()?;
    let all = Section::new(&node).int_opt("train_batch_size").ok()??;
    let one = deepspeed(settings)?.value;
    by(all, one.micro_batch?.checked_mul(one.accumulation.unwrap_or(1))?, told.line)
}

/// ZeRO and FSDP; false where their share is not known.
pub(super) fn sharding(settings: &RunSettings, ranks: Option<u64>, setup: &mut Setup, run: &mut Run) -> bool {
    let deepspeed = deepspeed(settings);
    let fsdp = settings.get(Setting::Fsdp).and_then(|told| {
        let lower = told.value.to_ascii_lowercase();
        let stage = if lower.contains("full_shard") || lower == "1" {
            3
        } else if lower.contains("shard_grad_op") || lower == "2" {
            2
        } else {
            return None;
        };
        Some((stage, told.line))
    });
    let stage = settings
        .number(Setting::Zero)
        .map(|told| (told.value, told.line))
        .or(deepspeed.as_ref().map(|told| (told.value.stage, told.line)))
        .or(fsdp);
    if let Some((stage, line)) = stage.filter(|(stage, _)| *stage > 0) {
        setup.zero = stage;
        run.fact("zero", stage, line);
    }
    if let Some(told) = &deepspeed {
        if told.value.offloads() {
            run.missing.push("offload");
            return false;
        }
        if let Some(batch) = told.value.micro_batch.filter(|_| !run.has_batch) {
            setup.batch = batch;
            run.has_batch = true;
            run.fact("batch", batch, told.line);
        }
    }
    let model = setup.tensor_parallel.saturating_mul(setup.pipeline_parallel);
    let told = settings
        .number(Setting::Gpus)
        .or_else(|| gpus_by_batch(settings))
        .filter(|told| told.value >= 1 && told.value.is_multiple_of(model));
    match told {
        Some(told) => {
            setup.gpus = told.value;
            if told.value > 1 {
                run.fact("gpus", told.value, told.line);
            }
        }
        None if setup.zero > 0 => {
            run.missing.push("gpus");
            return false;
        }
        None => setup.gpus = ranks.filter(|ranks| ranks.is_multiple_of(model)).unwrap_or(1).max(model),
    }
    true
}

/// The dtypes that fit what the log says, the likeliest first.
pub(super) fn precisions(settings: &RunSettings, setup: &Setup, run: &mut Run) -> Vec<Precision> {
    let on = |setting: Setting| settings.switch(setting).filter(|told| told.value).map(|told| told.line);
    let off = |setting: Setting| settings.switch(setting).is_some_and(|told| !told.value);
    let mixed = settings.get(Setting::MixedPrecision).map(|told| (told.value.to_ascii_lowercase(), told.line));
    let mixed_is = |name: &str| mixed.as_ref().filter(|(value, _)| value.contains(name)).map(|(_, line)| *line);
    let held = settings.get(Setting::LoadDtype).or(settings.get(Setting::Dtype));
    let upcast = settings.get(Setting::Upcast).filter(|_| setup.task == Task::Full).map(|told| (Dtype::Float32, told.line));
    let held = upcast.or_else(|| held.and_then(|told| Some((Dtype::parse(told.value)?, told.line))));
    if let Some((dtype, line)) = held {
        run.has_dtype = true;
        run.fact("weights-in", dtype.name(), line);
    }
    let deepspeed = deepspeed(settings);
    let sharded_in =
        |name: &str| deepspeed.as_ref().filter(|told| told.value.precision == name && !told.value.precision_open).map(|told| told.line);
    let bf16 = on(Setting::Bf16).or(mixed_is("bf16")).or(sharded_in("bf16"));
    let fp16 = on(Setting::Fp16).or(mixed_is("fp16")).or(sharded_in("fp16"));
    if let Some(line) = bf16.or(fp16) {
        run.fact("precision", if bf16.is_some() { "bf16" } else { "fp16" }, line);
    }
    let wide = held.is_some_and(|(dtype, _)| dtype.bytes() == 4);
    if setup.is_lora() {
        if held.is_none() && setup.task == Task::Lora {
            run.assumed.push("base-16-bits");
        }
        return vec![if wide && setup.task == Task::Lora { Precision::AmpBf16 } else { Precision::Bf16BaseAmp }];
    }
    if setup.zero > 0 && (bf16.is_some() || fp16.is_some()) {
        // 16-bit weights with 32-bit masters in the shards.
        return vec![Precision::Bf16];
    }
    // DeepSpeed keeps 32-bit masters without sharding too.
    let masters = deepspeed.is_some() || settings.get(Setting::Zero).is_some();
    match (bf16.is_some(), fp16.is_some(), held.is_some()) {
        (true, ..) if masters => vec![Precision::AmpBf16],
        (true, _, true) => vec![if wide { Precision::AmpBf16 } else { Precision::Bf16 }],
        (_, true, _) => vec![Precision::AmpFp16],
        (false, false, true) if wide => vec![Precision::Fp32],
        (false, false, true) => vec![Precision::Bf16],
        (false, false, false) if off(Setting::Bf16) && off(Setting::Fp16) => {
            run.assumed.push("precision-open");
            vec![Precision::Fp32, Precision::Bf16]
        }
        _ => {
            run.assumed.push("precision-open");
            vec![Precision::AmpBf16, Precision::Bf16]
        }
    }
}
