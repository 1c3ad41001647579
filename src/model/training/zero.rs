//! Training under DeepSpeed's ZeRO: states in 16 bits with 32-bit masters, shards, and what lives outside the GPU.
//!
//! Follows DeepSpeed's own engine, as its sources describe it: stage 1 shares masters and optimiser states out, stage 2
//! gradients too, stage 3 weights too, which are gathered for each module and stay while they are soon used again.
//! What is offloaded is held in host memory or on a disk. Figures are of one GPU.

use super::setup::{Optimizer, Precision, Setup};
use super::step::Step;
use super::{Phase, Piece, digits};
use crate::model::Model;

/// Where states live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offload {
    /// On the GPU.
    None,
    /// In host memory.
    Host,
    /// On a disk.
    Disk,
}

/// How DeepSpeed shares states out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Zero {
    /// Where masters and optimiser states live.
    pub optimizer: Offload,
    /// Where the shards of the weights live, in stage 3.
    pub parameters: Offload,
    /// Elements of a bucket of gradients; none for the square of the model's width, as trainers set it for `auto`.
    pub reduce_bucket: Option<u64>,
    /// Most gathered elements that stay, in stage 3.
    pub live: u64,
    /// Elements within which a gathered module stays because it is used again.
    pub reuse: u64,
    /// Elements of a part of the shard that is stepped at once, in stage 3.
    pub sub_group: u64,
    /// Whether a bucket is sent while the next is filled.
    pub overlap: bool,
    /// Whether gradients of several steps are added up.
    pub accumulates: bool,
}

impl Default for Zero {
    fn default() -> Self {
        Self {
            optimizer: Offload::None,
            parameters: Offload::None,
            reduce_bucket: Some(500_000_000),
            live: 1_000_000_000,
            reuse: 1_000_000_000,
            sub_group: 1_000_000_000,
            overlap: false,
            accumulates: false,
        }
    }
}

/// Bytes of one GPU's share of the states, on the GPU and outside.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Share {
    weights: f64,
    gradients: f64,
    states: f64,
    /// Bytes of a weight.
    width: f64,
    /// 32-bit copy of the gradients for the step.
    copy: f64,
    host: f64,
    disk: f64,
    largest: f64,
}

/// Weights of the whole model on a GPU: all in the width of the precision, or as they are stored.
fn whole(step: &Step<'_>, width: f64) -> f64 {
    match step.model.quantization {
        Some(_) => step.states.weights,
        None => (step.states.base + if step.widths.full { 0.0 } else { step.states.trainable }) * width,
    }
}

fn share(step: &Step<'_>, zero: &Zero) -> Share {
    let (setup, states) = (step.setup, &step.states);
    let gpus = setup.data_parallel() as f64;
    let from = |stage: u64| if setup.zero >= stage { gpus } else { 1.0 };
    let fp32 = setup.precision == Precision::Fp32;
    let width = if fp32 { 4.0 } else { 2.0 };
    let n = states.trainable;
    let weights = whole(step, width) / from(3);
    let gradients = n * width / from(2);
    // States of 32-bit masters, whatever the width of the weights.
    let moments = match setup.optimizer {
        Optimizer::AdamW8bit | Optimizer::PagedAdamW8bit | Optimizer::Adafactor => states.optimizer,
        _ => states.optimizer * 4.0 / states.trained_bytes.max(1.0),
    };
    let masters = if fp32 { 0.0 } else { 4.0 * n };
    let kept = (masters + moments) / from(1);
    let off = setup.zero >= 1 && zero.optimizer != Offload::None;
    let params_off = setup.zero == 3 && zero.parameters != Offload::None;
    let gradients_off = off && setup.zero >= 2;
    // On the host the step works on 32-bit gradients.
    let outside = if off { kept + 4.0 * n / from(2) } else { 0.0 };
    let (mut host, mut disk) = (0.0, 0.0);
    for (place, bytes) in [(zero.optimizer, outside), (zero.parameters, if params_off { weights } else { 0.0 })] {
        match place {
            Offload::Host => host += bytes,
            Offload::Disk => disk += bytes,
            Offload::None => {}
        }
    }
    let stepped = if setup.zero == 3 { (n / gpus).min(zero.sub_group as f64) } else { n / from(1) };
    let tensors = step.model.inventory.groups.iter().flat_map(|group| &group.tensors);
    Share {
        weights: if params_off { 0.0 } else { weights },
        gradients: if gradients_off { 0.0 } else { gradients },
        states: if off { 0.0 } else { kept },
        width,
        copy: if off || fp32 { 0.0 } else { 4.0 * stepped },
        host,
        disk,
        largest: tensors.map(|tensor| tensor.elements() as f64).fold(0.0, f64::max),
    }
}

