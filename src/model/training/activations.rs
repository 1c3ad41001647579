//! What a layer keeps for the backward pass, in bytes a token.
//!
//! Each term is a tensor that an operation of the usual model code saves: the 32-bit input of a
//! norm, the inputs of matrix products, queries, keys and values, the scores where no fused kernel
//! applies, the parts of the feed-forward layer. Under autocast each product keeps its own 16-bit
//! copy of a 32-bit input. A frozen base keeps no inputs of its products.

use super::setup::{Attention, Precision, Setup, Task};
use super::shape::{Norm, Shape};
use super::states;
use crate::model::Model;
use crate::model::adapter::Adapter;
use crate::model::inventory::{Group, Role, Tensor};

/// Widths in bytes that the precision implies.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Widths {
    /// The residual stream.
    pub residual: f64,
    /// Attention.
    pub attention: f64,
    /// Results of linear layers.
    pub linear: f64,
    /// Whether products keep 16-bit copies of a 32-bit stream.
    pub copies: bool,
    /// Whether the base is trained.
    pub full: bool,
    /// Whether autocast is on.
    pub autocast: bool,
}

/// The widths of a training run.
pub fn widths(setup: &Setup) -> Widths {
    // DeepSpeed and FSDP's mixed precision compute in 16 bits throughout.
    let shards = setup.sharing.is_some() || setup.zero > 0 && setup.data_parallel() > 1;
    let sharded = shards && setup.task == Task::Full && setup.precision != Precision::Fp32;
    let autocast = setup.is_autocast() && !sharded;
    let prepared = setup.is_prepared();
    let wide = states::base_bytes(setup) == 4.0 && !sharded;
    let fp32 = setup.precision == Precision::Fp32;
    let residual = if wide || prepared { 4.0 } else { 2.0 };
    Widths {
        residual,
        attention: if fp32 || (prepared && !autocast) { 4.0 } else { 2.0 },
        linear: if fp32 || prepared { 4.0 } else { 2.0 },
        copies: autocast && residual == 4.0,
        full: setup.task == Task::Full,
        autocast,
    }
}

/// What one layer keeps, in bytes a token.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Kept {
    /// Norms and masks of dropout, and what they hand to products.
    pub norms: f64,
    /// Attention.
    pub attention: f64,
    /// The feed-forward layer.
    pub mlp: f64,
    /// Inputs and inner results of adapters.
    pub adapters: f64,
    /// Bytes an element of the score matrix at the peak of its backward; 0 with a fused kernel.
    pub scores: f64,
    /// Whether a mask of all pairs is built.
    pub mask: bool,
}

impl Kept {
    /// All of it.
    pub fn total(&self) -> f64 {
        self.norms + self.attention + self.mlp + self.adapters
    }
}

/// How attention runs in a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kernel {
    /// The full score matrix in the model's own code.
    Eager,
    /// A fused kernel with a mask: keys and values are repeated, the mask becomes a bias.
    Masked,
    /// PyTorch's fallback with the full score matrix: 32 bits and grouped heads.
    Math,
    /// Flash or memory-efficient attention.
    Fused,
}

/// The kernel that a layer gets.
pub fn kernel(setup: &Setup, shape: &Shape, element: f64) -> Kernel {
    let slides = shape.window.is_some_and(|window| setup.seq >= window);
    match setup.attention {
        Attention::Eager => Kernel::Eager,
        Attention::Flash => Kernel::Fused,
        Attention::Sdpa if setup.padded || slides => Kernel::Masked,
        Attention::Sdpa if element == 4.0 && shape.kv_heads < shape.heads => Kernel::Math,
        Attention::Sdpa => Kernel::Fused,
    }
}

