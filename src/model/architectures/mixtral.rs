//! Decoders with routed experts in every layer: mixtral, granitemoe, gpt_oss, dbrx, minimax,
//! minimax_m2, minicpm, grok, arctic, jetmoe, ernie4_5_moe, hunyuan, llama4, mimo_v2_flash.

use super::blocks::{Attention, Block, Moe, Norm, QkNorm, Window};
use super::decoder::{Defaults, Dimensions, Parts, Request, Stack, keys, windows};
use super::dense::Dense;
use super::sparse::ACTIVE;
use crate::model::config::{Result, Section};
use crate::model::inventory::Role;

/// mixtral.
pub fn mixtral(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([32000, 4096, 14336, 32, 32, 8, 0, 131_072], false);
    let d = Dimensions::read(c, &default)?;
    let dense = Dense { windows: windows(c, d.layers, c.int_opt("sliding_window")?, |_| true), ..Dense::new(&d) };
    let moe = experts(c, &d, [8, 2])?;
    let mut parts = every_layer(c, request, &default, d, &dense, &moe, 0)?;
    let tensors = parts.inventory.groups.iter_mut().flat_map(|group| &mut group.tensors);
    tensors.filter(|tensor| tensor.role == Role::Expert).for_each(|tensor| tensor.path = by_number(&tensor.path));
    Ok(parts)
}

/// The path of an expert's matrix by the numbers that Mixtral's checkpoints give them: LoRA names them so.
fn by_number(path: &str) -> String {
    let numbers = [("gate_proj", "w1"), ("down_proj", "w2"), ("up_proj", "w3")];
    let renamed = numbers.iter().find_map(|(word, number)| Some(format!("{}.{number}", path.strip_suffix(word)?.strip_suffix('.')?)));
    renamed.unwrap_or_else(|| path.to_owned())
}

/// granitemoe and granitemoeshared: the latter has one shared expert of its own width.
pub fn granitemoe(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([32000, 4096, 11008, 32, 32, 0, 0, 2048], false);
    let d = Dimensions::read(c, &default)?;
    let bias = c.bool("attention_bias", false)?;
    let dense = Dense { attention: d.attention().biases(bias, bias), ..Dense::new(&d) };
    let moe = experts(c, &d, [8, 2])?;
    every_layer(c, request, &default, d, &dense, &moe, c.int("shared_intermediate_size", 0)?)
}

/// gpt_oss: biases everywhere, sinks, sliding and full layers in turn.
pub fn gpt_oss(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([201_088, 2880, 2880, 36, 64, 8, 64, 131_072], false);
    let mut d = Dimensions::read(c, &default)?;
    let bias = c.bool("attention_bias", true)?;
    let moe = Moe { router_bias: true, expert_bias: true, ..experts(c, &d, [128, 4])? };
    (d.experts, d.active_experts, d.expert_width) = (moe.experts, moe.active, moe.width);
    let window = if c.has("sliding_window") { c.int_opt("sliding_window")? } else { Some(128) };
    let dense = Dense {
        attention: d.attention().biases(bias, bias),
        windows: windows(c, d.layers, window, |index| index.is_multiple_of(2)),
        ..Dense::new(&d)
    };
    let mut stack = Stack::new(c, d.clone(), &default, request)?;
    for index in 0..d.layers {
        stack.layer(dense.without_mlp(index).param("self_attn.sinks", Role::Scale, &[d.heads]).moe("mlp", &moe));
    }
    Ok(stack.finish(Norm::Weight, false))
}

/// dbrx: sizes in `attn_config` and `ffn_config`, LayerNorms with a weight only.
pub fn dbrx(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([32000, 2048, 3584, 24, 16, 0, 0, 2048], false);
    let mut d = Dimensions::read(c, &default)?;
    let (attn, ffn) = (c.section("attn_config"), c.section("ffn_config"));
    d.kv_heads = attn.int("kv_n_heads", 1)?;
    d.intermediate = ffn.int("ffn_hidden_size", 3584)?;
    let moe = Moe {
        hidden: d.hidden,
        experts: ffn.int("moe_num_experts", 4)?,
        active: ffn.int("moe_top_k", 1)?,
        width: d.intermediate,
        router_bias: false,
        expert_bias: false,
    };
    let dense = Dense { fused_qkv: true, ..Dense::new(&d) };
    every_layer(c, request, &default, d, &dense, &moe, 0)
}

/// minimax_m2: queries and keys normalised over their whole width.
pub fn minimax_m2(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([200_064, 3072, 1536, 62, 48, 8, 128, 196_608], false);
    let d = Dimensions::read(c, &default)?;
    let qk_norm = if c.bool("use_qk_norm", true)? { QkNorm::FullWidth } else { QkNorm::Off };
    let dense = Dense { attention: d.attention().qk_norm(qk_norm), ..Dense::new(&d) };
    let moe = experts(c, &d, [256, 8])?;
    every_layer(c, request, &default, d, &dense, &moe, 0)
}

