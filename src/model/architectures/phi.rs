//! Phi families: phi, phi3, phi3small, phimoe.

use super::blocks::{Moe, Norm, QkNorm, Window};
use super::decoder::{Defaults, Dimensions, Parts, Request, Stack, windows};
use super::dense::{Dense, Mlp};
use crate::model::config::{Result, Section};
use crate::model::inventory::Role;

/// phi: biases everywhere, also of the head; one LayerNorm a layer.
pub fn phi(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([51200, 2048, 8192, 24, 32, 0, 0, 2048], false);
    let mut d = Dimensions::read(c, &default)?;
    // The first files of this family leave the width out and mean four times the hidden one.
    if c.has("n_embd") && c.int_opt("intermediate_size|n_inner")?.is_none() {
        d.intermediate = d.hidden.saturating_mul(4);
    }
    let qk_norm = if c.bool("qk_layernorm", false)? { QkNorm::PerHeadBias } else { QkNorm::Off };
    let dense = Dense {
        attention: d.attention().biases(true, true).qk_norm(qk_norm),
        mlp: Mlp::Plain("fc1", "fc2"),
        mlp_bias: true,
        norm: Norm::WeightBias,
        last_norm: Norm::WeightBias,
        norms: &["input_layernorm"],
        head_bias: true,
        ..Dense::new(&d)
    };
    dense.build(c, d, &default, request)
}

/// phi3 (phi-3, phi-3.5, phi-4, phi-4-mini): fused projections, a window only where the file names one.
pub fn phi3(c: Section<'_>, request: Request) -> Result<Parts> {
    phi3_of(c, request, Defaults::of([32064, 3072, 8192, 32, 32, 0, 0, 4096], false))
}

/// The language model of phi4_multimodal: other defaults.
pub fn phi4_multimodal(c: Section<'_>, request: Request) -> Result<Parts> {
    phi3_of(c, request, Defaults::of([200_064, 3072, 8192, 32, 32, 8, 0, 131_072], false))
}

fn phi3_of(c: Section<'_>, request: Request, default: Defaults) -> Result<Parts> {
    let d = Dimensions::read(c, &default)?;
    let windows: Vec<Window> = windows(c, d.layers, c.int_opt("sliding_window")?, |_| true);
    Dense { fused_qkv: true, mlp: Mlp::Fused, windows, ..Dense::new(&d) }.build(c, d, &default, request)
}

/// phi3small (remote code): biases everywhere, LayerNorms with bias, a fused gate and up projection.
pub fn phi3small(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([100352, 4096, 14336, 32, 32, 8, 0, 8192], true);
    let mut d = Dimensions::read(c, &default)?;
    d.intermediate = c.int("ff_intermediate_size|intermediate_size", 14336)?;
    let dense = Dense {
        attention: d.attention().biases(true, true),
        fused_qkv: true,
        mlp: Mlp::Fused,
        mlp_bias: true,
        norm: Norm::WeightBias,
        last_norm: Norm::WeightBias,
        ..Dense::new(&d)
    };
    dense.build(c, d, &default, request)
}

/// phimoe: biased LayerNorms, routed experts, biases of attention and head by flags.
pub fn phimoe(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([32064, 4096, 6400, 32, 32, 8, 0, 131072], false);
    let mut d = Dimensions::read(c, &default)?;
    let (experts, active) = (c.int("num_local_experts", 16)?, c.int("num_experts_per_tok", 2)?);
    (d.experts, d.active_experts, d.expert_width) = (experts, active, d.intermediate);
    let bias = c.bool("attention_bias", false)?;
    let window = c.int_opt("sliding_window")?;
    let dense = Dense {
        attention: d.attention().biases(bias, bias),
        norm: Norm::WeightBias,
        windows: windows(c, d.layers, window, |_| true),
        ..Dense::new(&d)
    };
    let moe = Moe { hidden: d.hidden, experts, active, width: d.intermediate, router_bias: false, expert_bias: false };
    let layers = d.layers;
    let mut stack = Stack::new(c, d, &default, request)?;
    for index in 0..layers {
        stack.layer(dense.without_mlp(index).moe("block_sparse_moe", &moe));
    }
    Ok(stack.finish(Norm::WeightBias, c.bool("lm_head_bias", false)?))
}

/// Small vectors and projector of phi3_v, beside its CLIP tower.
pub fn phi3_v_projector(hidden: u64, image: u64) -> super::blocks::Block {
    let wide = image.saturating_mul(4);
    super::blocks::Block::new()
        .param("vision_embed_tokens.glb_GN", Role::Scale, &[1, 1, wide])
        .param("vision_embed_tokens.sub_GN", Role::Scale, &[1, 1, 1, wide])
        .linear("vision_embed_tokens.img_projection.0", Role::Projector, hidden, wide, true)
        .linear("vision_embed_tokens.img_projection.2", Role::Projector, hidden, hidden, true)
}
