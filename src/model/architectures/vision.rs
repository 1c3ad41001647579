//! Vision towers, alone or inside vision-language models: vit, deit, dinov2, clip, siglip, pixtral,
//! InternViT, and the towers of Qwen-VL, GLM-V, Llama 4, Mllama and Gemma 4.

use super::blocks::{Attention, Block, Norm, join, mul};
use super::decoder::Stack;
use crate::model::config::{Result, Section};
use crate::model::inventory::{Part, Role};

const NAMES: [&str; 4] = ["q_proj", "k_proj", "v_proj", "out_proj"];

/// Sizes that all towers have.
#[derive(Debug, Clone, Copy)]
pub struct Tower {
    /// Width.
    pub hidden: u64,
    /// Width of the feed-forward layers.
    pub width: u64,
    /// Layers.
    pub layers: u64,
    /// Heads.
    pub heads: u64,
    /// Patches of an image.
    pub patches: u64,
    /// Pixels of a patch, over all channels.
    pub pixels: u64,
}

impl Tower {
    /// Reads the usual keys; defaults are `[hidden, width, layers, heads, image, patch]`.
    pub fn read(
        c: Section<'_>,
        [hidden, width, layers, heads, image, patch]: [u64; 6],
    ) -> Result<Self> {
        let image = c
            .ints("image_size")?
            .and_then(|list| list.first().copied())
            .unwrap_or(image);
        let patch = match c.ints("patch_size")?.and_then(|list| list.first().copied()) {
            Some(0) => return Err(c.wrong("patch_size", "must be at least 1".to_owned())),
            other => other.unwrap_or(patch),
        };
        let side = image / patch.max(1);
        Ok(Self {
            hidden: c.int("hidden_size|width|embed_dim", hidden)?,
            width: c.int("intermediate_size|mlp_dim", width)?,
            layers: c.layers("num_hidden_layers|layers|depth", layers)?,
            heads: c.divisor("num_attention_heads|heads|num_heads", heads)?,
            patches: mul(side, side),
            pixels: mul(c.int("num_channels|in_channels", 3)?, mul(patch, patch)),
        })
    }

    /// A layer of the CLIP form: attention and feed-forward with biases, two LayerNorms.
    pub fn layer(&self) -> Block {
        let attention = Attention::new(self.hidden, 1, 1, self.hidden).biases(true, true);
        Block::new()
            .attention_named("self_attn", &attention, NAMES)
            .layer_norm("layer_norm1", self.hidden)
            .plain_mlp("mlp", self.hidden, self.width, ["fc1", "fc2"], true)
            .layer_norm("layer_norm2", self.hidden)
    }

    fn patch(&self, bias: bool) -> Block {
        Block::new().conv(
            "patch_embedding",
            Role::Conv,
            &[self.hidden, self.pixels],
            bias,
        )
    }
}

/// The vision tower of CLIP.
pub fn clip(stack: &mut Stack, prefix: &str, c: Section<'_>, default: [u64; 6]) -> Result<Tower> {
    let t = Tower::read(c, default)?;
    stack.restart(&join(prefix, "encoder.layers.{i}"), Part::Vision);
    let edge = t
        .patch(false)
        .param("class_embedding", Role::Position, &[t.hidden])
        .embedding(
            "position_embedding",
            Role::Position,
            t.patches.saturating_add(1),
            t.hidden,
        )
        .layer_norm("pre_layrnorm", t.hidden)
        .layer_norm("post_layernorm", t.hidden);
    stack.once(prefix, edge);
    stack.layers(t.layers, &t.layer());
    Ok(t)
}

/// Defaults of the CLIP tower.
pub const CLIP: [u64; 6] = [768, 3072, 12, 12, 224, 32];
/// The CLIP ViT-L/14 tower at 336 pixels.
pub const CLIP_L_336: [u64; 6] = [1024, 4096, 24, 16, 336, 14];
/// Defaults of the SigLIP tower.
pub const SIGLIP: [u64; 6] = [768, 3072, 12, 12, 224, 16];

