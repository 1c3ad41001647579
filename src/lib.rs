//! trainwreck explains why a training or serving run died, says what each number of its log counts, and what a model needs.
//!
//! - [`text`]: what an editor or a pipe gives us: lines, positions, and the clean view of a line.
//! - [`log`]: reading logs: rule pages, the gate, findings, verdicts over numbers, the story of a run.
//! - [`model`]: config files: a model as an inventory of tensors; parameters, stored bytes, KV cache.
//! - [`gpu`]: the catalogue of accelerators.
//! - [`explain`]: findings to words: Markdown for hovers, plain text for terminals.
//! - [`files`]: files for the faces: bytes to text, a workspace's own rule pages.
//! - [`lsp`]: the editor's face: a language server on standard input and output.
//! - [`cli`]: the terminal's face: `check`, `rules`, `explain`, `fit`, `gpus`.
//!
//! The analysis knows neither a protocol nor a disk nor a clock; any text gives an analysis.

pub mod cli;
pub mod explain;
pub mod files;
pub mod gpu;
pub mod log;
pub mod lsp;
pub mod model;
pub mod text;
