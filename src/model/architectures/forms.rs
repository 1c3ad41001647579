//! Decoders that differ in the usual places only, a row each: beam, flint, granite_swa,
//! granitemoe_swa, kolibri1, mellum, minimax_m3, molmo2, muse_glimmer.

use super::blocks::{Block, Norm, QkNorm, mul};
use super::decoder::{Defaults, Dimensions, Parts, Request, Stack, windows};
use super::dense::{Dense, FOUR_NORMS, TWO_NORMS};
use super::sparse::{Experts, Sparse};
use crate::model::config::{Result, Section};
use crate::model::inventory::Role;
use crate::model::kv_cache::Cache;

/// What a row says.
struct Form {
    default: Defaults,
    qk_norm: QkNorm,
    norms: &'static [&'static str],
    /// Window where the file names none; 0: no window.
    window: u64,
    /// Whether layer `i` of `n` slides where `layer_types` does not say it.
    slides: fn(u64, u64) -> bool,
    /// One weight a head beside the attention.
    sinks: bool,
    /// A projection that gates the output of attention, of the width of all heads.
    gate: bool,
    /// Routed experts; `shared` counts shared experts of the routed width.
    experts: Option<Experts>,
    /// Key and default of the width of the shared experts, where it is a key of its own.
    shared_width: (&'static str, u64),
    /// Key of the width of the routed experts.
    width: &'static str,
    /// Key of the width of dense layers among layers with experts.
    dense_width: &'static str,
}

/// The form of Qwen 3 without a window.
const PLAIN: Form = Form {
    default: Defaults::of([0, 0, 0, 0, 1, 0, 0, 0], false),
    qk_norm: QkNorm::PerHead,
    norms: TWO_NORMS,
    window: 0,
    slides: |_, _| false,
    sinks: false,
    gate: false,
    experts: None,
    shared_width: ("", 0),
    width: "moe_intermediate_size",
    dense_width: "intermediate_size",
};

/// beam: gated attention, four norms, dense layers first.
pub fn beam(c: Section<'_>, request: Request) -> Result<Parts> {
    let form = Form {
        default: Defaults::of([151_936, 5120, 20480, 52, 48, 8, 128, 8192], false),
        norms: FOUR_NORMS,
        window: 512,
        slides: |index, layers| !(index + 1).is_multiple_of(6) && index + 1 < layers,
        gate: true,
        experts: Some(Experts { count: 256, active: 8, width: 2560, shared: 0, dense_layers: 3 }),
        ..PLAIN
    };
    form.build(c, request)
}

/// flint: sinks, a shared expert, two dense layers first.
pub fn flint(c: Section<'_>, request: Request) -> Result<Parts> {
    let form = Form {
        default: Defaults::of([150_144, 2048, 6144, 49, 32, 4, 128, 262_144], false),
        window: 513,
        slides: |index, layers| index >= 2 && index % 4 != 1 && index + 1 < layers,
        sinks: true,
        experts: Some(Experts { count: 256, active: 6, width: 512, shared: 0, dense_layers: 2 }),
        shared_width: ("shared_expert_intermediate_size", 1024),
        ..PLAIN
    };
    form.build(c, request)
}

/// granite_swa: Granite with sinks, one full layer to three sliding ones.
pub fn granite_swa(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([100_352, 2560, 8192, 24, 20, 4, 0, 8192], true);
    Form { default, qk_norm: QkNorm::Off, window: 128, slides: |index, _| !index.is_multiple_of(4), sinks: true, ..PLAIN }.build(c, request)
}

/// granitemoe_swa: the same with routed experts.
pub fn granitemoe_swa(c: Section<'_>, request: Request) -> Result<Parts> {
    let form = Form {
        default: Defaults::of([32000, 4096, 11008, 32, 32, 0, 0, 2048], false),
        qk_norm: QkNorm::Off,
        window: 128,
        slides: |index, _| !index.is_multiple_of(4),
        sinks: true,
        experts: Some(Experts { count: 8, active: 2, width: 11008, shared: 0, dense_layers: 0 }),
        shared_width: ("shared_intermediate_size", 0),
        width: "intermediate_size",
        ..PLAIN
    };
    form.build(c, request)
}

