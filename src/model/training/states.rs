//! Weights, gradients and optimiser states of a single GPU without sharding.
//!
//! Sizes are sums over tensors, each rounded to the blocks of the allocator.

use super::setup::{Engine, Held, LoraDtype, Optimizer, Precision, Setup, Task};
use super::{block, digits};
use crate::model::Model;
use crate::model::adapter::{Adapter, Targets};
use crate::model::gguf;
use crate::model::inventory::Role;
use crate::model::quantization::{Dtype, Quantization, Scheme, stored_bytes};

/// Modules that hold queries, keys and values in one matrix.
const FUSED: [&str; 7] = ["c_attn", "query_key_value", "qkv_proj", "Wqkv", "W_pack", "wqkv", "in_proj"];

/// Bytes of the states, and counts they follow from.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct States {
    /// Weights of the base model and of adapters.
    pub weights: f64,
    /// Gradients.
    pub gradients: f64,
    /// Optimiser states.
    pub optimizer: f64,
    /// What the optimiser step needs besides.
    pub step: f64,
    /// Copies of weights that autocast keeps.
    pub copies: f64,
    /// Parameters of the model without adapters.
    pub base: f64,
    /// Parameters that are trained.
    pub trainable: f64,
    /// Tensors that are trained.
    pub tensors: f64,
    /// Bytes of a trained parameter.
    pub trained_bytes: f64,
    /// Largest quantised matrix, in elements; it is expanded for a product.
    pub largest_quantised: f64,
    /// The formula of the weights.
    pub weights_formula: String,
    /// The formula of the optimiser states.
    pub optimizer_formula: String,
}

/// Bytes of a weight of the base in training.
pub fn base_bytes(setup: &Setup) -> f64 {
    match setup.precision {
        Precision::Fp32 | Precision::AmpBf16 | Precision::AmpFp16 => 4.0,
        Precision::Bf16 | Precision::Bf16BaseAmp => 2.0,
    }
}

/// Bytes of an adapter's weight: PEFT trains adapters of a quantised base in fp32.
pub fn adapter_bytes(setup: &Setup) -> f64 {
    let wide = setup.lora_dtype == LoraDtype::Fp32;
    if wide || (base_bytes(setup) == 4.0 && setup.task != Task::Qlora) { 4.0 } else { 2.0 }
}

/// The adapter that the settings describe, and a note where it had to be read freely.
pub fn adapter(model: &Model, setup: &Setup) -> (Adapter, Option<String>) {
    let names: Vec<&str> = setup.lora_targets.iter().map(String::as_str).collect();
    let adapter = Adapter::new(setup.lora_r, &names);
    let all = || model.inventory.groups.iter().flat_map(|group| group.tensors.iter().map(move |tensor| (group, tensor)));
    if matches!(adapter.targets, Targets::AllLinear) || all().any(|(group, tensor)| adapter.covers(group, tensor)) {
        return (adapter, None);
    }
    let attention = names.iter().any(|name| matches!(*name, "q_proj" | "k_proj" | "v_proj" | "query" | "value"));
    let fused = all().map(|(_, tensor)| tensor.module()).find(|module| FUSED.contains(module));
    match fused.filter(|_| attention) {
        Some(module) => (
            Adapter::new(setup.lora_r, &[module]),
            Some(format!(
                "the model has no {}; its queries, keys and values are one matrix, {module}, which takes the adapter",
                names.join(", ")
            )),
        ),
        None => (adapter, None),
    }
}

/// Bytes of the base's weights on one GPU, before any sharding.
pub fn weights(model: &Model, setup: &Setup) -> (f64, String) {
    let name = |dtype: Dtype| dtype.name();
    if setup.task != Task::Inference {
        return training_weights(model, setup);
    }
    let dtype = inference_dtype(model, setup);
    let total = model.total() as f64;
    match setup.held {
        Held::Gguf(mix) => {
            let bytes = gguf::stored_bytes(&model.inventory, mix) as f64;
            (bytes, format!("{} parameters as GGUF {}", digits(total), mix.name()))
        }
        Held::Scheme(method, scheme) => {
            let quantization = Quantization::of(method, scheme);
            let bytes = stored_bytes(&model.inventory, dtype, Some(&quantization)) as f64;
            let text = format!("{} parameters, linear layers in {method}, the rest in {}", digits(total), name(dtype));
            (bytes, text)
        }
        Held::Stored => match &model.quantization {
            Some(quantization) if quantization.is_known() => {
                let bytes = stored_bytes(&model.inventory, dtype, Some(quantization)) as f64;
                let text = format!("{} parameters as stored: {} {}", digits(total), quantization.method, quantization.summary);
                (bytes, text)
            }
            _ => (
                blocks(model, dtype.bytes() as f64) + buffers(model),
                format!("{} parameters x {} B ({})", digits(total), dtype.bytes(), name(dtype)),
            ),
        },
    }
}

