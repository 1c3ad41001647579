//! Qwen families, dense and with experts: qwen, qwen2, qwen3, qwen2_moe, qwen3_moe.

use super::blocks::{Moe, Norm, QkNorm, Window};
use super::decoder::{Defaults, Dimensions, Parts, Request, Stack, windows};
use super::dense::Dense;
use crate::model::config::{Result, Section};
use crate::model::inventory::Role;

/// qwen (first version): `intermediate_size` counts the gate and the up projection together.
pub fn qwen(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([151936, 4096, 22016, 32, 32, 0, 0, 8192], false);
    let mut d = Dimensions::read(c, &default)?;
    d.kv_heads = d.heads;
    d.intermediate /= 2;
    let dense =
        Dense { attention: d.attention().biases(true, !c.bool("no_bias", true)?), mlp_bias: !c.bool("no_bias", true)?, ..Dense::new(&d) };
    dense.build(c, d, &default, request)
}

/// qwen2: biases of queries, keys and values always, and never of the output.
pub fn qwen2(c: Section<'_>, request: Request) -> Result<Parts> {
    qwen2_of(c, request, Defaults::of([151936, 4096, 22016, 32, 32, 32, 0, 32768], false))
}

/// qwen2_vl_text and qwen2_5_vl_text: other defaults.
pub fn qwen2_vl(c: Section<'_>, request: Request) -> Result<Parts> {
    qwen2_of(c, request, Defaults::of([152064, 8192, 29568, 80, 64, 8, 0, 32768], false))
}

fn qwen2_of(c: Section<'_>, request: Request, default: Defaults) -> Result<Parts> {
    let d = Dimensions::read(c, &default)?;
    let dense = Dense { attention: d.attention().biases(true, false), windows: qwen_windows(c, d.layers)?, ..Dense::new(&d) };
    dense.build(c, d, &default, request)
}

/// qwen3: normalised queries and keys, heads of width 128 by default.
pub fn qwen3(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([151936, 4096, 22016, 32, 32, 32, 128, 32768], false);
    let d = Dimensions::read(c, &default)?;
    let bias = c.bool("attention_bias", false)?;
    let dense = Dense {
        attention: d.attention().biases(bias, bias).qk_norm(QkNorm::PerHead),
        windows: qwen_windows(c, d.layers)?,
        ..Dense::new(&d)
    };
    dense.build(c, d, &default, request)
}

/// qwen2_moe: routed experts, one shared expert with a gate of its own.
pub fn qwen2_moe(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([151936, 2048, 5632, 24, 16, 16, 0, 32768], false);
    let d = Dimensions::read(c, &default)?;
    let dense =
        Dense { attention: d.attention().biases(c.bool("qkv_bias", true)?, false), windows: qwen_windows(c, d.layers)?, ..Dense::new(&d) };
    let experts = [
        c.int("num_experts|num_local_experts|n_routed_experts", 60)?,
        c.int("num_experts_per_tok", 4)?,
        c.int("moe_intermediate_size", 1408)?,
    ];
    let shared = c.int("shared_expert_intermediate_size", 5632)?;
    sparse(c, request, &default, d, &dense, experts, Some(shared))
}

/// qwen3_moe: routed experts only.
pub fn qwen3_moe(c: Section<'_>, request: Request) -> Result<Parts> {
    qwen3_moe_of(c, request, Defaults::of([151936, 2048, 6144, 24, 32, 4, 0, 32768], false), [128, 8, 768])
}

/// qwen3_omni_moe_text: other defaults.
pub fn qwen3_omni_moe(c: Section<'_>, request: Request) -> Result<Parts> {
    qwen3_moe_of(c, request, Defaults::of([3584, 2048, 18944, 28, 28, 4, 0, 32768], false), [128, 8, 768])
}

/// qwen3_vl_moe_text: other defaults.
pub fn qwen3_vl_moe(c: Section<'_>, request: Request) -> Result<Parts> {
    qwen3_moe_of(c, request, Defaults::of([151936, 2048, 5632, 24, 16, 16, 0, 128_000], false), [60, 4, 1408])
}

fn qwen3_moe_of(c: Section<'_>, request: Request, default: Defaults, [count, active, width]: [u64; 3]) -> Result<Parts> {
    let d = Dimensions::read(c, &default)?;
    let bias = c.bool("attention_bias", false)?;
    let dense = Dense {
        attention: d.attention().biases(bias, bias).qk_norm(QkNorm::PerHead),
        windows: qwen_windows(c, d.layers)?,
        ..Dense::new(&d)
    };
    let experts = [
        c.int("num_experts|num_local_experts|n_routed_experts", count)?,
        c.int("num_experts_per_tok", active)?,
        c.int("moe_intermediate_size", width)?,
    ];
    sparse(c, request, &default, d, &dense, experts, None)
}

/// Layers whose feed-forward part is a mixture of experts, but for the listed ones.
fn sparse(
    c: Section<'_>,
    request: Request,
    default: &Defaults,
    mut d: Dimensions,
    dense: &Dense,
    [experts, active, width]: [u64; 3],
    shared: Option<u64>,
) -> Result<Parts> {
    (d.experts, d.active_experts, d.expert_width) = (experts, active, width);
    let step = c.divisor("decoder_sparse_step", 1)?;
    let dense_layers = c.ints("mlp_only_layers")?.unwrap_or_default();
    let moe = Moe { hidden: d.hidden, experts, active, width, router_bias: false, expert_bias: false };
    let (layers, intermediate, hidden) = (d.layers, d.intermediate, d.hidden);
    let mut stack = Stack::new(c, d, default, request)?;
    for index in 0..layers {
        let is_dense = dense_layers.contains(&index) || experts == 0 || !(index + 1).is_multiple_of(step);
        stack.layer(match shared {
            _ if is_dense => dense.layer(index, intermediate),
            None => dense.without_mlp(index).moe("mlp", &moe),
            Some(shared) => dense
                .without_mlp(index)
                .moe("mlp", &moe)
                .gated("mlp.shared_expert", Role::SharedExpert, hidden, shared, false)
                .param("mlp.shared_expert_gate", Role::Router, &[1, hidden]),
        });
    }
    Ok(stack.finish(Norm::Weight, false))
}

/// Windows apply only with `use_sliding_window`, and from layer `max_window_layers` on.
pub fn qwen_windows(c: Section<'_>, layers: u64) -> Result<Vec<Window>> {
    let window = if c.bool("use_sliding_window", false)? { Some(c.int("sliding_window", 4096)?) } else { None };
    let from = c.int("max_window_layers", 28)?;
    Ok(windows(c, layers, window, |index| index >= from))
}
