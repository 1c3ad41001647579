//! Codecs of sound and models that speak through them: encodec, musicgen, bark.

use super::blocks::{Attention, Block, Window, join, mul};
use super::decoder::{Dimensions, Parts, Stack};
use super::encoder::NO_HEAD;
use super::{Source, seq2seq};
use crate::model::config::{MAX_LAYERS, Result, Section};
use crate::model::inventory::{Part, Role};

const NAMES: [&str; 4] = ["q_proj", "k_proj", "v_proj", "out_proj"];

/// A convolution with a length for each channel of its first side, or with a norm behind it.
fn convolve(block: Block, path: &str, [out, input, kernel]: [u64; 3], weight_norm: bool) -> Block {
    let block = block.conv(path, Role::Conv, &[out, input, kernel], true);
    if weight_norm { block.param(&join(path, "length"), Role::Scale, &[out]) } else { block.layer_norm(&join(path, "norm"), out) }
}

/// The same that makes the sound longer: its first side is the input.
fn lengthen(block: Block, path: &str, [out, input, kernel]: [u64; 3], weight_norm: bool) -> Block {
    let block = block.param(path, Role::Conv, &[input, out, kernel]).param(&join(path, "bias"), Role::Conv, &[out]);
    if weight_norm { block.param(&join(path, "length"), Role::Scale, &[input]) } else { block.layer_norm(&join(path, "norm"), out) }
}

/// Layers of a recurrent net of one width.
fn lstm(block: Block, path: &str, width: u64, layers: u64) -> Block {
    let gates = mul(width, 4);
    (0..layers.min(64)).fold(block, |block, index| {
        block
            .param(&format!("{path}.weight_ih_l{index}"), Role::Mixer, &[gates, width])
            .param(&format!("{path}.weight_hh_l{index}"), Role::Mixer, &[gates, width])
            .param(&format!("{path}.biases_l{index}"), Role::Mixer, &[2, gates])
    })
}

/// Encoder and decoder of encodec; the codebooks are buffers.
fn encodec_into(stack: &mut Stack, prefix: &str, c: Section<'_>) -> Result<()> {
    let (hidden, filters) = (c.int("hidden_size", 128)?, c.int("num_filters", 32)?);
    let ratios = c.ints("upsampling_ratios")?.unwrap_or_else(|| vec![8, 5, 4, 2]);
    let residuals = c.int("num_residual_layers", 1)?.min(64);
    let (first, last, inner) = (c.int("kernel_size", 7)?, c.int("last_kernel_size", 7)?, c.int("residual_kernel_size", 3)?);
    let channels = c.int("audio_channels", 1)?;
    let compress = c.divisor("compress", 2)?;
    let recurrent = c.int("num_lstm_layers", 2)?;
    let normed = c.str("norm_type").unwrap_or("weight_norm") == "weight_norm";
    let shortcut = c.bool("use_conv_shortcut", true)?;
    let residual = |block: Block, path: &str, width: u64| {
        (0..residuals).fold(block, |block, index| {
            let path = format!("{path}.residual.{index}");
            let block = convolve(block, &join(&path, "block.1"), [width / compress, width, inner], normed);
            let block = convolve(block, &join(&path, "block.3"), [width, width / compress, 1], normed);
            if shortcut { convolve(block, &join(&path, "shortcut"), [width, width, 1], normed) } else { block }
        })
    };
    let mut width = filters;
    let mut block = convolve(Block::new(), "encoder.first", [width, channels, first], normed);
    for (index, ratio) in ratios.iter().rev().take(16).enumerate() {
        block = residual(block, &format!("encoder.{index}"), width);
        block = convolve(block, &format!("encoder.{index}.down"), [mul(width, 2), width, mul(*ratio, 2)], normed);
        width = mul(width, 2);
    }
    block = convolve(lstm(block, "encoder.lstm", width, recurrent), "encoder.last", [hidden, width, last], normed);
    block = lstm(convolve(block, "decoder.first", [width, hidden, first], normed), "decoder.lstm", width, recurrent);
    for (index, ratio) in ratios.iter().take(16).enumerate() {
        block = lengthen(block, &format!("decoder.{index}.up"), [width / 2, width, mul(*ratio, 2)], normed);
        width /= 2;
        block = residual(block, &format!("decoder.{index}"), width);
    }
    stack.restart(prefix, Part::Audio);
    stack.once(prefix, convolve(block, "decoder.last", [channels, filters, last], normed));
    Ok(())
}

/// encodec: convolutions and a recurrent net on both sides of the codebooks.
pub fn encodec(source: &Source<'_>) -> Result<Parts> {
    let mut stack = Stack::bare(Dimensions::default(), NO_HEAD, "", Part::Audio);
    encodec_into(&mut stack, "", source.root)?;
    Ok(stack.done())
}

