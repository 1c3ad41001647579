//! nemotron-nas (DeciLM): layers found by search, each with its own sizes in `block_configs`.

use super::blocks::{Block, Norm, Window};
use super::decoder::{Defaults, Dimensions, Parts, Request, Stack};
use crate::model::config::{Result, Section};
use crate::model::inventory::Role;

/// nemotron-nas.
pub fn decilm(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([128_256, 8192, 28672, 80, 64, 8, 0, 131_072], false);
    let d = Dimensions::read(c, &default)?;
    let blocks = c.sections("block_configs");
    if blocks.is_empty() {
        return Err(c.missing("block_configs"));
    }
    if blocks.len() as u64 > crate::model::config::MAX_LAYERS {
        return Err(c.wrong("block_configs", "has more layers than any model".to_owned()));
    }
    let bias = c.bool("attention_bias", false)?;
    let mut stack = Stack::new(c, d.clone(), &default, request)?;
    for layer in blocks {
        let (attention, ffn) = (layer.section("attention"), layer.section("ffn"));
        let mut block = Block::new();
        if attention.bool("replace_with_linear", false)? {
            block = block.norm("input_layernorm", d.hidden).linear("self_attn.linear_attn", Role::Attention, d.hidden, d.hidden, false);
        } else if !attention.bool("no_op", false)? {
            let group = attention.divisor("n_heads_in_group", 1)?;
            let own = super::blocks::Attention { kv_heads: d.heads / group, ..d.attention().biases(bias, bias) };
            block = block.norm("input_layernorm", d.hidden).attention("self_attn", &own, Window::Full);
        }
        if ffn.bool("replace_with_linear", false)? {
            block = block.norm("post_attention_layernorm", d.hidden).linear("mlp.linear_mlp", Role::Mlp, d.hidden, d.hidden, false);
        } else if !ffn.bool("no_op", false)? {
            block = block.norm("post_attention_layernorm", d.hidden).gated_mlp("mlp", d.hidden, width(ffn, d.hidden)?, false);
        }
        stack.layer(block);
    }
    Ok(stack.finish(Norm::Weight, false))
}

/// Width of a feed-forward layer: given, or two thirds of a multiple of the hidden width, rounded up
/// to a multiple of 256.
fn width(ffn: Section<'_>, hidden: u64) -> Result<u64> {
    if let Some(width) = ffn.int_opt("intermediate_size")? {
        return Ok(width);
    }
    let multiple = ffn.float("ffn_mult", 1.0)?;
    let scaled = 2.0 * multiple * hidden as f64 / 3.0;
    if !(0.0..1e15).contains(&scaled) {
        return Err(ffn.wrong("ffn_mult", "gives no usable width of the feed-forward layer".to_owned()));
    }
    Ok((scaled as u64).div_ceil(256).saturating_mul(256))
}
