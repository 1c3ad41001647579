//! Further language models: aria_text, cohere2_moe, hyperclovax, doge, xlstm, laguna, sarvam_moe,
//! sarvam_mla, modernbert-decoder, ernie4_5_vl_moe_text, glm_ocr_text, step3p7_text.

use super::blocks::{Attention, Block, Moe, Norm, QkNorm, Window, mul};
use super::decoder::{Defaults, Dimensions, Parts, Request, Stack, Task, windows};
use super::dense::{Dense, FOUR_NORMS, Mlp, TWO_NORMS};
use super::sparse::{ACTIVE, COUNT, SHARED};
use crate::model::config::{Result, Section};
use crate::model::inventory::Role;
use crate::model::kv_cache::Cache;

/// The routed experts of a file, with the family's own counts.
fn routed(c: Section<'_>, d: &mut Dimensions, [count, active]: [u64; 2], width: u64) -> Result<Moe> {
    let moe = Moe {
        hidden: d.hidden,
        experts: c.int(COUNT, count)?,
        active: c.int(ACTIVE, active)?,
        width,
        router_bias: false,
        expert_bias: false,
    };
    (d.experts, d.active_experts, d.expert_width) = (moe.experts, moe.active, moe.width);
    Ok(moe)
}

/// Adds experts that every token passes.
fn shared(block: Block, hidden: u64, width: u64) -> Block {
    block.when(width > 0, |block| block.gated("mlp.shared_experts", Role::SharedExpert, hidden, width, false))
}

/// Which layers have experts: by `mlp_layer_types`, else all from an index on.
fn sparse_from(c: Section<'_>, first: u64) -> impl Fn(u64) -> bool {
    let kinds: Vec<bool> = c.strings("mlp_layer_types").iter().map(|kind| *kind != "dense").collect();
    move |index: u64| usize::try_from(index).ok().and_then(|index| kinds.get(index)).copied().unwrap_or(index >= first)
}

/// aria_text: experts in every layer, shared ones beside them.
pub fn aria(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([32000, 4096, 4096, 32, 32, 0, 0, 2048], false);
    let mut d = Dimensions::read(c, &default)?;
    let bias = c.bool("attention_bias", false)?;
    let mlp_bias = c.bool("mlp_bias", false)?;
    let width = d.intermediate;
    let moe = routed(c, &mut d, [8, 2], width)?;
    let extra = mul(moe.width, c.int(SHARED, 2)?);
    let dense = Dense { attention: d.attention().biases(bias, bias), ..Dense::new(&d) };
    let mut stack = Stack::new(c, d.clone(), &default, request)?;
    for index in 0..d.layers {
        let block = dense.without_mlp(index).moe("mlp", &moe);
        stack.layer(block.gated("mlp.shared_experts", Role::SharedExpert, d.hidden, extra, mlp_bias));
    }
    Ok(stack.finish(Norm::Weight, false))
}

/// cohere2_moe: one norm a layer, three sliding layers to a full one.
pub fn cohere2_moe(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([256_000, 8192, 22528, 40, 64, 0, 128, 8192], true);
    let mut d = Dimensions::read(c, &default)?;
    let bias = c.bool("attention_bias", false)?;
    let every = c.divisor("sliding_window_pattern", 4)?;
    let windows = windows(c, d.layers, Some(c.int("sliding_window", 4096)?), |index| !(index + 1).is_multiple_of(every));
    let width = d.intermediate;
    let moe = routed(c, &mut d, [8, 2], width)?;
    let extra = mul(moe.width, c.int(SHARED, 0)?);
    let dense_width = c.int("prefix_dense_intermediate_size", d.intermediate)?;
    let sparse = sparse_from(c, c.int("first_k_dense_replace", 0)?);
    let dense = Dense { attention: d.attention().biases(bias, bias), norms: &["input_layernorm"], windows, ..Dense::new(&d) };
    let mut stack = Stack::new(c, d.clone(), &default, request)?;
    for index in 0..d.layers {
        stack.layer(if sparse(index) {
            shared(dense.without_mlp(index).moe("mlp", &moe), d.hidden, extra)
        } else {
            dense.layer(index, dense_width)
        });
    }
    Ok(stack.finish(Norm::Weight, false))
}

