//! Encoders that read text beside pages, pictures or their regions: bros, markuplm, visual_bert, vilt, lxmert.

use super::Source;
use super::blocks::{Attention, Block, join, mul};
use super::decoder::Parts;
use super::encoder::{Kind, lm_head, task_head};
use super::encoder_kin::{BERT, form};
use super::labels;
use super::vision::Tower;
use crate::model::config::Result;
use crate::model::inventory::Role;

/// bros: boxes come in by a projection.
pub fn bros(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let mut f = form(source, BERT)?;
    f.embeddings(c.int("type_vocab_size", 2)?, true);
    let (narrow, waves) = (f.d.hidden / f.d.heads, f.d.hidden / 4);
    f.stack.once("bbox_embeddings", Block::new().linear("bbox_projection", Role::Projector, narrow, waves, false));
    f.encoder_layers();
    f.pooler(matches!(f.kind, Kind::Base | Kind::Token));
    f.end(source, false)
}

/// markuplm: words with their place in the tree of a page.
pub fn markuplm(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let mut f = form(source, BERT)?;
    f.embeddings(c.int("type_vocab_size", 2)?, true);
    let hidden = f.d.hidden;
    let (depth, unit) = (c.int("max_depth", 50)?, c.int("xpath_unit_hidden_size", 32)?);
    let (inner, path) = (mul(hidden, 4), mul(depth, unit));
    let block = Block::new()
        .embedding("xpath_tag_sub_embeddings", Role::Position, mul(depth, c.int("max_xpath_tag_unit_embeddings", 256)?), unit)
        .embedding("xpath_subs_sub_embeddings", Role::Position, mul(depth, c.int("max_xpath_subs_unit_embeddings", 1024)?), unit)
        .linear("xpath_unitseq2_embeddings", Role::Projector, hidden, path, true)
        .linear("xpath_unitseq2_inner", Role::Projector, inner, path, true)
        .linear("inner2emb", Role::Projector, hidden, inner, true);
    f.stack.once("embeddings.xpath_embeddings", block);
    f.encoder_layers();
    f.pooler(matches!(f.kind, Kind::Base | Kind::Sequence));
    if f.kind == Kind::Question {
        f.stack.once("", Block::new().linear("qa_outputs", Role::TaskHead, labels(c)?, hidden, true));
        return f.finish(false, false);
    }
    f.end(source, false)
}

/// visual_bert: features of regions beside the words.
pub fn visual_bert(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let mut f = form(source, BERT)?;
    let types = c.int("type_vocab_size", 2)?;
    f.embeddings(types, true);
    let hidden = f.d.hidden;
    let block = Block::new()
        .embedding("visual_token_type_embeddings", Role::Position, types, hidden)
        .embedding("visual_position_embeddings", Role::Position, f.d.positions, hidden)
        .linear("visual_projection", Role::Projector, hidden, c.int("visual_embedding_dim", 512)?, true);
    f.stack.once("embeddings", block);
    f.encoder_layers();
    if c.bool("bypass_transformer", false)? {
        f.stack.once("additional_layer", Block::new().encoder_layer(hidden, f.d.intermediate));
    }
    f.pooler(true);
    let head = match f.kind {
        Kind::PreTraining => lm_head(hidden, hidden, f.d.vocab, f.tied).linear("cls.seq_relationship", Role::TaskHead, 2, hidden, true),
        Kind::Question => Block::new().linear("cls", Role::TaskHead, labels(c)?, hidden, true),
        _ if source.class == "VisualBertForVisualReasoning" => Block::new().linear("cls", Role::TaskHead, labels(c)?, hidden, true),
        kind => task_head(c, kind, hidden, false)?,
    };
    f.stack.once("", head);
    let (tied, unsure) = (f.lm() && f.tied, f.lm() && !f.tied);
    f.finish(tied, unsure)
}

