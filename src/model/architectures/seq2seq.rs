//! Encoder-decoder models of text: the T5 family (t5, mt5, umt5) and the BART family (bart, mbart,
//! plbart, pegasus, marian, m2m_100, blenderbot, blenderbot-small).

use super::blocks::{Attention, Block, Window, join, mul};
use super::decoder::{Defaults, Dimensions, Parts, Stack};
use super::encoder::{Kind, NO_HEAD, kind};
use super::{Source, labels};
use crate::model::config::Result;
use crate::model::inventory::{Part, Role};
use crate::model::kv_cache::Cache;

/// t5, mt5, umt5: no biases, relative positions in a small table.
pub fn t5(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let multilingual = source.model_type != "t5";
    let vocab = if multilingual { 250_112 } else { 32128 };
    let mut d = Dimensions::read(c, &Defaults::of([vocab, 512, 2048, 6, 8, 0, 64, 512], true))?;
    d.layers = c.layers("num_layers|num_hidden_layers", if multilingual { 8 } else { 6 })?;
    d.heads = c.divisor("num_heads|num_attention_heads", if multilingual { 6 } else { 8 })?;
    d.head_dim = c.int("d_kv|head_dim", 64)?;
    d.intermediate = c.int("d_ff", if multilingual { 1024 } else { 2048 })?;
    d.kv_heads = d.heads;
    let decoder_layers = c.layers("num_decoder_layers", d.layers)?;
    let feed_forward = c.str("feed_forward_proj").unwrap_or(if multilingual { "gated-gelu" } else { "relu" });
    let gated = c.bool("is_gated_act", feed_forward.starts_with("gated"))?;
    let buckets = c.int("relative_attention_num_buckets", 32)?;
    // umt5 has a table in every layer, the others in the first.
    let every_layer = source.model_type == "umt5";
    let attention = d.attention();
    let feed = |block: Block, layer: &str| {
        let path = join(layer, "DenseReluDense");
        let block = if gated {
            block.linear(&join(&path, "wi_0"), Role::Mlp, d.intermediate, d.hidden, false).linear(
                &join(&path, "wi_1"),
                Role::Mlp,
                d.intermediate,
                d.hidden,
                false,
            )
        } else {
            block.linear(&join(&path, "wi"), Role::Mlp, d.intermediate, d.hidden, false)
        };
        block.linear(&join(&path, "wo"), Role::Mlp, d.hidden, d.intermediate, false).norm(&join(layer, "layer_norm"), d.hidden)
    };
    let own = |index: u64| {
        Block::new()
            .attention_named("layer.0.SelfAttention", &attention, ["q", "k", "v", "o"])
            .norm("layer.0.layer_norm", d.hidden)
            .when(every_layer || index == 0, |block| {
                block.embedding("layer.0.SelfAttention.relative_attention_bias", Role::Position, buckets, d.heads)
            })
    };
    let mut stack = Stack::bare(d.clone(), NO_HEAD, "encoder.block.{i}", Part::Encoder);
    stack.once("shared", Block::new().embedding("", Role::Embedding, d.vocab, d.hidden));
    for index in 0..d.layers {
        stack.layer(feed(own(index), "layer.1"));
    }
    stack.once("encoder", Block::new().norm("final_layer_norm", d.hidden));
    let encoder_only = source.class.ends_with("EncoderModel") || source.class.ends_with("ForTokenClassification");
    if !encoder_only {
        stack.restart("decoder.block.{i}", Part::Decoder);
        for index in 0..decoder_layers {
            let block = own(index).cache(attention.cache(Window::Full));
            let block = cross(block, "layer.1.EncDecAttention", &attention, ["q", "k", "v", "o"]).norm("layer.1.layer_norm", d.hidden);
            stack.layer(feed(block, "layer.2"));
        }
        stack.once("decoder", Block::new().norm("final_layer_norm", d.hidden));
    }
    let tied = c.bool("tie_word_embeddings", true)?;
    let head = match kind(source.class) {
        Some(Kind::Sequence) => Block::new().linear("classification_head.dense", Role::TaskHead, d.hidden, d.hidden, true).linear(
            "classification_head.out_proj",
            Role::TaskHead,
            labels(c)?,
            d.hidden,
            true,
        ),
        Some(Kind::Token) => Block::new().linear("classifier", Role::TaskHead, labels(c)?, d.hidden, true),
        Some(Kind::Question) => Block::new().linear("qa_outputs", Role::TaskHead, labels(c)?, d.hidden, true),
        _ if source.class.ends_with("Model") && !source.class.contains("LMHead") => Block::new(),
        _ if tied => Block::new(),
        _ => Block::new().linear("lm_head", Role::Head, d.vocab, d.hidden, false),
    };
    stack.once("", head);
    let mut parts = stack.done();
    parts.tied = tied;
    Ok(parts)
}

