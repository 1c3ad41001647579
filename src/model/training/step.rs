//! What the phases of a training step are made of: tokens, states, what layers keep.

use super::activations::{self, Kept, Widths};
use super::setup::{Checkpointing, Precision, Setup};
use super::shape::{self, Norm, Shape};
use super::states::{self, States};
use super::{Phase, Piece, digits};
use crate::model::Model;

/// What the phases are computed from.
pub struct Step<'a> {
    /// The model.
    pub model: &'a Model,
    /// The settings.
    pub setup: &'a Setup,
    /// Widths of the precision.
    pub widths: Widths,
    /// States without sharding.
    pub states: States,
    /// Kinds of layers.
    pub shapes: Vec<Shape>,
    /// What each kind keeps.
    pub kept: Vec<Kept>,
    /// Tokens of a step on one GPU.
    pub tokens: f64,
    /// Width of the residual stream.
    pub hidden: f64,
    /// Rows of the vocabulary.
    pub vocab: f64,
    /// Factors within which the activations are.
    pub spread: (f64, f64),
}

impl<'a> Step<'a> {
    /// Collects what the phases need.
    pub fn new(model: &'a Model, setup: &'a Setup, held: &(f64, String)) -> Self {
        let shapes = shape::of(model);
        let adapter = setup.is_lora().then(|| states::adapter(model, setup).0);
        let kept: Vec<Kept> = shapes.iter().map(|shape| activations::kept(model, setup, shape, adapter.as_ref())).collect();
        Self {
            model,
            setup,
            widths: activations::widths(setup),
            states: states::of(model, setup, held),
            spread: shape::spread(model, &shapes),
            shapes,
            kept,
            tokens: setup.batch as f64 * setup.seq as f64,
            hidden: model.dimensions.hidden as f64,
            vocab: shape::logits(model),
        }
    }

    /// A phase of pieces that always stay and pieces of its own.
    pub fn with(&self, name: &'static str, rest: &[Piece], own: Vec<Piece>) -> Phase {
        let pieces = rest.iter().cloned().chain(own).filter(|piece| piece.bytes > 0.0).collect();
        Phase { name, pieces }
    }

    /// Weights and optimiser states, which stay through the step.
    pub fn resident(&self, weights: f64, optimizer: f64) -> Vec<Piece> {
        let mut optimizer = Piece::exact("optimiser states", optimizer, self.states.optimizer_formula.clone());
        if self.setup.optimizer == super::Optimizer::PagedAdamW8bit {
            optimizer.spread = (0.0, 1.0);
        }
        vec![Piece::exact("weights", weights, self.states.weights_formula.clone()), optimizer]
    }

    /// Whether layers are computed again.
    pub fn recomputes(&self) -> bool {
        self.setup.checkpointing != Checkpointing::None
    }

    /// Bytes a token that all layers hold after the forward pass.
    pub fn held_per_token(&self) -> f64 {
        let pairs = self.shapes.iter().zip(&self.kept);
        let h = self.widths.residual * self.hidden;
        match self.setup.checkpointing {
            Checkpointing::Full => pairs.map(|(shape, _)| shape.count * h).sum(),
            Checkpointing::Selective => pairs
                .map(|(shape, kept)| {
                    let products =
                        2.0 * shape.query + 2.0 * shape.key + 2.0 * shape.hidden + 2.0 * (shape.mlp + shape.active * shape.expert);
                    shape.count * (h + self.widths.linear * products).min(kept.total())
                })
                .sum(),
            Checkpointing::None => {
                let all: f64 = pairs.map(|(shape, kept)| shape.count * kept.total()).sum();
                (all - self.first_norm()).max(0.0)
            }
        }
    }

    /// The first norm of a frozen model has no gradient to pass on and keeps nothing.
    fn first_norm(&self) -> f64 {
        if self.widths.full {
            return 0.0;
        }
        match self.shapes.first() {
            Some(shape) if shape.norm == Norm::Layer => {
                let masks = if shape::drops(self.model) { self.hidden } else { 0.0 };
                self.widths.residual * self.hidden + 8.0 + masks
            }
            Some(_) => 4.0 * self.hidden + 4.0,
            None => 0.0,
        }
    }

    /// The largest kind of layer, in bytes a token.
    pub fn largest_layer(&self) -> f64 {
        self.kept.iter().map(Kept::total).fold(0.0, f64::max)
    }

    /// The layers' activations.
    pub fn activations(&self, per_token: f64) -> Piece {
        let layers: f64 = self.shapes.iter().map(|shape| shape.count).sum();
        let mean = per_token / layers.max(1.0);
        let formula = match self.setup.checkpointing {
            Checkpointing::Full => format!(
                "{} layers x {} tokens x {} B (input of each layer; the rest is computed again)",
                digits(layers),
                digits(self.tokens),
                digits(mean)
            ),
            _ => format!("{} layers x {} tokens x {} B a token and layer", digits(layers), digits(self.tokens), digits(mean)),
        };
        let spread = if self.setup.checkpointing == Checkpointing::Full { (0.99, 1.01) } else { self.spread };
        Piece::modelled("activations", per_token * self.tokens, spread, formula)
    }

