//! Further towers that stand alone: beit, data2vec-vision, vit_msn, videomae, segformer,
//! audio-spectrogram-transformer, data2vec-audio, wav2vec2-bert.

use super::blocks::{Attention, Block, join, mul};
use super::decoder::{Dimensions, Parts, Stack};
use super::encoder::NO_HEAD;
use super::vision::Tower;
use super::{Source, labels};
use crate::model::config::{MAX_LAYERS, Result};
use crate::model::inventory::{Part, Role};

const NAMES: [&str; 4] = ["q_proj", "k_proj", "v_proj", "o_proj"];

fn stack(part: Part) -> Stack {
    Stack::bare(Dimensions::default(), NO_HEAD, "layers.{i}", part)
}

/// A layer of ViT's form; the key projection may lack its bias.
fn layer(hidden: u64, width: u64, key_bias: bool, bias: bool) -> Block {
    let mut block = Block::new().attention_named("attention", &Attention::new(hidden, 1, 1, hidden).biases(bias, true), NAMES);
    if !key_bias {
        block.tensors.retain(|tensor| !(tensor.path.ends_with("k_proj") && tensor.parameter == "bias"));
    }
    block.layer_norm("layernorm_before", hidden).layer_norm("layernorm_after", hidden).plain_mlp("mlp", hidden, width, ["fc1", "fc2"], true)
}

/// Adds a classifier where the class has one.
fn classifier(stack: &mut Stack, source: &Source<'_>, width: u64) -> Result<()> {
    if source.class.ends_with("ForImageClassification") {
        stack.once("", Block::new().linear("classifier", Role::TaskHead, labels(source.root)?, width, true));
    }
    Ok(())
}

/// beit and data2vec-vision: scaled residuals, positions relative or learned, no bias of the keys.
pub fn beit(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let t = Tower::read(c, [768, 3072, 12, 12, 224, 16])?;
    let side = t.patches.isqrt();
    let span = mul(side, 2).saturating_sub(1);
    // Three rows more for the class token.
    let rows = mul(span, span).saturating_add(3);
    let scaled = c.float("layer_scale_init_value", 0.1)? > 0.0;
    let (own, shared) = (c.bool("use_relative_position_bias", false)?, c.bool("use_shared_relative_position_bias", false)?);
    let table = |block: Block| block.param("relative_position_bias_table", Role::Position, &[rows, t.heads]);
    let mut stack = stack(Part::Vision);
    let edge = Block::new()
        .conv("patch_embeddings.projection", Role::Conv, &[t.hidden, t.pixels], true)
        .param("cls_token", Role::Position, &[1, 1, t.hidden])
        .when(c.bool("use_mask_token", false)?, |block| block.param("mask_token", Role::Position, &[1, 1, t.hidden]))
        .when(c.bool("use_absolute_position_embeddings", false)?, |block| {
            block.param("position_embeddings", Role::Position, &[1, t.patches.saturating_add(1), t.hidden])
        })
        .when(shared, table);
    stack.once("embeddings", edge);
    let scale = |block: Block| block.param("lambda_1", Role::Scale, &[t.hidden]).param("lambda_2", Role::Scale, &[t.hidden]);
    stack.layers(t.layers, &layer(t.hidden, t.width, false, true).when(scaled, scale).when(own, table));
    let mean = c.bool("use_mean_pooling", true)?;
    let pools = !source.class.contains("MaskedImage");
    let name = if mean && pools { "pooler.layernorm" } else { "layernorm" };
    // The bare class of data2vec ends without a norm.
    let norm = source.class != "Data2VecVisionModel" || !mean;
    stack.once("", Block::new().when(norm, |block| block.layer_norm(name, t.hidden)));
    if !pools {
        stack.once("", Block::new().linear("lm_head", Role::TaskHead, c.int("vocab_size", 8192)?, t.hidden, true));
    }
    classifier(&mut stack, source, t.hidden)?;
    Ok(stack.done())
}

