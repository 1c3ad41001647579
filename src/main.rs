//! The binary: picks a face and maps its outcome to an exit code.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use trainwreck::cli;

/// Explains why a training or serving run died.
#[derive(Parser)]
#[command(name = "trainwreck", version, about, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Read logs and say why the run died
    Check(cli::check::CheckArgs),
    /// Join findings of many machines into one story
    Story(cli::story::StoryArgs),
    /// Serve an editor over standard input and output
    Lsp(LspArgs),
    /// List the rule pages
    Rules(cli::rules::RulesArgs),
    /// Print a rule's page
    Explain(cli::rules::ExplainArgs),
    /// Say what a model config needs
    Fit(cli::fit::FitArgs),
    /// List the catalogue of accelerators
    Gpus(cli::gpus::GpusArgs),
}

/// Arguments of `lsp`.
#[derive(clap::Args)]
struct LspArgs {
    /// Client libraries add this flag; standard input and output are what the server uses anyway
    #[arg(long, hide = true)]
    stdio: bool,
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Check(args) => cli::check::run(&args),
        Command::Story(args) => cli::story::run(&args),
        Command::Lsp(_) => Ok(trainwreck::lsp::run()),
        Command::Rules(args) => cli::rules::list(&args),
        Command::Explain(args) => cli::rules::explain(&args),
        Command::Fit(args) => print(&cli::fit::run(&args)),
        Command::Gpus(args) => print(&cli::gpus::run(&args)),
    };
    match outcome {
        Ok(code) => ExitCode::from(u8::try_from(code).unwrap_or(2)),
        Err(e) if is_closed_pipe(&e) => ExitCode::SUCCESS,
        Err(e) => {
            use std::io::Write as _;
            let _ = writeln!(anstream::stderr(), "trainwreck: {}", cli::complaint(&format!("{e:#}")));
            ExitCode::from(2)
        }
    }
}

/// A reader that has seen enough is no error.
fn is_closed_pipe(e: &anyhow::Error) -> bool {
    e.downcast_ref::<std::io::Error>().is_some_and(|e| e.kind() == std::io::ErrorKind::BrokenPipe)
}

/// Prints the outcome of a command that only computes.
fn print(outcome: &cli::fit::Outcome) -> anyhow::Result<i32> {
    use std::io::Write as _;
    anstream::stderr().write_all(cli::printable(&outcome.stderr).as_bytes())?;
    anstream::stdout().write_all(cli::printable(&outcome.stdout).as_bytes())?;
    Ok(i32::from(outcome.code))
}