/// Weights, gradients, masters and optimiser states on one GPU, in bytes, when all gradients exist.
pub fn states_of(model: &Model, setup: &Setup) -> f64 {
    let held = super::states::weights(model, setup);
    setup.sharing.as_ref().map_or(0.0, |zero| {
        let share = share(&Step::new(model, setup, &held), zero);
        share.weights + share.gradients + share.states
    })
}

/// What lives outside the GPUs, of all GPUs of the run together: bytes in host memory, and bytes on a disk.
pub fn outside(model: &Model, setup: &Setup, held: &(f64, String)) -> (f64, f64) {
    let Some(zero) = &setup.sharing else {
        return (0.0, 0.0);
    };
    let share = share(&Step::new(model, setup, held), zero);
    let gpus = setup.data_parallel() as f64;
    (share.host * gpus, share.disk * gpus)
}

/// The phases of a step.
pub fn phases(step: &Step<'_>, zero: &Zero) -> Vec<Phase> {
    let (setup, share) = (step.setup, share(step, zero));
    let third = setup.zero == 3;
    let mut rest = vec![weights(step, &share), optimizer_states(step, &share)];
    // Stage 3 keeps a buffer for its share of the gradients; the others hold them only while steps are added up.
    let gradients = gradients(step, &share);
    if third {
        rest.push(gradients.clone());
        rest.push(bucket(step, &share, zero));
        rest.push(gathered(step, &share, zero));
    }
    let mut forward_rest = rest.clone();
    let mut backward_rest = rest.clone();
    if !third {
        backward_rest.push(bucket(step, &share, zero));
        backward_rest.push(offload_buffer(step, &share, zero));
        if zero.accumulates {
            forward_rest.push(gradients.clone());
            backward_rest.push(gradients.clone());
        }
    }
    let held = step.held_per_token();
    let loss = |bytes: f64, what: &str| vec![step.activations(held), step.ends(), step.logits(bytes, what)];
    let mut layers = vec![step.activations(held)];
    if !third && !zero.accumulates {
        let head = if step.widths.full { step.head() * share.width } else { 0.0 };
        let text = "of the head, while the layers are still held".to_owned();
        layers.push(Piece::modelled("gradients", head.min(share.gradients), (0.0, 1.0), text));
    }
    if step.recomputes() {
        let text = format!("{} tokens x {} B", digits(step.tokens), digits(step.largest_layer()));
        layers.push(Piece::modelled("recomputed layer", step.largest_layer() * step.tokens, step.spread, text));
    }
    let temporary = step.layer_temporaries();
    let text = format!("{} tokens x {} B", digits(step.tokens), digits(temporary));
    layers.push(Piece::modelled("backward temporaries", temporary * step.tokens, (0.8, 1.2), text));
    let end = if third || zero.accumulates { Vec::new() } else { vec![gradients.clone()] };
    let mut at_step = if third { Vec::new() } else { vec![gradients] };
    at_step.push(Piece::modelled(
        "32-bit gradients",
        share.copy,
        (0.5, 1.0),
        format!("{} elements x 4 B, for the step", digits(share.copy / 4.0)),
    ));
    vec![
        step.with("forward and loss", &forward_rest, loss(step.forward_bytes(), "logits, 32-bit copy, log-softmax")),
        step.with("backward of the loss", &backward_rest, loss(step.backward_bytes(), "log-softmax, its gradient, gradient of the logits")),
        step.with("backward of the layers", &backward_rest, layers),
        step.with("end of backward", &backward_rest, end),
        step.with("optimiser step", &rest, at_step),
    ]
}