    /// The final norm with the input of the head.
    pub fn final_norm(&self) -> f64 {
        let (h, w) = (self.hidden, self.widths);
        let Some(last) = self.shapes.last() else {
            return 0.0;
        };
        let head = if !w.full {
            0.0
        } else if w.copies {
            2.0 * h
        } else {
            w.attention * h
        };
        match last.norm {
            Norm::Layer => {
                let masks = if shape::drops(self.model) { h } else { 0.0 };
                let reentry = if !w.full && self.recomputes() { w.residual * h } else { 0.0 };
                w.residual * h + 8.0 + head + masks + reentry
            }
            Norm::Gemma => 4.0 * h + 4.0 + if w.full { 4.0 * h } else { 0.0 } + head,
            Norm::Rms => 4.0 * h + 4.0 + if w.full { w.residual * h } else { 0.0 } + head,
        }
    }

    /// Masks and rotary tables, once for all layers.
    pub fn shared(&self) -> f64 {
        let (batch, seq) = (self.setup.batch as f64, self.setup.seq as f64);
        let head = self.shapes.first().map_or(0.0, |shape| shape.query / shape.heads);
        let rotary = if shape::drops(self.model) { 0.0 } else { 2.0 * self.widths.attention * head * seq };
        let eager = self.setup.attention == super::Attention::Eager;
        let masked = self.kept.iter().any(|kept| kept.mask);
        let mask = match (eager, masked) {
            // Without checkpointing the mask is gone when the layers are through.
            (true, true) if self.recomputes() => batch * seq * seq * self.widths.residual,
            (false, true) if self.setup.padded || self.recomputes() => batch * seq * seq,
            _ => 0.0,
        };
        rotary + mask
    }

    /// Bytes a token of the final norm, with masks and tables.
    pub fn ends(&self) -> Piece {
        let per_token = self.final_norm();
        Piece::modelled(
            "final norm and masks",
            per_token * self.tokens + self.shared(),
            (0.98, 1.05),
            format!("{} tokens x {} B + {} B of masks and rotary tables", digits(self.tokens), digits(per_token), digits(self.shared())),
        )
    }

    /// Logits and loss, so many bytes an entry, split over tensor-parallel GPUs.
    pub fn logits(&self, bytes: f64, what: &str) -> Piece {
        let split = self.setup.tensor_parallel as f64;
        let share = if split > 1.0 { format!(" / {split}") } else { String::new() };
        Piece::modelled(
            "logits and loss",
            bytes * self.vocab * self.tokens / split,
            (0.995, 1.01),
            format!("{bytes} B x {} vocabulary x {} tokens{share} ({what})", digits(self.vocab), digits(self.tokens)),
        )
    }

    /// Bytes a logit of the tanh that caps it.
    fn cap(&self) -> f64 {
        if shape::capped(self.model) { self.widths.attention } else { 0.0 }
    }

    /// Bytes a logit at the end of the forward pass.
    pub fn forward_bytes(&self) -> f64 {
        let upcast = if self.widths.linear == 4.0 && !self.widths.autocast { 8.0 } else { 10.0 };
        upcast + self.cap()
    }

    /// Bytes a logit in the backward pass of the loss.
    pub fn backward_bytes(&self) -> f64 {
        12.0 + self.cap()
    }

    /// Parameters of the matrix that gives the logits.
    pub fn head(&self) -> f64 {
        self.vocab * self.hidden
    }

    /// Temporaries of the backward pass of a layer, in bytes a token.
    pub fn layer_temporaries(&self) -> f64 {
        let w = self.widths;
        let mut most: f64 = 0.0;
        for (shape, kept) in self.shapes.iter().zip(&self.kept) {
            let inner = shape.mlp + if shape.experts > 0.0 { shape.expert * shape.active / shape.experts } else { 0.0 };
            let stream = match (self.recomputes(), w.full) {
                (true, true) => 2.0,
                (true, false) => 4.0 * w.residual,
                (false, _) => 4.6,
            };
            let dense = 2.0 * w.attention * inner + stream * shape.hidden;
            let scores = if kept.scores > 0.0 {
                kept.scores * shape.heads * self.setup.seq as f64 - 4.0 * w.attention * inner - 8.0 * shape.hidden
            } else {
                0.0
            };
            most = most.max(dense).max(scores);
        }
        most
    }

    /// Whether the states are those of mixed precision with 32-bit master weights.
    pub fn has_masters(&self) -> bool {
        self.setup.precision != Precision::Fp32
    }
}
