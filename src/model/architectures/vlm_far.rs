//! More models of images, sound and text: molmo2, minimax_m3_vl, muse_glimmer, video_llama_3,
//! audioflamingo3, florence2, and colpali and colqwen2, which end in a vector.

use super::blocks::{Attention, Block, mul};
use super::decoder::{Dimensions, Parts, Stack};
use super::encoder::NO_HEAD;
use super::vision::Tower;
use super::vlm::{join_parts, language, projector, two_linears};
use super::{Source, seq2seq, speech, whole};
use crate::model::config::{Result, Section};
use crate::model::inventory::{Part, Role};

const NAMES: [&str; 4] = ["q_proj", "k_proj", "v_proj", "o_proj"];

/// A tower of the CLIP form: an edge, then its layers.
fn clip_form(stack: &mut Stack, prefix: &str, t: &Tower, edge: Block) {
    stack.restart(&format!("{prefix}.layers.{{i}}"), Part::Vision);
    stack.once(prefix, edge);
    stack.layers(t.layers, &t.layer());
}

/// molmo2: features of several layers, pooled by attention.
pub fn molmo2(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let (text, mut stack) = language(source, "molmo2_text")?;
    let (image, a) = (c.section("vision_config"), c.section("adapter_config"));
    let t = Tower::read(image, [1152, 4304, 25, 16, 378, 14])?;
    let (heads, dim) = (t.heads, image.int("head_dim", 72)?);
    let own = Attention::new(t.hidden, heads, image.int("num_key_value_heads", heads)?, dim).biases(true, true);
    let layer = Block::new()
        .attention_named("self_attn", &own, NAMES)
        .layer_norm("layer_norm1", t.hidden)
        .plain_mlp("mlp", t.hidden, t.width, ["fc1", "fc2"], true)
        .layer_norm("layer_norm2", t.hidden);
    let edge = t.patch(true).param("positional_embedding", Role::Position, &[image.int("num_position_embeddings", 729)?, t.hidden]);
    stack.restart("model.vision_tower.layers.{i}", Part::Vision);
    stack.once("model.vision_tower", edge);
    // Layers behind the last one that is read are not built.
    stack.layers(t.layers, &layer);
    let levels = a.ints("vision_feature_layer|vit_layers")?.map_or(2, |list| list.len() as u64);
    let (heads, dim) = (a.int("num_attention_heads", 16)?, a.int("head_dim", 72)?);
    let (wide, keys) = (mul(heads, dim), mul(a.int("num_key_value_heads", heads)?, dim));
    let (hidden, seen) = (a.int("hidden_size", 1152)?, mul(t.hidden, levels));
    let bias = a.bool("mlp_bias", false)?;
    let out = a.int("text_hidden_size", 3584)?;
    let width = a.int("intermediate_size", 18944)?;
    let pool = Block::new()
        .linear("image_pooling_2d.q_proj", Role::Projector, wide, seen, true)
        .linear("image_pooling_2d.k_proj", Role::Projector, keys, seen, true)
        .linear("image_pooling_2d.v_proj", Role::Projector, keys, seen, true)
        .linear("image_pooling_2d.o_proj", Role::Projector, hidden, wide, true)
        .linear("image_projector.gate_proj", Role::Projector, width, hidden, bias)
        .linear("image_projector.up_proj", Role::Projector, width, hidden, bias)
        .linear("image_projector.down_proj", Role::Projector, out, width, bias);
    projector(&mut stack, pool);
    Ok(join_parts(text, stack))
}

