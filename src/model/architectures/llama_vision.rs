//! Llama with a vision tower: llama4, mllama.

use super::Source;
use super::blocks::{Block, Window, mul};
use super::decoder::{Defaults, Dimensions, Parts, Request, Stack};
use super::encoder::NO_HEAD;
use super::vlm::{TEXT, join_parts, language, projector};
use crate::model::config::{Result, Section};
use crate::model::inventory::{Part, Role};
use crate::model::kv_cache::Cache;

/// llama4.
pub fn llama4(source: &Source<'_>) -> Result<Parts> {
    let (text, mut stack) = language(source, "llama4_text")?;
    if source.class.ends_with("ForCausalLM") {
        return Ok(text);
    }
    let c = source.root.section("vision_config");
    let hidden = text.dimensions.hidden;
    super::towers::llama4(&mut stack, "vision_model", c)?;
    let out = c.int("vision_output_dim", 7680)?;
    projector(&mut stack, Block::new().linear("linear_1", Role::Projector, hidden, out, false));
    Ok(join_parts(text, stack))
}

/// mllama: layers with cross-attention between those of the language model.
pub fn mllama(source: &Source<'_>) -> Result<Parts> {
    let root = source.root;
    let nested = root.section(TEXT);
    let c = if nested.is_empty() { root } else { nested };
    let request = Request { task: source.task()?, tied: root.bool_opt("tie_word_embeddings")?, nested: true };
    let text = mllama_text(c, request)?;
    if source.class.ends_with("ForCausalLM") {
        return Ok(text);
    }
    let hidden = text.dimensions.hidden;
    let vision = root.section("vision_config");
    let mut stack = Stack::bare(Dimensions::default(), NO_HEAD, "", Part::Vision);
    super::towers::mllama(&mut stack, "vision_model", vision)?;
    projector(&mut stack, Block::new().linear("linear", Role::Projector, hidden, vision.int("vision_output_dim", 7680)?, true));
    Ok(join_parts(text, stack))
}

/// The language model of mllama; its embedding has eight more rows than the head.
pub fn mllama_text(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([128_256, 4096, 14336, 40, 32, 8, 0, 131_072], false);
    let d = Dimensions::read(c, &default)?;
    let crossing = c.ints("cross_attention_layers")?.unwrap_or_else(|| vec![3, 8, 13, 18, 23, 28, 33, 38]);
    let embedding = Block::new().embedding("embed_tokens", Role::Embedding, d.vocab.saturating_add(8), d.hidden);
    let mut stack = Stack::with_embedding(c, d.clone(), default.tied, request, embedding)?;
    let attention = d.attention();
    let norms = || {
        Block::new().norm("input_layernorm", d.hidden).norm("post_attention_layernorm", d.hidden).gated_mlp(
            "mlp",
            d.hidden,
            d.intermediate,
            false,
        )
    };
    for index in 0..d.layers {
        stack.layer(if crossing.contains(&index) {
            norms()
                .attention_named("cross_attn", &attention, ["q_proj", "k_proj", "v_proj", "o_proj"])
                .norm("cross_attn.q_norm", d.head_dim)
                .norm("cross_attn.k_norm", d.head_dim)
                .param("cross_attn_attn_gate", Role::Scale, &[1])
                .param("cross_attn_mlp_gate", Role::Scale, &[1])
                .cache(Cache::Cross { width: mul(mul(2, d.kv_heads), d.head_dim) })
        } else {
            norms().attention("self_attn", &attention, Window::Full)
        });
    }
    Ok(stack.finish(super::blocks::Norm::Weight, false))
}