/// The vision tower of SigLIP; `head` says whether the pooling head is there by default.
pub fn siglip(
    stack: &mut Stack,
    prefix: &str,
    c: Section<'_>,
    default: [u64; 6],
    head: bool,
) -> Result<Tower> {
    let mut t = Tower::read(c, default)?;
    // The second version counts patches instead of pixels.
    let second = c.has("num_patches")
        || c.str("model_type")
            .is_some_and(|name| name.starts_with("siglip2"));
    t.patches = c.int("num_patches", if second { 256 } else { t.patches })?;
    stack.restart(&join(prefix, "encoder.layers.{i}"), Part::Vision);
    stack.once(
        prefix,
        t.patch(true)
            .embedding("position_embedding", Role::Position, t.patches, t.hidden)
            .layer_norm("post_layernorm", t.hidden),
    );
    stack.layers(t.layers, &t.layer());
    if head && c.bool("vision_use_head", true)? {
        let attention = Attention::new(t.hidden, 1, 1, t.hidden).biases(true, true);
        let head = Block::new()
            .param("probe", Role::TaskHead, &[1, 1, t.hidden])
            .attention_named("attention", &attention, NAMES)
            .layer_norm("layernorm", t.hidden)
            .plain_mlp("mlp", t.hidden, t.width, ["fc1", "fc2"], true);
        stack.once(&join(prefix, "head"), head);
    }
    Ok(t)
}

/// The tower of Pixtral: no biases, RMSNorms, a gated feed-forward layer, rotary positions.
pub fn pixtral(stack: &mut Stack, prefix: &str, c: Section<'_>) -> Result<Tower> {
    let t = Tower::read(c, [1024, 4096, 24, 16, 1024, 16])?;
    stack.restart(&join(prefix, "transformer.layers.{i}"), Part::Vision);
    stack.once(prefix, t.patch(false).norm("ln_pre", t.hidden));
    let attention = Attention::new(t.hidden, 1, 1, t.hidden);
    let layer = Block::new()
        .attention_named(
            "attention",
            &attention,
            ["q_proj", "k_proj", "v_proj", "o_proj"],
        )
        .norm("attention_norm", t.hidden)
        .gated_mlp("feed_forward", t.hidden, t.width, false)
        .norm("ffn_norm", t.hidden);
    stack.layers(t.layers, &layer);
    Ok(t)
}

/// InternViT, as transformers has it (`internvl_vision`) and as the remote code has it.
pub fn intern(stack: &mut Stack, prefix: &str, c: Section<'_>, remote: bool) -> Result<Tower> {
    let mut t = Tower::read(c, [1024, 4096, 24, 16, 448, 14])?;
    if remote {
        t = Tower::read(c, [3200, 12800, 48, 25, 224, 14])?;
    }
    let norm = if c
        .str("norm_type")
        .unwrap_or(if remote { "rms_norm" } else { "layer_norm" })
        == "rms_norm"
    {
        Norm::Weight
    } else {
        Norm::WeightBias
    };
    let bias = c.bool("attention_bias|qkv_bias", false)?;
    let qk_norm = c.bool("use_qk_norm|qk_normalization", remote)?;
    let positions = c.bool("use_absolute_position_embeddings", true)?;
    stack.restart(&join(prefix, "encoder.layer.{i}"), Part::Vision);
    let edge = t
        .patch(true)
        .param("cls_token", Role::Position, &[1, 1, t.hidden])
        .when(c.bool("use_mask_token", false)?, |block| {
            block.param("mask_token", Role::Position, &[1, 1, t.hidden])
        })
        .when(positions, |block| {
            block.embedding(
                "position_embeddings",
                Role::Position,
                t.patches.saturating_add(1),
                t.hidden,
            )
        })
        .when(!remote && !c.bool("use_mean_pooling", true)?, |block| {
            block.norm_of(norm, "layernorm", t.hidden)
        });
    stack.once(prefix, edge);
    let attention = Attention::new(t.hidden, 1, 1, t.hidden).biases(bias, true);
    let layer = Block::new()
        .attention_named(
            "attention",
            &attention,
            ["q_proj", "k_proj", "v_proj", "projection_layer"],
        )
        .when(qk_norm, |block| {
            block
                .norm("attention.q_norm", t.hidden)
                .norm("attention.k_norm", t.hidden)
        })
        .param("lambda_1", Role::Scale, &[t.hidden])
        .param("lambda_2", Role::Scale, &[t.hidden])
        .norm_of(norm, "layernorm_before", t.hidden)
        .norm_of(norm, "layernorm_after", t.hidden)
        .plain_mlp("mlp", t.hidden, t.width, ["fc1", "fc2"], true);
    stack.layers(t.layers, &layer);
    Ok(t)
}

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
pub fn qwen(
    stack: &mut Stack,
    prefix: &str,
    c: Section<'_>,
    generation: QwenVision,
    deep: u64,
) -> Result<()> {
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
    let pixels = mul(
        c.int("in_channels|in_chans", 3)?,
        mul(c.int("temporal_patch_size", 2)?, mul(patch, patch)),
    );
    let merge = c.int("spatial_merge_size", 2)?;
    let merged = mul(hidden, mul(merge, merge));
    let norm = if generation == QwenVision::V25 {
        Norm::Weight
    } else {
        Norm::WeightBias
    };
    stack.restart(&join(prefix, "blocks.{i}"), Part::Vision);
    let edge = Block::new().conv("patch_embed.proj", Role::Conv, &[hidden, pixels], v3);
    let positions = c.int("num_position_embeddings", 2304)?;
    stack.once(
        prefix,
        edge.when(v3, |block| {
            block.embedding("pos_embed", Role::Position, positions, hidden)
        }),
    );
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
        Block::new()
            .norm_of(norm, "ln_q", norm_width)
            .linear("mlp.0", Role::Projector, merged, merged, true)
            .linear("mlp.2", Role::Projector, out, merged, true)
    };
    stack.restart(&join(prefix, "deepstack_merger_list.{i}"), Part::Projector);
    stack.once(&join(prefix, "merger"), merger(hidden));
    if v3 {
        let deep = c
            .ints("deepstack_visual_indexes")?
            .map_or(deep, |list| list.len() as u64);
        stack.layers(deep, &merger(merged));
    }
    Ok(())
}

