//! `trainwreck fit`: parameters, stored bytes and KV cache of the models that configs describe.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use crate::model::{self, Model, kv_cache};

/// Flags of `trainwreck fit`.
#[derive(Debug, Clone, Args)]
pub struct FitArgs {
    /// Config files of models.
    #[arg(required = true, value_name = "CONFIG")]
    pub configs: Vec<PathBuf>,
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
    let mut objects = Vec::new();
    for path in &args.configs {
        let file = path.display().to_string();
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) => {
                fail(&mut outcome, &format!("{file}: cannot be read: {error}"));
                continue;
            }
        };
        match model::read(&text) {
            Ok(model) if args.format == Format::Json => objects.push(object(&file, &model)),
            Ok(model) => outcome.stdout.push_str(&table(&file, &model)),
            Err(error) => {
                let (line, column) = position(&text, error.span.start);
                fail(&mut outcome, &format!("{file}:{line}:{column}: {error}"));
                objects.push(
                    json!({ "file": file, "error": { "message": error.to_string(), "key": error.key, "line": line, "column": column } }),
                );
            }
        }
    }
    if args.format == Format::Json {
        let value = if args.configs.len() == 1 { objects.pop().unwrap_or(Value::Null) } else { Value::Array(objects) };
        outcome.stdout = format!("{value:#}\n");
    }
    outcome
}

fn fail(outcome: &mut Outcome, message: &str) {
    outcome.stderr.push_str(message);
    outcome.stderr.push('\n');
    outcome.code = 2;
}

/// Line and column of a byte offset, both from 1; columns count characters.
fn position(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
    (line, column)
}

fn object(file: &str, model: &Model) -> Value {
    json!({
        "file": file,
        "architecture": model.architecture,
        "exact": model.is_exact(),
        "params": {
            "total": model.total(),
            "low": model.low(),
            "high": model.high(),
            "active": model.active(),
            "embedding": model.embedding(),
            "head": model.head(),
            "trainable": model.total(),
        },
        "weights_bytes": model.weights_bytes(),
        "kv_bytes_per_token": model.kv_bytes_per_token(2),
        "kv_layers": kv_layers(model),
        "model_type": model.model_type,
        "dtype": model.stored_dtype().name(),
        "quantization": model.quantization.as_ref().map(|one| json!({ "method": one.method, "format": one.summary, "exact": one.exact })),
        "tied": model.tied,
        "notes": model.notes.iter().chain(&model.inexact).collect::<Vec<_>>(),
    })
}

/// What each kind of layers keeps, in a 16-bit cache.
fn kv_layers(model: &Model) -> Vec<Value> {
    let kinds = kv_cache::kinds(&model.inventory);
    let one = |sum: &kv_cache::KindSum| {
        json!({
            "kind": sum.kind,
            "layers": sum.layers,
            "bytes_per_token": sum.per_token.saturating_mul(2),
            "window": sum.window,
            "state_elements": sum.constant,
        })
    };
    kinds.iter().map(one).collect()
}

fn table(file: &str, model: &Model) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "{file}: {}", model.architecture);
    let mut row = |name: &str, value: String| {
        let _ = writeln!(out, "  {name:<14} {value}");
    };
    let about = if model.is_exact() {
        String::new()
    } else {
        format!(" (estimate, between {} and {})", grouped(model.low()), grouped(model.high()))
    };
    row("parameters", format!("{}{about}", grouped(model.total())));
    if model.active() != model.total() {
        row("active a token", grouped(model.active()));
    }
    row("embedding", grouped(model.embedding()));
    let format =
        model.quantization.as_ref().map_or_else(|| model.stored_dtype().name().to_owned(), |one| format!("{} {}", one.method, one.summary));
    let weights =
        model.weights_bytes().map_or_else(|| "cannot be told".to_owned(), |bytes| format!("{} ({} bytes)", gib(bytes), grouped(bytes)));
    row("weights", format!("{weights}, {format}"));
    row("KV cache", format!("{} a token in 16 bits", gib(model.kv_bytes_per_token(2))));
    for sum in kv_cache::kinds(&model.inventory) {
        let window = sum.window.map_or(String::new(), |tokens| format!(", last {} tokens", grouped(tokens)));
        row("", format!("{} layers {}{window}", sum.layers, sum.kind));
    }
    for note in model.notes.iter().chain(&model.inexact) {
        row("note", note.clone());
    }
    out
}

/// A number with its digits in groups of three.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Bytes in the binary unit that suits them.
fn gib(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let name = UNITS.get(unit).copied().unwrap_or("B");
    if unit == 0 { format!("{bytes} B") } else { format!("{value:.2} {name}") }
}
