//! OpenELM (remote code): heads and feed-forward widths grow from layer to layer.

use super::blocks::{Attention, Block, Norm, Window};
use super::decoder::{Defaults, Dimensions, Parts, Request, Stack};
use crate::model::config::{MAX_LAYERS, Result, Section};
use crate::model::json::Value;

/// openelm.
pub fn openelm(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([32000, 2048, 0, 12, 16, 0, 128, 2048], true);
    let layers = c.layers("num_transformer_layers|num_hidden_layers", 12)?.min(MAX_LAYERS);
    let (hidden, head_dim) = (c.int("model_dim|hidden_size", 2048)?, c.int("head_dim", 128)?);
    let divisor = c.divisor("ffn_dim_divisor", 256)?;
    let (queries, keys) = (c.ints("num_query_heads")?.unwrap_or_default(), c.ints("num_kv_heads")?.unwrap_or_default());
    let factors = factors(c);
    let d = Dimensions {
        hidden,
        layers,
        head_dim,
        heads: queries.iter().copied().max().unwrap_or(0),
        kv_heads: keys.iter().copied().max().unwrap_or(0),
        vocab: c.int("vocab_size", 32000)?,
        positions: c.int("max_context_length", 2048)?,
        intermediate: factors.last().map_or(0, |factor| width(*factor, hidden, divisor)),
        ..Dimensions::default()
    };
    let tied = Request { tied: Some(c.bool("share_input_output_layers", true)?), ..request };
    let mut stack = Stack::new(c, d, &default, tied)?;
    let (gated, normed) = (c.bool("ffn_with_glu", true)?, c.bool("normalize_qk_projections", true)?);
    for ((heads, kv_heads), factor) in queries.iter().zip(&keys).zip(&factors).take(usize::try_from(layers).unwrap_or(0)) {
        let ffn = width(*factor, hidden, divisor);
        let block = Block::new()
            .norm("attn_norm", hidden)
            .norm("ffn_norm", hidden)
            .fused_attention("attn", &Attention::new(hidden, *heads, *kv_heads, head_dim), ["qkv_proj", "out_proj"], Window::Full)
            .when(normed, |block| block.norm("attn.q_norm", head_dim).norm("attn.k_norm", head_dim));
        stack.layer(match gated {
            true => block.fused_gated_mlp("ffn", hidden, ffn, ["proj_1", "proj_2"], false),
            false => block.plain_mlp("ffn", hidden, ffn, ["proj_1", "proj_2"], false),
        });
    }
    if [queries.len(), keys.len(), factors.len()].iter().any(|count| *count as u64 != layers) {
        stack.inexact("the file does not list heads and `ffn_multipliers` of every layer");
    }
    Ok(stack.finish(Norm::Weight, false))
}

/// The feed-forward width of every layer, in widths of the model.
fn factors(c: Section<'_>) -> Vec<f64> {
    let number = |value: &Value| match value {
        Value::Integer(number) => Some(*number as f64),
        Value::Float(number) => Some(*number),
        _ => None,
    };
    match c.node("ffn_multipliers").map(|(_, node)| &node.value) {
        Some(Value::Array(items)) => items.iter().filter_map(|item| number(&item.value)).collect(),
        _ => Vec::new(),
    }
}

/// The multiple of the divisor that is nearest to the factor times the width, and not much below it.
fn width(factor: f64, hidden: u64, divisor: u64) -> u64 {
    let exact = factor.clamp(0.0, 1e6) * hidden as f64;
    let near = (((exact + divisor as f64 / 2.0) as u64) / divisor).max(1).saturating_mul(divisor);
    if (near as f64) < 0.9 * exact { near.saturating_add(divisor) } else { near }
}