/// minimax_m3_vl: patches of two frames; two projections, the second over merged patches.
pub fn minimax_m3(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let (text, mut stack) = language(source, "minimax_m3_vl_text")?;
    let image = c.section("vision_config");
    let t = Tower::read(image, [1280, 5120, 32, 16, 2016, 14])?;
    let pixels = mul(t.pixels, image.int("temporal_patch_size", 2)?);
    let edge = Block::new().conv("embeddings.proj", Role::Conv, &[t.hidden, pixels], false).layer_norm("pre_layrnorm", t.hidden);
    clip_form(&mut stack, "model.vision_tower", &t, edge);
    let (hidden, side) = (text.dimensions.hidden, image.int("spatial_merge_size", 2)?);
    let wide = c.int("projector_hidden_size", 6144)?;
    let merged = mul(hidden, mul(side, side));
    let block = two_linears(t.hidden, wide, hidden, true).linear("merge_linear_1", Role::Projector, wide, merged, true).linear(
        "merge_linear_2",
        Role::Projector,
        hidden,
        wide,
        true,
    );
    projector(&mut stack, block);
    Ok(join_parts(text, stack))
}

/// muse_glimmer: a table of positions, norms before and after the tower, an adapter without biases.
pub fn muse_glimmer(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let (text, mut stack) = language(source, "muse_glimmer_text")?;
    let image = c.section("vision_config");
    let t = Tower::read(image, [1536, 8960, 50, 16, 448, 14])?;
    let rows = mul(image.int("pos_emb_height", 32)?, image.int("pos_emb_width", 32)?);
    let edge = Block::new()
        .linear("patch_embedder.patch_embedding", Role::Conv, t.hidden, mul(t.pixels, image.int("patch_temporal", 2)?), false)
        .embedding("patch_embedder.position_embedding_table", Role::Position, rows, t.hidden)
        .layer_norm("ln_pre", t.hidden)
        .layer_norm("ln_post", t.hidden);
    clip_form(&mut stack, "model.vision_tower", &t, edge);
    let (wide, merged) = (c.int("projector_hidden_size", 4096)?, c.int("out_hidden_size", 6144)?);
    let block = Block::new()
        .linear("vision_adapter.fc1", Role::Projector, wide, merged, false)
        .linear("vision_adapter.fc2", Role::Projector, wide, wide, false)
        .linear("vision_projection", Role::Projector, text.dimensions.hidden, wide, false);
    projector(&mut stack, block);
    Ok(join_parts(text, stack))
}

/// video_llama_3: SigLIP with rotary positions, two linear layers.
pub fn video_llama3(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let (text, mut stack) = language(source, "qwen2")?;
    let t = Tower::read(c.section("vision_config"), [768, 3072, 12, 12, 224, 16])?;
    clip_form(&mut stack, "model.vision_model.encoder", &t, t.patch(true).layer_norm("post_layernorm", t.hidden));
    let hidden = text.dimensions.hidden;
    projector(&mut stack, two_linears(t.hidden, hidden, hidden, true));
    Ok(join_parts(text, stack))
}

/// audioflamingo3 and musicflamingo: the encoder of Whisper, two linear layers.
pub fn flamingo3(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let (text, mut stack) = language(source, "qwen2")?;
    let width = speech::whisper_encoder(&mut stack, "model.audio_tower", c.section("audio_config"), [1280, 32, 5120, 128])?;
    let hidden = text.dimensions.hidden;
    projector(&mut stack, two_linears(width, hidden, hidden, c.bool("projector_bias", true)?));
    Ok(join_parts(text, stack))
}

/// colpali and colqwen2: a model of images and text without its head, and a projection to a short vector.
pub fn late_interaction(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let inner = c.section("vlm_config");
    let (model_type, class) = match inner.str("model_type") {
        Some("paligemma") => ("paligemma", "PaliGemmaModel"),
        Some("qwen2_vl") => ("qwen2_vl", "Qwen2VLModel"),
        Some("qwen2_5_vl") => ("qwen2_5_vl", "Qwen2_5_VLModel"),
        _ => return Err(c.wrong("vlm_config", "must describe a model of images and text that is known".to_owned())),
    };
    let source = Source { root: inner, class, model_type };
    let build = whole(&source).ok_or_else(|| c.wrong("vlm_config", "is of no known family".to_owned()))?;
    let parts = build(&source)?;
    let mut stack = Stack::bare(Dimensions::default(), NO_HEAD, "", Part::Text);
    let out = c.int("embedding_dim", 128)?;
    stack.once("", Block::new().linear("embedding_proj_layer", Role::TaskHead, out, parts.dimensions.hidden, true));
    Ok(join_parts(parts, stack))
}

