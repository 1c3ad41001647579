//! `trainwreck fit`: parameters, bytes, the memory plan of a task, and whether it fits a GPU.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use serde_json::Value;

use super::fit_flags::Flags;
use super::{complaint, fit_input, fit_json, fit_table, json_text};
use crate::explain::seen;
use crate::files::input::{self, Unread};
use crate::gpu::cards::Card;
use crate::log::analyze;
use crate::log::rules::Rules;

/// Flags of `trainwreck fit`.
#[derive(Debug, Clone, Args)]
pub struct FitArgs {
    /// Config files of models; an adapter_config.json or a configuration of DeepSpeed stands for the model beside it.
    #[arg(required = true, value_name = "CONFIG")]
    pub configs: Vec<PathBuf>,
    /// How the model is run.
    #[command(flatten)]
    pub flags: Box<Flags>,
    /// Log of a run: the card is the size class of the total that its memory errors print.
    #[arg(long, value_name = "LOG", conflicts_with = "gpu")]
    pub log: Option<PathBuf>,
    /// Configuration of DeepSpeed: stage, offload, batch sizes, precision and optimiser come from it.
    #[arg(long, value_name = "FILE")]
    pub deepspeed: Option<PathBuf>,
    /// List the changes that would make it fit.
    #[arg(long)]
    pub what_if: bool,
    /// Form of the output.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

/// Form of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A table for people.
    Text,
    /// One JSON object a file; a list when several files are given.
    Json,
}

/// What the command prints, and how it ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
    /// Exit code: 0, or 2 when a file could not be used.
    pub code: u8,
}

/// Runs the command.
pub fn run(args: &FitArgs) -> Outcome {
    let mut outcome = Outcome { stdout: String::new(), stderr: String::new(), code: 0 };
    let gpus = match args.log.as_deref().map_or_else(|| args.flags.gpus(), seen_in) {
        Ok(gpus) => gpus,
        Err(message) => {
            fail(&mut outcome, &message);
            return outcome;
        }
    };
    let mut objects = Vec::new();
    for path in &args.configs {
        let file = path.display().to_string();
        let input = match fit_input::read(path, &args.flags, args.deepspeed.as_deref()) {
            Ok(input) => input,
            Err(problem) => {
                let place = problem.place.as_ref().map_or_else(String::new, |(_, line, column)| format!(":{line}:{column}"));
                fail(&mut outcome, &format!("{file}{place}: {}", problem.message));
                objects.push(fit_json::failure(&file, &problem));
                continue;
            }
        };
        if args.format == Format::Json {
            let (object, error) = fit_json::object(&file, &input, &gpus, args.what_if);
            if let Some(message) = error {
                fail(&mut outcome, &format!("{file}: {message}"));
            }
            objects.push(object);
        } else {
            let (table, error) = fit_table::table(&file, &input, &gpus, args.what_if);
            if !outcome.stdout.is_empty() {
                outcome.stdout.push('\n');
            }
            outcome.stdout.push_str(&table);
            if let Some(message) = error {
                fail(&mut outcome, &format!("{file}: {message}"));
            }
        }
    }
    if args.format == Format::Json {
        let value = if args.configs.len() == 1 { objects.pop().unwrap_or(Value::Null) } else { Value::Array(objects) };
        let mut text = Vec::new();
        // A list in memory takes all that is written.
        if json_text::write_pretty(&mut text, &value).is_ok() {
            outcome.stdout = String::from_utf8_lossy(&text).into_owned();
        }
    }
    outcome
}

/// The card of which a log gives the total.
fn seen_in(log: &Path) -> Result<Vec<Card>, String> {
    let name = log.display();
    let text = input::log(log, &|| {}).map_err(|unread| match unread {
        Unread::Binary => format!("--log {name}: not a text file"),
        Unread::Because(why) => format!("--log {name}: {why}"),
    })?;
    let totals = seen::totals(&analyze(&text, &Rules::builtin()));
    match seen::card(&totals) {
        Some(card) => Ok(vec![Card { id: card.name, memory: card.memory, count: 1 }]),
        None if totals.is_empty() => Err(format!("--log {name}: no memory error prints the total of a known card; name one with --gpu")),
        None => Err(format!("--log {name}: totals of different cards; name one with --gpu")),
    }
}

fn fail(outcome: &mut Outcome, message: &str) {
    outcome.stderr.push_str(&complaint(message));
    outcome.stderr.push('\n');
    outcome.code = 2;
}
