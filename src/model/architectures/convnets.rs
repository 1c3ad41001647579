//! Vision networks in stages: swin, convnext, resnet.

use super::blocks::{Attention, Block, mul};
use super::decoder::{Dimensions, Parts, Stack};
use super::encoder::NO_HEAD;
use super::{Source, labels};
use crate::model::config::{MAX_LAYERS, Result, Section};
use crate::model::inventory::{Part, Role};

/// Depths of the stages, bounded so that their layers can be walked.
fn depths(c: Section<'_>, default: &[u64]) -> Result<Vec<u64>> {
    let list = c.ints("depths")?.unwrap_or_else(|| default.to_vec());
    if list.len() > 64 || list.iter().any(|depth| *depth > MAX_LAYERS) {
        return Err(c.wrong("depths", "names more layers than any model has".to_owned()));
    }
    Ok(list)
}

fn stack() -> Stack {
    Stack::bare(Dimensions::default(), NO_HEAD, "", Part::Vision)
}

fn classifier(stack: &mut Stack, source: &Source<'_>, width: u64) -> Result<()> {
    if source.class.ends_with("ForImageClassification") {
        stack.once("", Block::new().linear("classifier", Role::TaskHead, labels(source.root)?, width, true));
    }
    Ok(())
}

/// swin: attention inside windows, four times fewer patches a stage.
pub fn swin(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let (channels, patch) = (c.int("num_channels", 3)?, c.int("patch_size", 4)?);
    let (first, window) = (c.int("embed_dim", 96)?, c.int("window_size", 7)?);
    let depths = depths(c, &[2, 2, 6, 2])?;
    let heads = c.ints("num_heads")?.unwrap_or_else(|| vec![3, 6, 12, 24]);
    let ratio = c.float("mlp_ratio", 4.0)?;
    if !(0.01..=64.0).contains(&ratio) {
        return Err(c.wrong("mlp_ratio", "must be a small positive number".to_owned()));
    }
    let bias = c.bool("qkv_bias", true)?;
    let side = mul(window, 2).saturating_sub(1);
    let mut stack = stack();
    let edge = Block::new().conv("patch_embeddings", Role::Conv, &[first, channels, patch, patch], true).layer_norm("norm", first);
    stack.once("embeddings", edge);
    if c.bool("use_absolute_embeddings", false)? {
        stack.inexact("absolute positions are not counted");
    }
    let mut width = first;
    for (stage, depth) in depths.iter().enumerate() {
        let attention = Attention::new(width, 1, 1, width).biases(bias, true);
        let layer = Block::new()
            .attention_named("attention", &attention, ["query", "key", "value", "output"])
            .param("attention.relative_position_bias_table", Role::Position, &[mul(side, side), heads.get(stage).copied().unwrap_or(1)])
            .layer_norm("layernorm_before", width)
            .layer_norm("layernorm_after", width)
            .plain_mlp("mlp", width, (width as f64 * ratio) as u64, ["fc1", "fc2"], true);
        stack.restart(&format!("encoder.layers.{stage}.blocks.{{i}}"), Part::Vision);
        stack.layers(*depth, &layer);
        if stage + 1 < depths.len() {
            let merged = mul(width, 4);
            stack.once(
                &format!("encoder.layers.{stage}.downsample"),
                Block::new().linear("reduction", Role::Mlp, mul(width, 2), merged, false).layer_norm("norm", merged),
            );
            width = mul(width, 2);
        }
    }
    // The encoder of Donut ends without a norm.
    let normed = source.model_type == "swin";
    stack.once("", Block::new().when(normed, |block| block.layer_norm("layernorm", width)));
    classifier(&mut stack, source, width)?;
    Ok(stack.done())
}

/// convnext and convnextv2: convolutions over each channel, and two linear layers; the second version
/// normalises the responses between them.
pub fn convnext(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let (channels, patch) = (c.int("num_channels", 3)?, c.int("patch_size", 4)?);
    let widths = c.ints("hidden_sizes")?.unwrap_or_else(|| vec![96, 192, 384, 768]);
    let depths = depths(c, &[3, 3, 9, 3])?;
    let second = source.model_type == "convnextv2";
    let scaled = !second && c.float("layer_scale_init_value", 1e-6)? > 0.0;
    let first = widths.first().copied().unwrap_or(96);
    let mut stack = stack();
    stack.once(
        "embeddings",
        Block::new().conv("patch_embeddings", Role::Conv, &[first, channels, patch, patch], true).layer_norm("layernorm", first),
    );
    let mut input = first;
    for (stage, (width, depth)) in widths.iter().zip(&depths).enumerate() {
        if stage > 0 {
            let down = Block::new().layer_norm("0", input).conv("1", Role::Conv, &[*width, input, 2, 2], true);
            stack.once(&format!("encoder.stages.{stage}.downsampling_layer"), down);
        }
        let layer = Block::new()
            .when(scaled, |block| block.param("layer_scale_parameter", Role::Scale, &[*width]))
            .conv("dwconv", Role::Conv, &[*width, 1, 7, 7], true)
            .layer_norm("layernorm", *width)
            .plain_mlp("", *width, mul(*width, 4), ["pwconv1", "pwconv2"], true)
            .when(second, |block| block.layer_norm("grn", mul(*width, 4)));
        stack.restart(&format!("encoder.stages.{stage}.layers.{{i}}"), Part::Vision);
        stack.layers(*depth, &layer);
        input = *width;
    }
    stack.once("", Block::new().layer_norm("layernorm", input));
    classifier(&mut stack, source, input)?;
    Ok(stack.done())
}

/// resnet: plain or bottleneck blocks with batch norms.
pub fn resnet(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let (channels, first) = (c.int("num_channels", 3)?, c.int("embedding_size", 64)?);
    let widths = c.ints("hidden_sizes")?.unwrap_or_else(|| vec![256, 512, 1024, 2048]);
    let depths = depths(c, &[3, 4, 6, 3])?;
    let bottleneck = c.str("layer_type").unwrap_or("bottleneck") == "bottleneck";
    let early = c.bool("downsample_in_first_stage", false)?;
    let convolve = |block: Block, path: &str, out: u64, input: u64, kernel: u64| {
        block.conv(path, Role::Conv, &[out, input, kernel, kernel], false).layer_norm(&format!("{path}.normalization"), out)
    };
    let mut stack = stack();
    stack.once("embedder", convolve(Block::new(), "embedder", first, channels, 7));
    let mut input = first;
    for (stage, (width, depth)) in widths.iter().zip(&depths).enumerate() {
        stack.restart(&format!("encoder.stages.{stage}.layers.{{i}}"), Part::Vision);
        for index in 0..*depth {
            let from = if index == 0 { input } else { *width };
            let strides = index == 0 && (stage > 0 || early);
            let shortcut = from != *width || strides;
            let block = Block::new().when(shortcut, |block| convolve(block, "shortcut", *width, from, 1));
            stack.layer(if bottleneck {
                let narrow = width / 4;
                convolve(convolve(convolve(block, "layer.0", narrow, from, 1), "layer.1", narrow, narrow, 3), "layer.2", *width, narrow, 1)
            } else {
                convolve(convolve(block, "layer.0", *width, from, 3), "layer.1", *width, *width, 3)
            });
        }
        input = *width;
    }
    classifier(&mut stack, source, input)?;
    Ok(stack.done())
}
