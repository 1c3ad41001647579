//! The phases of inference on one GPU: prompt and generation.
//!
//! transformers reads whole prompts and grows its cache; vLLM reads them in steps of a fixed number
//! of tokens and reserves pages. With vLLM the plan counts what the sequences asked for need; the
//! engine itself takes nine tenths of the card whatever the need.

use super::activations::{Kernel, kernel};
use super::setup::{Engine, Setup};
use super::shape::{self, Shape};
use super::{Phase, Piece, digits, states};
use crate::model::Model;
use crate::model::kv_cache::{self, Cache};
use crate::model::quantization::Dtype;

/// Tokens of a scheduler step of vLLM, and sequences whose logits it computes at once.
const STEP: u64 = 8192;
const SEQUENCES: f64 = 256.0;

/// Sequences that are held.
pub fn sequences(setup: &Setup) -> u64 {
    setup.batch.max(setup.concurrency)
}

/// Dtype of the cache: the flag's, else that of the weights where they are floats of 16 or 32 bits.
pub fn cache_dtype(model: &Model, setup: &Setup) -> Dtype {
    setup.kv_dtype.unwrap_or_else(|| match states::inference_dtype(model, setup) {
        Dtype::Float32 => Dtype::Float32,
        _ => Dtype::Bfloat16,
    })
}

/// Bytes of the cache of one sequence on one GPU.
pub fn cache_per_sequence(model: &Model, setup: &Setup) -> f64 {
    per_sequence(model, setup, false) * shared_by(model, setup)
}

fn per_sequence(model: &Model, setup: &Setup, whole: bool) -> f64 {
    let engine = match setup.engine {
        Engine::Transformers => kv_cache::Engine::Transformers,
        Engine::Vllm => kv_cache::Engine::Vllm { block: 16, batched_tokens: STEP },
    };
    let bytes = cache_dtype(model, setup).bytes();
    if whole {
        return kv_cache::bytes_per_token(&model.inventory, bytes) as f64 * setup.seq as f64;
    }
    let encoder = setup.seq.min(1500);
    // transformers keeps recurrent states in 32 bits, vLLM in the dtype of the cache.
    let state_bytes = if setup.engine == Engine::Vllm { bytes } else { 4 };
    kv_cache::bytes_per_sequence(&model.inventory, engine, setup.seq, bytes, state_bytes, encoder) as f64
}

/// What the other engine holds for a sequence, where it is more than a hundredth off.
fn other_engine(model: &Model, setup: &Setup) -> String {
    let bytes = cache_dtype(model, setup).bytes();
    let both = kv_cache::both(&model.inventory, setup.seq, bytes, STEP, setup.seq.min(1500));
    let (own, other, what) = match setup.engine {
        Engine::Transformers => (both.transformers, both.vllm.bytes, "vLLM reserves"),
        Engine::Vllm => (both.vllm.bytes, both.transformers, "transformers holds"),
    };
    if own.abs_diff(other).saturating_mul(100) <= own {
        return String::new();
    }
    format!("; {what} {} B", digits(other as f64 * shared_by(model, setup)))
}

/// Says so where tensor parallel does not make the cache smaller: a latent has no heads to share out.
fn whole_on_each(model: &Model, setup: &Setup, one: f64) -> &'static str {
    let share = shared_by(model, setup) * setup.pipeline_parallel as f64;
    if setup.tensor_parallel > 1 && one > 0.0 && share >= 1.0 { ", whole on each GPU" } else { "" }
}

/// The share of the cache that one GPU holds: KV heads are not split below one.
fn shared_by(model: &Model, setup: &Setup) -> f64 {
    let heads = model
        .inventory
        .groups
        .iter()
        .flat_map(|group| &group.caches)
        .find_map(|cache| match *cache {
            Cache::Full { heads, .. } | Cache::Sliding { heads, .. } | Cache::Chunked { heads, .. } => Some(heads),
            _ => None,
        })
        .unwrap_or(1)
        .max(1);
    let split = setup.tensor_parallel.max(1);
    let part = heads.div_ceil(split).max(1) as f64 / heads as f64;
    part.min(1.0) / setup.pipeline_parallel as f64
}

