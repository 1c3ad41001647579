//! Text encoders further from BERT: convbert, ibert, nystromformer, yoso, mra, roc_bert, xmod, luke, funnel.

use super::Source;
use super::blocks::{Block, join, mul};
use super::decoder::{Defaults, Parts};
use super::encoder::{Kind, lm_head, task_head};
use super::encoder_kin::{BERT, form};
use super::labels;
use crate::model::config::Result;
use crate::model::inventory::Role;

/// A hidden layer before the classifier of a choice, where texts have one too.
fn deep_choice(block: Block, kind: Kind, hidden: u64) -> Block {
    block.when(kind == Kind::Choice, |block| block.linear("pre_classifier", Role::TaskHead, hidden, hidden, true))
}

/// convbert: half of the heads replaced by convolutions whose kernels follow from the text.
pub fn convbert(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let mut f = form(source, BERT)?;
    let (hidden, width) = (f.d.hidden, f.d.intermediate);
    let narrow = c.int("embedding_size", 768)?;
    let heads = (f.d.heads / c.divisor("head_ratio", 2)?).max(1);
    let wide = mul(heads, hidden / heads / 2);
    let kernel = c.int("conv_kernel_size", 9)?;
    let groups = c.divisor("num_groups", 1)?;
    let embedding = Block::new()
        .embedding("word_embeddings", Role::Embedding, f.d.vocab, narrow)
        .embedding("position_embeddings", Role::Position, f.d.positions, narrow)
        .embedding("token_type_embeddings", Role::Position, c.int("type_vocab_size", 2)?, narrow)
        .layer_norm("LayerNorm", narrow)
        .when(narrow != hidden, |block| block.linear("embeddings_project", Role::Projector, hidden, narrow, true));
    f.stack.once("embeddings", embedding);
    let attention = ["query", "key", "value", "conv_out_layer"]
        .iter()
        .fold(Block::new(), |block, name| block.linear(&format!("attention.self.{name}"), Role::Attention, wide, hidden, true))
        .conv("attention.self.key_conv_attn_layer.depthwise", Role::Conv, &[hidden, 1, kernel], false)
        .conv("attention.self.key_conv_attn_layer.pointwise", Role::Conv, &[wide, hidden, 1], true)
        .linear("attention.self.conv_kernel_layer", Role::Attention, mul(heads, kernel), wide, true)
        .linear("attention.output.dense", Role::Attention, hidden, hidden, true)
        .layer_norm("attention.output.LayerNorm", hidden)
        .layer_norm("output.LayerNorm", hidden);
    let feed = |block: Block, name: &str, out: u64, input: u64| {
        block.param(name, Role::Mlp, &[groups, input / groups, out / groups]).param(&join(name, "bias"), Role::Mlp, &[out])
    };
    f.stack.layers(f.d.layers, &feed(feed(attention, "intermediate.dense", width, hidden), "output.dense", hidden, width));
    let head = if f.lm() { lm_head(hidden, narrow, f.d.vocab, true) } else { task_head(c, f.kind, hidden, true)? };
    f.stack.once("", head);
    let (tied, unsure) = (f.tied && f.lm(), f.lm() && !f.tied);
    f.finish(tied, unsure)
}

/// ibert: RoBERTa for whole numbers.
pub fn ibert(source: &Source<'_>) -> Result<Parts> {
    let mut f = form(source, BERT)?;
    f.embeddings(source.root.int("type_vocab_size", 2)?, true);
    f.encoder_layers();
    f.pooler(matches!(f.kind, Kind::Base | Kind::Choice));
    f.end(source, true)
}

/// nystromformer, yoso and mra: cheaper attention, some with a convolution over each head.
pub fn landmarks(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let (default, types, kernel) = match source.model_type {
        "nystromformer" => (Defaults { vocab: 30000, positions: 510, ..BERT }, 2, ("conv_kernel_size", 65)),
        "yoso" => (Defaults { vocab: 50265, positions: 4096, ..BERT }, 1, ("conv_window", 0)),
        _ => (Defaults { vocab: 50265, ..BERT }, 1, ("", 0)),
    };
    let mut f = form(source, default)?;
    f.d.positions = f.d.positions.saturating_add(2);
    f.embeddings(c.int("type_vocab_size", types)?, true);
    let (key, default) = kernel;
    let kernel = if key.is_empty() || (c.has(key) && c.int_opt(key)?.is_none()) { 0 } else { c.int(key, default)? };
    let layer = Block::new()
        .encoder_layer(f.d.hidden, f.d.intermediate)
        .when(kernel > 0, |block| block.conv("attention.self.conv", Role::Conv, &[f.d.heads, 1, kernel, 1], false));
    f.stack.layers(f.d.layers, &layer);
    f.stack.once("", deep_choice(Block::new(), f.kind, f.d.hidden));
    f.end(source, true)
}

