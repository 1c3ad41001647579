//! More recent models of images, sound and text: exaone4_5, hunyuan_vl, phi4_multimodal and phi4mm.

use super::blocks::{Attention, Block, mul};
use super::decoder::{Dimensions, Parts, Stack};
use super::vision::{self, Tower};
use super::vlm::{join_parts, language, projector, two_linears};
use super::{Source, encoder::NO_HEAD, phi};
use crate::model::config::{Result, Section};
use crate::model::inventory::{Part, Role};

const NAMES: [&str; 4] = ["q_proj", "k_proj", "v_proj", "o_proj"];

/// exaone4_5: the tower of Qwen2.5-VL with grouped keys and values.
pub fn exaone45(source: &Source<'_>) -> Result<Parts> {
    let (text, mut stack) = language(source, "exaone4")?;
    let c = source.root.section("vision_config");
    let (hidden, width) = (c.int("hidden_size", 3584)?, c.int("intermediate_size", 3420)?);
    let heads = c.divisor("num_heads|num_attention_heads", 16)?;
    let head = hidden / heads;
    let rows = mul(heads.saturating_add(mul(2, c.int("num_key_value_heads", 8)?)), head);
    let patch = c.int("patch_size", 14)?;
    let pixels = mul(c.int("in_channels|in_chans", 3)?, mul(c.int("temporal_patch_size", 2)?, mul(patch, patch)));
    let merge = c.int("spatial_merge_size", 2)?;
    let merged = mul(hidden, mul(merge, merge));
    stack.restart("model.visual.blocks.{i}", Part::Vision);
    stack.once("model.visual", Block::new().conv("patch_embed.proj", Role::Conv, &[hidden, pixels], false));
    let layer = Block::new()
        .norm("norm1", hidden)
        .norm("norm2", hidden)
        .linear("attn.qkv", Role::Attention, rows, hidden, true)
        .linear("attn.proj", Role::Attention, hidden, hidden, true)
        .gated_mlp("mlp", hidden, width, true);
    stack.layers(c.layers("depth|num_hidden_layers", 32)?, &layer);
    let out = c.int("out_hidden_size", 3584)?;
    let merger = Block::new().norm("ln_q", hidden).linear("mlp.0", Role::Projector, merged, merged, true).linear(
        "mlp.2",
        Role::Projector,
        out,
        merged,
        true,
    );
    stack.restart("model.visual.merger", Part::Projector);
    stack.once("model.visual.merger", merger);
    Ok(join_parts(text, stack))
}

/// hunyuan_vl (HunyuanOCR): positions for the largest image, two convolutions and a linear layer behind the tower.
pub fn hunyuan_vl(source: &Source<'_>) -> Result<Parts> {
    let (text, mut stack) = language(source, "hunyuan_vl_text")?;
    let c = source.root.section("vision_config");
    let t = Tower::read(c, [1152, 4304, 27, 16, 2048, 16])?;
    let patch = c.divisor("patch_size", 16)?;
    let side = c.int("max_image_size", 2048)? / patch;
    let attention = Attention::new(t.hidden, 1, 1, t.hidden).biases(true, true);
    let layer = Block::new()
        .attention_named("self_attn", &attention, NAMES)
        .layer_norm("layer_norm1", t.hidden)
        .plain_mlp("mlp", t.hidden, t.width, ["fc1", "fc2"], true)
        .layer_norm("layer_norm2", t.hidden);
    stack.restart("model.vision_tower.layers.{i}", Part::Vision);
    let rows = mul(side, side).saturating_add(1);
    stack.once("model.vision_tower", t.patch(true).embedding("position_embedding", Role::Position, rows, t.hidden));
    stack.layers(t.layers, &layer);
    let (out, merge) = (c.int("out_hidden_size", 4096)?, c.int("spatial_merge_size", 2)?);
    let (wide, wider) = (mul(t.hidden, 2), mul(t.hidden, 4));
    let merger = Block::new()
        .conv("proj_conv", Role::Projector, &[wide, t.hidden, merge, merge], true)
        .conv("proj_out", Role::Projector, &[wider, wide, 1, 1], true)
        .linear("mlp", Role::Projector, out, wider, true)
        .param("image_newline", Role::Position, &[wider])
        .norm("before_rms", t.hidden)
        .norm("after_rms", out);
    let merger = ["image_begin", "image_end", "image_sep"].iter().fold(merger, |block, name| block.param(name, Role::Position, &[out]));
    stack.restart("model.vision_tower.patch_merger", Part::Projector);
    stack.once("model.vision_tower.patch_merger", merger);
    Ok(join_parts(text, stack))
}

