//! Further decoders: dots1, exaone_moe, afmoe, solar_open, hy_v3, apertus, nanochat, diffllama,
//! olmo_hybrid, rwkv and zamba.

use super::blocks::{Attention, Block, Norm, QkNorm, Window, mul};
use super::decoder::{Defaults, Dimensions, Parts, Request, Stack, windows};
use super::dense::{Dense, Mlp};
use super::sparse::{Experts, Sparse};
use crate::model::config::{Result, Section};
use crate::model::inventory::Role;
use crate::model::kv_cache::Cache;

/// dots1: normalised queries and keys, dense layers first, windows from a layer on.
pub fn dots1(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([152_064, 4608, 10944, 62, 32, 0, 0, 2048], false);
    let d = Dimensions::read(c, &default)?;
    let from = c.int("max_window_layers", d.layers)?;
    let windows = windows(c, d.layers, c.int_opt("sliding_window")?, |index| {
        index >= from
    });
    routed(
        c,
        request,
        &default,
        d,
        Experts {
            count: 0,
            active: 0,
            width: 1408,
            shared: 0,
            dense_layers: 0,
        },
        QkNorm::PerHead,
        windows,
    )
}

/// exaone_moe: three sliding layers to a full one.
pub fn exaone_moe(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([102_400, 4096, 16384, 32, 32, 32, 0, 2048], false);
    let d = Dimensions::read(c, &default)?;
    let window = if c.has("sliding_window") {
        c.int_opt("sliding_window")?
    } else {
        Some(4096)
    };
    let every = if c.str("sliding_window_pattern").is_some() {
        4
    } else {
        c.int("sliding_window_pattern", 4)?.max(1)
    };
    let windows = windows(c, d.layers, window, |index| {
        !(index + 1).is_multiple_of(every)
    });
    routed(
        c,
        request,
        &default,
        d,
        Experts {
            count: 64,
            active: 8,
            width: 1024,
            shared: 1,
            dense_layers: 1,
        },
        QkNorm::PerHead,
        windows,
    )
}

/// hy_v3: normalised queries and keys, one dense layer first.
pub fn hy_v3(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([120_832, 4096, 13312, 80, 64, 8, 128, 131_072], false);
    let d = Dimensions::read(c, &default)?;
    routed(
        c,
        request,
        &default,
        d,
        Experts {
            count: 192,
            active: 8,
            width: 1536,
            shared: 1,
            dense_layers: 1,
        },
        QkNorm::PerHead,
        Vec::new(),
    )
}

/// solar_open: experts in every layer.
pub fn solar_open(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([196_608, 4096, 10240, 48, 64, 8, 128, 131_072], false);
    let d = Dimensions::read(c, &default)?;
    routed(
        c,
        request,
        &default,
        d,
        Experts {
            count: 128,
            active: 8,
            width: 1280,
            shared: 1,
            dense_layers: 0,
        },
        QkNorm::Off,
        Vec::new(),
    )
}

fn routed(
    c: Section<'_>,
    request: Request,
    default: &Defaults,
    mut d: Dimensions,
    experts: Experts,
    qk_norm: QkNorm,
    windows: Vec<Window>,
) -> Result<Parts> {
    let bias = c.bool("attention_bias", false)?;
    let dense = Dense {
        attention: d.attention().biases(bias, bias).qk_norm(qk_norm),
        windows,
        ..Dense::new(&d)
    };
    let sparse = Sparse::read(c, &mut d, experts)?;
    let layers = d.layers;
    let mut stack = Stack::new(c, d, default, request)?;
    for index in 0..layers {
        stack.layer(sparse.add(dense.without_mlp(index), index));
    }
    Ok(stack.finish(Norm::Weight, false))
}