/// Cross-attention with its cache.
pub fn cross(block: Block, path: &str, a: &Attention, names: [&str; 4]) -> Block {
    let start = block.tensors.len();
    let mut block = block.attention_named(path, a, names);
    block.tensors.iter_mut().skip(start).for_each(|tensor| tensor.role = Role::CrossAttention);
    block.cache(Cache::Cross { width: mul(mul(2, a.kv_heads), a.head_dim) })
}

/// Where the families of the BART form differ.
struct Form {
    vocab: u64,
    hidden: u64,
    layers: [u64; 2],
    ffn: u64,
    heads: u64,
    positions: u64,
    /// Rows of a table of positions beyond `max_position_embeddings`; none: positions are computed.
    extra_rows: Option<u64>,
    /// Whether embeddings are normalised.
    embedding_norm: bool,
    /// Whether encoder and decoder end with a norm.
    last_norm: bool,
}

const BART: Form = Form {
    vocab: 50265,
    hidden: 1024,
    layers: [12, 12],
    ffn: 4096,
    heads: 16,
    positions: 1024,
    extra_rows: Some(2),
    embedding_norm: true,
    last_norm: false,
};

/// bart, mbart and relatives.
pub fn bart(source: &Source<'_>) -> Result<Parts> {
    let form = match source.model_type {
        "mbart" => Form { last_norm: true, ..BART },
        "mvp" => Form { vocab: 50267, ..BART },
        "plbart" => Form { vocab: 50005, hidden: 768, layers: [6, 6], ffn: 3072, heads: 12, ..BART },
        "pegasus" => Form { extra_rows: Some(0), embedding_norm: false, last_norm: true, ..BART },
        "marian" => Form { vocab: 58101, extra_rows: Some(0), embedding_norm: false, ..BART },
        "m2m_100" => Form { vocab: 128_112, extra_rows: None, embedding_norm: false, last_norm: true, ..BART },
        "blenderbot" => Form {
            vocab: 8008,
            hidden: 2560,
            layers: [2, 24],
            ffn: 10240,
            heads: 32,
            positions: 128,
            extra_rows: Some(0),
            embedding_norm: false,
            last_norm: true,
        },
        "blenderbot-small" => Form { hidden: 512, layers: [8, 8], ffn: 2048, positions: 512, extra_rows: Some(0), ..BART },
        _ => BART,
    };
    let c = source.root;
    let prompts = source.model_type == "mvp" && c.bool("use_prompt", false)?;
    let hidden = c.int("d_model|hidden_size", form.hidden)?;
    let encoder_layers = c.layers("encoder_layers|num_hidden_layers", form.layers[0])?;
    let decoder_layers = c.layers("decoder_layers", form.layers[1])?;
    let (encoder_width, decoder_width) = (c.int("encoder_ffn_dim", form.ffn)?, c.int("decoder_ffn_dim", form.ffn)?);
    let heads = c.divisor("decoder_attention_heads|num_attention_heads", form.heads)?;
    let d = Dimensions {
        hidden,
        layers: decoder_layers,
        heads,
        kv_heads: heads,
        head_dim: hidden / heads,
        intermediate: decoder_width,
        vocab: c.int("vocab_size", form.vocab)?,
        positions: c.int("max_position_embeddings", form.positions)?,
        ..Dimensions::default()
    };
    let attention = Attention::new(hidden, heads, heads, hidden / heads).biases(true, true);
    let names = ["q_proj", "k_proj", "v_proj", "out_proj"];
    let edge = |block: Block| {
        let block = match form.extra_rows {
            Some(rows) => block.embedding("embed_positions", Role::Position, d.positions.saturating_add(rows), hidden),
            None => block,
        };
        block
            .when(form.embedding_norm, |block| block.layer_norm("layernorm_embedding", hidden))
            .when(form.last_norm, |block| block.layer_norm("layer_norm", hidden))
    };
    let mut stack = Stack::bare(d.clone(), NO_HEAD, "model.encoder.layers.{i}", Part::Encoder);
    let kind = kind(source.class);
    let tied = c.bool("tie_word_embeddings", true)?;
    let marian = source.model_type == "marian";
    let decoder_vocab = if marian { c.int("decoder_vocab_size", d.vocab)? } else { d.vocab };
    // Untied, encoder and decoder have an embedding each beside the shared one. Marian may have two
    // vocabularies and then has no shared one.
    let shared = !marian || c.bool("share_encoder_decoder_embeddings", true)?;
    let table = |block: Block, rows: u64| block.embedding("embed_tokens", Role::Embedding, rows, hidden);
    if kind == Some(Kind::Causal) {
        stack.once("model.decoder", table(Block::new(), decoder_vocab));
    } else if shared {
        stack.once("model.shared", Block::new().embedding("", Role::Embedding, d.vocab, hidden));
    }
    let apart = kind != Some(Kind::Causal) && (!tied || !shared);
    if kind != Some(Kind::Causal) {
        stack.once("model.encoder", edge(Block::new()).when(apart, |block| table(block, d.vocab)));
        let layer = Block::new()
            .attention_named("self_attn", &Attention::new(hidden, 1, 1, hidden).biases(true, true), names)
            .layer_norm("self_attn_layer_norm", hidden)
            .plain_mlp("", hidden, encoder_width, ["fc1", "fc2"], true)
            .layer_norm("final_layer_norm", hidden);
        stack.layers(encoder_layers, &layer);
    }
    stack.restart("model.decoder.layers.{i}", Part::Decoder);
    stack.once("model.decoder", edge(Block::new()).when(apart, |block| table(block, decoder_vocab)));
    let layer = Block::new()
        .attention_named("self_attn", &attention, names)
        .cache(attention.cache(Window::Full))
        .layer_norm("self_attn_layer_norm", hidden);
    let layer = cross(layer, "encoder_attn", &attention, names)
        .layer_norm("encoder_attn_layer_norm", hidden)
        .plain_mlp("", hidden, decoder_width, ["fc1", "fc2"], true)
        .layer_norm("final_layer_norm", hidden);
    stack.layers(decoder_layers, &layer);
    let generates = matches!(kind, None | Some(Kind::Causal))
        || source.class.ends_with("ForConditionalGeneration")
        || source.class.ends_with("MTModel");
    let head = match kind {
        Some(Kind::Sequence) => Block::new().linear("classification_head.dense", Role::TaskHead, hidden, hidden, true).linear(
            "classification_head.out_proj",
            Role::TaskHead,
            bart_labels(source)?,
            hidden,
            true,
        ),
        Some(Kind::Question) => Block::new().linear("qa_outputs", Role::TaskHead, 2, hidden, true),
        _ if generates && !tied => Block::new().linear("lm_head", Role::Head, decoder_vocab, hidden, false),
        _ => Block::new(),
    };
    stack.once("", head);
    if prompts {
        stack.inexact("the prompts (`use_prompt`) are not counted");
    }
    let mut parts = stack.done();
    parts.tied = tied;
    Ok(parts)
}

/// BART counts three labels where the file says nothing.
fn bart_labels(source: &Source<'_>) -> Result<u64> {
    if source.root.has("id2label|num_labels") || source.model_type != "bart" {
        return labels(source.root);
    }
    Ok(3)
}
