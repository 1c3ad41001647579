//! Memory plans against measured peaks, and properties that any plan must have.

#![allow(clippy::unwrap_used)]

use std::path::Path;

use clap::Parser;
use proptest::prelude::*;
use trainwreck::cli::fit_flags::Flags;
use trainwreck::model::fit::{self, Verdict};
use trainwreck::model::plan::{self, Plan};
use trainwreck::model::training::{Checkpointing, Setup, Task};
use trainwreck::model::{self, Model, remedies};

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    flags: Flags,
}

fn setup(flags: &str) -> Setup {
    let words = std::iter::once("fit").chain(flags.split_whitespace());
    Line::try_parse_from(words).unwrap().flags.setup().unwrap()
}

fn llama() -> Model {
    model::read(
        r#"{"model_type": "llama", "architectures": ["LlamaForCausalLM"], "torch_dtype": "bfloat16", "vocab_size": 128256, "hidden_size": 4096,
        "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8}"#,
    )
    .unwrap()
}

/// Relative errors in order, and the share of rows whose range holds the measured peak.
fn errors(file: &str) -> (Vec<f64>, f64) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/memory").join(file);
    let (mut errors, mut held) = (Vec::new(), 0);
    for row in std::fs::read_to_string(path).unwrap().lines() {
        let row: serde_json::Value = serde_json::from_str(row).unwrap();
        let model = model::read(&row["config"].to_string()).unwrap();
        let plan = plan::of(&model, &setup(row["flags"].as_str().unwrap())).unwrap();
        let peak = row["peak"].as_u64().unwrap();
        errors.push((plan.allocated as f64 / peak as f64 - 1.0).abs());
        held += usize::from((plan.allocated_low..=plan.allocated_high).contains(&peak));
    }
    let share = held as f64 / errors.len() as f64;
    errors.sort_by(f64::total_cmp);
    (errors, share)
}

fn quantile(errors: &[f64], part: f64) -> f64 {
    errors[((errors.len() - 1) as f64 * part) as usize]
}

#[test]
fn training_peaks_are_met() {
    let (errors, held) = errors("training.jsonl");
    assert!(quantile(&errors, 0.5) < 0.001, "{errors:?}");
    assert!(quantile(&errors, 0.9) < 0.005, "{errors:?}");
    assert!(quantile(&errors, 1.0) < 0.03, "{errors:?}");
    assert!(held > 0.95, "{held}");
}

#[test]
fn inference_peaks_are_met() {
    let (errors, held) = errors("inference.jsonl");
    assert!(quantile(&errors, 0.5) < 0.001, "{errors:?}");
    assert!(quantile(&errors, 0.9) < 0.01, "{errors:?}");
    assert!(quantile(&errors, 1.0) < 0.1, "{errors:?}");
    assert!(held > 0.95, "{held}");
}

#[test]
fn sharded_peaks_are_met() {
    let (errors, held) = errors("sharded.jsonl");
    assert!(quantile(&errors, 0.5) < 0.001, "{errors:?}");
    assert!(quantile(&errors, 1.0) < 0.02, "{errors:?}");
    assert!(held > 0.95, "{held}");
}

/// Terms add up, bounds enclose, the peak is the largest phase.
fn consistent(plan: &Plan) {
    let parts: u64 = plan.terms.iter().filter(|term| term.allocated).map(|term| term.bytes).sum();
    assert!(parts.abs_diff(plan.allocated) <= plan.terms.len() as u64 + plan.allocated / (1 << 50));
    let all: u64 = plan.terms.iter().map(|term| term.bytes).sum();
    assert!(all.abs_diff(plan.total) <= plan.terms.len() as u64 + plan.total / (1 << 50));
    let peak = plan.phases.iter().map(|(_, bytes)| *bytes).max();
    assert_eq!(peak, Some(plan.allocated));
    assert!(plan.allocated_low <= plan.allocated && plan.allocated <= plan.allocated_high);
    assert!(plan.total_low <= plan.total && plan.total <= plan.total_high);
    assert!(plan.allocated <= plan.total);
    for term in &plan.terms {
        assert!(term.low <= term.bytes && term.bytes <= term.high, "{term:?}");
        assert!(!term.formula.is_empty(), "{term:?}");
    }
}

