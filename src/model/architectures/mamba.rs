//! State-space models: mamba, falcon_mamba, mamba2; and jamba, which adds attention and experts.

use super::blocks::{Block, Moe, Norm, Window};
use super::decoder::{Defaults, Dimensions, Parts, Request, Stack};
use super::mixers::{self, Mamba, Mamba2};
use super::sparse::{ACTIVE, COUNT};
use crate::model::config::{Result, Section};

/// mamba and falcon_mamba: one mixer and one norm a layer.
pub fn mamba(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([50280, 768, 1536, 32, 1, 0, 0, 0], true);
    let d = Dimensions::read(c, &default)?;
    let inner = match c.int_opt("intermediate_size|d_inner")? {
        Some(width) => width,
        None => d.hidden.saturating_mul(c.int("expand", 2)?),
    };
    let rank = if c.str("time_step_rank") == Some("auto") { None } else { c.int_opt("time_step_rank")? };
    let mamba = Mamba {
        hidden: d.hidden,
        inner,
        kernel: c.int("conv_kernel|d_conv", 4)?,
        state: c.int("state_size|d_state", 16)?,
        rank: rank.unwrap_or(d.hidden.div_ceil(16)),
        bias: c.bool("use_bias", false)?,
        conv_bias: c.bool("use_conv_bias", true)?,
    };
    let mut stack = Stack::new(c, d.clone(), &default, request)?;
    stack.layers(d.layers, &mixers::mamba1(Block::new().norm("norm", d.hidden), "mixer", &mamba));
    Ok(stack.finish(Norm::Weight, false))
}

/// mamba2.
pub fn mamba2(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([32768, 4096, 8192, 64, 128, 0, 64, 0], false);
    let d = Dimensions::read(c, &default)?;
    let mixer = Mamba2 {
        hidden: d.hidden,
        inner: d.hidden.saturating_mul(c.int("expand", 2)?),
        heads: c.int("num_heads", 128)?,
        head_dim: c.int("head_dim", 64)?,
        groups: c.int("n_groups", 8)?,
        state: c.int("state_size", 128)?,
        kernel: c.int("conv_kernel", 4)?,
        bias: c.bool("use_bias", false)?,
        conv_bias: c.bool("use_conv_bias", true)?,
        norm: true,
    };
    let mut stack = Stack::new(c, d.clone(), &default, request)?;
    stack.layers(d.layers, &mixers::mamba2(Block::new().norm("norm", d.hidden), "mixer", &mixer));
    Ok(stack.finish(Norm::Weight, false))
}

/// jamba: attention in every n-th layer, experts in every m-th.
pub fn jamba(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([65536, 4096, 14336, 32, 32, 8, 0, 262_144], false);
    let mut d = Dimensions::read(c, &default)?;
    let moe = Moe {
        hidden: d.hidden,
        experts: c.int(COUNT, 16)?,
        active: c.int(ACTIVE, 2)?,
        width: d.intermediate,
        router_bias: false,
        expert_bias: false,
    };
    (d.experts, d.active_experts, d.expert_width) = (moe.experts, moe.active, moe.width);
    let (attention_every, attention_at) = (c.divisor("attn_layer_period", 8)?, c.int("attn_layer_offset", 4)?);
    let (experts_every, experts_at) = (c.divisor("expert_layer_period", 2)?, c.int("expert_layer_offset", 1)?);
    let rank = if c.str("mamba_dt_rank") == Some("auto") { None } else { c.int_opt("mamba_dt_rank")? };
    let mamba = Mamba {
        hidden: d.hidden,
        inner: d.hidden.saturating_mul(c.int("mamba_expand", 2)?),
        kernel: c.int("mamba_d_conv", 4)?,
        state: c.int("mamba_d_state", 16)?,
        rank: rank.unwrap_or(d.hidden.div_ceil(16)),
        bias: c.bool("mamba_proj_bias", false)?,
        conv_bias: c.bool("mamba_conv_bias", true)?,
    };
    let mut stack = Stack::new(c, d.clone(), &default, request)?;
    for index in 0..d.layers {
        let block = Block::new().norm("input_layernorm", d.hidden).norm("pre_ff_layernorm", d.hidden);
        let block = if index % attention_every == attention_at {
            block.attention("self_attn", &d.attention(), Window::Full)
        } else {
            mixers::mamba1(block, "mamba", &mamba)
                .norm("mamba.dt_layernorm", mamba.rank)
                .norm("mamba.b_layernorm", mamba.state)
                .norm("mamba.c_layernorm", mamba.state)
        };
        let sparse = moe.experts > 1 && index % experts_every == experts_at;
        stack.layer(if sparse {
            block.moe("feed_forward", &moe)
        } else {
            block.gated_mlp("feed_forward", d.hidden, d.intermediate, false)
        });
    }
    Ok(stack.finish(Norm::Weight, false))
}
