//! idefics2, idefics3 and smolvlm.

use super::Source;
use super::blocks::{Attention, Block, mul};
use super::decoder::Parts;
use super::vision::{self};
use super::vlm::{join_parts, language, projector};
use crate::model::config::Result;
use crate::model::inventory::{Part, Role};

/// idefics3 and smolvlm: SigLIP without its head, pixels shuffled into channels.
pub fn idefics3(source: &Source<'_>) -> Result<Parts> {
    let (text, mut stack) = language(source, "llama")?;
    let hidden = text.dimensions.hidden;
    let width =
        vision::siglip(&mut stack, "vision_model", source.root.section("vision_config"), [1152, 3072, 12, 16, 224, 32], false)?.hidden;
    let scale = source.root.int("scale_factor", 2)?;
    projector(&mut stack, Block::new().linear("modality_projection.proj", Role::Projector, hidden, mul(width, mul(scale, scale)), false));
    Ok(join_parts(text, stack))
}

/// idefics2: SigLIP without its head, a gated projection and a perceiver.
pub fn idefics2(source: &Source<'_>) -> Result<Parts> {
    let (text, mut stack) = language(source, "mistral")?;
    let (hidden, inner) = (text.dimensions.hidden, text.dimensions.intermediate);
    let width =
        vision::siglip(&mut stack, "vision_model", source.root.section("vision_config"), [768, 3072, 12, 12, 224, 32], false)?.hidden;
    let c = source.root.section("perceiver_config");
    let size = c.int("hidden_size", 4096)?;
    let attention =
        Attention::new(size, c.int("resampler_n_heads", 16)?, c.int("num_key_value_heads", 4)?, c.int("resampler_head_dim", 96)?);
    let edge = Block::new()
        .linear("modality_projection.gate_proj", Role::Projector, inner, width, false)
        .linear("modality_projection.up_proj", Role::Projector, inner, width, false)
        .linear("modality_projection.down_proj", Role::Projector, hidden, inner, false)
        .param("perceiver_resampler.latents", Role::Projector, &[c.int("resampler_n_latents", 64)?, size])
        .norm("perceiver_resampler.norm", size);
    stack.restart("connector.perceiver_resampler.layers.{i}", Part::Projector);
    stack.once("connector", edge);
    let layer = Block::new()
        .norm("input_latents_norm", size)
        .norm("input_context_norm", size)
        .norm("post_attention_layernorm", size)
        .attention_named("self_attn", &attention, ["q_proj", "k_proj", "v_proj", "o_proj"])
        .gated("mlp", Role::Projector, size, mul(size, 4), false);
    stack.layers(c.layers("resampler_depth", 3)?, &layer);
    Ok(join_parts(text, stack))
}
