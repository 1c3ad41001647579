//! What vLLM reserves for one sequence: pages, and one page size for layers of different kinds.
//!
//! Every layer of a kind holds its cache in pages of a number of tokens (16 by default; latents 64).
//! Where layers of several kinds stand in one model, all pages must have one size in bytes: a
//! recurrent state takes one page, and pages of attention hold as many more tokens as the state
//! needs; kinds of attention with smaller pages get more tokens a page. Layers are then put into
//! groups of equal size, and a group that is not full is padded. Sliding layers reserve the window
//! and the tokens of one scheduler step. The rules are those of vLLM's hybrid cache manager; without
//! it (some configurations turn it off) sliding layers reserve the whole length. Speculative
//! decoding, prefix caching of states and tensor parallelism are left out.

use super::Cache;
use crate::model::inventory::Inventory;

/// Tokens to which the pages of attention are rounded beside recurrent states.
const ALIGNMENT: u128 = 16;
/// Tokens of a page of latents.
const LATENT_BLOCK: u64 = 64;

/// Settings of the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Tokens of a page of attention.
    pub block: u64,
    /// Most tokens of one scheduler step.
    pub batched_tokens: u64,
    /// Bytes of an element of the cache.
    pub bytes: u64,
    /// Bytes of an element of a recurrent state.
    pub state_bytes: u64,
    /// Tokens of the encoder, for cross-attention.
    pub encoder_tokens: u64,
}

/// Layers of one kind in the pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kind {
    /// Name of the kind: `full`, `sliding`, `chunked`, `latent`, `indexer`, `cross`, `state`.
    pub kind: &'static str,
    /// Layers of the kind.
    pub layers: u64,
    /// Layers that fill up the last group and hold nothing.
    pub padding: u64,
    /// Tokens of a page; 0 for a state.
    pub page_tokens: u64,
    /// Pages of one layer for the sequence.
    pub pages: u128,
    /// Bytes of one page with its padding.
    pub page_bytes: u128,
    /// Bytes of one page that are used.
    pub used_bytes: u128,
}

/// What is reserved for a sequence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reservation {
    /// By kind, in the order of their first layer.
    pub kinds: Vec<Kind>,
    /// All bytes.
    pub bytes: u128,
}

/// Layers of one kind before pages are unified.
struct Spec {
    kind: &'static str,
    layers: u64,
    /// Elements a token, or bytes of a state.
    width: u128,
    tokens: u128,
    block: u128,
}

/// What vLLM reserves for one sequence of a length.
pub fn reservation(inventory: &Inventory, settings: &Settings, length: u64) -> Reservation {
    let mut specs: Vec<Spec> = Vec::new();
    for group in &inventory.groups {
        for cache in &group.caches {
            let spec = spec(cache, settings, length, group.count());
            let same = |have: &&mut Spec| (have.kind, have.width, have.tokens) == (spec.kind, spec.width, spec.tokens);
            match specs.iter_mut().find(same) {
                Some(have) => have.layers = have.layers.saturating_add(spec.layers),
                None => specs.push(spec),
            }
        }
    }
    specs.retain(|spec| spec.layers > 0 && spec.width > 0);
    unify(&mut specs, settings);
    let size = group_size(&specs);
    let largest = specs.iter().map(|spec| page(spec, settings)).max().unwrap_or(0);
    let one_size = specs.len() > 1 && specs.iter().all(|spec| spec.kind == "state" || page(spec, settings) == largest);
    let kinds: Vec<Kind> = specs
        .iter()
        .map(|spec| {
            let used = page(spec, settings);
            Kind {
                kind: spec.kind,
                layers: spec.layers,
                padding: if one_size { spec.layers.div_ceil(size).saturating_mul(size) - spec.layers } else { 0 },
                page_tokens: if spec.kind == "state" { 0 } else { u64::try_from(spec.block).unwrap_or(u64::MAX) },
                pages: pages(spec),
                page_bytes: if one_size { largest } else { used },
                used_bytes: used,
            }
        })
        .collect();
    let bytes = kinds.iter().fold(0u128, |sum, kind| {
        let layers = u128::from(kind.layers.saturating_add(kind.padding));
        sum.saturating_add(layers.saturating_mul(kind.pages).saturating_mul(kind.page_bytes))
    });
    Reservation { kinds, bytes }
}

