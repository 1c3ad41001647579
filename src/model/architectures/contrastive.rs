//! Two encoders that meet in one space, near CLIP: chinese_clip, altclip, clipseg, owlvit, owlv2, xclip.

use super::Source;
use super::blocks::{Attention, Block, mul};
use super::decoder::{Dimensions, Parts, Stack};
use super::encoder::NO_HEAD;
use super::image::{CLIP_TEXT, text_encoder};
use super::vision::{self, Tower};
use crate::model::config::{Result, Section};
use crate::model::inventory::{Part, Role};

const NAMES: [&str; 4] = ["q_proj", "k_proj", "v_proj", "out_proj"];

fn stack() -> Stack {
    Stack::bare(Dimensions::default(), NO_HEAD, "", Part::Vision)
}

/// The projections of both sides and the temperature.
fn meet(stack: &mut Stack, out: u64, image: u64, text: u64) {
    let head = Block::new()
        .linear("visual_projection", Role::Projector, out, image, false)
        .linear("text_projection", Role::Projector, out, text, false)
        .param("logit_scale", Role::Scale, &[1]);
    stack.once("", head);
}

/// A text side of BERT's form without a pooler; gives its width. Sizes in this order: vocabulary,
/// width, feed-forward width, layers, positions, kinds of text.
fn bert_side(stack: &mut Stack, c: Section<'_>, [vocab, hidden, width, layers, positions, types]: [u64; 6]) -> Result<u64> {
    let hidden = c.int("hidden_size", hidden)?;
    stack.restart("text_model.encoder.layer.{i}", Part::Text);
    let edge = Block::new()
        .embedding("word_embeddings", Role::Embedding, c.int("vocab_size", vocab)?, hidden)
        .embedding("position_embeddings", Role::Position, c.int("max_position_embeddings", positions)?, hidden)
        .embedding("token_type_embeddings", Role::Position, c.int("type_vocab_size", types)?, hidden)
        .layer_norm("LayerNorm", hidden);
    stack.once("text_model.embeddings", edge);
    stack.layers(c.layers("num_hidden_layers", layers)?, &Block::new().encoder_layer(hidden, c.int("intermediate_size", width)?));
    Ok(hidden)
}

/// chinese_clip: BERT on the text side.
pub fn chinese_clip(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let mut stack = stack();
    let text = bert_side(&mut stack, c.section("text_config"), [30522, 768, 3072, 12, 512, 2])?;
    let image = vision::clip(&mut stack, "vision_model", c.section("vision_config"), vision::CLIP)?.hidden;
    meet(&mut stack, c.int("projection_dim", 512)?, image, text);
    Ok(stack.done())
}

/// altclip: RoBERTa on the text side, with a projection of its own.
pub fn altclip(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let mut stack = stack();
    let inner = c.section("text_config");
    let text = bert_side(&mut stack, inner, [250_002, 1024, 4096, 24, 514, 1])?;
    let out = inner.int("project_dim", 768)?;
    stack.once("text_model", Block::new().linear("transformation", Role::Projector, out, text, true).layer_norm("pre_LN", text));
    let image = vision::clip(&mut stack, "vision_model", c.section("vision_config"), vision::CLIP)?.hidden;
    meet(&mut stack, c.int("projection_dim", 768)?, image, out);
    Ok(stack.done())
}

/// clipseg: CLIP, and a narrow decoder that paints the patches.
pub fn clipseg(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let mut stack = stack();
    let text = text_encoder(&mut stack, c.section("text_config"), CLIP_TEXT)?;
    let inner = c.section("vision_config");
    let image = vision::clip(&mut stack, "clip.vision_model", inner, vision::CLIP)?.hidden;
    let out = c.int("projection_dim", 512)?;
    meet(&mut stack, out, image, text);
    if !source.class.ends_with("ForImageSegmentation") {
        return Ok(stack.done());
    }
    let (narrow, patch) = (c.int("reduce_dim", 64)?, inner.int("patch_size", 32)?);
    let edge = Block::new().linear("film_mul", Role::Projector, narrow, out, true).linear("film_add", Role::Projector, narrow, out, true);
    let edge = if c.bool("use_complex_transposed_convolution", false)? {
        let (half, kernel) = (narrow / 2, patch / 4);
        edge.conv("transposed_convolution.0", Role::Conv, &[narrow, narrow, 3, 3], true)
            .param("transposed_convolution.2", Role::Conv, &[narrow, half, kernel, kernel])
            .param("transposed_convolution.2.bias", Role::Conv, &[half])
            .param("transposed_convolution.4", Role::Conv, &[half, 1, kernel, kernel])
            .param("transposed_convolution.4.bias", Role::Conv, &[1])
    } else {
        edge.param("transposed_convolution", Role::Conv, &[narrow, 1, patch, patch]).param("transposed_convolution.bias", Role::Conv, &[1])
    };
    let depth = c.ints("extract_layers")?.map_or(3, |list| list.len() as u64);
    let width = c.int("decoder_intermediate_size", 2048)?;
    let layer = Tower { hidden: narrow, width, layers: depth, heads: 1, patches: 0, pixels: 0 }.layer();
    stack.restart("decoder.layers.{i}", Part::Vision);
    stack.once("decoder", edge);
    stack.layers(depth, &layer.linear("reduces", Role::Projector, narrow, image, true));
    Ok(stack.done())
}

