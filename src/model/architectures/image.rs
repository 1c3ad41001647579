//! Vision models that stand alone: vit, deit, dinov2, clip, siglip and their parts.

use super::blocks::{Attention, Block, mul};
use super::decoder::{Dimensions, Parts, Stack};
use super::encoder::NO_HEAD;
use super::vision::{self, Tower};
use super::{Source, labels};
use crate::model::config::{Result, Section};
use crate::model::inventory::{Part, Role};

fn stack() -> Stack {
    Stack::bare(Dimensions::default(), NO_HEAD, "encoder.layer.{i}", Part::Vision)
}

const VIT: [u64; 6] = [768, 3072, 12, 12, 224, 16];

/// vit and deit: a class token; deit has one more for distillation.
pub fn vit(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let t = Tower::read(c, VIT)?;
    let deit = source.model_type == "deit";
    let masked = source.class.ends_with("ForMaskedImageModeling");
    let mut stack = stack();
    let tokens = if deit { 2 } else { 1 };
    let edge = Block::new()
        .conv("patch_embeddings", Role::Conv, &[t.hidden, t.pixels], true)
        .param("cls_token", Role::Position, &[1, 1, t.hidden])
        .when(deit, |block| block.param("distillation_token", Role::Position, &[1, 1, t.hidden]))
        .when(masked, |block| block.param("mask_token", Role::Position, &[1, 1, t.hidden]))
        .param("position_embeddings", Role::Position, &[1, t.patches.saturating_add(tokens), t.hidden])
        .layer_norm("layernorm", t.hidden);
    stack.once("embeddings", edge);
    let attention = Attention::new(t.hidden, 1, 1, t.hidden).biases(c.bool("qkv_bias", true)?, true);
    let layer = Block::new()
        .attention_named("attention", &attention, ["query", "key", "value", "output"])
        .layer_norm("layernorm_before", t.hidden)
        .plain_mlp("", t.hidden, t.width, ["intermediate.dense", "output.dense"], true)
        .layer_norm("layernorm_after", t.hidden);
    stack.layers(t.layers, &layer);
    let classifier = |block: Block, name: &str| -> Result<Block> { Ok(block.linear(name, Role::TaskHead, labels(c)?, t.hidden, true)) };
    let stride = c.int("encoder_stride", 16)?;
    let head = match source.class {
        class if class.ends_with("WithTeacher") => classifier(classifier(Block::new(), "cls_classifier")?, "distillation_classifier")?,
        class if class.ends_with("ForImageClassification") => classifier(Block::new(), "classifier")?,
        _ if masked => Block::new().conv("decoder", Role::TaskHead, &[mul(3, mul(stride, stride)), t.hidden, 1, 1], true),
        _ => Block::new().linear("pooler.dense", Role::TaskHead, c.int("pooler_output_size", t.hidden)?, t.hidden, true),
    };
    stack.once("", head);
    Ok(stack.done())
}

/// dinov2 and dinov2_with_registers: scaled residuals; the widest of them a gated feed-forward layer.
pub fn dinov2(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let registers = source.model_type == "dinov2_with_registers";
    let mut t = Tower::read(c, [768, 3072, 12, 12, 224, if registers { 16 } else { 14 }])?;
    t.width = mul(t.hidden, c.int("mlp_ratio", 4)?);
    let mask = c.bool("use_mask_token", true)?;
    let edge = Block::new()
        .conv("patch_embeddings", Role::Conv, &[t.hidden, t.pixels], true)
        .param("cls_token", Role::Position, &[1, 1, t.hidden])
        .when(mask, |block| block.param("mask_token", Role::Position, &[1, t.hidden]))
        .param("position_embeddings", Role::Position, &[1, t.patches.saturating_add(1), t.hidden])
        .layer_norm("layernorm", t.hidden);
    let extra = if registers { c.int("num_register_tokens", 4)? } else { 0 };
    let mut stack = stack();
    stack.once("embeddings", edge.when(registers, |block| block.param("register_tokens", Role::Position, &[1, extra, t.hidden])));
    let attention = Attention::new(t.hidden, 1, 1, t.hidden).biases(c.bool("qkv_bias", true)?, true);
    let layer = Block::new()
        .attention_named("attention", &attention, ["query", "key", "value", "output"])
        .layer_norm("norm1", t.hidden)
        .layer_norm("norm2", t.hidden)
        .param("layer_scale1", Role::Scale, &[t.hidden])
        .param("layer_scale2", Role::Scale, &[t.hidden]);
    let layer = if c.bool("use_swiglu_ffn", false)? {
        let width = (mul(t.width, 2) / 3).div_ceil(8).saturating_mul(8);
        layer.linear("mlp.weights_in", Role::Mlp, mul(width, 2), t.hidden, true).linear("mlp.weights_out", Role::Mlp, t.hidden, width, true)
    } else {
        layer.plain_mlp("mlp", t.hidden, t.width, ["fc1", "fc2"], true)
    };
    stack.layers(t.layers, &layer);
    if source.class.ends_with("ForImageClassification") {
        stack.once("", Block::new().linear("classifier", Role::TaskHead, labels(c)?, mul(t.hidden, 2), true));
    }
    Ok(stack.done())
}

