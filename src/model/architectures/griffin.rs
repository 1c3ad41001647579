//! recurrent_gemma (Griffin): gated linear recurrences, and attention over a window.

use super::blocks::{Block, Norm, Window};
use super::decoder::{Defaults, Dimensions, Parts, Request, Stack};
use crate::model::config::{Result, Section};
use crate::model::inventory::Role;
use crate::model::kv_cache::Cache;

/// recurrent_gemma: RG-LRU layers, and attention over a window in every third.
pub fn recurrent_gemma(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([256_000, 2560, 7680, 26, 10, 0, 0, 8192], true);
    let mut d = Dimensions::read(c, &default)?;
    d.kv_heads = c.int("num_key_value_heads", d.heads)?;
    let bias = c.bool("attention_bias", false)?;
    let attention = d.attention().biases(bias, true);
    let window = c.int("attention_window_size|sliding_window", 2048)?;
    let width = c.int("lru_width", d.hidden)?;
    let kernel = c.int("conv1d_width", 4)?;
    let kinds = match c.strings("_block_types|block_types|layers_block_type") {
        list if list.is_empty() => vec!["recurrent", "recurrent", "attention"],
        list => list,
    };
    let head = width / d.heads;
    let mut stack = Stack::new(c, d.clone(), &default, request)?;
    for index in 0..d.layers {
        let kind = kinds.get(usize::try_from(index).unwrap_or(0) % kinds.len()).copied().unwrap_or("recurrent");
        let block = Block::new().norm("temporal_pre_norm", d.hidden).norm("channel_pre_norm", d.hidden);
        let block = if kind.contains("attention") {
            block.attention("temporal_block", &attention, Window::Sliding(window))
        } else {
            block
                .linear("temporal_block.linear_y", Role::Mixer, width, d.hidden, true)
                .linear("temporal_block.linear_x", Role::Mixer, width, d.hidden, true)
                .linear("temporal_block.linear_out", Role::Mixer, d.hidden, width, true)
                .conv("temporal_block.conv_1d", Role::Mixer, &[width, 1, kernel], true)
                .param("temporal_block.rg_lru.recurrent_param", Role::Mixer, &[width])
                .param("temporal_block.rg_lru.input_gate_weight", Role::Mixer, &[d.heads, head, head])
                .param("temporal_block.rg_lru.input_gate_bias", Role::Mixer, &[d.heads, head])
                .param("temporal_block.rg_lru.recurrent_gate_weight", Role::Mixer, &[d.heads, head, head])
                .param("temporal_block.rg_lru.recurrent_gate_bias", Role::Mixer, &[d.heads, head])
                .cache(Cache::State { channels: width, kernel: kernel.saturating_sub(1), recurrent: width })
        };
        // The width in the file counts the gate and the up projection together.
        stack.layer(block.gated_mlp("mlp_block", d.hidden, d.intermediate / 2, true));
    }
    Ok(stack.finish(Norm::Weight, false))
}
