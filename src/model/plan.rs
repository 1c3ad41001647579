//! The memory plan: terms, peak and range for a task, and whether it fits a GPU.
//!
//! `allocated` is the peak that `torch.cuda.max_memory_allocated` would report on one GPU; `total`
//! adds what the card must hold besides. Bounds of `allocated` are those of the formulas; bounds of
//! `total` also cover what a config cannot tell, each named in [`Plan::unknowns`].

use super::Model;
use super::adapter::Targets;
use super::inventory::{Group, Role};
use super::quantization::Dtype;
use super::training::{Certainty, Engine, Phase, Piece, Setup, SetupError, Task, digits, inference, phases, states, zero};

const GIB: f64 = (1u64 << 30) as f64;
const MIB: f64 = (1u64 << 20) as f64;

/// One term of a plan.
#[derive(Debug, Clone, PartialEq)]
pub struct Term {
    /// What it is.
    pub name: &'static str,
    /// Bytes on one GPU.
    pub bytes: u64,
    /// Least.
    pub low: u64,
    /// Most.
    pub high: u64,
    /// The formula with the numbers put in.
    pub formula: String,
    /// How far it can be trusted.
    pub certainty: Certainty,
    /// Whether it is part of `allocated`; the others are beside it on the card.
    pub allocated: bool,
}

/// What a task needs on one GPU.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// What is alive at the peak, and what the card holds besides.
    pub terms: Vec<Term>,
    /// Name and bytes of each phase of a step.
    pub phases: Vec<(&'static str, u64)>,
    /// The phase of the peak.
    pub peak_phase: &'static str,
    /// Peak of allocated tensors.
    pub allocated: u64,
    /// Its least.
    pub allocated_low: u64,
    /// Its most.
    pub allocated_high: u64,
    /// What the card must hold.
    pub total: u64,
    /// Its least.
    pub total_low: u64,
    /// Its most.
    pub total_high: u64,
    /// Parameters that are trained; none in inference.
    pub trainable: u64,
    /// Bytes of all GPUs' states in host memory.
    pub host: u64,
    /// Bytes of all GPUs' states on a disk.
    pub disk: u64,
    /// What a config cannot tell, and what the range of `total` covers.
    pub unknowns: Vec<&'static str>,
    /// What a reader should know.
    pub notes: Vec<String>,
}

fn whole(bytes: f64) -> u64 {
    if bytes.is_finite() { bytes.max(0.0).round() as u64 } else { u64::MAX }
}

/// Makes the plan of a task.
pub fn of(model: &Model, setup: &Setup) -> Result<Plan, SetupError> {
    setup.check()?;
    let held = states::weights(model, setup);
    let states = states::of(model, setup, &held);
    check(model, setup, &states)?;
    let phases = phases(model, setup, &held);
    let Some(peak) = phases.iter().max_by(|a, b| a.bytes().total_cmp(&b.bytes())) else {
        return Err(SetupError("there is nothing to run".to_owned()));
    };
    let allocated = peak.bytes();
    let bound = |factor: fn(&Piece) -> f64| -> f64 {
        phases.iter().map(|phase| phase.pieces.iter().map(|piece| piece.bytes * factor(piece)).sum()).fold(0.0, f64::max)
    };
    let low = bound(|piece| piece.spread.0);
    let high = bound(|piece| piece.spread.1);
    let beside = beside(setup, allocated);
    let extra = |pick: fn(&Piece) -> f64| -> f64 { beside.iter().map(pick).sum() };
    let (host, disk) = zero::outside(model, setup, &held);
    let mut terms: Vec<Term> = peak.pieces.iter().map(|piece| term(piece, true)).collect();
    terms.extend(beside.iter().map(|piece| term(piece, false)));
    Ok(Plan {
        terms,
        phases: phases.iter().map(|phase| (phase.name, whole(phase.bytes()))).collect(),
        peak_phase: peak.name,
        allocated: whole(allocated),
        allocated_low: whole(low.min(allocated * 0.997)),
        allocated_high: whole(high.max(allocated * 1.005)),
        total: whole(allocated + extra(|piece| piece.bytes)),
        total_low: whole(least_of(model, setup, &phases).min(allocated) + extra(|piece| piece.bytes * piece.spread.0)),
        total_high: whole(most(setup, &phases).max(high) + extra(|piece| piece.bytes * piece.spread.1)),
        trainable: whole(states.trainable),
        host: whole(host),
        disk: whole(disk),
        unknowns: unknowns(model, setup),
        notes: notes(model, setup, &states).into_iter().chain(offloaded(setup, host, disk)).collect(),
    })
}