/// kolibri1: a shared expert, four norms, four sliding layers to a full one.
pub fn kolibri1(c: Section<'_>, request: Request) -> Result<Parts> {
    let form = Form {
        default: Defaults::of([128_000, 2560, 0, 50, 48, 4, 128, 262_144], false),
        norms: FOUR_NORMS,
        window: 513,
        slides: |index, _| !(index + 1).is_multiple_of(5),
        experts: Some(Experts { count: 384, active: 6, width: 512, shared: 0, dense_layers: 0 }),
        shared_width: ("shared_expert_intermediate_size", 512),
        ..PLAIN
    };
    form.build(c, request)
}

/// mellum: experts in every layer unless the file says otherwise.
pub fn mellum(c: Section<'_>, request: Request) -> Result<Parts> {
    let form = Form {
        default: Defaults::of([98304, 2304, 7168, 28, 32, 4, 128, 131_072], false),
        window: 1024,
        experts: Some(Experts { count: 64, active: 8, width: 896, shared: 0, dense_layers: 0 }),
        ..PLAIN
    };
    form.build(c, request)
}

/// minimax_m3 (language model): a shared expert, an indexer in the layers of its sparse kind.
pub fn minimax_m3(c: Section<'_>, request: Request) -> Result<Parts> {
    let form = Form {
        default: Defaults::of([200_064, 6144, 3072, 60, 64, 4, 128, 524_288], false),
        experts: Some(Experts { count: 128, active: 4, width: 3072, shared: 0, dense_layers: 0 }),
        shared_width: ("shared_intermediate_size", 3072),
        width: "intermediate_size",
        dense_width: "dense_intermediate_size",
        ..PLAIN
    };
    form.build(c, request)
}

/// molmo2 (language model): an embedding of two parts, norms before or after the sub-layers.
pub fn molmo2(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([151_936, 4096, 12288, 36, 32, 8, 128, 36864], false);
    let d = Dimensions::read(c, &default)?;
    let rows = d.vocab.saturating_add(c.int("additional_vocab_size", 128)?);
    let qk_norm = match c.str("qk_norm_type") {
        Some("olmo") => QkNorm::FullWidth,
        Some("qwen3") | None => QkNorm::PerHead,
        Some(_) => QkNorm::Off,
    };
    let bias = c.bool("attention_bias|qkv_bias", false)?;
    let dense = Dense { attention: d.attention().biases(bias, false).qk_norm(qk_norm), ..Dense::new(&d) };
    let embedding = Block::new().embedding("embed_tokens", Role::Embedding, rows, d.hidden);
    // The head has fewer rows than the embedding, so it is never shared.
    let request = Request { tied: Some(false), ..request };
    let mut stack = Stack::with_embedding(c, d.clone(), default.tied, request, embedding)?;
    for index in 0..d.layers {
        stack.layer(dense.layer(index, d.intermediate));
    }
    Ok(stack.finish(Norm::Weight, false))
}

/// muse_glimmer (language model): gated attention, four norms, every fourth layer full, counted from the last.
pub fn muse_glimmer(c: Section<'_>, request: Request) -> Result<Parts> {
    let form = Form {
        default: Defaults::of([202_048, 6656, 19968, 52, 32, 2, 128, 131_072], false),
        qk_norm: QkNorm::Off,
        norms: FOUR_NORMS,
        window: 2048,
        slides: |index, layers| !layers.saturating_sub(index + 1).is_multiple_of(4),
        gate: true,
        ..PLAIN
    };
    form.build(c, request)
}

