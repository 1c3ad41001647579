//! What generation keeps per layer: keys and values, latents, recurrent states.
//!
//! A [`Cache`] says what one layer keeps; sums over an inventory give bytes a token and bytes a
//! sequence. Two allocators differ and are both named: transformers grows its caches with the text,
//! vLLM reserves pages of a fixed number of tokens. Constant states (recurrent layers) and
//! cross-attention (one entry a token of the encoder) are no part of the bytes a token.

pub mod vllm;

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
    /// One entry for several tokens, beside a window of whole ones.
    Compressed {
        /// Width of an entry.
        width: u64,
        /// Tokens of an entry.
        rate: u64,
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
            Cache::Full { key, value, .. } | Cache::Sliding { key, value, .. } | Cache::Chunked { key, value, .. } => {
                key.saturating_add(value)
            }
            Cache::Latent { latent, .. } => latent,
            Cache::Compressed { width, rate } => width / rate.max(1),
            Cache::Indexer { .. } | Cache::Cross { .. } | Cache::State { .. } => 0,
        }
    }

    /// Tokens that a sequence of `length` keeps in this layer.
    pub fn kept(&self, length: u64) -> u64 {
        match *self {
            Cache::Sliding { window, .. } => length.min(window),
            Cache::Chunked { chunk, .. } => length.min(chunk),
            Cache::Compressed { rate, .. } => length / rate.max(1),
            _ => length,
        }
    }
}

/// Layers of one kind and what they add together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KindSum {
    /// Kind of the layers.
    pub kind: &'static str,
    /// How many caches of the kind there are.
    pub layers: u64,
    /// Elements a token adds over all of them.
    pub per_token: u64,
    /// Tokens of the window or chunk, where there is one.
    pub window: Option<u64>,
    /// Elements that a sequence holds whatever its length.
    pub constant: u64,
}

/// The caches of a model by kind, in the order of their first layer.
pub fn kinds(inventory: &Inventory) -> Vec<KindSum> {
    let mut sums: Vec<KindSum> = Vec::new();
    for group in &inventory.groups {
        for cache in &group.caches {
            let count = group.count();
            let (kind, window, constant) = match *cache {
                Cache::Full { .. } => ("full", None, 0),
                Cache::Sliding { window, .. } => ("sliding", Some(window), 0),
                Cache::Chunked { chunk, .. } => ("chunked", Some(chunk), 0),
                Cache::Latent { .. } => ("latent", None, 0),
                Cache::Compressed { .. } => ("compressed", None, 0),
                Cache::Indexer { .. } => ("indexer", None, 0),
                Cache::Cross { .. } => ("cross", None, 0),
                Cache::State { channels, kernel, recurrent } => ("state", None, channels.saturating_mul(kernel).saturating_add(recurrent)),
            };
            let width = match *cache {
                Cache::Indexer { width } | Cache::Cross { width } => width,
                _ => cache.per_token(),
            };
            let (per_token, constant) = (width.saturating_mul(count), constant.saturating_mul(count));
            match sums.iter_mut().find(|sum| sum.kind == kind && sum.window == window) {
                Some(sum) => {
                    sum.layers = sum.layers.saturating_add(count);
                    sum.per_token = sum.per_token.saturating_add(per_token);
                    sum.constant = sum.constant.saturating_add(constant);
                }
                None => sums.push(KindSum { kind, layers: count, per_token, window, constant }),
            }
        }
    }
    sums
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
        if let Cache::Indexer { width } = cache { u128::from(*width) } else { 0 }
    };
    sum(inventory, width).saturating_mul(u128::from(bytes))
}

/// Bytes one sequence of `length` tokens holds or reserves.
///
/// `bytes` is the size of an element of the cache, `state_bytes` of a recurrent state (transformers
/// keeps it in 32 bits), `encoder_tokens` the length of the encoder's output for cross-attention.
pub fn bytes_per_sequence(inventory: &Inventory, engine: Engine, length: u64, bytes: u64, state_bytes: u64, encoder_tokens: u64) -> u128 {
    if let Engine::Vllm { block, batched_tokens } = engine {
        let settings = vllm::Settings { block, batched_tokens, bytes, state_bytes, encoder_tokens };
        return vllm::reservation(inventory, &settings, length).bytes;
    }
    let one = |cache: &Cache| -> u128 {
        let elements = |width: u64, tokens: u64| u128::from(width).saturating_mul(u128::from(tokens)).saturating_mul(u128::from(bytes));
        match *cache {
            Cache::State { channels, kernel, recurrent } => {
                elements(channels, kernel).saturating_add(u128::from(recurrent).saturating_mul(u128::from(state_bytes)))
            }
            Cache::Cross { width } => elements(width, encoder_tokens),
            Cache::Indexer { width } => elements(width, length),
            Cache::Compressed { width, .. } => elements(width, cache.kept(length)),
            _ => elements(cache.per_token(), cache.kept(length)),
        }
    };
    sum(inventory, one)
}