/// hyperclovax: granite with two norms more a layer.
pub fn hyperclovax(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([32000, 4096, 11008, 32, 32, 0, 0, 2048], false);
    let d = Dimensions::read(c, &default)?;
    let bias = c.bool("attention_bias", false)?;
    let norms = if c.bool("use_post_norm", true)? { FOUR_NORMS } else { TWO_NORMS };
    let dense = Dense { attention: d.attention().biases(bias, bias), mlp_bias: c.bool("mlp_bias", false)?, norms, ..Dense::new(&d) };
    dense.build(c, d, &default, request)
}

/// doge: scaled residuals, a mask that depends on the values; experts as single rows.
pub fn doge(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([32768, 1024, 2048, 32, 8, 0, 0, 2048], false);
    let d = Dimensions::read(c, &default)?;
    let bias = c.bool("attention_bias", false)?;
    let dense = Dense {
        attention: d.attention().biases(bias, bias).qk_norm(QkNorm::PerHead),
        mlp_bias: c.bool("mlp_bias", false)?,
        windows: windows(c, d.layers, c.int_opt("sliding_window")?, |_| true),
        ..Dense::new(&d)
    };
    let experts = if c.bool("is_moe", false)? { c.int("num_experts", 16384)? } else { 0 };
    let keys = experts.isqrt();
    let values = mul(d.kv_heads, d.head_dim);
    let mut stack = Stack::new(c, d.clone(), &default, request)?;
    for index in 0..d.layers {
        let layer = dense
            .layer(index, d.intermediate)
            .param("self_attn.A", Role::Attention, &[d.kv_heads])
            .linear("self_attn.dt_proj", Role::Attention, d.kv_heads, values, bias)
            .param("input_residual", Role::Scale, &[d.hidden])
            .param("post_attention_residual", Role::Scale, &[d.hidden])
            .when(experts > 0, |block| {
                block
                    .linear("mlp.router_gate", Role::Router, mul(keys, 2), d.hidden, false)
                    .embedding("mlp.down_embed", Role::Expert, experts, d.hidden)
                    .embedding("mlp.up_embed", Role::Expert, experts, d.hidden)
            });
        stack.layer(layer);
    }
    if experts > 0 {
        stack.note("all experts are counted as active");
    }
    Ok(stack.finish(Norm::Weight, false))
}

