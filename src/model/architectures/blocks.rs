//! The building blocks that all architectures are put together from.
//!
//! A [`Block`] collects the tensors of one layer (or of an embedding, a head ...). Each method adds
//! one well-known part under a name. Shapes follow the stored tensors: a linear weight is
//! `[out, in]`, a convolution `[out, in, kernel ...]`. Parts that implementations fuse (q, k and v;
//! gate and up; all experts of a layer) are listed apart where their number of parameters is equal.

use crate::model::inventory::{Role, Tensor};
use crate::model::kv_cache::Cache;

/// Tensors and caches of one layer.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Block {
    /// Parameter tensors.
    pub tensors: Vec<Tensor>,
    /// What the layer keeps during generation.
    pub caches: Vec<Cache>,
}

/// Kinds of normalisation layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Norm {
    /// A weight only (RMSNorm, LayerNorm without bias).
    Weight,
    /// A weight and a bias.
    WeightBias,
    /// No parameters.
    Bare,
}

/// Normalisation of queries and keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QkNorm {
    /// None, or one without parameters.
    Off,
    /// One weight of the head's width for queries, one for keys.
    PerHead,
    /// One weight over the width of all heads.
    FullWidth,
    /// Weight and bias of the head's width for queries and keys.
    PerHeadBias,
}

/// Attention with separate query, key and value heads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attention {
    /// Width of the residual stream.
    pub hidden: u64,
    /// Query heads.
    pub heads: u64,
    /// Key and value heads.
    pub kv_heads: u64,
    /// Width of a query or key head.
    pub head_dim: u64,
    /// Width of a value head.
    pub value_dim: u64,
    /// Bias of the query, key and value projections.
    pub qkv_bias: bool,
    /// Bias of the output projection.
    pub out_bias: bool,
    /// Normalisation of queries and keys.
    pub qk_norm: QkNorm,
}

impl Attention {
    /// Plain attention without biases.
    pub fn new(hidden: u64, heads: u64, kv_heads: u64, head_dim: u64) -> Self {
        Self { hidden, heads, kv_heads, head_dim, value_dim: head_dim, qkv_bias: false, out_bias: false, qk_norm: QkNorm::Off }
    }

    /// The same with biases.
    pub fn biases(mut self, qkv: bool, out: bool) -> Self {
        (self.qkv_bias, self.out_bias) = (qkv, out);
        self
    }

    /// The same with normalised queries and keys.
    pub fn qk_norm(mut self, qk_norm: QkNorm) -> Self {
        self.qk_norm = qk_norm;
        self
    }

    /// The cache of this attention within a window.
    pub fn cache(&self, window: Window) -> Cache {
        let (heads, key, value) = (self.kv_heads, mul(self.kv_heads, self.head_dim), mul(self.kv_heads, self.value_dim));
        match window {
            Window::Full => Cache::Full { heads, key, value },
            Window::Sliding(window) => Cache::Sliding { heads, key, value, window },
            Window::Chunked(chunk) => Cache::Chunked { heads, key, value, chunk },
        }
    }
}

/// How far back a layer's attention reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Window {
    /// All tokens.
    Full,
    /// The last tokens.
    Sliding(u64),
    /// The current chunk.
    Chunked(u64),
}

/// Multi-head latent attention.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mla {
    /// Width of the residual stream.
    pub hidden: u64,
    /// Heads.
    pub heads: u64,
    /// Rank of the queries' compression; none projects them directly.
    pub q_rank: Option<u64>,
    /// Rank of the latent of keys and values.
    pub kv_rank: u64,
    /// Part of a head without rotary positions.
    pub nope: u64,
    /// Part of a head with rotary positions.
    pub rope: u64,
    /// Width of a value head.
    pub value: u64,
    /// Bias of the compressing projections and the output.
    pub bias: bool,
}

/// A layer of routed experts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moe {
    /// Width of the residual stream.
    pub hidden: u64,
    /// Routed experts.
    pub experts: u64,
    /// Experts a token passes.
    pub active: u64,
    /// Width of an expert.
    pub width: u64,
    /// Bias of the router, as a parameter.
    pub router_bias: bool,
    /// Biases of the experts.
    pub expert_bias: bool,
}

/// Product of sizes that stops at the largest number instead of wrapping.
pub fn mul(a: u64, b: u64) -> u64 {
    a.saturating_mul(b)
}

impl Block {
    /// An empty block.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a tensor.
    fn tensor(mut self, path: &str, parameter: &'static str, shape: &[u64], copies: (u64, u64), role: Role, linear: bool) -> Self {
        let (copies, active) = copies;
        self.tensors.push(Tensor {
            path: path.to_owned(),
            parameter,
            shape: shape.to_vec(),
            copies,
            active: active.min(copies),
            role,
            linear,
        });
        self
    }