/// vit_msn: ViT without a pooler.
pub fn vit_msn(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let t = Tower::read(c, [768, 3072, 12, 12, 224, 16])?;
    let mut stack = stack(Part::Vision);
    let edge = Block::new()
        .conv("patch_embeddings.projection", Role::Conv, &[t.hidden, t.pixels], true)
        .param("cls_token", Role::Position, &[1, 1, t.hidden])
        .param("position_embeddings", Role::Position, &[1, t.patches.saturating_add(1), t.hidden])
        .layer_norm("layernorm", t.hidden);
    stack.once("embeddings", edge);
    stack.layers(t.layers, &layer(t.hidden, t.width, true, c.bool("qkv_bias", true)?));
    classifier(&mut stack, source, t.hidden)?;
    Ok(stack.done())
}

/// videomae: patches over time, computed positions.
pub fn videomae(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let t = Tower::read(c, [768, 3072, 12, 12, 224, 16])?;
    let mut stack = stack(Part::Vision);
    let pixels = mul(t.pixels, c.int("tubelet_size", 2)?);
    stack.once("embeddings", Block::new().conv("patch_embeddings.projection", Role::Conv, &[t.hidden, pixels], true));
    let bias = c.bool("qv_bias|qkv_bias", true)?;
    stack.layers(t.layers, &layer(t.hidden, t.width, false, bias));
    let mean = c.bool("use_mean_pooling", true)?;
    if source.class.ends_with("ForVideoClassification") {
        stack.once(
            "",
            Block::new().when(mean, |block| block.layer_norm("fc_norm", t.hidden)).linear(
                "classifier",
                Role::TaskHead,
                labels(c)?,
                t.hidden,
                true,
            ),
        );
    }
    let bare = source.class.ends_with("Model");
    if !mean {
        stack.once("", Block::new().layer_norm("layernorm", t.hidden));
    }
    if !bare && !source.class.ends_with("ForVideoClassification") {
        stack.inexact("the decoder of this class is not counted");
    }
    Ok(stack.done())
}

/// segformer: stages with fewer and wider patches, attention to a reduced sequence.
pub fn segformer(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let list = |name: &str, default: [u64; 4]| -> Result<Vec<u64>> { Ok(c.ints(name)?.unwrap_or_else(|| default.to_vec())) };
    let (depths, widths) = (list("depths", [2, 2, 2, 2])?, list("hidden_sizes", [32, 64, 160, 256])?);
    let (patches, ratios) = (list("patch_sizes", [7, 3, 3, 3])?, list("sr_ratios", [8, 4, 2, 1])?);
    let wider = list("mlp_ratios", [4, 4, 4, 4])?;
    if depths.len() > 64 || depths.iter().any(|depth| *depth > MAX_LAYERS) {
        return Err(c.wrong("depths", "names more layers than any model has".to_owned()));
    }
    let at = |list: &[u64], index: usize| list.get(index).copied().unwrap_or(1);
    let mut stack = stack(Part::Vision);
    let mut input = c.int("num_channels", 3)?;
    for (stage, depth) in depths.iter().enumerate() {
        let (hidden, patch, ratio) = (at(&widths, stage), at(&patches, stage), at(&ratios, stage));
        let width = mul(hidden, at(&wider, stage));
        let prefix = format!("stages.{stage}");
        stack.restart(&join(&prefix, "blocks.{i}"), Part::Vision);
        let edge = Block::new()
            .conv("patch_embeddings.proj", Role::Conv, &[hidden, input, patch, patch], true)
            .layer_norm("patch_embeddings.layer_norm", hidden)
            .layer_norm("layer_norm", hidden);
        stack.once(&prefix, edge);
        let block =
            layer(hidden, width, true, true).conv("mlp.dwconv.dwconv", Role::Conv, &[width, 1, 3, 3], true).when(ratio > 1, |block| {
                block
                    .conv("attention.sequence_reduction", Role::Conv, &[hidden, hidden, ratio, ratio], true)
                    .layer_norm("attention.sequence_reduction.layer_norm", hidden)
            });
        stack.layers(*depth, &block);
        input = hidden;
    }
    classifier(&mut stack, source, input)?;
    if source.class.ends_with("ForSemanticSegmentation") {
        let wide = c.int("decoder_hidden_size", 256)?;
        let head = widths.iter().take(depths.len()).enumerate().fold(Block::new(), |block, (stage, hidden)| {
            block.linear(&format!("decode_head.linear_c.{stage}.proj"), Role::TaskHead, wide, *hidden, true)
        });
        let head = head
            .conv("decode_head.linear_fuse", Role::TaskHead, &[wide, mul(wide, depths.len() as u64), 1, 1], false)
            .layer_norm("decode_head.batch_norm", wide)
            .conv("decode_head.classifier", Role::TaskHead, &[labels(c)?, wide, 1, 1], true);
        stack.once("", head);
    }
    Ok(stack.done())
}