/// xlstm: matrix memories instead of attention.
pub fn xlstm(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([50304, 4096, 0, 32, 8, 0, 0, 0], false);
    let mut d = Dimensions::read(c, &default)?;
    d.hidden = if c.has("hidden_size") { c.int("hidden_size|embedding_dim", 4096)? } else { 4096 };
    d.layers = if c.has("num_hidden_layers") { c.layers("num_hidden_layers|num_blocks", 32)? } else { 32 };
    let rounded = |width: f64, multiple: u64| (width.clamp(0.0, 1e15) as u64).div_ceil(multiple).saturating_mul(multiple);
    let keys = rounded(d.hidden as f64 * c.float("qk_dim_factor", 0.5)?, 64);
    let values = rounded(d.hidden as f64 * c.float("v_dim_factor", 1.0)?, 64);
    d.intermediate = rounded(d.hidden as f64 * c.float("ffn_proj_factor", 2.667)?, c.divisor("ffn_round_up_to_multiple_of", 64)?);
    let bias = c.bool("use_bias", false)?;
    let norm = if bias { Norm::WeightBias } else { Norm::Weight };
    let linear = |block: Block, name: &str, out: u64, input: u64, bias: bool| {
        block.linear(&format!("mlstm_layer.{name}"), Role::Mixer, out, input, bias)
    };
    let mut layer = Block::new().norm_of(norm, "norm_mlstm", d.hidden).norm_of(norm, "norm_ffn", d.hidden);
    for (name, out) in [("q", keys), ("k", keys), ("v", values), ("ogate_preact", values)] {
        layer = linear(layer, name, out, d.hidden, bias);
    }
    for name in ["igate_preact", "fgate_preact"] {
        layer = linear(layer, name, d.heads, d.hidden, true);
    }
    let layer = linear(layer, "out_proj", d.hidden, values, bias)
        .norm_of(norm, "mlstm_layer.multihead_norm", values)
        .linear("ffn.proj_up_gate", Role::Mlp, d.intermediate, d.hidden, bias)
        .linear("ffn.proj_up", Role::Mlp, d.intermediate, d.hidden, bias)
        .linear("ffn.proj_down", Role::Mlp, d.hidden, d.intermediate, bias)
        .cache(Cache::State {
            channels: 0,
            kernel: 1,
            recurrent: mul(keys, values / d.heads).saturating_add(keys).saturating_add(d.heads),
        });
    let (hidden, layers) = (d.hidden, d.layers);
    let mut stack = Stack::new(c, d, &default, request)?;
    stack.layers(layers, &layer);
    if c.bool("tie_word_embeddings", false)? || c.int("embedding_dim", hidden)? != hidden {
        stack.inexact("a shared head, or an embedding of another width, is not known for this family");
    }
    Ok(stack.finish_with(Block::new().norm("out_norm", hidden), false))
}

/// laguna: attention with a gate a head, heads that may differ a layer, routed and shared experts.
pub fn laguna(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([100_352, 2048, 8192, 40, 48, 8, 128, 131_072], false);
    let mut d = Dimensions::read(c, &default)?;
    let bias = c.bool("attention_bias", false)?;
    let width = c.int("moe_intermediate_size", 512)?;
    let moe = routed(c, &mut d, [256, 8], width)?;
    let extra = c.int("shared_expert_intermediate_size", 512)?;
    let list = c.ints("num_attention_heads_per_layer")?.unwrap_or_default();
    let windows = windows(c, d.layers, Some(c.int("sliding_window", 512)?), |_| false);
    let gate_a_head = c.str("gating").is_none_or(|kind| kind == "per-head");
    let gated = c.str("gating").is_some() || c.bool("gating", true)?;
    let sparse = sparse_from(c, 1);
    let mut stack = Stack::new(c, d.clone(), &default, request)?;
    for index in 0..d.layers {
        let at = usize::try_from(index).unwrap_or(usize::MAX);
        let heads = list.get(at).copied().unwrap_or(d.heads);
        let attention = Attention::new(d.hidden, heads, d.kv_heads, d.head_dim).biases(bias, bias).qk_norm(QkNorm::PerHead);
        let rows = if gate_a_head { heads } else { mul(heads, d.head_dim) };
        let block = Block::new()
            .norm("input_layernorm", d.hidden)
            .norm("post_attention_layernorm", d.hidden)
            .attention("self_attn", &attention, windows.get(at).copied().unwrap_or(Window::Full))
            .when(gated, |block| block.linear("self_attn.g_proj", Role::Attention, rows, d.hidden, false));
        stack.layer(if sparse(index) {
            shared(block.moe("mlp", &moe).param("mlp.gate.e_score_correction_bias", Role::Router, &[moe.experts]), d.hidden, extra)
        } else {
            block.gated_mlp("mlp", d.hidden, d.intermediate, false)
        });
    }
    Ok(stack.finish(Norm::Weight, false))
}

