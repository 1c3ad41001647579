//! blip-2 and instructblip: a vision tower, a query transformer, and a decoder or encoder-decoder of
//! text; blip and git: text layers that see the tower themselves.

use super::blocks::{Attention, Block, Window, join};
use super::decoder::{Defaults, Dimensions, Parts, Stack};
use super::encoder::{NO_HEAD, lm_head};
use super::seq2seq;
use super::vision::{self, Tower};
use super::vlm::{join_parts, language, projector};
use super::{Source, labels};
use crate::model::config::{Result, Section};
use crate::model::inventory::{Part, Role};

const NAMES: [&str; 4] = ["query", "key", "value", "output"];

/// blip-2.
pub fn blip2(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let (text, mut stack) = speaker(source, "Blip2ForConditionalGeneration")?;
    let width = tower(&mut stack, c.section("vision_config"))?;
    let queries = query_transformer(&mut stack, c.section("qformer_config"), width)?;
    projector(&mut stack, language_projection(c, text.dimensions.hidden, queries)?);
    if c.section("qformer_config").bool("use_qformer_text_input", false)? {
        stack.inexact("the text input of the query transformer is not counted");
    }
    if source.class.ends_with("ForImageTextRetrieval") {
        stack.inexact(format!("the heads of this class are not known ({} labels)", labels(c)?));
    }
    Ok(join_parts(text, stack))
}

/// The language model. The bare class too holds it with its head.
fn speaker<'a>(source: &Source<'a>, class: &'a str) -> Result<(Parts, Stack)> {
    let text = source.root.section("text_config");
    if text.str("model_type") == Some("t5") {
        let inner = Source { root: text, class: "T5ForConditionalGeneration", model_type: "t5" };
        return Ok((seq2seq::t5(&inner)?, Stack::bare(Dimensions::default(), NO_HEAD, "", Part::Vision)));
    }
    language(&Source { class, ..*source }, "opt")
}

/// The learned queries and their way into the language model.
fn language_projection(c: Section<'_>, hidden: u64, queries: u64) -> Result<Block> {
    let count = c.int("num_query_tokens", 32)?;
    Ok(Block::new().linear("language_projection", Role::Projector, hidden, queries, true).param(
        "query_tokens",
        Role::Projector,
        &[1, count, queries],
    ))
}

/// The tower: a class token, positions, layers of the CLIP form.
fn tower(stack: &mut Stack, c: Section<'_>) -> Result<u64> {
    tower_of(stack, c, [1408, 6144, 39, 16, 224, 14])
}