/// What the settings ask of this model that it cannot give.
fn check(model: &Model, setup: &Setup, states: &states::States) -> Result<(), SetupError> {
    if model.quantization.as_ref().is_some_and(|one| !one.is_known()) {
        return Err(SetupError("the weights are quantised by a method that is not known, so that no bytes can be given".to_owned()));
    }
    if setup.task == Task::Full && model.quantization.is_some() {
        return Err(SetupError(
            "--task full: quantised weights cannot be trained; take the config of the base model, or --task qlora".to_owned(),
        ));
    }
    if setup.task != Task::Inference && !super::training::shape::has_layers(model) {
        return Err(SetupError(
            "training of this kind of network is not modelled: its layers are no language model. Parameters and weights are known; the memory of a step is not".to_owned(),
        ));
    }
    if setup.is_lora() && states.trainable <= 0.0 {
        return Err(SetupError(format!(
            "--lora-targets {}: the model has no such linear layer; `all-linear` covers every one",
            setup.lora_targets.join(",")
        )));
    }
    if setup.tensor_parallel > 1 && model.dimensions.heads <= 1 {
        return Err(SetupError(format!(
            "--tensor-parallel {}: the model has no attention heads to share out; leave the flag out",
            setup.tensor_parallel
        )));
    }
    if setup.tensor_parallel > model.dimensions.heads.max(1) {
        return Err(SetupError(format!(
            "--tensor-parallel {}: the model has {} attention heads to share",
            setup.tensor_parallel, model.dimensions.heads
        )));
    }
    if setup.tensor_parallel > 1 && !model.dimensions.heads.is_multiple_of(setup.tensor_parallel) {
        return Err(SetupError(format!(
            "--tensor-parallel {}: the {} attention heads cannot be shared out evenly, and engines refuse to start; take a divisor of {}",
            setup.tensor_parallel, model.dimensions.heads, model.dimensions.heads
        )));
    }
    if setup.pipeline_parallel > model.dimensions.layers.max(1) {
        return Err(SetupError(format!(
            "--pipeline-parallel {}: the model has {} layers",
            setup.pipeline_parallel, model.dimensions.layers
        )));
    }
    Ok(())
}

pub(super) fn phases(model: &Model, setup: &Setup, held: &(f64, String)) -> Vec<Phase> {
    if setup.task == Task::Inference { inference::phases(model, setup, held) } else { phases::of(model, setup, held) }
}

fn term(piece: &Piece, allocated: bool) -> Term {
    Term {
        name: piece.name,
        bytes: whole(piece.bytes),
        low: whole(piece.bytes * piece.spread.0),
        high: whole(piece.bytes * piece.spread.1),
        formula: piece.formula.clone(),
        certainty: piece.certainty,
        allocated,
    }
}