/// The phases of inference.
pub fn phases(model: &Model, setup: &Setup, held: &(f64, String)) -> Vec<Phase> {
    let (bytes, formula) = held;
    let split = setup.tensor_parallel as f64 * setup.pipeline_parallel as f64;
    let share = if split > 1.0 { format!(" / {split} GPUs") } else { String::new() };
    let weights = Piece::exact("weights", bytes / split, format!("{formula}{share}"));
    let many = sequences(setup) as f64;
    let one = cache_per_sequence(model, setup);
    let whole = per_sequence(model, setup, true) * shared_by(model, setup);
    let per_token = kv_cache::bytes_per_token(&model.inventory, 1) > 0;
    let mut cache = Piece::exact(
        if per_token { "KV cache" } else { "recurrent state" },
        one * many,
        format!(
            "{} {} x {} tokens, {} B each in {}{}{}",
            digits(many),
            if many == 1.0 { "sequence" } else { "sequences" },
            digits(setup.seq as f64),
            digits(one),
            cache_dtype(model, setup).name(),
            whole_on_each(model, setup, one),
            other_engine(model, setup)
        ),
    );
    if setup.engine == Engine::Transformers && one > 0.0 && whole > one {
        // A cache that was made without the config keeps all tokens of sliding layers.
        cache.spread = (1.0, whole / one);
    }
    let (prompt, text) = prompt(model, setup);
    let keep = |pieces: Vec<Piece>| pieces.into_iter().filter(|piece| piece.bytes > 0.0).collect();
    let layers = model.dimensions.layers.max(1) as f64;
    // What keeps nothing generates nothing.
    if one == 0.0 {
        let activations = Piece::modelled("activations", prompt / setup.tensor_parallel as f64, (0.9, 1.15), text);
        return vec![Phase { name: "forward", pieces: keep(vec![weights, activations]) }];
    }
    vec![
        Phase {
            name: "prompt",
            pieces: keep(vec![
                weights.clone(),
                cache.clone(),
                Piece::modelled("activations", prompt / setup.tensor_parallel as f64, (0.9, 1.15), text),
            ]),
        },
        Phase {
            name: "generation",
            pieces: keep(vec![
                weights,
                cache,
                Piece::modelled(
                    "activations",
                    // Pages are filled in place.
                    if setup.engine == Engine::Vllm { 0.0 } else { 0.5 * one * many / layers },
                    (0.2, 1.3),
                    "keys or values of one layer, while a token is appended".to_owned(),
                ),
            ]),
        },
    ]
}

/// The largest transient while a prompt is read, in bytes, and its formula.
fn prompt(model: &Model, setup: &Setup) -> (f64, String) {
    let e = match states::inference_dtype(model, setup) {
        Dtype::Float32 => 4.0,
        _ => 2.0,
    };
    let h = model.dimensions.hidden as f64;
    let vocab = shape::logits(model);
    let rows = sequences(setup) as f64;
    let tokens = match setup.engine {
        Engine::Transformers => rows * setup.seq as f64,
        Engine::Vllm => (rows * setup.seq as f64).min(STEP as f64),
    };
    let head = match (setup.engine, setup.all_logits) {
        (Engine::Vllm, _) => 4.0 * vocab * SEQUENCES.min(rows.max(1.0)),
        (_, true) => (vocab + h) * e * tokens,
        (_, false) => vocab * e * rows,
    };
    let fused = setup.engine == Engine::Vllm;
    let mut most = 0.0;
    let mut text = String::new();
    for shape in shape::of(model) {
        let per_token = layer(model, setup, &shape, e, fused);
        let head_width = if shape.heads > 0.0 { shape.query / shape.heads } else { 0.0 };
        let tables = if shape::drops(model) { e * h } else { 2.0 * e * head_width };
        let bytes = per_token * tokens + tables * setup.seq as f64;
        if bytes > most {
            most = bytes;
            text = format!("{} tokens x {} B of the widest layer", digits(tokens), digits(per_token));
        }
    }
    if head > most {
        let what = if setup.all_logits { tokens } else { rows };
        return (head, format!("{} rows of logits x {} vocabulary", digits(what), digits(vocab)));
    }
    (most, text)
}

/// Bytes a token of the widest moment of a layer.
fn layer(model: &Model, setup: &Setup, shape: &Shape, e: f64, fused: bool) -> f64 {
    let (h, s) = (shape.hidden, setup.seq as f64);
    let inner = if shape.gated { 3.0 } else { 2.0 };
    let mut most: f64 = 4.0 * e * h + e * shape.mixer * 2.0;
    if shape.mlp > 0.0 {
        most = most.max(if shape::unfused_gelu(model) { 5.25 * e * shape.mlp } else { inner * e * shape.mlp + 4.0 * e * h });
    }
    if shape.experts > 0.0 {
        let routed = inner * e * shape.expert * shape.active / shape.experts;
        most = most.max(routed + 5.5 * e * h);
    }
    if fused || !shape.attention {
        return most;
    }
    match kernel(setup, shape, e) {
        Kernel::Fused => most,
        Kernel::Masked => most.max((e + 1.0) * s + 6.5 * e * h),
        Kernel::Eager | Kernel::Math => {
            let score = if e == 2.0 { 10.0 } else { 8.0 };
            let mask = if shape.window.is_some_and(|window| setup.seq >= window) { s } else { 0.0 };
            most.max(score * shape.heads * s + 7.0 * e * h + mask)
        }
    }
}
