//! GLM families with plain attention: chatglm, glm, glm4, glm4_moe.

use super::blocks::{Moe, Norm, QkNorm};
use super::decoder::{Defaults, Dimensions, Parts, Request, Stack};
use super::dense::{Dense, Mlp, TWO_NORMS};
use crate::model::config::{Result, Section};
use crate::model::inventory::Role;

/// chatglm (chatglm2, chatglm3, glm-4-9b): a fused projection with bias, a fused gate and up projection.
pub fn chatglm(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([65024, 4096, 13696, 28, 32, 0, 128, 32768], false);
    let mut d = Dimensions::read(c, &default)?;
    // Grouped KV heads apply only with `multi_query_attention`.
    d.kv_heads = if c.bool("multi_query_attention", false)? { c.int("multi_query_group_num", 1)? } else { d.heads };
    d.vocab = c.int("padded_vocab_size|vocab_size", default.vocab)?;
    let linear_bias = c.bool("add_bias_linear", false)?;
    let norm = if c.bool("rmsnorm", true)? { Norm::Weight } else { Norm::WeightBias };
    let dense = Dense {
        attention: d.attention().biases(c.bool("add_qkv_bias", false)? || linear_bias, linear_bias),
        fused_qkv: true,
        mlp: Mlp::Fused,
        mlp_bias: linear_bias,
        norm,
        last_norm: if c.bool("post_layer_norm", true)? { norm } else { Norm::Bare },
        ..Dense::new(&d)
    };
    dense.build(c, d, &default, request)
}

/// glm: biases of queries, keys and values by default.
pub fn glm(c: Section<'_>, request: Request) -> Result<Parts> {
    glm_dense(c, request, TWO_NORMS)
}

/// glm4: norms after the sub-layers too.
pub fn glm4(c: Section<'_>, request: Request) -> Result<Parts> {
    glm_dense(c, request, &["input_layernorm", "post_attention_layernorm", "post_self_attn_layernorm", "post_mlp_layernorm"])
}

/// glm4v_text: biases of queries, keys and values always.
pub fn glm4v(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([151552, 4096, 13696, 40, 32, 2, 0, 32768], false);
    let d = Dimensions::read(c, &default)?;
    let norms = &["input_layernorm", "post_attention_layernorm", "post_self_attn_layernorm", "post_mlp_layernorm"];
    let dense = Dense { attention: d.attention().biases(true, false), mlp: Mlp::Fused, norms, ..Dense::new(&d) };
    dense.build(c, d, &default, request)
}

fn glm_dense(c: Section<'_>, request: Request, norms: &'static [&'static str]) -> Result<Parts> {
    let default = Defaults::of([151552, 4096, 13696, 40, 32, 2, 128, 131072], false);
    let d = Dimensions::read(c, &default)?;
    let dense = Dense { attention: d.attention().biases(c.bool("attention_bias", true)?, false), mlp: Mlp::Fused, norms, ..Dense::new(&d) };
    dense.build(c, d, &default, request)
}

/// glm4_moe: dense layers first, then routed and shared experts.
pub fn glm4_moe(c: Section<'_>, request: Request) -> Result<Parts> {
    glm4_moe_of(c, request, Defaults::of([151552, 4096, 10944, 46, 96, 8, 0, 131072], false), false)
}

/// glm4v_moe_text: other defaults, no normalised queries and keys.
pub fn glm4v_moe(c: Section<'_>, request: Request) -> Result<Parts> {
    glm4_moe_of(c, request, Defaults::of([151424, 4096, 10944, 46, 96, 8, 0, 65536], false), true)
}

fn glm4_moe_of(c: Section<'_>, request: Request, default: Defaults, vision: bool) -> Result<Parts> {
    let mut d = Dimensions::read(c, &default)?;
    let qk_norm = if !vision && c.bool("use_qk_norm", false)? { QkNorm::PerHead } else { QkNorm::Off };
    let dense = Dense { attention: d.attention().biases(c.bool("attention_bias", vision)?, false).qk_norm(qk_norm), ..Dense::new(&d) };
    let moe = Moe {
        hidden: d.hidden,
        experts: c.int("n_routed_experts|num_local_experts", 128)?,
        active: c.int("num_experts_per_tok", 8)?,
        width: c.int("moe_intermediate_size", 1408)?,
        router_bias: false,
        expert_bias: false,
    };
    let shared = moe.width.saturating_mul(c.int("n_shared_experts", 1)?);
    let first = c.int("first_k_dense_replace", 1)?;
    (d.experts, d.active_experts, d.expert_width) = (moe.experts, moe.active, moe.width);
    let (layers, width, hidden) = (d.layers, d.intermediate, d.hidden);
    let mut stack = Stack::new(c, d, &default, request)?;
    for index in 0..layers {
        stack.layer(if index < first {
            dense.layer(index, width)
        } else {
            dense.without_mlp(index).moe("mlp", &moe).gated("mlp.shared_experts", Role::SharedExpert, hidden, shared, false)
        });
    }
    Ok(stack.finish(Norm::Weight, false))
}
