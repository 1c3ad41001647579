//! blip-2: a vision tower, a query transformer, and a decoder or encoder-decoder of text.

use super::blocks::{Attention, Block};
use super::decoder::{Dimensions, Parts, Stack};
use super::encoder::NO_HEAD;
use super::seq2seq;
use super::vision::Tower;
use super::vlm::{join_parts, language, projector};
use super::{Source, labels};
use crate::model::config::{Result, Section};
use crate::model::inventory::{Part, Role};

const NAMES: [&str; 4] = ["query", "key", "value", "output"];

/// blip-2.
pub fn blip2(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let text = c.section("text_config");
    let (text, mut stack) = if text.str("model_type") == Some("t5") {
        let inner = Source { root: text, class: "T5ForConditionalGeneration", model_type: "t5" };
        (seq2seq::t5(&inner)?, Stack::bare(Dimensions::default(), NO_HEAD, "", Part::Vision))
    } else {
        // The bare class too holds the language model with its head.
        let whole = Source { class: "Blip2ForConditionalGeneration", ..*source };
        language(&whole, "opt")?
    };
    let width = tower(&mut stack, c.section("vision_config"))?;
    let queries = query_transformer(&mut stack, c.section("qformer_config"), width)?;
    projector(
        &mut stack,
        Block::new().linear("language_projection", Role::Projector, text.dimensions.hidden, queries, true).param(
            "query_tokens",
            Role::Projector,
            &[1, c.int("num_query_tokens", 32)?, queries],
        ),
    );
    if c.section("qformer_config").bool("use_qformer_text_input", false)? {
        stack.inexact("the text input of the query transformer is not counted");
    }
    if source.class.ends_with("ForImageTextRetrieval") {
        stack.inexact(format!("the heads of this class are not known ({} labels)", labels(c)?));
    }
    Ok(join_parts(text, stack))
}

/// The tower: a class token, positions, layers of the CLIP form.
fn tower(stack: &mut Stack, c: Section<'_>) -> Result<u64> {
    let t = Tower::read(c, [1408, 6144, 39, 16, 224, 14])?;
    stack.restart("vision_model.encoder.layers.{i}", Part::Vision);
    let edge = t
        .patch(true)
        .param("class_embedding", Role::Position, &[1, 1, t.hidden])
        .param("position_embedding", Role::Position, &[1, t.patches.saturating_add(1), t.hidden])
        .layer_norm("post_layernorm", t.hidden);
    stack.once("vision_model", edge);
    let attention = Attention::new(t.hidden, 1, 1, t.hidden).biases(c.bool("qkv_bias", true)?, true);
    let layer = Block::new()
        .attention_named("self_attn", &attention, ["q", "k", "v", "projection"])
        .layer_norm("layer_norm1", t.hidden)
        .plain_mlp("mlp", t.hidden, t.width, ["fc1", "fc2"], true)
        .layer_norm("layer_norm2", t.hidden);
    stack.layers(t.layers, &layer);
    Ok(t.hidden)
}

/// The query transformer: cross-attention to the tower in every n-th layer. Gives its width.
pub(super) fn query_transformer(stack: &mut Stack, c: Section<'_>, tower: u64) -> Result<u64> {
    let hidden = c.int("hidden_size", 768)?;
    let width = c.int("intermediate_size", 3072)?;
    let every = c.divisor("cross_attention_frequency", 2)?;
    let seen = c.int("encoder_hidden_size", if c.is_empty() { tower } else { 1408 })?;
    let own = Attention::new(hidden, 1, 1, hidden).biases(true, true);
    stack.restart("qformer.encoder.layer.{i}", Part::Projector);
    stack.once("qformer", Block::new().layer_norm("layernorm", hidden));
    for index in 0..c.layers("num_hidden_layers", 12)? {
        let cross = |block: Block| {
            block
                .linear("crossattention.query", Role::CrossAttention, hidden, hidden, true)
                .linear("crossattention.key", Role::CrossAttention, hidden, seen, true)
                .linear("crossattention.value", Role::CrossAttention, hidden, seen, true)
                .linear("crossattention.output", Role::CrossAttention, hidden, hidden, true)
                .layer_norm("crossattention.LayerNorm", hidden)
        };
        let layer = Block::new()
            .attention_named("attention", &own, NAMES)
            .layer_norm("attention.LayerNorm", hidden)
            .when(index.is_multiple_of(every), cross)
            .plain_mlp("", hidden, width, ["intermediate_query", "output_query"], true)
            .layer_norm("output_query.LayerNorm", hidden);
        stack.layer(layer);
    }
    Ok(hidden)
}
