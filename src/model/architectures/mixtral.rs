//! Decoders with routed experts in every layer: mixtral, granitemoe, gpt_oss, dbrx, minimax,
//! minimax_m2, minicpm, grok, arctic, jetmoe, ernie4_5_moe, hunyuan, llama4, mimo_v2_flash.

use super::blocks::{Attention, Block, Moe, Norm, QkNorm, Window};
use super::decoder::{Defaults, Dimensions, Parts, Request, Stack, keys, windows};
use super::dense::Dense;
use super::sparse::{ACTIVE, COUNT, Experts, SHARED, Sparse};
use crate::model::config::{Result, Section};
use crate::model::inventory::Role;

/// mixtral.
pub fn mixtral(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([32000, 4096, 14336, 32, 32, 8, 0, 131_072], false);
    let d = Dimensions::read(c, &default)?;
    let dense = Dense {
        windows: windows(c, d.layers, c.int_opt("sliding_window")?, |_| true),
        ..Dense::new(&d)
    };
    let moe = experts(c, &d, [8, 2])?;
    every_layer(c, request, &default, d, &dense, &moe, 0)
}

/// granitemoe and granitemoeshared: the latter has one shared expert of its own width.
pub fn granitemoe(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([32000, 4096, 11008, 32, 32, 0, 0, 2048], false);
    let d = Dimensions::read(c, &default)?;
    let bias = c.bool("attention_bias", false)?;
    let dense = Dense {
        attention: d.attention().biases(bias, bias),
        ..Dense::new(&d)
    };
    let moe = experts(c, &d, [8, 2])?;
    every_layer(
        c,
        request,
        &default,
        d,
        &dense,
        &moe,
        c.int("shared_intermediate_size", 0)?,
    )
}

