//! Further recurrent decoders: olmo_hybrid, rwkv, zamba, lara_mini, bailing_hybrid (and bailing_moe,
//! its kin without recurrence), zaya.

use super::blocks::mul;
use super::blocks::{Attention, Block, Norm, QkNorm, Window};
use super::decoder::{Defaults, Dimensions, Parts, Request, Stack, windows};
use super::deepseek::MlaDefaults;
use super::mixers::{self, DeltaNet};
use super::sparse::{Experts, Sparse};
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
    let key_dim = c.int("linear_key_head_dim", mul(d.hidden, 3) / 4 / d.heads)?;
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

/// lara_mini: gated delta nets, windows and full attention in turn, experts in every layer.
pub fn lara_mini(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([151_936, 1024, 0, 34, 16, 4, 128, 131_072], true);
    let mut d = Dimensions::read(c, &default)?;
    let net = DeltaNet {
        hidden: d.hidden,
        key_heads: c.int("linear_num_key_heads", 8)?,
        value_heads: c.int("linear_num_value_heads", 16)?,
        key_dim: c.int("linear_key_head_dim", 128)?,
        value_dim: c.int("linear_value_head_dim", 128)?,
        kernel: c.int("linear_conv_kernel_dim", 4)?,
    };
    let bias = c.bool("attention_bias", false)?;
    let windows = windows(c, d.layers, Some(c.int("sliding_window", 512)?), |index| matches!(index % 5, 1 | 4));
    let attention = d.attention().biases(bias, bias).qk_norm(QkNorm::PerHead);
    let mut sparse = Sparse::read(c, &mut d, Experts { count: 128, active: 4, width: 512, shared: 0, dense_layers: 0 })?;
    sparse.shared = c.int("shared_expert_intermediate_size", 512)?;
    let kinds = c.strings("layer_types");
    let mut stack = Stack::new(c, d.clone(), &default, request)?;
    for (index, window) in (0u64..).zip(windows) {
        let named = usize::try_from(index).ok().and_then(|index| kinds.get(index));
        let linear = named.map_or(matches!(index % 5, 0 | 2), |kind| *kind == "linear_attention");
        let block = Block::new().norm("input_layernorm", d.hidden).norm("post_attention_layernorm", d.hidden);
        let block = if linear { mixers::delta_net(block, "linear_attn", &net) } else { block.attention("self_attn", &attention, window) };
        stack.layer(sparse.add(block, index));
    }
    Ok(stack.finish(Norm::Weight, false))
}

/// bailing_moe and bailing_moe_v2 (Ling, Ring; remote code): fused projections, routed and shared experts.
pub fn bailing_moe(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([30592, 1024, 0, 24, 16, 0, 0, 16384], false);
    let mut d = Dimensions::read(c, &default)?;
    let second = c.str("model_type") == Some("bailing_moe_v2") || c.strings("architectures").iter().any(|class| class.contains("V2"));
    let norm = if c.bool("use_qk_norm", second)? { QkNorm::PerHead } else { QkNorm::Off };
    let attention = d.attention().biases(c.bool("use_qkv_bias", false)?, c.bool("use_bias", false)?).qk_norm(norm);
    let mut sparse = Sparse::read(c, &mut d, Experts { count: 16, active: 2, width: 0, shared: 0, dense_layers: 0 })?;
    if let Some(width) = c.int_opt("moe_shared_expert_intermediate_size")? {
        sparse.shared = mul(width, c.int("num_shared_experts", 0)?);
    }
    let mut stack = Stack::new(c, d.clone(), &default, request)?;
    for index in 0..d.layers {
        let block = Block::new().norm("input_layernorm", d.hidden).norm("post_attention_layernorm", d.hidden);
        let block = block.fused_attention("attention", &attention, ["query_key_value", "dense"], Window::Full);
        let block = block.when(norm == QkNorm::PerHead, |block| {
            block.norm("attention.query_layernorm", d.head_dim).norm("attention.key_layernorm", d.head_dim)
        });
        stack.layer(sparse.add(block, index));
    }
    if c.int("num_nextn_predict_layers", 0)? > 0 {
        stack.note("the checkpoint may hold layers for multi-token prediction beside these, which are not counted");
    }
    Ok(stack.finish(Norm::Weight, false))
}

