//! The terminal's face.

pub mod fit;
pub mod gpus;