/// phi4_multimodal, and phi4mm, whose file keeps the adapters for images and sound beside the layers.
pub fn phi4(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let remote = source.model_type == "phi4mm";
    let request = super::decoder::Request { task: source.task()?, tied: None, nested: false };
    let text = phi::phi4_multimodal(c, request)?;
    let d = text.dimensions.clone();
    let mut stack = Stack::bare(Dimensions::default(), NO_HEAD, "", Part::Vision);
    let image = c.section("vision_config");
    let t = vision::siglip(&mut stack, "image_embed.img_processor", image, [1152, 4304, 27, 16, 448, 14], true)?;
    let block = Block::new()
        .param("image_embed.glb_GN", Role::Position, &[1, 1, t.hidden])
        .param("image_embed.sub_GN", Role::Position, &[1, 1, 1, t.hidden])
        .with(two_linears(t.hidden, d.hidden, d.hidden, true));
    projector(&mut stack, block);
    let width = sound(&mut stack, c.section("audio_config"), if remote { 500 } else { 1000 })?;
    for part in ["speech", "vision"] {
        stack.restart("audio_projection", Part::Projector);
        stack.once(&format!("audio_projection.{part}"), two_linears(width, d.hidden, d.hidden, true));
    }
    if remote {
        let of = |key: &str| c.section(key).int("r", 0);
        adapters(&mut stack, &d, of("vision_lora")?.saturating_add(of("speech_lora")?));
    }
    Ok(join_parts(text, stack))
}

/// The conformer of Phi-4 for sound; gives its width.
fn sound(stack: &mut Stack, c: Section<'_>, distance: u64) -> Result<u64> {
    let (hidden, width) = (c.int("hidden_size", 1024)?, c.int("intermediate_size", 1536)?);
    let channels = c.int("nemo_conv_channels", 1024)?;
    let halvings = u64::from(c.int("time_reduction", 8)?.max(1).ilog2());
    let spread = mul(c.int("bias_max_distance", distance)?, if c.bool("bias_symmetric", false)? { 1 } else { 2 });
    let mut edge = Block::new()
        .linear("embed.out", Role::Projector, hidden, mul(channels, c.int("nemo_final_size", 10)?), true)
        .param("relative_attention_bias_layer.bias_values", Role::Position, &[spread, c.int("num_attention_heads", 16)?])
        .conv("embed.conv.0", Role::Conv, &[channels, 1, 3, 3], true);
    for index in 1..halvings {
        edge = edge.conv(&format!("embed.conv.{}", index * 3 - 1), Role::Conv, &[channels, 1, 3, 3], true).conv(
            &format!("embed.conv.{}", index * 3),
            Role::Conv,
            &[channels, channels, 1, 1],
            true,
        );
    }
    stack.restart("audio_embed.encoder.encoders.{i}", Part::Audio);
    stack.once("audio_embed.encoder", edge);
    let (outer, narrow) = (c.int("ext_pw_out_channel", 1024)?, c.int("depthwise_separable_out_channel", 1024)?);
    let deep = mul(hidden, c.int("depthwise_multiplier", 1)?);
    let attention = Attention::new(hidden, 1, 1, hidden).biases(true, true);
    let layer = ["feed_forward_in", "feed_forward_out"]
        .iter()
        .fold(Block::new(), |block, name| {
            block.layer_norm(&format!("{name}.layer_norm"), hidden).fused_gated_mlp(
                name,
                hidden,
                width,
                ["gate_up_proj", "down_proj"],
                true,
            )
        })
        .attention_named("self_attn", &attention, NAMES)
        .layer_norm("conv.layer_norm", hidden)
        .param("conv.glu.b1", Role::Scale, &[1, outer, 1])
        .param("conv.glu.b2", Role::Scale, &[1, outer, 1])
        .conv("conv.glu.ext_pw_conv_1d", Role::Conv, &[mul(outer, 2), hidden, 1], true)
        .conv("conv.dw_sep_conv_1d.dw_conv", Role::Conv, &[deep, 1, c.int("kernel_size", 3)?], true)
        .conv("conv.dw_sep_conv_1d.pw_conv", Role::Conv, &[narrow, deep, 1], true)
        .conv("conv.ext_pw_conv_1d", Role::Conv, &[outer, hidden, 1], true)
        .layer_norm("layer_norm_att", hidden)
        .layer_norm("layer_norm", hidden);
    stack.layers(c.layers("num_blocks|num_hidden_layers", 24)?, &layer);
    Ok(hidden)
}

/// Adapters of low rank beside the four projections of every layer.
fn adapters(stack: &mut Stack, d: &Dimensions, rank: u64) {
    let fused = mul(d.heads.saturating_add(mul(2, d.kv_heads)), d.head_dim);
    let wide = mul(d.heads, d.head_dim);
    let pairs = [
        ("self_attn.qkv_proj", d.hidden, fused),
        ("self_attn.o_proj", wide, d.hidden),
        ("mlp.gate_up_proj", d.hidden, mul(d.intermediate, 2)),
        ("mlp.down_proj", d.intermediate, d.hidden),
    ];
    let layer = pairs.iter().fold(Block::new(), |block, (name, input, out)| {
        block.param(&format!("{name}.lora_A"), Role::Scale, &[rank, *input]).param(&format!("{name}.lora_B"), Role::Scale, &[*out, rank])
    });
    stack.restart("model.layers.{i}", Part::Text);
    stack.layers(d.layers, &layer);
}
