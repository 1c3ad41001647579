//! Models of several parts: a tower for images or sound, a projector, a language model.
//!
//! Whether the head shares the embedding is read from the outer object, else from the object of the
//! language model, else from the family's default.

use super::blocks::{Block, mul};
use super::decoder::{Dimensions, Parts, Request, Stack, Task};
use super::encoder::NO_HEAD;
use super::towers::{self, QwenVision};
use super::vision::{self, CLIP_L_336, SIGLIP};
use super::{Source, speech};
use crate::model::config::{Result, Section};
use crate::model::inventory::{Part, Role};

/// Objects that describe the language model.
pub const TEXT: &str = "text_config|llm_config|language_config|thinker_config";

/// Families whose language model is never described by the outermost keys: a key there speaks of something else.
const NEVER_FLAT: &[&str] =
    &["voxtral", "granite_speech", "mistral3", "internvl", "gemma3", "gemma4", "idefics3", "smolvlm", "qwen3_asr", "lfm2_vl"];

/// The language model of a file; a flat file describes it with its outermost keys.
pub(super) fn language(source: &Source<'_>, default_type: &str) -> Result<(Parts, Stack)> {
    let nested = source.root.section(TEXT);
    let c = if nested.is_empty() { source.root } else { nested };
    let named = if nested.is_empty() { None } else { nested.str("model_type") };
    let build = named
        .and_then(super::text)
        .or_else(|| super::text(default_type))
        .ok_or_else(|| c.wrong("model_type", "this language model is not known".to_owned()))?;
    let task = match source.task()? {
        Task::Bare => Task::Bare,
        Task::Question => Task::Causal,
        task => task,
    };
    let nested_object = !nested.is_empty();
    let mut parts = build(c, Request { task, tied: source.root.bool_opt("tie_word_embeddings")?, nested: nested_object })?;
    let flat = source.root.has(super::decoder::keys::HIDDEN) && !NEVER_FLAT.contains(&source.model_type);
    if nested.is_empty() && !flat {
        parts.inexact = Some("the file does not describe its language model: the family's smallest defaults are taken".to_owned());
    }
    let tower = source.root.section("vision_config|audio_config");
    let bare = tower.is_empty() && !source.root.has("mm_vision_tower|img_processor") && source.model_type != "gemma4";
    if bare && parts.inexact.is_none() {
        parts.inexact = Some("the file does not describe its tower: the family's defaults are taken".to_owned());
    }
    Ok((parts, Stack::bare(Dimensions::default(), NO_HEAD, "", Part::Vision)))
}

/// Joins the language model and the towers.
pub(super) fn join_parts(mut text: Parts, towers: Stack) -> Parts {
    let towers = towers.done();
    text.inventory.groups.extend(towers.inventory.groups);
    text.notes.extend(towers.notes);
    if text.inexact.is_none() {
        text.inexact = towers.inexact;
    }
    text
}

/// A tower by the `model_type` of its object; gives its width.
pub(super) fn tower(stack: &mut Stack, c: Section<'_>, default: &str) -> Result<u64> {
    let prefix = "vision_tower";
    Ok(match c.str("model_type").unwrap_or(default) {
        "siglip_vision_model" | "siglip" | "siglip2_vision_model" | "siglip2" => vision::siglip(stack, prefix, c, SIGLIP, true)?.hidden,
        "pixtral" => vision::pixtral(stack, prefix, c)?.hidden,
        "internvl_vision" => vision::intern(stack, prefix, c, false)?.hidden,
        "intern_vit_6b" => vision::intern(stack, prefix, c, true)?.hidden,
        "clip_vision_model" | "clip" => vision::clip(stack, prefix, c, vision::CLIP)?.hidden,
        // A file that does not describe the tower means the large one; keys left out are the small one's.
        "clip_l_336" => vision::clip(stack, prefix, c, if c.is_empty() { CLIP_L_336 } else { vision::CLIP })?.hidden,
        other => {
            stack.inexact(format!("the vision tower `{other}` is not known and not counted"));
            c.int("hidden_size", 1024)?
        }
    })
}

pub(super) fn projector(stack: &mut Stack, block: Block) {
    stack.restart("multi_modal_projector", Part::Projector);
    stack.once("multi_modal_projector", block);
}

/// Two linear layers from a tower to the language model.
pub(super) fn two_linears(input: u64, middle: u64, out: u64, bias: bool) -> Block {
    Block::new().linear("linear_1", Role::Projector, middle, input, bias).linear("linear_2", Role::Projector, out, middle, bias)
}

/// SigLIP with the class's defaults for keys left out, or without its head where nothing is said.
pub(super) fn described_siglip(stack: &mut Stack, c: Section<'_>, absent: [u64; 6]) -> Result<u64> {
    let sizes = if c.is_empty() { absent } else { SIGLIP };
    Ok(vision::siglip(stack, "vision_tower", c, sizes, !c.is_empty())?.hidden)
}

/// mistral3: Pixtral, patches merged four to one.
pub fn mistral3(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let (text, mut stack) = language(source, "mistral")?;
    let hidden = text.dimensions.hidden;
    let width = tower(&mut stack, c.section("vision_config"), "pixtral")?;
    let merge = c.int("spatial_merge_size", 2)?;
    let bias = c.bool("multimodal_projector_bias", false)?;
    projector(
        &mut stack,
        two_linears(width, hidden, hidden, bias).norm("norm", width).linear(
            "patch_merger.merging_layer",
            Role::Projector,
            width,
            mul(width, mul(merge, merge)),
            false,
        ),
    );
    Ok(join_parts(text, stack))
}

