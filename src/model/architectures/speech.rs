//! Speech models: whisper, and the wav2vec2 family (wav2vec2, hubert, wavlm).

use super::blocks::{Attention, Block, Window, join, mul};
use super::decoder::{Dimensions, Parts, Stack};
use super::encoder::NO_HEAD;
use super::seq2seq::cross;
use super::{Source, labels};
use crate::model::config::{Result, Section};
use crate::model::inventory::{Part, Role};

const NAMES: [&str; 4] = ["q_proj", "k_proj", "v_proj", "out_proj"];

/// Attention of whisper: the key projection has no bias.
fn whisper_attention(block: Block, path: &str, hidden: u64) -> Block {
    block
        .linear(&join(path, "q_proj"), Role::Attention, hidden, hidden, true)
        .linear(&join(path, "k_proj"), Role::Attention, hidden, hidden, false)
        .linear(&join(path, "v_proj"), Role::Attention, hidden, hidden, true)
        .linear(&join(path, "out_proj"), Role::Attention, hidden, hidden, true)
}

/// The encoder of whisper, as speech-language models use it too.
pub fn whisper_encoder(stack: &mut Stack, prefix: &str, c: Section<'_>, default: [u64; 4]) -> Result<u64> {
    let [hidden, layers, width, mels] = default;
    let hidden = c.int("d_model|hidden_size", hidden)?;
    let width = c.int("encoder_ffn_dim|intermediate_size", width)?;
    let layers = c.layers("encoder_layers|num_hidden_layers", layers)?;
    stack.restart(&join(prefix, "layers.{i}"), Part::Audio);
    let stem = Block::new()
        .conv("conv1", Role::Conv, &[hidden, c.int("num_mel_bins", mels)?, 3], true)
        .conv("conv2", Role::Conv, &[hidden, hidden, 3], true)
        .embedding("embed_positions", Role::Position, c.int("max_source_positions", 1500)?, hidden)
        .layer_norm("layer_norm", hidden);
    stack.once(prefix, stem);
    let layer = whisper_attention(Block::new(), "self_attn", hidden)
        .layer_norm("self_attn_layer_norm", hidden)
        .plain_mlp("", hidden, width, ["fc1", "fc2"], true)
        .layer_norm("final_layer_norm", hidden);
    stack.layers(layers, &layer);
    Ok(hidden)
}

/// whisper.
pub fn whisper(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let hidden = c.int("d_model|hidden_size", 384)?;
    let heads = c.divisor("decoder_attention_heads|num_attention_heads", 6)?;
    let d = Dimensions {
        hidden,
        layers: c.layers("decoder_layers", 4)?,
        heads,
        kv_heads: heads,
        head_dim: hidden / heads,
        intermediate: c.int("decoder_ffn_dim", 1536)?,
        vocab: c.int("vocab_size", 51865)?,
        positions: c.int("max_target_positions", 448)?,
        ..Dimensions::default()
    };
    let mut stack = Stack::bare(d.clone(), NO_HEAD, "", Part::Encoder);
    let classifier = source.class.ends_with("ForAudioClassification");
    if !source.class.ends_with("ForCausalLM") {
        whisper_encoder(&mut stack, "model.encoder", c, [384, 4, 1536, 80])?;
    }
    if classifier {
        let width = c.int("classifier_proj_size", 256)?;
        let weighted = c.bool("use_weighted_layer_sum", false)?;
        let layers = c.layers("encoder_layers|num_hidden_layers", 4)?;
        let head = Block::new().linear("projector", Role::TaskHead, width, hidden, true).linear(
            "classifier",
            Role::TaskHead,
            labels(c)?,
            width,
            true,
        );
        stack.once("", head.when(weighted, |block| block.param("layer_weights", Role::TaskHead, &[layers.saturating_add(1)])));
        return Ok(stack.done());
    }
    stack.restart("model.decoder.layers.{i}", Part::Decoder);
    let edge = Block::new()
        .embedding("embed_tokens", Role::Embedding, d.vocab, hidden)
        .embedding("embed_positions", Role::Position, d.positions, hidden)
        .layer_norm("layer_norm", hidden);
    stack.once("model.decoder", edge);
    let attention = Attention::new(hidden, heads, heads, hidden / heads);
    let layer = whisper_attention(Block::new(), "self_attn", hidden)
        .cache(attention.cache(Window::Full))
        .layer_norm("self_attn_layer_norm", hidden);
    let bias = |block: Block, name: &str| block.param(name, Role::CrossAttention, &[hidden]);
    let layer = cross(layer, "encoder_attn", &attention, NAMES);
    let layer = bias(bias(bias(layer, "encoder_attn.q_bias"), "encoder_attn.v_bias"), "encoder_attn.out_bias");
    let layer = layer
        .layer_norm("encoder_attn_layer_norm", hidden)
        .plain_mlp("", hidden, d.intermediate, ["fc1", "fc2"], true)
        .layer_norm("final_layer_norm", hidden);
    stack.layers(d.layers, &layer);
    let tied = c.bool("tie_word_embeddings", true)?;
    let bare = source.class.ends_with("Model");
    stack.once("", Block::new().when(!tied && !bare, |block| block.linear("proj_out", Role::Head, d.vocab, hidden, false)));
    let mut parts = stack.done();
    parts.tied = tied;
    Ok(parts)
}