/// `/ 8 GPUs`, where a stage shares something out.
fn over(setup: &Setup, stage: u64) -> String {
    match setup.data_parallel() {
        gpus if setup.zero >= stage && gpus > 1 => format!(" / {} GPUs", digits(gpus as f64)),
        _ => String::new(),
    }
}

fn weights(step: &Step<'_>, share: &Share) -> Piece {
    let over = over(step.setup, 3);
    let text = match step.model.quantization {
        Some(_) => format!("({}){over}", step.states.weights_formula),
        None if step.widths.full => format!("{} parameters x {} B{over}", digits(step.states.base), share.width),
        None => {
            format!("({} parameters + adapters of {}) x {} B{over}", digits(step.states.base), digits(step.states.trainable), share.width)
        }
    };
    Piece::exact("weights", share.weights, text)
}

fn optimizer_states(step: &Step<'_>, share: &Share) -> Piece {
    let n = step.states.trainable;
    let over = over(step.setup, 1);
    let gpus = if over.is_empty() { 1.0 } else { step.setup.data_parallel() as f64 };
    let each = share.states * gpus / n.max(1.0);
    let masters = if step.setup.precision == Precision::Fp32 { 0.0 } else { 4.0 };
    let moments = ((each - masters) * 100.0).round() / 100.0;
    let text = if masters > 0.0 {
        format!("{} trained x (4 B master weights + {moments} B of 32-bit states){over}", digits(n))
    } else {
        format!("{} trained x {moments} B of 32-bit states{over}", digits(n))
    };
    Piece::exact("optimiser states", share.states, text)
}

fn gradients(step: &Step<'_>, share: &Share) -> Piece {
    let text = format!("{} trained x {} B{}", digits(step.states.trainable), share.width, over(step.setup, 2));
    Piece::exact("gradients", share.gradients, text)
}

/// Buckets in which gradients are sent: one, or two where sending overlaps.
fn bucket(step: &Step<'_>, share: &Share, zero: &Zero) -> Piece {
    if step.setup.data_parallel() <= 1 && step.setup.zero == 0 {
        return Piece::exact("communication buckets", 0.0, String::new());
    }
    let elements = zero.reduce_bucket.map_or(step.hidden * step.hidden, |elements| elements as f64);
    let many = if zero.overlap && step.setup.zero < 3 { 2.0 } else { 1.0 };
    let text = format!("{many} x {} elements x {} B (reduce_bucket_size)", digits(elements), share.width);
    let most = if zero.overlap { 4.5 } else { 2.0 };
    Piece::modelled("communication buckets", many * elements * share.width, (0.5, most), text)
}

/// In stage 3, modules that are gathered and not given back yet.
fn gathered(step: &Step<'_>, share: &Share, zero: &Zero) -> Piece {
    if step.setup.data_parallel() <= 1 && zero.parameters == Offload::None {
        return Piece::exact("gathered weights", 0.0, String::new());
    }
    let most = (zero.live.min(zero.reuse) as f64).max(share.largest).min(step.states.base);
    let text = format!("up to {} live parameters x {} B (stage3_max_live_parameters)", digits(most), share.width);
    Piece::modelled("gathered weights", most * share.width, ((share.largest / most.max(1.0)).min(1.0), 1.1), text)
}

/// Stages 1 and 2 copy gradients through a buffer of the largest tensor on their way to the host.
fn offload_buffer(step: &Step<'_>, share: &Share, zero: &Zero) -> Piece {
    let used = step.setup.zero >= 1 && zero.optimizer != Offload::None && step.widths.full;
    let bytes = if used { share.largest * share.width } else { 0.0 };
    Piece::modelled("offload buffer", bytes, (0.0, 1.5), format!("largest tensor: {} elements x {} B", digits(share.largest), share.width))
}