    /// A loose parameter.
    pub fn param(self, path: &str, role: Role, shape: &[u64]) -> Self {
        self.tensor(path, "weight", shape, (1, 1), role, false)
    }

    /// A linear layer.
    pub fn linear(self, path: &str, role: Role, out: u64, input: u64, bias: bool) -> Self {
        let block = self.tensor(path, "weight", &[out, input], (1, 1), role, true);
        if bias { block.tensor(path, "bias", &[out], (1, 1), role, false) } else { block }
    }

    /// Equal linear layers, one an expert.
    pub fn expert_linear(self, path: &str, out: u64, input: u64, bias: bool, copies: (u64, u64)) -> Self {
        let block = self.tensor(path, "weight", &[out, input], copies, Role::Expert, true);
        if bias { block.tensor(path, "bias", &[out], copies, Role::Expert, false) } else { block }
    }

    /// A convolution; `shape` is `[out, in, kernel ...]`.
    pub fn conv(self, path: &str, role: Role, shape: &[u64], bias: bool) -> Self {
        let out = shape.first().copied().unwrap_or(0);
        let block = self.tensor(path, "weight", shape, (1, 1), role, false);
        if bias { block.tensor(path, "bias", &[out], (1, 1), role, false) } else { block }
    }

    /// A table of vectors.
    pub fn embedding(self, path: &str, role: Role, rows: u64, width: u64) -> Self {
        self.tensor(path, "weight", &[rows, width], (1, 1), role, false)
    }

    /// A normalisation with a weight only.
    pub fn norm(self, path: &str, width: u64) -> Self {
        self.norm_of(Norm::Weight, path, width)
    }

    /// A normalisation with weight and bias.
    pub fn layer_norm(self, path: &str, width: u64) -> Self {
        self.norm_of(Norm::WeightBias, path, width)
    }

    /// A normalisation of a kind.
    pub fn norm_of(self, kind: Norm, path: &str, width: u64) -> Self {
        match kind {
            Norm::Bare => self,
            Norm::Weight => self.tensor(path, "weight", &[width], (1, 1), Role::Norm, false),
            Norm::WeightBias => {
                self.tensor(path, "weight", &[width], (1, 1), Role::Norm, false).tensor(path, "bias", &[width], (1, 1), Role::Norm, false)
            }
        }
    }

    /// Adds what the layer keeps during generation.
    pub fn cache(mut self, cache: Cache) -> Self {
        self.caches.push(cache);
        self
    }

    /// Adds all of another block.
    pub fn with(mut self, other: Block) -> Self {
        self.tensors.extend(other.tensors);
        self.caches.extend(other.caches);
        self
    }

    /// Applies a step when a condition holds.
    pub fn when(self, condition: bool, step: impl FnOnce(Self) -> Self) -> Self {
        if condition { step(self) } else { self }
    }

    /// Self-attention with its cache.
    pub fn attention(self, path: &str, a: &Attention, window: Window) -> Self {
        self.attention_named(path, a, ["q_proj", "k_proj", "v_proj", "o_proj"]).cache(a.cache(window))
    }

    /// Attention weights under given names, without a cache.
    pub fn attention_named(self, path: &str, a: &Attention, [q, k, v, o]: [&str; 4]) -> Self {
        let (wide, key, value) = (mul(a.heads, a.head_dim), mul(a.kv_heads, a.head_dim), mul(a.kv_heads, a.value_dim));
        let block = self
            .linear(&join(path, q), Role::Attention, wide, a.hidden, a.qkv_bias)
            .linear(&join(path, k), Role::Attention, key, a.hidden, a.qkv_bias)
            .linear(&join(path, v), Role::Attention, value, a.hidden, a.qkv_bias)
            .linear(&join(path, o), Role::Attention, a.hidden, mul(a.heads, a.value_dim), a.out_bias);
        match a.qk_norm {
            QkNorm::Off => block,
            QkNorm::PerHead => block.norm(&join(path, "q_norm"), a.head_dim).norm(&join(path, "k_norm"), a.head_dim),
            QkNorm::FullWidth => block.norm(&join(path, "q_norm"), wide).norm(&join(path, "k_norm"), key),
            QkNorm::PerHeadBias => block.layer_norm(&join(path, "q_norm"), a.head_dim).layer_norm(&join(path, "k_norm"), a.head_dim),
        }
    }

    /// Attention with one fused projection of queries, keys and values.
    pub fn fused_attention(self, path: &str, a: &Attention, [qkv, o]: [&str; 2], window: Window) -> Self {
        let wide = mul(a.heads, a.head_dim);
        let fused = wide.saturating_add(mul(a.kv_heads, a.head_dim)).saturating_add(mul(a.kv_heads, a.value_dim));
        self.linear(&join(path, qkv), Role::Attention, fused, a.hidden, a.qkv_bias)
            .linear(&join(path, o), Role::Attention, a.hidden, mul(a.heads, a.value_dim), a.out_bias)
            .cache(a.cache(window))
    }

