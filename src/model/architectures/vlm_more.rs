//! Further models of images and text: aria, ernie4_5_vl_moe, paddleocr_vl, lighton_ocr, got_ocr2,
//! fuyu, kosmos-2, instructblip, phi4_multimodal, ovis2, minicpmv, minicpmv4_6, glm46v, glm_ocr.

use super::Source;
use super::blocks::{Attention, Block, Norm, join, mul};
use super::decoder::{Parts, Stack};
use super::vision::{self, Tower};
use super::vlm::{join_parts, language, projector, tower, two_linears};
use crate::model::config::{Result, Section};
use crate::model::inventory::{Part, Role};

const NAMES: [&str; 4] = ["q_proj", "k_proj", "v_proj", "out_proj"];

/// Attention with biases over a width, as the vision towers use it.
fn square(block: Block, path: &str, width: u64) -> Block {
    block.attention_named(path, &Attention::new(width, 1, 1, width).biases(true, true), NAMES)
}

/// The vision tower of SigLIP without its head.
fn siglip_without_head(stack: &mut Stack, prefix: &str, c: Section<'_>, default: [u64; 6]) -> Result<Tower> {
    let t = Tower::read(c, default)?;
    siglip_layers(stack, prefix, &t);
    Ok(t)
}

fn siglip_layers(stack: &mut Stack, prefix: &str, t: &Tower) {
    stack.restart(&join(prefix, "encoder.layers.{i}"), Part::Vision);
    let edge = t.patch(true).embedding("position_embedding", Role::Position, t.patches, t.hidden).layer_norm("post_layernorm", t.hidden);
    stack.once(prefix, edge);
    stack.layers(t.layers, &t.layer());
}

/// aria: SigLIP and a cross-attention to learned queries.
pub fn aria(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let (text, mut stack) = language(source, "aria_text")?;
    let image = c.section("vision_config");
    let width = siglip_without_head(&mut stack, "vision_tower", image, [1152, 3072, 12, 16, 224, 32])?.hidden;
    let hidden = text.dimensions.hidden;
    let table = c.section("projector_patch_to_query_dict");
    let count = |node: &crate::model::json::Node| match node.value {
        crate::model::json::Value::Integer(count) => u64::try_from(count).ok(),
        _ => None,
    };
    let queries = table.members().filter_map(|(_, node)| count(node)).max().unwrap_or(256);
    let attention = square(Block::new(), "cross_attn.multihead_attn", width);
    let block = ["q_proj", "k_proj", "v_proj"]
        .iter()
        .fold(attention, |block, name| block.linear(&join("cross_attn", name), Role::Projector, width, width, false))
        .linear("cross_attn.linear", Role::Projector, width, width, true)
        .layer_norm("cross_attn.layer_norm", width)
        .layer_norm("cross_attn.layer_norm_kv", width)
        .param("query", Role::Projector, &[queries, width])
        .layer_norm("layer_norm", width)
        .linear("feed_forward.linear_in", Role::Projector, hidden, width, false)
        .linear("feed_forward.linear_out", Role::Projector, hidden, hidden, false);
    projector(&mut stack, block);
    Ok(join_parts(text, stack))
}

