//! Further encoder-decoders of BART's kind: led, nllb-moe, bigbird_pegasus, pegasus_x, prophetnet, trocr.

use super::Source;
use super::blocks::{Attention, Block, Window, mul};
use super::decoder::{Dimensions, Parts, Stack};
use super::encoder::{Kind, NO_HEAD, kind};
use super::labels;
use super::seq2seq::cross;
use crate::model::config::{Result, Section};
use crate::model::inventory::{Part, Role};

const NAMES: [&str; 4] = ["q_proj", "k_proj", "v_proj", "out_proj"];

/// The head of a task on a decoder, for classes that the families share.
pub(super) fn head(source: &Source<'_>, d: &Dimensions, tied: bool) -> Result<Block> {
    let hidden = d.hidden;
    Ok(match kind(source.class) {
        Some(Kind::Sequence) => Block::new().linear("classification_head.dense", Role::TaskHead, hidden, hidden, true).linear(
            "classification_head.out_proj",
            Role::TaskHead,
            labels(source.root)?,
            hidden,
            true,
        ),
        Some(Kind::Question) => Block::new().linear("qa_outputs", Role::TaskHead, 2, hidden, true),
        _ if source.class.ends_with("Model") || source.class.ends_with("Encoder") || tied => Block::new(),
        _ => Block::new().linear("lm_head", Role::Head, d.vocab, hidden, false),
    })
}

/// Layers in BART's form.
pub(super) struct Bart {
    /// Attention of all layers.
    pub attention: Attention,
    /// Width of the feed-forward part.
    pub width: u64,
    /// Norms of the hidden width in an encoder layer beside the usual two.
    pub extra_norms: &'static [&'static str],
}

impl Bart {
    /// The rest of an encoder layer behind its attention.
    pub(super) fn encoder(&self, block: Block) -> Block {
        let hidden = self.attention.hidden;
        let block = self.extra_norms.iter().fold(block, |block, name| block.layer_norm(name, hidden));
        block
            .layer_norm("self_attn_layer_norm", hidden)
            .plain_mlp("", hidden, self.width, ["fc1", "fc2"], true)
            .layer_norm("final_layer_norm", hidden)
    }

    /// A decoder layer.
    pub(super) fn decoder(&self) -> Block {
        let hidden = self.attention.hidden;
        let block = Block::new()
            .attention_named("self_attn", &self.attention, NAMES)
            .cache(self.attention.cache(Window::Full))
            .layer_norm("self_attn_layer_norm", hidden);
        cross(block, "encoder_attn", &self.attention, NAMES)
            .layer_norm("encoder_attn_layer_norm", hidden)
            .plain_mlp("", hidden, self.width, ["fc1", "fc2"], true)
            .layer_norm("final_layer_norm", hidden)
    }
}

/// The sizes of BART's keys.
pub(super) fn bart_sizes(c: Section<'_>, [vocab, hidden, width, layers, heads]: [u64; 5]) -> Result<(Dimensions, [u64; 2], [u64; 2])> {
    let hidden = c.int("d_model|hidden_size", hidden)?;
    let heads = c.divisor("decoder_attention_heads|num_attention_heads", heads)?;
    let layers = [c.layers("encoder_layers|num_hidden_layers", layers)?, c.layers("decoder_layers", layers)?];
    let widths = [c.int("encoder_ffn_dim", width)?, c.int("decoder_ffn_dim", width)?];
    let d = Dimensions {
        hidden,
        layers: layers[1],
        heads,
        kv_heads: heads,
        head_dim: hidden / heads,
        intermediate: widths[1],
        vocab: c.int("vocab_size", vocab)?,
        positions: c.int("max_position_embeddings", 1024)?,
        ..Dimensions::default()
    };
    Ok((d, layers, widths))
}

/// Untied, encoder and decoder have an embedding each beside the shared one.
fn tables(stack: &mut Stack, d: &Dimensions, tied: bool) {
    stack.once("model.shared", Block::new().embedding("", Role::Embedding, d.vocab, d.hidden));
    if !tied {
        for side in ["model.encoder", "model.decoder"] {
            stack.once(side, Block::new().embedding("embed_tokens", Role::Embedding, d.vocab, d.hidden));
        }
    }
}

/// led: BART with the attention of Longformer in its encoder.
pub fn led(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let (d, layers, widths) = bart_sizes(c, [50265, 1024, 4096, 12, 16])?;
    let attention = d.attention().biases(true, true);
    let tied = c.bool("tie_word_embeddings", true)?;
    let edge =
        |rows: u64| Block::new().embedding("embed_positions", Role::Position, rows, d.hidden).layer_norm("layernorm_embedding", d.hidden);
    let mut stack = Stack::bare(d.clone(), NO_HEAD, "led.encoder.layers.{i}", Part::Encoder);
    tables(&mut stack, &d, tied);
    stack.once("led.encoder", edge(c.int("max_encoder_position_embeddings", 16384)?));
    let square = |block: Block, name: &str| block.linear(&format!("self_attn.{name}"), Role::Attention, d.hidden, d.hidden, true);
    let own = ["query", "key", "value", "query_global", "key_global", "value_global", "output"]
        .iter()
        .fold(Block::new(), |b, name| square(b, name));
    stack.layers(layers[0], &Bart { attention, width: widths[0], extra_norms: &[] }.encoder(own));
    stack.restart("led.decoder.layers.{i}", Part::Decoder);
    stack.once("led.decoder", edge(c.int("max_decoder_position_embeddings", 1024)?));
    stack.layers(layers[1], &Bart { attention, width: widths[1], extra_norms: &[] }.decoder());
    let head = head(source, &d, tied)?;
    stack.once("", head);
    let mut parts = stack.done();
    parts.tied = tied;
    Ok(parts)
}

