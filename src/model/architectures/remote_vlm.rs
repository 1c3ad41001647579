//! Models of images, sound and text that bring their own code: Qwen-VL, Qwen-Audio, GLM-4V, CogVLM, Molmo and DeepSeek-VL2 with
//! DeepSeek-OCR. The first three carry the `model_type` of their language model.

use super::blocks::{Attention, Block, Norm, Window, mul};
use super::decoder::{Defaults, Dimensions, Parts, Request, Stack};
use super::encoder::NO_HEAD;
use super::vision::{self, Tower};
use super::vlm::{join_parts, language, projector};
use super::{Source, glm, qwen, vlm_more};
use crate::model::config::{Result, Section};
use crate::model::inventory::{Part, Role};

const NAMES: [&str; 4] = ["q_proj", "k_proj", "v_proj", "out_proj"];

/// The language model that the outermost keys describe, and an empty stack for the towers.
fn flat(source: &Source<'_>, build: super::TextBuild) -> Result<(Parts, Stack)> {
    let parts = build(source.root, Request { task: source.task()?, tied: None, nested: false })?;
    Ok((parts, Stack::bare(Dimensions::default(), NO_HEAD, "", Part::Vision)))
}

/// qwen; Qwen-VL where the file has a part `visual` (a tower of the CLIP form and a resampler), Qwen-Audio where it has a part `audio`.
pub fn qwen(source: &Source<'_>) -> Result<Parts> {
    let (text, mut stack) = flat(source, qwen::qwen)?;
    let (c, sound) = (source.root.section("visual"), source.root.section("audio"));
    if !sound.is_empty() {
        qwen_audio(&mut stack, sound)?;
        return Ok(join_parts(text, stack));
    }
    if c.is_empty() {
        return Ok(text);
    }
    let width = c.int("width", 1664)?;
    let (out, patch) = (c.int("output_dim", 4096)?, c.int("patch_size", 14)?);
    let inner = wider(c, width, 4.9231)?;
    let t =
        Tower { hidden: width, width: inner, layers: c.layers("layers", 48)?, heads: 1, patches: 256, pixels: mul(3, mul(patch, patch)) };
    stack.restart("transformer.visual.transformer.resblocks.{i}", Part::Vision);
    let edge = t
        .patch(false)
        .param("positional_embedding", Role::Position, &[t.patches, width])
        .layer_norm("ln_pre", width)
        .layer_norm("ln_post", out)
        .param("proj", Role::Projector, &[out, out]);
    stack.once("transformer.visual", edge);
    stack.layers(t.layers, &t.layer());
    let queries = c.int("n_queries", 256)?;
    let pool = Block::new()
        .attention_named("attn", &Attention::new(out, 1, 1, out).biases(true, true), NAMES)
        .param("pos_embed", Role::Position, &[queries, out])
        .param("query", Role::Projector, &[queries, out])
        .when(width != out, |block| block.linear("kv_proj", Role::Projector, out, width, false))
        .layer_norm("ln_q", out)
        .layer_norm("ln_kv", out);
    stack.restart("transformer.visual.attn_pool", Part::Projector);
    stack.once("transformer.visual.attn_pool", pool);
    Ok(join_parts(text, stack))
}

/// The tower of Qwen-Audio: the encoder of Whisper with fixed positions, and a projection.
fn qwen_audio(stack: &mut Stack, c: Section<'_>) -> Result<()> {
    let (width, out) = (c.int("n_state", 1280)?, c.int("output_dim", 4096)?);
    let layer = Block::new()
        .layer_norm("attn_ln", width)
        .layer_norm("mlp_ln", width)
        .linear("attn.query", Role::Attention, width, width, true)
        .linear("attn.key", Role::Attention, width, width, false)
        .linear("attn.value", Role::Attention, width, width, true)
        .linear("attn.out", Role::Attention, width, width, true)
        .plain_mlp("mlp", width, mul(width, 4), ["0", "2"], true);
    let edge = Block::new()
        .conv("conv1", Role::Conv, &[width, c.int("n_mels", 80)?, 3], true)
        .conv("conv2", Role::Conv, &[width, width, 3], true)
        .layer_norm("ln_post", width)
        .linear("proj", Role::Projector, out, width, true)
        .when(c.bool("add_audio_bos_eos_token", true)?, |block| block.embedding("audio_bos_eos_token", Role::Position, 2, out));
    stack.restart("transformer.audio.blocks.{i}", Part::Audio);
    stack.once("transformer.audio", edge);
    stack.layers(c.layers("n_layer", 32)?, &layer);
    Ok(())
}