/// ernie4_5_vl_moe: a tower of the Qwen form, and a resampler over space and time.
pub fn ernie_vl(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let (text, mut stack) = language(source, "ernie4_5_vl_moe_text")?;
    let image = c.section("vision_config");
    let hidden = image.int("hidden_size|embed_dim", 1280)?;
    let width = image.int("intermediate_size", 5120)?;
    let patch = image.int("patch_size", 14)?;
    stack.restart("model.vision_tower.blocks.{i}", Part::Vision);
    let pixels = mul(image.int("in_channels|in_chans", 3)?, mul(patch, patch));
    stack.once("model.vision_tower", Block::new().linear("patch_embed.proj", Role::Conv, hidden, pixels, false).layer_norm("ln", hidden));
    let layer = Block::new()
        .layer_norm("norm1", hidden)
        .layer_norm("norm2", hidden)
        .linear("attn.qkv", Role::Attention, mul(hidden, 3), hidden, true)
        .linear("attn.proj", Role::Attention, hidden, hidden, true)
        .plain_mlp("mlp", hidden, width, ["fc1", "fc2"], true);
    stack.layers(image.layers("depth", 32)?, &layer);
    let merge = image.int("spatial_merge_size", 2)?;
    let time = image.int("temporal_merge_size", 2)?;
    let merged = mul(hidden, mul(merge, merge));
    let out = text.dimensions.hidden;
    let two = |block: Block, name: &str, input: u64| {
        block
            .linear(&format!("{name}.fc1"), Role::Projector, merged, input, true)
            .linear(&format!("{name}.fc2"), Role::Projector, merged, merged, true)
            .layer_norm(&format!("{name}.ln"), merged)
    };
    stack.restart("model.resampler_model", Part::Projector);
    stack.once(
        "model.resampler_model",
        two(two(Block::new(), "spatial_linear", merged), "temporal_linear", mul(merged, time))
            .linear("mlp", Role::Projector, out, merged, true)
            .norm("after_norm", out),
    );
    Ok(join_parts(text, stack))
}

/// paddleocr_vl: SigLIP with its own resolution, two linear layers.
pub fn paddle_ocr(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let (text, mut stack) = language(source, "ernie4_5")?;
    let image = c.section("vision_config");
    let width = siglip_without_head(&mut stack, "model.visual", image, [1152, 4304, 27, 16, 384, 14])?.hidden;
    let merge = image.int("spatial_merge_size", 2)?;
    let merged = mul(width, mul(merge, merge));
    projector(&mut stack, two_linears(merged, merged, text.dimensions.hidden, true).layer_norm("pre_norm", width));
    Ok(join_parts(text, stack))
}

/// lighton_ocr: Pixtral, patches merged four to one.
pub fn lighton_ocr(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let (text, mut stack) = language(source, "qwen3")?;
    let hidden = text.dimensions.hidden;
    let width = tower(&mut stack, c.section("vision_config"), "pixtral")?;
    let merge = c.int("spatial_merge_size", 2)?;
    projector(
        &mut stack,
        two_linears(width, hidden, hidden, false).norm("norm", width).linear(
            "patch_merger.merging_layer",
            Role::Projector,
            width,
            mul(width, mul(merge, merge)),
            false,
        ),
    );
    Ok(join_parts(text, stack))
}

/// The tower of Segment Anything: windows in most layers, relative positions; `width` is that of its
/// feed-forward layers where the file names none. Gives the width of its neck.
pub(super) fn sam(stack: &mut Stack, prefix: &str, c: Section<'_>, width: u64) -> Result<u64> {
    let mut t = Tower::read(c, [768, width, 12, 12, 1024, 16])?;
    // Files of this family also hold an `intermediate_size` that no class reads.
    t.width = c.int("mlp_dim", width)?;
    let (side, window) = (t.patches.isqrt(), c.int("window_size", 14)?);
    let global = c.ints("global_attn_indexes")?.unwrap_or_else(|| vec![2, 5, 8, 11]);
    let head = t.hidden / t.heads;
    let out = c.int("output_channels", 256)?;
    let relative = c.bool("use_rel_pos", true)?;
    let absolute = c.bool("use_abs_pos", true)?;
    stack.restart(&join(prefix, "layers.{i}"), Part::Vision);
    let edge = Block::new()
        .conv("patch_embed.projection", Role::Conv, &[t.hidden, t.pixels], true)
        .when(absolute, |block| block.param("pos_embed", Role::Position, &[1, side, side, t.hidden]))
        .conv("neck.conv1", Role::Conv, &[out, t.hidden, 1, 1], false)
        .layer_norm("neck.layer_norm1", out)
        .conv("neck.conv2", Role::Conv, &[out, out, 3, 3], false)
        .layer_norm("neck.layer_norm2", out);
    stack.once(prefix, edge);
    let attention = Attention::new(t.hidden, 1, 1, t.hidden).biases(c.bool("qkv_bias", true)?, true);
    for index in 0..t.layers {
        let span = if global.contains(&index) || window == 0 { side } else { window };
        let rows = mul(span, 2).saturating_sub(1);
        let layer = Block::new()
            .attention_named("attn", &attention, NAMES)
            .layer_norm("layer_norm1", t.hidden)
            .plain_mlp("mlp", t.hidden, t.width, ["lin1", "lin2"], true)
            .layer_norm("layer_norm2", t.hidden)
            .when(relative, |block| {
                block.param("attn.rel_pos_h", Role::Position, &[rows, head]).param("attn.rel_pos_w", Role::Position, &[rows, head])
            });
        stack.layer(layer);
    }
    Ok(out)
}