/// The text encoder of CLIP and SigLIP; gives its width.
pub(super) fn text_encoder(stack: &mut Stack, c: Section<'_>, default: [u64; 5]) -> Result<u64> {
    let [vocab, hidden, width, layers, positions] = default;
    let t = Tower {
        hidden: c.int("hidden_size", hidden)?,
        width: c.int("intermediate_size", width)?,
        layers: c.layers("num_hidden_layers", layers)?,
        heads: 1,
        patches: 0,
        pixels: 0,
    };
    stack.restart("text_model.encoder.layers.{i}", Part::Text);
    let edge = Block::new()
        .embedding("token_embedding", Role::Position, c.int("vocab_size", vocab)?, t.hidden)
        .embedding("position_embedding", Role::Position, c.int("max_position_embeddings", positions)?, t.hidden)
        .layer_norm("final_layer_norm", t.hidden);
    stack.once("text_model", edge);
    stack.layers(t.layers, &t.layer());
    Ok(t.hidden)
}

/// Defaults of CLIP's text encoder: vocabulary, width, feed-forward width, layers, positions.
pub(super) const CLIP_TEXT: [u64; 5] = [49408, 512, 2048, 12, 77];
const SIGLIP_TEXT: [u64; 5] = [32000, 768, 3072, 12, 64];

/// clip: both encoders, a projection each and a temperature.
pub fn clip(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    match source.class {
        class if class.starts_with("CLIPVision") => return clip_vision(source),
        class if class.starts_with("CLIPText") => return clip_text(source),
        class if class.ends_with("ForImageClassification") => {
            let mut stack = stack();
            let tower = vision::clip(&mut stack, "vision_model", c.section("vision_config"), vision::CLIP)?;
            stack.once("", Block::new().linear("classifier", Role::TaskHead, labels(c)?, tower.hidden, true));
            return Ok(stack.done());
        }
        _ => {}
    }
    let mut stack = stack();
    let (text, image) = (c.section("text_config"), c.section("vision_config"));
    let width = text_encoder(&mut stack, text, CLIP_TEXT)?;
    let tower = vision::clip(&mut stack, "vision_model", image, vision::CLIP)?;
    let out = c.int("projection_dim", 512)?;
    let head = Block::new()
        .linear("visual_projection", Role::Projector, out, tower.hidden, false)
        .linear("text_projection", Role::Projector, out, width, false)
        .param("logit_scale", Role::Scale, &[1]);
    stack.once("", head);
    Ok(stack.done())
}

/// clip_vision_model, with or without its projection.
pub fn clip_vision(source: &Source<'_>) -> Result<Parts> {
    let nested = source.root.section("vision_config");
    let c = if nested.is_empty() { source.root } else { nested };
    let mut stack = stack();
    let tower = vision::clip(&mut stack, "vision_model", c, vision::CLIP)?;
    if source.class.ends_with("WithProjection") {
        stack.once(
            "",
            Block::new().linear("visual_projection", Role::Projector, source.root.int("projection_dim", 512)?, tower.hidden, false),
        );
    }
    Ok(stack.done())
}

/// clip_text_model, with or without its projection.
pub fn clip_text(source: &Source<'_>) -> Result<Parts> {
    let nested = source.root.section("text_config");
    let c = if nested.is_empty() { source.root } else { nested };
    let mut stack = stack();
    let width = text_encoder(&mut stack, c, CLIP_TEXT)?;
    if source.class.ends_with("WithProjection") {
        stack.once("", Block::new().linear("text_projection", Role::Projector, source.root.int("projection_dim", 512)?, width, false));
    }
    Ok(stack.done())
}

/// siglip and siglip2: both encoders, a head on the text side, temperature and bias.
pub fn siglip(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let mut stack = stack();
    let (text, image) = (c.section("text_config"), c.section("vision_config"));
    let second = source.model_type == "siglip2";
    let default = if second { [768, 3072, 12, 12, 256, 16] } else { vision::SIGLIP };
    if source.class.ends_with("ForImageClassification") {
        let tower = vision::siglip(&mut stack, "vision_model", image, default, true)?;
        stack.once("", Block::new().linear("classifier", Role::TaskHead, labels(c)?, tower.hidden, true));
        return Ok(stack.done());
    }
    let width = text_encoder(&mut stack, text, SIGLIP_TEXT)?;
    stack.once("text_model.head", Block::new().linear("", Role::TaskHead, text.int("projection_size", width)?, width, true));
    vision::siglip(&mut stack, "vision_model", image, default, true)?;
    stack.once("", Block::new().param("logit_scale", Role::Scale, &[1]).param("logit_bias", Role::Scale, &[1]));
    Ok(stack.done())
}

/// siglip_vision_model and siglip2_vision_model.
pub fn siglip_vision(source: &Source<'_>) -> Result<Parts> {
    let mut stack = stack();
    let default = if source.model_type.starts_with("siglip2") { [768, 3072, 12, 12, 256, 16] } else { vision::SIGLIP };
    vision::siglip(&mut stack, "vision_model", source.root, default, true)?;
    Ok(stack.done())
}
