//! Conformer towers for sound: those of Gemma 3n and Gemma 4.

use super::blocks::{Block, join, mul};
use super::decoder::Stack;
use crate::model::config::{Result, Section};
use crate::model::inventory::{Part, Role};

/// The tower of Gemma 3n; gives its width.
pub fn gemma3n(stack: &mut Stack, c: Section<'_>) -> Result<u64> {
    let hidden = c.int("hidden_size", 1536)?;
    let heads = c.divisor("conf_num_attention_heads", 8)?;
    let channels = c.ints("sscp_conv_channel_size")?.unwrap_or_else(|| vec![128, 32]);
    let (first, second) = (channels.first().copied().unwrap_or(128), channels.get(1).copied().unwrap_or(32));
    let bands = c.int("input_feat_size", 128)?.div_ceil(4);
    stem(stack, hidden, [first, second], mul(second, bands));
    let kernel = c.int("conf_conv_kernel_size", 5)?;
    stack.layers(c.layers("conf_num_hidden_layers", 12)?, &layer(hidden, hidden / heads, kernel));
    Ok(hidden)
}

/// The tower of Gemma 4; gives the width of its output.
pub fn gemma4(stack: &mut Stack, c: Section<'_>) -> Result<u64> {
    let hidden = c.int("hidden_size", 1024)?;
    let heads = c.divisor("num_attention_heads", 8)?;
    let channels = c.ints("subsampling_conv_channels")?.unwrap_or_else(|| vec![128, 32]);
    let (first, second) = (channels.first().copied().unwrap_or(128), channels.get(1).copied().unwrap_or(32));
    stem(stack, hidden, [first, second], mul(first / 4, second));
    let kernel = c.int("conv_kernel_size", 5)?;
    stack.layers(c.layers("num_hidden_layers", 12)?, &layer(hidden, hidden / heads, kernel));
    let out = c.int("output_proj_dims", 1536)?;
    stack.once("audio_tower", Block::new().linear("output_proj", Role::Projector, out, hidden, true));
    Ok(out)
}

/// Two convolutions that make the sound four times shorter.
fn stem(stack: &mut Stack, hidden: u64, [first, second]: [u64; 2], features: u64) {
    stack.restart("audio_tower.layers.{i}", Part::Audio);
    let block = Block::new()
        .conv("subsample_conv_projection.layer0.conv", Role::Conv, &[first, 1, 3, 3], false)
        .norm("subsample_conv_projection.layer0.norm", first)
        .conv("subsample_conv_projection.layer1.conv", Role::Conv, &[second, first, 3, 3], false)
        .norm("subsample_conv_projection.layer1.norm", second)
        .linear("subsample_conv_projection.input_proj_linear", Role::Conv, hidden, features, false);
    stack.once("audio_tower", block);
}

/// A conformer layer: two feed-forward halves, attention with relative positions, a convolution.
fn layer(hidden: u64, head: u64, kernel: u64) -> Block {
    let feed = |block: Block, path: &str| {
        block
            .norm(&join(path, "pre_layer_norm"), hidden)
            .linear(&join(path, "ffw_layer_1"), Role::Mlp, mul(hidden, 4), hidden, false)
            .linear(&join(path, "ffw_layer_2"), Role::Mlp, hidden, mul(hidden, 4), false)
            .norm(&join(path, "post_layer_norm"), hidden)
    };
    let block = ["q_proj", "k_proj", "v_proj", "post", "relative_k_proj"]
        .iter()
        .fold(Block::new(), |block, name| block.linear(&join("self_attn", name), Role::Attention, hidden, hidden, false));
    let block = block
        .param("self_attn.per_dim_scale", Role::Scale, &[head])
        .norm("norm_pre_attn", hidden)
        .norm("norm_post_attn", hidden)
        .norm("lconv1d.pre_layer_norm", hidden)
        .linear("lconv1d.linear_start", Role::Mlp, mul(hidden, 2), hidden, false)
        .conv("lconv1d.depthwise_conv1d", Role::Conv, &[hidden, 1, kernel], false)
        .norm("lconv1d.conv_norm", hidden)
        .linear("lconv1d.linear_end", Role::Mlp, hidden, hidden, false)
        .norm("norm_out", hidden);
    feed(feed(block, "feed_forward1"), "feed_forward2")
}
