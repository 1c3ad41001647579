//! Multi-head latent attention: deepseek_v2, deepseek_v3 (kimi_k2), deepseek_v32, glm_moe_dsa,
//! glm4_moe_lite, minicpm3, youtu, longcat_flash, axk1, hy_v4; and deepseek, the first version, without it.

use super::blocks::{Block, Mla, Norm, Window, mul};
use super::decoder::{Defaults, Dimensions, Parts, Request, Stack};
use super::sparse::{Experts, Sparse};
use crate::model::config::{Result, Section};
use crate::model::inventory::Role;
use crate::model::kv_cache::Cache;

/// deepseek (first version, remote code): attention of the Llama form, routed and shared experts.
pub fn deepseek(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([102_400, 4096, 11008, 30, 32, 0, 0, 2048], false);
    let mut d = Dimensions::read(c, &default)?;
    let bias = c.bool("attention_bias", false)?;
    let sparse = Sparse::read(c, &mut d, Experts { count: 0, active: 0, width: 1407, shared: 0, dense_layers: 0 })?;
    let attention = d.attention().biases(bias, bias);
    let mut stack = Stack::new(c, d.clone(), &default, request)?;
    for index in 0..d.layers {
        stack.layer(sparse.add(norms(d.hidden).attention("self_attn", &attention, Window::Full), index));
    }
    Ok(stack.finish(Norm::Weight, false))
}

/// deepseek_v2.
pub fn deepseek_v2(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([102_400, 4096, 11008, 32, 32, 0, 64, 2048], false);
    latent(
        c,
        request,
        &default,
        MlaDefaults { q_rank: 1536, kv_rank: 512, nope: 128, rope: 64, value: 128 },
        Some(Experts { count: 64, active: 6, width: 1407, shared: 2, dense_layers: 0 }),
        None,
    )
}

/// deepseek_v3 and kimi_k2. The router's correction bias is a stored buffer, no parameter.
pub fn deepseek_v3(c: Section<'_>, request: Request) -> Result<Parts> {
    latent(c, request, &V3, V3_MLA, Some(V3_EXPERTS), None)
}

/// deepseek_v32: an indexer in every layer.
pub fn deepseek_v32(c: Section<'_>, request: Request) -> Result<Parts> {
    let d = Dimensions::read(c, &V3)?;
    let indexer = Indexer::read(c, 64, vec![true; usize::try_from(d.layers).unwrap_or(0)])?;
    latent(c, request, &V3, V3_MLA, Some(V3_EXPERTS), Some(indexer))
}

/// glm_moe_dsa (GLM 5): an indexer in the layers that `indexer_types` calls full.
pub fn glm_moe_dsa(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([154_880, 6144, 12288, 78, 64, 0, 64, 202_752], false);
    let d = Dimensions::read(c, &default)?;
    let types = c.strings("indexer_types");
    let pattern = c.str("index_topk_pattern").unwrap_or("").as_bytes();
    let (every, offset) = (c.int("index_topk_freq", 1)?.max(1), c.int("index_skip_topk_offset", 2)?);
    let full = |index: u64| {
        let at = usize::try_from(index).unwrap_or(usize::MAX);
        match (types.get(at), pattern.get(at)) {
            (Some(kind), _) => *kind == "full",
            (None, Some(letter)) => *letter == b'F',
            (None, None) => (index + 1).saturating_sub(offset).is_multiple_of(every),
        }
    };
    let indexer = Indexer::read(c, 32, (0..d.layers).map(full).collect())?;
    let mla = MlaDefaults { q_rank: 2048, kv_rank: 512, nope: 192, rope: 64, value: 256 };
    latent(c, request, &default, mla, Some(V3_EXPERTS), Some(indexer))
}

/// glm4_moe_lite.
pub fn glm4_moe_lite(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([154_880, 2048, 10240, 47, 20, 0, 64, 202_752], false);
    let mla = MlaDefaults { q_rank: 768, kv_rank: 512, nope: 192, rope: 64, value: 256 };
    latent(c, request, &default, mla, Some(Experts { count: 64, active: 4, width: 1536, shared: 1, dense_layers: 1 }), None)
}