/// internvl (transformers) and internvl_chat (remote code): InternViT, a norm and two linear layers.
pub fn internvl(source: &Source<'_>) -> Result<Parts> {
    let remote = source.model_type == "internvl_chat";
    let (text, mut stack) = language(source, if remote { "internlm2" } else { "qwen2" })?;
    let hidden = text.dimensions.hidden;
    let width = tower(&mut stack, source.root.section("vision_config"), if remote { "intern_vit_6b" } else { "internvl_vision" })?;
    let ratio = source.root.float("downsample_ratio", 0.5)?;
    if !(0.01..=1.0).contains(&ratio) {
        return Err(source.root.wrong("downsample_ratio", "must lie between 0 and 1".to_owned()));
    }
    let side = (1.0 / ratio) as u64;
    let input = mul(width, mul(side, side));
    projector(&mut stack, two_linears(input, hidden, hidden, true).layer_norm("layer_norm", input));
    Ok(join_parts(text, stack))
}

/// lfm2_vl: SigLIP 2, two linear layers.
pub fn lfm2_vl(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let (text, mut stack) = language(source, "lfm2")?;
    let hidden = text.dimensions.hidden;
    let width = tower(&mut stack, c.section("vision_config"), "siglip2_vision_model")?;
    let factor = c.int("downsample_factor", 2)?;
    let (input, middle, bias) = (mul(width, mul(factor, factor)), c.int("projector_hidden_size", 2560)?, c.bool("projector_bias", true)?);
    projector(
        &mut stack,
        two_linears(input, middle, hidden, bias)
            .when(c.bool("projector_use_layernorm", true)?, |block| block.layer_norm("layer_norm", input)),
    );
    Ok(join_parts(text, stack))
}

/// aya_vision and cohere2_vision: SigLIP, a gated pair of linear layers.
pub fn cohere_vision(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let aya = source.model_type == "aya_vision";
    let (text, mut stack) = language(source, "cohere2")?;
    let hidden = text.dimensions.hidden;
    let vision = c.section("vision_config");
    let default = [1152, 4304, if aya { 26 } else { 27 }, if aya { 14 } else { 16 }, 384, 14];
    let width = described_siglip(&mut stack, vision, default)?;
    let factor = c.int("downsample_factor", 2)?;
    let input = mul(width, mul(factor, factor));
    let middle = c.int("alignment_intermediate_size", if aya { hidden } else { 36864 })?;
    let block =
        Block::new().linear("linear_1", Role::Projector, middle, input, true).linear("linear_2", Role::Projector, hidden, middle / 2, true);
    projector(&mut stack, block.when(aya, |block| block.layer_norm("layernorm", input)));
    Ok(join_parts(text, stack))
}

/// qwen2_vl, qwen2_5_vl, qwen3_vl, qwen3_vl_moe, qwen3_5, qwen3_5_moe.
pub fn qwen_vl(source: &Source<'_>) -> Result<Parts> {
    let (family, generation) = match source.model_type {
        "qwen2_vl" => ("qwen2_vl_text", QwenVision::V2),
        "qwen2_5_vl" => ("qwen2_vl_text", QwenVision::V25),
        "qwen3_vl" => ("qwen3", QwenVision::V3),
        "qwen3_vl_moe" => ("qwen3_vl_moe_text", QwenVision::V3),
        "qwen3_5_moe" => ("qwen3_5_moe_text", QwenVision::V3),
        _ => ("qwen3_5_text", QwenVision::V3),
    };
    let (text, mut stack) = language(source, family)?;
    // The causal class loads the language model only.
    if source.class.ends_with("ForCausalLM") {
        return Ok(text);
    }
    let deep = if source.model_type.starts_with("qwen3_vl") { 3 } else { 0 };
    towers::qwen(&mut stack, "model.visual", source.root.section("vision_config"), generation, deep)?;
    Ok(join_parts(text, stack))
}

/// glm4v and glm4v_moe.
pub fn glm_v(source: &Source<'_>) -> Result<Parts> {
    let (text, mut stack) = language(source, if source.model_type == "glm4v_moe" { "glm4v_moe_text" } else { "glm4v_text" })?;
    towers::glm(&mut stack, "model.visual", source.root.section("vision_config"))?;
    Ok(join_parts(text, stack))
}

/// qwen2_audio and voxtral: the encoder of whisper and a projector.
pub fn whisper_audio(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let voxtral = source.model_type == "voxtral";
    let (text, mut stack) = language(source, if voxtral { "llama" } else { "qwen2" })?;
    let hidden = text.dimensions.hidden;
    let audio = c.section("audio_config");
    let width = speech::whisper_encoder(&mut stack, "audio_tower", audio, [1280, 32, 5120, 128])?;
    projector(
        &mut stack,
        if voxtral {
            two_linears(audio.int("intermediate_size", 5120)?, hidden, hidden, false)
        } else {
            Block::new().linear("linear", Role::Projector, hidden, width, true)
        },
    );
    Ok(join_parts(text, stack))
}