    /// Feed-forward layer with a gate (SwiGLU and its kin).
    pub fn gated_mlp(self, path: &str, hidden: u64, width: u64, bias: bool) -> Self {
        self.gated(path, Role::Mlp, hidden, width, bias)
    }

    /// A gated feed-forward layer of a role.
    pub fn gated(self, path: &str, role: Role, hidden: u64, width: u64, bias: bool) -> Self {
        self.linear(&join(path, "gate_proj"), role, width, hidden, bias).linear(&join(path, "up_proj"), role, width, hidden, bias).linear(
            &join(path, "down_proj"),
            role,
            hidden,
            width,
            bias,
        )
    }

    /// Gated feed-forward layer with a fused gate and up projection.
    pub fn fused_gated_mlp(self, path: &str, hidden: u64, width: u64, [up, down]: [&str; 2], bias: bool) -> Self {
        self.linear(&join(path, up), Role::Mlp, mul(width, 2), hidden, bias).linear(&join(path, down), Role::Mlp, hidden, width, bias)
    }

    /// Feed-forward layer without a gate.
    pub fn plain_mlp(self, path: &str, hidden: u64, width: u64, [up, down]: [&str; 2], bias: bool) -> Self {
        self.linear(&join(path, up), Role::Mlp, width, hidden, bias).linear(&join(path, down), Role::Mlp, hidden, width, bias)
    }

    /// Router and gated experts.
    pub fn moe(self, path: &str, moe: &Moe) -> Self {
        self.router(path, moe.experts, moe.hidden, moe.router_bias).experts(path, moe)
    }

    /// Gated experts without their router.
    pub fn experts(self, path: &str, moe: &Moe) -> Self {
        let copies = (moe.experts, moe.active);
        let name = |part: &str| join(path, &join("experts.{e}", part));
        self.expert_linear(&name("gate_proj"), moe.width, moe.hidden, moe.expert_bias, copies)
            .expert_linear(&name("up_proj"), moe.width, moe.hidden, moe.expert_bias, copies)
            .expert_linear(&name("down_proj"), moe.hidden, moe.width, moe.expert_bias, copies)
    }

    /// The router of a mixture of experts. It stays in full precision, so it is no linear target.
    pub fn router(self, path: &str, experts: u64, hidden: u64, bias: bool) -> Self {
        let name = join(path, "gate");
        let block = self.tensor(&name, "weight", &[experts, hidden], (1, 1), Role::Router, false);
        if bias { block.tensor(&name, "bias", &[experts], (1, 1), Role::Router, false) } else { block }
    }

    /// Multi-head latent attention without a cache.
    pub fn mla(self, path: &str, m: &Mla) -> Self {
        let query = mul(m.heads, m.nope.saturating_add(m.rope));
        let block = match m.q_rank {
            None => self.linear(&join(path, "q_proj"), Role::Attention, query, m.hidden, false),
            Some(rank) => self
                .linear(&join(path, "q_a_proj"), Role::Attention, rank, m.hidden, m.bias)
                .norm(&join(path, "q_a_layernorm"), rank)
                .linear(&join(path, "q_b_proj"), Role::Attention, query, rank, false),
        };
        block
            .linear(&join(path, "kv_a_proj_with_mqa"), Role::Attention, m.kv_rank.saturating_add(m.rope), m.hidden, m.bias)
            .norm(&join(path, "kv_a_layernorm"), m.kv_rank)
            .linear(&join(path, "kv_b_proj"), Role::Attention, mul(m.heads, m.nope.saturating_add(m.value)), m.kv_rank, false)
            .linear(&join(path, "o_proj"), Role::Attention, m.hidden, mul(m.heads, m.value), m.bias)
    }

    /// The latent cache of multi-head latent attention.
    pub fn latent_cache(self, m: &Mla) -> Self {
        let expanded = mul(m.heads, m.nope.saturating_add(m.rope).saturating_add(m.value));
        self.cache(Cache::Latent { latent: m.kv_rank.saturating_add(m.rope), expanded })
    }

    /// A layer of a BERT-like encoder: attention and feed-forward with biases, two norms.
    pub fn encoder_layer(self, hidden: u64, width: u64) -> Self {
        let attention = Attention::new(hidden, 1, 1, hidden).biases(true, true);
        self.attention_named("attention", &attention, ["query", "key", "value", "output"])
            .layer_norm("attention_norm", hidden)
            .plain_mlp("mlp", hidden, width, ["fc1", "fc2"], true)
            .layer_norm("mlp_norm", hidden)
    }
}

/// Joins two parts of a path; an empty first part adds no dot.
pub fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}