/// audio-spectrogram-transformer: overlapping patches of a spectrogram.
pub fn spectrogram(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let t = Tower::read(c, [768, 3072, 12, 12, 224, 16])?;
    let patch = c.int("patch_size", 16)?;
    let steps = |length: u64, stride: u64| length.saturating_sub(patch) / stride + 1;
    let rows = steps(c.int("num_mel_bins", 128)?, c.divisor("frequency_stride", 10)?);
    let columns = steps(c.int("max_length", 1024)?, c.divisor("time_stride", 10)?);
    let mut stack = stack(Part::Audio);
    let edge = Block::new()
        .conv("patch_embeddings.projection", Role::Conv, &[t.hidden, 1, patch, patch], true)
        .param("cls_token", Role::Position, &[1, 1, t.hidden])
        .param("distillation_token", Role::Position, &[1, 1, t.hidden])
        .param("position_embeddings", Role::Position, &[1, mul(rows, columns).saturating_add(2), t.hidden])
        .layer_norm("layernorm", t.hidden);
    stack.once("embeddings", edge);
    stack.layers(t.layers, &layer(t.hidden, t.width, true, c.bool("qkv_bias", true)?));
    if source.class.ends_with("ForAudioClassification") {
        stack
            .once("classifier", Block::new().layer_norm("layernorm", t.hidden).linear("dense", Role::TaskHead, labels(c)?, t.hidden, true));
    }
    Ok(stack.done())
}

/// The head of a class over sound.
fn sound_head(source: &Source<'_>, hidden: u64, layers: u64, vocab: Option<u64>, projected: u64) -> Result<Option<Block>> {
    let c = source.root;
    let weighted = c.bool("use_weighted_layer_sum", false)?;
    let width = c.int("classifier_proj_size", projected)?;
    let weights = |block: Block| block.when(weighted, |block| block.param("layer_weights", Role::TaskHead, &[layers.saturating_add(1)]));
    Ok(match source.class {
        class if class.ends_with("ForCTC") => {
            c.int_opt("vocab_size")?.or(vocab).map(|rows| Block::new().linear("lm_head", Role::TaskHead, rows, hidden, true))
        }
        class if class.ends_with("ForSequenceClassification") => {
            Some(weights(Block::new().linear("projector", Role::TaskHead, width, hidden, true).linear(
                "classifier",
                Role::TaskHead,
                labels(c)?,
                width,
                true,
            )))
        }
        class if class.ends_with("ForAudioFrameClassification") => {
            Some(weights(Block::new().linear("classifier", Role::TaskHead, labels(c)?, hidden, true)))
        }
        class if class.ends_with("Model") => Some(Block::new()),
        _ => None,
    })
}