/// owlvit and owlv2: CLIP that finds what the text names; the second also says whether there is anything.
pub fn owl(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let second = source.model_type == "owlv2";
    let mut stack = stack();
    let text = text_encoder(&mut stack, c.section("text_config"), [49408, 512, 2048, 12, 16])?;
    let default = [768, 3072, 12, 12, 768, if second { 16 } else { 32 }];
    let image = vision::clip(&mut stack, "vision_model", c.section("vision_config"), default)?.hidden;
    meet(&mut stack, c.int("projection_dim", 512)?, image, text);
    if source.class.ends_with("ForObjectDetection") {
        let three = |block: Block, name: &str, rows: u64| {
            block
                .linear(&format!("{name}.dense0"), Role::TaskHead, image, image, true)
                .linear(&format!("{name}.dense1"), Role::TaskHead, image, image, true)
                .linear(&format!("{name}.dense2"), Role::TaskHead, rows, image, true)
        };
        let head = Block::new()
            .layer_norm("layer_norm", image)
            .linear("class_head.dense0", Role::TaskHead, text, image, true)
            .linear("class_head.logit_shift", Role::TaskHead, 1, image, true)
            .linear("class_head.logit_scale", Role::TaskHead, 1, image, true);
        let head = three(head, "box_head", 4);
        stack.once("", if second { three(head, "objectness_head", 1) } else { head });
    }
    Ok(stack.done())
}

/// xclip: CLIP for videos, with messages between frames and prompts made from them.
pub fn xclip(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let mut stack = stack();
    let text = text_encoder(&mut stack, c.section("text_config"), CLIP_TEXT)?;
    let inner = c.section("vision_config");
    let t = vision::clip(&mut stack, "vision_model", inner, vision::CLIP)?;
    let out = c.int("projection_dim", 512)?;
    meet(&mut stack, out, t.hidden, text);
    let square = Attention::new(t.hidden, 1, 1, t.hidden).biases(true, true);
    stack.restart("vision_model.encoder.messages.{i}", Part::Vision);
    let message = Block::new()
        .linear("message_fc", Role::Projector, t.hidden, t.hidden, true)
        .layer_norm("message_ln", t.hidden)
        .attention_named("message_attn", &square, NAMES);
    stack.layers(t.layers, &message);
    let (narrow, width) = (inner.int("mit_hidden_size", 512)?, inner.int("mit_intermediate_size", 2048)?);
    stack.restart("mit.encoder.layers.{i}", Part::Vision);
    stack.once("mit", Block::new().param("position_embedding", Role::Position, &[1, inner.int("num_frames", 8)?, narrow]));
    let layers = inner.layers("mit_num_hidden_layers", 1)?;
    stack.layers(layers, &Tower { hidden: narrow, width, layers, heads: 1, patches: 0, pixels: 0 }.layer());
    stack.restart("prompts_generator.decoder.{i}", Part::Projector);
    let edge = Block::new()
        .layer_norm("prompts_visual_layernorm", t.hidden)
        .param("prompts_visual_projection", Role::Projector, &[t.hidden, out])
        .layer_norm("prompts_generator.layernorm", out)
        .param("prompts_generator.alpha", Role::Scale, &[out]);
    stack.once("", edge);
    let layer = Block::new()
        .attention_named("cross_attn", &Attention::new(out, 1, 1, out).biases(false, true), ["q_proj", "k_proj", "v_proj", "proj"])
        .layer_norm("norm1", out)
        .layer_norm("norm3", out)
        .plain_mlp("mlp", out, mul(out, 4), ["0", "3"], true);
    stack.layers(c.layers("prompt_layers", 2)?, &layer);
    Ok(stack.done())
}
