//! Vision towers that belong to one language model: Qwen-VL, GLM-V, Llama 4, Mllama, Gemma 4.

use super::blocks::{Attention, Block, Norm, join, mul};
use super::decoder::Stack;
use super::vision::Tower;
use crate::model::config::{Result, Section};
use crate::model::inventory::{Part, Role};

/// Generations of the Qwen-VL tower.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QwenVision {
    /// Qwen2-VL.
    V2,
    /// Qwen2.5-VL: RMSNorms and gated feed-forward layers.
    V25,
    /// Qwen3-VL and later: learned positions, mergers at several depths.
    V3,
}

/// The tower of Qwen-VL with its mergers; `deep` is how many mergers at depth are the default.
pub fn qwen(stack: &mut Stack, prefix: &str, c: Section<'_>, generation: QwenVision, deep: u64) -> Result<()> {
    let v3 = generation == QwenVision::V3;
    let hidden = match generation {
        QwenVision::V2 => c.int("embed_dim", 1280)?,
        QwenVision::V25 => c.int("hidden_size", 3584)?,
        QwenVision::V3 => c.int("hidden_size", 1152)?,
    };
    let out = match generation {
        QwenVision::V2 => c.int("hidden_size", 3584)?,
        _ => c.int("out_hidden_size", 3584)?,
    };
    let width = match generation {
        QwenVision::V2 => {
            let ratio = c.float("mlp_ratio", 4.0)?;
            let width = hidden as f64 * ratio;
            if !(0.0..1e12).contains(&width) {
                return Err(c.wrong("mlp_ratio", "gives no usable width".to_owned()));
            }
            width as u64
        }
        QwenVision::V25 => c.int("intermediate_size", 3420)?,
        QwenVision::V3 => c.int("intermediate_size", 4304)?,
    };
    let layers = c.layers("depth", if v3 { 27 } else { 32 })?;
    let patch = c.int("patch_size", if v3 { 16 } else { 14 })?;
    let pixels = mul(c.int("in_channels|in_chans", 3)?, mul(c.int("temporal_patch_size", 2)?, mul(patch, patch)));
    let merge = c.int("spatial_merge_size", 2)?;
    let merged = mul(hidden, mul(merge, merge));
    let norm = if generation == QwenVision::V25 { Norm::Weight } else { Norm::WeightBias };
    stack.restart(&join(prefix, "blocks.{i}"), Part::Vision);
    let edge = Block::new().conv("patch_embed.proj", Role::Conv, &[hidden, pixels], v3);
    let positions = c.int("num_position_embeddings", 2304)?;
    stack.once(prefix, edge.when(v3, |block| block.embedding("pos_embed", Role::Position, positions, hidden)));
    let block = Block::new()
        .norm_of(norm, "norm1", hidden)
        .norm_of(norm, "norm2", hidden)
        .linear("attn.qkv", Role::Attention, mul(hidden, 3), hidden, true)
        .linear("attn.proj", Role::Attention, hidden, hidden, true);
    let block = if generation == QwenVision::V25 {
        block.gated_mlp("mlp", hidden, width, true)
    } else {
        block.plain_mlp("mlp", hidden, width, ["fc1", "fc2"], true)
    };
    stack.layers(layers, &block);
    let merger = |norm_width: u64| {
        Block::new().norm_of(norm, "ln_q", norm_width).linear("mlp.0", Role::Projector, merged, merged, true).linear(
            "mlp.2",
            Role::Projector,
            out,
            merged,
            true,
        )
    };
    stack.restart(&join(prefix, "deepstack_merger_list.{i}"), Part::Projector);
    stack.once(&join(prefix, "merger"), merger(hidden));
    if v3 {
        let deep = c.ints("deepstack_visual_indexes")?.map_or(deep, |list| list.len() as u64);
        stack.layers(deep, &merger(merged));
    }
    Ok(())
}

/// The tower of GLM-4.1V and later.
pub fn glm(stack: &mut Stack, prefix: &str, c: Section<'_>) -> Result<()> {
    let t = Tower::read(c, [1536, 13696, 24, 12, 336, 14])?;
    let out = c.int("out_hidden_size", 4096)?;
    let (time, merge) = (c.int("temporal_patch_size", 2)?, c.int("spatial_merge_size", 2)?);
    let bias = c.bool("attention_bias", false)?;
    stack.restart(&join(prefix, "blocks.{i}"), Part::Vision);
    let edge = Block::new()
        .conv("patch_embed.proj", Role::Conv, &[t.hidden, mul(t.pixels, time)], true)
        .embedding("embeddings.position_embedding", Role::Position, t.patches, t.hidden)
        .norm("post_conv_layernorm", t.hidden)
        .norm("post_layernorm", t.hidden)
        .conv("downsample", Role::Projector, &[out, t.hidden, merge, merge], true);
    stack.once(prefix, edge);
    let block = Block::new()
        .norm("norm1", t.hidden)
        .norm("norm2", t.hidden)
        .linear("attn.qkv", Role::Attention, mul(t.hidden, 3), t.hidden, bias)
        .linear("attn.proj", Role::Attention, t.hidden, t.hidden, false)
        .gated_mlp("mlp", t.hidden, out, false);
    stack.layers(t.layers, &block);
    let merger = Block::new().linear("proj", Role::Projector, out, out, false).layer_norm("post_projection_norm", out).gated(
        "",
        Role::Projector,
        out,
        t.width,
        false,
    );
    stack.restart(prefix, Part::Projector);
    stack.once(&join(prefix, "merger"), merger);
    Ok(())
}

