//! The widths of a layer that decide about its memory, read from the inventory.

use crate::model::Model;
use crate::model::inventory::{Group, Part, Role, Tensor};
use crate::model::kv_cache::Cache;

/// Kind of normalisation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Norm {
    /// Root mean square, computed in 32 bits, result in the dtype of the input.
    Rms,
    /// As Gemma computes it: the weight is applied in 32 bits.
    Gemma,
    /// Mean and variance in one fused operation.
    Layer,
}

/// Widths of one kind of layer, as numbers for formulas.
#[derive(Debug, Clone, PartialEq)]
pub struct Shape {
    /// Index of its group in the inventory.
    pub group: usize,
    /// How many such layers.
    pub count: f64,
    /// Width of the residual stream.
    pub hidden: f64,
    /// Width of all queries.
    pub query: f64,
    /// Width of all keys.
    pub key: f64,
    /// Query heads.
    pub heads: f64,
    /// KV heads.
    pub kv_heads: f64,
    /// Whether there is attention with a softmax.
    pub attention: bool,
    /// Tokens of a sliding window or a chunk.
    pub window: Option<u64>,
    /// Norms over the residual stream.
    pub norms: f64,
    /// Kind of the norms.
    pub norm: Norm,
    /// Whether queries and keys are normalised.
    pub qk_norm: bool,
    /// Width of the dense feed-forward layer, shared experts included.
    pub mlp: f64,
    /// Width of a routed expert.
    pub expert: f64,
    /// Routed experts.
    pub experts: f64,
    /// Experts a token passes.
    pub active: f64,
    /// Whether the feed-forward layer has a gate beside it.
    pub gated: bool,
    /// Width of what a recurrent mixer holds a token.
    pub mixer: f64,
    /// Parameters of one layer.
    pub parameters: f64,
    /// Parameters in its matrices, which autocast copies.
    pub matrices: f64,
}

/// The families whose formulas were compared with measurements.
const MEASURED: [&str; 7] = ["llama", "mistral", "qwen2", "qwen3", "gemma2", "mixtral", "gpt2"];

/// Whether a family computes its activation with several operations that each keep a tensor.
pub fn unfused_gelu(model: &Model) -> bool {
    matches!(model.model_type.as_str(), "gpt2" | "gptj" | "gpt_neo" | "codegen" | "phi")
}

/// Whether dropout is on by default, which keeps masks.
pub fn drops(model: &Model) -> bool {
    matches!(model.model_type.as_str(), "gpt2" | "gpt_neo" | "opt")
}

/// Whether final logits are capped by a tanh, which keeps its result.
pub fn capped(model: &Model) -> bool {
    matches!(model.model_type.as_str(), "gemma2" | "gemma3n")
}

/// Entries of a row of logits: none for models without a head over the vocabulary.
pub fn logits(model: &Model) -> f64 {
    let class = model.architecture.as_str();
    let headless = ["Classification", "QuestionAnswering", "Reward", "Embedding"].iter().any(|part| class.contains(part))
        || (class.ends_with("Model") && !class.contains("Head"));
    if model.head() == 0 && (headless || model.embedding() == 0) {
        return 0.0;
    }
    model.dimensions.vocab as f64
}

/// Whether attention scores are capped.
pub fn capped_scores(model: &Model) -> bool {
    model.model_type == "gemma2"
}

/// How far the activation formulas may be off for a model, as factors.
pub fn spread(model: &Model, shapes: &[Shape]) -> (f64, f64) {
    if MEASURED.contains(&model.model_type.as_str()) {
        return (0.98, 1.03);
    }
    let plain = |shape: &Shape| shape.attention && shape.mixer == 0.0 && shape.norm != Norm::Layer && shape.key > 0.0;
    let whole = model
        .inventory
        .groups
        .iter()
        .filter(|group| group.layer)
        .all(|group| group.part == Part::Text && !matches!(group.caches.first(), Some(Cache::Latent { .. })));
    if whole && model.is_exact() && !shapes.is_empty() && shapes.iter().all(plain) { (0.9, 1.15) } else { (0.7, 1.6) }
}

/// The layers of the language model; towers are not part of it.
pub fn of(model: &Model) -> Vec<Shape> {
    let text = |(_, group): &(usize, &Group)| group.layer && matches!(group.part, Part::Text | Part::Encoder | Part::Decoder);
    model.inventory.groups.iter().enumerate().filter(text).map(|(index, group)| shape(model, index, group)).collect()
}

