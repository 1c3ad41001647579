//! The table of `trainwreck fit`: the model, the terms with a bar, the GPUs.

use std::fmt::Write as _;

use super::fit_input::Input;
use super::fit_json::verdict;
use crate::gpu::cards::Card;
use crate::log::units::grouped;
use crate::model::fit::Verdict;
use crate::model::plan::{self, Plan};
use crate::model::training::zero::Offload;
use crate::model::training::{Checkpointing, Engine, Setup, Task, shape};
use crate::model::{Model, fit, kv_cache, remedies};

/// Width of a full bar.
const BAR: usize = 24;

/// The table of a model, and why there is no plan where there is none.
pub fn table(file: &str, input: &Input, gpus: &[Card], what_if: bool) -> (String, Option<String>) {
    let Input { model, setup, notes } = input;
    let plan = match plan::of(model, setup) {
        Ok(plan) => plan,
        Err(error) => return (format!("{file}: {}\n{}", model.architecture, head(model)), Some(error.to_string())),
    };
    let mut out = format!("{file}: {}\n{}", answer(model, setup, &plan, gpus), head(model));
    terms(&mut out, model, setup, &plan);
    fits(&mut out, model, setup, gpus);
    for note in notes.iter().chain(&plan.notes) {
        let _ = writeln!(out, "  note: {note}");
    }
    let _ = writeln!(out, "  not known from a config: {}", plan.unknowns.join("; "));
    if what_if {
        changes(&mut out, model, setup, gpus);
    }
    (out, None)
}

/// The answer in one line: does it fit, and by how much.
fn answer(model: &Model, setup: &Setup, plan: &Plan, gpus: &[Card]) -> String {
    let what = task(model, setup);
    let about = if model.is_exact() { "" } else { "about " };
    let each = if setup.gpus > 1 { " a GPU" } else { "" };
    let total = format!("{about}{}{each}", size(plan.total));
    let range = format!("({} to {})", size(plan.total_low), size(plan.total_high));
    let judged: Vec<(&str, Verdict)> = gpus.iter().map(|card| (card.id.as_str(), fit::verdict(plan, setup, card.memory))).collect();
    let fitting = |(_, verdict): &&(&str, Verdict)| *verdict != Verdict::TooLarge;
    if let [card] = gpus {
        let usable = fit::usable(setup, card.memory);
        // What the range leaves open is said, as in the editor.
        let verdict = judged_by_range(plan.total, (plan.total_low, plan.total_high), usable);
        let margin = match plan.total.checked_sub(usable) {
            Some(more) if more > 0 => format!("{} too much", size(more)),
            _ => format!("{} left", size(usable - plan.total)),
        };
        let on = if setup.gpus > 1 { format!("{} x {}", grouped(setup.gpus), card.id) } else { card.id.clone() };
        let share = if usable < card.memory { format!(" (nine tenths of {})", size(card.memory)) } else { String::new() };
        return format!("{verdict} {on}: {what}, needs {total} {range} of {}{share}, {margin}", size(usable));
    }
    let names = |list: &[(&str, Verdict)]| list.iter().map(|(id, _)| *id).collect::<Vec<_>>().join(", ");
    // The usual classes stand in order of size.
    let verdict = match judged.iter().find(fitting) {
        None => format!("does not fit {}", judged.last().map_or("", |(id, _)| id)),
        Some((id, _)) if id.ends_with(" class") => format!("fits {} cards and larger", id.trim_end_matches(" class")),
        Some(_) => {
            let (fit, not): (Vec<_>, Vec<_>) = judged.iter().partition(|one| fitting(one));
            let not = if not.is_empty() { String::new() } else { format!(", not {}", names(&not)) };
            format!("fits {}{not}", names(&fit))
        }
    };
    format!("{verdict}: {what}, needs {total} {range}")
}

/// Whether a total fits; what its range leaves open is said.
fn judged_by_range(total: u64, (low, high): (u64, u64), usable: u64) -> &'static str {
    match (total <= usable, low <= usable, high <= usable) {
        (true, _, true) => "fits",
        (true, ..) => "probably fits",
        (false, true, _) => "probably does not fit",
        (false, ..) => "does not fit",
    }
}

fn head(model: &Model) -> String {
    let mut out = String::new();
    let mut row = |name: &str, value: String| {
        let _ = writeln!(out, "  {name:<14} {value}");
    };
    row("architecture", model.architecture.clone());
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
        model.weights_bytes().map_or_else(|| "cannot be told".to_owned(), |bytes| format!("{} ({} bytes)", size(bytes), grouped(bytes)));
    row("weights", format!("{weights}, {format}"));
    let kinds = kv_cache::kinds(&model.inventory);
    let mut name = if model.kv_bytes_per_token(2) > 0 { "KV cache" } else { "state" };
    if model.kv_bytes_per_token(2) > 0 {
        row(name, format!("{} a token in 16 bits", size(model.kv_bytes_per_token(2))));
        name = "";
    }
    for sum in kinds {
        let window = sum.window.map_or(String::new(), |tokens| format!(", last {} tokens", grouped(tokens)));
        row(name, format!("{} {} {}{window}", sum.layers, if sum.layers == 1 { "layer" } else { "layers" }, sum.kind));
        name = "";
    }
    for note in model.notes.iter().chain(&model.inexact) {
        row("note", note.clone());
    }
    out
}