/// The tower of Llama 4.
pub fn llama4(stack: &mut Stack, prefix: &str, c: Section<'_>) -> Result<()> {
    let t = Tower::read(c, [768, 5632, 34, 16, 448, 14])?;
    let (input, out) = (c.int("projector_input_dim", 4096)?, c.int("projector_output_dim", 4096)?);
    stack.restart(&join(prefix, "model.layers.{i}"), Part::Vision);
    let edge = Block::new()
        .linear("patch_embedding.linear", Role::Conv, t.hidden, t.pixels, false)
        .param("class_embedding", Role::Position, &[t.hidden])
        .param("positional_embedding_vlm", Role::Position, &[t.patches.saturating_add(1), t.hidden])
        .layer_norm("layernorm_pre", t.hidden)
        .layer_norm("layernorm_post", t.hidden)
        .linear("vision_adapter.mlp.fc1", Role::Projector, input, t.width, false)
        .linear("vision_adapter.mlp.fc2", Role::Projector, out, out, false);
    stack.once(prefix, edge);
    stack.layers(t.layers, &t.layer());
    Ok(())
}

/// The tower of Llama 3.2 Vision: tiles, gated embeddings, a second stack of gated layers.
pub fn mllama(stack: &mut Stack, prefix: &str, c: Section<'_>) -> Result<()> {
    let mut t = Tower::read(c, [1280, 5120, 32, 16, 448, 14])?;
    t.heads = c.divisor("attention_heads|num_attention_heads", 16)?;
    let rows = t.patches.saturating_add(1);
    let tiles = c.int("max_num_tiles", 4)?;
    let ratios = match c.node("supported_aspect_ratios").map(|(_, node)| &node.value) {
        Some(crate::model::json::Value::Array(list)) => list.len() as u64,
        _ => 8,
    };
    let kinds = ratios.saturating_add(1);
    let edge = t
        .patch(false)
        .param("class_embedding", Role::Position, &[t.hidden])
        .param("gated_positional_embedding.gate", Role::Scale, &[1])
        .param("gated_positional_embedding.embedding", Role::Position, &[rows, t.hidden])
        .embedding("gated_positional_embedding.tile_embedding", Role::Position, kinds, mul(tiles, mul(rows, t.hidden)))
        .embedding("pre_tile_positional_embedding", Role::Position, kinds, mul(tiles, t.hidden))
        .embedding("post_tile_positional_embedding", Role::Position, kinds, mul(tiles, t.hidden))
        .param("tile_gates", Role::Scale, &[2])
        .layer_norm("layernorm_pre", t.hidden)
        .layer_norm("layernorm_post", t.hidden);
    stack.restart(&join(prefix, "transformer.layers.{i}"), Part::Vision);
    stack.once(prefix, edge);
    let layer = Block::new()
        .attention_named("self_attn", &Attention::new(t.hidden, 1, 1, t.hidden), ["q_proj", "k_proj", "v_proj", "o_proj"])
        .layer_norm("input_layernorm", t.hidden)
        .plain_mlp("mlp", t.hidden, t.width, ["fc1", "fc2"], true)
        .layer_norm("post_attention_layernorm", t.hidden);
    stack.layers(t.layers, &layer);
    stack.restart(&join(prefix, "global_transformer.layers.{i}"), Part::Vision);
    stack.layers(c.layers("num_global_layers", 8)?, &layer.param("gate_attn", Role::Scale, &[1]).param("gate_ffn", Role::Scale, &[1]));
    Ok(())
}

/// The tower of Gemma 4: positions in two tables, four norms a layer, heads of a width of their own.
pub fn gemma4(stack: &mut Stack, prefix: &str, c: Section<'_>) -> Result<Tower> {
    let t = Tower::read(c, [768, 3072, 16, 12, 224, 16])?;
    let head_dim = c.int("head_dim", 64)?;
    let kv_heads = c.int("num_key_value_heads", t.heads)?;
    let attention = Attention::new(t.hidden, t.heads, kv_heads, head_dim).qk_norm(super::blocks::QkNorm::PerHead);
    stack.restart(&join(prefix, "encoder.layers.{i}"), Part::Vision);
    let edge = Block::new().linear("patch_embedder.input_proj", Role::Conv, t.hidden, t.pixels, false).param(
        "patch_embedder.position_embedding_table",
        Role::Position,
        &[2, c.int("position_embedding_size", 10240)?, t.hidden],
    );
    stack.once(prefix, edge);
    let norms = ["input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm"];
    let layer = norms.iter().fold(Block::new(), |block, name| block.norm(name, t.hidden));
    let layer =
        layer.attention_named("self_attn", &attention, ["q_proj", "k_proj", "v_proj", "o_proj"]).gated_mlp("mlp", t.hidden, t.width, false);
    stack.layers(t.layers, &layer);
    Ok(t)
}
