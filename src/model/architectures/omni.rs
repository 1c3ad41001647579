//! Models that hear: qwen2_5_omni and qwen3_omni_moe (the part that understands), qwen3_asr,
//! granite_speech. Of the parts that speak, those of the published Qwen2.5-Omni are counted; else the
//! count is no exact one. Caches are those of the part that understands.

use super::Source;
use super::blocks::{Attention, Block, join, mul};
use super::decoder::{Defaults, Dimensions, Parts, Request, Stack, Task};
use super::encoder::NO_HEAD;
use super::towers::{self, QwenVision};
use super::vlm::{join_parts, language, projector, two_linears};
use crate::model::config::{Result, Section};
use crate::model::inventory::{Part, Role};

const NAMES: [&str; 4] = ["q_proj", "k_proj", "v_proj", "out_proj"];

/// The object of the part that understands, and its text model.
fn thinker<'a>(source: &Source<'a>, family: &str) -> Result<(Section<'a>, Parts, Stack)> {
    let inner = source.root.section("thinker_config");
    let c = if inner.is_empty() { source.root } else { inner };
    let text = c.section("text_config");
    let build = super::text(family).ok_or_else(|| c.wrong("model_type", "this language model is not known".to_owned()))?;
    let task = if source.task()? == Task::Bare { Task::Bare } else { Task::Causal };
    let mut parts = build(text, Request { task, tied: c.bool_opt("tie_word_embeddings")?, nested: true })?;
    if text.is_empty() || c.section("audio_config").is_empty() {
        parts.inexact = Some("the file does not describe its parts: the family's defaults are taken".to_owned());
    }
    if !inner.is_empty() && !source.class.contains("Thinker") {
        let why = if source.model_type == "qwen3_asr" {
            "files of this form were not compared with a class"
        } else {
            "the parts that speak (talker and vocoder) are not counted"
        };
        parts.inexact = Some(why.to_owned());
        parts.margin = None;
    }
    let stack = Stack::bare(Dimensions::default(), NO_HEAD, "", Part::Audio);
    Ok((c, parts, stack))
}

/// Layers of whisper's form; `key_bias` where the key projection has one.
fn layers(stack: &mut Stack, c: Section<'_>, [hidden, width, layers]: [u64; 3], key_bias: bool) -> Result<u64> {
    let hidden = c.int("d_model", hidden)?;
    let width = c.int("encoder_ffn_dim", width)?;
    let attention = Attention::new(hidden, 1, 1, hidden).biases(true, true);
    let mut block = Block::new().attention_named("self_attn", &attention, NAMES);
    if !key_bias {
        block.tensors.retain(|tensor| !(tensor.path.ends_with("k_proj") && tensor.parameter == "bias"));
    }
    let layer = block
        .layer_norm("self_attn_layer_norm", hidden)
        .plain_mlp("", hidden, width, ["fc1", "fc2"], true)
        .layer_norm("final_layer_norm", hidden);
    stack.layers(c.layers("encoder_layers", layers)?, &layer);
    Ok(hidden)
}

/// qwen2_5_omni: whisper's encoder, the tower of Qwen2.5-VL, Qwen2.
pub fn qwen25(source: &Source<'_>) -> Result<Parts> {
    let (c, text, mut stack) = thinker(source, "qwen2_vl_text")?;
    let (sound, image) = (c.section("audio_config"), c.section("vision_config"));
    let out = text.dimensions.hidden;
    stack.restart("audio_tower.layers.{i}", Part::Audio);
    let width = layers(&mut stack, sound, [1280, 5120, 32], false)?;
    let edge = Block::new()
        .conv("conv1", Role::Conv, &[width, sound.int("num_mel_bins", 128)?, 3], true)
        .conv("conv2", Role::Conv, &[width, width, 3], true)
        .embedding("audio_bos_eos_token", Role::Position, 2, sound.int("output_dim", 3584)?)
        .layer_norm("ln_post", width)
        .linear("proj", Role::Projector, sound.int("output_dim", out)?, width, true);
    stack.once("audio_tower", edge);
    towers::qwen(&mut stack, "visual", image, QwenVision::V25, 0)?;
    let root = source.root;
    let speaks = !root.section("thinker_config").is_empty() && !source.class.contains("Thinker");
    let known = speaks && talker(&mut stack, root.section("talker_config"), out)? && vocoder(&mut stack, root.section("token2wav_config"))?;
    let mut parts = join_parts(text, stack);
    if known && root.bool("enable_audio_output", true)? {
        parts.inexact = parts.inexact.filter(|why| !why.contains("speak"));
        parts.notes.push("the KV cache is that of the part that understands".to_owned());
    }
    Ok(parts)
}

