//! Gemma families whose layers differ: gemma3n, gemma4. Last layers may share keys and values.

use super::blocks::{Block, Moe, Norm, Window, mul};
use super::decoder::{Defaults, Dimensions, Parts, Request, Stack};
use super::sparse::COUNT;
use crate::model::config::{Result, Section};
use crate::model::inventory::Role;
use crate::model::kv_cache::Cache;

/// gemma3n_text: alternating updates, learned augmented residuals, per-layer embeddings.
///
/// Checkpoints hold keys and values also for the layers that share those of earlier ones; these
/// are counted, as they are stored, but keep nothing in the cache.
pub fn gemma3n(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([262_400, 2048, 16384, 35, 8, 2, 256, 32768], true);
    let d = Dimensions::read(c, &default)?;
    let widths = c.ints("intermediate_size")?.unwrap_or_default();
    let (inputs, rank) = (c.int("altup_num_inputs", 4)?, c.int("laurel_rank", 64)?);
    let per_layer = c.int("hidden_size_per_layer_input", 256)?;
    let rows = c.int("vocab_size_per_layer_input", 262_144)?;
    let shared = c.int("num_kv_shared_layers", 15)?;
    let window = c.int("sliding_window", 512)?;
    let kinds = c.strings("layer_types");
    let bias = c.bool("attention_bias", false)?;
    let attention = d.attention().biases(bias, bias).qk_norm(super::blocks::QkNorm::PerHead);
    let embedding = Block::new()
        .embedding("embed_tokens", Role::Embedding, d.vocab, d.hidden)
        .embedding("embed_tokens_per_layer", Role::Position, rows, mul(d.layers, per_layer))
        .linear("per_layer_model_projection", Role::Projector, mul(d.layers, per_layer), d.hidden, false)
        .norm("per_layer_projection_norm", per_layer);
    let mut stack = Stack::with_embedding(c, d.clone(), true, request, embedding)?;
    for index in 0..d.layers {
        let at = usize::try_from(index).unwrap_or(usize::MAX);
        let slides = kinds.get(at).map_or(!(index + 1).is_multiple_of(5), |kind| kind.contains("sliding"));
        let width = widths.get(at).or(widths.last()).copied().unwrap_or(d.intermediate);
        let keeps = index < d.layers.saturating_sub(shared);
        let block = ["input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm"]
            .iter()
            .fold(Block::new(), |block, name| block.norm(name, d.hidden))
            .attention_named("self_attn", &attention, ["q_proj", "k_proj", "v_proj", "o_proj"])
            .gated_mlp("mlp", d.hidden, width, false)
            .param("altup.correct_output_scale", Role::Scale, &[d.hidden])
            .linear("altup.correction_coefs", Role::Scale, inputs, inputs, false)
            .linear("altup.prediction_coefs", Role::Scale, mul(inputs, inputs), inputs, false)
            .linear("altup.modality_router", Role::Scale, inputs, d.hidden, false)
            .norm("altup.router_norm", d.hidden)
            .linear("laurel.linear_left", Role::Mlp, rank, d.hidden, false)
            .linear("laurel.linear_right", Role::Mlp, d.hidden, rank, false)
            .norm("laurel.post_laurel_norm", d.hidden)
            .linear("per_layer_input_gate", Role::Mlp, per_layer, d.hidden, false)
            .linear("per_layer_projection", Role::Mlp, d.hidden, per_layer, false)
            .norm("post_per_layer_input_norm", d.hidden);
        stack.layer(block.when(keeps, |block| block.cache(attention.cache(if slides { Window::Sliding(window) } else { Window::Full }))));
    }
    if shared > 0 {
        let unused = mul(shared.min(d.layers), mul(mul(d.kv_heads, d.head_dim), mul(2, d.hidden)).saturating_add(d.head_dim));
        let why = format!(
            "the last {shared} layers reuse keys and values of earlier ones; checkpoints store their projections all the same ({unused} parameters, counted), newer classes do not load them"
        );
        stack.inexact_within(why, unused, 0);
    }
    let extra = inputs.saturating_sub(1);
    let mut last = Block::new().norm("norm", d.hidden);
    for input in 0..extra.min(64) {
        last = last.linear(&format!("altup_projections.{input}"), Role::Projector, d.hidden, d.hidden, false).linear(
            &format!("altup_unembed_projections.{input}"),
            Role::Projector,
            d.hidden,
            d.hidden,
            false,
        );
    }
    Ok(stack.finish_with(last, false))
}