/// What the card holds beside the tensors.
pub(super) fn beside(setup: &Setup, allocated: f64) -> Vec<Piece> {
    let guess =
        |name, bytes, spread, formula: &str| Piece { name, bytes, spread, formula: formula.to_owned(), certainty: Certainty::Guess };
    let training = setup.task != Task::Inference;
    let sharded = setup.zero == 3 && setup.data_parallel() > 1;
    let (slack, spread, text) = match (training, sharded) {
        (true, true) => (0.12, (0.0, 2.0), "12 % of the tensors: weights that are gathered and freed leave gaps"),
        (true, false) => (0.05, (0.0, 3.0), "5 % of the tensors; up to 15 % with changing lengths"),
        (false, _) => (0.02, (0.0, 3.0), "2 % of the tensors"),
    };
    let mut pieces = vec![
        guess("CUDA context", if training { 0.55 } else { 0.45 } * GIB, (0.0, 1.5), "kernels and driver state; 0 to 0.8 GiB, by versions"),
        guess("workspaces", 40.0 * MIB, (0.0, 2.5), "8.1 MiB of cuBLAS and up to 32 MiB of cuBLASLt"),
        guess("allocator slack", slack * allocated, spread, text),
    ];
    if setup.gpus > 1 {
        pieces.push(guess("NCCL", GIB, (0.0, 2.0), "buffers of the communicators; 0.25 GiB over PCIe, 1 to 2 GiB over NVLink"));
    }
    pieces
}

/// The least, also of a base that is not cast to 32 bits before adapters are put on it.
fn least_of(model: &Model, setup: &Setup, now: &[Phase]) -> f64 {
    let least_now = least(setup, now);
    if !setup.is_prepared() {
        return least_now;
    }
    let mut plain = setup.clone();
    plain.kbit_prepare = false;
    let held = states::weights(model, &plain);
    least_now.min(least(&plain, &phases(model, &plain, &held)))
}

/// The least that the same settings may need: a loss that never holds all logits, kernels fused by
/// torch.compile, a prompt that is read in pieces.
fn least(setup: &Setup, phases: &[Phase]) -> f64 {
    let training = setup.task != Task::Inference;
    let factor = |piece: &Piece| match piece.name {
        "logits and loss" => 0.05,
        "activations" if !training => 0.02,
        "activations" | "recomputed layer" => 0.68 * piece.spread.0,
        "gradient of the embedding" => 0.3,
        "backward temporaries" | "final norm and masks" => 0.4,
        "gathered weights" | "gradients being reduced" => 0.5,
        "optimiser temporaries" => 0.0,
        "dequantised matrix" => 0.0,
        _ => piece.spread.0,
    };
    let sum = |phase: &Phase| -> f64 { phase.pieces.iter().map(|piece| piece.bytes * factor(piece)).sum() };
    let weights = if training { 1.0 } else { 0.97 };
    weights * phases.iter().map(sum).fold(0.0, f64::max)
}

/// The most: a loss with one more copy of the logits, uneven experts.
fn most(setup: &Setup, phases: &[Phase]) -> f64 {
    let training = setup.task != Task::Inference;
    let factor = |piece: &Piece| match piece.name {
        "logits and loss" => 16.0 / 12.0,
        "activations" if training => 1.08 * piece.spread.1,
        _ => piece.spread.1,
    };
    let sum = |phase: &Phase| -> f64 { phase.pieces.iter().map(|piece| piece.bytes * factor(piece)).sum() };
    phases.iter().map(sum).fold(0.0, f64::max)
}

fn unknowns(model: &Model, setup: &Setup) -> Vec<&'static str> {
    let mut out = Vec::new();
    if setup.task == Task::Inference && !super::training::shape::has_layers(model) {
        out.push("activations of its layers");
    } else if setup.task == Task::Inference {
        if !super::kv_cache::kinds(&model.inventory).is_empty() {
            out.push("whether the prompt is read whole or in pieces");
        }
        out.push("memory of other processes on the card");
        if setup.engine == Engine::Vllm {
            out.push("CUDA graphs and adapters of vLLM");
        }
    } else {
        out.push("the loss kernel: a chunked or fused loss never holds all logits");
        out.push("torch.compile, which keeps about a sixth less");
        if !setup.padded {
            out.push("padding: a mask takes the flash kernel away");
        }
        out.push("changing lengths, which leave gaps in the allocator");
        if setup.gpus > 1 {
            out.push("buffers of NCCL");
        }
        if setup.task == Task::Qlora {
            out.push("workspaces of the 4-bit kernels");
        }
    }
    if model.dimensions.experts > 0 {
        out.push("how evenly tokens spread over the experts");
    }
    out
}

