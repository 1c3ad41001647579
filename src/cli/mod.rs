//! The terminal's face. One file a command, one file an output format.

pub mod check;
pub mod fit;
pub mod gpus;
pub mod json;
pub mod rules;
pub mod text;