/// got_ocr2: the tower of Segment Anything, two convolutions and a linear layer.
pub fn got_ocr(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let (text, mut stack) = language(source, "qwen2")?;
    let out = sam(&mut stack, "model.vision_tower", c.section("vision_config"), 3072)?;
    let hidden = text.dimensions.hidden;
    projector(
        &mut stack,
        Block::new()
            .conv("conv_upsampler1", Role::Projector, &[mul(out, 2), out, 3, 3], false)
            .conv("conv_upsampler2", Role::Projector, &[hidden, mul(out, 2), 3, 3], false)
            .linear("multimodal_projector", Role::Projector, hidden, hidden, true),
    );
    Ok(join_parts(text, stack))
}

/// fuyu: patches go straight into the language model.
pub fn fuyu(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let (mut text, mut stack) = language(source, "persimmon")?;
    // There is no tower that a file could leave out.
    if !c.section("text_config").is_empty() || c.has("hidden_size") {
        text.inexact = text.inexact.filter(|why| !why.contains("tower"));
    }
    let patch = c.int("patch_size", 30)?;
    let pixels = mul(c.int("num_channels", 3)?, mul(patch, patch));
    stack.restart("model", Part::Projector);
    stack.once("model", Block::new().linear("vision_embed_tokens", Role::Projector, text.dimensions.hidden, pixels, true));
    Ok(join_parts(text, stack))
}

/// ovis2: a tower of the AIMv2 form whose head picks visual words from a table.
pub fn ovis2(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let (text, mut stack) = language(source, "qwen2")?;
    let image = c.section("vision_config");
    let t = Tower::read(image, [1024, 2816, 24, 8, 224, 14])?;
    let (bias, mlp_bias) = (image.bool("qkv_bias", false)?, image.bool("mlp_bias", false)?);
    stack.restart("model.vision_tower.transformer.encoder.layers.{i}", Part::Vision);
    let edge = t
        .patch(true)
        .embedding("position_embedding", Role::Position, t.patches, t.hidden)
        .norm("embeddings.rms_norm", t.hidden)
        .norm("rms_norm", t.hidden);
    stack.once("model.vision_tower.transformer", edge);
    let layer = Block::new()
        .attention_named("attention", &Attention::new(t.hidden, 1, 1, t.hidden).biases(bias, bias), NAMES)
        .gated_mlp("ffn", t.hidden, t.width, mlp_bias)
        .norm("rms_norm1", t.hidden)
        .norm("rms_norm2", t.hidden);
    stack.layers(t.layers, &layer);
    let words = image.int("vocab_size", 16384)?;
    let (stride, marks) = (image.int("hidden_stride", 1)?, image.int("num_visual_indicator_tokens", 5)?);
    let rows = words.saturating_sub(marks);
    stack.once(
        "model.vision_tower",
        Block::new().linear("head_linear", Role::Projector, rows, mul(t.hidden, mul(stride, stride)), false).layer_norm("head_norm", rows),
    );
    stack.once("model", Block::new().embedding("visual_embeddings_table", Role::Projector, words, c.int("hidden_size", 1536)?));
    Ok(join_parts(text, stack))
}

