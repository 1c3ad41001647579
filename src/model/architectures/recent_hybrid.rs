//! Further recurrent decoders: olmo_hybrid, rwkv, zamba.

use super::blocks::mul;
use super::blocks::{Attention, Block, Norm, QkNorm, Window};
use super::decoder::{Defaults, Dimensions, Parts, Request, Stack};
use crate::model::config::{Result, Section};
use crate::model::inventory::Role;
use crate::model::kv_cache::Cache;

/// olmo_hybrid: gated delta nets with separate projections, and attention of the olmo3 form.
pub fn olmo_hybrid(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([100_352, 3840, 11008, 32, 30, 0, 0, 65536], false);
    let d = Dimensions::read(c, &default)?;
    let bias = c.bool("attention_bias", false)?;
    let attention = d.attention().biases(bias, bias).qk_norm(QkNorm::FullWidth);
    let (key_heads, value_heads) = (c.int("linear_num_key_heads", d.heads)?, c.int("linear_num_value_heads", d.heads)?);
    let key_dim = c.int("linear_key_head_dim", 96)?;
    let value_dim = c.int("linear_value_head_dim", mul(key_dim, 2))?;
    let kernel = c.int("linear_conv_kernel_dim", 4)?;
    let (keys, values) = (mul(key_heads, key_dim), mul(value_heads, value_dim));
    let kinds = c.strings("layer_types");
    let mut stack = Stack::new(c, d.clone(), &default, request)?;
    for index in 0..d.layers {
        let named = usize::try_from(index).ok().and_then(|index| kinds.get(index));
        let full = named.map_or((index + 1).is_multiple_of(4) || (d.layers < 4 && index + 1 == d.layers), |kind| *kind == "full_attention");
        let block = Block::new().norm("post_attention_layernorm", d.hidden).gated_mlp("mlp", d.hidden, d.intermediate, false);
        stack.layer(if full {
            block.norm("post_feedforward_layernorm", d.hidden).attention("self_attn", &attention, Window::Full)
        } else {
            [("q_proj", keys), ("k_proj", keys), ("v_proj", values), ("a_proj", value_heads), ("b_proj", value_heads), ("g_proj", values)]
                .iter()
                .fold(block.norm("input_layernorm", d.hidden), |block, (name, out)| {
                    block.linear(&format!("linear_attn.{name}"), Role::Mixer, *out, d.hidden, false)
                })
                .linear("linear_attn.o_proj", Role::Mixer, d.hidden, values, false)
                .conv("linear_attn.conv1d", Role::Mixer, &[mul(keys, 2).saturating_add(values), 1, kernel], false)
                .param("linear_attn.A_log", Role::Mixer, &[value_heads])
                .param("linear_attn.dt_bias", Role::Mixer, &[value_heads])
                .norm("linear_attn.o_norm", value_dim)
                .cache(Cache::State {
                    channels: mul(keys, 2).saturating_add(values),
                    kernel,
                    recurrent: mul(value_heads, mul(key_dim, value_dim)),
                })
        });
    }
    Ok(stack.finish(Norm::Weight, false))
}

/// rwkv (fourth generation): time and channel mixing, no attention.
pub fn rwkv(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([50277, 4096, 0, 32, 1, 0, 0, 1024], false);
    let d = Dimensions::read(c, &default)?;
    let wide = c.int("attention_hidden_size", d.hidden)?;
    let mut stack = Stack::new(c, d.clone(), &default, request)?;
    for index in 0..d.layers {
        let block = Block::new()
            .when(index == 0, |block| block.layer_norm("pre_ln", d.hidden))
            .layer_norm("ln1", d.hidden)
            .layer_norm("ln2", d.hidden);
        let mixes = [
            "attention.time_mix_key",
            "attention.time_mix_value",
            "attention.time_mix_receptance",
            "feed_forward.time_mix_key",
            "feed_forward.time_mix_receptance",
        ];
        let block = mixes.iter().fold(block, |block, name| block.param(name, Role::Mixer, &[1, 1, d.hidden]));
        let block = block.param("attention.time_decay", Role::Mixer, &[wide]).param("attention.time_first", Role::Mixer, &[wide]);
        let block = ["key", "value", "receptance"]
            .iter()
            .fold(block, |block, name| block.linear(&format!("attention.{name}"), Role::Mixer, wide, d.hidden, false));
        stack.layer(
            block
                .linear("attention.output", Role::Mixer, d.hidden, wide, false)
                .linear("feed_forward.key", Role::Mlp, d.intermediate, d.hidden, false)
                .linear("feed_forward.receptance", Role::Mlp, d.hidden, d.hidden, false)
                .linear("feed_forward.value", Role::Mlp, d.hidden, d.intermediate, false)
                .cache(Cache::State { channels: d.hidden, kernel: 2, recurrent: mul(wide, 3) }),
        );
    }
    Ok(stack.finish(Norm::WeightBias, false))
}