#[test]
fn every_known_config_has_a_consistent_plan_for_every_task() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/configs");
    let mut plans = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|ending| ending != "json") {
            continue;
        }
        let model = model::read(&std::fs::read_to_string(&path).unwrap()).unwrap();
        for flags in [
            "",
            "--engine vllm --concurrency 8",
            "--task full --precision amp-bf16 --checkpointing full",
            "--task lora --checkpointing selective",
            "--task qlora --padded",
            "--task full --attention eager --optimizer muon",
            "--task full --zero 2 --gpus 8",
            "--task full --zero 3 --gpus 8 --optimizer adafactor",
        ] {
            // Quantised weights cannot be trained whole, and says so.
            if let Ok(plan) = plan::of(&model, &setup(flags)) {
                consistent(&plan);
                plans += 1;
            }
        }
    }
    assert!(plans > 900, "{plans}");
}

#[test]
fn absurd_settings_are_refused_with_the_flag() {
    for (flags, word) in [
        ("--batch 0", "--batch"),
        ("--seq 99999999999", "--seq"),
        ("--zero 4", "--zero"),
        ("--gpus 6 --tensor-parallel 4", "--gpus"),
        ("--task lora --lora-r 0", "--lora-r"),
        ("--quantization q9", "--quantization"),
        ("--kv-dtype lots", "--kv-dtype"),
    ] {
        let words = std::iter::once("fit").chain(flags.split_whitespace());
        let error = Line::try_parse_from(words).unwrap().flags.setup().unwrap_err();
        assert!(error.contains(word), "{flags}: {error}");
    }
    let error = plan::of(&llama(), &setup("--task lora --lora-targets nothing")).unwrap_err();
    assert!(error.to_string().contains("all-linear"), "{error}");
    let error = plan::of(&llama(), &setup("--tensor-parallel 64")).unwrap_err();
    assert!(error.to_string().contains("32 attention heads"), "{error}");
}

#[test]
fn the_largest_settings_do_not_overflow() {
    let flags = "--batch 1000000 --seq 100000000 --gpus 1000000 --zero 1 --attention eager --task full";
    let plan = plan::of(&llama(), &setup(flags)).unwrap();
    assert!(plan.total >= plan.allocated);
    consistent(&plan::of(&llama(), &setup("--batch 1000000 --seq 1000")).unwrap());
}

#[test]
fn more_memory_never_fits_less() {
    let model = llama();
    for flags in ["", "--task full", "--task qlora --checkpointing full"] {
        let mut last = (0, 0);
        for gib in [8u64, 16, 24, 48, 80, 141] {
            let fit = fit::of(&model, &setup(flags), gib << 30).unwrap();
            assert!(fit.max_batch >= last.0 && fit.max_context >= last.1);
            assert_eq!(fit.verdict == Verdict::TooLarge, fit.headroom < 0);
            last = (fit.max_batch, fit.max_context);
        }
        assert!(last.0 > 0, "{flags}");
    }
}

#[test]
fn the_largest_batch_fits_and_one_more_does_not() {
    let model = llama();
    let mut one = setup("--task lora --checkpointing full --seq 4096");
    let memory = 48u64 << 30;
    let fit = fit::of(&model, &one, memory).unwrap();
    one.batch = fit.max_batch;
    assert!(plan::of(&model, &one).unwrap().total <= memory);
    one.batch += 1;
    assert!(plan::of(&model, &one).unwrap().total > memory);
}