/// minicpmv4_6: SigLIP with a merger inside, and mergers before the language model.
pub fn minicpmv46(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let (text, mut stack) = language(source, "qwen3_5_text")?;
    let image = c.section("vision_config");
    let t = siglip_without_head(&mut stack, "model.vision_tower", image, [768, 3072, 12, 12, 224, 16])?;
    let kernel = image.ints("window_kernel_size")?.unwrap_or_else(|| vec![2, 2]);
    let area = kernel.iter().fold(1u64, |product, side| product.saturating_mul(*side));
    let merged = mul(t.hidden, area);
    let width = mul(t.width, area);
    let inner = square(Block::new(), "self_attn", t.hidden)
        .layer_norm("layer_norm1", t.hidden)
        .layer_norm("pre_norm", merged)
        .linear("linear_1", Role::Projector, width, merged, true)
        .linear("linear_2", Role::Projector, t.hidden, width, true);
    stack.once("model.vision_tower.vit_merger", inner);
    let times = c.int("merger_times", 1)?.max(1);
    let hidden = text.dimensions.hidden;
    stack.restart("model.merger.mlp.{i}", Part::Projector);
    let kernel = c.ints("merge_kernel_size")?.unwrap_or_else(|| vec![2, 2]);
    let input = mul(t.hidden, kernel.iter().fold(1u64, |product, side| product.saturating_mul(*side)));
    for index in 0..times.min(64) {
        let out = if index + 1 == times { hidden } else { t.hidden };
        stack.layer(two_linears(input, input, out, true).layer_norm("pre_norm", input));
    }
    Ok(join_parts(text, stack))
}

/// minicpmv (remote code): SigLIP without its head and a resampler with learned queries.
pub fn minicpmv(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    // The language model is described by the outermost keys; its kind follows from the version.
    let version = c.node("version").map(|(_, node)| &node.value);
    let version = match version {
        Some(crate::model::json::Value::Float(number)) => *number,
        Some(crate::model::json::Value::Integer(number)) => *number as f64,
        Some(crate::model::json::Value::String(text)) => text.parse().unwrap_or(0.0),
        _ => 0.0,
    };
    let family = match () {
        () if version >= 4.5 => "qwen3",
        () if version >= 4.0 => "llama",
        () if version >= 2.6 => "qwen2",
        () if version >= 2.5 => "llama",
        () => "minicpm",
    };
    let (mut text, mut stack) = language(source, family)?;
    if version == 2.6 || version == 2.5 || (4.0..=4.5).contains(&version) {
        text.inexact = text.inexact.filter(|why| !why.contains("tower"));
    }
    let image = c.section("vision_config");
    // The first two versions name their tower only, and keep positions of their own for the queries.
    let early = version == 0.0 && image.is_empty();
    let mut t = Tower::read(image, [1152, 4304, 27, 16, if early { 384 } else { 980 }, 14])?;
    if c.bool("drop_vision_last_layer", false)? {
        t.layers = t.layers.saturating_sub(1);
    }
    siglip_layers(&mut stack, "vpm", &t);
    let hidden = text.dimensions.hidden;
    stack.restart("resampler", Part::Projector);
    let queries = c.int("query_num", 64)?;
    let block = square(Block::new(), "attn", hidden)
        .param("query", Role::Projector, &[queries, hidden])
        .when(early, |block| block.param("pos_embed", Role::Position, &[queries, hidden]))
        .linear("kv_proj", Role::Projector, hidden, t.hidden, false)
        .layer_norm("ln_q", hidden)
        .layer_norm("ln_kv", hidden)
        .layer_norm("ln_post", hidden)
        .param("proj", Role::Projector, &[hidden, hidden]);
    stack.once("resampler", block);
    let named = c.str("vision_encoder") == Some("vit_so400m_patch14_siglip_384.webli");
    if named && early {
        text.inexact = text.inexact.filter(|why| !why.contains("tower"));
    }
    if version < 2.5 && !(named && early) {
        stack.inexact("this version of the model is not known");
    }
    Ok(join_parts(text, stack))
}