/// Dtype of weights in inference: the flag's, else as they are stored. vLLM loads 32-bit weights in 16 bits unless it is
/// told otherwise.
pub fn inference_dtype(model: &Model, setup: &Setup) -> Dtype {
    setup.dtype.unwrap_or_else(|| match (model.stored_dtype(), setup.engine) {
        (Dtype::Float32, Engine::Vllm) => Dtype::Float16,
        (stored, _) => stored,
    })
}

/// The base of training, in the dtype of the precision, or quantised.
fn training_weights(model: &Model, setup: &Setup) -> (f64, String) {
    let total = model.total() as f64;
    let stored = model.quantization.as_ref().filter(|one| one.is_known());
    if setup.task != Task::Qlora {
        if let Some(stored) = stored.filter(|_| setup.task == Task::Lora) {
            let bytes = stored_bytes(&model.inventory, Dtype::Bfloat16, Some(stored)) as f64;
            return (bytes, format!("{} parameters as stored: {}", digits(total), stored.method));
        }
        let one = base_bytes(setup);
        return (blocks(model, one) + buffers(model), format!("{} parameters x {one} B", digits(total)));
    }
    let nf4 = Quantization::of("bitsandbytes nf4", Scheme::Bnb4 { double: true });
    let rule = stored.unwrap_or(&nf4);
    let rest = if setup.kbit_prepare { 4.0 } else { 2.0 };
    let (mut bytes, mut quantised) = (0.0, 0.0);
    for group in &model.inventory.groups {
        for tensor in &group.tensors {
            let many = tensor.copies as f64 * group.count() as f64;
            let index = group.indices.first().copied().unwrap_or(0);
            let scheme = rule.scheme(group, tensor, index);
            bytes += many
                * match (scheme, tensor.out_in()) {
                    (Some(scheme), Some((out, input))) => {
                        quantised += tensor.elements() as f64 * many;
                        block(scheme.bytes(out, input) as f64)
                    }
                    // Matrices that are not quantised stay in 16 bits, the router for one.
                    _ if tensor.shape.len() == 2 && !matches!(tensor.role, Role::Head | Role::Embedding | Role::Position) => {
                        block(tensor.elements() as f64 * 2.0)
                    }
                    _ => block(tensor.elements() as f64 * rest),
                };
        }
    }
    let text = format!("{} parameters in {}, {} x {rest} B", digits(quantised), rule.method, digits(total - quantised));
    (bytes + buffers(model), text)
}

/// All parameters in one width, each tensor in whole blocks.
fn blocks(model: &Model, width: f64) -> f64 {
    let mut sum = 0.0;
    for group in &model.inventory.groups {
        for tensor in &group.tensors {
            sum += block(tensor.elements() as f64 * width) * tensor.copies as f64 * group.count() as f64;
        }
    }
    sum
}

/// Masks that GPT-2 keeps as buffers, one a layer, before transformers 5.
fn buffers(model: &Model) -> f64 {
    if model.model_type != "gpt2" {
        return 0.0;
    }
    let side = model.dimensions.positions as f64;
    block(side * side) * model.dimensions.layers as f64
}

/// All states of a task, with the base's weights as [`weights`] gives them: these do not depend on
/// batch and length, and are computed once for a search.
pub fn of(model: &Model, setup: &Setup, held: &(f64, String)) -> States {
    let (mut weights, weights_formula) = held.clone();
    let mut states = States { base: model.total() as f64, weights_formula, ..States::default() };
    if setup.task == Task::Inference {
        states.weights = weights;
        return states;
    }
    let mut trained: Vec<Trained> = Vec::new();
    if setup.is_lora() {
        let (adapter, _) = adapter(model, setup);
        let width = adapter_bytes(setup);
        for group in &model.inventory.groups {
            for tensor in &group.tensors {
                if !adapter.covers(group, tensor) {
                    continue;
                }
                if let Some((out, input)) = tensor.out_in() {
                    let many = tensor.copies as f64 * group.count() as f64;
                    let rank = setup.lora_r as f64;
                    for side in [input as f64, out as f64] {
                        trained.push(Trained::matrix(rank, side, many, false));
                    }
                }
            }
        }
        let adapters: f64 = trained.iter().map(|one| block(one.elements * width) * one.many).sum();
        weights += adapters;
        states
            .weights_formula
            .push_str(&format!(" + adapters of {} x {width} B", digits(trained.iter().map(|one| one.elements * one.many).sum())));
        states.trained_bytes = width;
    } else {
        states.trained_bytes = base_bytes(setup);
        for group in &model.inventory.groups {
            for tensor in &group.tensors {
                trained.push(Trained {
                    elements: tensor.elements() as f64,
                    rows: tensor.shape.first().copied().unwrap_or(1) as f64,
                    matrix: tensor.shape.len() == 2,
                    hidden: group.layer,
                    embedding: tensor.role == Role::Embedding,
                    many: tensor.copies as f64 * group.count() as f64,
                });
            }
        }
    }
    let width = states.trained_bytes;
    states.weights = weights;
    states.trainable = trained.iter().map(|one| one.elements * one.many).sum();
    states.tensors = trained.iter().map(|one| one.many).sum();
    states.gradients = trained.iter().map(|one| block(one.elements * width) * one.many).sum();
    states.optimizer = trained.iter().map(|one| optimizer_bytes(setup.optimizer, one, width) * one.many).sum();
    let largest = trained.iter().map(|one| one.elements).fold(0.0, f64::max);
    states.step = step(setup.optimizer, states.gradients, largest, width);
    states.optimizer_formula = optimizer_formula(setup.optimizer, states.trainable, width);
    states.copies = copies(model, setup, &states);
    if setup.task == Task::Qlora {
        states.largest_quantised = model
            .inventory
            .groups
            .iter()
            .filter(|group| group.layer)
            .flat_map(|group| &group.tensors)
            .filter(|tensor| tensor.linear)
            .map(|tensor| tensor.elements() as f64)
            .fold(0.0, f64::max);
    }
    states
}