/// afmoe: gated attention, four norms a layer, a bias of the router as a parameter.
pub fn afmoe(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([200_192, 2048, 6144, 32, 16, 0, 128, 16384], false);
    let mut d = Dimensions::read(c, &default)?;
    let every = c.divisor("global_attn_every_n_layers", 4)?;
    let windows = windows(c, d.layers, Some(c.int("sliding_window", 1024)?), |index| {
        !(index + 1).is_multiple_of(every)
    });
    let dense = Dense {
        attention: d.attention().qk_norm(QkNorm::PerHead),
        norms: &[
            "input_layernorm",
            "post_attention_layernorm",
            "pre_mlp_layernorm",
            "post_mlp_layernorm",
        ],
        windows,
        ..Dense::new(&d)
    };
    let sparse = Sparse::read(
        c,
        &mut d,
        Experts {
            count: 64,
            active: 6,
            width: 1408,
            shared: 2,
            dense_layers: 1,
        },
    )?;
    let gate = mul(d.heads, d.head_dim);
    let mut stack = Stack::new(c, d.clone(), &default, request)?;
    for index in 0..d.layers {
        let block = dense.without_mlp(index).linear(
            "self_attn.gate_proj",
            Role::Attention,
            gate,
            d.hidden,
            false,
        );
        let block = block.when(sparse.has_experts(index), |block| {
            block.param("mlp.expert_bias", Role::Router, &[sparse.moe.experts])
        });
        stack.layer(sparse.add(block, index));
    }
    Ok(stack.finish(Norm::Weight, false))
}

/// apertus: a feed-forward layer without a gate, whose activation has two parameters.
pub fn apertus(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([131_072, 4096, 14336, 32, 32, 0, 0, 65536], false);
    let d = Dimensions::read(c, &default)?;
    let bias = c.bool("attention_bias", false)?;
    let learned = c.str("hidden_act").unwrap_or("xielu") == "xielu";
    let dense = Dense {
        attention: d.attention().biases(bias, bias).qk_norm(QkNorm::PerHead),
        mlp: Mlp::Plain("up_proj", "down_proj"),
        norms: &["attention_layernorm", "feedforward_layernorm"],
        ..Dense::new(&d)
    };
    let mut stack = Stack::new(c, d.clone(), &default, request)?;
    for index in 0..d.layers {
        stack.layer(dense.layer(index, d.intermediate).when(learned, |block| {
            block.param("mlp.act_fn.alpha_p", Role::Scale, &[1]).param(
                "mlp.act_fn.alpha_n",
                Role::Scale,
                &[1],
            )
        }));
    }
    Ok(stack.finish(Norm::Weight, false))
}

/// nanochat: norms without parameters, a feed-forward layer without a gate.
pub fn nanochat(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([50304, 768, 8192, 12, 6, 0, 0, 2048], false);
    let d = Dimensions::read(c, &default)?;
    let bias = c.bool("attention_bias", false)?;
    Dense {
        attention: d.attention().biases(bias, bias),
        mlp: Mlp::Plain("fc1", "fc2"),
        norm: Norm::Bare,
        last_norm: Norm::Bare,
        ..Dense::new(&d)
    }
    .build(c, d, &default, request)
}

/// diffllama: Llama with four vectors that mix two attentions.
pub fn diffllama(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([32000, 2048, 8192, 16, 32, 0, 0, 2048], false);
    let d = Dimensions::read(c, &default)?;
    let bias = c.bool("attention_bias", false)?;
    let dense = Dense {
        attention: d.attention().biases(bias, bias),
        ..Dense::new(&d)
    };
    let mut stack = Stack::new(c, d.clone(), &default, request)?;
    for index in 0..d.layers {
        let vectors = ["lambda_q1", "lambda_k1", "lambda_q2", "lambda_k2"];
        stack.layer(
            vectors
                .iter()
                .fold(dense.layer(index, d.intermediate), |block, name| {
                    block.param(&format!("self_attn.{name}"), Role::Scale, &[d.head_dim])
                }),
        );
    }
    Ok(stack.finish(Norm::Weight, false))
}

