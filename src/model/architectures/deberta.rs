//! Encoders with disentangled attention: deberta, deberta-v2 (and v3).

use super::Source;
use super::blocks::{Attention, Block, mul};
use super::decoder::{Defaults, Dimensions, Parts, Stack};
use super::encoder::{Kind, NO_HEAD, finish, kind, lm_head, task_head};
use crate::model::config::{Result, Section};
use crate::model::inventory::{Part, Role};

/// Which projections of positions disentangled attention has.
fn position_kinds(c: Section<'_>) -> (bool, bool) {
    let kinds = c.strings("pos_att_type").join("|");
    (kinds.contains("c2p"), kinds.contains("p2c"))
}

/// deberta: fused projections with biases of queries and values only, projections of positions.
pub fn deberta(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let d = Dimensions::read(c, &Defaults::of([50265, 768, 3072, 12, 12, 0, 0, 512], true))?;
    let relative = c.bool("relative_attention", false)?;
    let (to_position, from_position) = position_kinds(c);
    let talking = c.bool("talking_head", false)?;
    let layer = Block::new()
        .linear("attention.self.in_proj", Role::Attention, mul(d.hidden, 3), d.hidden, false)
        .param("attention.self.q_bias", Role::Attention, &[d.hidden])
        .param("attention.self.v_bias", Role::Attention, &[d.hidden])
        .when(talking, |block| {
            block.linear("attention.self.head_logits_proj", Role::Attention, d.heads, d.heads, false).linear(
                "attention.self.head_weights_proj",
                Role::Attention,
                d.heads,
                d.heads,
                false,
            )
        })
        .when(relative && to_position, |block| block.linear("attention.self.pos_proj", Role::Attention, d.hidden, d.hidden, false))
        .when(relative && from_position, |block| block.linear("attention.self.pos_q_proj", Role::Attention, d.hidden, d.hidden, true))
        .linear("attention.output.dense", Role::Attention, d.hidden, d.hidden, true)
        .layer_norm("attention.output.LayerNorm", d.hidden)
        .plain_mlp("", d.hidden, d.intermediate, ["intermediate.dense", "output.dense"], true)
        .layer_norm("output.LayerNorm", d.hidden);
    let rows = relative_rows(c, d.positions, 0)?;
    let extra = Block::new().when(relative, |block| block.embedding("rel_embeddings", Role::Position, rows, d.hidden));
    disentangled(source, d, &layer, extra)
}

/// deberta-v2 (and v3): separate projections, shared with those of positions by `share_att_key`.
pub fn deberta_v2(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let d = Dimensions::read(c, &Defaults::of([128_100, 1536, 6144, 24, 24, 0, 0, 512], true))?;
    let relative = c.bool("relative_attention", false)? && !c.bool("share_att_key", false)?;
    let (to_position, from_position) = position_kinds(c);
    let attention = Attention::new(d.hidden, 1, 1, d.hidden).biases(true, true);
    let layer = Block::new()
        .attention_named("attention", &attention, ["self.query_proj", "self.key_proj", "self.value_proj", "output.dense"])
        .when(relative && to_position, |block| block.linear("attention.self.pos_key_proj", Role::Attention, d.hidden, d.hidden, true))
        .when(relative && from_position, |block| block.linear("attention.self.pos_query_proj", Role::Attention, d.hidden, d.hidden, true))
        .layer_norm("attention.output.LayerNorm", d.hidden)
        .plain_mlp("", d.hidden, d.intermediate, ["intermediate.dense", "output.dense"], true)
        .layer_norm("output.LayerNorm", d.hidden);
    let buckets = c.int("position_buckets", 0).unwrap_or(0);
    let rows = relative_rows(c, d.positions, buckets)?;
    let normed = c.str("norm_rel_ebd").is_some_and(|kinds| kinds.contains("layer_norm"));
    let kernel = c.int("conv_kernel_size", 0)?;
    let extra = Block::new()
        .when(c.bool("relative_attention", false)?, |block| block.embedding("rel_embeddings", Role::Position, rows, d.hidden))
        .when(normed, |block| block.layer_norm("LayerNorm", d.hidden))
        .when(kernel > 0, |block| {
            block.conv("conv.conv", Role::Conv, &[d.hidden, d.hidden, kernel], true).layer_norm("conv.LayerNorm", d.hidden)
        });
    disentangled(source, d, &layer, extra)
}

/// Rows of the table of relative positions; -1 asks for the number of positions.
fn relative_rows(c: Section<'_>, positions: u64, buckets: u64) -> Result<u64> {
    if buckets > 0 {
        return Ok(mul(buckets, 2));
    }
    let asked = c.int("max_relative_positions", 0).unwrap_or(0);
    Ok(mul(if asked > 0 { asked } else { positions }, 2))
}

fn disentangled(source: &Source<'_>, d: Dimensions, layer: &Block, extra: Block) -> Result<Parts> {
    let c = source.root;
    let named = kind(source.class);
    let kind = named.unwrap_or(if source.root.has("model_type") { Kind::MaskedLm } else { Kind::Base });
    let width = c.int("embedding_size", d.hidden)?;
    let types = c.int("type_vocab_size", 0)?;
    let embedding = Block::new()
        .embedding("word_embeddings", Role::Embedding, d.vocab, width)
        .when(c.bool("position_biased_input", true)?, |block| block.embedding("position_embeddings", Role::Position, d.positions, width))
        .when(types > 0, |block| block.embedding("token_type_embeddings", Role::Position, types, width))
        .when(width != d.hidden, |block| block.linear("embed_proj", Role::Projector, d.hidden, width, false))
        .layer_norm("embeddings.LayerNorm", d.hidden);
    let mut stack = Stack::bare(d.clone(), NO_HEAD, "encoder.layer.{i}", Part::Text);
    stack.once("embeddings", embedding);
    stack.layers(d.layers, layer);
    stack.once("encoder", extra);
    let pooled = c.int("pooler_hidden_size", d.hidden)?;
    if matches!(kind, Kind::Sequence | Kind::Choice) {
        stack.once("", Block::new().linear("pooler.dense", Role::TaskHead, pooled, pooled, true));
    }
    let tied = c.bool("tie_word_embeddings", true)?;
    let head = match kind {
        Kind::MaskedLm => lm_head(d.hidden, if c.bool("legacy", true)? { width } else { d.hidden }, d.vocab, tied),
        _ => task_head(c, kind, d.hidden, false)?,
    };
    stack.once("", head);
    finish(stack, named, tied && kind == Kind::MaskedLm)
}
