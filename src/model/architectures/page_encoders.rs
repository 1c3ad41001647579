//! Text encoders that see the layout of a page or a table: lilt, layoutlmv3, tapas.

use super::Source;
use super::blocks::{Attention, Block, mul};
use super::decoder::{Defaults, Parts};
use super::encoder::{Kind, task_head};
use super::encoder_kin::{BERT, form};
use crate::model::config::Result;
use crate::model::inventory::Role;

/// lilt: a narrow stream for the layout beside the one for words.
pub fn lilt(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let mut f = form(source, BERT)?;
    f.embeddings(c.int("type_vocab_size", 2)?, true);
    let hidden = f.d.hidden;
    let ratio = c.divisor("channel_shrink_ratio", 4)?;
    let (narrow, width) = (hidden / ratio, f.d.intermediate / ratio);
    let table = c.int("max_2d_position_embeddings", 1024)?;
    let layout = ["x", "y", "h", "w"]
        .iter()
        .fold(Block::new(), |block, side| block.embedding(&format!("{side}_position_embeddings"), Role::Position, table, hidden / 6))
        .embedding("box_position_embeddings", Role::Position, f.d.positions, narrow)
        .linear("box_linear_embeddings", Role::Projector, narrow, hidden, true)
        .layer_norm("LayerNorm", narrow);
    f.stack.once("layout_embeddings", layout);
    let layer = Block::new()
        .encoder_layer(hidden, f.d.intermediate)
        .attention_named("layout", &Attention::new(narrow, 1, 1, narrow).biases(true, true), ["query", "key", "value", "output"])
        .layer_norm("layout.attention_norm", narrow)
        .plain_mlp("", narrow, width, ["layout_intermediate.dense", "layout_output.dense"], true)
        .layer_norm("layout_output.LayerNorm", narrow);
    f.stack.layers(f.d.layers, &layer);
    f.pooler(f.kind == Kind::Base);
    f.stack.once("", task_head(c, f.kind, hidden, f.kind == Kind::Sequence)?);
    let unsure = f.lm();
    f.finish(false, unsure)
}

/// tapas: seven kinds of position in a table.
pub fn tapas(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let mut f = form(source, Defaults { positions: 1024, ..BERT })?;
    f.embeddings(0, true);
    let hidden = f.d.hidden;
    let tables = c.ints("type_vocab_sizes")?.unwrap_or_else(|| vec![3, 256, 256, 2, 256, 256, 10]);
    let block = tables.iter().take(64).enumerate().fold(Block::new(), |block, (index, rows)| {
        block.embedding(&format!("token_type_embeddings_{index}"), Role::Position, *rows, hidden)
    });
    f.stack.once("embeddings", block);
    f.stack.layers(f.d.layers, &Block::new().encoder_layer(hidden, f.d.intermediate));
    f.pooler(matches!(f.kind, Kind::Base | Kind::Sequence));
    if f.kind == Kind::Question {
        f.stack.inexact("the head of this class is not known");
    }
    f.end(source, false)
}

/// layoutlmv3: words, boxes and image patches in one encoder.
pub fn layoutlmv3(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let mut f = form(source, Defaults { vocab: 50265, ..BERT })?;
    f.embeddings(c.int("type_vocab_size", 2)?, true);
    let hidden = f.d.hidden;
    let table = c.int("max_2d_position_embeddings", 1024)?;
    let (place, shape) = (c.int("coordinate_size", 128)?, c.int("shape_size", 128)?);
    let block = [("x", place), ("y", place), ("h", shape), ("w", shape)]
        .iter()
        .fold(Block::new(), |block, (side, width)| block.embedding(&format!("{side}_position_embeddings"), Role::Position, table, *width));
    f.stack.once("embeddings", block);
    if c.bool("visual_embed", true)? {
        let (image, patch) = (c.int("input_size", 224)?, c.divisor("patch_size", 16)?);
        let side = image / patch;
        let visual = Block::new()
            .conv("patch_embed.proj", Role::Conv, &[hidden, c.int("num_channels", 3)?, patch, patch], true)
            .param("cls_token", Role::Position, &[1, 1, hidden])
            .param("pos_embed", Role::Position, &[1, mul(side, side).saturating_add(1), hidden])
            .layer_norm("LayerNorm", hidden)
            .layer_norm("norm", hidden);
        f.stack.once("visual", visual);
    }
    f.stack.layers(f.d.layers, &Block::new().encoder_layer(hidden, f.d.intermediate));
    let (flat, deep) = (c.int("rel_pos_bins", 32)?, c.int("rel_2d_pos_bins", 64)?);
    let heads = f.d.heads;
    let (relative, spatial) = (c.bool("has_relative_attention_bias", true)?, c.bool("has_spatial_attention_bias", true)?);
    let block = Block::new().when(relative, |block| block.param("rel_pos_bias", Role::Position, &[heads, flat])).when(spatial, |block| {
        block.param("rel_pos_x_bias", Role::Position, &[heads, deep]).param("rel_pos_y_bias", Role::Position, &[heads, deep])
    });
    f.stack.once("encoder", block);
    if f.kind != Kind::Base {
        // Token classifiers of many labels have a hidden layer.
        let many = f.kind == Kind::Token && super::labels(c)? >= 10;
        let dense = many || f.kind == Kind::Question;
        let head = task_head(c, f.kind, hidden, true)?;
        f.stack.once("", head.when(dense, |block| block.linear("classifier.dense", Role::TaskHead, hidden, hidden, true)));
    }
    let unsure = f.lm();
    f.finish(false, unsure)
}
