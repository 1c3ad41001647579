//! Training on several GPUs: data parallel, ZeRO, FSDP, tensor and pipeline parallel.
//!
//! Figures are of one GPU, the fullest. With ZeRO in 16 bits the master weights and the states of
//! the optimiser are 32-bit (DeepSpeed's and FSDP's mixed precision). Stage 3 follows FSDP: two
//! layers and the embedding and head are gathered, gradients are reduced in 32 bits.

use super::setup::{Optimizer, Precision, Task};
use super::step::Step;
use super::{Phase, Piece, digits};

/// States of one GPU.
struct Share {
    weights: f64,
    gradients: f64,
    optimizer: f64,
    step: f64,
    formula: String,
    optimizer_formula: String,
}

/// The phases of a step on one of several GPUs.
pub fn phases(step: &Step<'_>) -> Vec<Phase> {
    let setup = step.setup;
    let (stages, split) = (setup.pipeline_parallel as f64, setup.tensor_parallel as f64);
    let share = share(step);
    let mut rest = step.resident(share.weights, share.optimizer);
    if let Some(weights) = rest.first_mut() {
        weights.formula = share.formula.clone();
    }
    if let Some(optimizer) = rest.get_mut(1) {
        optimizer.formula = share.optimizer_formula.clone();
    }
    let full_shard = setup.zero == 3 && setup.data_parallel() > 1;
    let held = activations(step, step.held_per_token()) / stages;
    let gathered = if full_shard { gathered(step) } else { 0.0 };
    let gathered = Piece::modelled(
        "gathered weights",
        gathered,
        (0.95, 1.1),
        format!(
            "{} B x {} embedding and head + {} B x {} of one layer",
            widths(step).0,
            digits(root(step)),
            widths(step).1,
            digits(layer(step))
        ),
    );
    let buckets = buckets(step);
    let mut phases = Vec::new();
    let logits = |bytes: f64, what: &str| step.logits(bytes, what);
    let carried = carried(step, &share, full_shard);
    let base = |name: &'static str, own: Vec<Piece>| {
        let mut own = own;
        own.push(buckets.clone());
        step.with(name, &rest, own)
    };
    // The last stage of a pipeline computes the loss with one micro-batch in flight.
    phases.push(base(
        "forward and loss",
        vec![step.activations(held), step.ends(), logits(step.forward_bytes(), "logits, 32-bit copy, log-softmax"), gathered.clone()],
    ));
    phases.push(base(
        "backward of the loss",
        vec![
            step.activations(held),
            step.ends(),
            logits(step.backward_bytes(), "log-softmax, its gradient, gradient of the logits"),
            gathered.clone(),
        ],
    ));
    let recomputed = if step.recomputes() { activations(step, step.largest_layer()) * step.tokens } else { 0.0 };
    let temporary = step.layer_temporaries() / split * step.tokens;
    let mut layers = vec![
        // A pipeline's first stage holds as many micro-batches as there are stages.
        step.activations(held * stages),
        Piece::modelled("recomputed layer", recomputed, step.spread, "one layer, computed again".to_owned()),
        carried,
    ];
    if full_shard {
        let reduced = if step.widths.full { 2.0 * step.head() + 8.0 * layer(step) } else { widths(step).1 * layer(step) };
        layers.push(gathered);
        layers.push(Piece::modelled(
            "gradients being reduced",
            reduced,
            (0.8, 1.1),
            if step.widths.full {
                format!(
                    "2 B x {} head + 8 B x {} of a layer (second gathered layer, 16-bit gradients, 32-bit input of the reduction)",
                    digits(step.head()),
                    digits(layer(step))
                )
            } else {
                format!("second gathered layer of {} parameters", digits(layer(step)))
            },
        ));
        if step.recomputes() {
            layers.push(temporaries(temporary));
        }
    } else {
        layers.push(temporaries(temporary));
    }
    phases.push(base("backward of the layers", layers));
    let mut end = vec![gradients(step, share.gradients)];
    if full_shard && step.widths.full {
        end.push(Piece::modelled(
            "gathered weights",
            8.0 * root(step),
            (0.8, 1.1),
            format!("8 B x {} embedding and head (gathered, 16-bit gradients, 32-bit input of the reduction)", digits(root(step))),
        ));
    }
    phases.push(base("end of backward", end));
    phases.push(base(
        "optimiser step",
        vec![
            gradients(step, share.gradients),
            Piece::modelled("optimiser temporaries", share.step, (1.0, 1.0), "square roots or the largest matrix of the shard".to_owned()),
        ],
    ));
    phases
}

fn temporaries(bytes: f64) -> Piece {
    Piece::modelled("backward temporaries", bytes, (0.8, 1.2), "of one layer".to_owned())
}

fn gradients(step: &Step<'_>, bytes: f64) -> Piece {
    Piece::exact("gradients", bytes, format!("{} trained parameters over the GPUs that share them", digits(step.states.trainable)))
}

/// Gradients that exist while layers still hold activations: shards of them under ZeRO 2 and 3
/// come one by one, and the full set only at the end.
fn carried(step: &Step<'_>, share: &Share, full_shard: bool) -> Piece {
    let bytes = if full_shard || !step.widths.full { 0.0 } else { step.head() * 2.0 / step.setup.tensor_parallel as f64 };
    Piece::modelled("gradients", bytes.min(share.gradients), (0.0, 1.0), "of the head, while the layers are still held".to_owned())
}