/// bigbird_pegasus and pegasus_x: long texts, attention without biases.
pub fn pegasus_long(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let global = source.model_type == "pegasus_x";
    let (d, layers, widths) = bart_sizes(c, [96103, 1024, 4096, 16, 16])?;
    let bias = !global && c.bool("use_bias", false)?;
    let attention = d.attention().biases(bias, bias);
    let tied = c.bool("tie_word_embeddings", true)?;
    let positions = c.int("max_position_embeddings", 4096)?;
    let edge = |block: Block| {
        if global {
            block.layer_norm("layer_norm", d.hidden)
        } else {
            block.embedding("embed_positions", Role::Position, positions, d.hidden).layer_norm("layernorm_embedding", d.hidden)
        }
    };
    let causal = kind(source.class) == Some(Kind::Causal);
    let mut stack = Stack::bare(d.clone(), NO_HEAD, "model.encoder.layers.{i}", Part::Encoder);
    if causal {
        stack.once("model.decoder", Block::new().embedding("embed_tokens", Role::Embedding, d.vocab, d.hidden));
        // This class does not share its head.
        stack.once("", Block::new().linear("lm_head", Role::Head, d.vocab, d.hidden, false));
    } else {
        tables(&mut stack, &d, tied);
        let globals = c.int("num_global_tokens", 32)?;
        let table = |block: Block| block.embedding("embed_global", Role::Position, globals, d.hidden);
        stack.once("model.encoder", edge(Block::new()).when(global, table));
        let own = Block::new().attention_named("self_attn", &attention, NAMES);
        let extra_norms: &[&str] = if global { &["global_self_attn_layer_norm"] } else { &[] };
        stack.layers(layers[0], &Bart { attention, width: widths[0], extra_norms }.encoder(own));
    }
    stack.restart("model.decoder.layers.{i}", Part::Decoder);
    stack.once("model.decoder", edge(Block::new()));
    stack.layers(layers[1], &Bart { attention, width: widths[1], extra_norms: &[] }.decoder());
    let head = if causal { Block::new() } else { head(source, &d, tied)? };
    stack.once("", head);
    let mut parts = stack.done();
    parts.tied = tied && !causal;
    Ok(parts)
}

/// nllb-moe: M2M-100 with experts in every n-th layer.
pub fn nllb_moe(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let (d, layers, widths) = bart_sizes(c, [128_112, 1024, 4096, 12, 16])?;
    let attention = d.attention().biases(true, true);
    let tied = c.bool("tie_word_embeddings", true)?;
    let experts = c.int("num_experts", 128)?;
    let bias = c.bool("router_bias", false)?;
    let steps = [c.int("encoder_sparse_step", 4)?, c.int("decoder_sparse_step", 4)?];
    let feed = |block: Block, index: u64, step: u64, width: u64| {
        let block = block.layer_norm("ff_layer_norm", d.hidden);
        if step > 0 && (index + 1).is_multiple_of(step) {
            block
                .linear("ffn.router.classifier", Role::Router, experts, d.hidden, bias)
                .expert_linear("ffn.experts.{e}.fc1", width, d.hidden, true, (experts, 2))
                .expert_linear("ffn.experts.{e}.fc2", d.hidden, width, true, (experts, 2))
        } else {
            block.plain_mlp("ffn", d.hidden, width, ["fc1", "fc2"], true)
        }
    };
    let mut stack = Stack::bare(d.clone(), NO_HEAD, "model.encoder.layers.{i}", Part::Encoder);
    tables(&mut stack, &d, tied);
    stack.once("model.encoder", Block::new().layer_norm("layer_norm", d.hidden));
    for index in 0..layers[0] {
        let own = Block::new().attention_named("self_attn", &attention, NAMES).layer_norm("self_attn_layer_norm", d.hidden);
        stack.layer(feed(own, index, steps[0], widths[0]));
    }
    stack.restart("model.decoder.layers.{i}", Part::Decoder);
    stack.once("model.decoder", Block::new().layer_norm("layer_norm", d.hidden));
    for index in 0..layers[1] {
        let own = Block::new()
            .attention_named("self_attn", &attention, NAMES)
            .cache(attention.cache(Window::Full))
            .layer_norm("self_attn_layer_norm", d.hidden);
        let own = cross(own, "cross_attention", &attention, NAMES).layer_norm("cross_attention_layer_norm", d.hidden);
        stack.layer(feed(own, index, steps[1], widths[1]));
    }
    let head = head(source, &d, tied)?;
    stack.once("", head);
    stack.dimensions().experts = experts;
    let mut parts = stack.done();
    parts.tied = tied;
    Ok(parts)
}

