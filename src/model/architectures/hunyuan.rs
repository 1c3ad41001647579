//! Routed experts beside shared ones, from Chinese laboratories: hunyuan, ernie4_5_moe.

use super::blocks::{Attention, Block, Moe, Norm, QkNorm, Window};
use super::decoder::{Defaults, Dimensions, Parts, Request, Stack};
use super::dense::Dense;
use super::sparse::{ACTIVE, COUNT, SHARED};
use crate::model::config::{Result, Section};
use crate::model::inventory::Role;

/// ernie4_5_moe: dense layers first, the router's bias is a parameter of its own.
pub fn ernie_moe(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([103_424, 2560, 12288, 28, 20, 4, 0, 131_072], true);
    let mut d = Dimensions::read(c, &default)?;
    let bias = c.bool("use_bias", false)?;
    let dense = Dense { attention: d.attention().biases(bias, bias), mlp_bias: bias, ..Dense::new(&d) };
    let width = c.int("moe_intermediate_size", 1536)?;
    let moe =
        Moe { hidden: d.hidden, experts: c.int(COUNT, 64)?, active: c.int(ACTIVE, 6)?, width, router_bias: false, expert_bias: false };
    (d.experts, d.active_experts, d.expert_width) = (moe.experts, moe.active, moe.width);
    let shared = width.saturating_mul(c.int(SHARED, 2)?);
    let (start, interval) = (c.int("moe_layer_start_index", 1)?, c.divisor("moe_layer_interval", 1)?);
    // -1 stands for the last layer.
    let end = c.int("moe_layer_end_index", d.layers).unwrap_or(d.layers);
    let mut stack = Stack::new(c, d.clone(), &default, request)?;
    for index in 0..d.layers {
        let sparse = (index + 1).is_multiple_of(interval) && index >= start && index <= end;
        stack.layer(if sparse {
            dense
                .without_mlp(index)
                .moe("mlp", &moe)
                .param("mlp.moe_statics.e_score_correction_bias", Role::Router, &[1, moe.experts])
                .when(shared > 0, |block| block.gated("mlp.shared_experts", Role::SharedExpert, d.hidden, shared, bias))
        } else {
            dense.layer(index, d.intermediate)
        });
    }
    Ok(stack.finish(Norm::Weight, bias))
}

/// hunyuan and hunyuan_v1_moe: a shared expert beside the routed ones; with `use_cla` only every
/// n-th layer has keys and values of its own.
pub fn hunyuan_moe(c: Section<'_>, request: Request) -> Result<Parts> {
    let remote = c.str("model_type") == Some("hunyuan");
    let default = Defaults::of([290_943, 4096, 11008, 32, 32, 0, 0, 2048], remote);
    let mut d = Dimensions::read(c, &default)?;
    let first = |names: &str, default: u64| -> Result<u64> { Ok(c.ints(names)?.and_then(|list| list.first().copied()).unwrap_or(default)) };
    let width = match first("moe_intermediate_size", 0)? {
        0 => d.intermediate,
        width => width,
    };
    let moe = Moe {
        hidden: d.hidden,
        experts: c.int("num_experts", 1)?,
        active: first("moe_topk", 1)?,
        width,
        router_bias: false,
        expert_bias: false,
    };
    (d.experts, d.active_experts, d.expert_width) = (moe.experts, moe.active, moe.width);
    let shared_default = 1;
    let shared = if c.bool("use_mixed_mlp_moe", true)? { width.saturating_mul(first("num_shared_expert", shared_default)?) } else { 0 };
    let share = if c.bool("use_cla", false)? { c.divisor("cla_share_factor", 2)? } else { 1 };
    let bias = c.bool("attention_bias", false)?;
    let attention = d.attention().biases(bias, bias).qk_norm(if c.bool("use_qk_norm", true)? { QkNorm::PerHead } else { QkNorm::Off });
    let mut stack = Stack::new(c, d.clone(), &default, request)?;
    for index in 0..d.layers {
        let block = Block::new().norm("input_layernorm", d.hidden).norm("post_attention_layernorm", d.hidden);
        let block = if index.is_multiple_of(share) {
            block.attention("self_attn", &attention, Window::Full)
        } else {
            without_kv(block, &attention)
        };
        let block = block.moe("mlp", &moe);
        stack.layer(block.when(shared > 0, |block| block.gated("mlp.shared_mlp", Role::SharedExpert, d.hidden, shared, false)));
    }
    Ok(stack.finish(Norm::Weight, false))
}

/// Attention that uses the keys and values of an earlier layer.
fn without_kv(block: Block, a: &Attention) -> Block {
    let wide = a.heads.saturating_mul(a.head_dim);
    let block = block.linear("self_attn.q_proj", Role::Attention, wide, a.hidden, a.qkv_bias).linear(
        "self_attn.o_proj",
        Role::Attention,
        a.hidden,
        wide,
        a.out_bias,
    );
    block.when(a.qk_norm == QkNorm::PerHead, |block| block.norm("self_attn.q_norm", a.head_dim))
}
