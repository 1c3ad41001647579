//! Further decoders: dots1, exaone_moe, afmoe, solar_open, hy_v3, apertus, nanochat, diffllama,
//! olmo_hybrid, rwkv and zamba.

use super::blocks::{Norm, QkNorm, Window, mul};
use super::decoder::{Defaults, Dimensions, Parts, Request, Stack, windows};
use super::dense::{Dense, Mlp};
use super::sparse::{Experts, Sparse};
use crate::model::config::{Result, Section};
use crate::model::inventory::Role;

/// dots1: normalised queries and keys, dense layers first, windows from a layer on.
pub fn dots1(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([152_064, 4608, 10944, 62, 32, 0, 0, 2048], false);
    let d = Dimensions::read(c, &default)?;
    let from = c.int("max_window_layers", d.layers)?;
    let windows = windows(c, d.layers, c.int_opt("sliding_window")?, |index| index >= from);
    routed(c, request, &default, d, Experts { count: 0, active: 0, width: 1408, shared: 0, dense_layers: 0 }, QkNorm::PerHead, windows)
}

/// exaone_moe: three sliding layers to a full one.
pub fn exaone_moe(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([102_400, 4096, 16384, 32, 32, 32, 0, 2048], false);
    let d = Dimensions::read(c, &default)?;
    let window = if c.has("sliding_window") { c.int_opt("sliding_window")? } else { Some(4096) };
    let every = if c.str("sliding_window_pattern").is_some() { 4 } else { c.int("sliding_window_pattern", 4)?.max(1) };
    let windows = windows(c, d.layers, window, |index| !(index + 1).is_multiple_of(every));
    routed(c, request, &default, d, Experts { count: 64, active: 8, width: 1024, shared: 1, dense_layers: 1 }, QkNorm::PerHead, windows)
}

/// hy_v3: normalised queries and keys, one dense layer first.
pub fn hy_v3(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([120_832, 4096, 13312, 80, 64, 8, 128, 131_072], false);
    let d = Dimensions::read(c, &default)?;
    routed(c, request, &default, d, Experts { count: 192, active: 8, width: 1536, shared: 1, dense_layers: 1 }, QkNorm::PerHead, Vec::new())
}

/// solar_open: experts in every layer.
pub fn solar_open(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([196_608, 4096, 10240, 48, 64, 8, 128, 131_072], false);
    let d = Dimensions::read(c, &default)?;
    routed(c, request, &default, d, Experts { count: 128, active: 8, width: 1280, shared: 1, dense_layers: 0 }, QkNorm::Off, Vec::new())
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
    let model_type = c.str("model_type").unwrap_or("");
    let out_bias = bias && model_type != "solar_open";
    let dense = Dense { attention: d.attention().biases(bias, out_bias).qk_norm(qk_norm), windows, ..Dense::new(&d) };
    let mut sparse = Sparse::read(c, &mut d, experts)?;
    sparse.bias = model_type == "hy_v3" && c.bool("mlp_bias", false)?;
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
    let bias = c.bool("attention_bias", false)?;
    let every = c.divisor("global_attn_every_n_layers", 4)?;
    let windows = windows(c, d.layers, Some(c.int("sliding_window", 1024)?), |index| !(index + 1).is_multiple_of(every));
    let dense = Dense {
        attention: d.attention().biases(bias, bias).qk_norm(QkNorm::PerHead),
        norms: &["input_layernorm", "post_attention_layernorm", "pre_mlp_layernorm", "post_mlp_layernorm"],
        windows,
        ..Dense::new(&d)
    };
    let sparse = Sparse::read(c, &mut d, Experts { count: 64, active: 6, width: 1408, shared: 2, dense_layers: 1 })?;
    let gate = mul(d.heads, d.head_dim);
    let mut stack = Stack::new(c, d.clone(), &default, request)?;
    for index in 0..d.layers {
        let block = dense.without_mlp(index).linear("self_attn.gate_proj", Role::Attention, gate, d.hidden, false);
        let block = block.when(sparse.has_experts(index), |block| block.param("mlp.expert_bias", Role::Router, &[sparse.moe.experts]));
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
        stack.layer(
            dense
                .layer(index, d.intermediate)
                .when(learned, |block| block.param("mlp.act_fn.alpha_p", Role::Scale, &[1]).param("mlp.act_fn.alpha_n", Role::Scale, &[1])),
        );
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
    let dense = Dense { attention: d.attention().biases(bias, bias), ..Dense::new(&d) };
    let mut stack = Stack::new(c, d.clone(), &default, request)?;
    for index in 0..d.layers {
        let vectors = ["lambda_q1", "lambda_k1", "lambda_q2", "lambda_k2"];
        stack.layer(
            vectors.iter().fold(dense.layer(index, d.intermediate), |block, name| {
                block.param(&format!("self_attn.{name}"), Role::Scale, &[d.head_dim])
            }),
        );
    }
    Ok(stack.finish(Norm::Weight, false))
}