/// glm_ocr: the tower of GLM-V without learned positions, with normalised queries and keys.
pub fn glm_ocr(source: &Source<'_>) -> Result<Parts> {
    let (text, mut stack) = language(source, "glm_ocr_text")?;
    let c = source.root.section("vision_config");
    let t = Tower::read(c, [1024, 4096, 24, 16, 336, 14])?;
    let out = c.int("out_hidden_size", 1536)?;
    let (time, merge) = (c.int("temporal_patch_size", 2)?, c.int("spatial_merge_size", 2)?);
    let bias = c.bool("attention_bias", true)?;
    let head = t.hidden / t.heads;
    stack.restart("model.visual.blocks.{i}", Part::Vision);
    let edge = Block::new()
        .conv("patch_embed.proj", Role::Conv, &[t.hidden, mul(t.pixels, time)], true)
        .norm("post_layernorm", t.hidden)
        .conv("downsample", Role::Projector, &[out, t.hidden, merge, merge], true);
    stack.once("model.visual", edge);
    let layer = Block::new()
        .norm("norm1", t.hidden)
        .norm("norm2", t.hidden)
        .linear("attn.qkv", Role::Attention, mul(t.hidden, 3), t.hidden, bias)
        .linear("attn.proj", Role::Attention, t.hidden, t.hidden, bias)
        .norm("attn.q_norm", head)
        .norm("attn.k_norm", head)
        .gated_mlp("mlp", t.hidden, t.width, bias);
    stack.layers(t.layers, &layer);
    let width = mul(out, c.int("in_channels|in_chans", 3)?);
    let merger = Block::new().linear("proj", Role::Projector, out, out, false).layer_norm("post_projection_norm", out).gated(
        "",
        Role::Projector,
        out,
        width,
        false,
    );
    stack.restart("model.visual", Part::Projector);
    stack.once("model.visual.merger", merger);
    Ok(join_parts(text, stack))
}

/// kosmos-2: CLIP, an attention pooling, and a decoder with a norm more in each half of a layer.
pub fn kosmos2(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let text = c.section("text_config");
    let hidden = text.int("embed_dim", 2048)?;
    let d = super::decoder::Dimensions {
        hidden,
        layers: text.layers("layers", 24)?,
        heads: text.divisor("attention_heads", 32)?,
        intermediate: text.int("ffn_dim", 8192)?,
        vocab: text.int("vocab_size", 65037)?,
        positions: text.int("max_position_embeddings", 2048)?,
        ..super::decoder::Dimensions::default()
    };
    let d = super::decoder::Dimensions { kv_heads: d.heads, head_dim: hidden / d.heads, ..d };
    let default = super::decoder::Defaults::of([65037, 2048, 8192, 24, 32, 0, 0, 2048], true);
    let request = super::decoder::Request { task: super::decoder::Task::Bare, tied: Some(true), nested: true };
    let mut stack = Stack::new(text, d.clone(), &default, request)?;
    let attention = d.attention().biases(true, true);
    let layer = Block::new()
        .attention_named("self_attn", &attention, NAMES)
        .cache(attention.cache(super::blocks::Window::Full))
        .layer_norm("self_attn.inner_attn_ln", hidden)
        .layer_norm("self_attn_layer_norm", hidden)
        .layer_norm("final_layer_norm", hidden)
        .plain_mlp("ffn", hidden, d.intermediate, ["fc1", "fc2"], true)
        .layer_norm("ffn.ffn_layernorm", d.intermediate);
    stack.layers(d.layers, &layer);
    stack.once("text_model.model", Block::new().norm_of(Norm::WeightBias, "layer_norm", hidden));
    let width = vision::clip(&mut stack, "vision_model", c.section("vision_config"), [1024, 4096, 24, 16, 224, 14])?.hidden;
    stack.restart("image_to_text_projection", Part::Projector);
    let pool = square(Block::new(), "x_attn", hidden)
        .param("latent_query", Role::Projector, &[c.int("latent_query_num", 64)?, hidden])
        .linear("dense", Role::Projector, hidden, width, true);
    stack.once("image_to_text_projection", pool);
    let mut parts = stack.done();
    if !c.bool("tie_word_embeddings", true)? || !text.bool("tie_word_embeddings", true)? {
        parts.inexact = Some("this family shares its head, and the file says otherwise".to_owned());
    }
    Ok(parts)
}
