//! Encoder-decoders further from BART: fsmt (two vocabularies), speech_to_text (convolutions in front).

use super::Source;
use super::blocks::Block;
use super::decoder::{Parts, Stack};
use super::encoder::NO_HEAD;
use super::seq2seq_more::{Bart, bart_sizes};
use crate::model::config::Result;
use crate::model::inventory::{Part, Role};

const NAMES: [&str; 4] = ["q_proj", "k_proj", "v_proj", "out_proj"];

/// fsmt: a vocabulary and a stored table of positions on each side, a head of its own.
pub fn fsmt(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let (mut d, layers, widths) = bart_sizes(c, [42024, 1024, 4096, 12, 16])?;
    let encoder_words = c.int("src_vocab_size", 42024)?;
    d.vocab = c.int("tgt_vocab_size", 42024)?;
    let rows = d.positions.saturating_add(c.int("pad_token_id", 1)?).saturating_add(1);
    let attention = d.attention().biases(true, true);
    let edge = |words: u64| {
        Block::new().embedding("embed_tokens", Role::Embedding, words, d.hidden).embedding(
            "embed_positions",
            Role::Position,
            rows,
            d.hidden,
        )
    };
    let mut stack = Stack::bare(d.clone(), NO_HEAD, "model.encoder.layers.{i}", Part::Encoder);
    stack.once("model.encoder", edge(encoder_words));
    let own = Block::new().attention_named("self_attn", &attention, NAMES);
    stack.layers(layers[0], &Bart { attention, width: widths[0], extra_norms: &[] }.encoder(own));
    stack.restart("model.decoder.layers.{i}", Part::Decoder);
    stack.once("model.decoder", edge(d.vocab).linear("output_projection", Role::Head, d.vocab, d.hidden, false));
    stack.layers(layers[1], &Bart { attention, width: widths[1], extra_norms: &[] }.decoder());
    if c.bool("tie_word_embeddings", false)? {
        stack.inexact("the file shares the head, which this family stores by itself");
    }
    Ok(stack.done())
}

/// speech_to_text: convolutions shorten the sound; positions are computed.
pub fn speech_to_text(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let (mut d, layers, widths) = bart_sizes(c, [10000, 256, 2048, 12, 4])?;
    let decoders = c.layers("decoder_layers", 6)?;
    d.layers = decoders;
    let attention = d.attention().biases(true, true);
    let kernels = c.ints("conv_kernel_sizes")?.unwrap_or_else(|| vec![5, 5]);
    let middle = c.int("conv_channels", 1024)?;
    let mut input = c.int("input_feat_per_channel", 80)?.saturating_mul(c.int("input_channels", 1)?);
    let mut front = Block::new();
    for (index, kernel) in kernels.iter().take(64).enumerate() {
        let out = if index + 1 < kernels.len() { middle } else { d.hidden.saturating_mul(2) };
        front = front.conv(&format!("conv.conv_layers.{index}"), Role::Conv, &[out, input, *kernel], true);
        input = middle / 2;
    }
    let mut stack = Stack::bare(d.clone(), NO_HEAD, "model.encoder.layers.{i}", Part::Encoder);
    stack.once("model.encoder", front.layer_norm("layer_norm", d.hidden));
    let own = Block::new().attention_named("self_attn", &attention, NAMES);
    stack.layers(layers[0], &Bart { attention, width: widths[0], extra_norms: &[] }.encoder(own));
    stack.restart("model.decoder.layers.{i}", Part::Decoder);
    stack.once(
        "model.decoder",
        Block::new().embedding("embed_tokens", Role::Embedding, d.vocab, d.hidden).layer_norm("layer_norm", d.hidden),
    );
    stack.layers(decoders, &Bart { attention, width: widths[1], extra_norms: &[] }.decoder());
    let tied = c.bool("tie_word_embeddings", true)?;
    let generates = source.class.ends_with("ForConditionalGeneration");
    stack.once("", Block::new().when(generates && !tied, |block| block.linear("lm_head", Role::Head, d.vocab, d.hidden, false)));
    let mut parts = stack.done();
    parts.tied = tied;
    Ok(parts)
}
