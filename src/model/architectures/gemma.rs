//! Gemma families with one form of layer: gemma, gemma2, gemma3, vaultgemma.

use super::blocks::{QkNorm, Window};
use super::decoder::{Defaults, Dimensions, Parts, Request, windows};
use super::dense::{Dense, FOUR_NORMS};
use crate::model::config::{Result, Section};

/// gemma.
pub fn gemma(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([256000, 3072, 24576, 28, 16, 16, 256, 8192], true);
    let d = Dimensions::read(c, &default)?;
    let bias = c.bool("attention_bias", false)?;
    Dense { attention: d.attention().biases(bias, bias), ..Dense::new(&d) }.build(c, d, &default, request)
}

/// gemma2: four norms a layer, sliding and full layers in turn.
pub fn gemma2(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([256000, 2304, 9216, 26, 8, 4, 256, 8192], true);
    let d = Dimensions::read(c, &default)?;
    let bias = c.bool("attention_bias", false)?;
    let windows = windows(c, d.layers, Some(c.int("sliding_window", 4096)?), |index| index.is_multiple_of(2));
    Dense { attention: d.attention().biases(bias, bias), norms: FOUR_NORMS, windows, ..Dense::new(&d) }.build(c, d, &default, request)
}

/// vaultgemma: gemma2 with two norms a layer.
pub fn vaultgemma(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([256000, 2304, 9216, 26, 8, 4, 256, 8192], true);
    let d = Dimensions::read(c, &default)?;
    let bias = c.bool("attention_bias", false)?;
    let windows = windows(c, d.layers, Some(c.int("sliding_window", 4096)?), |index| index.is_multiple_of(2));
    Dense { attention: d.attention().biases(bias, bias), windows, ..Dense::new(&d) }.build(c, d, &default, request)
}

/// gemma3_text: normalised queries and keys, five sliding layers to a full one.
pub fn gemma3(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([262208, 2304, 9216, 26, 8, 4, 256, 131072], true);
    let d = Dimensions::read(c, &default)?;
    let bias = c.bool("attention_bias", false)?;
    let every = c.divisor("sliding_window_pattern|_sliding_window_pattern", 6)?;
    let windows: Vec<Window> = windows(c, d.layers, Some(c.int("sliding_window", 4096)?), |index| !(index + 1).is_multiple_of(every));
    Dense { attention: d.attention().biases(bias, bias).qk_norm(QkNorm::PerHead), norms: FOUR_NORMS, windows, ..Dense::new(&d) }
        .build(c, d, &default, request)
}
