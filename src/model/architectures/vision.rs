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
    pub fn read(c: Section<'_>, [hidden, width, layers, heads, image, patch]: [u64; 6]) -> Result<Self> {
        let image = c.ints("image_size")?.and_then(|list| list.first().copied()).unwrap_or(image);
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

    /// The convolution that makes patches.
    pub fn patch(&self, bias: bool) -> Block {
        Block::new().conv("patch_embedding", Role::Conv, &[self.hidden, self.pixels], bias)
    }
}

/// The vision tower of CLIP.
pub fn clip(stack: &mut Stack, prefix: &str, c: Section<'_>, default: [u64; 6]) -> Result<Tower> {
    let t = Tower::read(c, default)?;
    stack.restart(&join(prefix, "encoder.layers.{i}"), Part::Vision);
    let edge = t
        .patch(false)
        .param("class_embedding", Role::Position, &[t.hidden])
        .embedding("position_embedding", Role::Position, t.patches.saturating_add(1), t.hidden)
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
pub fn siglip(stack: &mut Stack, prefix: &str, c: Section<'_>, default: [u64; 6], head: bool) -> Result<Tower> {
    let mut t = Tower::read(c, default)?;
    // The second version counts patches instead of pixels.
    let second = c.has("num_patches") || c.str("model_type").is_some_and(|name| name.starts_with("siglip2"));
    t.patches = c.int("num_patches", if second { 256 } else { t.patches })?;
    stack.restart(&join(prefix, "encoder.layers.{i}"), Part::Vision);
    stack.once(
        prefix,
        t.patch(true).embedding("position_embedding", Role::Position, t.patches, t.hidden).layer_norm("post_layernorm", t.hidden),
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
        .attention_named("attention", &attention, ["q_proj", "k_proj", "v_proj", "o_proj"])
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
    let norm = if c.str("norm_type").unwrap_or(if remote { "rms_norm" } else { "layer_norm" }) == "rms_norm" {
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
        .when(c.bool("use_mask_token", false)?, |block| block.param("mask_token", Role::Position, &[1, 1, t.hidden]))
        .when(positions, |block| block.embedding("position_embeddings", Role::Position, t.patches.saturating_add(1), t.hidden))
        .when(!remote && !c.bool("use_mean_pooling", true)?, |block| block.norm_of(norm, "layernorm", t.hidden));
    stack.once(prefix, edge);
    let attention = Attention::new(t.hidden, 1, 1, t.hidden).biases(bias, true);
    let layer = Block::new()
        .attention_named("attention", &attention, ["q_proj", "k_proj", "v_proj", "projection_layer"])
        .when(qk_norm, |block| block.norm("attention.q_norm", t.hidden).norm("attention.k_norm", t.hidden))
        .param("lambda_1", Role::Scale, &[t.hidden])
        .param("lambda_2", Role::Scale, &[t.hidden])
        .norm_of(norm, "layernorm_before", t.hidden)
        .norm_of(norm, "layernorm_after", t.hidden)
        .plain_mlp("mlp", t.hidden, t.width, ["fc1", "fc2"], true);
    stack.layers(t.layers, &layer);
    Ok(t)
}
