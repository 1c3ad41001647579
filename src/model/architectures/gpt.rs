//! GPT-2 and its relatives: learned positions or none, plain feed-forward layers, biased LayerNorms.
//! gpt2, gpt_bigcode, gptj, codegen, gpt_neo, gpt_neox, openai-gpt, ctrl, xglm, biogpt.

use super::blocks::{Block, Norm, Window};
use super::decoder::{Defaults, Dimensions, Parts, Request, Stack};
use crate::model::config::{Result, Section};
use crate::model::inventory::Role;

const GPT2: Defaults = Defaults::of([50257, 768, 0, 12, 12, 0, 0, 1024], true);

/// gpt2: biases everywhere, positions learned.
pub fn gpt2(c: Section<'_>, request: Request) -> Result<Parts> {
    let d = sizes(c, &GPT2)?;
    let attention = d.attention().biases(true, true);
    let mut stack = positioned(c, d.clone(), GPT2.tied, request, d.positions)?;
    let layer = Block::new()
        .layer_norm("ln_1", d.hidden)
        .fused_attention("attn", &attention, ["c_attn", "c_proj"], Window::Full)
        .layer_norm("ln_2", d.hidden)
        .plain_mlp("mlp", d.hidden, d.intermediate, ["c_fc", "c_proj"], true);
    let layer = layer.when(c.bool("add_cross_attention", false)?, |block| {
        super::seq2seq::cross(block, "crossattention", &attention, ["q_attn", "c_attn.k", "c_attn.v", "c_proj"])
            .layer_norm("ln_cross_attn", d.hidden)
    });
    stack.layers(d.layers, &layer);
    Ok(stack.finish(Norm::WeightBias, false))
}

/// gpt_bigcode: one KV head with `multi_query`, its default.
pub fn gpt_bigcode(c: Section<'_>, request: Request) -> Result<Parts> {
    let mut d = sizes(c, &GPT2)?;
    d.kv_heads = if c.bool("multi_query", true)? { 1 } else { d.heads };
    let attention = d.attention().biases(true, true);
    let mut stack = positioned(c, d.clone(), true, request, d.positions)?;
    let layer = Block::new()
        .layer_norm("ln_1", d.hidden)
        .fused_attention("attn", &attention, ["c_attn", "c_proj"], Window::Full)
        .layer_norm("ln_2", d.hidden)
        .plain_mlp("mlp", d.hidden, d.intermediate, ["c_fc", "c_proj"], true);
    stack.layers(d.layers, &layer);
    Ok(stack.finish(Norm::WeightBias, false))
}

/// gptj: attention without biases, one LayerNorm a layer, a bias of the head.
pub fn gptj(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([50400, 4096, 0, 28, 16, 0, 0, 2048], false);
    let d = sizes(c, &default)?;
    let mut stack = Stack::new(c, d.clone(), &default, request)?;
    let layer = Block::new()
        .layer_norm("ln_1", d.hidden)
        .attention_named("attn", &d.attention(), ["q_proj", "k_proj", "v_proj", "out_proj"])
        .cache(d.attention().cache(Window::Full))
        .plain_mlp("mlp", d.hidden, d.intermediate, ["fc_in", "fc_out"], true);
    stack.layers(d.layers, &layer);
    Ok(stack.finish(Norm::WeightBias, true))
}

/// codegen: gptj with a fused projection.
pub fn codegen(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([50400, 4096, 0, 28, 16, 0, 0, 2048], false);
    let d = sizes(c, &default)?;
    let mut stack = Stack::new(c, d.clone(), &default, request)?;
    let layer = Block::new()
        .layer_norm("ln_1", d.hidden)
        .fused_attention("attn", &d.attention(), ["qkv_proj", "out_proj"], Window::Full)
        .plain_mlp("mlp", d.hidden, d.intermediate, ["fc_in", "fc_out"], true);
    stack.layers(d.layers, &layer);
    Ok(stack.finish(Norm::WeightBias, true))
}

/// gpt_neo: only the output of attention has a bias. Every second layer looks back a window only, but
/// its cache keeps all tokens.
pub fn gpt_neo(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([50257, 2048, 0, 24, 16, 0, 0, 2048], true);
    let d = sizes(c, &default)?;
    let attention = d.attention().biases(false, true);
    let mut stack = positioned(c, d.clone(), true, request, d.positions)?;
    let layer = Block::new()
        .layer_norm("ln_1", d.hidden)
        .attention_named("attn.attention", &attention, ["q_proj", "k_proj", "v_proj", "out_proj"])
        .cache(attention.cache(Window::Full))
        .layer_norm("ln_2", d.hidden)
        .plain_mlp("mlp", d.hidden, d.intermediate, ["c_fc", "c_proj"], true);
    stack.layers(d.layers, &layer);
    Ok(stack.finish(Norm::WeightBias, false))
}

/// gpt_neox (Pythia): rotary positions, biases everywhere.
pub fn gpt_neox(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([50432, 6144, 24576, 44, 64, 0, 0, 2048], false);
    let d = Dimensions::read(c, &default)?;
    let bias = c.bool("attention_bias", true)?;
    let mut stack = Stack::new(c, d.clone(), &default, request)?;
    let layer = Block::new()
        .layer_norm("input_layernorm", d.hidden)
        .fused_attention("attention", &d.attention().biases(bias, bias), ["query_key_value", "dense"], Window::Full)
        .layer_norm("post_attention_layernorm", d.hidden)
        .plain_mlp("mlp", d.hidden, d.intermediate, ["dense_h_to_4h", "dense_4h_to_h"], true);
    stack.layers(d.layers, &layer);
    Ok(stack.finish(Norm::WeightBias, false))
}