/// bailing_hybrid: delta attention with a full-rank gate, latent attention in the last layer of a group.
pub fn bailing_hybrid(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([157_184, 2560, 6144, 42, 32, 0, 128, 262_144], false);
    let mut d = Dimensions::read(c, &default)?;
    let mla = MlaDefaults { q_rank: 0, kv_rank: 512, nope: 128, rope: 64, value: 128 }.read(c, &d)?;
    let sparse = Sparse::read(c, &mut d, Experts { count: 512, active: 8, width: 768, shared: 1, dense_layers: 2 })?;
    let every = c.divisor("layer_group_size", 6)?;
    let kernel = c.int("short_conv_kernel_size", 4)?;
    let kinds = c.strings("layer_types");
    // The width of a head is that of delta attention, or, in files that the class wrote, of its own key.
    let dim = c.int("linear_head_dim", d.head_dim)?;
    let wide = mul(d.heads, dim);
    // This class never shares the embedding with the head.
    let mut stack = Stack::new(c, d.clone(), &default, Request { tied: Some(false), ..request })?;
    for index in 0..d.layers {
        let named = usize::try_from(index).ok().and_then(|index| kinds.get(index));
        let full = named.map_or((index + 1).is_multiple_of(every), |kind| *kind == "full_attention");
        let block = Block::new().norm("input_layernorm", d.hidden).norm("post_attention_layernorm", d.hidden);
        let block = if full {
            block.mla("self_attn", &mla).latent_cache(&mla).linear("self_attn.g_proj", Role::Attention, d.heads, d.hidden, false)
        } else {
            ["q_proj", "k_proj", "v_proj", "forget_gate.f_proj", "g_proj"]
                .iter()
                .fold(block, |block, name| block.linear(&format!("self_attn.{name}"), Role::Mixer, wide, d.hidden, false))
                .conv("self_attn.conv1d", Role::Mixer, &[mul(wide, 3), 1, kernel], false)
                .param("self_attn.forget_gate.A_log", Role::Mixer, &[d.heads])
                .param("self_attn.forget_gate.dt_bias", Role::Mixer, &[wide])
                .linear("self_attn.b_proj", Role::Mixer, d.heads, d.hidden, false)
                .norm("self_attn.o_norm", dim)
                .linear("self_attn.o_proj", Role::Mixer, d.hidden, wide, false)
                .cache(Cache::State { channels: mul(wide, 3), kernel, recurrent: mul(wide, dim) })
        };
        stack.layer(sparse.add(block, index));
    }
    stack.note("the checkpoint may hold layers for multi-token prediction beside these, which are not counted");
    Ok(stack.finish(Norm::Weight, false))
}

/// zaya: attention on convolved queries and keys, experts behind a small network as router, scaled residuals.
pub fn zaya(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([262_272, 2048, 0, 40, 8, 2, 128, 131_072], true);
    let mut d = Dimensions::read(c, &default)?;
    let sparse = Sparse::read(c, &mut d, Experts { count: 16, active: 1, width: 2048, shared: 0, dense_layers: 0 })?;
    let bias = c.bool("attention_bias", false)?;
    let (narrow, first, second) = (c.int("router_hidden_size", 256)?, c.int("cca_time0", 2)?, c.int("cca_time1", 2)?);
    let attention = d.attention();
    let (wide, keys) = (mul(d.heads, d.head_dim), mul(d.kv_heads, d.head_dim));
    let channels = wide.saturating_add(keys);
    let windows = windows(c, d.layers, c.int_opt("sliding_window")?, |_| false);
    let half = |block: Block, name: &str| block.linear(&format!("self_attn.qkv_proj.{name}"), Role::Attention, keys / 2, d.hidden, bias);
    let mut stack = Stack::new(c, d.clone(), &default, request)?;
    for (index, window) in (0u64..).zip(windows) {
        let block = Block::new()
            .norm("input_layernorm", d.hidden)
            .norm("post_attention_layernorm", d.hidden)
            .linear("self_attn.qkv_proj.q_proj", Role::Attention, wide, d.hidden, bias)
            .linear("self_attn.qkv_proj.k_proj", Role::Attention, keys, d.hidden, bias);
        let block = half(half(block, "v_proj_current"), "v_proj_delayed")
            .linear("self_attn.o_proj", Role::Attention, d.hidden, wide, bias)
            .conv("self_attn.qkv_proj.conv_qk_depthwise", Role::Mixer, &[channels, 1, first], true)
            .conv("self_attn.qkv_proj.conv_qk_grouped", Role::Mixer, &[channels, d.head_dim, second], true)
            .param("self_attn.qk_norm.temp", Role::Scale, &[d.kv_heads])
            .cache(attention.cache(window))
            .cache(Cache::State { channels, kernel: first.saturating_add(second).saturating_sub(2), recurrent: d.hidden })
            .when(index > 0, |block| block.param("mlp.gate.router_states_scale", Role::Router, &[narrow]))
            .linear("mlp.gate.down_proj", Role::Router, narrow, d.hidden, true)
            .norm("mlp.gate.router_mlp.norm", narrow)
            .linear("mlp.gate.router_mlp.fc1", Role::Router, narrow, narrow, true)
            .linear("mlp.gate.router_mlp.fc2", Role::Router, narrow, narrow, true)
            .linear("mlp.gate.router_mlp.out_proj", Role::Router, sparse.moe.experts.saturating_add(1), narrow, false)
            .experts("mlp", &sparse.moe);
        stack.layer(
            ["post_attention_residual_scale", "post_mlp_residual_scale"]
                .iter()
                .fold(block, |block, name| block.param(name, Role::Scale, &[4, d.hidden])),
        );
    }
    stack.once("model", Block::new().param("input_hidden_states", Role::Scale, &[2, d.hidden]));
    let head_bias = c.bool("lm_head_bias", false)?;
    Ok(stack.finish(Norm::Weight, head_bias))
}

#[cfg(test)]
mod tests {
    use crate::model;

    #[test]
    fn ling_has_the_published_size() {
        let lite = r#"{"architectures": ["BailingMoeForCausalLM"], "model_type": "bailing_moe", "first_k_dense_replace": 0, "hidden_size": 2048,
            "intermediate_size": 1408, "moe_intermediate_size": 1408, "num_experts": 64, "num_shared_experts": 2, "num_attention_heads": 16,
            "num_experts_per_tok": 6, "num_hidden_layers": 28, "num_key_value_heads": 4, "tie_word_embeddings": false, "vocab_size": 126464}"#;
        let model = model::read(lite).unwrap();
        // As the model's card says: 16.8 billion, 2.75 billion of them active.
        assert_eq!(model.total() / 100_000_000, 168);
        assert_eq!(model.active() / 10_000_000, 275);
    }
}
