//! The terminal's face. One file a command, one file an output format.

pub mod cards;
pub mod check;
pub mod fit;
pub mod fit_flags;
mod fit_json;
mod fit_table;
pub mod gpus;
pub mod json;
pub mod rules;
pub mod text;