/// Whether the model has layers of a language model at all.
pub fn has_layers(model: &Model) -> bool {
    !of(model).is_empty()
}

fn shape(model: &Model, index: usize, group: &Group) -> Shape {
    let dims = &model.dimensions;
    let hidden = dims.hidden.max(1) as f64;
    let linear =
        |roles: &'static [Role]| group.tensors.iter().filter(move |tensor| roles.contains(&tensor.role) && tensor.shape.len() == 2);
    let query = linear(&[Role::Attention]).next_back().and_then(|tensor| tensor.shape.get(1)).map_or(0.0, |width| *width as f64);
    let heads = dims.heads.max(1) as f64;
    let (key, kv_heads, window) = kv(group, query, heads);
    let norms = |tensor: &&Tensor| {
        tensor.role == Role::Norm && tensor.parameter == "weight" && tensor.shape.first() == Some(&dims.hidden) && !is_qk(tensor)
    };
    let gemma = model.model_type.starts_with("gemma");
    let biased = |tensor: &Tensor| tensor.role == Role::Norm && tensor.parameter == "bias";
    let norm = match gemma {
        true => Norm::Gemma,
        false if group.tensors.iter().any(biased) => Norm::Layer,
        false => Norm::Rms,
    };
    let (mlp, gated) = feed_forward(linear(&[Role::Mlp, Role::SharedExpert]));
    let (expert, gated_expert) = feed_forward(linear(&[Role::Expert]));
    let routed = linear(&[Role::Expert]).next();
    let mixer = linear(&[Role::Mixer]).filter_map(|tensor| tensor.shape.first()).map(|width| *width as f64).sum();
    let elements = |select: fn(&Tensor) -> bool| -> f64 {
        let sum = group
            .tensors
            .iter()
            .filter(|tensor| select(tensor))
            .map(|tensor| tensor.elements().saturating_mul(u128::from(tensor.copies)))
            .fold(0u128, u128::saturating_add);
        sum as f64
    };
    Shape {
        group: index,
        count: group.count() as f64,
        hidden,
        query,
        key,
        heads,
        kv_heads,
        attention: query > 0.0,
        window,
        norms: group.tensors.iter().filter(norms).count() as f64,
        norm,
        qk_norm: group.tensors.iter().any(is_qk),
        mlp,
        expert,
        experts: routed.map_or(0.0, |tensor| tensor.copies as f64),
        active: routed.map_or(0.0, |tensor| tensor.active as f64),
        gated: gated || (mlp == 0.0 && gated_expert),
        mixer,
        parameters: elements(|_| true),
        matrices: elements(|tensor| tensor.shape.len() == 2),
    }
}

fn is_qk(tensor: &Tensor) -> bool {
    tensor.role == Role::Norm
        && matches!(tensor.module(), "q_norm" | "k_norm" | "q_layernorm" | "k_layernorm" | "query_layernorm" | "key_layernorm")
}

fn kv(group: &Group, query: f64, heads: f64) -> (f64, f64, Option<u64>) {
    for cache in &group.caches {
        let (kv_heads, key, value, window) = match *cache {
            Cache::Full { heads, key, value } => (heads, key, value, None),
            Cache::Sliding { heads, key, value, window } => (heads, key, value, Some(window)),
            Cache::Chunked { heads, key, value, chunk } => (heads, key, value, Some(chunk)),
            _ => continue,
        };
        let width = key as f64 / 2.0 + value as f64 / 2.0;
        return (width, (kv_heads.max(1)) as f64, window);
    }
    // Latent attention computes with all heads; layers that share keys and encoders likewise.
    (query, heads, None)
}

/// Width of a feed-forward layer, and whether it has a gate: the last matrix leads back.
fn feed_forward<'a>(matrices: impl Iterator<Item = &'a Tensor>) -> (f64, bool) {
    let (mut into, mut back) = (0.0, 0.0);
    let mut sizes: Vec<(f64, f64)> = Vec::new();
    for tensor in matrices {
        if let (Some(out), Some(input)) = (tensor.shape.first(), tensor.shape.get(1)) {
            sizes.push((*out as f64, *input as f64));
        }
    }
    let Some((hidden, _)) = sizes.last().copied() else {
        return (0.0, false);
    };
    for (index, (out, input)) in sizes.iter().enumerate() {
        // A matrix that leads to the residual stream and is not the first of its chain.
        if index > 0 && *out == hidden && into > back {
            back += input;
        } else {
            into += out;
        }
    }
    (back, into > back * 1.5)
}