/// The part of Qwen2.5-Omni that speaks: Qwen2 on embeddings of the other part's width.
fn talker(stack: &mut Stack, c: Section<'_>, seen: u64) -> Result<bool> {
    if c.is_empty() {
        return Ok(false);
    }
    let default = Defaults::of([8448, 896, 18944, 24, 12, 4, 128, 32768], false);
    let d = Dimensions::read(c, &default)?;
    let wide = c.int("embedding_size", seen)?;
    stack.restart("talker.model.layers.{i}", Part::Audio);
    let edge = Block::new()
        .linear("thinker_to_talker_proj", Role::Projector, d.hidden, wide, true)
        .embedding("model.embed_tokens", Role::Position, d.vocab, wide)
        .norm("model.norm", d.hidden)
        .linear("codec_head", Role::TaskHead, d.vocab, d.hidden, false);
    stack.once("talker", edge);
    let layer = Block::new()
        .norm("input_layernorm", d.hidden)
        .norm("post_attention_layernorm", d.hidden)
        .attention_named("self_attn", &d.attention().biases(true, false), ["q_proj", "k_proj", "v_proj", "o_proj"])
        .gated_mlp("mlp", d.hidden, d.intermediate, false);
    stack.layers(d.layers, &layer);
    Ok(true)
}

/// The vocoder of Qwen2.5-Omni, whose size is a fact of the published network.
fn vocoder(stack: &mut Stack, c: Section<'_>) -> Result<bool> {
    let (transformer, waves) = (c.section("dit_config"), c.section("bigvgan_config"));
    let published = transformer.int("num_hidden_layers|depth", 0)? == 22
        && transformer.int("hidden_size|dim", 0)? == 1024
        && transformer.int("emb_dim", 0)? == 512
        && transformer.int("num_embeds", 0)? == 8193
        && transformer.int("ff_mult", 0)? == 2
        && waves.int("upsample_initial_channel", 0)? == 1536;
    if published {
        stack.once("token2wav", Block::new().param("code2wav", Role::Conv, &[449_051_264]));
    }
    Ok(published)
}

/// The encoder of Qwen3's sound: three convolutions over time and frequency. Gives its width.
fn sound3(stack: &mut Stack, c: Section<'_>, default: [u64; 3]) -> Result<u64> {
    stack.restart("audio_tower.layers.{i}", Part::Audio);
    let width = layers(stack, c, default, true)?;
    let (inner, mels) = (c.int("downsample_hidden_size", 480)?, c.int("num_mel_bins", 128)?);
    // Each convolution halves the frequencies.
    let rows = mels.div_ceil(2).div_ceil(2).div_ceil(2);
    let edge = Block::new()
        .conv("conv2d1", Role::Conv, &[inner, 1, 3, 3], true)
        .conv("conv2d2", Role::Conv, &[inner, inner, 3, 3], true)
        .conv("conv2d3", Role::Conv, &[inner, inner, 3, 3], true)
        .linear("conv_out", Role::Projector, width, mul(inner, rows), false)
        .layer_norm("ln_post", width);
    stack.once("audio_tower", edge);
    Ok(width)
}

/// qwen3_omni_moe: the sound encoder, the tower of Qwen3-VL, Qwen3 with experts.
pub fn qwen3(source: &Source<'_>) -> Result<Parts> {
    let (c, text, mut stack) = thinker(source, "qwen3_omni_moe_text")?;
    let (sound, image) = (c.section("audio_config"), c.section("vision_config"));
    let width = sound3(&mut stack, sound, [1280, 5120, 32])?;
    let out = sound.int("output_dim", 3584)?;
    stack.once(
        "audio_tower",
        Block::new().linear("proj1", Role::Projector, width, width, true).linear("proj2", Role::Projector, out, width, true),
    );
    towers::qwen(&mut stack, "visual", image, QwenVision::V3, 3)?;
    Ok(join_parts(text, stack))
}

