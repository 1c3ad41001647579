//! CLIP beside a language model: llava and its successors, the remote LLaVA files, phi3_v.

use super::Source;
use super::blocks::{Block, mul};
use super::decoder::Parts;
use super::vision::{self, CLIP_L_336};
use super::vlm::{TEXT, join_parts, language, projector, tower, two_linears};
use crate::model::config::{Result, Section};
use crate::model::inventory::Role;

/// llava, llava_next, llava_next_video, llava_onevision, vipllava; and the remote LLaVA files.
pub fn llava(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    if c.section(TEXT).is_empty() && c.has("mm_vision_tower|mm_projector_type") {
        return remote_llava(source);
    }
    let onevision = source.model_type == "llava_onevision";
    let (text, mut stack) = language(source, if onevision { "qwen2" } else { "llama" })?;
    let hidden = text.dimensions.hidden;
    let width = tower(&mut stack, c.section("vision_config"), if onevision { "siglip_vision_model" } else { "clip_l_336" })?;
    let features = match c.node("vision_feature_layer").map(|(_, node)| &node.value) {
        Some(crate::model::json::Value::Array(list)) => (list.len() as u64).max(1),
        None if source.model_type == "vipllava" => 5,
        _ => 1,
    };
    let input = mul(width, features);
    let bias = c.bool("multimodal_projector_bias", true)?;
    projector(
        &mut stack,
        two_linears(input, hidden, hidden, bias)
            .when(source.model_type == "vipllava", |block| block.layer_norm("projector_layernorm", input)),
    );
    if source.model_type.starts_with("llava_next") || onevision {
        stack.once("model", Block::new().param("image_newline", Role::Scale, &[hidden]));
    }
    Ok(join_parts(text, stack))
}

/// LLaVA as first published: the tower is named, not described.
fn remote_llava(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let family = if source.class.contains("Mistral") {
        "mistral"
    } else if source.class.contains("Qwen") {
        "qwen2"
    } else if source.class.contains("Mpt") {
        "mpt"
    } else {
        "llama"
    };
    let (text, mut stack) = language(source, family)?;
    let hidden = text.dimensions.hidden;
    let tower = c.str("mm_vision_tower").unwrap_or("");
    let known = match tower.rsplit('/').next().unwrap_or(tower) {
        "clip-vit-large-patch14-336" => Some(CLIP_L_336),
        "clip-vit-large-patch14" => Some([1024, 4096, 24, 16, 224, 14]),
        _ => None,
    };
    match known {
        Some(sizes) => {
            vision::clip(&mut stack, "model.vision_tower", Section::empty(), sizes)?;
        }
        None => stack.inexact(format!("the vision tower `{tower}` is named only, and not counted")),
    }
    let width = c.int("mm_hidden_size", 1024)?;
    let kind = c.str("mm_projector_type").unwrap_or("linear");
    let depth = match kind.strip_prefix("mlp").and_then(|rest| rest.split('x').next()).and_then(|depth| depth.parse::<u64>().ok()) {
        Some(depth) if depth <= 16 => depth,
        _ if kind == "linear" => 1,
        _ => {
            stack.inexact(format!("the projector `{kind}` is not known and not counted"));
            0
        }
    };
    let layers = (0..depth).fold(Block::new(), |block, index| {
        block.linear(&format!("{}", mul(index, 2)), Role::Projector, hidden, if index == 0 { width } else { hidden }, true)
    });
    projector(&mut stack, layers);
    Ok(join_parts(text, stack))
}

/// phi3_v: CLIP ViT-L/14-336 and a two-layer projector, named and not described by the file.
pub fn phi3_v(source: &Source<'_>) -> Result<Parts> {
    let (text, mut stack) = language(source, "phi3")?;
    let hidden = text.dimensions.hidden;
    let image = source.root.section("img_processor");
    if image.str("name").unwrap_or("clip_vision_model") != "clip_vision_model" {
        stack.inexact("the vision tower is not the one that this family uses, and not counted");
    }
    vision::clip(&mut stack, "model.vision_embed_tokens.img_processor", Section::empty(), CLIP_L_336)?;
    projector(&mut stack, super::phi::phi3_v_projector(hidden, image.int("image_dim_out", 1024)?));
    Ok(join_parts(text, stack))
}

/// video_llava: a CLIP tower for images and one for videos.
pub fn video_llava(source: &Source<'_>) -> Result<Parts> {
    let (text, mut stack) = language(source, "llama")?;
    let c = source.root.section("vision_config");
    let hidden = text.dimensions.hidden;
    let sizes = if c.is_empty() { [1024, 4096, 24, 16, 224, 14] } else { vision::CLIP };
    vision::clip(&mut stack, "model.image_tower", c, sizes)?;
    let width = vision::clip(&mut stack, "model.video_tower", c, sizes)?.hidden;
    let bias = source.root.bool("multimodal_projector_bias", true)?;
    projector(&mut stack, two_linears(width, hidden, hidden, bias));
    Ok(join_parts(text, stack))
}

/// deepseek_vl: SigLIP with its head, two linear layers.
pub fn deepseek_vl(source: &Source<'_>) -> Result<Parts> {
    let (text, mut stack) = language(source, "llama")?;
    let hidden = text.dimensions.hidden;
    let width = vision::siglip(&mut stack, "model.vision_model", source.root.section("vision_config"), vision::SIGLIP, true)?.hidden;
    projector(&mut stack, two_linears(width, hidden, hidden, true));
    Ok(join_parts(text, stack))
}