/// olmo_hybrid: gated delta nets with separate projections, and attention of the olmo3 form.
pub fn olmo_hybrid(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([100_352, 3840, 11008, 32, 30, 0, 0, 65536], false);
    let d = Dimensions::read(c, &default)?;
    let bias = c.bool("attention_bias", false)?;
    let attention = d.attention().biases(bias, bias).qk_norm(QkNorm::FullWidth);
    let (key_heads, value_heads) = (
        c.int("linear_num_key_heads", d.heads)?,
        c.int("linear_num_value_heads", d.heads)?,
    );
    let key_dim = c.int("linear_key_head_dim", 96)?;
    let value_dim = c.int("linear_value_head_dim", mul(key_dim, 2))?;
    let kernel = c.int("linear_conv_kernel_dim", 4)?;
    let (keys, values) = (mul(key_heads, key_dim), mul(value_heads, value_dim));
    let kinds = c.strings("layer_types");
    let mut stack = Stack::new(c, d.clone(), &default, request)?;
    for index in 0..d.layers {
        let named = usize::try_from(index)
            .ok()
            .and_then(|index| kinds.get(index));
        let full = named.map_or((index + 1).is_multiple_of(4), |kind| {
            *kind == "full_attention"
        });
        let block = Block::new()
            .norm("post_attention_layernorm", d.hidden)
            .gated_mlp("mlp", d.hidden, d.intermediate, false);
        stack.layer(if full {
            block
                .norm("post_feedforward_layernorm", d.hidden)
                .attention("self_attn", &attention, Window::Full)
        } else {
            [
                ("q_proj", keys),
                ("k_proj", keys),
                ("v_proj", values),
                ("a_proj", value_heads),
                ("b_proj", value_heads),
                ("g_proj", values),
            ]
            .iter()
            .fold(
                block.norm("input_layernorm", d.hidden),
                |block, (name, out)| {
                    block.linear(
                        &format!("linear_attn.{name}"),
                        Role::Mixer,
                        *out,
                        d.hidden,
                        false,
                    )
                },
            )
            .linear("linear_attn.o_proj", Role::Mixer, d.hidden, values, false)
            .conv(
                "linear_attn.conv1d",
                Role::Mixer,
                &[mul(keys, 2).saturating_add(values), 1, kernel],
                false,
            )
            .param("linear_attn.A_log", Role::Mixer, &[value_heads])
            .param("linear_attn.dt_bias", Role::Mixer, &[value_heads])
            .norm("linear_attn.o_norm", value_dim)
            .cache(Cache::State {
                channels: mul(keys, 2).saturating_add(values),
                kernel,
                recurrent: mul(value_heads, mul(key_dim, value_dim)),
            })
        });
    }
    Ok(stack.finish(Norm::Weight, false))
}

/// rwkv (fourth generation): time and channel mixing, no attention.
pub fn rwkv(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([50277, 4096, 0, 32, 1, 0, 0, 1024], false);
    let d = Dimensions::read(c, &default)?;
    let wide = c.int("attention_hidden_size", d.hidden)?;
    let mut stack = Stack::new(c, d.clone(), &default, request)?;
    for index in 0..d.layers {
        let block = Block::new()
            .when(index == 0, |block| block.layer_norm("pre_ln", d.hidden))
            .layer_norm("ln1", d.hidden)
            .layer_norm("ln2", d.hidden);
        let mixes = [
            "attention.time_mix_key",
            "attention.time_mix_value",
            "attention.time_mix_receptance",
            "feed_forward.time_mix_key",
            "feed_forward.time_mix_receptance",
        ];
        let block = mixes.iter().fold(block, |block, name| {
            block.param(name, Role::Mixer, &[1, 1, d.hidden])
        });
        let block = block
            .param("attention.time_decay", Role::Mixer, &[wide])
            .param("attention.time_first", Role::Mixer, &[wide]);
        let block = ["key", "value", "receptance"]
            .iter()
            .fold(block, |block, name| {
                block.linear(
                    &format!("attention.{name}"),
                    Role::Mixer,
                    wide,
                    d.hidden,
                    false,
                )
            });
        stack.layer(
            block
                .linear("attention.output", Role::Mixer, d.hidden, wide, false)
                .linear(
                    "feed_forward.key",
                    Role::Mlp,
                    d.intermediate,
                    d.hidden,
                    false,
                )
                .linear(
                    "feed_forward.receptance",
                    Role::Mlp,
                    d.hidden,
                    d.hidden,
                    false,
                )
                .linear(
                    "feed_forward.value",
                    Role::Mlp,
                    d.hidden,
                    d.intermediate,
                    false,
                )
                .cache(Cache::State {
                    channels: d.hidden,
                    kernel: 2,
                    recurrent: mul(wide, 3),
                }),
        );
    }
    Ok(stack.finish(Norm::WeightBias, false))
}

