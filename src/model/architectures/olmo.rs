//! OLMo families: olmo, olmo2, olmo3, olmoe, flex_olmo.

use super::blocks::{Moe, Norm, QkNorm};
use super::decoder::{Defaults, Dimensions, Parts, Request, Stack, windows};
use super::dense::Dense;
use crate::model::config::{Result, Section};

const POST_NORMS: &[&str] = &["post_attention_layernorm", "post_feedforward_layernorm"];

/// olmo: its norms have no parameters.
pub fn olmo(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([50304, 4096, 11008, 32, 32, 0, 0, 2048], false);
    let d = Dimensions::read(c, &default)?;
    let bias = c.bool("attention_bias", false)?;
    Dense { attention: d.attention().biases(bias, bias), norm: Norm::Bare, last_norm: Norm::Bare, ..Dense::new(&d) }
        .build(c, d, &default, request)
}

/// olmo2: norms after the sub-layers, normalised queries and keys over their whole width.
pub fn olmo2(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([50304, 4096, 11008, 32, 32, 0, 0, 2048], false);
    let d = Dimensions::read(c, &default)?;
    let bias = c.bool("attention_bias", false)?;
    Dense { attention: d.attention().biases(bias, bias).qk_norm(QkNorm::FullWidth), norms: POST_NORMS, ..Dense::new(&d) }
        .build(c, d, &default, request)
}

/// olmo3: olmo2 with three sliding layers to a full one.
pub fn olmo3(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([50304, 4096, 11008, 32, 32, 0, 0, 2048], false);
    let d = Dimensions::read(c, &default)?;
    let bias = c.bool("attention_bias", false)?;
    let windows = windows(c, d.layers, Some(c.int("sliding_window", 4096)?), |index| !(index + 1).is_multiple_of(4));
    Dense { attention: d.attention().biases(bias, bias).qk_norm(QkNorm::FullWidth), norms: POST_NORMS, windows, ..Dense::new(&d) }
        .build(c, d, &default, request)
}

/// olmoe: routed experts, norms before the sub-layers.
pub fn olmoe(c: Section<'_>, request: Request) -> Result<Parts> {
    experts(c, request, &Defaults::of([50304, 2048, 2048, 16, 16, 0, 0, 4096], false), super::dense::TWO_NORMS, [64, 8])
}

/// flex_olmo: olmo2 with routed experts.
pub fn flex_olmo(c: Section<'_>, request: Request) -> Result<Parts> {
    experts(c, request, &Defaults::of([100352, 4096, 11008, 32, 32, 0, 0, 4096], false), POST_NORMS, [7, 5])
}

fn experts(
    c: Section<'_>,
    request: Request,
    default: &Defaults,
    norms: &'static [&'static str],
    [count, active]: [u64; 2],
) -> Result<Parts> {
    let mut d = Dimensions::read(c, default)?;
    let bias = c.bool("attention_bias", false)?;
    let dense = Dense { attention: d.attention().biases(bias, bias).qk_norm(QkNorm::FullWidth), norms, ..Dense::new(&d) };
    let moe = Moe {
        hidden: d.hidden,
        experts: c.int("num_experts|num_local_experts", count)?,
        active: c.int("num_experts_per_tok", active)?,
        width: d.intermediate,
        router_bias: false,
        expert_bias: false,
    };
    (d.experts, d.active_experts, d.expert_width) = (moe.experts, moe.active, moe.width);
    let layers = d.layers;
    let mut stack = Stack::new(c, d, default, request)?;
    for index in 0..layers {
        stack.layer(dense.without_mlp(index).moe("mlp", &moe));
    }
    Ok(stack.finish(Norm::Weight, false))
}
