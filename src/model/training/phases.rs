//! The phases of a training step on one GPU, and what is alive in each.
//!
//! Forward and loss, backward of the loss, backward of the layers (at its start, and at its end
//! when all gradients exist), optimiser step. The peak of a step is the largest of them, never
//! their sum.

use super::setup::Setup;
use super::step::Step;
use super::{Phase, Piece, digits, sharded, zero};
use crate::model::Model;

/// The phases of a training step.
pub fn of(model: &Model, setup: &Setup, held: &(f64, String)) -> Vec<Phase> {
    let step = Step::new(model, setup, held);
    if let Some(sharing) = &setup.sharing {
        return zero::phases(&step, sharing);
    }
    if setup.gpus > 1 {
        return sharded::phases(&step);
    }
    let rest = step.resident(step.states.weights, step.states.optimizer);
    let mut phases = vec![
        step.with("forward and loss", &rest, step.forward()),
        step.with("backward of the loss", &rest, step.backward_of_loss()),
        step.with("backward of the layers", &rest, step.backward_of_layers()),
    ];
    phases.push(step.with("end of backward", &rest, step.end_of_backward()));
    phases.push(step.with("optimiser step", &rest, step.optimizer_step()));
    phases
}

impl Step<'_> {
    fn copies(&self, bytes: f64) -> Piece {
        Piece::exact("autocast copies of weights", bytes, format!("{} parameters x 2 B", digits(bytes / 2.0)))
    }

    fn forward(&self) -> Vec<Piece> {
        vec![
            self.activations(self.held_per_token()),
            self.ends(),
            self.logits(self.forward_bytes(), "logits, 32-bit copy, log-softmax"),
            self.copies(self.states.copies),
        ]
    }

    fn backward_of_loss(&self) -> Vec<Piece> {
        let copies = if self.recomputes() { self.head_copy() } else { self.states.copies };
        vec![
            self.activations(self.held_per_token()),
            self.ends(),
            self.logits(self.backward_bytes(), "log-softmax, its gradient, gradient of the logits"),
            self.copies(copies),
        ]
    }

    /// The copy of the head, which lives until its gradient is done.
    fn head_copy(&self) -> f64 {
        if self.widths.autocast && (self.widths.full || self.setup.is_prepared()) { 2.0 * self.head() } else { 0.0 }
    }

    /// Gradient of the head, where it is trained.
    fn head_gradient(&self) -> f64 {
        if self.widths.full { self.head() * self.states.trained_bytes } else { 0.0 }
    }

    fn temporaries(&self, bytes: f64, formula: String) -> Piece {
        Piece::modelled("backward temporaries", bytes, (0.85, 1.2), formula)
    }

    /// The start of the layers' backward pass, when most activations are still held.
    fn backward_of_layers(&self) -> Vec<Piece> {
        let (t, w) = (self.tokens, self.widths);
        let mut pieces = vec![self.activations(self.held_per_token())];
        pieces.push(Piece::modelled("masks", self.shared(), (1.0, 1.0), "masks and rotary tables".to_owned()));
        pieces.push(Piece::exact("gradients", self.head_gradient(), format!("of the head: {} parameters", digits(self.head()))));
        if self.recomputes() {
            let one = self.largest_layer() * t;
            pieces.push(Piece::modelled(
                "recomputed layer",
                one,
                self.spread,
                format!("{} tokens x {} B", digits(t), digits(self.largest_layer())),
            ));
            pieces.push(self.copies(self.layer_copies()));
            let temporary = self.layer_temporaries();
            pieces.push(self.temporaries(temporary * t, format!("{} tokens x {} B", digits(t), digits(temporary))));
        } else {
            // The backward pass of the final norm needs more than a layer of modest width.
            let norm = if w.attention == 2.0 || !w.full { 24.0 } else { 28.0 } * self.hidden;
            let temporary = self.layer_temporaries().max(norm);
            pieces.push(self.temporaries(temporary * t, format!("{} tokens x {} B", digits(t), digits(temporary))));
            let freed = if w.full || self.setup.is_prepared() { 2.0 * self.head() } else { 0.0 };
            pieces.push(self.copies((self.states.copies - freed).max(0.0)));
        }
        pieces.push(self.expanded());
        pieces
    }

    /// Autocast copies of one layer.
    fn layer_copies(&self) -> f64 {
        if self.widths.autocast && self.widths.full {
            2.0 * self.shapes.iter().map(|shape| shape.matrices).fold(0.0, f64::max)
        } else {
            0.0
        }
    }

    /// A quantised matrix, expanded for one product. It fits beside other peaks, so that it counts
    /// only where layers run.
    fn expanded(&self) -> Piece {
        Piece::modelled(
            "dequantised matrix",
            2.0 * self.states.largest_quantised,
            (0.0, 1.0),
            format!("{} elements x 2 B", digits(self.states.largest_quantised)),
        )
    }

    /// The last layer in order, when all gradients but the embedding's exist, or the embedding.
    fn end_of_backward(&self) -> Vec<Piece> {
        let (t, w) = (self.tokens, self.widths);
        let g = self.states.gradients;
        let width = self.states.trained_bytes;
        let embedding = self.model.tied || self.model.head() == 0;
        let stream = w.residual * self.hidden * t;
        let tied = if w.full && embedding {
            2.0 * self.head() * width
        } else if w.full {
            stream
        } else {
            0.0
        };
        let gradients = |bytes: f64, text: String| Piece::exact("gradients", bytes, text);
        let all = format!("{} trained parameters x {width} B", digits(self.states.trainable));
        let last = vec![
            gradients(g, all),
            Piece::modelled(
                "gradient of the embedding",
                tied,
                (1.0, 1.0),
                "the head's share and the lookup's, before they are added".to_owned(),
            ),
        ];
        if !self.recomputes() {
            return last;
        }
        let missing = if w.full {
            let layer = self.shapes.iter().map(|shape| shape.parameters).fold(f64::INFINITY, f64::min);
            let layer = if layer.is_finite() { layer } else { 0.0 };
            (layer + if embedding { 0.0 } else { self.head() }) * width
        } else {
            0.0
        };
        let temporary = self.layer_temporaries();
        let one = vec![
            gradients((g - missing).max(0.0), "all but the first layer and the embedding".to_owned()),
            Piece::modelled(
                "recomputed layer",
                self.largest_layer() * t + stream,
                self.spread,
                format!("{} tokens x {} B", digits(t), digits(self.largest_layer())),
            ),
            self.temporaries(temporary * t, format!("{} tokens x {} B", digits(t), digits(temporary))),
            self.copies(self.layer_copies()),
        ];
        let sum = |pieces: &[Piece]| pieces.iter().map(|piece| piece.bytes).sum::<f64>();
        if sum(&one) > sum(&last) { one } else { last }
    }

    fn optimizer_step(&self) -> Vec<Piece> {
        vec![
            Piece::exact(
                "gradients",
                self.states.gradients,
                format!("{} trained parameters x {} B", digits(self.states.trainable), self.states.trained_bytes),
            ),
            Piece::modelled(
                "optimiser temporaries",
                self.states.step,
                (1.0, 1.0),
                match self.setup.optimizer {
                    super::Optimizer::AdamW => {
                        format!("square roots of {} trained parameters at once (the foreach form)", digits(self.states.trainable))
                    }
                    _ => "of the largest matrix".to_owned(),
                },
            ),
        ]
    }
}
