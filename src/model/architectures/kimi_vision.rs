//! kimi_k25 and kimi_vl: MoonViT beside a DeepSeek-V3 decoder.

use super::Source;
use super::blocks::{Attention, Block, mul};
use super::decoder::Parts;
use super::vlm::{join_parts, language, projector};
use crate::model::config::Result;
use crate::model::inventory::{Part, Role};

/// kimi_k25, kimi_vl.
pub fn kimi(source: &Source<'_>) -> Result<Parts> {
    let (text, mut stack) = language(source, "deepseek_v3")?;
    let c = source.root.section("vision_config");
    let hidden = c.int("hidden_size|vt_hidden_size", 1152)?;
    let width = c.int("intermediate_size|vt_intermediate_size", 4304)?;
    let layers = c.layers("num_hidden_layers|vt_num_hidden_layers", 27)?;
    let patch = c.int("patch_size", 14)?;
    let (rows, columns) = (c.int("pos_emb_height|init_pos_emb_height", 64)?, c.int("pos_emb_width|init_pos_emb_width", 64)?);
    let merge = c.ints("merge_kernel_size")?.unwrap_or_else(|| vec![2, 2]);
    let merged = merge.iter().take(2).fold(hidden, |product, side| mul(product, *side));
    stack.restart("vision_tower.layers.{i}", Part::Vision);
    let edge = Block::new()
        .conv("patch_embed.proj", Role::Conv, &[hidden, 3, patch, patch], true)
        .param("patch_embed.pos_emb", Role::Position, &[rows, columns, hidden])
        .layer_norm("final_layernorm", hidden);
    stack.once("vision_tower", edge);
    let attention = Attention::new(hidden, 1, 1, hidden).biases(true, true);
    let layer = Block::new()
        .layer_norm("norm1", hidden)
        .layer_norm("norm2", hidden)
        .attention_named("attn", &attention, ["q_proj", "k_proj", "v_proj", "proj"])
        .plain_mlp("mlp", hidden, width, ["fc1", "fc2"], true);
    stack.layers(layers, &layer);
    projector(
        &mut stack,
        Block::new()
            .layer_norm("pre_norm", source.root.int("projection_hidden_size", hidden)?)
            .linear("in_proj", Role::Projector, merged, merged, true)
            .linear("out_proj", Role::Projector, text.dimensions.hidden, merged, true),
    );
    Ok(join_parts(text, stack))
}