/// Bytes of activations a token on one of the GPUs that share the matrices: norms stay whole.
fn activations(step: &Step<'_>, per_token: f64) -> f64 {
    let split = step.setup.tensor_parallel as f64;
    if split <= 1.0 {
        return per_token;
    }
    let (mut whole, mut all) = (0.0, 0.0);
    for (shape, kept) in step.shapes.iter().zip(&step.kept) {
        whole += shape.count * kept.norms;
        all += shape.count * kept.total();
    }
    if all <= 0.0 || step.setup.checkpointing == super::Checkpointing::Full {
        return per_token;
    }
    let part = whole / all;
    per_token * (part + (1.0 - part) / split)
}

/// Parameters outside layers: embedding, head, final norm.
pub fn root(step: &Step<'_>) -> f64 {
    let layers: f64 = step.shapes.iter().map(|shape| shape.parameters * shape.count).sum();
    (step.states.base - layers).max(0.0)
}

/// Parameters of the largest layer.
pub fn layer(step: &Step<'_>) -> f64 {
    step.shapes.iter().map(|shape| shape.parameters).fold(0.0, f64::max)
}

/// Bytes a parameter of gathered weights: outside layers, and in layers.
fn widths(step: &Step<'_>) -> (f64, f64) {
    let setup = step.setup;
    let plain = if setup.precision == Precision::Fp32 { 4.0 } else { 2.0 };
    match setup.task {
        // Layers are gathered in 4 bits.
        Task::Qlora => (if setup.kbit_prepare { 4.0 } else { 2.0 }, 0.52),
        _ => (plain, plain),
    }
}

fn gathered(step: &Step<'_>) -> f64 {
    let (outside, inside) = widths(step);
    outside * root(step) + inside * layer(step)
}

/// States of one GPU, after all kinds of sharding.
fn share(step: &Step<'_>) -> Share {
    let (setup, states) = (step.setup, &step.states);
    let model = (setup.tensor_parallel as f64) * (setup.pipeline_parallel as f64);
    let dp = setup.data_parallel() as f64;
    let over = if setup.gpus > 1 && model > 1.0 { format!(" / {} of tensor and pipeline parallel", digits(model)) } else { String::new() };
    let plain = |formula: String| Share {
        weights: states.weights / model,
        gradients: states.gradients / model,
        optimizer: states.optimizer / model,
        step: states.step / model,
        formula,
        optimizer_formula: format!("{}{over}", states.optimizer_formula),
    };
    if setup.zero == 0 || dp <= 1.0 {
        return plain(format!("{}{over}", states.weights_formula));
    }
    let n = states.trainable / model;
    let masters = step.has_masters() && step.widths.full;
    if !masters {
        let mut share = plain(states.weights_formula.clone());
        share.optimizer /= dp;
        share.optimizer_formula = format!("({}) / {} GPUs{over}", states.optimizer_formula, digits(dp));
        share.step /= dp;
        if setup.zero >= 2 {
            share.gradients /= dp;
        }
        if setup.zero >= 3 {
            share.weights /= dp;
            share.formula = format!("({}) / {} GPUs{over}", states.weights_formula, digits(dp));
        }
        return share;
    }
    // 32-bit states in place of those of the 16-bit parameters.
    let state = states.optimizer * 4.0 / states.trained_bytes.max(1.0);
    let state = match setup.optimizer {
        Optimizer::AdamW8bit | Optimizer::PagedAdamW8bit | Optimizer::Adafactor => states.optimizer,
        _ => state,
    };
    let step_bytes = match setup.optimizer {
        Optimizer::AdamW => 4.0 * n,
        _ => states.step / model,
    };
    let (weights, gradients, optimizer, formula) = match setup.zero {
        // Weights and gradients in 16 bits, masters and states shared out.
        1 => (2.0 * n, 2.0 * n, (4.0 * n + state / model) / dp, format!("{} parameters x 2 B{over}", digits(states.trainable))),
        2 => (2.0 * n, 2.0 * n / dp, (4.0 * n + state / model) / dp, format!("{} parameters x 2 B{over}", digits(states.trainable))),
        _ => (
            4.0 * n / dp,
            4.0 * n / dp,
            state / model / dp,
            format!("{} parameters x 4 B / {} GPUs{over}", digits(states.trainable), digits(dp)),
        ),
    };
    Share {
        weights,
        gradients,
        optimizer,
        step: step_bytes / dp,
        formula,
        optimizer_formula: format!(
            "{} x ({}{} B of 32-bit states) / {} GPUs{over}",
            digits(states.trainable),
            if setup.zero == 3 { "" } else { "4 B master weights + " },
            (state / states.trainable.max(1.0) * 100.0).round() / 100.0,
            digits(dp)
        ),
    }
}

/// Buckets of communication: gradients once more with plain data parallel, fixed sizes with ZeRO.
fn buckets(step: &Step<'_>) -> Piece {
    let setup = step.setup;
    let dp = setup.data_parallel();
    let model = setup.tensor_parallel as f64 * setup.pipeline_parallel as f64;
    let gradients = step.states.gradients / model;
    if dp <= 1 {
        return Piece::exact("communication buckets", 0.0, String::new());
    }
    match setup.zero {
        0 => {
            Piece::modelled("communication buckets", gradients, (0.0, 1.05), "gradients once more, in buckets of the reduction".to_owned())
        }
        1 | 2 => {
            let elements = (step.states.trainable / model).min(5e8);
            let width = if setup.precision == Precision::Fp32 { 4.0 } else { 2.0 };
            Piece::modelled(
                "communication buckets",
                2.0 * elements * width,
                (0.2, 4.5),
                format!("2 buckets x {} elements x {width} B", digits(elements)),
            )
        }
        _ => Piece::exact("communication buckets", 0.0, String::new()),
    }
}