/// Convolutions over raw sound; gives their last width too.
pub fn raw_sound(c: Section<'_>) -> Result<(Block, u64)> {
    let channels = c.ints("conv_dim")?.unwrap_or_else(|| vec![512; 7]);
    let kernels = c.ints("conv_kernel")?.unwrap_or_else(|| vec![10, 3, 3, 3, 3, 2, 2]);
    let conv_bias = c.bool("conv_bias", false)?;
    let normed = c.str("feat_extract_norm").unwrap_or("group") == "layer";
    let (mut front, mut input) = (Block::new(), 1);
    for (index, (out, kernel)) in channels.iter().zip(&kernels).enumerate() {
        let path = format!("conv_layers.{index}");
        front = front.conv(&join(&path, "conv"), Role::Conv, &[*out, input, *kernel], conv_bias);
        front = front.when(normed || index == 0, |block| block.layer_norm(&join(&path, "layer_norm"), *out));
        input = *out;
    }
    Ok((front, input))
}

/// wav2vec2, hubert, wavlm: a convolutional front end on raw sound and a BERT-like encoder.
pub fn wav2vec2(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let hidden = c.int("hidden_size", 768)?;
    let width = c.int("intermediate_size", 3072)?;
    let heads = c.divisor("num_attention_heads", 12)?;
    let layers = c.layers("num_hidden_layers", 12)?;
    let d = Dimensions { hidden, layers, heads, kv_heads: heads, head_dim: hidden / heads, intermediate: width, ..Dimensions::default() };
    let mut stack = Stack::bare(d, NO_HEAD, "encoder.layers.{i}", Part::Audio);
    let (front, input) = raw_sound(c)?;
    stack.once("feature_extractor", front);
    let norm_first = c.bool("feat_proj_layer_norm", true)?;
    let masks = c.float("mask_time_prob", 0.05)? > 0.0 || c.float("mask_feature_prob", 0.0)? > 0.0;
    let masks = masks || source.model_type == "hubert";
    let (positions, groups) = (c.int("num_conv_pos_embeddings", 128)?, c.divisor("num_conv_pos_embedding_groups", 16)?);
    let batch_norm = c.bool("conv_pos_batch_norm", false)?;
    let edge = Block::new()
        .when(norm_first, |block| block.layer_norm("feature_projection.layer_norm", input))
        .linear("feature_projection.projection", Role::Projector, hidden, input, true)
        .when(masks, |block| block.param("masked_spec_embed", Role::Scale, &[hidden]))
        .conv("encoder.pos_conv_embed.conv", Role::Conv, &[hidden, hidden / groups, positions], true)
        // Weight norm keeps a length a position beside the directions.
        .when(!batch_norm, |block| block.param("encoder.pos_conv_embed.conv.weight_g", Role::Conv, &[positions]))
        .when(batch_norm, |block| block.layer_norm("encoder.pos_conv_embed.batch_norm", hidden))
        .layer_norm("encoder.layer_norm", hidden);
    stack.once("", edge);
    let attention = Attention::new(hidden, 1, 1, hidden).biases(true, true);
    let wavlm = source.model_type == "wavlm";
    let head = hidden / heads;
    let layer = Block::new()
        .attention_named("attention", &attention, NAMES)
        .when(wavlm, |block| {
            block.param("attention.gru_rel_pos_const", Role::Attention, &[heads]).linear(
                "attention.gru_rel_pos_linear",
                Role::Attention,
                8,
                head,
                true,
            )
        })
        .layer_norm("layer_norm", hidden)
        .plain_mlp("feed_forward", hidden, width, ["intermediate_dense", "output_dense"], true)
        .layer_norm("final_layer_norm", hidden);
    if c.bool("add_adapter", false)? {
        stack.inexact("the convolutional adapter (`add_adapter`) is not counted");
    }
    let narrow = c.int("adapter_attn_dim", 0)?;
    let layer = layer.when(narrow > 0, |block| {
        block.layer_norm("adapter_layer.norm", hidden).linear("adapter_layer.linear_1", Role::Mlp, narrow, hidden, true).linear(
            "adapter_layer.linear_2",
            Role::Mlp,
            hidden,
            narrow,
            true,
        )
    });
    for index in 0..layers {
        let buckets = c.int("num_buckets", 320)?;
        stack.layer(
            layer.clone().when(wavlm && index == 0, |block| block.embedding("attention.rel_attn_embed", Role::Position, buckets, heads)),
        );
    }
    stack.once("", wav2vec2_head(source, hidden, layers, input)?);
    Ok(stack.done())
}

