//! What one step of training, or one request of inference, holds on one GPU.
//!
//! [`Setup`] says how the model is run; [`phases::of`] gives the phases of a step, each a list of
//! [`Piece`]s that are alive together; the largest phase is the peak. A piece is a sum over the
//! inventory, in bytes, with its formula. The activation formulas count what each operation keeps
//! for the backward pass in PyTorch with the model code of transformers; they follow measured
//! allocations within one percent for dense decoders with rotary attention, GPT-2, Gemma 2 and
//! Mixtral. Other families are modelled from the same parts and carry a wider range.

pub mod activations;
pub mod inference;
pub mod phases;
pub mod setup;
pub mod shape;
pub mod sharded;
pub mod states;
pub mod step;
pub mod zero;

pub use setup::{Attention, Checkpointing, Engine, LoraDtype, Optimizer, Precision, Setup, SetupError, Task};

/// How far a number can be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Certainty {
    /// Follows from the config and the settings.
    Exact,
    /// A formula that was checked against measurements.
    Modelled,
    /// An experience value.
    Guess,
}

/// Something that occupies memory on one GPU.
#[derive(Debug, Clone, PartialEq)]
pub struct Piece {
    /// What it is.
    pub name: &'static str,
    /// Bytes; whole numbers below 2^53 are exact.
    pub bytes: f64,
    /// Least and most it may be, as factors of `bytes`.
    pub spread: (f64, f64),
    /// The formula with the numbers put in.
    pub formula: String,
    /// How far it can be trusted.
    pub certainty: Certainty,
}

impl Piece {
    /// A piece that follows from the config.
    pub fn exact(name: &'static str, bytes: f64, formula: String) -> Self {
        Self { name, bytes, spread: (1.0, 1.0), formula, certainty: Certainty::Exact }
    }

    /// A piece that a formula gives, within factors.
    pub fn modelled(name: &'static str, bytes: f64, spread: (f64, f64), formula: String) -> Self {
        Self { name, bytes, spread, formula, certainty: Certainty::Modelled }
    }
}

/// What is alive at one moment of a step.
#[derive(Debug, Clone, PartialEq)]
pub struct Phase {
    /// Name of the moment.
    pub name: &'static str,
    /// What is alive.
    pub pieces: Vec<Piece>,
}

impl Phase {
    /// Bytes of all pieces.
    pub fn bytes(&self) -> f64 {
        self.pieces.iter().map(|piece| piece.bytes).sum()
    }
}

/// Bytes of a tensor as PyTorch's allocator hands them out: whole blocks of 512.
pub(crate) fn block(bytes: f64) -> f64 {
    (bytes / 512.0).ceil() * 512.0
}

/// A whole number with its digits in groups of three, for formulas.
pub(crate) fn digits(number: f64) -> String {
    let plain = format!("{:.0}", number.max(0.0));
    let mut out = String::with_capacity(plain.len() + plain.len() / 3);
    for (index, digit) in plain.chars().enumerate() {
        if index > 0 && (plain.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}