/// mistral4.
pub fn mistral4(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([131_072, 4096, 12288, 36, 32, 0, 128, 1_048_576], false);
    let mla = MlaDefaults { q_rank: 1024, kv_rank: 256, nope: 64, rope: 64, value: 128 };
    latent(c, request, &default, mla, Some(Experts { count: 128, active: 4, width: 2048, shared: 1, dense_layers: 0 }), None)
}

/// axk1: a norm more behind the experts.
pub fn axk1(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([163_840, 7168, 18432, 61, 64, 0, 64, 32768], false);
    let form = Form { behind_experts: true, ..Form::new(V3_MLA, Some(Experts { count: 192, dense_layers: 1, ..V3_EXPERTS })) };
    form.build(c, request, &default)
}

/// hy_v4: gated attention with sinks, hyper-connections, an indexer in the layers that `indexer_types` calls full.
pub fn hy_v4(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([120_832, 2816, 6912, 34, 32, 0, 64, 262_144], false);
    let types = c.strings("indexer_types");
    let full = |index: u64| match usize::try_from(index).ok().and_then(|index| types.get(index)) {
        Some(kind) => *kind == "full",
        None => index == 0 || (index - 1).is_multiple_of(4),
    };
    let layers = Dimensions::read(c, &default)?.layers;
    let mla = MlaDefaults { q_rank: 1536, kv_rank: 512, nope: 192, rope: 64, value: 256 };
    let form = Form {
        indexer: Some(Indexer::read(c, 16, (0..layers).map(full).collect())?),
        streams: c.int("hc_mult", 4)?,
        ..Form::new(mla, Some(Experts { width: 768, dense_layers: 1, ..V3_EXPERTS }))
    };
    form.build(c, request, &default)
}

/// minicpm3: dense.
pub fn minicpm3(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([73448, 2560, 6400, 62, 40, 0, 0, 32768], true);
    let mut parts = latent(c, request, &default, MlaDefaults { q_rank: 768, kv_rank: 256, nope: 64, rope: 32, value: 64 }, None, None)?;
    parts.notes.push("transformers caches the latent; vLLM expands it to keys and values of all heads".to_owned());
    Ok(parts)
}

/// sarvam_mla: queries without compression.
pub fn sarvam_mla(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([262_144, 4096, 16384, 32, 64, 0, 64, 131_072], false);
    let mla = MlaDefaults { q_rank: 0, ..V3_MLA };
    latent(c, request, &default, mla, Some(Experts { count: 128, dense_layers: 1, ..V3_EXPERTS }), None)
}

/// youtu: dense.
pub fn youtu(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([128_256, 2048, 6144, 32, 16, 0, 64, 131_072], true);
    latent(c, request, &default, V3_MLA, None, None)
}

/// longcat_flash: two attentions and two dense layers around one mixture of experts; identity
/// experts have a row in the router and no weights.
pub fn longcat_flash(c: Section<'_>, request: Request) -> Result<Parts> {
    let default = Defaults::of([131_072, 6144, 12288, 28, 64, 0, 64, 131_072], false);
    let mut d = Dimensions::read(c, &default)?;
    d.layers = c.layers("num_layers|num_hidden_layers", 28)?;
    d.intermediate = c.int("ffn_hidden_size|intermediate_size", 12288)?;
    let mla = V3_MLA.read(c, &d)?;
    let sparse = Sparse::read(c, &mut d, Experts { count: 512, active: 12, width: 2048, shared: 0, dense_layers: 0 })?;
    let rows = sparse.moe.experts.saturating_add(c.int("zero_expert_num", 256)?);
    let bias = c.bool("router_bias", false)?;
    let mut stack = Stack::new(c, d.clone(), &default, request)?;
    let half = |block: Block, name: &str| {
        block
            .norm(&format!("input_layernorm.{name}"), d.hidden)
            .norm(&format!("post_attention_layernorm.{name}"), d.hidden)
            .mla(&format!("self_attn.{name}"), &mla)
            .latent_cache(&mla)
            .gated_mlp(&format!("mlps.{name}"), d.hidden, d.intermediate, false)
    };
    let layer = half(half(Block::new(), "0"), "1").router("mlp.router", rows, d.hidden, bias).experts("mlp", &sparse.moe);
    stack.layers(d.layers, &layer);
    if rows > sparse.moe.experts {
        let width = sparse.moe.hidden.saturating_mul(sparse.moe.width).saturating_mul(3);
        let empty = width.saturating_mul(rows - sparse.moe.experts).saturating_mul(d.layers);
        let why = "identity experts are counted without weights, as checkpoints store them; newer classes hold empty weights for them";
        stack.inexact_within(why, 0, empty);
    }
    Ok(stack.finish(Norm::Weight, false))
}