/// The task in words.
fn task(model: &Model, setup: &Setup) -> String {
    if !shape::has_layers(model) {
        return "inference, weights alone".to_owned();
    }
    let what = match setup.task {
        Task::Inference if setup.engine == Engine::Vllm => "inference with vLLM",
        Task::Inference => "inference",
        Task::Full => "full training",
        Task::Lora => "LoRA training",
        Task::Qlora => "QLoRA training",
    };
    let mut text = format!(
        "{what}, {} x {} tokens",
        grouped(setup.batch.max(if setup.task == Task::Inference { setup.concurrency } else { 1 })),
        grouped(setup.seq)
    );
    if setup.task != Task::Inference {
        match setup.checkpointing {
            Checkpointing::None => {}
            Checkpointing::Full => text.push_str(", checkpointing"),
            Checkpointing::Selective => text.push_str(", selective checkpointing"),
        }
    }
    let moved = setup.sharing.map(|zero| (zero.optimizer != Offload::None, zero.parameters != Offload::None));
    text.push_str(match moved {
        Some((true, true)) => ", states and weights offloaded",
        Some((true, false)) => ", optimiser offloaded",
        Some((false, true)) => ", weights offloaded",
        _ => "",
    });
    if setup.gpus > 1 {
        let _ = write!(text, ", {} GPUs", grouped(setup.gpus));
        if setup.zero > 0 {
            let _ = write!(text, ", ZeRO {}", setup.zero);
        }
        if setup.tensor_parallel > 1 {
            let _ = write!(text, ", tensor parallel {}", setup.tensor_parallel);
        }
        if setup.pipeline_parallel > 1 {
            let _ = write!(text, ", pipeline parallel {}", setup.pipeline_parallel);
        }
    }
    text
}

fn terms(out: &mut String, model: &Model, setup: &Setup, plan: &Plan) {
    let each = if setup.gpus > 1 { "each GPU at" } else { "at" };
    let _ = writeln!(out, "\n  {}: {each} the peak ({})", task(model, setup), plan.peak_phase);
    let most = plan.terms.iter().map(|term| term.bytes).max().unwrap_or(1);
    for term in &plan.terms {
        let share = term.bytes as f64 / most.max(1) as f64;
        let full = (share * BAR as f64).round() as usize;
        let bar = "#".repeat(full.min(BAR));
        let _ = writeln!(out, "  {:<27} {:>11}  {bar:<BAR$}  {}", term.name, size(term.bytes), term.formula);
    }
    let _ = writeln!(
        out,
        "  {:<27} {:>11}  {} to {}",
        "tensors (allocated)",
        size(plan.allocated),
        size(plan.allocated_low),
        size(plan.allocated_high)
    );
    let phases: Vec<String> = plan.phases.iter().map(|(name, bytes)| format!("{name} {}", size(*bytes))).collect();
    let _ = writeln!(out, "  {:<27} {:>11}  {} to {}", "total on the card", size(plan.total), size(plan.total_low), size(plan.total_high));
    let _ = writeln!(out, "  phases: {}", phases.join(" | "));
}

fn fits(out: &mut String, model: &Model, setup: &Setup, gpus: &[Card]) {
    let last = if setup.task == Task::Inference { "CONCURRENCY" } else { "" };
    let _ = writeln!(
        out,
        "\n  {:<24} {:>11}  {:<9} {:>12} {:>10} {:>12} {last:>12}",
        "GPU", "USABLE", "", "HEAD-ROOM", "MAX BATCH", "MAX CONTEXT"
    );
    // Without layers of a language model nothing is known of batch and length.
    let limit = |value: u64| match value {
        _ if !shape::has_layers(model) => "-".to_owned(),
        fit::MOST_BATCH | fit::MOST_TOKENS => "any".to_owned(),
        value => grouped(value),
    };
    for card in gpus {
        let Ok(fit) = fit::of(model, setup, card.memory) else {
            continue;
        };
        let headroom = if fit.headroom < 0 { format!("-{}", size(fit.headroom.unsigned_abs())) } else { size(fit.headroom.unsigned_abs()) };
        let concurrency = fit.max_concurrency.map_or(String::new(), limit);
        let many = if card.count > 1 { format!(" (one of {})", card.count) } else { String::new() };
        let _ = writeln!(
            out,
            "  {:<24} {:>11}  {:<9} {headroom:>12} {:>10} {:>12} {concurrency:>12}",
            format!("{}{many}", card.id),
            size(fit::usable(setup, card.memory)),
            verdict(fit.verdict),
            limit(fit.max_batch),
            limit(fit.max_context)
        );
    }
    if setup.engine == Engine::Vllm && setup.task == Task::Inference {
        let _ =
            writeln!(out, "  note: vLLM takes nine tenths of a card (--gpu-memory-utilization 0.9), which is what counts as usable here");
    }
}

fn changes(out: &mut String, model: &Model, setup: &Setup, gpus: &[Card]) {
    let Some(card) = gpus.iter().min_by_key(|card| card.memory) else {
        return;
    };
    let usable = fit::usable(setup, card.memory);
    let _ = writeln!(out, "\n  what would make it fit {} ({}), cheapest first", card.id, size(usable));
    let list = remedies::of(model, setup, card.memory);
    if list.is_empty() {
        let _ = writeln!(out, "  it fits as it is");
    }
    if !list.is_empty() && !list.iter().any(|one| one.fits) {
        let _ = writeln!(out, "  no change that is known makes it fit; these come nearest");
    }
    for one in list {
        let mark = judged_by_range(one.total, one.range, usable);
        let _ = writeln!(out, "  {mark:<21} {:>11}  {} ({}); {}", size(one.total), one.change, one.flags, one.cost);
    }
}

/// Bytes in the binary unit that suits them.
fn size(bytes: u64) -> String {
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