/// minimax: lightning attention in all layers but those that `layer_types` calls full.
pub fn minimax(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([32000, 4096, 14336, 32, 32, 8, 0, 131_072], false);
    let mut d = Dimensions::read(c, &default)?;
    let moe = experts(c, &d, [8, 2])?;
    (d.experts, d.active_experts, d.expert_width) = (moe.experts, moe.active, moe.width);
    let types = c.strings("layer_types");
    let listed = c.ints("attn_type_list")?.unwrap_or_default();
    let mut stack = Stack::new(c, d.clone(), &default, request)?;
    for index in 0..d.layers {
        let at = usize::try_from(index).unwrap_or(usize::MAX);
        let full = match (types.get(at), listed.get(at)) {
            (Some(kind), _) => *kind == "full_attention",
            (None, Some(kind)) => *kind == 1,
            (None, None) => index.is_multiple_of(2),
        };
        let block = Block::new().norm("input_layernorm", d.hidden).norm("post_attention_layernorm", d.hidden);
        let block = if full {
            block.attention("self_attn", &d.attention(), Window::Full)
        } else {
            super::mixers::lightning(block, "self_attn", &d)
        };
        stack.layer(block.moe("block_sparse_moe", &moe));
    }
    Ok(stack.finish(Norm::Weight, false))
}

/// minicpm (remote code): Llama shapes, or experts where the file names them.
pub fn minicpm(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([32000, 4096, 11008, 32, 32, 0, 0, 2048], true);
    let count = c.int("num_experts", 0)?;
    let d = Dimensions::read(c, &default)?;
    let bias = c.bool("attention_bias", false)?;
    let dense = Dense { attention: d.attention().biases(bias, bias), ..Dense::new(&d) };
    if count == 0 {
        return dense.build(c, d, &default, request);
    }
    let moe = experts(c, &d, [count, 2])?;
    every_layer(c, request, &default, d, &dense, &moe, 0)
}

/// grok-1 (remote code): four norms a layer.
pub fn grok(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([131_072, 6144, 32768, 64, 48, 8, 0, 8192], true);
    let d = Dimensions::read(c, &default)?;
    let dense = Dense { norms: super::dense::FOUR_NORMS, ..Dense::new(&d) };
    let moe = experts(c, &d, [8, 2])?;
    every_layer(c, request, &default, d, &dense, &moe, 0)
}

/// arctic (remote code): a dense layer of the hidden width beside the experts.
pub fn arctic(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([32000, 7168, 4864, 35, 56, 8, 0, 4096], false);
    let mut d = Dimensions::read(c, &default)?;
    let moe = experts(c, &d, [128, 2])?;
    (d.experts, d.active_experts, d.expert_width) = (moe.experts, moe.active, moe.width);
    let dense = Dense { norms: &["input_layernorm", "post_attention_layernorm", "residual_layernorm"], ..Dense::new(&d) };
    let mut stack = Stack::new(c, d.clone(), &default, request)?;
    for index in 0..d.layers {
        stack.layer(dense.without_mlp(index).moe("block_sparse_moe", &moe).gated_mlp("residual_mlp", d.hidden, d.hidden, false));
    }
    Ok(stack.finish(Norm::Weight, false))
}

/// jetmoe: experts also in attention (queries and output), keys and values shared.
pub fn jetmoe(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([32000, 2048, 5632, 12, 32, 16, 128, 4096], true);
    let mut d = Dimensions::read(c, &default)?;
    d.kv_heads = c.int(keys::KV_HEADS, 16)?;
    let moe = experts(c, &d, [8, 2])?;
    (d.experts, d.active_experts, d.expert_width) = (moe.experts, moe.active, moe.width);
    let wide = d.kv_heads.saturating_mul(d.head_dim);
    let copies = (moe.experts, moe.active);
    let attention = Attention::new(d.hidden, d.kv_heads.saturating_mul(moe.active), d.kv_heads, d.head_dim);
    let layer = Block::new()
        .norm("input_layernorm", d.hidden)
        .param("self_attention.experts.bias", Role::Attention, &[d.hidden])
        .expert_linear("self_attention.experts.{e}.input_linear", wide, d.hidden, false, copies)
        .expert_linear("self_attention.experts.{e}.output_linear", d.hidden, wide, false, copies)
        .router("self_attention.router", moe.experts, d.hidden, false)
        .linear("self_attention.kv_proj", Role::Attention, wide.saturating_mul(2), d.hidden, false)
        .cache(attention.cache(Window::Full))
        .norm("post_attention_layernorm", d.hidden)
        .param("mlp.bias", Role::Mlp, &[d.hidden])
        .moe("mlp", &moe);
    let mut stack = Stack::new(c, d.clone(), &default, request)?;
    stack.layers(d.layers, &layer);
    Ok(stack.finish(Norm::Weight, false))
}

fn experts(c: Section<'_>, d: &Dimensions, [count, active]: [u64; 2]) -> Result<Moe> {
    Ok(Moe {
        hidden: d.hidden,
        experts: c.int("num_local_experts|num_experts|n_routed_experts", count)?,
        active: c.int(ACTIVE, active)?,
        width: d.intermediate,
        router_bias: false,
        expert_bias: false,
    })
}

fn every_layer(
    c: Section<'_>,
    request: Request,
    default: &Defaults,
    mut d: Dimensions,
    dense: &Dense,
    moe: &Moe,
    shared: u64,
) -> Result<Parts> {
    (d.experts, d.active_experts, d.expert_width) = (moe.experts, moe.active, moe.width);
    let (layers, hidden) = (d.layers, d.hidden);
    let mut stack = Stack::new(c, d, default, request)?;
    for index in 0..layers {
        let block = dense.without_mlp(index).moe("block_sparse_moe", moe);
        stack.layer(block.when(shared > 0, |block| block.gated("shared_mlp", Role::SharedExpert, hidden, shared, false)));
    }
    let norm = dense.last_norm;
    Ok(stack.finish(norm, false))
}