/// Defaults of a family for its latent attention.
#[derive(Debug, Clone, Copy)]
pub struct MlaDefaults {
    /// Rank of the queries.
    pub q_rank: u64,
    /// Rank of keys and values.
    pub kv_rank: u64,
    /// Head width without positions.
    pub nope: u64,
    /// Head width with positions.
    pub rope: u64,
    /// Head width of values.
    pub value: u64,
}

const V3: Defaults = Defaults::of([129_280, 7168, 18432, 61, 128, 0, 64, 4096], false);
/// Latent attention of DeepSeek-V3.
pub const V3_MLA: MlaDefaults = MlaDefaults { q_rank: 1536, kv_rank: 512, nope: 128, rope: 64, value: 128 };
const V3_EXPERTS: Experts = Experts { count: 256, active: 8, width: 2048, shared: 1, dense_layers: 3 };

impl MlaDefaults {
    /// Reads the keys of latent attention.
    pub fn read(&self, c: Section<'_>, d: &Dimensions) -> Result<Mla> {
        let q_rank = match (c.raw("q_lora_rank"), c.int_opt("q_lora_rank")?) {
            (_, Some(rank)) => Some(rank),
            // An explicit null means that queries are projected directly.
            (Some(_), None) => None,
            (None, None) => Some(self.q_rank).filter(|rank| *rank > 0),
        };
        Ok(Mla {
            hidden: d.hidden,
            heads: d.heads,
            q_rank,
            kv_rank: c.int("kv_lora_rank", self.kv_rank)?,
            nope: c.int("qk_nope_head_dim", self.nope)?,
            rope: c.int("qk_rope_head_dim", self.rope)?,
            value: c.int("v_head_dim", self.value)?,
            bias: c.bool("attention_bias", false)?,
        })
    }
}

/// Indexer of sparse attention.
struct Indexer {
    heads: u64,
    width: u64,
    layers: Vec<bool>,
}

impl Indexer {
    fn read(c: Section<'_>, heads: u64, layers: Vec<bool>) -> Result<Self> {
        Ok(Self { heads: c.int("index_n_heads", heads)?, width: c.int("index_head_dim", 128)?, layers })
    }

    fn add(&self, block: Block, mla: &Mla, index: u64) -> Block {
        if !usize::try_from(index).ok().and_then(|index| self.layers.get(index)).copied().unwrap_or(false) {
            return block;
        }
        block
            .linear("self_attn.indexer.wq_b", Role::Indexer, self.heads.saturating_mul(self.width), mla.q_rank.unwrap_or(mla.hidden), false)
            .linear("self_attn.indexer.wk", Role::Indexer, self.width, mla.hidden, false)
            .layer_norm("self_attn.indexer.k_norm", self.width)
            .linear("self_attn.indexer.weights_proj", Role::Indexer, self.heads, mla.hidden, false)
            .cache(Cache::Indexer { width: self.width })
    }
}