#[cfg(test)]
mod tests {
    use super::super::{Task, states};
    use super::*;
    use crate::model;

    const LLAMA: &str = r#"{"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 128256, "hidden_size": 4096,
        "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8}"#;

    /// Bytes a parameter of weights, gradients and states at the end of backward, and outside the GPUs.
    fn held(stage: u64, gpus: u64, change: impl Fn(&mut Setup, &mut Zero)) -> (f64, f64) {
        let model = model::read(LLAMA).unwrap();
        let mut setup = Setup { zero: stage, gpus, optimizer: Optimizer::AdamWFused, ..Setup::new(Task::Full) };
        let mut zero = Zero::default();
        change(&mut setup, &mut zero);
        setup.sharing = Some(zero);
        setup.check().unwrap();
        let weights = states::weights(&model, &setup);
        let phases = phases(&Step::new(&model, &setup, &weights), &zero);
        let end = phases.iter().find(|phase| phase.name == "end of backward").unwrap();
        let states = end.pieces.iter().filter(|piece| ["weights", "gradients", "optimiser states"].contains(&piece.name));
        let n = model.total() as f64;
        let outside = outside(&model, &setup, &weights);
        (states.map(|piece| piece.bytes).sum::<f64>() / n, (outside.0 + outside.1) / n)
    }

    fn near(one: f64, other: f64) -> bool {
        (one - other).abs() < 0.001
    }

    #[test]
    fn states_are_those_of_the_paper() {
        for gpus in [1, 8, 64] {
            let share = |bytes: f64| bytes / gpus as f64;
            for (stage, bytes) in [(0, 16.0), (1, 4.0 + share(12.0)), (2, 2.0 + share(14.0)), (3, share(16.0))] {
                let (held, outside) = held(stage, gpus, |_, _| {});
                assert!(near(held, bytes) && outside == 0.0, "stage {stage}, {gpus} GPUs: {held} against {bytes}");
            }
        }
    }

    #[test]
    fn what_is_offloaded_leaves_the_gpu() {
        let (held_2, outside_2) = held(2, 8, |_, zero| zero.optimizer = Offload::Host);
        // Weights stay; masters, moments and the gradients of the step are on the host, once over all GPUs.
        assert!(near(held_2, 2.0) && near(outside_2, 16.0), "{held_2} {outside_2}");
        let (held_1, _) = held(1, 8, |_, zero| zero.optimizer = Offload::Host);
        assert!(near(held_1, 4.0), "{held_1}");
        let all = |_: &mut Setup, zero: &mut Zero| (zero.optimizer, zero.parameters) = (Offload::Host, Offload::Disk);
        let (held_3, outside_3) = held(3, 8, all);
        assert!(near(held_3, 0.0) && near(outside_3, 18.0), "{held_3} {outside_3}");
    }

    #[test]
    fn other_precisions_and_optimisers() {
        let fp32 = held(3, 8, |setup, _| setup.precision = Precision::Fp32).0;
        assert!(near(fp32, 16.0 / 8.0), "{fp32}");
        let lion = held(0, 1, |setup, _| setup.optimizer = Optimizer::Lion).0;
        assert!(near(lion, 2.0 + 2.0 + 4.0 + 4.0), "{lion}");
    }

    #[test]
    fn what_cannot_be_shared_out_says_so() {
        let off = |optimizer, parameters| Some(Zero { optimizer, parameters, ..Zero::default() });
        let setup = |zero, sharing| Setup { zero, sharing, ..Setup::new(Task::Full) };
        assert!(setup(0, off(Offload::Host, Offload::None)).check().is_err());
        assert!(setup(2, off(Offload::Host, Offload::Host)).check().is_err());
        assert!(Setup { tensor_parallel: 2, gpus: 2, ..setup(2, off(Offload::None, Offload::None)) }.check().is_err());
    }
}