/// What a layer keeps.
pub fn kept(model: &Model, setup: &Setup, shape: &Shape, adapter: Option<&Adapter>) -> Kept {
    let w = widths(setup);
    let (adapters, output_kept) = match adapter {
        Some(adapter) => adapters(model, setup, shape, adapter, w),
        None => (0.0, w.full),
    };
    let (attention, scores) = attention(model, setup, shape, w, output_kept);
    let kernel = kernel(setup, shape, w.attention);
    Kept {
        norms: norms(model, shape, w),
        attention,
        mlp: feed_forward(model, shape, w),
        adapters,
        scores,
        mask: matches!(kernel, Kernel::Eager | Kernel::Masked),
    }
}

/// Norms, the inputs they give to products, and dropout masks of the residual stream.
fn norms(model: &Model, shape: &Shape, w: Widths) -> f64 {
    let h = shape.hidden;
    let mut sum = match shape.norm {
        Norm::Layer => shape.norms * (w.residual * h + 8.0),
        Norm::Rms => shape.norms * (4.0 * h + 4.0 + if w.full { w.residual * h } else { 0.0 }),
        Norm::Gemma => shape.norms * (4.0 * h + 4.0 + if w.full { 4.0 * h } else { 0.0 }),
    };
    if super::shape::drops(model) {
        sum += 2.0 * h;
    }
    if !w.full {
        return sum;
    }
    // One product where queries, keys and values are fused, three otherwise; gate and up likewise.
    let fused = shape.norm == Norm::Layer && super::shape::unfused_gelu(model);
    let (attention, mlp) = if fused { (1.0, 1.0) } else { (3.0, if shape.gated { 2.0 } else { 1.0 }) };
    let input = if w.copies { 2.0 * h } else { w.attention * h };
    if shape.attention || shape.mixer > 0.0 {
        sum += input * if w.copies { attention } else { 1.0 };
    }
    if shape.mlp > 0.0 || shape.experts > 0.0 {
        let routed = shape.mlp == 0.0;
        sum += input * if w.copies && !routed { mlp } else { 1.0 };
    }
    sum
}

/// Attention, and the bytes a score needs at the peak of the backward pass.
fn attention(model: &Model, setup: &Setup, shape: &Shape, w: Widths, output_kept: bool) -> (f64, f64) {
    // Recurrent mixers keep their projections and what the scan needs, about twice.
    let mut sum = 3.0 * w.linear * shape.mixer;
    if !shape.attention {
        return (sum, 0.0);
    }
    let (e, s) = (w.attention, setup.seq as f64);
    let (query, key, heads) = (shape.query, shape.key, shape.heads);
    if shape.qk_norm {
        sum += 4.0 * (query + key) + 4.0 * (heads + shape.kv_heads);
        if w.full {
            sum += e * (query + key);
        }
    }
    let repeated = 4.0 * e * query;
    let output = if output_kept { 0.0 } else { e * query };
    let mut scores = 0.0;
    sum += match kernel(setup, shape, e) {
        Kernel::Fused => e * (2.0 * query + 2.0 * key) + 4.0 * heads,
        Kernel::Masked => repeated + 4.0 * heads + e * s,
        Kernel::Math => {
            scores = 8.0;
            repeated - output + 4.0 * heads * s
        }
        Kernel::Eager => {
            scores = if e == 2.0 { 6.0 } else { 8.0 };
            let dropped = super::shape::drops(model);
            let score = match (dropped, e == 2.0, w.copies) {
                (true, true, false) => 5.0,
                (true, true, true) => 7.0,
                (true, false, _) => 9.0,
                (false, true, _) => 4.0 + e,
                (false, false, _) => 4.0,
            };
            let cap = if super::shape::capped_scores(model) { e } else { 0.0 };
            repeated - output + heads * s * (score + cap)
        }
    };
    (sum, scores)
}

/// The feed-forward layer: dense, routed, or both.
fn feed_forward(model: &Model, shape: &Shape, w: Widths) -> f64 {
    let mut sum = 0.0;
    if shape.mlp > 0.0 {
        sum += dense(model, shape, w);
    }
    if shape.experts > 0.0 {
        sum += routed(shape, w);
    }
    sum
}

