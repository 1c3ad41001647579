//! Further text encoders: modernbert, longformer, big_bird, layoutlm, nomic_bert, gte, eurobert,
//! roberta-prelayernorm, xlm-roberta-xl, rembert, roformer, xlnet.

use super::blocks::{Attention, Block, Norm, mul};
use super::decoder::{Defaults, Dimensions, Parts, Stack};
use super::encoder::{Kind, NO_HEAD, finish, kind, lm_head, task_head};
use super::{Source, labels};
use crate::model::config::Result;
use crate::model::inventory::{Part, Role};

/// modernbert: gated feed-forward layers, norms without bias, none before the first attention.
pub fn modernbert(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let d = Dimensions::read(c, &Defaults::of([50368, 768, 1152, 22, 12, 0, 0, 8192], true))?;
    let named = kind(source.class);
    let kind = named.unwrap_or(Kind::MaskedLm);
    let norm = if c.bool("norm_bias", false)? { Norm::WeightBias } else { Norm::Weight };
    let (attention_bias, mlp_bias) = (c.bool("attention_bias", false)?, c.bool("mlp_bias", false)?);
    let mut stack = Stack::bare(d.clone(), NO_HEAD, "layers.{i}", Part::Text);
    stack.once("embeddings", Block::new().embedding("tok_embeddings", Role::Embedding, d.vocab, d.hidden).norm_of(norm, "norm", d.hidden));
    for index in 0..d.layers {
        stack.layer(
            Block::new()
                .when(index > 0, |block| block.norm_of(norm, "attn_norm", d.hidden))
                .linear("attn.Wqkv", Role::Attention, mul(d.hidden, 3), d.hidden, attention_bias)
                .linear("attn.Wo", Role::Attention, d.hidden, d.hidden, attention_bias)
                .norm_of(norm, "mlp_norm", d.hidden)
                .fused_gated_mlp("mlp", d.hidden, d.intermediate, ["Wi", "Wo"], mlp_bias),
        );
    }
    stack.once("", Block::new().norm_of(norm, "final_norm", d.hidden));
    let tied = c.bool("tie_word_embeddings", true)?;
    if kind != Kind::Base {
        stack.once(
            "",
            Block::new().linear("head.dense", Role::TaskHead, d.hidden, d.hidden, c.bool("classifier_bias", false)?).norm_of(
                norm,
                "head.norm",
                d.hidden,
            ),
        );
    }
    let decoder_bias = c.bool("decoder_bias", true)?;
    let head = match kind {
        Kind::MaskedLm => Block::new()
            .when(!tied, |block| block.linear("decoder", Role::Head, d.vocab, d.hidden, false))
            .when(decoder_bias, |block| block.param("decoder.bias", Role::Head, &[d.vocab])),
        _ => task_head(c, kind, d.hidden, false)?,
    };
    stack.once("", head);
    finish(stack, named, tied && kind == Kind::MaskedLm)
}

const BERT: Defaults = Defaults::of([30522, 768, 3072, 12, 12, 0, 0, 512], true);

/// What the encoders below are made of.
struct Plan {
    dimensions: Dimensions,
    embedding: Block,
    layer: Block,
    /// After the last layer.
    last: Block,
    pooler: fn(Kind) -> bool,
    /// Whether the classifier of texts has a hidden layer.
    deep_classifier: bool,
}

fn assemble(source: &Source<'_>, plan: Plan) -> Result<Parts> {
    let c = source.root;
    let named = kind(source.class);
    let kind = named.unwrap_or(Kind::MaskedLm);
    let hidden = plan.dimensions.hidden;
    let (layers, vocab) = (plan.dimensions.layers, plan.dimensions.vocab);
    let mut stack = Stack::bare(plan.dimensions, NO_HEAD, "encoder.layer.{i}", Part::Text);
    stack.once("embeddings", plan.embedding);
    stack.layers(layers, &plan.layer);
    stack.once("encoder", plan.last);
    if (plan.pooler)(kind) {
        stack.once("", Block::new().linear("pooler.dense", Role::TaskHead, hidden, hidden, true));
    }
    let tied = c.bool("tie_word_embeddings", true)?;
    let head = match kind {
        Kind::MaskedLm | Kind::Causal | Kind::PreTraining => lm_head(hidden, hidden, vocab, tied),
        _ => task_head(c, kind, hidden, plan.deep_classifier)?,
    };
    let head = head.when(kind == Kind::PreTraining, |block| block.linear("cls.seq_relationship", Role::TaskHead, 2, hidden, true));
    stack.once("", head);
    finish(stack, named, tied && matches!(kind, Kind::MaskedLm | Kind::Causal | Kind::PreTraining))
}

/// Words, positions and token types, without a norm.
fn tables(source: &Source<'_>, d: &Dimensions, types: u64) -> Result<Block> {
    Ok(Block::new()
        .embedding("word_embeddings", Role::Embedding, d.vocab, d.hidden)
        .embedding("position_embeddings", Role::Position, d.positions, d.hidden)
        .embedding("token_type_embeddings", Role::Position, source.root.int("type_vocab_size", types)?, d.hidden))
}

