//! The terminal's face.

pub mod fit;
