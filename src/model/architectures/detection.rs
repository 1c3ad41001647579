//! Detection, segmentation and depth: detr, conditional_detr, table-transformer, yolos, sam, dpt, depth_anything.

use super::blocks::{Attention, Block, join, mul};
use super::decoder::{Dimensions, Parts, Stack};
use super::encoder::NO_HEAD;
use super::vision::Tower;
use super::{Source, labels};
use crate::model::config::{Result, Section};
use crate::model::inventory::{Part, Role};

const NAMES: [&str; 4] = ["q_proj", "k_proj", "v_proj", "o_proj"];

fn stack() -> Stack {
    Stack::bare(Dimensions::default(), NO_HEAD, "", Part::Vision)
}

/// Linear layers one behind another: `layers` of the width `hidden`, then one to `out` rows.
fn mlp(block: Block, path: &str, hidden: u64, layers: u64, out: u64) -> Block {
    (0..layers.min(64))
        .fold(block, |block, index| block.linear(&format!("{path}.layers.{index}"), Role::TaskHead, hidden, hidden, true))
        .linear(&join(path, "out"), Role::TaskHead, out, hidden, true)
}

/// The convolutions of a ResNet whose norms are frozen, and so no parameters; gives the width it ends with.
fn frozen_resnet(stack: &mut Stack, c: Section<'_>) -> Result<u64> {
    let inner = c.section("backbone_config");
    let name = inner.str("backbone").or_else(|| c.str("backbone")).unwrap_or("resnet50");
    let (depths, bottleneck): ([u64; 4], bool) = match (inner.str("model_type"), name) {
        (None | Some("timm_backbone"), "resnet18") => ([2, 2, 2, 2], false),
        (None | Some("timm_backbone"), "resnet34") => ([3, 4, 6, 3], false),
        (None | Some("timm_backbone"), "resnet50") => ([3, 4, 6, 3], true),
        (None | Some("timm_backbone"), "resnet101") => ([3, 4, 23, 3], true),
        (kind, name) => {
            stack.inexact(format!("the backbone `{}` is not known here and not counted", kind.unwrap_or(name)));
            return Ok(2048);
        }
    };
    let channels = inner.int("num_channels", c.int("num_channels", 3)?)?;
    stack.once("backbone", Block::new().conv("conv1", Role::Conv, &[64, channels, 7, 7], false));
    let mut input = 64;
    for (stage, depth) in (0u32..).zip(depths) {
        let narrow = 64u64 << stage;
        let width = if bottleneck { narrow * 4 } else { narrow };
        stack.restart(&format!("backbone.layer{}.{{i}}", stage + 1), Part::Vision);
        for _ in 0..depth {
            let convolve = |block: Block, name: &str, out: u64, from: u64, kernel: u64| {
                block.conv(name, Role::Conv, &[out, from, kernel, kernel], false)
            };
            let block = Block::new().when(input != width, |block| convolve(block, "downsample", width, input, 1));
            stack.layer(if bottleneck {
                let block = convolve(convolve(block, "conv1", narrow, input, 1), "conv2", narrow, narrow, 3);
                convolve(block, "conv3", width, narrow, 1)
            } else {
                convolve(convolve(block, "conv1", width, input, 3), "conv2", width, width, 3)
            });
            input = width;
        }
    }
    Ok(input)
}