/// Why transformers and vLLM hold different bytes for a sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Difference {
    /// vLLM reserves whole pages.
    Pages,
    /// vLLM reserves the window of sliding or chunked layers and the tokens of a step.
    Step,
    /// vLLM gives layers of different kinds pages of one size, and fills up groups of layers.
    OneSize,
    /// The recurrent states differ: columns of the convolution, dtype.
    States,
}

/// What both engines hold for one sequence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Both {
    /// Bytes in transformers' dynamic cache.
    pub transformers: u128,
    /// What vLLM reserves.
    pub vllm: vllm::Reservation,
    /// Why they differ; empty where they do not.
    pub differences: Vec<Difference>,
}

/// Bytes of one sequence in both engines. vLLM keeps recurrent states in the dtype of the cache.
pub fn both(inventory: &Inventory, length: u64, bytes: u64, batched_tokens: u64, encoder_tokens: u64) -> Both {
    let transformers = bytes_per_sequence(inventory, Engine::Transformers, length, bytes, 4, encoder_tokens);
    let settings = vllm::Settings { block: 16, batched_tokens, bytes, state_bytes: bytes, encoder_tokens };
    let vllm = vllm::reservation(inventory, &settings, length);
    let has = |wanted: &[&str]| vllm.kinds.iter().any(|kind| wanted.contains(&kind.kind));
    let kept = |kind: &vllm::Kind| u128::from(kind.page_tokens).saturating_mul(kind.pages);
    let whole = |kind: &&vllm::Kind| matches!(kind.kind, "full" | "latent");
    let mut differences = Vec::new();
    if transformers != vllm.bytes {
        if vllm.kinds.iter().filter(whole).any(|kind| kept(kind) != u128::from(length)) {
            differences.push(Difference::Pages);
        }
        if has(&["sliding", "chunked"]) {
            differences.push(Difference::Step);
        }
        if vllm.kinds.iter().any(|kind| kind.padding > 0 || kind.page_bytes > kind.used_bytes) {
            differences.push(Difference::OneSize);
        }
        if has(&["state"]) {
            differences.push(Difference::States);
        }
    }
    Both { transformers, vllm, differences }
}

fn sum(inventory: &Inventory, of: impl Fn(&Cache) -> u128) -> u128 {
    let group = |caches: &[Cache], count: u64| caches.iter().map(&of).fold(0u128, u128::saturating_add).saturating_mul(u128::from(count));
    inventory.groups.iter().map(|one| group(&one.caches, one.count())).fold(0, u128::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model;

    fn of(text: &str) -> Inventory {
        model::read(text).unwrap().inventory
    }

    #[test]
    fn a_window_bounds_the_cache_of_a_sequence() {
        let gemma = of(
            r#"{"model_type": "gemma2", "architectures": ["Gemma2ForCausalLM"], "hidden_size": 3584, "num_hidden_layers": 42, "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 256, "sliding_window": 4096}"#,
        );
        assert_eq!(bytes_per_token(&gemma, 2), 344_064);
        assert_eq!(bytes_per_sequence(&gemma, Engine::Transformers, 8192, 2, 4, 0), 2_113_929_216);
        let kinds = kinds(&gemma);
        assert_eq!(kinds.iter().map(|sum| (sum.kind, sum.layers)).collect::<Vec<_>>(), [("sliding", 21), ("full", 21)]);
    }

    #[test]
    fn vllm_reserves_whole_blocks_and_a_step_more_for_windows() {
        let llama = of(
            r#"{"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8}"#,
        );
        let vllm = Engine::Vllm { block: 16, batched_tokens: 2048 };
        assert_eq!(bytes_per_sequence(&llama, vllm, 1000, 2, 2, 0), 1008 * 131_072);
        let mistral =
            of(r#"{"model_type": "mistral", "architectures": ["MistralForCausalLM"], "num_key_value_heads": 8, "sliding_window": 4096}"#);
        assert_eq!(bytes_per_sequence(&mistral, vllm, 100_000, 2, 2, 0), (6144 + 16) * 131_072);
        let both = both(&mistral, 100_000, 2, 2048, 0);
        assert_eq!((both.transformers, both.vllm.bytes), (4096 * 131_072, (6144 + 16) * 131_072));
        assert_eq!(both.differences, [Difference::Step]);
        assert_eq!(bytes_per_sequence(&mistral, Engine::Transformers, 100_000, 2, 2, 0), 4096 * 131_072);
    }

    #[test]
    fn recurrent_states_do_not_grow() {
        let jamba = of(r#"{"model_type": "jamba", "architectures": ["JambaForCausalLM"]}"#);
        assert_eq!(bytes_per_token(&jamba, 2), 16_384);
        let state = 28 * 8192 * (4 * 2 + 16 * 4);
        assert_eq!(bytes_per_sequence(&jamba, Engine::Transformers, 0, 2, 4, 0), state);
    }

    #[test]
    fn latent_attention_and_its_indexer() {
        let deepseek = of(r#"{"model_type": "deepseek_v32", "architectures": ["DeepseekV32ForCausalLM"]}"#);
        assert_eq!(bytes_per_token(&deepseek, 2), 61 * 576 * 2);
        assert_eq!(indexer_bytes_per_token(&deepseek, 2), 61 * 128 * 2);
    }
}
