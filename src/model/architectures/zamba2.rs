//! zamba2: Mamba-2 layers, some of them joined by shared attention blocks.

use super::blocks::{Block, Norm, Window};
use super::decoder::{Defaults, Dimensions, Parts, Request, Stack};
use super::mixers::{self, Mamba2};
use crate::model::config::{Result, Section};
use crate::model::inventory::Role;

/// zamba2: Mamba-2 layers, some of them joined by one of a few shared attention blocks.
pub fn zamba2(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([32000, 2560, 0, 54, 32, 0, 0, 4096], true);
    let mut d = Dimensions::read(c, &default)?;
    d.intermediate = c.int("intermediate_size|ffn_hidden_size", d.hidden.saturating_mul(4))?;
    let inner = d.hidden.saturating_mul(c.int("mamba_expand", 2)?);
    let heads = c.divisor("n_mamba_heads", 8)?;
    let bias = c.bool("add_bias_linear", false)?;
    let mixer = Mamba2 {
        hidden: d.hidden,
        inner,
        heads,
        head_dim: inner / heads,
        groups: c.int("mamba_ngroups", 1)?,
        state: c.int("mamba_d_state", 64)?,
        kernel: c.int("mamba_d_conv", 4)?,
        bias,
        conv_bias: true,
        norm: true,
    };
    let wide = d.hidden.saturating_mul(2);
    d.head_dim = c.int("attention_head_dim", wide / d.heads)?;
    let kinds = c.strings("layers_block_type");
    let hybrid: Vec<u64> = match c.ints("hybrid_layer_ids")? {
        Some(list) if kinds.is_empty() => list,
        _ if kinds.is_empty() => vec![6, 12, 18, 24, 30, 36, 42, 47, 51],
        _ => (0..d.layers).filter(|index| usize::try_from(*index).ok().and_then(|index| kinds.get(index)) == Some(&"hybrid")).collect(),
    };
    let shared_blocks = c.divisor("num_mem_blocks", 1)?.min(hybrid.len() as u64);
    let rank = c.int("adapter_rank", 128)?;
    let attention_adapters = c.bool("use_shared_attention_adapter", false)?;
    let attention = super::blocks::Attention { hidden: wide, ..d.attention() };
    let q_width = d.heads.saturating_mul(d.head_dim);
    let mut stack = Stack::new(c, d.clone(), &default, request)?;
    for block in 0..shared_blocks {
        let one = Block::new()
            .norm("input_layernorm", wide)
            .attention_named("self_attn", &attention, ["q_proj", "k_proj", "v_proj", ""])
            .norm("pre_ff_layernorm", d.hidden)
            .fused_gated_mlp("feed_forward", d.hidden, d.intermediate, ["gate_up_proj", "down_proj"], bias);
        stack.layer_at("model.shared_transformer.{i}", block, output_narrow(one, q_width, d.hidden));
    }
    for index in 0..d.layers {
        let block = mixers::mamba2(Block::new().norm("input_layernorm", d.hidden), "mamba", &mixer);
        if !hybrid.contains(&index) {
            stack.layer(block);
            continue;
        }
        let mut block = block
            .linear("linear", Role::Attention, d.hidden, d.hidden, false)
            .cache(attention.cache(Window::Full))
            .linear("gate_up_proj_adapter.0", Role::Mlp, rank, d.hidden, false)
            .linear("gate_up_proj_adapter.1", Role::Mlp, d.intermediate.saturating_mul(2), rank, false);
        if attention_adapters {
            for part in ["q", "k", "v"] {
                block = block.linear(&format!("linear_{part}_adapter.0"), Role::Attention, rank, wide, false).linear(
                    &format!("linear_{part}_adapter.1"),
                    Role::Attention,
                    wide,
                    rank,
                    false,
                );
            }
        }
        stack.layer(block);
    }
    if !c.bool("tie_word_embeddings", true)? {
        stack.inexact("with `tie_word_embeddings` off, newer classes also keep a copy of the shared blocks for each layer that uses them");
    }
    Ok(stack.finish(Norm::Weight, false))
}

/// The output of attention that reads twice the hidden width and writes the hidden width.
fn output_narrow(mut block: Block, input: u64, out: u64) -> Block {
    block.tensors.retain(|tensor| tensor.path != "self_attn.");
    block.linear("self_attn.o_proj", Role::Attention, out, input, false)
}