/// detr, conditional_detr and table-transformer: a ResNet, an encoder and a decoder with learned queries.
pub fn detr(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let (conditional, table) = (source.model_type == "conditional_detr", source.model_type == "table-transformer");
    let hidden = c.int("d_model|hidden_size", 256)?;
    let mut stack = stack();
    let seen = frozen_resnet(&mut stack, c)?;
    let own = Attention::new(hidden, 1, 1, hidden).biases(true, true);
    let edge = Block::new()
        .embedding("query_position_embeddings", Role::Position, c.int("num_queries", if conditional { 300 } else { 100 })?, hidden)
        .conv("input_projection", Role::Projector, &[hidden, seen, 1, 1], true)
        .when(table, |block| block.layer_norm("encoder.layernorm", hidden))
        .layer_norm("decoder.layernorm", hidden);
    let edge = edge.when(conditional, |block| {
        let block = mlp(block, "decoder.ref_point_head", hidden, 1, 2);
        mlp(block, "decoder.query_scale", hidden, 1, hidden)
    });
    stack.once("model", edge);
    let feed = |block: Block, width: u64| {
        block
            .layer_norm("self_attn_layer_norm", hidden)
            .plain_mlp("mlp", hidden, width, ["fc1", "fc2"], true)
            .layer_norm("final_layer_norm", hidden)
    };
    let encoder = feed(Block::new().attention_named("self_attn", &own, NAMES), c.int("encoder_ffn_dim", 2048)?);
    stack.restart("model.encoder.layers.{i}", Part::Vision);
    stack.layers(c.layers("encoder_layers", 6)?, &encoder);
    let width = c.int("decoder_ffn_dim", 2048)?;
    stack.restart("model.decoder.layers.{i}", Part::Vision);
    for index in 0..c.layers("decoder_layers", 6)? {
        let block = feed(Block::new(), width).layer_norm("encoder_attn_layer_norm", hidden);
        let squares = |block: Block, path: &str, names: &[&str]| {
            names.iter().fold(block, |block, name| block.linear(&join(path, name), Role::Attention, hidden, hidden, true))
        };
        stack.layer(if conditional {
            let block = squares(block, "self_attn", &["q_content", "q_pos", "k_content", "k_pos", "v_proj", "o_proj"]);
            let block = squares(block, "encoder_attn", &["q_content", "k_content", "k_pos", "v_proj", "q_pos_sine", "o_proj"]);
            block.when(index == 0, |block| squares(block, "encoder_attn", &["q_pos"]))
        } else {
            squares(squares(block, "self_attn", &NAMES), "encoder_attn", &NAMES)
        });
    }
    if source.class.ends_with("ForObjectDetection") {
        let rows = labels(c)?.saturating_add(u64::from(!conditional));
        let head = Block::new().linear("class_labels_classifier", Role::TaskHead, rows, hidden, true);
        stack.once("", mlp(head, "bbox_predictor", hidden, 2, 4));
    }
    Ok(stack.done())
}

/// yolos: a plain vision transformer with tokens that become boxes.
pub fn yolos(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let t = Tower::read(c, [768, 3072, 12, 12, 512, 16])?;
    let patch = c.divisor("patch_size", 16)?;
    let size = c.ints("image_size")?.unwrap_or_else(|| vec![512, 864]);
    let (height, wide) = (size.first().copied().unwrap_or(512), size.last().copied().unwrap_or(864));
    let tokens = c.int("num_detection_tokens", 100)?;
    let rows = mul(height / patch, wide / patch).saturating_add(tokens).saturating_add(1);
    let between = c.bool("use_mid_position_embeddings", true)?;
    let edge = Block::new()
        .conv("patch_embeddings.projection", Role::Conv, &[t.hidden, t.pixels], true)
        .param("cls_token", Role::Position, &[1, 1, t.hidden])
        .param("detection_tokens", Role::Position, &[1, tokens, t.hidden])
        .param("position_embeddings", Role::Position, &[1, rows, t.hidden])
        .when(between, |block| block.param("mid_position_embeddings", Role::Position, &[t.layers.saturating_sub(1), 1, rows, t.hidden]))
        .layer_norm("layernorm", t.hidden);
    let mut stack = stack();
    stack.once("vit", edge);
    stack.restart("vit.encoder.layer.{i}", Part::Vision);
    stack.layers(t.layers, &plain_layer(&t, c.bool("qkv_bias", true)?));
    let head = if source.class.ends_with("ForObjectDetection") {
        let rows = labels(c)?.saturating_add(1);
        mlp(mlp(Block::new(), "class_labels_classifier", t.hidden, 2, rows), "bbox_predictor", t.hidden, 2, 4)
    } else {
        Block::new().linear("pooler.dense", Role::TaskHead, t.hidden, t.hidden, true)
    };
    stack.once("", head);
    Ok(stack.done())
}

/// A layer of the plain vision transformer.
fn plain_layer(t: &Tower, bias: bool) -> Block {
    let attention = Attention::new(t.hidden, 1, 1, t.hidden).biases(bias, true);
    Block::new()
        .attention_named("attention", &attention, ["query", "key", "value", "output"])
        .layer_norm("layernorm_before", t.hidden)
        .plain_mlp("", t.hidden, t.width, ["intermediate.dense", "output.dense"], true)
        .layer_norm("layernorm_after", t.hidden)
}

