//! GPT-2's layers over something else than words: imagegpt (pixels), decision_transformer (states and actions).

use super::blocks::{Attention, Block, Norm, Window};
use super::decoder::{Defaults, Dimensions, Parts, Stack};
use super::encoder::NO_HEAD;
use super::{Source, labels};
use crate::model::config::Result;
use crate::model::inventory::{Part, Role};

/// A layer of GPT-2 with norms of a kind.
fn layer(attention: &Attention, width: u64, norm: Norm) -> Block {
    Block::new()
        .norm_of(norm, "ln_1", attention.hidden)
        .fused_attention("attn", attention, ["c_attn", "c_proj"], Window::Full)
        .norm_of(norm, "ln_2", attention.hidden)
        .plain_mlp("mlp", attention.hidden, width, ["c_fc", "c_proj"], true)
}

fn stack(source: &Source<'_>, default: &Defaults, norm: Norm) -> Result<(Dimensions, Stack)> {
    let c = source.root;
    let mut d = Dimensions::read(c, default)?;
    (d.kv_heads, d.head_dim) = (d.heads, d.hidden / d.heads);
    let mut stack = Stack::bare(d.clone(), NO_HEAD, "transformer.h.{i}", Part::Text);
    let edge = Block::new()
        .embedding("wte", Role::Embedding, d.vocab, d.hidden)
        .embedding("wpe", Role::Position, d.positions, d.hidden)
        .norm_of(norm, "ln_f", d.hidden);
    stack.once("transformer", edge);
    stack.layers(d.layers, &layer(&d.attention().biases(true, true), d.intermediate, norm));
    Ok((d, stack))
}

/// imagegpt: colours in place of words, and one more that starts an image.
pub fn imagegpt(source: &Source<'_>) -> Result<Parts> {
    let default = Defaults::of([513, 512, 0, 24, 8, 0, 0, 1024], false);
    let (d, mut stack) = stack(source, &default, Norm::Weight)?;
    let head = if source.class.ends_with("ForCausalImageModeling") {
        Block::new().linear("lm_head", Role::Head, d.vocab.saturating_sub(1), d.hidden, false)
    } else if source.class.ends_with("ForImageClassification") {
        Block::new().linear("score", Role::TaskHead, labels(source.root)?, d.hidden, false)
    } else {
        Block::new()
    };
    stack.once("", head);
    if source.root.bool("tie_word_embeddings", false)? || source.root.bool("add_cross_attention", false)? {
        stack.inexact("a shared head or cross-attention is not what this family has");
    }
    Ok(stack.done())
}

/// decision_transformer: returns, states and actions in turn.
pub fn decision_transformer(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let (d, mut stack) = stack(source, &Defaults::of([1, 128, 0, 3, 1, 0, 0, 1024], false), Norm::WeightBias)?;
    if source.class != "DecisionTransformerModel" {
        return Ok(stack.done());
    }
    let (state, action) = (c.int("state_dim", 17)?, c.int("act_dim", 4)?);
    let block = Block::new()
        .embedding("embed_timestep", Role::Position, c.int("max_ep_len", 4096)?, d.hidden)
        .linear("embed_return", Role::Projector, d.hidden, 1, true)
        .linear("embed_state", Role::Projector, d.hidden, state, true)
        .linear("embed_action", Role::Projector, d.hidden, action, true)
        .layer_norm("embed_ln", d.hidden)
        .linear("predict_state", Role::TaskHead, state, d.hidden, true)
        .linear("predict_action.0", Role::TaskHead, action, d.hidden, true)
        .linear("predict_return", Role::TaskHead, 1, d.hidden, true);
    stack.once("", block);
    if c.bool("add_cross_attention", false)? {
        stack.inexact("cross-attention is not what this family has");
    }
    Ok(stack.done())
}