/// roc_bert: words with their sound and shape.
pub fn roc_bert(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let mut f = form(source, BERT)?;
    f.embeddings(c.int("type_vocab_size", 2)?, true);
    let hidden = f.d.hidden;
    let mut input = hidden;
    let mut block = Block::new();
    for (flag, name, default) in [("enable_pronunciation", "pronunciation", [910, 768]), ("enable_shape", "shape", [24858, 512])] {
        if c.bool(flag, true)? {
            let width = c.int(&format!("{name}_embed_dim"), default[1])?;
            block = block.embedding(&format!("{name}_embed"), Role::Position, c.int(&format!("{name}_vocab_size"), default[0])?, width);
            input = input.saturating_add(width);
        }
    }
    let joined = c.bool("concat_input", true)?;
    f.stack.once("embeddings", block.when(joined, |block| block.linear("map_inputs_layer", Role::Projector, hidden, input, true)));
    f.encoder_layers();
    f.pooler(matches!(f.kind, Kind::Base | Kind::PreTraining | Kind::Sequence | Kind::Choice));
    f.end(source, false)
}

/// xmod: RoBERTa with two small layers a language in each layer.
pub fn xmod(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let mut f = form(source, BERT)?;
    f.embeddings(c.int("type_vocab_size", 2)?, true);
    let hidden = f.d.hidden;
    let narrow = hidden / c.divisor("adapter_reduction_factor", 2)?;
    let languages = c.strings("languages").len().max(usize::from(!c.has("languages")));
    let layer = (0..languages).fold(Block::new().encoder_layer(hidden, f.d.intermediate), |block, index| {
        block.linear(&format!("output.adapter_modules.{index}.dense1"), Role::Mlp, narrow, hidden, true).linear(
            &format!("output.adapter_modules.{index}.dense2"),
            Role::Mlp,
            hidden,
            narrow,
            true,
        )
    });
    let norm = c.bool("adapter_layer_norm", false)?;
    f.stack.layers(f.d.layers, &layer.when(norm, |block| block.layer_norm("output.adapter_layer_norm", hidden)));
    let last = c.bool("pre_norm", false)?;
    f.stack.once("encoder", Block::new().when(last, |block| block.layer_norm("LayerNorm", hidden)));
    f.pooler(matches!(f.kind, Kind::Base | Kind::Choice));
    f.end(source, true)
}

/// luke: words and entities, with queries of their own for each pair of kinds.
pub fn luke(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let mut f = form(source, Defaults { vocab: 50267, ..BERT })?;
    let types = c.int("type_vocab_size", 2)?;
    f.embeddings(types, true);
    let hidden = f.d.hidden;
    let (entities, narrow) = (c.int("entity_vocab_size", 500_000)?, c.int("entity_emb_size", 256)?);
    let block = Block::new()
        .embedding("entity_embeddings", Role::Embedding, entities, narrow)
        .when(narrow != hidden, |block| block.linear("entity_embedding_dense", Role::Projector, hidden, narrow, false))
        .embedding("position_embeddings", Role::Position, f.d.positions, hidden)
        .embedding("token_type_embeddings", Role::Position, types, hidden)
        .layer_norm("LayerNorm", hidden);
    f.stack.once("entity_embeddings", block);
    let mut layer = Block::new().encoder_layer(hidden, f.d.intermediate);
    if c.bool("use_entity_aware_attention", true)? {
        layer = ["w2e_query", "e2w_query", "e2e_query"]
            .iter()
            .fold(layer, |block, name| block.linear(&format!("attention.self.{name}"), Role::Attention, hidden, hidden, true));
    }
    f.stack.layers(f.d.layers, &layer);
    f.pooler(!matches!(f.kind, Kind::Token | Kind::Question));
    if f.kind == Kind::MaskedLm {
        let vocab = f.d.vocab;
        let head = Block::new()
            .with(lm_head(hidden, hidden, vocab, true))
            .linear("lm_head.decoder", Role::Head, vocab, hidden, false)
            .linear("entity_predictions.transform.dense", Role::TaskHead, narrow, hidden, true)
            .layer_norm("entity_predictions.transform.LayerNorm", narrow)
            .param("entity_predictions.bias", Role::Head, &[entities]);
        f.stack.once("", head);
        let why = "newer classes hold a head over the words of their own, older ones share it with the embedding";
        f.stack.inexact_within(why, mul(vocab, hidden), 0);
        return f.finish(false, false);
    }
    let entities = match source.class {
        "LukeForEntityClassification" => Block::new().linear("classifier", Role::TaskHead, labels(c)?, hidden, true),
        "LukeForEntityPairClassification" => Block::new().linear("classifier", Role::TaskHead, labels(c)?, mul(hidden, 2), false),
        "LukeForEntitySpanClassification" => Block::new().linear("classifier", Role::TaskHead, labels(c)?, mul(hidden, 3), true),
        _ => Block::new(),
    };
    f.stack.once("", entities);
    f.end(source, false)
}