impl Form {
    fn build(&self, c: Section<'_>, request: Request) -> Result<Parts> {
        let mut d = Dimensions::read(c, &self.default)?;
        let bias = c.bool("attention_bias", false)?;
        let window = match (c.has("sliding_window"), c.int_opt("sliding_window")?) {
            (true, window) => window,
            (false, _) => Some(self.window).filter(|window| *window > 0),
        };
        let layers = d.layers;
        let windows = windows(c, layers, window, |index| (self.slides)(index, layers));
        let attention = d.attention().biases(bias, bias).qk_norm(self.qk_norm);
        let mlp_bias = self.experts.is_none() && c.bool("mlp_bias", false)?;
        let dense = Dense { attention, norms: self.norms, windows, mlp_bias, ..Dense::new(&d) };
        let sparse = self.experts.map(|experts| self.sparse(c, &mut d, experts)).transpose()?;
        let indexed = Indexed::read(c)?;
        let wide = mul(d.heads, d.head_dim);
        let mut stack = Stack::new(c, d.clone(), &self.default, request)?;
        for index in 0..layers {
            let block = dense
                .without_mlp(index)
                .when(self.sinks, |block| block.param("self_attn.sinks", Role::Scale, &[d.heads]))
                .when(self.gate, |block| block.linear("self_attn.gate_proj", Role::Attention, wide, d.hidden, false))
                .when(self.gate && sparse.is_some(), |block| block.param("self_attn.gate_bias", Role::Scale, &[d.heads]))
                .when(indexed.has(index), |block| indexed.add(block, d.hidden));
            stack.layer(match &sparse {
                Some(sparse) => sparse.add(block, index),
                None => block.gated_mlp("mlp", d.hidden, d.intermediate, mlp_bias),
            });
        }
        Ok(stack.finish(Norm::Weight, false))
    }

    fn sparse(&self, c: Section<'_>, d: &mut Dimensions, experts: Experts) -> Result<Sparse> {
        let width = c.int(self.width, experts.width)?;
        let mut sparse = Sparse::read(c, d, Experts { width, ..experts })?;
        (sparse.moe.width, d.expert_width) = (width, width);
        let (key, default) = self.shared_width;
        if !key.is_empty() {
            sparse.shared = c.int(key, default)?;
        }
        sparse.dense = if self.dense_width == "intermediate_size" { d.intermediate } else { c.int(self.dense_width, 12288)? };
        if let Some(listed) = c.ints("mlp_only_layers")? {
            sparse.layers = (0..d.layers).map(|index| !listed.contains(&index)).collect();
        }
        Ok(sparse)
    }
}

/// The layers that pick blocks of keys by an indexer, and its sizes.
struct Indexed {
    layers: Vec<bool>,
    heads: u64,
    width: u64,
}

impl Indexed {
    /// By `layer_types`, else by the object that released files have.
    fn read(c: Section<'_>) -> Result<Self> {
        let older = c.section("sparse_attention_config");
        let kinds = c.strings("layer_types");
        let listed = older.flags("sparse_attention_freq").unwrap_or_default();
        let layers = if kinds.is_empty() { listed } else { kinds.iter().map(|kind| *kind == "minimax_m3_sparse").collect() };
        let heads = c.int("index_n_heads", 4)?;
        let width = c.int("index_head_dim", 128)?;
        Ok(Self { layers, heads: older.int("sparse_num_index_heads", heads)?, width: older.int("sparse_index_dim", width)? })
    }

    fn has(&self, index: u64) -> bool {
        usize::try_from(index).ok().and_then(|index| self.layers.get(index)).copied().unwrap_or(false)
    }

    /// Normalised queries and one key.
    fn add(&self, block: Block, hidden: u64) -> Block {
        block
            .linear("self_attn.indexer.q_proj", Role::Indexer, mul(self.heads, self.width), hidden, false)
            .linear("self_attn.indexer.k_proj", Role::Indexer, self.width, hidden, false)
            .norm("self_attn.indexer.q_norm", self.width)
            .norm("self_attn.indexer.k_norm", self.width)
            .cache(Cache::Indexer { width: self.width })
    }
}