/// data2vec-audio: wav2vec2 with several convolutions for the positions.
pub fn data2vec_audio(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let (hidden, width) = (c.int("hidden_size", 768)?, c.int("intermediate_size", 3072)?);
    let layers = c.layers("num_hidden_layers", 12)?;
    let channels = c.ints("conv_dim")?.unwrap_or_else(|| vec![512; 7]);
    let kernels = c.ints("conv_kernel")?.unwrap_or_else(|| vec![10, 3, 3, 3, 3, 2, 2]);
    let bias = c.bool("conv_bias", false)?;
    let mut stack = Stack::bare(Dimensions::default(), NO_HEAD, "encoder.layers.{i}", Part::Audio);
    let (mut front, mut input) = (Block::new(), 1);
    for (index, (out, kernel)) in channels.iter().zip(&kernels).take(64).enumerate() {
        let path = format!("conv_layers.{index}");
        front = front.conv(&join(&path, "conv"), Role::Conv, &[*out, input, *kernel], bias).layer_norm(&join(&path, "layer_norm"), *out);
        input = *out;
    }
    stack.once("feature_extractor", front);
    let masks = c.float("mask_time_prob", 0.05)? > 0.0 || c.float("mask_feature_prob", 0.0)? > 0.0;
    let (groups, kernel) = (c.divisor("num_conv_pos_embedding_groups", 16)?, c.int("conv_pos_kernel_size", 19)?);
    let edge = Block::new()
        .layer_norm("feature_projection.layer_norm", input)
        .linear("feature_projection.projection", Role::Projector, hidden, input, true)
        .when(masks, |block| block.param("masked_spec_embed", Role::Scale, &[hidden]))
        .layer_norm("encoder.layer_norm", hidden);
    let edge = (0..c.int("num_conv_pos_embeddings", 5)?.min(64)).fold(edge, |block, index| {
        block.conv(&format!("encoder.pos_conv_embed.layers.{index}.conv"), Role::Conv, &[hidden, hidden / groups, kernel], true)
    });
    stack.once("", edge);
    let block = Block::new()
        .attention_named("attention", &Attention::new(hidden, 1, 1, hidden).biases(true, true), NAMES)
        .layer_norm("layer_norm", hidden)
        .plain_mlp("feed_forward", hidden, width, ["intermediate_dense", "output_dense"], true)
        .layer_norm("final_layer_norm", hidden);
    stack.layers(layers, &block);
    match sound_head(source, hidden, layers, Some(32), 256)? {
        Some(head) => stack.once("", head),
        None => stack.inexact("the head of this class is not known"),
    }
    if c.bool("add_adapter", false)? {
        stack.inexact("the convolutional adapter (`add_adapter`) is not counted");
    }
    Ok(stack.done())
}

/// wav2vec2-bert: a conformer on filter banks.
pub fn wav2vec2_bert(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let (hidden, width) = (c.int("hidden_size", 1024)?, c.int("intermediate_size", 4096)?);
    let (layers, heads) = (c.layers("num_hidden_layers", 24)?, c.divisor("num_attention_heads", 16)?);
    let input = c.int("feature_projection_input_dim", 160)?;
    let kernel = c.int("conv_depthwise_kernel_size", 31)?;
    let masks = c.float("mask_time_prob", 0.05)? > 0.0 || c.float("mask_feature_prob", 0.0)? > 0.0;
    let mut stack = Stack::bare(Dimensions::default(), NO_HEAD, "encoder.layers.{i}", Part::Audio);
    let edge = Block::new()
        .when(masks, |block| block.param("masked_spec_embed", Role::Scale, &[hidden]))
        .layer_norm("feature_projection.layer_norm", input)
        .linear("feature_projection.projection", Role::Projector, hidden, input, true);
    stack.once("", edge);
    let feed = |block: Block, name: &str| {
        block.layer_norm(&format!("{name}_layer_norm"), hidden).plain_mlp(name, hidden, width, ["intermediate_dense", "output_dense"], true)
    };
    let positions = c.str("position_embeddings_type");
    let absent = !c.has("position_embeddings_type");
    let span = c.int("left_max_position_embeddings", 64)?.saturating_add(c.int("right_max_position_embeddings", 8)?).saturating_add(1);
    let names = ["linear_q", "linear_k", "linear_v", "linear_out"];
    let block = feed(feed(Block::new(), "ffn1"), "ffn2")
        .attention_named("self_attn", &Attention::new(hidden, 1, 1, hidden).biases(true, true), names)
        .layer_norm("self_attn_layer_norm", hidden)
        .layer_norm("final_layer_norm", hidden)
        .layer_norm("conv_module.layer_norm", hidden)
        .conv("conv_module.pointwise_conv1", Role::Conv, &[mul(hidden, 2), hidden, 1], false)
        .conv("conv_module.depthwise_conv", Role::Conv, &[hidden, 1, kernel], false)
        .layer_norm("conv_module.depthwise_layer_norm", hidden)
        .conv("conv_module.pointwise_conv2", Role::Conv, &[hidden, hidden, 1], false)
        .when(absent || positions == Some("relative_key"), |block| {
            block.embedding("self_attn.distance_embedding", Role::Position, span, hidden / heads)
        });
    stack.layers(layers, &block);
    if c.bool("add_adapter", false)? || positions == Some("relative") {
        stack.inexact("the convolutional adapter, or positions of this kind, are not counted");
    }
    match sound_head(source, hidden, layers, None, 768)? {
        Some(head) => stack.once("", head),
        None => stack.inexact("the head of this class is not known, or the file names no vocabulary"),
    }
    Ok(stack.done())
}