/// zamba: Mamba layers with several heads, one shared attention block used at regular distance.
pub fn zamba(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([32000, 3712, 14848, 76, 16, 0, 0, 4096], true);
    let mut d = Dimensions::read(c, &default)?;
    d.kv_heads = c.int("num_key_value_heads", d.heads)?;
    let wide = c.int("attention_hidden_size", mul(d.hidden, 2))?;
    d.head_dim = c.int("attention_head_dim", mul(2, d.hidden) / d.heads)?;
    let inner = mul(d.hidden, c.int("mamba_expand", 2)?);
    let (heads, state) = (c.divisor("n_mamba_heads", 2)?, c.int("mamba_d_state", 16)?);
    let rank = if c.str("mamba_dt_rank") == Some("auto") {
        None
    } else {
        c.int_opt("mamba_dt_rank")?
    }
    .unwrap_or(d.hidden.div_ceil(16));
    let (conv_bias, bias, kernel) = (
        c.bool("mamba_conv_bias", true)?,
        c.bool("mamba_proj_bias", false)?,
        c.int("mamba_d_conv", 4)?,
    );
    let own = inner / heads;
    let mamba = Block::new()
        .norm("input_layernorm", d.hidden)
        .linear("mamba.in_proj", Role::Mixer, mul(inner, 2), d.hidden, bias)
        .conv("mamba.conv1d", Role::Mixer, &[inner, 1, kernel], conv_bias)
        .param(
            "mamba.x_proj_weight",
            Role::Mixer,
            &[heads, mul(state, 2).saturating_add(rank), own],
        )
        .param("mamba.dt_proj_weight", Role::Mixer, &[heads, own, rank])
        .param("mamba.dt_proj_bias", Role::Mixer, &[heads, own])
        .param("mamba.A_log", Role::Mixer, &[heads, own, state])
        .param("mamba.D", Role::Mixer, &[heads, own])
        .linear("mamba.out_proj", Role::Mixer, d.hidden, inner, bias)
        .cache(Cache::State {
            channels: inner,
            kernel,
            recurrent: mul(inner, state),
        });
    let kinds = c.strings("layers_block_type");
    let (every, offset) = (
        c.divisor("attn_layer_period", 6)?,
        c.int("attn_layer_offset", 4)?,
    );
    let hybrid = |index: u64| match usize::try_from(index)
        .ok()
        .and_then(|index| kinds.get(index))
    {
        Some(kind) => *kind == "hybrid",
        None => index == 2 || (index > 2 && index % every == offset),
    };
    let attention = Attention {
        hidden: wide,
        ..d.attention()
    };
    let shared = Block::new()
        .norm("input_layernorm", wide)
        .norm("pre_ff_layernorm", d.hidden)
        .linear(
            "self_attn.q_proj",
            Role::Attention,
            mul(d.heads, d.head_dim),
            wide,
            false,
        )
        .linear(
            "self_attn.k_proj",
            Role::Attention,
            mul(d.kv_heads, d.head_dim),
            wide,
            false,
        )
        .linear(
            "self_attn.v_proj",
            Role::Attention,
            mul(d.kv_heads, d.head_dim),
            wide,
            false,
        )
        .linear(
            "self_attn.o_proj",
            Role::Attention,
            d.hidden,
            mul(d.heads, d.head_dim),
            false,
        )
        .gated_mlp("feed_forward", d.hidden, d.intermediate, false);
    let mut stack = Stack::new(c, d.clone(), &default, request)?;
    stack.layer_at("model.shared_transformer.{i}", 0, shared);
    for index in 0..d.layers {
        let join = |block: Block| {
            block
                .linear("linear", Role::Attention, d.hidden, d.hidden, false)
                .cache(attention.cache(Window::Full))
        };
        stack.layer(mamba.clone().when(hybrid(index), join));
    }
    Ok(stack.finish(Norm::Weight, false))
}
