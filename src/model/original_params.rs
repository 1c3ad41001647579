//! `params.json` of original checkpoints (Llama, Mistral), as the config it corresponds to.
//!
//! Llama's files name no width of the feed-forward layers: it is two thirds of four times the width,
//! scaled by `ffn_dim_multiplier` and rounded up to a multiple of `multiple_of`. A vocabulary of -1
//! means "that of the tokenizer"; the 32000 words of the first two generations are taken then, and
//! the count is called uncertain.

use super::architectures::blocks::{Moe, Norm};
use super::architectures::decoder::{Defaults, Dimensions, Parts, Request, Stack, Task};
use super::architectures::dense::Dense;
use super::config::{Result, Section};

/// The inventory of the model that the file describes.
pub fn read(c: Section<'_>) -> Result<Parts> {
    let hidden = c.need("dim")?;
    let heads = c.divisor("n_heads", 1)?;
    let vocab = c.int("vocab_size", 0).unwrap_or(0);
    let d = Dimensions {
        hidden,
        layers: c.layers("n_layers", 0)?,
        heads,
        kv_heads: c.int("n_kv_heads", heads)?,
        head_dim: c.int("head_dim", hidden / heads)?,
        intermediate: width(c, hidden)?,
        vocab: if vocab == 0 { 32000 } else { vocab },
        positions: c.int("max_seq_len", 0)?,
        ..Dimensions::default()
    };
    let default = Defaults::of([0; 8], c.bool("tied_embeddings", false)?);
    let dense = Dense::new(&d);
    let moe = c.section("moe");
    let experts = Moe {
        hidden,
        experts: moe.int("num_experts", 0)?,
        active: moe.int("num_experts_per_tok", 2)?,
        width: d.intermediate,
        router_bias: false,
        expert_bias: false,
    };
    let mut stack = Stack::new(c, d.clone(), &default, Request { task: Task::Causal, tied: None, nested: false })?;
    for index in 0..d.layers {
        stack.layer(if experts.experts > 0 {
            dense.without_mlp(index).moe("feed_forward", &experts)
        } else {
            dense.layer(index, d.intermediate)
        });
    }
    if vocab == 0 {
        stack.inexact("the file leaves the vocabulary to the tokenizer: 32000 words are taken");
    }
    Ok(stack.finish(Norm::Weight, false))
}

fn width(c: Section<'_>, hidden: u64) -> Result<u64> {
    if let Some(width) = c.int_opt("hidden_dim")? {
        return Ok(width);
    }
    let factor = c.float("ffn_dim_multiplier", 1.0)?;
    let scaled = (hidden.saturating_mul(8) / 3) as f64 * factor;
    if !(0.0..1e15).contains(&scaled) {
        return Err(c.wrong("ffn_dim_multiplier", "gives no usable width of the feed-forward layers".to_owned()));
    }
    let multiple = c.divisor("multiple_of", 256)?;
    Ok((scaled as u64).div_ceil(multiple).saturating_mul(multiple))
}