/// modernbert-decoder: ModernBERT with causal attention; the head has a hidden layer.
pub fn modernbert_decoder(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([50368, 768, 1152, 22, 12, 0, 0, 8192], true);
    let d = Dimensions::read(c, &default)?;
    let (bias, mlp_bias) = (c.bool("attention_bias", false)?, c.bool("mlp_bias", false)?);
    let norm = if c.bool("norm_bias", false)? { Norm::WeightBias } else { Norm::Weight };
    let every = c.divisor("global_attn_every_n_layers", 3)?;
    let local = c.int("sliding_window", c.int("local_attention", 128)? / 2)?;
    let windows = windows(c, d.layers, Some(local), |index| !index.is_multiple_of(every));
    let attention = d.attention().biases(bias, bias);
    let causal = request.task == Task::Causal;
    let embedding =
        Block::new().embedding("embeddings.tok_embeddings", Role::Embedding, d.vocab, d.hidden).norm_of(norm, "embeddings.norm", d.hidden);
    let mut stack = Stack::with_embedding(c, d.clone(), true, request, embedding)?;
    for (index, window) in windows.into_iter().enumerate() {
        let layer = Block::new()
            .when(index > 0, |block| block.norm_of(norm, "attn_norm", d.hidden))
            .norm_of(norm, "mlp_norm", d.hidden)
            .attention("attn", &attention, window)
            .fused_gated_mlp("mlp", d.hidden, d.intermediate, ["Wi", "Wo"], mlp_bias);
        stack.layer(layer);
    }
    let classifies = matches!(request.task, Task::Causal | Task::Sequence(_));
    let head_bias = c.bool("classifier_bias", false)?;
    let last = Block::new().norm_of(norm, "final_norm", d.hidden).when(classifies, |block| {
        block.linear("head.dense", Role::TaskHead, d.hidden, d.hidden, head_bias).norm_of(norm, "head.norm", d.hidden)
    });
    let decoder_bias = causal && c.bool("decoder_bias", true)?;
    let classifier_bias = match request.task {
        Task::Sequence(labels) if head_bias => Block::new().param("classifier.bias", Role::TaskHead, &[labels]),
        _ => Block::new(),
    };
    Ok(stack.finish_with(last.with(classifier_bias), decoder_bias))
}

/// ernie4_5_vl_moe_text: experts for words and experts for images in each layer, shared ones beside them.
pub fn ernie_vl(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([103_424, 2560, 12288, 28, 20, 4, 0, 131_072], true);
    let mut d = Dimensions::read(c, &default)?;
    let bias = c.bool("use_bias", false)?;
    let widths = c.ints("moe_intermediate_size")?.unwrap_or_else(|| vec![1536, 512]);
    let width = |index: usize| widths.get(index).or(widths.last()).copied().unwrap_or(0);
    // Remote files give one count a kind of experts.
    let count = c.ints("moe_num_experts")?.and_then(|list| list.first().copied()).unwrap_or(64);
    let words =
        Moe { hidden: d.hidden, experts: count, active: c.int("moe_k", 6)?, width: width(0), router_bias: false, expert_bias: false };
    // A token passes the experts of one kind.
    let images = Moe { width: width(1), active: 0, ..words };
    (d.experts, d.active_experts, d.expert_width) = (words.experts, words.active, words.width);
    let extra = mul(width(0), c.int(SHARED, 2)?);
    let dense = Dense { attention: d.attention().biases(bias, bias), mlp_bias: bias, ..Dense::new(&d) };
    let first = c.ints("moe_layer_start_index")?.and_then(|list| list.first().copied()).unwrap_or(1);
    let sparse = sparse_from(c, first);
    let mut stack = Stack::new(c, d.clone(), &default, request)?;
    for index in 0..d.layers {
        stack.layer(if sparse(index) {
            let kind = |block: Block, name: &str, moe: &Moe| {
                block.moe(name, moe).param(&format!("{name}.gate.moe_statics.e_score_correction_bias"), Role::Router, &[1, moe.experts])
            };
            let block = kind(kind(dense.without_mlp(index), "mlp.text_moe", &words), "mlp.vision_moe", &images);
            block.when(extra > 0, |block| block.gated("mlp.shared_experts", Role::SharedExpert, d.hidden, extra, bias))
        } else {
            dense.layer(index, d.intermediate)
        });
    }
    Ok(stack.finish(Norm::Weight, false))
}