/// gpt_oss: biases everywhere, sinks, sliding and full layers in turn.
pub fn gpt_oss(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([201_088, 2880, 2880, 36, 64, 8, 64, 131_072], false);
    let mut d = Dimensions::read(c, &default)?;
    let bias = c.bool("attention_bias", true)?;
    let moe = Moe {
        router_bias: true,
        expert_bias: true,
        ..experts(c, &d, [128, 4])?
    };
    (d.experts, d.active_experts, d.expert_width) = (moe.experts, moe.active, moe.width);
    let window = if c.has("sliding_window") {
        c.int_opt("sliding_window")?
    } else {
        Some(128)
    };
    let dense = Dense {
        attention: d.attention().biases(bias, bias),
        windows: windows(c, d.layers, window, |index| index.is_multiple_of(2)),
        ..Dense::new(&d)
    };
    let mut stack = Stack::new(c, d.clone(), &default, request)?;
    for index in 0..d.layers {
        stack.layer(
            dense
                .without_mlp(index)
                .param("self_attn.sinks", Role::Scale, &[d.heads])
                .moe("mlp", &moe),
        );
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
    let dense = Dense {
        fused_qkv: true,
        ..Dense::new(&d)
    };
    every_layer(c, request, &default, d, &dense, &moe, 0)
}

/// minimax_m2: queries and keys normalised over their whole width.
pub fn minimax_m2(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([200_064, 3072, 1536, 62, 48, 8, 128, 196_608], false);
    let d = Dimensions::read(c, &default)?;
    let qk_norm = if c.bool("use_qk_norm", true)? {
        QkNorm::FullWidth
    } else {
        QkNorm::Off
    };
    let dense = Dense {
        attention: d.attention().qk_norm(qk_norm),
        ..Dense::new(&d)
    };
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
        let block = Block::new()
            .norm("input_layernorm", d.hidden)
            .norm("post_attention_layernorm", d.hidden);
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
    let dense = Dense {
        attention: d.attention().biases(bias, bias),
        ..Dense::new(&d)
    };
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
    let dense = Dense {
        norms: super::dense::FOUR_NORMS,
        ..Dense::new(&d)
    };
    let moe = experts(c, &d, [8, 2])?;
    every_layer(c, request, &default, d, &dense, &moe, 0)
}

/// arctic (remote code): a dense layer of the hidden width beside the experts.
pub fn arctic(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([32000, 7168, 4864, 35, 56, 8, 0, 4096], false);
    let mut d = Dimensions::read(c, &default)?;
    let moe = experts(c, &d, [128, 2])?;
    (d.experts, d.active_experts, d.expert_width) = (moe.experts, moe.active, moe.width);
    let dense = Dense {
        norms: &[
            "input_layernorm",
            "post_attention_layernorm",
            "residual_layernorm",
        ],
        ..Dense::new(&d)
    };
    let mut stack = Stack::new(c, d.clone(), &default, request)?;
    for index in 0..d.layers {
        stack.layer(
            dense
                .without_mlp(index)
                .moe("block_sparse_moe", &moe)
                .gated_mlp("residual_mlp", d.hidden, d.hidden, false),
        );
    }
    Ok(stack.finish(Norm::Weight, false))
}

/// ernie4_5_moe: dense layers first, the router's bias is a parameter of its own.
pub fn ernie_moe(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([103_424, 2560, 12288, 28, 20, 4, 0, 131_072], true);
    let mut d = Dimensions::read(c, &default)?;
    let bias = c.bool("use_bias", false)?;
    let dense = Dense {
        attention: d.attention().biases(bias, bias),
        mlp_bias: bias,
        ..Dense::new(&d)
    };
    let width = c.int("moe_intermediate_size", 1536)?;
    let moe = Moe {
        hidden: d.hidden,
        experts: c.int(COUNT, 64)?,
        active: c.int(ACTIVE, 6)?,
        width,
        router_bias: false,
        expert_bias: false,
    };
    (d.experts, d.active_experts, d.expert_width) = (moe.experts, moe.active, moe.width);
    let shared = width.saturating_mul(c.int(SHARED, 2)?);
    let (start, interval) = (
        c.int("moe_layer_start_index", 1)?,
        c.divisor("moe_layer_interval", 1)?,
    );
    // -1 stands for the last layer.
    let end = c.int("moe_layer_end_index", d.layers).unwrap_or(d.layers);
    let mut stack = Stack::new(c, d.clone(), &default, request)?;
    for index in 0..d.layers {
        let sparse = (index + 1).is_multiple_of(interval) && index >= start && index <= end;
        stack.layer(if sparse {
            dense
                .without_mlp(index)
                .moe("mlp", &moe)
                .param(
                    "mlp.moe_statics.e_score_correction_bias",
                    Role::Router,
                    &[1, moe.experts],
                )
                .when(shared > 0, |block| {
                    block.gated(
                        "mlp.shared_experts",
                        Role::SharedExpert,
                        d.hidden,
                        shared,
                        bias,
                    )
                })
        } else {
            dense.layer(index, d.intermediate)
        });
    }
    Ok(stack.finish(Norm::Weight, bias))
}

/// hunyuan and hunyuan_v1_moe: a shared expert beside the routed ones; with `use_cla` only every
/// n-th layer has keys and values of its own.
pub fn hunyuan_moe(c: Section<'_>, request: Request) -> Result<Parts> {
    let remote = c.str("model_type") == Some("hunyuan");
    let default = Defaults::of([290_943, 4096, 11008, 32, 32, 0, 0, 2048], remote);
    let mut d = Dimensions::read(c, &default)?;
    let first = |names: &str, default: u64| -> Result<u64> {
        Ok(c.ints(names)?
            .and_then(|list| list.first().copied())
            .unwrap_or(default))
    };
    let width = match first("moe_intermediate_size", 0)? {
        0 => d.intermediate,
        width => width,
    };
    let moe = Moe {
        hidden: d.hidden,
        experts: c.int("num_experts", 1)?,
        active: first("moe_topk", 1)?,
        width,
        router_bias: false,
        expert_bias: false,
    };
    (d.experts, d.active_experts, d.expert_width) = (moe.experts, moe.active, moe.width);
    let shared_default = 1;
    let shared = if c.bool("use_mixed_mlp_moe", true)? {
        width.saturating_mul(first("num_shared_expert", shared_default)?)
    } else {
        0
    };
    let share = if c.bool("use_cla", false)? {
        c.divisor("cla_share_factor", 2)?
    } else {
        1
    };
    let bias = c.bool("attention_bias", false)?;
    let attention = d
        .attention()
        .biases(bias, bias)
        .qk_norm(if c.bool("use_qk_norm", true)? {
            QkNorm::PerHead
        } else {
            QkNorm::Off
        });
    let mut stack = Stack::new(c, d.clone(), &default, request)?;
    for index in 0..d.layers {
        let block = Block::new()
            .norm("input_layernorm", d.hidden)
            .norm("post_attention_layernorm", d.hidden);
        let block = if index.is_multiple_of(share) {
            block.attention("self_attn", &attention, Window::Full)
        } else {
            without_kv(block, &attention)
        };
        let block = block.moe("mlp", &moe);
        stack.layer(block.when(shared > 0, |block| {
            block.gated(
                "mlp.shared_mlp",
                Role::SharedExpert,
                d.hidden,
                shared,
                false,
            )
        }));
    }
    Ok(stack.finish(Norm::Weight, false))
}

/// Attention that uses the keys and values of an earlier layer.
fn without_kv(block: Block, a: &Attention) -> Block {
    let wide = a.heads.saturating_mul(a.head_dim);
    let block = block
        .linear(
            "self_attn.q_proj",
            Role::Attention,
            wide,
            a.hidden,
            a.qkv_bias,
        )
        .linear(
            "self_attn.o_proj",
            Role::Attention,
            a.hidden,
            wide,
            a.out_bias,
        );
    block.when(a.qk_norm == QkNorm::PerHead, |block| {
        block.norm("self_attn.q_norm", a.head_dim)
    })
}

/// llama4_text: chunked attention in three layers of four, experts in every n-th layer.
pub fn llama4(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([202_048, 5120, 8192, 48, 40, 8, 128, 131_072], false);
    let mut d = Dimensions::read(c, &default)?;
    let bias = c.bool("attention_bias", false)?;
    let attention = d.attention().biases(bias, bias);
    let moe = Moe {
        hidden: d.hidden,
        experts: c.int(COUNT, 16)?,
        active: c.int(ACTIVE, 1)?,
        width: d.intermediate,
        router_bias: false,
        expert_bias: false,
    };
    (d.experts, d.active_experts, d.expert_width) = (moe.experts, moe.active, moe.width);
    let dense_width = c.int("intermediate_size_mlp", 16384)?;
    let step = c.divisor("interleave_moe_layer_step", 1)?;
    let listed = c.ints("moe_layers")?;
    let chunk = c
        .int_opt("attention_chunk_size")?
        .or(if c.has("attention_chunk_size") {
            None
        } else {
            Some(8192)
        });
    let interval = c.divisor("no_rope_layer_interval", 4)?;
    let types = c.strings("layer_types");
    let rotary = c.flags("no_rope_layers").filter(|list| !list.is_empty());
    let mut stack = Stack::new(c, d.clone(), &default, request)?;
    for index in 0..d.layers {
        let at = usize::try_from(index).unwrap_or(usize::MAX);
        let chunked = match (types.get(at), &rotary) {
            (Some(kind), _) => *kind == "chunked_attention",
            (None, Some(list)) => list.get(at).copied().unwrap_or(true),
            (None, None) => !(index + 1).is_multiple_of(interval),
        };
        let window = match chunk {
            Some(chunk) if chunked => Window::Chunked(chunk),
            _ => Window::Full,
        };
        let sparse = match &listed {
            Some(list) => list.contains(&index),
            None => (index + 1).is_multiple_of(step),
        };
        let block = Block::new()
            .norm("input_layernorm", d.hidden)
            .norm("post_attention_layernorm", d.hidden)
            .attention("self_attn", &attention, window);
        stack.layer(if sparse {
            block
                .router("feed_forward.router", moe.experts, d.hidden, false)
                .experts("feed_forward", &moe)
                .gated(
                    "feed_forward.shared_expert",
                    Role::SharedExpert,
                    d.hidden,
                    d.intermediate,
                    false,
                )
        } else {
            block.gated_mlp("feed_forward", d.hidden, dense_width, false)
        });
    }
    Ok(stack.finish(Norm::Weight, false))
}

/// mimo_v2_flash: sliding layers have sizes of their own and sinks; values are narrower than keys.
pub fn mimo_v2(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([152_576, 4096, 16384, 48, 64, 4, 192, 131_072], false);
    let mut d = Dimensions::read(c, &default)?;
    let bias = c.bool("attention_bias", false)?;
    let value = c.int("v_head_dim", 128)?;
    let full = Attention {
        value_dim: value,
        ..d.attention().biases(bias, false)
    };
    let sliding = Attention {
        heads: c.int("swa_num_attention_heads", d.heads)?,
        kv_heads: c.int("swa_num_key_value_heads", d.kv_heads.saturating_mul(2))?,
        head_dim: c.int("swa_head_dim", d.head_dim)?,
        value_dim: c.int("swa_v_head_dim", value)?,
        ..full
    };
    let window = c.int("sliding_window|sliding_window_size", 128)?;
    let sparse = Sparse::read(
        c,
        &mut d,
        Experts {
            count: 256,
            active: 8,
            width: 2048,
            shared: 0,
            dense_layers: 1,
        },
    )?;
    let pattern = c.flags("hybrid_layer_pattern");
    let types = c.strings("layer_types");
    let (swa_sinks, full_sinks) = (
        c.bool("add_swa_attention_sink_bias", true)?,
        c.bool("add_full_attention_sink_bias", false)?,
    );
    let mut stack = Stack::new(c, d.clone(), &default, request)?;
    for index in 0..d.layers {
        let at = usize::try_from(index).unwrap_or(usize::MAX);
        let slides = match (&pattern, types.get(at)) {
            (_, Some(kind)) => *kind == "sliding_attention",
            (Some(list), None) => list.get(at).copied().unwrap_or(false),
            (None, None) => index != 0 && !(index + 1).is_multiple_of(6),
        };
        let block = Block::new()
            .norm("input_layernorm", d.hidden)
            .norm("post_attention_layernorm", d.hidden);
        let (attention, window, sinks) = if slides {
            (&sliding, Window::Sliding(window), swa_sinks)
        } else {
            (&full, Window::Full, full_sinks)
        };
        let block = block
            .attention("self_attn", attention, window)
            .when(sinks, |block| {
                block.param("self_attn.sinks", Role::Scale, &[attention.heads])
            });
        stack.layer(sparse.add(block, index));
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
    let attention = Attention::new(
        d.hidden,
        d.kv_heads.saturating_mul(moe.active),
        d.kv_heads,
        d.head_dim,
    );
    let layer = Block::new()
        .norm("input_layernorm", d.hidden)
        .param("self_attention.experts.bias", Role::Attention, &[d.hidden])
        .expert_linear(
            "self_attention.experts.{e}.input_linear",
            wide,
            d.hidden,
            false,
            copies,
        )
        .expert_linear(
            "self_attention.experts.{e}.output_linear",
            d.hidden,
            wide,
            false,
            copies,
        )
        .router("self_attention.router", moe.experts, d.hidden, false)
        .linear(
            "self_attention.kv_proj",
            Role::Attention,
            wide.saturating_mul(2),
            d.hidden,
            false,
        )
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
        stack.layer(block.when(shared > 0, |block| {
            block.gated("shared_mlp", Role::SharedExpert, hidden, shared, false)
        }));
    }
    let norm = dense.last_norm;
    Ok(stack.finish(norm, false))
}