/// longformer: a second set of projections for global attention.
pub fn longformer(source: &Source<'_>) -> Result<Parts> {
    let d = Dimensions::read(source.root, &BERT)?;
    let layer =
        ["query_global", "key_global", "value_global"].iter().fold(Block::new().encoder_layer(d.hidden, d.intermediate), |block, name| {
            block.linear(&format!("attention.{name}"), Role::Attention, d.hidden, d.hidden, true)
        });
    let embedding = tables(source, &d, 2)?.layer_norm("LayerNorm", d.hidden);
    assemble(
        source,
        Plan {
            embedding,
            layer,
            last: Block::new(),
            pooler: |kind| matches!(kind, Kind::Base | Kind::Choice),
            deep_classifier: true,
            dimensions: d,
        },
    )
}

/// big_bird.
pub fn big_bird(source: &Source<'_>) -> Result<Parts> {
    let d = Dimensions::read(source.root, &Defaults::of([50358, 768, 3072, 12, 12, 0, 0, 4096], true))?;
    let bias = source.root.bool("use_bias", true)?;
    let attention = Attention::new(d.hidden, 1, 1, d.hidden).biases(bias, true);
    let layer = Block::new()
        .attention_named("attention", &attention, ["query", "key", "value", "output"])
        .layer_norm("attention_norm", d.hidden)
        .plain_mlp("mlp", d.hidden, d.intermediate, ["fc1", "fc2"], true)
        .layer_norm("mlp_norm", d.hidden);
    let embedding = tables(source, &d, 2)?.layer_norm("LayerNorm", d.hidden);
    let question = kind(source.class) == Some(Kind::Question);
    let last = Block::new().when(question, |block| {
        block
            .plain_mlp("qa_classifier", d.hidden, d.intermediate, ["intermediate", "output"], true)
            .layer_norm("qa_classifier.output.LayerNorm", d.hidden)
    });
    assemble(source, Plan { embedding, layer, last, pooler: |kind| kind != Kind::Question, deep_classifier: true, dimensions: d })
}

/// layoutlm: tables for the place on the page.
pub fn layoutlm(source: &Source<'_>) -> Result<Parts> {
    let d = Dimensions::read(source.root, &BERT)?;
    let rows = source.root.int("max_2d_position_embeddings", 1024)?;
    let embedding = ["x", "y", "h", "w"]
        .iter()
        .fold(tables(source, &d, 2)?, |block, name| block.embedding(&format!("{name}_position_embeddings"), Role::Position, rows, d.hidden))
        .layer_norm("LayerNorm", d.hidden);
    let layer = Block::new().encoder_layer(d.hidden, d.intermediate);
    assemble(source, Plan { embedding, layer, last: Block::new(), pooler: |_| true, deep_classifier: false, dimensions: d })
}

/// nomic_bert: rotary positions, a gated feed-forward layer, no biases but those of the norms.
pub fn nomic(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let mut d = Dimensions::read(c, &Defaults::of([30528, 768, 3072, 12, 12, 0, 0, 2048], true))?;
    d.head_dim = c.int("head_dim", d.hidden / d.heads)?;
    let attention = Attention {
        qkv_bias: c.bool("qkv_proj_bias", false)?,
        out_bias: c.bool("qkv_proj_bias", false)?,
        ..Attention::new(d.hidden, d.heads, d.heads, d.head_dim)
    };
    let layer = Block::new()
        .attention_named("self_attn", &attention, ["q_proj", "k_proj", "v_proj", "o_proj"])
        .layer_norm("post_attention_layernorm", d.hidden)
        .gated_mlp("mlp", d.hidden, d.intermediate, c.bool("mlp_fc1_bias", false)?)
        .layer_norm("post_mlp_layernorm", d.hidden);
    let embedding = Block::new()
        .embedding("word_embeddings", Role::Embedding, d.vocab, d.hidden)
        .embedding("token_type_embeddings", Role::Position, c.int("type_vocab_size", 2)?, d.hidden)
        .layer_norm("LayerNorm", d.hidden);
    let mut parts =
        assemble(source, Plan { embedding, layer, last: Block::new(), pooler: |_| false, deep_classifier: true, dimensions: d })?;
    if c.int("num_experts", 0)? > 0 {
        parts.inexact = Some("the experts of this version are not known".to_owned());
    }
    Ok(parts)
}

