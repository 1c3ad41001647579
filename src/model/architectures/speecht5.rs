//! speecht5: one encoder and one decoder, with nets for text or sound before and behind them, by the class.

use super::Source;
use super::blocks::{Attention, Block, Window, mul};
use super::decoder::{Dimensions, Parts, Stack};
use super::encoder::NO_HEAD;
use super::seq2seq::cross;
use super::speech::raw_sound;
use crate::model::config::{MAX_LAYERS, Result, Section};
use crate::model::inventory::{Part, Role};

const NAMES: [&str; 4] = ["q_proj", "k_proj", "v_proj", "out_proj"];

/// speecht5.
pub fn speecht5(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let (hears, writes) = match source.class {
        "SpeechT5ForSpeechToText" => (true, true),
        "SpeechT5ForTextToSpeech" => (false, false),
        "SpeechT5ForSpeechToSpeech" => (true, false),
        // The bare model has no nets for text or sound.
        _ => return bare(source),
    };
    let (hidden, mut stack) = core(c)?;
    let vocab = c.int("vocab_size", 81)?;
    let words = || Block::new().embedding("embed_tokens", Role::Embedding, vocab, hidden);
    let scaled = |block: Block| block.param("encode_positions.alpha", Role::Scale, &[1]);
    stack.restart("speecht5.encoder.prenet", Part::Encoder);
    stack.once("speecht5.encoder.prenet", if hears { listening(c, hidden)? } else { scaled(words()) });
    stack.restart("speecht5.decoder.prenet", Part::Decoder);
    stack.once("speecht5.decoder.prenet", if writes { words() } else { scaled(speaking(c, hidden)?) });
    let tied = c.bool("tie_word_embeddings", true)?;
    let behind = match writes {
        true => Block::new().when(!tied, |block| block.linear("text_decoder_postnet.lm_head", Role::Head, vocab, hidden, false)),
        false => postnet(c, hidden)?,
    };
    stack.once("", behind);
    let mut parts = stack.done();
    parts.tied = tied && writes;
    Ok(parts)
}

fn bare(source: &Source<'_>) -> Result<Parts> {
    Ok(core(source.root)?.1.done())
}

/// Encoder and decoder without what stands before and behind them; gives their width.
fn core(c: Section<'_>) -> Result<(u64, Stack)> {
    let hidden = c.int("hidden_size", 768)?;
    let (hearing, heads) = (c.divisor("encoder_attention_heads", 12)?, c.divisor("decoder_attention_heads", 12)?);
    let d = Dimensions {
        hidden,
        layers: c.layers("decoder_layers", 6)?,
        heads,
        kv_heads: heads,
        head_dim: hidden / heads,
        intermediate: c.int("decoder_ffn_dim", 3072)?,
        vocab: c.int("vocab_size", 81)?,
        ..Dimensions::default()
    };
    let (layers, width) = (d.layers, d.intermediate);
    let mut stack = Stack::bare(d, NO_HEAD, "speecht5.encoder.wrapped_encoder.layers.{i}", Part::Encoder);
    let rows = mul(2, c.int("encoder_max_relative_position", 160)?);
    let edge = Block::new().layer_norm("layer_norm", hidden).embedding("embed_positions.pe_k", Role::Position, rows, hidden / hearing);
    stack.once("speecht5.encoder.wrapped_encoder", edge);
    let square = Attention::new(hidden, 1, 1, hidden).biases(true, true);
    let layer = Block::new()
        .attention_named("attention", &square, NAMES)
        .layer_norm("layer_norm", hidden)
        .plain_mlp("feed_forward", hidden, c.int("encoder_ffn_dim", 3072)?, ["intermediate_dense", "output_dense"], true)
        .layer_norm("final_layer_norm", hidden);
    stack.layers(c.layers("encoder_layers", 12)?, &layer);
    stack.restart("speecht5.decoder.wrapped_decoder.layers.{i}", Part::Decoder);
    let attention = Attention::new(hidden, heads, heads, hidden / heads).biases(true, true);
    let layer = Block::new()
        .attention_named("self_attn", &attention, NAMES)
        .cache(attention.cache(Window::Full))
        .layer_norm("self_attn_layer_norm", hidden);
    let layer = cross(layer, "encoder_attn", &attention, NAMES)
        .layer_norm("encoder_attn_layer_norm", hidden)
        .plain_mlp("feed_forward", hidden, width, ["intermediate_dense", "output_dense"], true)
        .layer_norm("final_layer_norm", hidden);
    stack.layers(layers, &layer);
    Ok((hidden, stack))
}

/// Raw sound before the encoder.
fn listening(c: Section<'_>, hidden: u64) -> Result<Block> {
    let (front, channels) = raw_sound(c)?;
    let masks = c.float("mask_time_prob", 0.05)? > 0.0 || c.float("mask_feature_prob", 0.0)? > 0.0;
    let (positions, groups) = (c.int("num_conv_pos_embeddings", 128)?, c.divisor("num_conv_pos_embedding_groups", 16)?);
    Ok(front
        .layer_norm("feature_projection.layer_norm", channels)
        .linear("feature_projection.projection", Role::Projector, hidden, channels, true)
        .when(masks, |block| block.param("masked_spec_embed", Role::Scale, &[hidden]))
        .conv("pos_conv_embed.conv", Role::Conv, &[hidden, hidden / groups, positions], true)
        // Weight norm keeps a length a position beside the directions.
        .param("pos_conv_embed.conv.weight_g", Role::Conv, &[positions]))
}

/// Spectra of what was said, and the speaker, before the decoder.
fn speaking(c: Section<'_>, hidden: u64) -> Result<Block> {
    let (units, mut input) = (c.int("speech_decoder_prenet_units", 256)?, c.int("num_mel_bins", 80)?);
    let mut block = Block::new();
    for index in 0..c.int("speech_decoder_prenet_layers", 2)?.min(MAX_LAYERS) {
        block = block.linear(&format!("layers.{index}"), Role::Projector, units, input, true);
        input = units;
    }
    let speaker = c.int("speaker_embedding_dim", 512)?;
    Ok(block.linear("final_layer", Role::Projector, hidden, units, true).linear(
        "speaker_embeds_layer",
        Role::Projector,
        hidden,
        hidden.saturating_add(speaker),
        true,
    ))
}

/// Spectra and stop signs behind the decoder, refined by convolutions.
fn postnet(c: Section<'_>, hidden: u64) -> Result<Block> {
    let (mels, factor) = (c.int("num_mel_bins", 80)?, c.int("reduction_factor", 2)?);
    let (units, kernel) = (c.int("speech_decoder_postnet_units", 256)?, c.int("speech_decoder_postnet_kernel", 5)?);
    let layers = c.int("speech_decoder_postnet_layers", 5)?.min(MAX_LAYERS);
    let mut block = Block::new().linear("feat_out", Role::TaskHead, mul(mels, factor), hidden, true).linear(
        "prob_out",
        Role::TaskHead,
        factor,
        hidden,
        true,
    );
    for index in 0..layers {
        let input = if index == 0 { mels } else { units };
        let out = if index + 1 == layers { mels } else { units };
        block = block
            .conv(&format!("layers.{index}.conv"), Role::Conv, &[out, input, kernel], false)
            .layer_norm(&format!("layers.{index}.batch_norm"), out);
    }
    Ok(block)
}