fn wav2vec2_head(source: &Source<'_>, hidden: u64, layers: u64, conv: u64) -> Result<Block> {
    let c = source.root;
    let weighted = c.bool("use_weighted_layer_sum", false)?;
    let width = c.int("classifier_proj_size", 256)?;
    Ok(match source.class {
        class if class.ends_with("ForCTC") => Block::new().linear("lm_head", Role::TaskHead, c.int("vocab_size", 32)?, hidden, true),
        class if class.ends_with("ForSequenceClassification") => Block::new()
            .linear("projector", Role::TaskHead, width, hidden, true)
            .linear("classifier", Role::TaskHead, labels(c)?, width, true)
            .when(weighted, |block| block.param("layer_weights", Role::TaskHead, &[layers.saturating_add(1)])),
        class if class.ends_with("ForAudioFrameClassification") => Block::new()
            .linear("classifier", Role::TaskHead, labels(c)?, hidden, true)
            .when(weighted, |block| block.param("layer_weights", Role::TaskHead, &[layers.saturating_add(1)])),
        class if class.ends_with("ForPreTraining") => {
            let (groups, vectors) = (c.divisor("num_codevector_groups", 2)?, c.int("num_codevectors_per_group", 320)?);
            let (dim, projected) = (c.int("codevector_dim", 256)?, c.int("proj_codevector_dim", 256)?);
            Block::new()
                .param("quantizer.codevectors", Role::TaskHead, &[1, mul(groups, vectors), dim / groups])
                .linear("quantizer.weight_proj", Role::TaskHead, mul(groups, vectors), conv, true)
                .linear("project_hid", Role::TaskHead, projected, hidden, true)
                .linear("project_q", Role::TaskHead, projected, dim, true)
        }
        _ => Block::new(),
    })
}