/// funnel: blocks of layers that shorten the text, and a decoder for tasks on words.
pub fn funnel(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let mut f = form(source, Defaults { intermediate: 0, ..BERT })?;
    let (hidden, heads, dim) = (c.int("d_model|hidden_size", 768)?, c.int("n_head|num_attention_heads", 12)?, c.int("d_head", 64)?);
    let (wide, width) = (mul(heads, dim), c.int("d_inner", 3072)?);
    let blocks = c.ints("block_sizes")?.unwrap_or_else(|| vec![4, 4, 4]);
    let base = matches!(f.kind, Kind::Sequence | Kind::Choice) || source.class == "FunnelBaseModel";
    let layers = blocks.iter().fold(0u64, |sum, count| sum.saturating_add(*count));
    let decoder = if base { 0 } else { c.layers("num_decoder_layers", 2)? };
    f.stack
        .once("embeddings", Block::new().embedding("word_embeddings", Role::Embedding, f.d.vocab, hidden).layer_norm("layer_norm", hidden));
    let layer = ["r_w_bias", "r_r_bias", "r_s_bias"]
        .iter()
        .fold(Block::new(), |block, name| block.param(&join("attention", name), Role::Attention, &[heads, dim]))
        .param("attention.r_kernel", Role::Attention, &[hidden, heads, dim])
        .param("attention.seg_embed", Role::Position, &[2, heads, dim])
        .linear("attention.q_head", Role::Attention, wide, hidden, false)
        .linear("attention.k_head", Role::Attention, wide, hidden, true)
        .linear("attention.v_head", Role::Attention, wide, hidden, true)
        .linear("attention.post_proj", Role::Attention, hidden, wide, true)
        .layer_norm("attention.layer_norm", hidden)
        .plain_mlp("ffn", hidden, width, ["linear_1", "linear_2"], true)
        .layer_norm("ffn.layer_norm", hidden);
    f.stack.layers(layers.min(crate::model::config::MAX_LAYERS).saturating_add(decoder), &layer);
    let deep = |block: Block| block.linear("classifier.linear_hidden", Role::TaskHead, hidden, hidden, true);
    let out = |block: Block, rows: u64| block.linear("classifier.linear_out", Role::TaskHead, rows, hidden, true);
    let head = match f.kind {
        Kind::MaskedLm => Block::new().when(!f.tied, |block| block.linear("lm_head", Role::Head, f.d.vocab, hidden, false)).param(
            "lm_head.bias",
            Role::Head,
            &[f.d.vocab],
        ),
        Kind::PreTraining => out(deep(Block::new()), 1),
        Kind::Sequence => out(deep(Block::new()), labels(c)?),
        Kind::Choice => out(deep(Block::new()), 1),
        Kind::Token | Kind::Question => out(Block::new(), labels(c)?),
        _ => Block::new(),
    };
    f.stack.once("", head);
    let tied = f.tied && f.kind == Kind::MaskedLm;
    f.finish(tied, false)
}
