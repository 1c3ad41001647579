//! lfm2, lfm2_moe and lfm3: short convolutions and attention.

use super::blocks::{Block, Moe, Norm, QkNorm, Window};
use super::decoder::{Defaults, Dimensions, Parts, Request, Stack, windows};
use super::mixers;
use super::sparse::{ACTIVE, COUNT};
use crate::model::config::{Result, Section};
use crate::model::inventory::Role;

/// lfm2: short convolutions, and attention in the listed layers.
pub fn lfm2(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([65536, 2560, 12288, 32, 32, 8, 0, 128_000], true);
    let mut d = Dimensions::read(c, &default)?;
    d.intermediate = c.int("block_ff_dim|intermediate_size", 12288)?;
    if c.bool("block_auto_adjust_ff_dim", true)? {
        let multiple = c.divisor("block_multiple_of", 256)?;
        let factor = c.float("block_ffn_dim_multiplier", 1.0)?;
        let scaled = (d.intermediate.saturating_mul(2) / 3) as f64 * factor;
        if !(0.0..1e15).contains(&scaled) {
            return Err(c.wrong("block_ffn_dim_multiplier", "gives no usable width of the feed-forward layers".to_owned()));
        }
        d.intermediate = (scaled as u64).div_ceil(multiple).saturating_mul(multiple);
    }
    lfm2_layers(c, request, default, d, None, 0)
}

/// lfm2_moe: dense layers first, then routed experts.
pub fn lfm2_moe(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([65536, 2048, 7168, 32, 32, 8, 0, 128_000], true);
    let mut d = Dimensions::read(c, &default)?;
    let moe = Moe {
        hidden: d.hidden,
        experts: c.int(COUNT, 32)?,
        active: c.int(ACTIVE, 4)?,
        width: c.int("moe_intermediate_size", 1792)?,
        router_bias: false,
        expert_bias: false,
    };
    (d.experts, d.active_experts, d.expert_width) = (moe.experts, moe.active, moe.width);
    lfm2_layers(c, request, default, d, Some(moe), c.int("num_dense_layers", 2)?)
}

fn lfm2_layers(
    c: Section<'_>,
    request: Request,
    mut default: Defaults,
    d: Dimensions,
    moe: Option<Moe>,
    dense_layers: u64,
) -> Result<Parts> {
    default.tied = c.bool("tie_embedding", default.tied)?;
    let kinds = c.strings("layer_types");
    let listed = c.ints("full_attn_idxs")?;
    let (kernel, bias) = (c.int("conv_L_cache", 3)?, c.bool("conv_bias", false)?);
    let attention = d.attention().qk_norm(QkNorm::PerHead);
    let mut stack = Stack::new(c, d.clone(), &default, request)?;
    for index in 0..d.layers {
        let full = match (kinds.is_empty(), &listed) {
            (false, _) => super::hybrid::is_attention(&kinds, index, false),
            (true, Some(list)) => list.contains(&index),
            (true, None) => true,
        };
        let block = Block::new().norm("operator_norm", d.hidden).norm("ffn_norm", d.hidden);
        let block = if full {
            block.attention_named("self_attn", &attention, ["q_proj", "k_proj", "v_proj", "out_proj"]).cache(attention.cache(Window::Full))
        } else {
            mixers::short_conv(block, "conv", d.hidden, kernel, bias)
        };
        stack.layer(match &moe {
            Some(moe) if index >= dense_layers => block.moe("feed_forward", moe),
            _ => block.gated("feed_forward", Role::Mlp, d.hidden, d.intermediate, false),
        });
    }
    Ok(stack.finish(Norm::Weight, false))
}

/// lfm3: gated attention, some of it in windows, and norms around both halves of a layer.
pub fn lfm3(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([128_000, 2048, 7680, 24, 16, 4, 128, 128_000], true);
    let d = Dimensions::read(c, &default)?;
    let (kernel, conv_bias, bias) = (c.int("conv_L_cache", 7)?, c.bool("conv_bias", false)?, c.bool("attention_bias", false)?);
    let window = if c.has("sliding_window") { c.int_opt("sliding_window")? } else { Some(256) };
    let kinds = c.strings("layer_types");
    let windows = windows(c, d.layers, window, |index| index.is_multiple_of(4));
    let attention = d.attention().biases(bias, bias).qk_norm(QkNorm::PerHead);
    let sandwich = c.bool("use_sandwich_norm", true)?;
    let gated = c.bool("use_attention_gate", true)?;
    let mut stack = Stack::new(c, d.clone(), &default, request)?;
    for (index, window) in (0u64..).zip(windows) {
        let named = usize::try_from(index).ok().and_then(|index| kinds.get(index));
        let convolves = named.map_or(index == 0 || !index.is_multiple_of(2), |kind| *kind == "conv");
        let block = Block::new().norm("operator_norm", d.hidden).norm("ffn_norm", d.hidden);
        let block = block.when(sandwich, |block| block.norm("post_operator_norm", d.hidden).norm("post_ffn_norm", d.hidden));
        let block = if convolves {
            mixers::short_conv(block, "conv", d.hidden, kernel, conv_bias)
        } else {
            block
                .attention("self_attn", &attention, window)
                .when(gated, |block| block.linear("self_attn.g_proj", Role::Attention, d.heads, d.hidden, false))
        };
        stack.layer(block.gated("feed_forward", Role::Mlp, d.hidden, d.intermediate, false));
    }
    Ok(stack.finish(Norm::Weight, false))
}