/// glm_ocr_text: glm4 without biases.
pub fn glm_ocr(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([59392, 1024, 4096, 16, 16, 8, 0, 131_072], false);
    let d = Dimensions::read(c, &default)?;
    let norms = &["input_layernorm", "post_attention_layernorm", "post_self_attn_layernorm", "post_mlp_layernorm"];
    let dense = Dense { mlp: Mlp::Fused, norms, ..Dense::new(&d) };
    dense.build(c, d, &default, request)
}

/// step3p7_text: attention with a gate a head, dense layers first, routed and shared experts.
pub fn step3p7(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([128_815, 4096, 11264, 45, 64, 8, 128, 131_072], false);
    let mut d = Dimensions::read(c, &default)?;
    let bias = c.bool("attention_bias", false)?;
    let width = c.int("moe_intermediate_size", 1280)?;
    let moe = routed(c, &mut d, [288, 8], width)?;
    let extra = c.int("share_expert_dim", 1280)?;
    let windows = windows(c, d.layers, Some(c.int("sliding_window", 512)?), |_| false);
    let dense = Dense {
        attention: d.attention().biases(bias, bias).qk_norm(QkNorm::PerHead),
        mlp_bias: c.bool("mlp_bias", false)?,
        windows,
        ..Dense::new(&d)
    };
    let sparse = sparse_from(c, 3);
    let mut stack = Stack::new(c, d.clone(), &default, request)?;
    for index in 0..d.layers {
        let gate = |block: Block| block.linear("self_attn.g_proj", Role::Attention, d.heads, d.hidden, false);
        stack.layer(if sparse(index) {
            shared(gate(dense.without_mlp(index)).moe("mlp", &moe), d.hidden, extra)
        } else {
            gate(dense.layer(index, d.intermediate))
        });
    }
    if c.has("per_layer_config|num_sliding_attention_heads") && c.strings("layer_types").iter().any(|kind| kind.contains("sliding")) {
        stack.inexact("sliding layers may have heads of their own, which are not counted");
    }
    Ok(stack.finish(Norm::Weight, false))
}

/// sarvam_moe: attention with normalised queries and keys, routed and shared experts.
pub fn sarvam_moe(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([262_144, 4096, 8192, 19, 64, 4, 64, 131_072], false);
    let mut d = Dimensions::read(c, &default)?;
    let width = c.int("moe_intermediate_size", 1024)?;
    let moe = routed(c, &mut d, [128, 6], width)?;
    let extra = mul(width, c.int(SHARED, 1)?);
    let qk_norm = if c.bool("use_qk_norm", true)? { QkNorm::PerHead } else { QkNorm::Off };
    let dense =
        Dense { attention: d.attention().biases(c.bool("attention_bias|use_qkv_bias", false)?, false).qk_norm(qk_norm), ..Dense::new(&d) };
    let first = c.int("first_k_dense_replace", 1)?;
    let mut stack = Stack::new(c, d.clone(), &default, request)?;
    for index in 0..d.layers {
        stack.layer(if index < first {
            dense.layer(index, d.intermediate)
        } else {
            shared(dense.without_mlp(index).moe("mlp", &moe), d.hidden, extra)
        });
    }
    Ok(stack.finish(Norm::Weight, false))
}

/// iquestcoder: Llama with other defaults.
pub fn iquest(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([76800, 5120, 27648, 80, 40, 8, 128, 131_072], false);
    let d = Dimensions::read(c, &default)?;
    let bias = c.bool("attention_bias", false)?;
    let dense = Dense { attention: d.attention().biases(bias, bias), mlp_bias: c.bool("mlp_bias", false)?, ..Dense::new(&d) };
    dense.build(c, d, &default, request)
}