/// The tower of GLM-4.1V and later.
pub fn glm(stack: &mut Stack, prefix: &str, c: Section<'_>) -> Result<()> {
    let t = Tower::read(c, [1536, 13696, 24, 12, 336, 14])?;
    let out = c.int("out_hidden_size", 4096)?;
    let (time, merge) = (
        c.int("temporal_patch_size", 2)?,
        c.int("spatial_merge_size", 2)?,
    );
    let bias = c.bool("attention_bias", false)?;
    stack.restart(&join(prefix, "blocks.{i}"), Part::Vision);
    let edge = Block::new()
        .conv(
            "patch_embed.proj",
            Role::Conv,
            &[t.hidden, mul(t.pixels, time)],
            true,
        )
        .embedding(
            "embeddings.position_embedding",
            Role::Position,
            t.patches,
            t.hidden,
        )
        .norm("post_conv_layernorm", t.hidden)
        .norm("post_layernorm", t.hidden)
        .conv(
            "downsample",
            Role::Projector,
            &[out, t.hidden, merge, merge],
            true,
        );
    stack.once(prefix, edge);
    let block = Block::new()
        .norm("norm1", t.hidden)
        .norm("norm2", t.hidden)
        .linear(
            "attn.qkv",
            Role::Attention,
            mul(t.hidden, 3),
            t.hidden,
            bias,
        )
        .linear("attn.proj", Role::Attention, t.hidden, t.hidden, false)
        .gated_mlp("mlp", t.hidden, out, false);
    stack.layers(t.layers, &block);
    let merger = Block::new()
        .linear("proj", Role::Projector, out, out, false)
        .layer_norm("post_projection_norm", out)
        .gated("", Role::Projector, out, t.width, false);
    stack.restart(prefix, Part::Projector);
    stack.once(&join(prefix, "merger"), merger);
    Ok(())
}

