//! Further plain vision transformers: vit_mae, dinov3_vit, ijepa; and for videos timesformer, vivit.

use super::blocks::{Attention, Block, mul};
use super::decoder::{Dimensions, Parts, Stack};
use super::encoder::NO_HEAD;
use super::vision::Tower;
use super::{Source, labels};
use crate::model::config::Result;
use crate::model::inventory::{Part, Role};

const NAMES: [&str; 4] = ["q_proj", "k_proj", "v_proj", "o_proj"];

fn layer(hidden: u64, width: u64, qkv_bias: bool) -> Block {
    let attention = Attention::new(hidden, 1, 1, hidden).biases(qkv_bias, true);
    Block::new()
        .attention_named("attention", &attention, NAMES)
        .layer_norm("layernorm_before", hidden)
        .layer_norm("layernorm_after", hidden)
        .plain_mlp("mlp", hidden, width, ["fc1", "fc2"], true)
}

/// vit_mae: an encoder, and for pre-training a narrower decoder that paints the patches.
pub fn vit_mae(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let t = Tower::read(c, [768, 3072, 12, 12, 224, 16])?;
    let bias = c.bool("qkv_bias", true)?;
    let rows = t.patches.saturating_add(1);
    let mut stack = Stack::bare(Dimensions::default(), NO_HEAD, "vit.layers.{i}", Part::Vision);
    let edge = Block::new()
        .conv("patch_embeddings", Role::Conv, &[t.hidden, t.pixels], true)
        .param("cls_token", Role::Position, &[1, 1, t.hidden])
        .param("position_embeddings", Role::Position, &[1, rows, t.hidden])
        .layer_norm("layernorm", t.hidden);
    stack.once("vit.embeddings", edge);
    stack.layers(t.layers, &layer(t.hidden, t.width, bias));
    if source.class.ends_with("ForPreTraining") {
        let narrow = c.int("decoder_hidden_size", 512)?;
        let width = c.int("decoder_intermediate_size", 2048)?;
        stack.restart("decoder.decoder_layers.{i}", Part::Vision);
        let edge = Block::new()
            .linear("decoder_embed", Role::Projector, narrow, t.hidden, true)
            .param("mask_token", Role::Position, &[1, 1, narrow])
            .param("decoder_pos_embed", Role::Position, &[1, rows, narrow])
            .layer_norm("decoder_norm", narrow)
            .linear("decoder_pred", Role::TaskHead, t.pixels, narrow, true);
        stack.once("decoder", edge);
        stack.layers(c.layers("decoder_num_hidden_layers", 8)?, &layer(narrow, width, bias));
    }
    Ok(stack.done())
}

/// dinov3_vit: rotary positions, scaled residuals, biases by flags.
pub fn dinov3(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let t = Tower::read(c, [384, 1536, 12, 6, 224, 16])?;
    let registers = c.int("num_register_tokens", 0)?;
    let mlp_bias = c.bool("mlp_bias", true)?;
    let edge = Block::new()
        .conv("patch_embeddings", Role::Conv, &[t.hidden, t.pixels], true)
        .param("cls_token", Role::Position, &[1, 1, t.hidden])
        .param("mask_token", Role::Position, &[1, 1, t.hidden])
        .param("register_tokens", Role::Position, &[1, registers, t.hidden])
        .layer_norm("norm", t.hidden);
    let projection =
        |block: Block, name: &str, bias: bool| block.linear(&format!("attention.{name}"), Role::Attention, t.hidden, t.hidden, bias);
    let biases = [c.bool("query_bias", true)?, c.bool("key_bias", false)?, c.bool("value_bias", true)?, c.bool("proj_bias", true)?];
    let block = NAMES.iter().zip(biases).fold(Block::new(), |block, (name, bias)| projection(block, name, bias));
    let block = block.layer_norm("norm1", t.hidden).layer_norm("norm2", t.hidden).param("layer_scale1", Role::Scale, &[t.hidden]).param(
        "layer_scale2",
        Role::Scale,
        &[t.hidden],
    );
    let block = if c.bool("use_gated_mlp", false)? {
        block.gated_mlp("mlp", t.hidden, t.width, mlp_bias)
    } else {
        block.plain_mlp("mlp", t.hidden, t.width, ["up_proj", "down_proj"], mlp_bias)
    };
    let mut stack = Stack::bare(Dimensions::default(), NO_HEAD, "layer.{i}", Part::Vision);
    stack.once("embeddings", edge);
    stack.layers(t.layers, &block);
    Ok(stack.done())
}

