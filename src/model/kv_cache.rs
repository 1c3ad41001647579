//! What generation keeps per layer: keys and values, latents, recurrent states.
//!
//! A [`Cache`] says what one layer keeps; sums over an inventory give bytes a token and bytes a
//! sequence. Two allocators differ and are both named: transformers grows its caches with the text,
//! vLLM reserves pages of a fixed number of tokens. Constant states (recurrent layers) and
//! cross-attention (one entry a token of the encoder) are no part of the bytes a token.

use super::inventory::Inventory;

/// Cache of one layer. Widths are elements a token; multiply by the bytes of the cache dtype.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cache {
    /// Keys and values of every token.
    Full {
        /// KV heads.
        heads: u64,
        /// Width of keys of all KV heads.
        key: u64,
        /// Width of values of all KV heads.
        value: u64,
    },
    /// Keys and values of the last `window` tokens.
    Sliding {
        /// KV heads.
        heads: u64,
        /// Width of keys of all KV heads.
        key: u64,
        /// Width of values of all KV heads.
        value: u64,
        /// Tokens that are kept.
        window: u64,
    },
    /// Keys and values of the current chunk of tokens.
    Chunked {
        /// KV heads.
        heads: u64,
        /// Width of keys of all KV heads.
        key: u64,
        /// Width of values of all KV heads.
        value: u64,
        /// Tokens of a chunk.
        chunk: u64,
    },
    /// Compressed latent of multi-head latent attention.
    Latent {
        /// Width of the latent with its rotary part.
        latent: u64,
        /// Width when an engine expands it to keys and values of all heads.
        expanded: u64,
    },
    /// Keys of a sparse-attention indexer; counted apart from keys and values.
    Indexer {
        /// Width of the key.
        width: u64,
    },
    /// Keys and values over the tokens of an encoder, filled once.
    Cross {
        /// Width of keys and values together, an encoder token.
        width: u64,
    },
    /// State of a recurrent or linear-attention layer, constant in the length of the text.
    State {
        /// Channels of the causal convolution.
        channels: u64,
        /// Columns of the convolution state (the kernel size).
        kernel: u64,
        /// Elements of the recurrent state.
        recurrent: u64,
    },
}

impl Cache {
    /// Elements a token adds while nothing has slid out of a window.
    pub fn per_token(&self) -> u64 {
        match *self {
            Cache::Full { key, value, .. }
            | Cache::Sliding { key, value, .. }
            | Cache::Chunked { key, value, .. } => key.saturating_add(value),
            Cache::Latent { latent, .. } => latent,
            Cache::Indexer { .. } | Cache::Cross { .. } | Cache::State { .. } => 0,
        }
    }

    /// Tokens that a sequence of `length` keeps in this layer.
    pub fn kept(&self, length: u64) -> u64 {
        match *self {
            Cache::Sliding { window, .. } => length.min(window),
            Cache::Chunked { chunk, .. } => length.min(chunk),
            _ => length,
        }
    }
}

/// Who holds the cache; their allocations differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    /// transformers' dynamic cache: grows with the text, a window keeps its tokens.
    Transformers,
    /// vLLM's paged cache: whole blocks, windows padded by the tokens of a scheduler step.
    Vllm {
        /// Tokens of a block (16 by default).
        block: u64,
        /// Most tokens of one scheduler step.
        batched_tokens: u64,
    },
}

/// Bytes a token adds to the cache of one sequence, over all layers, for elements of `bytes` bytes.
pub fn bytes_per_token(inventory: &Inventory, bytes: u64) -> u128 {
    sum(inventory, |cache| u128::from(cache.per_token())).saturating_mul(u128::from(bytes))
}

/// Bytes a token adds for the keys of a sparse-attention indexer.
pub fn indexer_bytes_per_token(inventory: &Inventory, bytes: u64) -> u128 {
    let width = |cache: &Cache| {
        if let Cache::Indexer { width } = cache {
            u128::from(*width)
        } else {
            0
        }
    };
    sum(inventory, width).saturating_mul(u128::from(bytes))
}

/// Bytes one sequence of `length` tokens holds or reserves.
///
/// `bytes` is the size of an element of the cache, `state_bytes` of a recurrent state (transformers
/// keeps it in 32 bits), `encoder_tokens` the length of the encoder's output for cross-attention.
pub fn bytes_per_sequence(
    inventory: &Inventory,
    engine: Engine,
    length: u64,
    bytes: u64,
    state_bytes: u64,
    encoder_tokens: u64,
) -> u128 {
    let one = |cache: &Cache| -> u128 {
        let per_token = u128::from(cache.per_token());
        match *cache {
            Cache::State {
                channels,
                kernel,
                recurrent,
            } => {
                let columns = if engine == Engine::Transformers {
                    kernel
                } else {
                    kernel.saturating_sub(1)
                };
                let conv = u128::from(channels)
                    .saturating_mul(u128::from(columns))
                    .saturating_mul(u128::from(bytes));
                conv.saturating_add(u128::from(recurrent).saturating_mul(u128::from(state_bytes)))
            }
            Cache::Cross { width } => u128::from(width)
                .saturating_mul(u128::from(encoder_tokens))
                .saturating_mul(u128::from(bytes)),
            Cache::Indexer { width } => u128::from(width)
                .saturating_mul(u128::from(length))
                .saturating_mul(u128::from(bytes)),
            _ => per_token
                .saturating_mul(u128::from(tokens(cache, engine, length)))
                .saturating_mul(u128::from(bytes)),
        }
    };
    sum(inventory, one)
}

/// Tokens for which an engine holds room in a layer.
fn tokens(cache: &Cache, engine: Engine, length: u64) -> u64 {
    let Engine::Vllm {
        block,
        batched_tokens,
    } = engine
    else {
        return cache.kept(length);
    };
    let block = block.max(1);
    let blocks = |tokens: u64| tokens.div_ceil(block).saturating_mul(block);
    match *cache {
        // One block more, because a window need not start at the border of a block.
        Cache::Sliding { window, .. } => blocks(
            window
                .saturating_sub(1)
                .saturating_add(batched_tokens)
                .min(length),
        )
        .saturating_add(block),
        Cache::Chunked { chunk, .. } => blocks(chunk.saturating_add(batched_tokens).min(length)),
        _ => blocks(length),
    }
}

fn sum(inventory: &Inventory, of: impl Fn(&Cache) -> u128) -> u128 {
    let group = |caches: &[Cache], count: u64| {
        caches
            .iter()
            .map(&of)
            .fold(0u128, u128::saturating_add)
            .saturating_mul(u128::from(count))
    };
    inventory
        .groups
        .iter()
        .map(|one| group(&one.caches, one.count()))
        .fold(0, u128::saturating_add)
}