/// What must be held outside the GPUs.
fn offloaded(setup: &Setup, host: f64, disk: f64) -> Vec<String> {
    let gpus = if setup.gpus > 1 { format!(" for {} GPUs together", digits(setup.gpus as f64)) } else { String::new() };
    let line = |bytes: f64, place: &str, more: &str| {
        (bytes > 0.0).then(|| format!("offloaded to {place}{gpus}: {:.2} GiB of states{more}", bytes / GIB))
    };
    let pinned = "; pinned buffers may need half as much again, and a machine with less kills the run (exit code -9)";
    line(host, "host memory", pinned).into_iter().chain(line(disk, "the disk", "")).collect()
}

/// What adapters do with experts goes by the version of transformers.
fn experts_note(model: &Model, setup: &Setup) -> Option<&'static str> {
    if model.dimensions.experts == 0 {
        return None;
    }
    let adapter = states::adapter(model, setup).0;
    if matches!(adapter.targets, Targets::AllLinear) {
        return Some(
            "all-linear is counted without experts and routers, as in transformers 5, where they are no linear layers; in transformers 4 \
             they mostly are, and more is trained: name them in --lora-targets",
        );
    }
    let expert = |group: &Group| group.tensors.iter().any(|tensor| tensor.role == Role::Expert && adapter.covers(group, tensor));
    model.inventory.groups.iter().any(expert).then_some(
        "adapters on experts are counted as on linear layers, which experts mostly are in transformers 4; in transformers 5 they are \
         fused parameters, which these names may not reach",
    )
}

fn notes(model: &Model, setup: &Setup, states: &states::States) -> Vec<String> {
    let mut out = Vec::new();
    if setup.is_lora() {
        out.extend(states::adapter(model, setup).1);
        out.extend(experts_note(model, setup).map(str::to_owned));
    }
    if setup.task == Task::Inference && setup.dtype.is_none() && model.stored_dtype() == Dtype::Float32 && setup.engine == Engine::Vllm {
        out.push("vLLM loads 32-bit weights in float16 unless --dtype float32 is given".to_owned());
    } else if setup.task == Task::Inference && setup.dtype.is_none() && model.dtype.is_none() && model.quantization.is_none() {
        out.push("the config names no dtype; 32-bit floats are assumed, as in the weights above; --dtype bf16 halves them".to_owned());
    }
    if setup.task != Task::Inference && setup.gpus == 1 && (setup.zero > 0) {
        out.push(format!("ZeRO {} shares nothing on one GPU; see --gpus", setup.zero));
    }
    if setup.gpus > 1 && setup.zero == 0 && setup.data_parallel() > 1 && setup.task != Task::Inference {
        out.push("data parallel: each GPU holds the whole model; memory does not add up over cards".to_owned());
    }
    if setup.task == Task::Inference && setup.data_parallel() > 1 {
        out.push("each GPU holds a copy of the model; --tensor-parallel shares it".to_owned());
    }
    let tower = |group: &super::inventory::Group| matches!(group.part, super::inventory::Part::Vision | super::inventory::Part::Audio);
    if model.inventory.groups.iter().any(tower) {
        out.push("images and sound are left out: the plan counts text tokens and the weights of the towers".to_owned());
    }
    if setup.task != Task::Inference
        && states.trainable > 0.0
        && setup.optimizer == super::training::Optimizer::AdamW
        && setup.sharing.is_none()
    {
        out.push(
            "AdamW in its foreach form needs one more copy of the trained parameters in its step; --optimizer adamw-fused does not"
                .to_owned(),
        );
    }
    out
}