/// ijepa: no class token.
pub fn ijepa(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let t = Tower::read(c, [768, 3072, 12, 12, 224, 16])?;
    let edge = Block::new()
        .conv("patch_embeddings", Role::Conv, &[t.hidden, t.pixels], true)
        .param("position_embeddings", Role::Position, &[1, t.patches, t.hidden])
        .layer_norm("layernorm", t.hidden);
    let mut stack = Stack::bare(Dimensions::default(), NO_HEAD, "layers.{i}", Part::Vision);
    stack.once("embeddings", edge);
    stack.layers(t.layers, &layer(t.hidden, t.width, c.bool("qkv_bias", true)?));
    classifier(&mut stack, source, t.hidden, "ForImageClassification")?;
    Ok(stack.done())
}

fn classifier(stack: &mut Stack, source: &Source<'_>, width: u64, ending: &str) -> Result<()> {
    if source.class.ends_with(ending) {
        stack.once("", Block::new().linear("classifier", Role::TaskHead, labels(source.root)?, width, true));
    }
    Ok(())
}

/// timesformer: attention over time before attention over space.
pub fn timesformer(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let t = Tower::read(c, [768, 3072, 12, 12, 224, 16])?;
    let kind = c.str("attention_type").unwrap_or("divided_space_time");
    let frames = c.int("num_frames", 8)?;
    let edge = Block::new()
        .conv("patch_embeddings", Role::Conv, &[t.hidden, t.pixels], true)
        .param("cls_token", Role::Position, &[1, 1, t.hidden])
        .param("position_embeddings", Role::Position, &[1, t.patches.saturating_add(1), t.hidden])
        .when(kind != "space_only", |block| block.param("time_embeddings", Role::Position, &[1, frames, t.hidden]))
        .layer_norm("layernorm", t.hidden);
    let bias = c.bool("qkv_bias", true)?;
    let own = Attention::new(t.hidden, 1, 1, t.hidden).biases(bias, true);
    let block = layer(t.hidden, t.width, bias).when(kind == "divided_space_time", |block| {
        block.layer_norm("temporal_layernorm", t.hidden).attention_named("temporal_attention", &own, NAMES).linear(
            "temporal_dense",
            Role::Attention,
            t.hidden,
            t.hidden,
            true,
        )
    });
    let mut stack = Stack::bare(Dimensions::default(), NO_HEAD, "timesformer.encoder.layer.{i}", Part::Vision);
    stack.once("timesformer.embeddings", edge);
    stack.layers(t.layers, &block);
    classifier(&mut stack, source, t.hidden, "ForVideoClassification")?;
    Ok(stack.done())
}

/// vivit: patches through several frames.
pub fn vivit(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let t = Tower::read(c, [768, 3072, 12, 12, 224, 16])?;
    let tube = c.ints("tubelet_size")?.unwrap_or_else(|| vec![2, 16, 16]);
    let [deep, high, wide] = [0, 1, 2].map(|at| tube.get(at).copied().unwrap_or(1).max(1));
    let side = c.int("image_size", 224)?;
    let patches = mul(c.int("num_frames", 32)? / deep, mul(side / high, side / wide));
    let pixels = mul(c.int("num_channels", 3)?, mul(deep, mul(high, wide)));
    let edge = Block::new()
        .conv("patch_embeddings.projection", Role::Conv, &[t.hidden, pixels], true)
        .param("cls_token", Role::Position, &[1, 1, t.hidden])
        .param("position_embeddings", Role::Position, &[1, patches.saturating_add(1), t.hidden])
        .layer_norm("layernorm", t.hidden);
    let mut stack = Stack::bare(Dimensions::default(), NO_HEAD, "vivit.layers.{i}", Part::Vision);
    stack.once("vivit.embeddings", edge);
    stack.layers(t.layers, &layer(t.hidden, t.width, c.bool("qkv_bias", true)?));
    if source.class == "VivitModel" {
        stack.once("pooler", Block::new().linear("dense", Role::TaskHead, c.int("pooler_output_size", t.hidden)?, t.hidden, true));
    }
    classifier(&mut stack, source, t.hidden, "ForVideoClassification")?;
    Ok(stack.done())
}