/// Width of the feed-forward layers from the ratio to the tower's width.
fn wider(c: Section<'_>, width: u64, ratio: f64) -> Result<u64> {
    Ok((width as f64 * c.float("mlp_ratio", ratio)?.clamp(0.0, 1e6)) as u64)
}

/// chatglm, and GLM-4V where the file has a tower.
pub fn chatglm(source: &Source<'_>) -> Result<Parts> {
    let (text, mut stack) = flat(source, glm::chatglm)?;
    let c = source.root.section("vision_config");
    if c.is_empty() {
        return Ok(text);
    }
    let (hidden, width) = (text.dimensions.hidden, text.dimensions.intermediate);
    let image = eva(&mut stack, "transformer.vision", c)?;
    let conv = Block::new().conv("conv", Role::Projector, &[hidden, image, 2, 2], true);
    projector(&mut stack, gate_to_text(conv, hidden, hidden, width));
    Ok(join_parts(text, stack))
}

/// The tower of CogVLM and GLM-4V; gives its width.
fn eva(stack: &mut Stack, prefix: &str, c: Section<'_>) -> Result<u64> {
    let t = Tower::read(c, [1792, 15360, 63, 16, 490, 14])?;
    let rows = c.int("num_positions", t.patches.saturating_add(1))?;
    stack.restart(&format!("{prefix}.transformer.layers.{{i}}"), Part::Vision);
    let edge = t.patch(true).param("cls_embedding", Role::Position, &[1, t.hidden]).embedding(
        "position_embedding",
        Role::Position,
        rows,
        t.hidden,
    );
    stack.once(prefix, edge);
    stack.layers(t.layers, &t.layer());
    Ok(t.hidden)
}

/// A gated layer from a tower to the language model, and the vectors around an image.
fn gate_to_text(block: Block, input: u64, hidden: u64, width: u64) -> Block {
    block
        .linear("linear_proj.linear_proj", Role::Projector, hidden, input, false)
        .layer_norm("linear_proj.norm1", hidden)
        .gated("linear_proj", Role::Projector, hidden, width, false)
        .param("boi", Role::Position, &[1, 1, hidden])
        .param("eoi", Role::Position, &[1, 1, hidden])
}

/// cogvlm and CogVLM2: each layer has attention and feed-forward weights twice, for text and for images.
pub fn cogvlm(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let second = c.has("num_multi_query_heads");
    let default = match second {
        true => Defaults::of([128_256, 4096, 14336, 32, 32, 8, 0, 8192], false),
        false => Defaults::of([32000, 4096, 11008, 32, 32, 0, 0, 2048], false),
    };
    let mut d = Dimensions::read(c, &default)?;
    if let Some(heads) = c.int_opt("num_multi_query_heads")? {
        d.kv_heads = heads;
    }
    let (hidden, width) = (d.hidden, d.intermediate);
    let attention = d.attention();
    let layer = Block::new()
        .norm("input_layernorm", hidden)
        .norm("post_attention_layernorm", hidden)
        .fused_attention("self_attn", &attention, ["language_expert_query_key_value", "language_expert_dense"], Window::Full)
        .gated_mlp("mlp.language_mlp", hidden, width, false);
    let image = Block::new()
        .fused_attention(
            "self_attn",
            &attention.biases(second, false),
            ["vision_expert_query_key_value", "vision_expert_dense"],
            Window::Full,
        )
        .gated_mlp("mlp.vision_mlp", hidden, width, false);
    // Both experts fill one cache.
    let layer = layer.with(Block { caches: Vec::new(), ..image });
    let request = Request { task: source.task()?, tied: None, nested: false };
    let layers = d.layers;
    let mut text = Stack::new(c, d, &default, request)?;
    text.layers(layers, &layer);
    let tower = c.section("vision_config");
    if tower.is_empty() {
        text.inexact("the file does not describe its tower: the family's defaults are taken");
    }
    let text = text.finish(Norm::Weight, false);
    let mut stack = Stack::bare(Dimensions::default(), NO_HEAD, "", Part::Vision);
    let width_of_tower = eva(&mut stack, "model.vision", tower)?;
    let conv = second && tower.int("num_positions", 0)? != 1226;
    let block = Block::new().when(conv, |block| block.conv("conv", Role::Projector, &[width_of_tower, width_of_tower, 2, 2], true));
    projector(&mut stack, gate_to_text(block, width_of_tower, hidden, width));
    Ok(join_parts(text, stack))
}