/// The decoder of musicgen: a table and a head for each codebook.
fn music_decoder(c: Section<'_>, bare: bool) -> Result<Parts> {
    let (hidden, vocab) = (c.int("hidden_size", 1024)?, c.int("vocab_size", 2048)?);
    let heads = c.divisor("num_attention_heads", 16)?;
    let books = c.layers("num_codebooks", 4)?;
    let d = Dimensions {
        hidden,
        layers: c.layers("num_hidden_layers", 24)?,
        heads,
        kv_heads: heads,
        head_dim: hidden / heads,
        intermediate: c.int("ffn_dim", 4096)?,
        vocab,
        positions: c.int("max_position_embeddings", 2048)?,
        ..Dimensions::default()
    };
    let attention = Attention::new(hidden, heads, heads, hidden / heads);
    let layer = Block::new()
        .attention_named("self_attn", &attention, NAMES)
        .cache(attention.cache(Window::Full))
        .layer_norm("self_attn_layer_norm", hidden);
    let layer = seq2seq::cross(layer, "encoder_attn", &attention, NAMES)
        .layer_norm("encoder_attn_layer_norm", hidden)
        .plain_mlp("", hidden, d.intermediate, ["fc1", "fc2"], false)
        .layer_norm("final_layer_norm", hidden);
    let mut stack = Stack::bare(d.clone(), NO_HEAD, "decoder.model.decoder.layers.{i}", Part::Decoder);
    let tables = (0..books).fold(Block::new().layer_norm("layer_norm", hidden), |block, index| {
        block.embedding(&format!("embed_tokens.{index}"), Role::Embedding, vocab.saturating_add(1), hidden)
    });
    stack.once("decoder.model.decoder", tables);
    stack.layers(d.layers, &layer);
    let heads = (0..if bare { 0 } else { books })
        .fold(Block::new(), |block, index| block.linear(&format!("lm_heads.{index}"), Role::Head, vocab, hidden, false));
    stack.once("decoder", heads);
    if c.bool("tie_word_embeddings", false)? {
        stack.inexact("this family does not share its heads, and the file says otherwise");
    }
    Ok(stack.done())
}

/// musicgen_decoder: the decoder by itself.
pub fn musicgen_decoder(source: &Source<'_>) -> Result<Parts> {
    music_decoder(source.root, source.class == "MusicgenModel")
}

/// musicgen: T5 reads the words, a decoder writes codes, encodec makes sound of them.
pub fn musicgen(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let (words, sound) = (c.section("text_encoder"), c.section("audio_encoder"));
    let decoder = music_decoder(c.section("decoder"), false)?;
    let mut stack = Stack::bare(decoder.dimensions.clone(), NO_HEAD, "", Part::Encoder);
    match words.str("model_type") {
        Some("t5") => stack.append(seq2seq::t5(&Source { root: words, class: "T5EncoderModel", model_type: "t5" })?),
        _ => stack.inexact("the file does not describe its text encoder, or one of a kind that is not known"),
    }
    match sound.str("model_type") {
        Some("encodec") => encodec_into(&mut stack, "audio_encoder", sound)?,
        _ => stack.inexact("the file does not describe its codec, or one of a kind that is not known"),
    }
    let (from, to) = (words.int("d_model", 512)?, decoder.dimensions.hidden);
    let project = from != to;
    stack.append(decoder);
    stack.restart("", Part::Projector);
    stack.once("", Block::new().when(project, |block| block.linear("enc_to_dec_proj", Role::Projector, to, from, true)));
    Ok(stack.done())
}

/// bark: three models of GPT-2's form, one behind the other, and encodec.
pub fn bark(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let mut stack = Stack::bare(Dimensions::default(), NO_HEAD, "", Part::Text);
    for (key, name) in
        [("semantic_config", "semantic"), ("coarse_acoustics_config", "coarse_acoustics"), ("fine_acoustics_config", "fine_acoustics")]
    {
        let inner = c.section(key);
        let fine = name == "fine_acoustics";
        let hidden = inner.int("hidden_size", 768)?;
        let heads = inner.divisor("num_heads", 12)?;
        let bias = inner.bool("bias", true)?;
        let (input, output) = (inner.int("input_vocab_size", 10048)?, inner.int("output_vocab_size", 10048)?);
        let attention = Attention::new(hidden, heads, heads, hidden / heads).biases(bias, bias);
        let norm =
            |block: Block, name: &str, always: bool| if bias || always { block.layer_norm(name, hidden) } else { block.norm(name, hidden) };
        // The fine model reads all codes at once and keeps no cache.
        let layer = Block::new().attention_named("attn", &attention, ["q", "k", "v", "out_proj"]);
        let layer = norm(norm(layer, "layernorm_1", fine), "layernorm_2", fine)
            .when(!fine, |block| block.cache(attention.cache(Window::Full)))
            .plain_mlp("mlp", hidden, mul(hidden, 4), ["in_proj", "out_proj"], bias);
        let books = if fine { inner.int("n_codes_total", 8)? } else { 1 };
        let edge = (0..books.min(MAX_LAYERS))
            .fold(Block::new(), |block, index| block.embedding(&format!("input_embeds_layers.{index}"), Role::Embedding, input, hidden))
            .embedding("position_embeds_layer", Role::Position, inner.int("block_size", 1024)?, hidden);
        stack.restart(&format!("{name}.layers.{{i}}"), Part::Text);
        stack.once(name, norm(edge, "layernorm_final", fine));
        stack.layers(inner.layers("num_layers", 12)?, &layer);
        stack.once(name, Block::new().when(!fine, |block| block.linear("lm_head", Role::Head, output, hidden, false)));
        if fine && (input != output || inner.int("n_codes_given", 1)? != 1 || !inner.bool("tie_word_embeddings", true)?) {
            stack.inexact("which heads of the fine model share their words is not certain");
        }
    }
    let codec = c.section("codec_config");
    if codec.str("model_type").unwrap_or("encodec") == "encodec" {
        encodec_into(&mut stack, "codec_model", codec)?;
    } else {
        stack.inexact("a codec of another kind is not counted");
    }
    Ok(stack.done())
}
