//! Decoders of the BLOOM generation: bloom, falcon, mpt, opt, persimmon.

use super::blocks::{Block, Norm, QkNorm, Window};
use super::decoder::{Defaults, Dimensions, Parts, Request, Stack, keys};
use crate::model::config::{Result, Section};
use crate::model::inventory::Role;

/// bloom: ALiBi positions, a LayerNorm after the embedding, feed-forward layers of four times the width.
pub fn bloom(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([250_880, 64, 0, 2, 8, 0, 0, 2048], true);
    let mut d = Dimensions::read(c, &default)?;
    d.hidden = c.int("n_embed|hidden_size|n_embd", 64)?;
    (d.kv_heads, d.head_dim, d.intermediate) = (d.heads, d.hidden / d.heads, d.hidden.saturating_mul(4));
    let embedding =
        Block::new().embedding("word_embeddings", Role::Embedding, d.vocab, d.hidden).layer_norm("word_embeddings_layernorm", d.hidden);
    let mut stack = Stack::with_embedding(c, d.clone(), true, request, embedding)?;
    let layer = Block::new()
        .layer_norm("input_layernorm", d.hidden)
        .fused_attention("self_attention", &d.attention().biases(true, true), ["query_key_value", "dense"], Window::Full)
        .layer_norm("post_attention_layernorm", d.hidden)
        .plain_mlp("mlp", d.hidden, d.intermediate, ["dense_h_to_4h", "dense_4h_to_h"], true);
    stack.layers(d.layers, &layer);
    Ok(stack.finish(Norm::WeightBias, false))
}

/// falcon: which key says how many KV heads there are depends on the decoder's generation.
pub fn falcon(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([65024, 4544, 0, 32, 71, 0, 0, 2048], true);
    let mut d = Dimensions::read(c, &default)?;
    d.hidden = c.int("n_embed|hidden_size|n_embd", 4544)?;
    d.head_dim = d.hidden / d.heads;
    let new_decoder = c.bool("new_decoder_architecture", false)?;
    d.kv_heads = match (new_decoder, c.bool("multi_query", true)?) {
        (true, _) => c.int("num_kv_heads|n_head_kv", d.heads)?,
        (false, true) => 1,
        (false, false) => d.heads,
    };
    d.intermediate = c.int("ffn_hidden_size", d.hidden.saturating_mul(4))?;
    let bias = c.bool("bias", false)?;
    let norms: &[&str] = match (new_decoder, c.int_opt("num_ln_in_parallel_attn")?) {
        (true, Some(1)) => &["input_layernorm"],
        (true, _) => &["ln_attn", "ln_mlp"],
        (false, _) if c.bool("parallel_attn", true)? => &["input_layernorm"],
        (false, _) => &["input_layernorm", "post_attention_layernorm"],
    };
    let mut stack = Stack::new(c, d.clone(), &default, request)?;
    let layer = norms
        .iter()
        .fold(Block::new(), |block, name| block.layer_norm(name, d.hidden))
        .fused_attention("self_attention", &d.attention().biases(bias, bias), ["query_key_value", "dense"], Window::Full)
        .plain_mlp("mlp", d.hidden, d.intermediate, ["dense_h_to_4h", "dense_4h_to_h"], bias);
    stack.layers(d.layers, &layer);
    if new_decoder && d.kv_heads != d.heads {
        stack.note("transformers repeats keys and values to all heads before it caches them; engines keep the KV heads");
    }
    Ok(stack.finish(Norm::WeightBias, false))
}

/// mpt: ALiBi positions, no biases, LayerNorms with a weight only.
pub fn mpt(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([50368, 2048, 0, 24, 16, 0, 0, 2048], true);
    let mut d = Dimensions::read(c, &default)?;
    d.kv_heads = c.section("attn_config").int("kv_n_heads", d.heads)?;
    d.intermediate = d.hidden.saturating_mul(4);
    let mut stack = super::gpt::positioned(c, d.clone(), true, request, 0)?;
    let layer = Block::new()
        .norm("norm_1", d.hidden)
        .fused_attention("attn", &d.attention(), ["Wqkv", "out_proj"], Window::Full)
        .norm("norm_2", d.hidden)
        .plain_mlp("ffn", d.hidden, d.intermediate, ["up_proj", "down_proj"], false);
    stack.layers(d.layers, &layer);
    Ok(stack.finish(Norm::Weight, false))
}

/// opt: positions with two more rows, an embedding that may be narrower than the layers.
pub fn opt(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([50272, 768, 3072, 12, 12, 0, 0, 2048], true);
    let d = Dimensions::read(c, &default)?;
    let width = c.int("word_embed_proj_dim", d.hidden)?;
    let (before, bias) = (c.bool("do_layer_norm_before", true)?, c.bool("enable_bias", true)?);
    let norm = if c.bool("layer_norm_elementwise_affine", true)? { Norm::WeightBias } else { Norm::Bare };
    let narrow = width != d.hidden;
    let embedding = Block::new()
        .embedding("embed_tokens", Role::Embedding, d.vocab, width)
        .embedding("embed_positions", Role::Position, d.positions.saturating_add(2), d.hidden)
        .when(narrow, |block| {
            block.linear("project_in", Role::Projector, d.hidden, width, false).linear(
                "project_out",
                Role::Projector,
                width,
                d.hidden,
                false,
            )
        });
    let mut stack = Stack::with_embedding(c, d.clone(), true, request, embedding)?;
    let attention = d.attention().biases(bias, bias);
    let layer = Block::new()
        .attention_named("self_attn", &attention, ["q_proj", "k_proj", "v_proj", "out_proj"])
        .cache(attention.cache(Window::Full))
        .norm_of(norm, "self_attn_layer_norm", d.hidden)
        .plain_mlp("", d.hidden, d.intermediate, ["fc1", "fc2"], bias)
        .norm_of(norm, "final_layer_norm", d.hidden);
    stack.layers(d.layers, &layer);
    let last = if before && !c.bool("_remove_final_layer_norm", false)? { norm } else { Norm::Bare };
    let (hidden, last) = (d.hidden, Block::new().norm_of(last, "final_layer_norm", d.hidden));
    // The head reads the narrow width.
    stack.dimensions().hidden = width;
    let mut parts = stack.finish_with(last, false);
    parts.dimensions.hidden = hidden;
    Ok(parts)
}

/// persimmon: biases everywhere, normalised queries and keys.
pub fn persimmon(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([262_144, 4096, 16384, 36, 64, 0, 0, 16384], false);
    let mut d = Dimensions::read(c, &default)?;
    d.kv_heads = c.int(keys::HEADS, d.heads)?;
    let qk_norm = if c.bool("qk_layernorm", true)? { QkNorm::PerHeadBias } else { QkNorm::Off };
    let mut stack = Stack::new(c, d.clone(), &default, request)?;
    let layer = Block::new()
        .layer_norm("input_layernorm", d.hidden)
        .fused_attention("self_attn", &d.attention().biases(true, true), ["query_key_value", "dense"], Window::Full)
        .when(qk_norm != QkNorm::Off, |block| {
            block.layer_norm("self_attn.q_layernorm", d.head_dim).layer_norm("self_attn.k_layernorm", d.head_dim)
        })
        .layer_norm("post_attention_layernorm", d.hidden)
        .plain_mlp("mlp", d.hidden, d.intermediate, ["dense_h_to_4h", "dense_4h_to_h"], true);
    stack.layers(d.layers, &layer);
    Ok(stack.finish(Norm::WeightBias, false))
}