#[test]
fn changes_that_are_said_to_fit_do_fit() {
    let model = llama();
    let before = setup("--task full --batch 4 --seq 4096");
    let memory = 24u64 << 30;
    let list = remedies::of(&model, &before, memory);
    assert!(list.first().is_some_and(|one| one.fits), "{list:?}");
    for one in &list {
        let flags = format!("--task full --batch 4 --seq 4096 {}", one.flags);
        // A later flag replaces an earlier one.
        let mut words: Vec<(String, String)> = Vec::new();
        let mut parts = flags.split_whitespace();
        while let (Some(name), Some(value)) = (parts.next(), parts.next()) {
            words.retain(|(have, _)| have != name);
            words.push((name.to_owned(), value.to_owned()));
        }
        let line: Vec<String> = words.iter().map(|(a, b)| format!("{a} {b}")).collect();
        let total = plan::of(&model, &setup(&line.join(" "))).unwrap().total;
        assert_eq!(total, one.total, "{one:?}");
        assert_eq!(total <= memory, one.fits, "{one:?}");
    }
    assert!(remedies::of(&model, &before, 4 << 40).is_empty());
}

#[test]
fn memory_is_shared_only_by_what_shares_it() {
    let model = llama();
    let total = |flags: &str| plan::of(&model, &setup(flags)).unwrap().allocated;
    let one = total("--task full");
    // Plain data parallel holds the model on each GPU, and buckets besides.
    assert!(total("--task full --gpus 8") >= one);
    assert!(total("--task full --gpus 8 --zero 3") < one);
    assert!(total("--task full --gpus 8 --zero 3") < total("--task full --gpus 2 --zero 3"));
    assert!(total("--tensor-parallel 2") < total(""));
    assert_eq!(total("--gpus 8"), total(""));
}

#[test]
fn checkpointing_and_adapters_save_what_they_should() {
    let model = llama();
    let mut all = Setup::new(Task::Full);
    all.seq = 4096;
    all.batch = 8;
    let none = plan::of(&model, &all).unwrap();
    all.checkpointing = Checkpointing::Selective;
    let some = plan::of(&model, &all).unwrap();
    all.checkpointing = Checkpointing::Full;
    let full = plan::of(&model, &all).unwrap();
    assert!(full.allocated < some.allocated && some.allocated < none.allocated);
    let lora = plan::of(&model, &setup("--task lora --seq 4096 --checkpointing full")).unwrap();
    assert!(lora.allocated < full.allocated);
    assert_eq!(lora.trainable, 41_943_040);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Odd sizes and settings give a consistent plan or a message, never a panic.
    #[test]
    fn odd_sizes_and_settings_are_planned_or_refused(
        sizes in prop::array::uniform6(0u64..5000),
        batch in 0u64..2_000_000,
        seq in 0u64..200_000_000,
        rank in 0u64..70_000,
        gpus in 0u64..40,
        zero in 0u64..5,
        split in 0u64..9,
        stages in 0u64..5,
        family in 0usize..6,
        kind in 0usize..48,
    ) {
        let family = ["llama", "gpt2", "mixtral", "gemma2", "mamba", "t5"][family];
        let [h, layers, heads, kv, inner, vocab] = sizes;
        let text = format!(
            r#"{{"model_type": "{family}", "hidden_size": {h}, "num_hidden_layers": {}, "num_attention_heads": {}, "num_key_value_heads": {}, "intermediate_size": {inner}, "vocab_size": {vocab}}}"#,
            layers % 90, heads % 70, kv % 70
        );
        if let Ok(model) = model::read(&text) {
            let mut setup = Setup::new([Task::Inference, Task::Full, Task::Lora, Task::Qlora][kind % 4]);
            setup.batch = batch;
            setup.seq = seq;
            setup.lora_r = rank;
            setup.gpus = gpus;
            setup.zero = zero;
            setup.tensor_parallel = split;
            setup.pipeline_parallel = stages;
            setup.padded = kind % 3 == 0;
            setup.checkpointing = [Checkpointing::None, Checkpointing::Full, Checkpointing::Selective][kind % 3];
            if let Ok(plan) = plan::of(&model, &setup) {
                prop_assert!(plan.allocated <= plan.total);
                prop_assert!(plan.allocated_low <= plan.allocated_high);
                prop_assert!(plan.total_low <= plan.total_high);
                let _ = remedies::of(&model, &setup, 1 << 34);
            }
        }
    }
}