fn spec(cache: &Cache, settings: &Settings, length: u64, layers: u64) -> Spec {
    let block = u128::from(settings.block.max(1));
    let length = u128::from(length);
    let step = u128::from(settings.batched_tokens);
    let whole = |kind, width: u64, block| Spec { kind, layers, width: u128::from(width), tokens: length, block };
    match *cache {
        Cache::Full { .. } => whole("full", cache.per_token(), block),
        Cache::Sliding { window, .. } => Spec {
            // One page more, because a window need not start at the border of a page.
            tokens: u128::from(window.saturating_sub(1)).saturating_add(step).min(length).saturating_add(block),
            ..whole("sliding", cache.per_token(), block)
        },
        Cache::Chunked { chunk, .. } => {
            Spec { tokens: u128::from(chunk).saturating_add(step).min(length), ..whole("chunked", cache.per_token(), block) }
        }
        Cache::Latent { latent, .. } => whole("latent", latent, block.max(u128::from(LATENT_BLOCK))),
        Cache::Indexer { width } => whole("indexer", width, block.max(u128::from(LATENT_BLOCK))),
        Cache::Compressed { width, rate } => Spec { tokens: length / u128::from(rate.max(1)), ..whole("compressed", width, block) },
        Cache::Cross { width } => Spec { tokens: u128::from(settings.encoder_tokens), ..whole("cross", width, block) },
        Cache::State { channels, kernel, recurrent } => {
            let conv = u128::from(channels).saturating_mul(u128::from(kernel.saturating_sub(1))).saturating_mul(u128::from(settings.bytes));
            let state = u128::from(recurrent).saturating_mul(u128::from(settings.state_bytes));
            Spec { kind: "state", layers, width: conv.saturating_add(state), tokens: 1, block: 1 }
        }
    }
}

/// Bytes of a page.
fn page(spec: &Spec, settings: &Settings) -> u128 {
    let element = if spec.kind == "state" { 1 } else { u128::from(settings.bytes) };
    spec.width.saturating_mul(spec.block).saturating_mul(element)
}

fn pages(spec: &Spec) -> u128 {
    if spec.tokens == 0 { 0 } else { spec.tokens.div_ceil(spec.block.max(1)) }
}

/// Gives pages one size where the rules of the engine can.
fn unify(specs: &mut [Spec], settings: &Settings) {
    let attention = |spec: &Spec| matches!(spec.kind, "full" | "sliding" | "chunked" | "latent");
    let state = specs.iter().filter(|spec| spec.kind == "state").map(|spec| spec.width).max().unwrap_or(0);
    if state > 0 {
        // The widest kind sets the tokens that a page needs to be as large as the state.
        let a_token = specs.iter().filter(|spec| attention(spec)).map(|spec| spec.width.saturating_mul(u128::from(settings.bytes))).max();
        if let Some(a_token) = a_token.filter(|bytes| *bytes > 0) {
            let needed = state.div_ceil(a_token).div_ceil(ALIGNMENT).saturating_mul(ALIGNMENT);
            specs.iter_mut().filter(|spec| attention(spec)).for_each(|spec| spec.block = spec.block.max(needed));
        }
    }
    let largest = specs.iter().filter(|spec| attention(spec)).map(|spec| page(spec, settings)).max().unwrap_or(0);
    for spec in specs.iter_mut().filter(|spec| attention(spec)) {
        let own = page(spec, settings);
        if own > 0 && own < largest && largest % own == 0 {
            spec.block = spec.block.saturating_mul(largest / own);
        }
    }
}

/// Layers of a group: the smallest kind, or the largest where all are about as many.
fn group_size(specs: &[Spec]) -> u64 {
    let least = specs.iter().map(|spec| spec.layers).min().unwrap_or(1).max(1);
    let most = specs.iter().map(|spec| spec.layers).max().unwrap_or(1).max(1);
    if most < least + least / 4 { most } else { least }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model;

    const SETTINGS: Settings = Settings { block: 16, batched_tokens: 2048, bytes: 2, state_bytes: 2, encoder_tokens: 0 };

    fn of(text: &str) -> Inventory {
        model::read(text).unwrap().inventory
    }

    #[test]
    fn one_kind_takes_whole_pages() {
        let llama = of(
            r#"{"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8}"#,
        );
        assert_eq!(reservation(&llama, &SETTINGS, 1000).bytes, 1008 * 131_072);
    }

    #[test]
    fn groups_of_sliding_and_full_layers_are_padded() {
        let gemma = of(
            r#"{"model_type": "gemma3_text", "architectures": ["Gemma3ForCausalLM"], "num_hidden_layers": 34, "hidden_size": 2560, "head_dim": 256, "num_attention_heads": 8, "num_key_value_heads": 4, "sliding_window": 1024}"#,
        );
        let all = reservation(&gemma, &SETTINGS, 32_768);
        let kinds: Vec<_> = all.kinds.iter().map(|kind| (kind.kind, kind.layers, kind.padding, kind.pages)).collect();
        assert_eq!(kinds, [("sliding", 29, 1, (1023 + 2048 + 16u128).div_ceil(16)), ("full", 5, 0, 2048)]);
    }

    #[test]
    fn a_state_makes_the_pages_of_attention_larger() {
        let jamba = of(r#"{"model_type": "jamba", "architectures": ["JambaForCausalLM"]}"#);
        let all = reservation(&jamba, &SETTINGS, 8192);
        let state = 8192 * 3 * 2 + 8192 * 16 * 2;
        let full = all.kinds.iter().find(|kind| kind.kind == "full").unwrap();
        let states = all.kinds.iter().find(|kind| kind.kind == "state").unwrap();
        assert_eq!((full.page_tokens, full.page_bytes), (80, 80 * 4096));
        assert_eq!((states.used_bytes, states.page_bytes, states.pages), (state, 80 * 4096, 1));
        assert_eq!(all.bytes, (4 * 103 + 28) * 80 * 4096);
    }
}