/// molmo (first version): `intermediate_size` counts the gate and the up projection together; the tower is not in the file.
pub fn molmo(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let default = Defaults::of([50304, 4096, 11008, 32, 32, 0, 0, 2048], false);
    let mut d = Dimensions::read(c, &default)?;
    d.intermediate /= 2;
    d.vocab = c.int("embedding_size|vocab_size", default.vocab)?;
    let (hidden, width, layers) = (d.hidden, d.intermediate, d.layers);
    let attention = d.attention().biases(c.bool("qkv_bias", false)?, false);
    let norm = if c.str("layer_norm_type").unwrap_or("rms") == "default" { Norm::WeightBias } else { Norm::Weight };
    let (wide, keys) = (mul(d.heads, d.head_dim), mul(d.kv_heads, d.head_dim));
    let normed = c.bool("attention_layer_norm", false)?;
    let layer = Block::new()
        .norm_of(norm, "attn_norm", hidden)
        .norm_of(norm, "ff_norm", hidden)
        .when(normed, |block| block.norm_of(norm, "q_norm", wide).norm_of(norm, "k_norm", keys))
        .fused_attention("", &attention, ["att_proj", "attn_out"], Window::Full)
        .fused_gated_mlp("", hidden, width, ["ff_proj", "ff_out"], false);
    let request = Request { task: source.task()?, tied: Some(false), nested: false };
    let words = Block::new().embedding("wte.embedding", Role::Embedding, d.vocab, hidden).embedding(
        "wte.new_embedding",
        Role::Embedding,
        128,
        hidden,
    );
    let mut text = Stack::with_embedding(c, d, false, request, words)?;
    text.restart("model.transformer.blocks.{i}", Part::Text);
    text.layers(layers, &layer);
    if c.has("moe_num_experts|num_experts") || norm == Norm::WeightBias {
        text.inexact("only the dense form of this model with RMSNorm is known");
    }
    let text = text.finish(norm, false);
    let mut stack = Stack::bare(Dimensions::default(), NO_HEAD, "", Part::Vision);
    let t = Tower { hidden: 1024, width: 4096, layers: 23, heads: 16, patches: 576, pixels: 588 };
    stack.restart("model.vision_backbone.image_vit.transformer.resblocks.{i}", Part::Vision);
    let edge = Block::new()
        .linear("patch_embedding", Role::Conv, t.hidden, t.pixels, false)
        .param("class_embedding", Role::Position, &[t.hidden])
        .param("positional_embedding", Role::Position, &[t.patches.saturating_add(1), t.hidden])
        .layer_norm("pre_ln", t.hidden);
    stack.once("model.vision_backbone.image_vit", edge);
    stack.layers(t.layers, &t.layer());
    // Features of two layers side by side; one vector for padding, one for partial padding.
    let seen = mul(t.hidden, 2);
    let pool = ["wq", "wk", "wv"]
        .iter()
        .fold(Block::new(), |block, name| block.linear(&format!("image_pooling_2d.{name}"), Role::Projector, t.hidden, seen, true))
        .linear("image_pooling_2d.wo", Role::Projector, t.hidden, t.hidden, true)
        .param("pad_embed", Role::Position, &[2, seen])
        .linear("image_projector.w1", Role::Projector, width, t.hidden, false)
        .linear("image_projector.w3", Role::Projector, width, t.hidden, false)
        .linear("image_projector.w2", Role::Projector, hidden, width, false);
    stack.restart("model.vision_backbone", Part::Projector);
    stack.once("model.vision_backbone", pool);
    Ok(join_parts(text, stack))
}