fn norms(hidden: u64) -> Block {
    Block::new().norm("input_layernorm", hidden).norm("post_attention_layernorm", hidden)
}

fn latent(
    c: Section<'_>,
    request: Request,
    default: &Defaults,
    mla: MlaDefaults,
    experts: Option<Experts>,
    indexer: Option<Indexer>,
) -> Result<Parts> {
    Form { indexer, ..Form::new(mla, experts) }.build(c, request, default)
}

/// How a decoder with latent attention looks.
struct Form {
    mla: MlaDefaults,
    experts: Option<Experts>,
    indexer: Option<Indexer>,
    /// A norm behind the experts.
    behind_experts: bool,
    /// Streams of hyper-connections, with sinks and a gate in attention; 0: plain residuals.
    streams: u64,
}

impl Form {
    fn new(mla: MlaDefaults, experts: Option<Experts>) -> Self {
        Self { mla, experts, indexer: None, behind_experts: false, streams: 0 }
    }

    fn build(&self, c: Section<'_>, request: Request, default: &Defaults) -> Result<Parts> {
        let mlp_bias = matches!(c.str("model_type"), Some("deepseek_v2" | "minicpm3"));
        let mut d = Dimensions::read(c, default)?;
        let mla = self.mla.read(c, &d)?;
        (d.kv_heads, d.head_dim) = (d.heads, mla.nope.saturating_add(mla.rope));
        let mut sparse = self.experts.map(|experts| Sparse::read(c, &mut d, experts)).transpose()?;
        // Only the second version and minicpm3 heed this key.
        let mlp_bias = mlp_bias && c.bool("mlp_bias", false)?;
        if let Some(sparse) = &mut sparse {
            sparse.bias = mlp_bias;
        }
        let streams_width = mul(self.streams, d.hidden);
        let gate = mul(d.heads, mla.value);
        let mut stack = Stack::new(c, d.clone(), default, request)?;
        for index in 0..d.layers {
            let block = norms(d.hidden)
                .mla("self_attn", &mla)
                .latent_cache(&mla)
                .when(self.streams > 0, |block| self.hyper(block, streams_width))
                .when(self.streams > 0, |block| {
                    block.param("self_attn.sinks", Role::Scale, &[d.heads]).linear(
                        "self_attn.gate_proj",
                        Role::Attention,
                        gate,
                        d.hidden,
                        false,
                    )
                });
            let block = match &self.indexer {
                Some(indexer) => indexer.add(block, &mla, index),
                None => block,
            };
            let routed = sparse.as_ref().is_some_and(|sparse| sparse.has_experts(index));
            let block = block.when(self.behind_experts && routed, |block| block.norm("mlp.post_mlp_layernorm", d.hidden));
            stack.layer(match &sparse {
                Some(sparse) => sparse.add(block, index),
                None => block.gated_mlp("mlp", d.hidden, d.intermediate, mlp_bias),
            });
        }
        if c.int("num_nextn_predict_layers|num_mtp_layers", 0)? > 0 {
            stack.note("the checkpoint may hold layers for multi-token prediction beside these, which are not counted");
        }
        let last = Block::new().norm("norm", d.hidden).when(self.streams > 0, |block| {
            block
                .param("hc_head.hc_fn", Role::Scale, &[self.streams, streams_width])
                .param("hc_head.hc_base", Role::Scale, &[self.streams])
                .param("hc_head.hc_scale", Role::Scale, &[1])
        });
        Ok(stack.finish_with(last, false))
    }

    /// The weights that read and write the streams, around attention and feed-forward part.
    fn hyper(&self, block: Block, width: u64) -> Block {
        let rows = mul(self.streams, 2);
        ["attn_hc", "ffn_hc"].iter().fold(block, |block, name| {
            block.param(&format!("{name}.fn"), Role::Scale, &[rows, width]).param(&format!("{name}.base"), Role::Scale, &[rows]).param(
                &format!("{name}.scale"),
                Role::Scale,
                &[2],
            )
        })
    }
}