/// prophetnet: several streams of predictions, positions relative in every layer of the decoder.
pub fn prophetnet(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let hidden = c.int("hidden_size", 1024)?;
    let (encoder_heads, heads) = (c.divisor("num_encoder_attention_heads", 16)?, c.divisor("num_decoder_attention_heads", 16)?);
    let d = Dimensions {
        hidden,
        layers: c.layers("num_decoder_layers", 12)?,
        heads,
        kv_heads: heads,
        head_dim: hidden / heads,
        intermediate: c.int("decoder_ffn_dim", 4096)?,
        vocab: c.int("vocab_size", 30522)?,
        positions: c.int("max_position_embeddings", 512)?,
        ..Dimensions::default()
    };
    let buckets = c.int("num_buckets", 32)?;
    let names = ["query_proj", "key_proj", "value_proj", "out_proj"];
    let attention = d.attention().biases(true, true);
    let edge =
        Block::new().embedding("position_embeddings", Role::Position, d.positions, hidden).layer_norm("embeddings_layer_norm", hidden);
    let feed = |block: Block, width: u64| {
        block.plain_mlp("feed_forward", hidden, width, ["intermediate", "output"], true).layer_norm("feed_forward_layer_norm", hidden)
    };
    let tied = c.bool("tie_word_embeddings", true)?;
    let causal = kind(source.class) == Some(Kind::Causal);
    let mut stack = Stack::bare(d.clone(), NO_HEAD, "prophetnet.encoder.layers.{i}", Part::Encoder);
    stack.once("prophetnet", Block::new().embedding("word_embeddings", Role::Embedding, d.vocab, hidden));
    if !causal {
        let own = Attention::new(hidden, encoder_heads, encoder_heads, hidden / encoder_heads).biases(true, true);
        stack.once("prophetnet.encoder", edge.clone());
        let layer = Block::new().attention_named("self_attn", &own, names).layer_norm("self_attn_layer_norm", hidden);
        stack.layers(c.layers("num_encoder_layers", 12)?, &feed(layer, c.int("encoder_ffn_dim", 4096)?));
    }
    stack.restart("prophetnet.decoder.layers.{i}", Part::Decoder);
    stack.once("prophetnet.decoder", edge.embedding("ngram_embeddings", Role::Position, c.int("ngram", 2)?, hidden));
    let layer = Block::new()
        .attention_named("self_attn", &attention, names)
        .cache(attention.cache(Window::Full))
        .linear("self_attn.relative_pos_embeddings", Role::Attention, mul(buckets, heads), hidden, true)
        .layer_norm("self_attn_layer_norm", hidden);
    let layer = cross(layer, "cross_attn", &attention, names).layer_norm("cross_attn_layer_norm", hidden);
    stack.layers(d.layers, &feed(layer, d.intermediate));
    let head = head(source, &d, tied)?;
    stack.once("", head);
    if !tied {
        stack.inexact("which embeddings this family keeps apart without a shared head is not known");
    }
    let mut parts = stack.done();
    parts.tied = tied;
    Ok(parts)
}

/// trocr: the decoder of BART that reads the output of another model.
pub fn trocr(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let (mut d, _, _) = bart_sizes(c, [50265, 1024, 4096, 12, 16])?;
    d.positions = c.int("max_position_embeddings", 512)?;
    let attention = d.attention().biases(true, true);
    let seen = c.int("cross_attention_hidden_size|encoder_hidden_size", d.hidden)?;
    let learned = c.bool("use_learned_position_embeddings", true)?;
    let normed = c.bool("layernorm_embedding", true)?;
    let mut stack = Stack::bare(d.clone(), NO_HEAD, "model.decoder.layers.{i}", Part::Decoder);
    let edge = Block::new()
        .embedding("embed_tokens", Role::Embedding, d.vocab, d.hidden)
        .when(learned, |block| block.embedding("embed_positions", Role::Position, d.positions.saturating_add(2), d.hidden))
        .when(normed, |block| block.layer_norm("layernorm_embedding", d.hidden));
    stack.once("model.decoder", edge);
    let mut layer = Bart { attention, width: d.intermediate, extra_norms: &[] }.decoder();
    for tensor in &mut layer.tensors {
        if matches!(tensor.path.as_str(), "encoder_attn.k_proj" | "encoder_attn.v_proj") && tensor.parameter == "weight" {
            tensor.shape = vec![d.hidden, seen];
        }
    }
    stack.layers(d.layers, &layer);
    let tied = c.bool("tie_word_embeddings", true)?;
    stack.once("", Block::new().when(!tied, |block| block.linear("output_projection", Role::Head, d.vocab, d.hidden, false)));
    let mut parts = stack.done();
    parts.tied = tied;
    Ok(parts)
}
