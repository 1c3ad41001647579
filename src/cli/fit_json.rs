//! The JSON form of `trainwreck fit`: one object a config.

use serde_json::{Map, Value, json};

use super::fit_input::{Input, Problem};
use crate::gpu::cards::Card;
use crate::model::fit::{self, Verdict};
use crate::model::plan::{self, Plan};
use crate::model::training::{Certainty, Setup, shape};
use crate::model::{Model, kv_cache, remedies};

/// What could not be used.
pub fn failure(file: &str, problem: &Problem) -> Value {
    let (key, line, column) = problem.place.clone().unwrap_or_default();
    json!({ "file": file, "error": { "message": problem.message, "key": key, "line": line, "column": column } })
}

/// The object of a model, and why there is no plan where there is none.
pub fn object(file: &str, input: &Input, gpus: &[Card], what_if: bool) -> (Value, Option<String>) {
    let Input { model, setup, notes } = input;
    let plan = plan::of(model, setup);
    let trainable = plan.as_ref().map_or(model.total(), |plan| if plan.trainable > 0 { plan.trainable } else { model.total() });
    let base = json!({
        "file": file,
        "architecture": model.architecture,
        "exact": model.is_exact(),
        "params": {
            "total": model.total(),
            "low": model.low(),
            "high": model.high(),
            "active": model.active(),
            "embedding": model.embedding(),
            "head": model.head(),
            "trainable": trainable,
        },
        "weights_bytes": model.weights_bytes(),
        "kv_bytes_per_token": model.kv_bytes_per_token(2),
        "kv_layers": kv_layers(model),
        "model_type": model.model_type,
        "dtype": model.stored_dtype().name(),
        "quantization": model.quantization.as_ref().map(|one| json!({ "method": one.method, "format": one.summary, "exact": one.exact })),
        "tied": model.tied,
        "notes": model.notes.iter().chain(&model.inexact).collect::<Vec<_>>(),
    });
    let Value::Object(mut object) = base else {
        return (base, None);
    };
    let plan = match plan {
        Ok(plan) => plan,
        Err(error) => {
            object.insert("plan_error".to_owned(), json!(error.to_string()));
            return (Value::Object(object), Some(error.to_string()));
        }
    };
    add_plan(&mut object, &plan, notes);
    let fits: Vec<Value> = gpus.iter().map(|card| gpu(model, setup, card)).collect();
    object.insert("gpus".to_owned(), Value::Array(fits));
    if what_if {
        let memory = gpus.iter().map(|card| card.memory).min().unwrap_or(0);
        let list: Vec<Value> = remedies::of(model, setup, memory)
            .iter()
            .map(|one| {
                let (low, high) = one.range;
                json!({ "change": one.change, "flags": one.flags, "cost": one.cost, "total_bytes": one.total, "total_low": low,
                    "total_high": high, "fits": one.fits })
            })
            .collect();
        object.insert("what_if".to_owned(), json!({ "memory_bytes": memory, "changes": list }));
    }
    (Value::Object(object), None)
}

fn add_plan(object: &mut Map<String, Value>, plan: &Plan, notes: &[String]) {
    let terms: Vec<Value> = plan
        .terms
        .iter()
        .map(|term| {
            json!({
                "name": term.name,
                "bytes": term.bytes,
                "low": term.low,
                "high": term.high,
                "formula": term.formula,
                "exact": term.certainty == Certainty::Exact,
                "certainty": certainty(term.certainty),
                "allocated": term.allocated,
            })
        })
        .collect();
    let phases: Vec<Value> = plan.phases.iter().map(|(name, bytes)| json!({ "name": name, "bytes": bytes })).collect();
    let entries = [
        ("terms", Value::Array(terms)),
        ("allocated_bytes", json!(plan.allocated)),
        ("allocated_low", json!(plan.allocated_low)),
        ("allocated_high", json!(plan.allocated_high)),
        ("peak_phase", json!(plan.peak_phase)),
        ("phases", Value::Array(phases)),
        ("total_bytes", json!(plan.total)),
        ("total_low", json!(plan.total_low)),
        ("total_high", json!(plan.total_high)),
        ("unknowns", json!(plan.unknowns)),
        ("plan_notes", json!(notes.iter().chain(&plan.notes).collect::<Vec<_>>())),
        ("host_bytes", json!(plan.host)),
        ("disk_bytes", json!(plan.disk)),
    ];
    for (key, value) in entries {
        object.insert(key.to_owned(), value);
    }
}

fn certainty(certainty: Certainty) -> &'static str {
    match certainty {
        Certainty::Exact => "exact",
        Certainty::Modelled => "modelled",
        Certainty::Guess => "guess",
    }
}

fn gpu(model: &Model, setup: &Setup, card: &Card) -> Value {
    // Without layers of a language model nothing is known of batch and length.
    let known = |value: u64| shape::has_layers(model).then_some(value);
    match fit::of(model, setup, card.memory) {
        Ok(fit) => json!({
            "id": card.id,
            "memory_bytes": card.memory,
            "usable_bytes": fit::usable(setup, card.memory),
            "machine_gpus": card.count,
            "fits": fit.verdict != Verdict::TooLarge,
            "verdict": verdict(fit.verdict),
            "headroom_bytes": fit.headroom,
            "max_batch": known(fit.max_batch),
            "max_context": known(fit.max_context),
            "max_concurrency": fit.max_concurrency.and_then(known),
        }),
        Err(error) => {
            json!({ "id": card.id, "memory_bytes": card.memory, "error": error.to_string() })
        }
    }
}

/// The verdict in a word.
pub fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Fits => "fits",
        Verdict::Tight => "tight",
        Verdict::TooLarge => "too large",
    }
}

/// What each kind of layers keeps, in a 16-bit cache.
fn kv_layers(model: &Model) -> Vec<Value> {
    let kinds = kv_cache::kinds(&model.inventory);
    let one = |sum: &kv_cache::KindSum| {
        json!({
            "kind": sum.kind,
            "layers": sum.layers,
            "bytes_per_token": sum.per_token.saturating_mul(2),
            "window": sum.window,
            "state_elements": sum.constant,
        })
    };
    kinds.iter().map(one).collect()
}