/// vilt: patches and words in one encoder with norms in front.
pub fn vilt(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let mut f = form(source, super::decoder::Defaults { positions: 40, ..BERT })?;
    f.embeddings(c.int("type_vocab_size", 2)?, true);
    let t = Tower::read(c, [768, 3072, 12, 12, 384, 32])?;
    let hidden = t.hidden;
    let edge = Block::new()
        .param("cls_token", Role::Position, &[1, 1, hidden])
        .param("position_embeddings", Role::Position, &[1, t.patches.saturating_add(1), hidden])
        .conv("patch_embeddings.projection", Role::Conv, &[hidden, t.pixels], true)
        .embedding("token_type_embeddings", Role::Position, c.int("modality_type_vocab_size", 2)?, hidden);
    f.stack.once("vilt.embeddings", edge);
    let attention = Attention::new(hidden, 1, 1, hidden).biases(c.bool("qkv_bias", true)?, true);
    let layer = Block::new()
        .attention_named("attention", &attention, ["query", "key", "value", "output"])
        .layer_norm("layernorm_before", hidden)
        .plain_mlp("", hidden, t.width, ["intermediate.dense", "output.dense"], true)
        .layer_norm("layernorm_after", hidden);
    f.stack.layers(t.layers, &layer);
    f.stack.once("vilt", Block::new().layer_norm("layernorm", hidden));
    f.pooler(f.kind != Kind::Token);
    let twice = mul(hidden, 2);
    let head = match (f.kind, source.class) {
        (Kind::Question, _) => Block::new()
            .linear("classifier.0", Role::TaskHead, twice, hidden, true)
            .layer_norm("classifier.1", twice)
            .linear("classifier.3", Role::TaskHead, labels(c)?, twice, true),
        (_, "ViltForImageAndTextRetrieval") => Block::new().linear("rank_output", Role::TaskHead, 1, hidden, true),
        (Kind::MaskedLm, _) => lm_head(hidden, hidden, f.d.vocab, f.tied),
        (kind, _) => task_head(c, kind, hidden, false)?,
    };
    f.stack.once("", head);
    let (tied, unsure) = (f.lm() && f.tied, f.lm() && !f.tied);
    f.finish(tied, unsure)
}

/// lxmert: an encoder for words, one for regions, and layers in which they see each other.
pub fn lxmert(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let mut f = form(source, BERT)?;
    f.embeddings(c.int("type_vocab_size", 2)?, true);
    let (hidden, width) = (f.d.hidden, f.d.intermediate);
    let (features, corners) = (c.int("visual_feat_dim", 2048)?, c.int("visual_pos_dim", 4)?);
    let edge = Block::new()
        .linear("visn_fc", Role::Projector, hidden, features, true)
        .layer_norm("visn_layer_norm", hidden)
        .linear("box_fc", Role::Projector, hidden, corners, true)
        .layer_norm("box_layer_norm", hidden);
    f.stack.once("encoder.visn_fc", edge);
    let own = Attention::new(hidden, 1, 1, hidden).biases(true, true);
    let attends = |block: Block, name: &str| {
        block.attention_named(name, &own, ["query", "key", "value", "output"]).layer_norm(&join(name, "output.LayerNorm"), hidden)
    };
    let feeds = |block: Block, name: &str| {
        block
            .linear(&format!("{name}_inter.dense"), Role::Mlp, width, hidden, true)
            .linear(&format!("{name}_output.dense"), Role::Mlp, hidden, width, true)
            .layer_norm(&format!("{name}_output.LayerNorm"), hidden)
    };
    let plain = c.layers("l_layers", 9)?.saturating_add(c.layers("r_layers", 5)?);
    f.stack.layers(plain, &Block::new().encoder_layer(hidden, width));
    f.stack.restart("encoder.x_layers.{i}", crate::model::inventory::Part::Text);
    let both = ["visual_attention", "lang_self_att", "visn_self_att"].iter().fold(Block::new(), |block, name| attends(block, name));
    f.stack.layers(c.layers("x_layers", 5)?, &feeds(feeds(both, "lang"), "visn"));
    f.pooler(true);
    let twice = mul(hidden, 2);
    let rows = c.int("num_qa_labels", 9500)?;
    let answers = |block: Block| {
        block.linear("answer_head.logit_fc.0", Role::TaskHead, twice, hidden, true).layer_norm("answer_head.logit_fc.2", twice).linear(
            "answer_head.logit_fc.3",
            Role::TaskHead,
            rows,
            twice,
            true,
        )
    };
    let mut head = Block::new();
    if f.kind == Kind::PreTraining {
        head = lm_head(hidden, hidden, f.d.vocab, true).linear("cls.seq_relationship", Role::TaskHead, 2, hidden, true);
        if c.bool("task_obj_predict", true)? {
            head = head.linear("obj_predict_head.transform.dense", Role::TaskHead, hidden, hidden, true);
            head = head.layer_norm("obj_predict_head.transform.LayerNorm", hidden);
            let kinds = [("obj", c.int("num_object_labels", 1600)?), ("attr", c.int("num_attr_labels", 400)?), ("feat", features)];
            for (name, rows) in kinds {
                if c.bool(&format!("visual_{name}_loss"), true)? {
                    head = head.linear(&format!("obj_predict_head.decoder_dict.{name}"), Role::TaskHead, rows, hidden, true);
                }
            }
        }
    }
    let asks = f.kind == Kind::Question || (f.kind == Kind::PreTraining && c.bool("task_qa", true)?);
    f.stack.once("", head.when(asks, answers));
    let (tied, unsure) = (f.lm() && f.tied, f.lm() && !f.tied);
    f.finish(tied, unsure)
}
