//! Encoder-decoders near T5: longt5, switch_transformers; and t5gemma, two stacks of Gemma 2.

use super::Source;
use super::blocks::{Attention, Block, QkNorm, Window, join, mul};
use super::decoder::{Defaults, Dimensions, Parts, Stack};
use super::encoder::NO_HEAD;
use super::seq2seq::cross;
use super::seq2seq_more::head;
use crate::model::config::{Result, Section};
use crate::model::inventory::{Part, Role};

const T5: [&str; 4] = ["q", "k", "v", "o"];

/// longt5 and switch_transformers: T5 with attention to a neighbourhood, or with experts.
pub fn t5_kin(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let switch = source.model_type == "switch_transformers";
    let default = if switch {
        Defaults::of([32128, 768, 2048, 12, 12, 0, 64, 512], true)
    } else {
        Defaults::of([32128, 512, 2048, 6, 8, 0, 64, 512], true)
    };
    let mut d = Dimensions::read(c, &default)?;
    d.head_dim = c.int("d_kv|head_dim", 64)?;
    d.intermediate = c.int("d_ff", 2048)?;
    d.kv_heads = d.heads;
    d.layers = c.layers("num_layers|num_hidden_layers", default.layers)?;
    let decoder_layers = c.layers("num_decoder_layers", d.layers)?;
    let gated = !switch && c.bool("is_gated_act", c.str("feed_forward_proj").unwrap_or("relu").starts_with("gated"))?;
    let buckets = c.int("relative_attention_num_buckets", 32)?;
    let attention = d.attention();
    let experts = c.int("num_experts", 8)?;
    let bias = c.bool("router_bias", false)?;
    let step = |layers: u64, sparse: u64| layers.checked_div(sparse).unwrap_or(0);
    let steps = [
        c.int("encoder_sparse_step", step(d.layers, c.int("num_sparse_encoder_layers", 3)?))?,
        c.int("decoder_sparse_step", step(decoder_layers, c.int("num_sparse_decoder_layers", 3)?))?,
    ];
    let feed = |block: Block, index: u64, step: u64| {
        let block = block.norm("feed_forward.layer_norm", d.hidden);
        // The second layer of each step has the experts.
        let sparse = switch && step > 0 && (index % step == 1 || step == 1);
        let ups: &[&str] = if gated { &["wi_0", "wi_1"] } else { &["wi"] };
        if sparse {
            return block
                .linear("mlp.router.classifier", Role::Router, experts, d.hidden, bias)
                .expert_linear("mlp.experts.{e}.wi", d.intermediate, d.hidden, false, (experts, 1))
                .expert_linear("mlp.experts.{e}.wo", d.hidden, d.intermediate, false, (experts, 1));
        }
        ups.iter().fold(block, |block, name| block.linear(&join("mlp", name), Role::Mlp, d.intermediate, d.hidden, false)).linear(
            "mlp.wo",
            Role::Mlp,
            d.hidden,
            d.intermediate,
            false,
        )
    };
    let table = |block: Block, name: &str| block.embedding(name, Role::Position, buckets, d.heads);
    let own = |index: u64| {
        Block::new()
            .attention_named("SelfAttention", &attention, T5)
            .norm("layer_norm", d.hidden)
            .when(index == 0, |block| table(block, "relative_attention_bias"))
    };
    let transient = !switch && c.str("encoder_attention_type") == Some("transient-global");
    let mut stack = Stack::bare(d.clone(), NO_HEAD, "encoder.block.{i}", Part::Encoder);
    stack.once("shared", Block::new().embedding("", Role::Embedding, d.vocab, d.hidden));
    for index in 0..d.layers {
        let block = own(index).when(transient, |block| {
            block.norm("global_input_layer_norm", d.hidden).when(index == 0, |block| table(block, "global_relative_attention_bias"))
        });
        stack.layer(feed(block, index, steps[0]));
    }
    stack.once("encoder", Block::new().norm("final_layer_norm", d.hidden));
    let tied = c.bool("tie_word_embeddings", true)?;
    if !source.class.ends_with("EncoderModel") {
        stack.restart("decoder.block.{i}", Part::Decoder);
        for index in 0..decoder_layers {
            let block = own(index).cache(attention.cache(Window::Full));
            let block = cross(block, "EncDecAttention", &attention, T5).norm("cross.layer_norm", d.hidden);
            stack.layer(feed(block, index, steps[1]));
        }
        stack.once("decoder", Block::new().norm("final_layer_norm", d.hidden));
        let head = head(source, &d, tied)?;
        stack.once("", head);
    }
    if switch && !tied {
        stack.inexact("which embeddings this family keeps apart without a shared head is not known");
    }
    let mut parts = stack.done();
    parts.tied = tied;
    Ok(parts)
}