/// The tower of Llama 4.
pub fn llama4(stack: &mut Stack, prefix: &str, c: Section<'_>) -> Result<()> {
    let t = Tower::read(c, [768, 5632, 34, 16, 448, 14])?;
    let (input, out) = (
        c.int("projector_input_dim", 4096)?,
        c.int("projector_output_dim", 4096)?,
    );
    stack.restart(&join(prefix, "model.layers.{i}"), Part::Vision);
    let edge = Block::new()
        .linear(
            "patch_embedding.linear",
            Role::Conv,
            t.hidden,
            t.pixels,
            false,
        )
        .param("class_embedding", Role::Position, &[t.hidden])
        .param(
            "positional_embedding_vlm",
            Role::Position,
            &[t.patches.saturating_add(1), t.hidden],
        )
        .layer_norm("layernorm_pre", t.hidden)
        .layer_norm("layernorm_post", t.hidden)
        .linear(
            "vision_adapter.mlp.fc1",
            Role::Projector,
            input,
            t.width,
            false,
        )
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
    let ratios = match c
        .node("supported_aspect_ratios")
        .map(|(_, node)| &node.value)
    {
        Some(crate::model::json::Value::Array(list)) => list.len() as u64,
        _ => 8,
    };
    let kinds = ratios.saturating_add(1);
    let edge = t
        .patch(false)
        .param("class_embedding", Role::Position, &[t.hidden])
        .param("gated_positional_embedding.gate", Role::Scale, &[1])
        .param(
            "gated_positional_embedding.embedding",
            Role::Position,
            &[rows, t.hidden],
        )
        .embedding(
            "gated_positional_embedding.tile_embedding",
            Role::Position,
            kinds,
            mul(tiles, mul(rows, t.hidden)),
        )
        .embedding(
            "pre_tile_positional_embedding",
            Role::Position,
            kinds,
            mul(tiles, t.hidden),
        )
        .embedding(
            "post_tile_positional_embedding",
            Role::Position,
            kinds,
            mul(tiles, t.hidden),
        )
        .param("tile_gates", Role::Scale, &[2])
        .layer_norm("layernorm_pre", t.hidden)
        .layer_norm("layernorm_post", t.hidden);
    stack.restart(&join(prefix, "transformer.layers.{i}"), Part::Vision);
    stack.once(prefix, edge);
    let layer = Block::new()
        .attention_named(
            "self_attn",
            &Attention::new(t.hidden, 1, 1, t.hidden),
            ["q_proj", "k_proj", "v_proj", "o_proj"],
        )
        .layer_norm("input_layernorm", t.hidden)
        .plain_mlp("mlp", t.hidden, t.width, ["fc1", "fc2"], true)
        .layer_norm("post_attention_layernorm", t.hidden);
    stack.layers(t.layers, &layer);
    stack.restart(&join(prefix, "global_transformer.layers.{i}"), Part::Vision);
    stack.layers(
        c.layers("num_global_layers", 8)?,
        &layer
            .param("gate_attn", Role::Scale, &[1])
            .param("gate_ffn", Role::Scale, &[1]),
    );
    Ok(())
}

/// The tower of Gemma 4: positions in two tables, four norms a layer, heads of a width of their own.
pub fn gemma4(stack: &mut Stack, prefix: &str, c: Section<'_>) -> Result<Tower> {
    let t = Tower::read(c, [768, 3072, 16, 12, 224, 16])?;
    let head_dim = c.int("head_dim", 64)?;
    let kv_heads = c.int("num_key_value_heads", t.heads)?;
    let attention = Attention::new(t.hidden, t.heads, kv_heads, head_dim)
        .qk_norm(super::blocks::QkNorm::PerHead);
    stack.restart(&join(prefix, "encoder.layers.{i}"), Part::Vision);
    let edge = Block::new()
        .linear(
            "patch_embedder.input_proj",
            Role::Conv,
            t.hidden,
            t.pixels,
            false,
        )
        .param(
            "patch_embedder.position_embedding_table",
            Role::Position,
            &[2, c.int("position_embedding_size", 10240)?, t.hidden],
        );
    stack.once(prefix, edge);
    let norms = [
        "input_layernorm",
        "post_attention_layernorm",
        "pre_feedforward_layernorm",
        "post_feedforward_layernorm",
    ];
    let layer = norms
        .iter()
        .fold(Block::new(), |block, name| block.norm(name, t.hidden));
    let layer = layer
        .attention_named(
            "self_attn",
            &attention,
            ["q_proj", "k_proj", "v_proj", "o_proj"],
        )
        .gated_mlp("mlp", t.hidden, t.width, false);
    stack.layers(t.layers, &layer);
    Ok(t)
}
