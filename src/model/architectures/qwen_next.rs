//! Linear attention in three layers of four: qwen3_next, qwen3_5, qwen3_5_moe, kimi_linear.

use super::blocks::{Block, Moe, Norm, Window, mul};
use super::decoder::{Defaults, Dimensions, Parts, Request, Stack};
use super::deepseek::MlaDefaults;
use super::mixers::{self, DeltaNet};
use super::sparse::{ACTIVE, COUNT, Experts, Sparse};
use crate::model::config::{Result, Section};
use crate::model::inventory::Role;

/// qwen3_next: experts in every layer, with a gated shared one.
pub fn qwen3_next(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([151_936, 2048, 5632, 48, 16, 2, 256, 32768], false);
    let experts = Some(Experts { count: 512, active: 10, width: 512, shared: 512, dense_layers: 0 });
    gated(c, request, &default, experts)
}

/// qwen3_5_text: dense.
pub fn qwen3_5(c: Section<'_>, request: Request) -> Result<Parts> {
    gated(c, request, &Defaults::of([248_320, 4096, 12288, 32, 16, 4, 256, 32768], false), None)
}

/// qwen3_5_moe_text.
pub fn qwen3_5_moe(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([248_320, 2048, 0, 40, 16, 2, 256, 32768], false);
    gated(c, request, &default, Some(Experts { count: 256, active: 8, width: 512, shared: 512, dense_layers: 0 }))
}

fn gated(c: Section<'_>, request: Request, default: &Defaults, experts: Option<Experts>) -> Result<Parts> {
    let mut d = Dimensions::read(c, default)?;
    let net = DeltaNet {
        hidden: d.hidden,
        key_heads: c.int("linear_num_key_heads", 16)?,
        value_heads: c.int("linear_num_value_heads", 32)?,
        key_dim: c.int("linear_key_head_dim", 128)?,
        value_dim: c.int("linear_value_head_dim", 128)?,
        kernel: c.int("linear_conv_kernel_dim", 4)?,
    };
    let moe = match experts {
        Some(default) => Some(Moe {
            hidden: d.hidden,
            experts: c.int(COUNT, default.count)?,
            active: c.int(ACTIVE, default.active)?,
            width: c.int("moe_intermediate_size", default.width)?,
            router_bias: false,
            expert_bias: false,
        }),
        None => None,
    };
    if let Some(moe) = &moe {
        (d.experts, d.active_experts, d.expert_width) = (moe.experts, moe.active, moe.width);
    }
    let shared = c.int("shared_expert_intermediate_size", experts.map_or(0, |default| default.shared))?;
    let step = c.divisor("decoder_sparse_step", 1)?;
    let dense_layers = c.ints("mlp_only_layers")?.unwrap_or_default();
    let every = c.divisor("full_attention_interval", 4)?;
    let kinds = c.strings("layer_types");
    let bias = c.bool("attention_bias", false)?;
    let attention = d.attention();
    let wide = mul(d.heads, d.head_dim);
    let mut stack = Stack::new(c, d.clone(), default, request)?;
    for index in 0..d.layers {
        let named = usize::try_from(index).ok().and_then(|index| kinds.get(index));
        let full = named.map_or((index + 1).is_multiple_of(every), |kind| *kind == "full_attention");
        let block = Block::new().norm("input_layernorm", d.hidden).norm("post_attention_layernorm", d.hidden);
        let block = if full {
            // The query projection also gives the gate of the output.
            block
                .linear("self_attn.q_proj", Role::Attention, mul(wide, 2), d.hidden, bias)
                .linear("self_attn.k_proj", Role::Attention, mul(d.kv_heads, d.head_dim), d.hidden, bias)
                .linear("self_attn.v_proj", Role::Attention, mul(d.kv_heads, d.head_dim), d.hidden, bias)
                .linear("self_attn.o_proj", Role::Attention, d.hidden, wide, bias)
                .norm("self_attn.q_norm", d.head_dim)
                .norm("self_attn.k_norm", d.head_dim)
                .cache(attention.cache(Window::Full))
        } else {
            mixers::delta_net(block, "linear_attn", &net)
        };
        stack.layer(match &moe {
            Some(moe) if !dense_layers.contains(&index) && (index + 1).is_multiple_of(step) && moe.experts > 0 => block
                .moe("mlp", moe)
                .gated("mlp.shared_expert", Role::SharedExpert, d.hidden, shared, false)
                .param("mlp.shared_expert_gate", Role::Router, &[1, d.hidden]),
            _ => block.gated_mlp("mlp", d.hidden, d.intermediate, false),
        });
    }
    Ok(stack.finish(Norm::Weight, false))
}

/// kimi_linear: Kimi delta attention, latent attention in the listed layers (counted from 1).
pub fn kimi_linear(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([163_840, 2304, 9216, 27, 32, 0, 0, 1_048_576], false);
    let mut d = Dimensions::read(c, &default)?;
    let mla = MlaDefaults { q_rank: 0, kv_rank: 512, nope: 128, rope: 64, value: 128 }.read(c, &d)?;
    let sparse = Sparse::read(c, &mut d, Experts { count: 256, active: 8, width: 1024, shared: 1, dense_layers: 1 })?;
    let linear = c.section("linear_attn_config");
    let heads = if linear.has("num_heads") { linear.int("num_heads", 32)? } else { c.int("linear_num_heads", 32)? };
    let dim = if linear.has("head_dim") { linear.int("head_dim", 128)? } else { c.int("linear_head_dim", 128)? };
    let kernel =
        if linear.has("short_conv_kernel_size") { linear.int("short_conv_kernel_size", 4)? } else { c.int("linear_conv_kernel_dim", 4)? };
    let listed = linear.ints("full_attn_layers")?;
    let kinds = c.strings("layer_types");
    // This class never shares the embedding with the head.
    let mut stack = Stack::new(c, d.clone(), &default, Request { tied: Some(false), ..request })?;
    for index in 0..d.layers {
        let full = match (usize::try_from(index).ok().and_then(|index| kinds.get(index)), &listed) {
            (Some(kind), _) => *kind == "full_attention",
            (None, Some(list)) => list.contains(&(index + 1)),
            (None, None) => index > 0 && index.is_multiple_of(4),
        };
        let block = Block::new().norm("input_layernorm", d.hidden).norm("post_attention_layernorm", d.hidden);
        let block = if full {
            block.mla("self_attn", &mla).latent_cache(&mla)
        } else {
            mixers::kimi_delta(block, "self_attn", d.hidden, heads, dim, kernel)
        };
        stack.layer(sparse.add(block, index));
    }
    Ok(stack.finish(Norm::Weight, false))
}
