//! llama4_text: chunked attention, experts in every n-th layer.

use super::blocks::{Block, Moe, Norm, Window};
use super::decoder::{Defaults, Dimensions, Parts, Request, Stack};
use super::sparse::{ACTIVE, COUNT};
use crate::model::config::{Result, Section};
use crate::model::inventory::Role;

/// llama4_text: chunked attention in three layers of four, experts in every n-th layer.
pub fn llama4(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([202_048, 5120, 8192, 48, 40, 8, 128, 131_072], false);
    let mut d = Dimensions::read(c, &default)?;
    let bias = c.bool("attention_bias", false)?;
    let attention = d.attention().biases(bias, bias);
    let moe = Moe {
        hidden: d.hidden,
        experts: c.int(COUNT, 16)?,
        active: c.int(ACTIVE, 1)?,
        width: d.intermediate,
        router_bias: false,
        expert_bias: false,
    };
    (d.experts, d.active_experts, d.expert_width) = (moe.experts, moe.active, moe.width);
    let dense_width = c.int("intermediate_size_mlp", 16384)?;
    let step = c.divisor("interleave_moe_layer_step", 1)?;
    let listed = c.ints("moe_layers")?;
    let chunk = c.int_opt("attention_chunk_size")?.or(if c.has("attention_chunk_size") { None } else { Some(8192) });
    let interval = c.divisor("no_rope_layer_interval", 4)?;
    let types = c.strings("layer_types");
    let rotary = c.flags("no_rope_layers").filter(|list| !list.is_empty());
    let mut stack = Stack::new(c, d.clone(), &default, request)?;
    for index in 0..d.layers {
        let at = usize::try_from(index).unwrap_or(usize::MAX);
        let chunked = match (types.get(at), &rotary) {
            (Some(kind), _) => *kind == "chunked_attention",
            (None, Some(list)) => list.get(at).copied().unwrap_or(true),
            (None, None) => !(index + 1).is_multiple_of(interval),
        };
        let window = match chunk {
            Some(chunk) if chunked => Window::Chunked(chunk),
            _ => Window::Full,
        };
        let sparse = match &listed {
            Some(list) => list.contains(&index),
            None => (index + 1).is_multiple_of(step),
        };
        let block = Block::new().norm("input_layernorm", d.hidden).norm("post_attention_layernorm", d.hidden).attention(
            "self_attn",
            &attention,
            window,
        );
        stack.layer(if sparse {
            block.router("feed_forward.router", moe.experts, d.hidden, false).experts("feed_forward", &moe).gated(
                "feed_forward.shared_expert",
                Role::SharedExpert,
                d.hidden,
                d.intermediate,
                false,
            )
        } else {
            block.gated_mlp("feed_forward", d.hidden, dense_width, false)
        });
    }
    Ok(stack.finish(Norm::Weight, false))
}