/// t5gemma: an encoder and a decoder in Gemma 2's form.
pub fn t5gemma(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let default = Defaults::of([256_000, 2304, 9216, 26, 8, 4, 256, 8192], true);
    let (encoder, decoder) = (c.section("encoder"), c.section("decoder"));
    let (e, d) = (Dimensions::read(encoder, &default)?, Dimensions::read(decoder, &default)?);
    let names = ["q_proj", "k_proj", "v_proj", "o_proj"];
    let attention = |c: Section<'_>, d: &Dimensions| -> Result<Attention> {
        let bias = c.bool("attention_bias", false)?;
        Ok(d.attention().biases(bias, bias).qk_norm(QkNorm::Off))
    };
    let layer = |block: Block, d: &Dimensions, a: &Attention| {
        ["pre_self_attn_layernorm", "post_self_attn_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm"]
            .iter()
            .fold(block, |block, name| block.norm(name, d.hidden))
            .attention_named("self_attn", a, names)
            .gated_mlp("mlp", d.hidden, d.intermediate, false)
    };
    let mut stack = Stack::bare(d.clone(), NO_HEAD, "model.encoder.layers.{i}", Part::Encoder);
    let edge = |d: &Dimensions| Block::new().embedding("embed_tokens", Role::Embedding, d.vocab, d.hidden).norm("norm", d.hidden);
    stack.once("model.encoder", edge(&e));
    stack.layers(e.layers, &layer(Block::new(), &e, &attention(encoder, &e)?));
    let own = attention(decoder, &d)?;
    stack.restart("model.decoder.layers.{i}", Part::Decoder);
    stack.once("model.decoder", edge(&d));
    let windows = super::decoder::windows(decoder, d.layers, Some(decoder.int("sliding_window", 4096)?), |index| index.is_multiple_of(2));
    // Cross-attention reads the width of the encoder.
    let seen = decoder.int("cross_attention_hidden_size", e.hidden)?;
    let bias = own.qkv_bias;
    let key = mul(d.kv_heads, d.head_dim);
    for window in windows {
        let block = layer(Block::new(), &d, &own)
            .cache(own.cache(window))
            .linear("cross_attn.q_proj", Role::CrossAttention, mul(d.heads, d.head_dim), d.hidden, bias)
            .linear("cross_attn.k_proj", Role::CrossAttention, key, seen, bias)
            .linear("cross_attn.v_proj", Role::CrossAttention, key, seen, bias)
            .linear("cross_attn.o_proj", Role::CrossAttention, d.hidden, mul(d.heads, d.head_dim), bias)
            .norm("pre_cross_attn_layernorm", d.hidden)
            .norm("post_cross_attn_layernorm", d.hidden)
            .cache(crate::model::kv_cache::Cache::Cross { width: mul(2, key) });
        stack.layer(block);
    }
    let tied = c.bool("tie_word_embeddings", true)?;
    let generates = !source.class.ends_with("Model");
    stack.once("", Block::new().when(generates && !tied, |block| block.linear("lm_head", Role::Head, d.vocab, d.hidden, false)));
    if source.class.ends_with("Classification") || source.class.ends_with("EncoderModel") || encoder.is_empty() || decoder.is_empty() {
        stack.inexact("the head or a part of this model is not described");
    }
    let mut parts = stack.done();
    parts.tied = tied;
    Ok(parts)
}
