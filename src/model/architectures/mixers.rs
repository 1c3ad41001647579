//! Recurrent and linear-attention mixers: Mamba, Mamba-2, gated delta net, Kimi delta attention,
//! lightning attention, short convolutions, RG-LRU. Each adds its tensors and its constant state.

use super::blocks::{Block, join, mul};
use super::decoder::Dimensions;
use crate::model::inventory::Role;
use crate::model::kv_cache::Cache;

/// Sizes of a Mamba layer.
#[derive(Debug, Clone, Copy)]
pub struct Mamba {
    /// Width of the residual stream.
    pub hidden: u64,
    /// Inner width.
    pub inner: u64,
    /// Kernel of the convolution.
    pub kernel: u64,
    /// State of a channel.
    pub state: u64,
    /// Rank of the time step.
    pub rank: u64,
    /// Biases of the projections.
    pub bias: bool,
    /// Bias of the convolution.
    pub conv_bias: bool,
}

/// Mamba (first version).
pub fn mamba1(block: Block, path: &str, m: &Mamba) -> Block {
    let name = |part: &str| join(path, part);
    let states = mul(m.state, 2).saturating_add(m.rank);
    block
        .linear(&name("in_proj"), Role::Mixer, mul(m.inner, 2), m.hidden, m.bias)
        .conv(&name("conv1d"), Role::Mixer, &[m.inner, 1, m.kernel], m.conv_bias)
        .linear(&name("x_proj"), Role::Mixer, states, m.inner, false)
        .linear(&name("dt_proj"), Role::Mixer, m.inner, m.rank, true)
        .param(&name("A_log"), Role::Mixer, &[m.inner, m.state])
        .param(&name("D"), Role::Mixer, &[m.inner])
        .linear(&name("out_proj"), Role::Mixer, m.hidden, m.inner, m.bias)
        .cache(Cache::State { channels: m.inner, kernel: m.kernel, recurrent: mul(m.inner, m.state) })
}

/// Sizes of a Mamba-2 layer.
#[derive(Debug, Clone, Copy)]
pub struct Mamba2 {
    /// Width of the residual stream.
    pub hidden: u64,
    /// Inner width.
    pub inner: u64,
    /// Heads.
    pub heads: u64,
    /// Width of a head.
    pub head_dim: u64,
    /// Groups of the states.
    pub groups: u64,
    /// State of a channel.
    pub state: u64,
    /// Kernel of the convolution.
    pub kernel: u64,
    /// Bias of the input and output projections.
    pub bias: bool,
    /// Bias of the convolution.
    pub conv_bias: bool,
    /// Whether the output is normalised by a gated norm.
    pub norm: bool,
}

/// Mamba-2.
pub fn mamba2(block: Block, path: &str, m: &Mamba2) -> Block {
    let name = |part: &str| join(path, part);
    let channels = m.inner.saturating_add(mul(2, mul(m.groups, m.state)));
    block
        .linear(&name("in_proj"), Role::Mixer, m.inner.saturating_add(channels).saturating_add(m.heads), m.hidden, m.bias)
        .conv(&name("conv1d"), Role::Mixer, &[channels, 1, m.kernel], m.conv_bias)
        .param(&name("dt_bias"), Role::Mixer, &[m.heads])
        .param(&name("A_log"), Role::Mixer, &[m.heads])
        .param(&name("D"), Role::Mixer, &[m.heads])
        .when(m.norm, |block| block.norm(&name("norm"), m.inner))
        .linear(&name("out_proj"), Role::Mixer, m.hidden, m.inner, m.bias)
        .cache(Cache::State { channels, kernel: m.kernel, recurrent: mul(mul(m.heads, m.head_dim), m.state) })
}

/// Sizes of a gated delta net.
#[derive(Debug, Clone, Copy)]
pub struct DeltaNet {
    /// Width of the residual stream.
    pub hidden: u64,
    /// Key heads.
    pub key_heads: u64,
    /// Value heads.
    pub value_heads: u64,
    /// Width of a key head.
    pub key_dim: u64,
    /// Width of a value head.
    pub value_dim: u64,
    /// Kernel of the convolution.
    pub kernel: u64,
}