/// florence2: a tower that mixes places and channels in turn, and BART.
pub fn florence2(source: &Source<'_>) -> Result<Parts> {
    let c = source.root;
    let inner = Source { root: c.section("text_config"), class: "BartModel", model_type: "bart" };
    let mut text = seq2seq::bart(&inner)?;
    // Whether the head is shared is said by the outer object, whether encoder and decoder share words by the inner one.
    text.tied = c.bool("tie_word_embeddings", true)?;
    let mut stack = Stack::bare(Dimensions::default(), NO_HEAD, "", Part::Vision);
    let image = c.section("vision_config");
    let width = davit(&mut stack, image)?;
    let own = !text.tied && source.class.ends_with("ForConditionalGeneration");
    let (vocab, hidden) = (text.dimensions.vocab, text.dimensions.hidden);
    stack.once("", Block::new().when(own, |block| block.linear("lm_head", Role::Head, vocab, hidden, false)));
    let out = image.int("projection_dim", c.int("projection_dim", 1024)?)?;
    let rows = image.int("max_position_embeddings", image.section("image_pos_embed").int("max_pos_embeddings", 50)?)?;
    let columns = width / 2;
    let block = Block::new()
        .linear("image_projection", Role::Projector, out, width, false)
        .layer_norm("image_proj_norm", out)
        .embedding("image_position_embed.column_embeddings", Role::Position, rows, columns)
        .embedding("image_position_embed.row_embeddings", Role::Position, rows, width.saturating_sub(columns));
    projector(&mut stack, block);
    Ok(join_parts(text, stack))
}

/// The tower of Florence 2; gives its last width.
fn davit(stack: &mut Stack, c: Section<'_>) -> Result<u64> {
    let list = |names: &str, default: [u64; 4]| -> Result<Vec<u64>> { Ok(c.ints(names)?.unwrap_or_else(|| default.to_vec())) };
    let (depths, widths) = (list("depths", [1, 1, 9, 1])?, list("embed_dim|dim_embed", [128, 256, 512, 1024])?);
    let sides = list("patch_size", [7, 3, 3, 3])?;
    let prenorm = c.flags("patch_prenorm").unwrap_or_else(|| vec![false, true, true, true]);
    let ratio = c.int("mlp_ratio", 4)?;
    let bias = c.bool("qkv_bias", true)?;
    let mut input = c.int("in_channels|in_chans", 3)?;
    for (stage, (width, depth)) in widths.iter().copied().zip(&depths).take(64).enumerate() {
        let side = sides.get(stage).copied().unwrap_or(3);
        let normed = if prenorm.get(stage).copied().unwrap_or(true) { input } else { width };
        let edge = Block::new().conv("conv", Role::Conv, &[width, input, side, side], true).layer_norm("norm", normed);
        stack.once(&format!("vision_tower.convs.{stage}"), edge);
        let own = Attention::new(width, 1, 1, width).biases(bias, true);
        let layer = ["spatial_block", "channel_block"].iter().fold(Block::new(), |block, part| {
            block
                .conv(&format!("{part}.conv1"), Role::Conv, &[width, 1, 3, 3], true)
                .layer_norm(&format!("{part}.norm1"), width)
                .attention_named(&format!("{part}.attn"), &own, NAMES)
                .conv(&format!("{part}.conv2"), Role::Conv, &[width, 1, 3, 3], true)
                .layer_norm(&format!("{part}.norm2"), width)
                .plain_mlp(&format!("{part}.ffn"), width, mul(width, ratio), ["fc1", "fc2"], true)
        });
        stack.restart(&format!("vision_tower.blocks.{stage}.{{i}}"), Part::Vision);
        stack.layers((*depth).min(crate::model::config::MAX_LAYERS), &layer);
        input = width;
    }
    Ok(input)
}