/// A trained tensor, so many times.
struct Trained {
    elements: f64,
    rows: f64,
    matrix: bool,
    hidden: bool,
    embedding: bool,
    many: f64,
}

impl Trained {
    fn matrix(rows: f64, columns: f64, many: f64, embedding: bool) -> Self {
        Self { elements: rows * columns, rows, matrix: true, hidden: true, embedding, many }
    }
}

/// Optimiser states of one tensor with parameters of `width` bytes.
fn optimizer_bytes(optimizer: Optimizer, one: &Trained, width: f64) -> f64 {
    let state = block(one.elements * width);
    match optimizer {
        Optimizer::AdamW | Optimizer::AdamWLoop => 2.0 * state,
        Optimizer::AdamWFused => 2.0 * state + 512.0,
        // Tensors under 4096 elements stay in 32 bits, and embeddings under the usual trainer.
        Optimizer::AdamW8bit | Optimizer::PagedAdamW8bit if one.elements < 4096.0 || one.embedding => 2.0 * block(one.elements * 4.0),
        Optimizer::AdamW8bit | Optimizer::PagedAdamW8bit => 2.0 * (block(one.elements) + block(one.elements / 256.0 * 4.0)),
        Optimizer::Adafactor if one.matrix => block(one.rows * 4.0) + block(one.elements / one.rows.max(1.0) * 4.0),
        Optimizer::Adafactor => block(one.elements * 4.0),
        Optimizer::Lion | Optimizer::SgdMomentum => state,
        Optimizer::Sgd => 0.0,
        Optimizer::Muon if one.matrix && one.hidden => state,
        Optimizer::Muon => 2.0 * state,
    }
}

/// What a step needs besides states and gradients.
fn step(optimizer: Optimizer, gradients: f64, largest: f64, width: f64) -> f64 {
    match optimizer {
        Optimizer::AdamW => gradients,
        Optimizer::AdamWLoop => 2.0 * block(largest * width),
        Optimizer::Adafactor => largest * if width < 4.0 { 16.0 } else { 8.0 },
        Optimizer::Muon => 4.0 * block(largest * 2.0),
        Optimizer::Lion => block(largest * width),
        _ => 0.0,
    }
}

fn optimizer_formula(optimizer: Optimizer, trainable: f64, width: f64) -> String {
    let n = digits(trainable);
    match optimizer {
        Optimizer::AdamW | Optimizer::AdamWFused | Optimizer::AdamWLoop => {
            format!("2 states x {n} trained x {width} B (AdamW keeps the dtype of the parameters)")
        }
        Optimizer::AdamW8bit => format!("2 states x {n} trained x (1 + 4/256) B; tensors under 4,096 elements and embeddings 4 B"),
        Optimizer::PagedAdamW8bit => format!("2 states x {n} trained x (1 + 4/256) B; may move to the host when the GPU is full"),
        Optimizer::Adafactor => format!("4 B a row and a column of the matrices of {n} trained"),
        Optimizer::Lion => format!("1 state x {n} trained x {width} B"),
        Optimizer::SgdMomentum => format!("1 state x {n} trained x {width} B"),
        Optimizer::Sgd => "SGD keeps no state".to_owned(),
        Optimizer::Muon => format!("of {n} trained: 1 state x {width} B for matrices of layers, 2 for embeddings, head and vectors"),
    }
}

/// Copies of weights in 16 bits that autocast keeps between forward and backward.
fn copies(model: &Model, setup: &Setup, states: &States) -> f64 {
    if !setup.is_autocast() {
        return 0.0;
    }
    let head = model.dimensions.vocab as f64 * model.dimensions.hidden as f64;
    if !setup.is_lora() {
        let matrices: f64 = super::shape::of(model).iter().map(|shape| shape.matrices * shape.count).sum();
        return 2.0 * (matrices + head);
    }
    let adapters = if states.trained_bytes == 4.0 { 2.0 * states.trainable } else { 0.0 };
    adapters + if setup.is_prepared() { 2.0 * head } else { 0.0 }
}
