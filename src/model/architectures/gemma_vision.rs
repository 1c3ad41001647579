//! Gemma with towers: paligemma, gemma3, gemma3n, gemma4.

use super::Source;
use super::blocks::Block;
use super::decoder::Parts;
use super::vision::{self, SIGLIP};
use super::vlm::{described_siglip, join_parts, language, projector};
use crate::model::config::Result;
use crate::model::inventory::{Part, Role};

/// paligemma: SigLIP without its head, one linear layer.
pub fn paligemma(source: &Source<'_>) -> Result<Parts> {
    let (text, mut stack) = language(source, "gemma")?;
    let c = source.root.section("vision_config");
    let width = described_siglip(&mut stack, c, [1152, 4304, 27, 16, 224, 14])?;
    let out = source.root.int("projection_dim", c.int("projection_dim", 2048)?)?;
    projector(&mut stack, Block::new().linear("linear", Role::Projector, out, width, true));
    Ok(join_parts(text, stack))
}

/// gemma3: SigLIP without its head, a norm and a matrix.
pub fn gemma3(source: &Source<'_>) -> Result<Parts> {
    let (text, mut stack) = language(source, "gemma3_text")?;
    let c = source.root.section("vision_config");
    let hidden = text.dimensions.hidden;
    let width = vision::siglip(&mut stack, "vision_tower", c, SIGLIP, true)?.hidden;
    projector(
        &mut stack,
        Block::new().norm("mm_soft_emb_norm", width).param("mm_input_projection_weight", Role::Projector, &[width, hidden]),
    );
    Ok(join_parts(text, stack))
}

/// gemma3n: a MobileNet tower of fixed size and a conformer for sound.
pub fn gemma3n(source: &Source<'_>) -> Result<Parts> {
    let (text, mut stack) = language(source, "gemma3n_text")?;
    let hidden = text.dimensions.hidden;
    let (image, sound) = (source.root.section("vision_config"), source.root.section("audio_config"));
    match image.str("architecture").unwrap_or("mobilenetv5_300m_enc") {
        // A convolutional network found by search; its size is a fact of the published network.
        "mobilenetv5_300m_enc" => stack.once("vision_tower", Block::new().param("timm_model", Role::Conv, &[294_126_912])),
        other => stack.inexact(format!("the vision tower `{other}` is not known and not counted")),
    }
    let width = super::conformer::gemma3n(&mut stack, sound)?;
    for (name, c, width, rows) in [("embed_vision", image, image.int("hidden_size", 2048)?, 128), ("embed_audio", sound, width, 128)] {
        let block = Block::new()
            .embedding("embedding", Role::Position, c.int("vocab_size", rows)?, width)
            .norm("hard_embedding_norm", width)
            .norm("soft_embedding_norm", width)
            .linear("embedding_projection", Role::Projector, hidden, width, false);
        stack.restart(name, Part::Projector);
        stack.once(name, block);
    }
    Ok(join_parts(text, stack))
}

/// gemma4: towers for images and sound where the file describes them.
pub fn gemma4(source: &Source<'_>) -> Result<Parts> {
    let (text, mut stack) = language(source, "gemma4_text")?;
    let hidden = text.dimensions.hidden;
    let (image, sound) = (source.root.section("vision_config"), source.root.section("audio_config"));
    if !image.is_empty() {
        let width = super::towers::gemma4(&mut stack, "vision_tower", image)?.hidden;
        stack.restart("model.embed_vision", Part::Projector);
        stack.once("model.embed_vision", Block::new().linear("embedding_projection", Role::Projector, hidden, width, false));
    }
    if !sound.is_empty() {
        let width = super::conformer::gemma4(&mut stack, sound)?;
        stack.restart("model.embed_audio", Part::Projector);
        stack.once("model.embed_audio", Block::new().linear("embedding_projection", Role::Projector, hidden, width, false));
    }
    Ok(join_parts(text, stack))
}