/// Gated delta net (Qwen3-Next and later).
pub fn delta_net(block: Block, path: &str, m: &DeltaNet) -> Block {
    let name = |part: &str| join(path, part);
    let (keys, values) = (mul(m.key_heads, m.key_dim), mul(m.value_heads, m.value_dim));
    let channels = mul(keys, 2).saturating_add(values);
    block
        .linear(&name("in_proj_qkv"), Role::Mixer, channels, m.hidden, false)
        .linear(&name("in_proj_z"), Role::Mixer, values, m.hidden, false)
        .linear(&name("in_proj_b"), Role::Mixer, m.value_heads, m.hidden, false)
        .linear(&name("in_proj_a"), Role::Mixer, m.value_heads, m.hidden, false)
        .conv(&name("conv1d"), Role::Mixer, &[channels, 1, m.kernel], false)
        .param(&name("dt_bias"), Role::Mixer, &[m.value_heads])
        .param(&name("A_log"), Role::Mixer, &[m.value_heads])
        .norm(&name("norm"), m.value_dim)
        .linear(&name("out_proj"), Role::Mixer, m.hidden, values, false)
        .cache(Cache::State { channels, kernel: m.kernel, recurrent: mul(m.value_heads, mul(m.key_dim, m.value_dim)) })
}

/// Kimi delta attention: heads of one width, low-rank gates.
pub fn kimi_delta(block: Block, path: &str, hidden: u64, heads: u64, dim: u64, kernel: u64) -> Block {
    let name = |part: &str| join(path, part);
    let wide = mul(heads, dim);
    ["q", "k", "v"]
        .iter()
        .fold(block, |block, part| {
            block.linear(&name(&format!("{part}_proj")), Role::Mixer, wide, hidden, false).conv(
                &name(&format!("{part}_conv1d")),
                Role::Mixer,
                &[wide, 1, kernel],
                false,
            )
        })
        .param(&name("A_log"), Role::Mixer, &[heads])
        .linear(&name("f_a_proj"), Role::Mixer, dim, hidden, false)
        .linear(&name("f_b_proj"), Role::Mixer, wide, dim, false)
        .param(&name("dt_bias"), Role::Mixer, &[wide])
        .linear(&name("b_proj"), Role::Mixer, heads, hidden, false)
        .linear(&name("g_a_proj"), Role::Mixer, dim, hidden, false)
        .linear(&name("g_b_proj"), Role::Mixer, wide, dim, false)
        .norm(&name("o_norm"), dim)
        .linear(&name("o_proj"), Role::Mixer, hidden, wide, false)
        .cache(Cache::State { channels: mul(wide, 3), kernel, recurrent: mul(heads, mul(dim, dim)) })
}

/// Lightning attention (MiniMax-01).
pub fn lightning(block: Block, path: &str, d: &Dimensions) -> Block {
    let name = |part: &str| join(path, part);
    let wide = mul(d.heads, d.head_dim);
    block
        .norm(&name("norm"), wide)
        .linear(&name("qkv_proj"), Role::Mixer, mul(wide, 3), d.hidden, false)
        .linear(&name("out_proj"), Role::Mixer, d.hidden, wide, false)
        .linear(&name("output_gate"), Role::Mixer, wide, d.hidden, false)
        .cache(Cache::State { channels: 0, kernel: 0, recurrent: mul(d.heads, mul(d.head_dim, d.head_dim)) })
}

/// Short convolution with gates (LFM2).
pub fn short_conv(block: Block, path: &str, hidden: u64, kernel: u64, bias: bool) -> Block {
    let name = |part: &str| join(path, part);
    block
        .linear(&name("in_proj"), Role::Mixer, mul(hidden, 3), hidden, bias)
        .conv(&name("conv"), Role::Mixer, &[hidden, 1, kernel], bias)
        .linear(&name("out_proj"), Role::Mixer, hidden, hidden, bias)
        .cache(Cache::State { channels: hidden, kernel, recurrent: 0 })
}
