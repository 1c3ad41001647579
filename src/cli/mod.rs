//! The terminal's face.

pub mod cards;
pub mod fit;
pub mod fit_flags;
mod fit_json;
mod fit_table;
pub mod gpus;