/// qwen3_asr: the sound encoder, two linear layers, Qwen3.
pub fn asr3(source: &Source<'_>) -> Result<Parts> {
    let inner = source.root.section("thinker_config");
    let (c, text, mut stack) = if inner.is_empty() {
        let (text, stack) = language(source, "qwen3")?;
        (source.root, text, stack)
    } else {
        thinker(source, "qwen3")?
    };
    let sound = c.section("audio_config");
    let width = sound3(&mut stack, sound, [1024, 4096, 24])?;
    let out = sound.int("output_dim", 3584)?;
    projector(&mut stack, two_linears(width, width, out, true));
    if source.class.ends_with("Classification") {
        stack.inexact("the head of this class is not known");
    }
    Ok(join_parts(text, stack))
}

/// granite_speech: a conformer, a query transformer, Granite. The adapter for sound is not counted.
pub fn granite(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let (text, mut stack) = language(source, "granite")?;
    let e = c.section("encoder_config");
    let hidden = e.int("hidden_dim", 1024)?;
    let inner = mul(e.int("num_heads", 8)?, e.int("dim_head", 128)?);
    let (wide, width) = (mul(hidden, e.int("conv_expansion_factor", 2)?), mul(hidden, e.int("feedforward_mult", 4)?));
    let (kernel, out, positions) = (e.int("conv_kernel_size", 15)?, e.int("output_dim", 42)?, e.int("max_pos_emb", 512)?);
    stack.restart("encoder.layers.{i}", Part::Audio);
    let edge = Block::new()
        .linear("input_linear", Role::Projector, hidden, e.int("input_dim", 160)?, true)
        .linear("out", Role::TaskHead, out, hidden, true)
        .linear("out_mid", Role::Projector, hidden, out, true);
    stack.once("encoder", edge);
    let feed = |block: Block, name: &str| {
        block.layer_norm(&join(name, "pre_norm"), hidden).plain_mlp(name, hidden, width, ["up_proj", "down_proj"], true)
    };
    let layer = feed(feed(Block::new(), "ff1"), "ff2")
        .layer_norm("attn.pre_norm", hidden)
        .linear("attn.to_q", Role::Attention, inner, hidden, false)
        .linear("attn.to_kv", Role::Attention, mul(inner, 2), hidden, false)
        .linear("attn.to_out", Role::Attention, hidden, inner, true)
        .embedding("attn.rel_pos_emb", Role::Position, mul(positions, 2).saturating_add(1), e.int("dim_head", 128)?)
        .layer_norm("conv.norm", hidden)
        .conv("conv.up_conv", Role::Conv, &[mul(wide, 2), hidden, 1], true)
        .conv("conv.depth_conv.conv", Role::Conv, &[wide, 1, kernel], false)
        .layer_norm("conv.batch_norm", wide)
        .conv("conv.down_conv", Role::Conv, &[hidden, wide, 1], true)
        .layer_norm("post_norm", hidden);
    stack.layers(e.layers("num_layers", 10)?, &layer);
    let q = c.section("projector_config");
    let queries = c.int("window_size", 15)? / c.divisor("downsample_rate", 5)?;
    let width = super::blip::query_transformer(&mut stack, q, q.int("encoder_hidden_size", if q.is_empty() { hidden } else { 1408 })?)?;
    projector(
        &mut stack,
        Block::new().param("query", Role::Projector, &[1, queries, width]).linear(
            "linear",
            Role::Projector,
            text.dimensions.hidden,
            width,
            true,
        ),
    );
    let mut parts = join_parts(text, stack);
    // The encoder is described under a name of its own.
    if !e.is_empty() {
        parts.inexact = parts.inexact.filter(|why| !why.contains("tower"));
    }
    Ok(parts)
}