/// gemma4_text: full layers have heads of their own width, and may use the keys as values.
pub fn gemma4(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([262_144, 2304, 9216, 30, 8, 4, 256, 131_072], true);
    let mut d = Dimensions::read(c, &default)?;
    let per_layer_config = c.section("per_layer_config");
    let global_dim = c.int("global_head_dim", 512)?;
    let same = c.bool("attention_k_eq_v", false)?;
    let global_kv = c.int_opt("num_global_key_value_heads")?.filter(|_| same).unwrap_or(d.kv_heads);
    let shared = c.int("num_kv_shared_layers", 0)?;
    let double = c.bool("use_double_wide_mlp", false)?;
    let window = c.int("sliding_window", 512)?;
    let per_layer = c.int("hidden_size_per_layer_input", 256)?;
    let rows = c.int("vocab_size_per_layer_input", 262_144)?;
    let bias = c.bool("attention_bias", false)?;
    let moe = if c.bool("enable_moe_block", false)? {
        Some(Moe {
            hidden: d.hidden,
            experts: c.int(COUNT, 0)?,
            active: c.int("top_k_experts|num_experts_per_tok", 0)?,
            width: c.int("moe_intermediate_size|expert_intermediate_size", 0)?,
            router_bias: false,
            expert_bias: false,
        })
    } else {
        None
    };
    if let Some(moe) = &moe {
        (d.experts, d.active_experts, d.expert_width) = (moe.experts, moe.active, moe.width);
    }
    let kinds = c.strings("layer_types");
    let embedding = Block::new().embedding("embed_tokens", Role::Embedding, d.vocab, d.hidden).when(per_layer > 0, |block| {
        block
            .embedding("embed_tokens_per_layer", Role::Position, rows, mul(d.layers, per_layer))
            .linear("per_layer_model_projection", Role::Projector, mul(d.layers, per_layer), d.hidden, false)
            .norm("per_layer_projection_norm", per_layer)
    });
    let mut stack = Stack::with_embedding(c, d.clone(), true, request, embedding)?;
    for index in 0..d.layers {
        let at = usize::try_from(index).unwrap_or(usize::MAX);
        // The last layer is always a full one.
        let slides = index + 1 != d.layers && kinds.get(at).map_or(!(index + 1).is_multiple_of(6), |kind| kind.contains("sliding"));
        let (mut dim, mut kv_heads) = if slides { (d.head_dim, d.kv_heads) } else { (global_dim, global_kv) };
        if !per_layer_config.is_empty() {
            // Newer files list the sizes that differ a layer.
            let own = per_layer_config.section(&format!("{index:02}|{index}|{index:03}"));
            (dim, kv_heads) = (own.int("head_dim", d.head_dim)?, own.int("num_key_value_heads", d.kv_heads)?);
        }
        let reuses = index >= d.layers.saturating_sub(shared);
        let (query, key) = (mul(d.heads, dim), mul(kv_heads, dim));
        let keys_as_values = same && !slides;
        let block = ["input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm"]
            .iter()
            .fold(Block::new(), |block, name| block.norm(name, d.hidden))
            .linear("self_attn.q_proj", Role::Attention, query, d.hidden, bias)
            .norm("self_attn.q_norm", dim)
            .linear("self_attn.o_proj", Role::Attention, d.hidden, query, bias)
            .when(!reuses, |block| {
                let block = block.linear("self_attn.k_proj", Role::Attention, key, d.hidden, bias).norm("self_attn.k_norm", dim);
                let block = block.when(!keys_as_values, |block| block.linear("self_attn.v_proj", Role::Attention, key, d.hidden, bias));
                block.cache(if slides {
                    Cache::Sliding { heads: kv_heads, key, value: key, window }
                } else {
                    Cache::Full { heads: kv_heads, key, value: key }
                })
            })
            .gated_mlp("mlp", d.hidden, if double && reuses { mul(d.intermediate, 2) } else { d.intermediate }, false)
            .when(per_layer > 0, |block| {
                block
                    .linear("per_layer_input_gate", Role::Mlp, per_layer, d.hidden, false)
                    .linear("per_layer_projection", Role::Mlp, d.hidden, per_layer, false)
                    .norm("post_per_layer_input_norm", d.hidden)
            });
        stack.layer(match &moe {
            None => block,
            Some(moe) => block
                .router("router", moe.experts, d.hidden, false)
                .param("router.scale", Role::Router, &[d.hidden])
                .param("router.per_expert_scale", Role::Router, &[moe.experts])
                .experts("moe", moe)
                .norm("post_feedforward_layernorm_1", d.hidden)
                .norm("post_feedforward_layernorm_2", d.hidden)
                .norm("pre_feedforward_layernorm_2", d.hidden),
        });
    }
    Ok(stack.finish(Norm::Weight, false))
}
