//! deepseek_v4: one shared key-value head, grouped output projection, compressed caches beside a
//! window, hyper-connections instead of plain residuals.

use super::blocks::{Block, Norm, mul};
use super::decoder::{Defaults, Dimensions, Parts, Request, Stack};
use super::sparse::{Experts, Sparse};
use crate::model::config::{Result, Section};
use crate::model::inventory::Role;
use crate::model::kv_cache::Cache;

/// What a layer compresses beside its window.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Compression {
    None,
    /// Compressed sparse attention with an indexer.
    Sparse,
    /// Heavily compressed attention.
    Heavy,
}

/// deepseek_v4.
pub fn deepseek_v4(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([129_280, 4096, 2048, 43, 64, 1, 512, 1_048_576], false);
    let mut d = Dimensions::read(c, &default)?;
    let (rank, streams) = (c.int("q_lora_rank", 1024)?, c.int("hc_mult", 4)?);
    let (groups, out_rank) = (c.divisor("o_groups", 8)?, c.int("o_lora_rank", 1024)?);
    let window = c.int("sliding_window", 128)?;
    let rates = c.section("compress_rates");
    let sparse_rate = c.int("compress_rate_csa", rates.int("compressed_sparse_attention", 4)?)?;
    let heavy_rate = c.int("compress_rate_hca", rates.int("heavily_compressed_attention", 128)?)?;
    let (index_heads, index_dim) = (c.int("index_n_heads", 64)?, c.int("index_head_dim", 128)?);
    let kinds = c.strings("layer_types");
    let ratios = c.ints("compress_ratios")?.unwrap_or_default();
    let mut sparse = Sparse::read(c, &mut d, Experts { count: 256, active: 6, width: 2048, shared: 1, dense_layers: 0 })?;
    sparse.layers.fill(true);
    sparse.bias = c.bool("mlp_bias", false)?;
    let compression = |index: u64| {
        let at = usize::try_from(index).unwrap_or(usize::MAX);
        match (kinds.get(at), ratios.get(at)) {
            (Some(&"compressed_sparse_attention"), _) | (None, Some(4)) => Compression::Sparse,
            (Some(&"heavily_compressed_attention"), _) | (None, Some(128)) => Compression::Heavy,
            (Some(_), _) | (None, Some(_)) => Compression::None,
            (None, None) if index >= 2 && (index - 2) % 2 == 1 => Compression::Sparse,
            (None, None) => Compression::Heavy,
        }
    };
    let wide = mul(d.heads, d.head_dim);
    let mix = mul(streams, 2).saturating_add(mul(streams, streams));
    let streams_width = mul(streams, d.hidden);
    let hyper = |block: Block, path: &str| {
        block.param(&format!("{path}.fn"), Role::Scale, &[mix, streams_width]).param(&format!("{path}.base"), Role::Scale, &[mix]).param(
            &format!("{path}.scale"),
            Role::Scale,
            &[3],
        )
    };
    let compressor = |block: Block, path: &str, width: u64, rate: u64, norm: u64| {
        block
            .linear(&format!("{path}.kv_proj"), Role::Attention, width, d.hidden, false)
            .linear(&format!("{path}.gate_proj"), Role::Attention, width, d.hidden, false)
            .param(&format!("{path}.position_bias"), Role::Attention, &[rate, width])
            .norm(&format!("{path}.kv_norm"), norm)
    };
    let mut stack = Stack::new(c, d.clone(), &default, request)?;
    for index in 0..d.layers {
        let block = Block::new()
            .norm("input_layernorm", d.hidden)
            .norm("post_attention_layernorm", d.hidden)
            .linear("self_attn.q_a_proj", Role::Attention, rank, d.hidden, false)
            .norm("self_attn.q_a_norm", rank)
            .linear("self_attn.q_b_proj", Role::Attention, wide, rank, false)
            .linear("self_attn.kv_proj", Role::Attention, d.head_dim, d.hidden, false)
            .norm("self_attn.kv_norm", d.head_dim)
            .linear("self_attn.o_a_proj", Role::Attention, mul(groups, out_rank), wide / groups, false)
            .linear("self_attn.o_b_proj", Role::Attention, d.hidden, mul(groups, out_rank), false)
            .param("self_attn.sinks", Role::Scale, &[d.heads])
            .cache(Cache::Sliding { heads: 1, key: d.head_dim, value: 0, window });
        let block = hyper(hyper(block, "attn_hc"), "ffn_hc");
        let block = match compression(index) {
            Compression::None => block,
            Compression::Heavy => compressor(block, "self_attn.compressor", d.head_dim, heavy_rate, d.head_dim)
                .cache(Cache::Compressed { width: d.head_dim, rate: heavy_rate }),
            Compression::Sparse => {
                let block = compressor(block, "self_attn.compressor", mul(d.head_dim, 2), sparse_rate, d.head_dim);
                compressor(block, "self_attn.compressor.indexer", mul(index_dim, 2), sparse_rate, index_dim)
                    .linear("self_attn.compressor.indexer.q_b_proj", Role::Indexer, mul(index_heads, index_dim), rank, false)
                    .linear("self_attn.compressor.indexer.weights_proj", Role::Indexer, index_heads, d.hidden, false)
                    .cache(Cache::Compressed { width: d.head_dim.saturating_add(index_dim), rate: sparse_rate })
            }
        };
        stack.layer(sparse.add(block, index));
    }
    let plain = (0..d.layers).filter(|index| compression(*index) == Compression::None).count();
    stack.note(format!(
        "keys and values are one tensor and count once; transformers holds it twice in the {plain} layers that have a window only, and once in the others"
    ));
    stack.note("the KV cache counts windows and compressed entries (keys of the indexer among them); the tokens that a compressor has not yet joined are left out");
    let head = Block::new()
        .norm_of(Norm::Weight, "norm", d.hidden)
        .param("hc_head.hc_fn", Role::Scale, &[streams, streams_width])
        .param("hc_head.hc_base", Role::Scale, &[streams])
        .param("hc_head.hc_scale", Role::Scale, &[1]);
    Ok(stack.finish_with(head, false))
}