/// deepseek_vl_v2: DeepSeek-VL2 with SigLIP; DeepSeek-OCR with the tower of Segment Anything and a second one behind it.
pub fn deepseek_vl2(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let inner = c.section(super::vlm::TEXT);
    let latent = inner.bool("use_mla", true)?;
    let (text, mut stack) = language(source, if latent { "deepseek_v2" } else { "deepseek" })?;
    let (image, hidden) = (c.section("vision_config"), text.dimensions.hidden);
    let towers = image.section("width");
    let (clip, qwen2) = (towers.section("clip-l-14-224"), towers.section("qwen2-0-5b"));
    let new_line = c.str("tile_tag").unwrap_or("2D") == "2D" && qwen2.is_empty();
    let mut block = Block::new().when(new_line, |block| block.param("image_newline", Role::Position, &[hidden])).param(
        "view_seperator",
        Role::Position,
        &[hidden],
    );
    if towers.is_empty() {
        let width = image.int("width", 1152)?;
        let sizes = [width, wider(image, width, 3.7362)?, 27, 16, 384, 14];
        vision::siglip(&mut stack, "vision", image, sizes, true)?;
        block = mlp_projector(&mut stack, block, c.section("projector_config"))?;
    } else {
        vlm_more::sam(&mut stack, "model.sam_model", towers.section("sam_vit_b"), 3072)?;
        let out = if qwen2.is_empty() { 1024 } else { qwen2.int("dim", 896)? };
        let nets = Block::new().conv("net_2", Role::Conv, &[512, 256, 3, 3], false).conv("net_3", Role::Conv, &[out, 512, 3, 3], false);
        stack.once("model.sam_model", nets);
        let joined = if qwen2.is_empty() {
            let t = Tower::read(clip, [1024, 4096, 24, 16, 224, 14])?;
            stack.restart("model.vision_model.transformer.layers.{i}", Part::Vision);
            let edge = t
                .patch(false)
                .param("class_embedding", Role::Position, &[t.hidden])
                .embedding("position_embedding", Role::Position, t.patches.saturating_add(1), t.hidden)
                .layer_norm("pre_layrnorm", t.hidden);
            stack.once("model.vision_model", edge);
            stack.layers(t.layers, &t.layer());
            t.hidden.saturating_add(out)
        } else {
            queried_qwen2(&mut stack, out);
            out
        };
        block = block.linear("projector.layers", Role::Projector, hidden, joined, true);
    }
    stack.restart("model", Part::Projector);
    stack.once("model", block);
    if c.str("tile_tag").is_some_and(|tag| tag != "2D") || inner.str("topk_method") == Some("noaux_tc") {
        stack.inexact("this form of the family is not known in every part");
    }
    Ok(join_parts(text, stack))
}

/// The second tower of DeepSeek-OCR 2: layers of Qwen2-0.5B over patches and learned queries of two image sizes.
fn queried_qwen2(stack: &mut Stack, hidden: u64) {
    stack.restart("model.qwen2_model.model.model.layers.{i}", Part::Vision);
    let queries = Block::new()
        .embedding("query_768", Role::Position, 144, hidden)
        .embedding("query_1024", Role::Position, 256, hidden)
        .norm("model.model.norm", hidden);
    stack.once("model.qwen2_model", queries);
    let attention = Attention::new(hidden, 14, 2, 64).biases(true, false);
    let layer = Block::new()
        .norm("input_layernorm", hidden)
        .norm("post_attention_layernorm", hidden)
        .attention_named("self_attn", &attention, ["q_proj", "k_proj", "v_proj", "o_proj"])
        .gated_mlp("mlp", hidden, 4864, false);
    stack.layers(24, &layer);
}

/// The projector of DeepSeek-VL2: merged patches, then linear layers.
fn mlp_projector(stack: &mut Stack, block: Block, c: Section<'_>) -> Result<Block> {
    let (input, out) = (c.int("input_dim", 1152)?, c.int("n_embed", 2048)?);
    let (depth, ratio) = (c.int("depth", 2)?.clamp(1, 64), c.int("mlp_ratio", 1)?);
    let side = c.int("downsample_ratio", 2)?;
    if c.str("projector_type").unwrap_or("downsample_mlp_gelu") != "downsample_mlp_gelu" || c.bool("token_pooling", false)? || depth < 2 {
        stack.inexact("the projector is of a form that is not known");
    }
    let middle = mul(out, ratio);
    let block = block.linear("projector.layers.0", Role::Projector, middle, mul(input, mul(side, side)), true);
    let block = (1..depth.saturating_sub(1))
        .fold(block, |block, index| block.linear(&format!("projector.layers.{}", index * 2), Role::Projector, middle, middle, true));
    Ok(block.linear(&format!("projector.layers.{}", (depth - 1) * 2), Role::Projector, out, middle, true))
}