fn tower_of(stack: &mut Stack, c: Section<'_>, default: [u64; 6]) -> Result<u64> {
    let t = Tower::read(c, default)?;
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
pub(super) fn query_transformer(stack: &mut Stack, c: Section<'_>, seen: u64) -> Result<u64> {
    let hidden = c.int("hidden_size", 768)?;
    let width = c.int("intermediate_size", 3072)?;
    let every = c.divisor("cross_attention_frequency", 2)?;
    let own = Attention::new(hidden, 1, 1, hidden).biases(true, true);
    stack.restart("qformer.encoder.layer.{i}", Part::Projector);
    stack.once("qformer", Block::new().layer_norm("layernorm", hidden));
    for index in 0..c.layers("num_hidden_layers", 12)? {
        let layer = Block::new()
            .attention_named("attention", &own, NAMES)
            .layer_norm("attention.LayerNorm", hidden)
            .when(index.is_multiple_of(every), |block| crossed(block, hidden, seen))
            .plain_mlp("", hidden, width, ["intermediate_query", "output_query"], true)
            .layer_norm("output_query.LayerNorm", hidden);
        stack.layer(layer);
    }
    Ok(hidden)
}

/// Layers of BERT's form that also see a picture of the width `seen`; `prefix` names the model.
fn picture_bert(stack: &mut Stack, c: Section<'_>, prefix: &str, seen: u64) -> Result<(u64, u64)> {
    let (hidden, vocab) = (c.int("hidden_size", 768)?, c.int("vocab_size", 30524)?);
    let heads = c.divisor("num_attention_heads", 8)?;
    let own = Attention::new(hidden, heads, heads, hidden / heads).biases(true, true);
    stack.restart(&join(prefix, "encoder.layer.{i}"), Part::Text);
    let edge = Block::new()
        .embedding("word_embeddings", Role::Embedding, vocab, hidden)
        .embedding("position_embeddings", Role::Position, c.int("max_position_embeddings", 512)?, hidden)
        .layer_norm("LayerNorm", hidden);
    stack.once(&join(prefix, "embeddings"), edge);
    let decodes = c.bool("is_decoder", true)?;
    let layer = Block::new()
        .encoder_layer(hidden, c.int("intermediate_size", 3072)?)
        .when(prefix == "text_decoder", |block| block.cache(own.cache(Window::Full)))
        .when(decodes, |block| crossed(block, hidden, seen));
    stack.layers(c.layers("num_hidden_layers", 12)?, &layer);
    Ok((hidden, vocab))
}

/// Attention of a width to a picture of another.
fn crossed(block: Block, hidden: u64, seen: u64) -> Block {
    block
        .linear("crossattention.query", Role::CrossAttention, hidden, hidden, true)
        .linear("crossattention.key", Role::CrossAttention, hidden, seen, true)
        .linear("crossattention.value", Role::CrossAttention, hidden, seen, true)
        .linear("crossattention.output", Role::CrossAttention, hidden, hidden, true)
        .layer_norm("crossattention.LayerNorm", hidden)
}

/// blip: the class decides which of text encoder and text decoder stand beside the tower.
pub fn blip(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let text = c.section("text_config");
    let mut stack = Stack::bare(Dimensions::default(), NO_HEAD, "", Part::Vision);
    let seen = tower_of(&mut stack, c.section("vision_config"), [768, 3072, 12, 12, 384, 16])?;
    let tied = text.bool("tie_word_embeddings", true)? && c.bool("tie_word_embeddings", true)?;
    let class = source.class;
    let decodes = class.ends_with("ForConditionalGeneration") || class.ends_with("ForQuestionAnswering");
    if !class.ends_with("ForConditionalGeneration") {
        let (hidden, _) = picture_bert(&mut stack, text, "text_encoder", seen)?;
        let (out, narrow) = (c.int("projection_dim", 512)?, c.int("image_text_hidden_size", 256)?);
        let head = match class {
            _ if decodes => Block::new(),
            _ if class.ends_with("ForImageTextRetrieval") => Block::new()
                .linear("vision_proj", Role::Projector, narrow, seen, true)
                .linear("text_proj", Role::Projector, narrow, hidden, true)
                .linear("itm_head", Role::TaskHead, 2, hidden, true),
            _ => Block::new()
                .linear("text_model.pooler.dense", Role::TaskHead, hidden, hidden, true)
                .linear("visual_projection", Role::Projector, out, seen, false)
                .linear("text_projection", Role::Projector, out, hidden, false)
                .param("logit_scale", Role::Scale, &[1]),
        };
        stack.once("", head);
    }
    if decodes {
        let (hidden, vocab) = picture_bert(&mut stack, text, "text_decoder", seen)?;
        stack.once("text_decoder", lm_head(hidden, hidden, vocab, true));
        if !tied {
            stack.inexact("whether the head has words of its own is not certain");
        }
    }
    let mut parts = stack.done();
    parts.tied = decodes;
    Ok(parts)
}

/// instructblip and instructblipvideo: blip-2 whose query transformer also reads the question.
pub fn instructblip(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let (text, mut stack) = speaker(source, "InstructBlipForConditionalGeneration")?;
    let width = tower(&mut stack, c.section("vision_config"))?;
    let q = c.section("qformer_config");
    let queries = query_transformer(&mut stack, q, width)?;
    let inner = q.int("intermediate_size", 3072)?;
    let edge = Block::new().embedding("word_embeddings", Role::Position, q.int("vocab_size", 30522)?, queries).embedding(
        "position_embeddings",
        Role::Position,
        q.int("max_position_embeddings", 512)?,
        queries,
    );
    stack.once("qformer.embeddings", edge);
    let second = Block::new().plain_mlp("", queries, inner, ["intermediate", "output"], true).layer_norm("output.LayerNorm", queries);
    stack.restart("qformer.encoder.text.{i}", Part::Projector);
    stack.layers(q.layers("num_hidden_layers", 12)?, &second);
    projector(&mut stack, language_projection(c, text.dimensions.hidden, queries)?);
    Ok(join_parts(text, stack))
}

/// git: CLIP, and a decoder of BERT's form that reads its patches before the text.
pub fn git(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let d = Dimensions::read(c, &Defaults::of([30522, 768, 3072, 6, 12, 0, 0, 1024], false))?;
    let d = Dimensions { kv_heads: d.heads, head_dim: d.hidden / d.heads, ..d };
    let mut stack = Stack::bare(d.clone(), NO_HEAD, "", Part::Vision);
    let width = vision::clip(&mut stack, "git.image_encoder", c.section("vision_config"), [768, 3072, 12, 12, 224, 16])?.hidden;
    let frames = c.int("num_image_with_embedding", 0)?;
    let edge = Block::new()
        .embedding("word_embeddings", Role::Embedding, d.vocab, d.hidden)
        .embedding("position_embeddings", Role::Position, d.positions, d.hidden)
        .layer_norm("LayerNorm", d.hidden);
    stack.restart("git.encoder.layer.{i}", Part::Text);
    stack.once("git.embeddings", edge);
    let layer = Block::new().encoder_layer(d.hidden, d.intermediate).cache(d.attention().cache(Window::Full));
    stack.layers(d.layers, &layer);
    let bridge = Block::new()
        .linear("visual_projection.0", Role::Projector, d.hidden, width, true)
        .layer_norm("visual_projection.1", d.hidden)
        .when(frames > 0, |block| block.param("img_temporal_embedding", Role::Position, &[frames, width]));
    projector(&mut stack, bridge);
    let tied = c.bool("tie_word_embeddings", false)?;
    let causal = source.class != "GitModel";
    let head = Block::new().when(causal && !tied, |block| block.linear("output", Role::Head, d.vocab, d.hidden, false));
    stack.once("", head.when(causal, |block| block.param("output.bias", Role::Head, &[d.vocab])));
    let mut parts = stack.done();
    parts.tied = tied;
    Ok(parts)
}
