//! `trainwreck gpus`: lists the catalogue of accelerators.

use std::fmt::Write as _;

use clap::Args;

use super::fit::Outcome;
use crate::gpu::{self, Basis};

/// Flags of `trainwreck gpus`.
#[derive(Debug, Clone, Args)]
pub struct GpusArgs {
    /// Words that id, name, architecture or vendor must contain, or the name of a cloud machine.
    #[arg(value_name = "FILTER")]
    pub filter: Vec<String>,
}

/// Runs the command.
pub fn run(args: &GpusArgs) -> Outcome {
    let filter = args.filter.join(" ");
    let gpus = gpu::catalogue().filter(&filter);
    if gpus.is_empty() {
        return Outcome { stdout: String::new(), stderr: format!("no GPU matches `{filter}`; `trainwreck gpus` lists all\n"), code: 1 };
    }
    let mut stdout = format!("{:<22} {:>9} {:>10}  {:<8} {:<5} {}\n", "ID", "SOLD", "USABLE", "BASIS", "BF16", "NAME");
    for gpu in gpus {
        let sold = gpu.memory_gb.map_or_else(|| "?".to_owned(), |gb| format!("{gb} GB"));
        let (usable, basis) = match gpu.usable_bytes() {
            Some((bytes, basis)) => (format!("{:.2} GiB", bytes as f64 / (1u64 << 30) as f64), basis_word(basis)),
            None => ("?".to_owned(), ""),
        };
        let bf16 = gpu.bf16.map_or("?", |yes| if yes { "yes" } else { "no" });
        let _ = writeln!(stdout, "{:<22} {sold:>9} {usable:>10}  {basis:<8} {bf16:<5} {}", gpu.id, gpu.name);
    }
    Outcome { stdout, stderr: String::new(), code: 0 }
}

fn basis_word(basis: Basis) -> &'static str {
    match basis {
        Basis::Reported => "reported",
        Basis::Tool => "tool",
        Basis::Nominal => "nominal",
    }
}