/// zamba: Mamba layers with several heads, one shared attention block used at regular distance.
pub fn zamba(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([32000, 3712, 14848, 76, 16, 0, 0, 4096], true);
    let mut d = Dimensions::read(c, &default)?;
    d.kv_heads = c.int("num_key_value_heads", if c.has("num_key_value_heads") { d.heads } else { 16 })?;
    let wide = c.int("attention_hidden_size", mul(d.hidden, 2))?;
    d.head_dim = c.int("attention_head_dim", mul(2, d.hidden) / d.heads)?;
    let inner = mul(d.hidden, c.int("mamba_expand", 2)?);
    let (heads, state) = (c.divisor("n_mamba_heads", 2)?, c.int("mamba_d_state", 16)?);
    let rank = if c.str("mamba_dt_rank") == Some("auto") { None } else { c.int_opt("mamba_dt_rank")? }.unwrap_or(d.hidden.div_ceil(16));
    let (conv_bias, bias, kernel) = (c.bool("mamba_conv_bias", true)?, c.bool("mamba_proj_bias", false)?, c.int("mamba_d_conv", 4)?);
    let own = inner / heads;
    let mamba = Block::new()
        .norm("input_layernorm", d.hidden)
        .linear("mamba.in_proj", Role::Mixer, mul(inner, 2), d.hidden, bias)
        .conv("mamba.conv1d", Role::Mixer, &[inner, 1, kernel], conv_bias)
        .param("mamba.x_proj_weight", Role::Mixer, &[heads, mul(state, 2).saturating_add(rank), own])
        .param("mamba.dt_proj_weight", Role::Mixer, &[heads, own, rank])
        .param("mamba.dt_proj_bias", Role::Mixer, &[heads, own])
        .param("mamba.A_log", Role::Mixer, &[heads, own, state])
        .param("mamba.D", Role::Mixer, &[heads, own])
        .linear("mamba.out_proj", Role::Mixer, d.hidden, inner, bias)
        .cache(Cache::State { channels: inner, kernel, recurrent: mul(inner, state) });
    let kinds = c.strings("layers_block_type");
    let (every, offset) = (c.divisor("attn_layer_period", 6)?, c.int("attn_layer_offset", 4)?);
    let hybrid = |index: u64| match usize::try_from(index).ok().and_then(|index| kinds.get(index)) {
        Some(kind) => *kind == "hybrid",
        None => index == 2 || (index > 2 && (index - 3) % every == offset),
    };
    let attention = Attention { hidden: wide, ..d.attention() };
    let shared = Block::new()
        .norm("input_layernorm", wide)
        .norm("pre_ff_layernorm", d.hidden)
        .linear("self_attn.q_proj", Role::Attention, mul(d.heads, d.head_dim), wide, false)
        .linear("self_attn.k_proj", Role::Attention, mul(d.kv_heads, d.head_dim), wide, false)
        .linear("self_attn.v_proj", Role::Attention, mul(d.kv_heads, d.head_dim), wide, false)
        .linear("self_attn.o_proj", Role::Attention, d.hidden, mul(d.heads, d.head_dim), false)
        .gated_mlp("feed_forward", d.hidden, d.intermediate, false);
    let mut stack = Stack::new(c, d.clone(), &default, request)?;
    stack.layer_at("model.shared_transformer.{i}", 0, shared);
    for index in 0..d.layers {
        let join = |block: Block| block.linear("linear", Role::Attention, d.hidden, d.hidden, false).cache(attention.cache(Window::Full));
        stack.layer(mamba.clone().when(hybrid(index), join));
    }
    if !c.bool("tie_word_embeddings", true)? {
        stack.inexact("with `tie_word_embeddings` off, newer classes also keep a copy of the shared blocks for each layer that uses them");
    }
    Ok(stack.finish(Norm::Weight, false))
}