fn dense(model: &Model, shape: &Shape, w: Widths) -> f64 {
    let width = shape.mlp;
    if super::shape::unfused_gelu(model) {
        let inner = if w.copies {
            14.0
        } else if w.autocast {
            // Powers and tanh run in 32 bits under autocast.
            12.0
        } else {
            4.0 * w.linear
        };
        let input = if w.autocast { 2.0 } else { w.linear };
        return width * (inner + if w.full { input } else { 0.0 });
    }
    let kept = if shape.gated { 3.0 } else { 1.0 };
    let input = if w.autocast { 2.0 } else { w.linear };
    width * (kept * w.linear + if w.full { input } else { 0.0 })
}

/// Routed experts with evenly spread tokens.
fn routed(shape: &Shape, w: Widths) -> f64 {
    let (h, k, width, e) = (shape.hidden, shape.active, shape.expert, w.attention);
    let router = 24.0 * k + shape.experts * (e + 12.0);
    // Results of experts, and these weighted; both are needed for the gradient of the router.
    let weighted = if w.copies { 4.0 } else { e };
    let inner = if shape.gated { 3.0 } else { 1.0 };
    let mut sum = router + e * k * h + weighted * k * h + inner * e * k * width;
    if w.full {
        // Gathered inputs, once a product under autocast.
        sum += e * k * h * if w.copies { 2.0 } else { 1.0 };
        sum += e * k * width;
    }
    sum
}

/// Adapters: the inputs they keep and their inner results; and whether the output of attention is
/// kept as the input of an adapter.
fn adapters(model: &Model, setup: &Setup, shape: &Shape, adapter: &Adapter, w: Widths) -> (f64, bool) {
    let Some(group) = model.inventory.groups.get(shape.group) else {
        return (0.0, false);
    };
    let width = if w.autocast { 2.0 } else { states::adapter_bytes(setup) };
    let rank = setup.lora_r as f64;
    let (mut sum, mut output_kept) = (0.0, false);
    let mut shared: Vec<Source> = Vec::new();
    for tensor in &group.tensors {
        if !adapter.covers(group, tensor) {
            continue;
        }
        let Some((_, input)) = tensor.out_in() else {
            continue;
        };
        let many = tensor.active as f64;
        sum += many * width * rank;
        let source = source(group, tensor);
        let arrives = match source {
            Source::First | Source::Second => w.residual,
            Source::Output => w.attention,
            Source::Product if w.autocast && super::shape::unfused_gelu(model) => 4.0,
            Source::Product => w.linear,
        };
        if as_it_is(setup, w, arrives) {
            match source {
                Source::Output => output_kept = true,
                Source::Product => sum += many * arrives * input as f64,
                _ if shared.contains(&source) => {}
                _ => {
                    sum += arrives * input as f64;
                    shared.push(source);
                }
            }
        } else {
            sum += many * width * input as f64;
        }
    }
    (sum, output_kept)
}

/// Where the input of a linear layer comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    /// The norm before attention.
    First,
    /// The norm before the feed-forward layer.
    Second,
    /// Attention.
    Output,
    /// The product of gate and up projection.
    Product,
}

fn source(group: &Group, tensor: &Tensor) -> Source {
    // The last product of a block leads back to the residual stream.
    let last = group.tensors.iter().rfind(|other| other.linear && other.role == tensor.role).is_some_and(|other| other.path == tensor.path);
    let attention = matches!(tensor.role, Role::Attention | Role::CrossAttention | Role::Mixer | Role::Indexer);
    match (attention, last) {
        (true, true) => Source::Output,
        (true, false) => Source::First,
        (false, true) => Source::Product,
        (false, false) => Source::Second,
    }
}

/// Whether an adapter keeps its input without a copy of its own.
fn as_it_is(setup: &Setup, w: Widths, arrives: f64) -> bool {
    let narrow = states::adapter_bytes(setup) == 2.0;
    if w.autocast {
        // Layers of bitsandbytes do not convert inputs under autocast, those of PEFT do.
        return arrives == 2.0 && (narrow || setup.task == Task::Qlora);
    }
    arrives == states::adapter_bytes(setup)
}
