//! mimo_v2_flash: sliding layers with sizes of their own.

use super::blocks::{Attention, Block, Norm, Window};
use super::decoder::{Defaults, Dimensions, Parts, Request, Stack};
use super::sparse::{Experts, Sparse};
use crate::model::config::{Result, Section};
use crate::model::inventory::Role;

/// mimo_v2_flash: sliding layers have sizes of their own and sinks; values are narrower than keys.
pub fn mimo_v2(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([152_576, 4096, 16384, 48, 64, 4, 192, 131_072], false);
    let mut d = Dimensions::read(c, &default)?;
    let bias = c.bool("attention_bias", false)?;
    let value = c.int("v_head_dim", 128)?;
    let full = Attention { value_dim: value, ..d.attention().biases(bias, false) };
    let sliding = Attention {
        heads: c.int("swa_num_attention_heads", d.heads)?,
        kv_heads: c.int("swa_num_key_value_heads", d.kv_heads.saturating_mul(2))?,
        head_dim: c.int("swa_head_dim", d.head_dim)?,
        value_dim: c.int("swa_v_head_dim", value)?,
        ..full
    };
    let window = c.int("sliding_window|sliding_window_size", 128)?;
    let sparse = Sparse::read(c, &mut d, Experts { count: 256, active: 8, width: 2048, shared: 0, dense_layers: 1 })?;
    let pattern = c.flags("hybrid_layer_pattern");
    let types = c.strings("layer_types");
    let (swa_sinks, full_sinks) = (c.bool("add_swa_attention_sink_bias", true)?, c.bool("add_full_attention_sink_bias", false)?);
    let mut stack = Stack::new(c, d.clone(), &default, request)?;
    for index in 0..d.layers {
        let at = usize::try_from(index).unwrap_or(usize::MAX);
        let slides = match (&pattern, types.get(at)) {
            (_, Some(kind)) => *kind == "sliding_attention",
            (Some(list), None) => list.get(at).copied().unwrap_or(false),
            (None, None) => index != 0 && !(index + 1).is_multiple_of(6),
        };
        let block = Block::new().norm("input_layernorm", d.hidden).norm("post_attention_layernorm", d.hidden);
        let (attention, window, sinks) =
            if slides { (&sliding, Window::Sliding(window), swa_sinks) } else { (&full, Window::Full, full_sinks) };
        let block = block
            .attention("self_attn", attention, window)
            .when(sinks, |block| block.param("self_attn.sinks", Role::Scale, &[attention.heads]));
        stack.layer(sparse.add(block, index));
    }
    Ok(stack.finish(Norm::Weight, false))
}