/// sam: a tower of windows, an encoder of points and boxes, a small decoder of masks.
pub fn sam(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let (vision, prompt, decoder) = (c.section("vision_config"), c.section("prompt_encoder_config"), c.section("mask_decoder_config"));
    let mut stack = stack();
    let ratio = vision.float("mlp_ratio", 4.0)?.clamp(0.0, 1e6);
    let width = (vision.int("hidden_size", 768)? as f64 * ratio) as u64;
    super::vlm_more::sam(&mut stack, "vision_encoder", vision, width)?;
    let (hidden, channels) = (prompt.int("hidden_size", 256)?, prompt.int("mask_input_channels", 16)?);
    let few = channels / 4;
    let positions = [2, vision.int("num_pos_feats", 128)?];
    let edge = Block::new()
        .param("shared_image_embedding.positional_embedding", Role::Position, &positions)
        .when(!c.bool("tie_word_embeddings", true)?, |block| {
            block.param("prompt_encoder.shared_embedding.positional_embedding", Role::Position, &positions)
        })
        .conv("mask_embed.conv1", Role::Conv, &[few, 1, 2, 2], true)
        .layer_norm("mask_embed.layer_norm1", few)
        .conv("mask_embed.conv2", Role::Conv, &[channels, few, 2, 2], true)
        .layer_norm("mask_embed.layer_norm2", channels)
        .conv("mask_embed.conv3", Role::Conv, &[hidden, channels, 1, 1], true)
        .embedding("no_mask_embed", Role::Position, 1, hidden)
        .embedding("not_a_point_embed", Role::Position, 1, hidden)
        .embedding("point_embed", Role::Position, prompt.int("num_point_embeddings", 4)?, hidden);
    stack.once("prompt_encoder", edge);
    let hidden = decoder.int("hidden_size", 256)?;
    let inner = hidden / decoder.divisor("attention_downsample_rate", 2)?;
    let attends = |block: Block, path: &str, inner: u64| {
        ["q_proj", "k_proj", "v_proj"]
            .iter()
            .fold(block, |block, name| block.linear(&join(path, name), Role::Attention, inner, hidden, true))
            .linear(&join(path, "out_proj"), Role::Attention, hidden, inner, true)
    };
    let layer = attends(
        attends(attends(Block::new(), "self_attn", hidden), "cross_attn_token_to_image", inner),
        "cross_attn_image_to_token",
        inner,
    );
    let layer =
        ["layer_norm1", "layer_norm2", "layer_norm3", "layer_norm4"].iter().fold(layer, |block, name| block.layer_norm(name, hidden));
    stack.restart("mask_decoder.transformer.layers.{i}", Part::Vision);
    stack.layers(
        decoder.layers("num_hidden_layers", 2)?,
        &layer.plain_mlp("mlp", hidden, decoder.int("mlp_dim", 2048)?, ["lin1", "lin2"], true),
    );
    let masks = decoder.int("num_multimask_outputs", 3)?.saturating_add(1);
    let (quarter, eighth) = (hidden / 4, hidden / 8);
    let last = attends(Block::new(), "final_attn_token_to_image", inner)
        .layer_norm("layer_norm_final_attn", hidden)
        .embedding("iou_token", Role::Position, 1, hidden)
        .embedding("mask_tokens", Role::Position, masks, hidden)
        .conv("upscale_conv1", Role::Conv, &[quarter, hidden, 2, 2], true)
        .conv("upscale_conv2", Role::Conv, &[eighth, quarter, 2, 2], true)
        .layer_norm("upscale_layer_norm", quarter);
    let (wide, depth) = (decoder.int("iou_head_hidden_dim", 256)?, decoder.int("iou_head_depth", 3)?);
    let last = mlp(last.linear("iou.proj_in", Role::TaskHead, wide, hidden, true), "iou", wide, depth.saturating_sub(2), masks);
    stack.once("mask_decoder", last);
    stack.restart("mask_decoder.output_hypernetworks_mlps.{i}", Part::Vision);
    stack.layers(masks.min(crate::model::config::MAX_LAYERS), &mlp(Block::new(), "", hidden, 2, eighth));
    Ok(stack.done())
}

/// What dpt and depth_anything do with the features of several layers.
fn neck(c: Section<'_>, from: u64, [fusion, stages]: [u64; 2], default: &[u64], bias: bool, batch_norm: bool) -> Result<Block> {
    let widths = c.ints("neck_hidden_sizes")?.unwrap_or_else(|| default.to_vec());
    let factors = ["4", "2", "1", "0.5"];
    let listed = c.node("reassemble_factors").map(|(_, node)| &node.value);
    let factor = |index: usize| match listed {
        Some(crate::model::json::Value::Array(items)) => items.get(index).map_or(1.0, |item| match item.value {
            crate::model::json::Value::Integer(number) => number as f64,
            crate::model::json::Value::Float(number) => number,
            _ => 1.0,
        }),
        _ => factors.get(index).and_then(|text| text.parse().ok()).unwrap_or(1.0),
    };
    let mut block = Block::new();
    for (index, width) in widths.iter().copied().take(64).enumerate() {
        block = block.conv(&format!("reassemble_stage.{index}.projection"), Role::Conv, &[width, from, 1, 1], true).conv(
            &format!("convs.{index}"),
            Role::Conv,
            &[fusion, width, 3, 3],
            false,
        );
        let side = match factor(index) {
            scale if scale > 1.0 => scale as u64,
            scale if scale < 1.0 => 3,
            _ => continue,
        };
        block = block.conv(&format!("reassemble_stage.{index}.resize"), Role::Conv, &[width, width, side, side], true);
    }
    let parts =
        ["residual_layer1.convolution1", "residual_layer1.convolution2", "residual_layer2.convolution1", "residual_layer2.convolution2"];
    for index in 0..stages.min(64) {
        block = block.conv(&format!("fusion_stage.{index}.projection"), Role::Conv, &[fusion, fusion, 1, 1], true);
        for part in parts {
            block = block
                .conv(&format!("fusion_stage.{index}.{part}"), Role::Conv, &[fusion, fusion, 3, 3], bias)
                .when(batch_norm, |block| block.layer_norm(&format!("fusion_stage.{index}.{part}.norm"), fusion));
        }
    }
    Ok(block)
}