/// gpt_neox_japanese: no biases but one of the last layer's attention output.
pub fn gpt_neox_japanese(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([32000, 2560, 0, 32, 32, 0, 0, 2048], true);
    let d = Dimensions::read(c, &default)?;
    let width = d.hidden.saturating_mul(c.int("intermediate_multiple_size", 4)?);
    let mut stack = Stack::new(c, d.clone(), &default, request)?;
    for index in 0..d.layers {
        stack.layer(
            Block::new()
                .layer_norm("input_layernorm", d.hidden)
                .fused_attention("attention", &d.attention(), ["query_key_value", "dense"], Window::Full)
                .when(index + 1 == d.layers, |block| block.param("attention.dense_bias", Role::Attention, &[d.hidden]))
                .layer_norm("post_attention_layernorm", d.hidden)
                .plain_mlp("mlp", d.hidden, width, ["dense_h_to_4h", "dense_4h_to_h"], false),
        );
    }
    Ok(stack.finish(Norm::WeightBias, false))
}

/// openai-gpt: GPT-2 without a last norm.
pub fn openai_gpt(c: Section<'_>, request: Request) -> Result<Parts> {
    let d = sizes(c, &Defaults::of([40478, 768, 0, 12, 12, 0, 0, 512], true))?;
    let attention = d.attention().biases(true, true);
    let mut stack = positioned(c, d.clone(), true, request, d.positions)?;
    let layer = Block::new()
        .fused_attention("attn", &attention, ["c_attn", "c_proj"], Window::Full)
        .layer_norm("ln_1", d.hidden)
        .plain_mlp("mlp", d.hidden, d.hidden.saturating_mul(4), ["c_fc", "c_proj"], true)
        .layer_norm("ln_2", d.hidden);
    stack.layers(d.layers, &layer);
    Ok(stack.finish(Norm::Bare, false))
}

/// ctrl: computed positions, a bias of the head.
pub fn ctrl(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([246_534, 1280, 8192, 48, 16, 0, 0, 256], true);
    let d = Dimensions::read(c, &default)?;
    let width = c.int("dff", 8192)?;
    let mut stack = Stack::new(c, d.clone(), &default, request)?;
    let attention = d.attention().biases(true, true);
    let layer = Block::new()
        .attention_named("multi_head_attention", &attention, ["Wq", "Wk", "Wv", "dense"])
        .cache(attention.cache(Window::Full))
        .plain_mlp("ffn", d.hidden, width, ["0", "2"], true)
        .layer_norm("layernorm1", d.hidden)
        .layer_norm("layernorm2", d.hidden);
    stack.layers(d.layers, &layer);
    Ok(stack.finish(Norm::WeightBias, true))
}

/// xglm: computed positions.
pub fn xglm(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([256_008, 1024, 4096, 24, 16, 0, 0, 2048], true);
    let mut d = Dimensions::read(c, &default)?;
    d.heads = c.divisor("attention_heads|num_attention_heads", 16)?;
    (d.kv_heads, d.head_dim) = (d.heads, d.hidden / d.heads);
    fairseq(c, request, d, 0)
}

/// biogpt: learned positions with two more rows.
pub fn biogpt(c: Section<'_>, request: Request) -> Result<Parts> {
    let d = Dimensions::read(c, &Defaults::of([42384, 1024, 4096, 24, 16, 0, 0, 1024], true))?;
    let rows = d.positions.saturating_add(2);
    fairseq(c, request, d, rows)
}

fn fairseq(c: Section<'_>, request: Request, d: Dimensions, positions: u64) -> Result<Parts> {
    let attention = d.attention().biases(true, true);
    let mut stack = positioned(c, d.clone(), true, request, positions)?;
    let layer = Block::new()
        .attention_named("self_attn", &attention, ["q_proj", "k_proj", "v_proj", "out_proj"])
        .cache(attention.cache(Window::Full))
        .layer_norm("self_attn_layer_norm", d.hidden)
        .plain_mlp("", d.hidden, d.intermediate, ["fc1", "fc2"], true)
        .layer_norm("final_layer_norm", d.hidden);
    stack.layers(d.layers, &layer);
    Ok(stack.finish(Norm::WeightBias, false))
}

/// Sizes of the GPT families, whose heads always share the hidden width evenly.
fn sizes(c: Section<'_>, default: &Defaults) -> Result<Dimensions> {
    let mut d = Dimensions::read(c, default)?;
    (d.kv_heads, d.head_dim) = (d.heads, d.hidden / d.heads);
    Ok(d)
}

/// A stack with learned positions beside the embedding.
pub fn positioned(c: Section<'_>, d: Dimensions, tied: bool, request: Request, rows: u64) -> Result<Stack> {
    let embedding = Block::new()
        .embedding("wte", Role::Embedding, d.vocab, d.hidden)
        .when(rows > 0, |block| block.embedding("wpe", Role::Position, rows, d.hidden));
    Stack::with_embedding(c, d, tied, request, embedding)
}
