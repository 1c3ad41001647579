//! The binary: picks a face and maps its outcome to an exit code.

use std::io::Write as _;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use trainwreck::cli::{fit, gpus};

#[derive(Debug, Parser)]
#[command(version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Parameters, stored bytes and KV cache of a model config.
    Fit(fit::FitArgs),
    /// The catalogue of accelerators.
    Gpus(gpus::GpusArgs),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Fit(args) => fit::run(&args),
        Command::Gpus(args) => gpus::run(&args),
    };
    // A closed pipe is no error.
    let _ = std::io::stdout().write_all(outcome.stdout.as_bytes());
    let _ = std::io::stderr().write_all(outcome.stderr.as_bytes());
    ExitCode::from(outcome.code)
}