/// The head that makes one number a pixel.
fn depth_head(fusion: u64, narrow: u64) -> Block {
    Block::new()
        .conv("head.conv1", Role::TaskHead, &[fusion / 2, fusion, 3, 3], true)
        .conv("head.conv2", Role::TaskHead, &[narrow, fusion / 2, 3, 3], true)
        .conv("head.conv3", Role::TaskHead, &[1, narrow, 1, 1], true)
}

/// dpt: a plain vision transformer whose layers are put together to a map.
pub fn dpt(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let t = Tower::read(c, [768, 3072, 12, 12, 384, 16])?;
    let mut stack = stack();
    let edge = Block::new()
        .conv("patch_embeddings.projection", Role::Conv, &[t.hidden, t.pixels], true)
        .param("cls_token", Role::Position, &[1, 1, t.hidden])
        .param("position_embeddings", Role::Position, &[1, t.patches.saturating_add(1), t.hidden])
        .layer_norm("layernorm", t.hidden);
    stack.once("dpt", edge);
    stack.restart("dpt.encoder.layer.{i}", Part::Vision);
    stack.layers(t.layers, &plain_layer(&t, c.bool("qkv_bias", true)?));
    if c.bool("is_hybrid", false)? || c.node("backbone_config|backbone").is_some() {
        stack.inexact("a backbone of another kind (`is_hybrid`, `backbone_config`) is not counted");
    }
    if source.class == "DPTModel" {
        stack.once("pooler", Block::new().linear("dense", Role::TaskHead, c.int("pooler_output_size", t.hidden)?, t.hidden, true));
        return Ok(stack.done());
    }
    let fusion = c.int("fusion_hidden_size", 256)?;
    let batch_norm = c.bool("use_batch_norm_in_fusion_residual", false)?;
    let bias = c.bool("use_bias_in_fusion_residual", !batch_norm)?;
    let stages = c.ints("neck_hidden_sizes")?.map_or(4, |list| list.len() as u64);
    let reads = c.str("readout_type").unwrap_or("project") == "project";
    let block = neck(c, t.hidden, [fusion, stages], &[96, 192, 384, 768], bias, batch_norm)?;
    let block = (0..if reads { stages.min(64) } else { 0 })
        .fold(block, |block, index| block.linear(&format!("readout_projects.{index}"), Role::Projector, t.hidden, mul(t.hidden, 2), true));
    stack.once("neck", block);
    let rows = labels(c)?;
    let paints = |block: Block, path: &str| {
        block.conv(&join(path, "conv"), Role::TaskHead, &[fusion, fusion, 3, 3], false).layer_norm(&join(path, "norm"), fusion).conv(
            &join(path, "out"),
            Role::TaskHead,
            &[rows, fusion, 1, 1],
            true,
        )
    };
    let head = if source.class.ends_with("ForSemanticSegmentation") {
        let second = c.bool("use_auxiliary_head", true)?;
        paints(Block::new(), "head").when(second, |block| paints(block, "auxiliary_head"))
    } else {
        let projects = c.bool("add_projection", false)?;
        depth_head(fusion, 32).when(projects, |block| block.conv("head.projection", Role::TaskHead, &[256, 256, 3, 3], true))
    };
    stack.once("", head);
    Ok(stack.done())
}

/// depth_anything: DINOv2 under the neck of dpt.
pub fn depth_anything(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let inner = c.section("backbone_config");
    let mut stack = stack();
    match inner.str("model_type") {
        Some("dinov2") => stack.append(super::image::dinov2(&Source { root: inner, class: "Dinov2Backbone", model_type: "dinov2" })?),
        _ => stack.inexact("the file does not describe its backbone, or one of a kind that is not known"),
    }
    let fusion = c.int("fusion_hidden_size", 64)?;
    let stages = c.ints("neck_hidden_sizes")?.map_or(4, |list| list.len() as u64);
    stack.once("neck", neck(c, c.int("reassemble_hidden_size", 384)?, [fusion, stages], &[48, 96, 192, 384], true, false)?);
    stack.once("", depth_head(fusion, c.int("head_hidden_size", 32)?));
    Ok(stack.done())
}