/// eurobert: Llama without a mask.
pub fn eurobert(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let d = Dimensions::read(c, &Defaults::of([128_256, 768, 3072, 12, 12, 0, 0, 8192], false))?;
    let named = kind(source.class);
    let kind = named.unwrap_or(Kind::MaskedLm);
    let (bias, mlp_bias) = (c.bool("attention_bias", false)?, c.bool("mlp_bias", false)?);
    let mut stack = Stack::bare(d.clone(), NO_HEAD, "model.layers.{i}", Part::Text);
    stack.once("model", Block::new().embedding("embed_tokens", Role::Embedding, d.vocab, d.hidden));
    let layer = Block::new()
        .attention_named("self_attn", &d.attention().biases(bias, bias), ["q_proj", "k_proj", "v_proj", "o_proj"])
        .gated_mlp("mlp", d.hidden, d.intermediate, mlp_bias)
        .norm("input_layernorm", d.hidden)
        .norm("post_attention_layernorm", d.hidden);
    stack.layers(d.layers, &layer);
    stack.once("model", Block::new().norm("norm", d.hidden));
    let tied = c.bool("tie_word_embeddings", false)?;
    let head = match kind {
        Kind::MaskedLm if tied => Block::new(),
        Kind::MaskedLm => Block::new().linear("lm_head", Role::Head, d.vocab, d.hidden, false),
        Kind::Sequence => Block::new().linear("dense", Role::TaskHead, d.hidden, d.hidden, true).linear(
            "classifier",
            Role::TaskHead,
            labels(c)?,
            d.hidden,
            true,
        ),
        _ => task_head(c, kind, d.hidden, false)?,
    };
    stack.once("", head);
    finish(stack, named, tied)
}

/// roberta-prelayernorm: norms before the sub-layers, one more at the end.
pub fn roberta_prelayernorm(source: &Source<'_>) -> Result<Parts> {
    let d = Dimensions::read(source.root, &Defaults { vocab: 50265, ..BERT })?;
    let embedding = tables(source, &d, 2)?.layer_norm("LayerNorm", d.hidden);
    let (layer, last) = (Block::new().encoder_layer(d.hidden, d.intermediate), Block::new().layer_norm("LayerNorm", d.hidden));
    assemble(
        source,
        Plan { embedding, layer, last, pooler: |kind| matches!(kind, Kind::Base | Kind::Choice), deep_classifier: true, dimensions: d },
    )
}

/// xlm-roberta-xl: no norm of the embedding, one after the last layer.
pub fn xlm_roberta_xl(source: &Source<'_>) -> Result<Parts> {
    let d = Dimensions::read(source.root, &Defaults::of([250_880, 2560, 10240, 36, 32, 0, 0, 514], true))?;
    let embedding = tables(source, &d, 1)?;
    let (layer, last) = (Block::new().encoder_layer(d.hidden, d.intermediate), Block::new().layer_norm("LayerNorm", d.hidden));
    assemble(
        source,
        Plan { embedding, layer, last, pooler: |kind| matches!(kind, Kind::Base | Kind::Choice), deep_classifier: true, dimensions: d },
    )
}

/// xlnet: relative attention with biases of its own, two streams of one set of weights.
pub fn xlnet(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let mut d = Dimensions::read(c, &Defaults::of([32000, 1024, 4096, 24, 16, 0, 0, 0], true))?;
    d.head_dim = c.int("d_head", d.hidden / d.heads)?;
    d.intermediate = c.int("d_inner", 4096)?;
    let wide = mul(d.heads, d.head_dim);
    let mut layer = ["q", "k", "v", "o", "r"]
        .iter()
        .fold(Block::new(), |block, name| block.linear(&format!("rel_attn.{name}"), Role::Attention, wide, d.hidden, false));
    for name in ["r_r_bias", "r_s_bias", "r_w_bias"] {
        layer = layer.param(&format!("rel_attn.{name}"), Role::Attention, &[d.heads, d.head_dim]);
    }
    layer = layer
        .param("rel_attn.seg_embed", Role::Position, &[2, d.heads, d.head_dim])
        .layer_norm("rel_attn.layer_norm", d.hidden)
        .plain_mlp("ff", d.hidden, d.intermediate, ["layer_1", "layer_2"], true)
        .layer_norm("ff.layer_norm", d.hidden);
    let named = kind(source.class);
    let kind = named.unwrap_or(Kind::Causal);
    let mut stack = Stack::bare(d.clone(), NO_HEAD, "transformer.layer.{i}", Part::Text);
    let embedding =
        Block::new().embedding("word_embedding", Role::Embedding, d.vocab, d.hidden).param("mask_emb", Role::Position, &[1, 1, d.hidden]);
    stack.once("transformer", embedding);
    stack.layers(d.layers, &layer);
    let tied = c.bool("tie_word_embeddings", true)?;
    let summary = matches!(kind, Kind::Sequence | Kind::Choice) && c.bool("summary_use_proj", true)?;
    let head = match kind {
        Kind::Causal | Kind::MaskedLm => Block::new()
            .when(!tied, |block| block.linear("lm_loss", Role::Head, d.vocab, d.hidden, false))
            .param("lm_loss.bias", Role::Head, &[d.vocab]),
        _ => task_head(c, kind, d.hidden, false)?
            .when(summary, |block| block.linear("sequence_summary.summary", Role::TaskHead, d.hidden, d.hidden, true)),
    };
    stack.once("", head);
    if kind == Kind::Question {
        stack.inexact("the heads of this class are not known");
    }
    finish(stack, named, tied)
}
