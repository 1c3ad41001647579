//! Estimate for architectures that are not known: from the usual keys, as a range.

use super::Source;
use super::blocks::{Attention, Moe, Norm, Window};
use super::decoder::{Defaults, Dimensions, Parts, Request, Stack, keys};
use super::dense::Dense;
use crate::model::config::{Result, Section};

/// The usual layers from the usual keys; without them, what is missing.
pub fn estimate(source: &Source<'_>, request: Request) -> Result<Parts> {
    let nested = language_part(source.root);
    let c = if nested.is_empty() { source.root } else { nested };
    if let Some(text) = nested.str("model_type").and_then(super::text) {
        // The language model inside is of a known family; what stands around it is not counted.
        let mut parts = text(nested, Request { tied: source.root.bool_opt("tie_word_embeddings")?, nested: true, ..request })?;
        parts.inexact = Some(format!(
            "the architecture `{}` is not known: only its language model is counted, without towers and projectors",
            name(source)
        ));
        return Ok(parts);
    }
    for names in [keys::HIDDEN, keys::LAYERS, keys::HEADS, keys::VOCAB] {
        if c.int_opt(names)?.is_none() {
            return Err(c.missing_for_unknown(names, source.model_type));
        }
    }
    let default = Defaults::of([0, 0, 0, 0, 1, 0, 0, 0], false);
    let mut d = Dimensions::read(c, &default)?;
    let experts = c.int("num_experts|n_routed_experts|num_local_experts|moe_num_experts", 0)?;
    let active = c.int("num_experts_per_tok|num_experts_per_token|moe_topk|moe_k", 2)?;
    let expert_width = c.int("moe_intermediate_size|expert_intermediate_size", d.intermediate)?;
    (d.experts, d.active_experts, d.expert_width) = (experts, active, expert_width);
    let moe = Moe { hidden: d.hidden, experts, active, width: expert_width, router_bias: false, expert_bias: false };
    let attention: Attention = d.attention();
    let dense = Dense { attention, ..Dense::new(&d) };
    let dense_layers = c.int("first_k_dense_replace", 0)?;
    let mut stack = Stack::new(c, d.clone(), &default, request)?;
    for index in 0..d.layers {
        let layer = if experts == 0 || index < dense_layers {
            dense.layer(index, d.intermediate)
        } else {
            super::blocks::Block::new()
                .norm("input_layernorm", d.hidden)
                .norm("post_attention_layernorm", d.hidden)
                .attention("self_attn", &attention, Window::Full)
                .moe("mlp", &moe)
        };
        stack.layer(layer);
    }
    stack.inexact(format!("the architecture `{}` is not known: estimated from the usual keys", name(source)));
    Ok(stack.finish(Norm::Weight, false))
}

fn name<'a>(source: &Source<'a>) -> &'a str {
    if source.model_type.is_empty() { source.class } else { source.model_type }
}

/// The object that describes a language model, also one level down (`thinker_config.text_config`).
fn language_part(root: Section<'_>) -> Section<'_> {
    let outer = root.section("thinker_config");
    if !outer.is_empty() {
        return outer.section("text_config");
    }
    root.section(super::vlm::TEXT)
}
