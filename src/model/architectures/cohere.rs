//! Command families: cohere, cohere2. One weight-only LayerNorm a layer.

use super::blocks::{QkNorm, Window};
use super::decoder::{Defaults, Dimensions, Parts, Request, Stack, windows};
use super::dense::Dense;
use crate::model::config::{Result, Section};

/// cohere: with `use_qk_norm` each head has a norm of its own.
pub fn cohere(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([256000, 8192, 22528, 40, 64, 0, 0, 8192], true);
    let d = Dimensions::read(c, &default)?;
    let bias = c.bool("attention_bias", false)?;
    let qk_norm = if c.bool("use_qk_norm", false)? { QkNorm::FullWidth } else { QkNorm::Off };
    let dense = Dense { attention: d.attention().biases(bias, bias).qk_norm(qk_norm), norms: &["input_layernorm"], ..Dense::new(&d) };
    dense.build(c, d, &default, request)
}

/// cohere2: three sliding layers to a full one.
pub fn cohere2(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([256000, 8192, 22528, 40, 64, 0, 0, 8192], true);
    let d = Dimensions::read(c, &default)?;
    let bias = c.bool("attention_bias", false)?;
    let every = c.divisor("sliding_window_pattern|_sliding_window_pattern", 4)?;
    let windows: Vec<Window> = windows(c, d.layers, Some(c.int("sliding_window", 4096)?), |index| !(index + 1).is_multiple_of(every));
    let dense = Dense { attention: d.attention().biases(bias, bias), norms: &["input_layernorm"], windows, ..Dense::new(&d) };
    let mut stack = Stack::new(c, d.clone(), &default, request)?;
    for index in 0..d.layers {
        stack.layer(dense.layer(index, d.intermediate));
    }
    Ok(stack.finish(super::blocks::Norm::Weight, false))
}
