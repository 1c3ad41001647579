//! `adapter_config.json`: what is trained, and how large it is.

use std::ops::Range;

use super::{Base, Kin, Said, hint};
use crate::explain::config::budget::{self, Choice};
use crate::explain::config::marks::Mark;
use crate::explain::config::{LANGUAGE, count, plain, size};
use crate::explain::markdown;
use crate::explain::texts::{fill, text};
use crate::log::units::grouped;
use crate::log::vocabulary::Severity;
use crate::model::adapter::{self, Adapter, Module, Targets};
use crate::model::config::Section;
use crate::model::inventory::{Group, Part, Role};
use crate::model::json::{Node, Value};
use crate::model::training::Task;

/// Names of modules that are written out.
const MOST_NAMES: usize = 7;
/// Rows of a table, and marks, at most.
const MOST_ROWS: usize = 16;
/// Names of a list that are held against the base, at most.
const MOST_CHECKED: usize = 512;
/// Names of experts and routers, which differ between versions of the code.
const EXPERT_NAMES: [&str; 10] = ["gate_proj", "up_proj", "down_proj", "gate_up_proj", "w1", "w2", "w3", "gate", "router", "experts"];

pub(super) fn say(kin: &Kin, base: Option<&Base>, choice: &Choice) -> Said {
    let adapter = match adapter::read(Section::new(&kin.root)) {
        Ok(adapter) => adapter,
        // Other kinds of adapters exist and are none of a mistake.
        Err(error) if error.key == "peft_type" => {
            let kind = Section::new(&kin.root).str("peft_type").map(plain).unwrap_or_default();
            return Said { lens: vec![fill(LANGUAGE, "kin.adapter.other", &[("kind", kind)])], ..Said::default() };
        }
        Err(error) => {
            let message = fill(LANGUAGE, "kin.value", &[("what", plain(&error.message))]);
            let mark = Mark { span: error.span, code: "config-value", severity: Severity::Warning, message };
            return Said { marks: vec![mark], ..Said::default() };
        }
    };
    let kind = if adapter.dora { "DoRA" } else { "LoRA" };
    let values = [("kind", kind.to_owned()), ("rank", grouped(adapter.rank)), ("targets", targets(&adapter))];
    let mut said = Said { lens: vec![fill(LANGUAGE, "kin.adapter", &values)], ..Said::default() };
    let Some(base) = base else {
        let name = adapter.base.as_deref().map(plain).unwrap_or_default();
        let key = if name.is_empty() { "kin.adapter.no-base-named" } else { "kin.adapter.no-base" };
        said.lens.push(fill(LANGUAGE, key, &[("name", name)]));
        return said;
    };
    let trained = u64::try_from(adapter.trainable(&base.model.inventory)).unwrap_or(u64::MAX);
    said.marks = missing(kin, &adapter, base);
    if trained == 0 {
        said.lens.push(fill(LANGUAGE, "kin.adapter.no-target", &[("place", plain(&base.place))]));
        return said;
    }
    let share = format!("{:.2} %", trained as f64 * 100.0 / base.model.total() as f64);
    said.lens.push(fill(
        LANGUAGE,
        "kin.adapter.trained",
        &[("count", count(trained)), ("share", share), ("total", count(base.model.total()))],
    ));
    let bytes = |element: u64| size(trained.saturating_mul(element));
    said.lens.push(fill(LANGUAGE, "kin.adapter.bytes", &[("full", bytes(4)), ("half", bytes(2))]));
    said.lens.extend(experts(&adapter, base).map(str::to_owned));
    said.lens.push(fill(LANGUAGE, "kin.base", &[("place", plain(&base.place))]));
    said.tasks = tasks(&adapter, base, choice);
    if let Some(rank) = kin.member("r") {
        said.hints.push(hint(rank, fill(LANGUAGE, "kin.adapter.hint", &[("count", count(trained))])));
    }
    said
}

/// What adapters do with experts goes by the version of transformers.
fn experts(adapter: &Adapter, base: &Base) -> Option<&'static str> {
    let groups = &base.model.inventory.groups;
    if base.model.role(Role::Expert) == 0 {
        return None;
    }
    if matches!(adapter.targets, Targets::AllLinear) {
        return Some(text(LANGUAGE, "kin.adapter.without-experts"));
    }
    let covered = |group: &Group| group.tensors.iter().any(|tensor| tensor.role == Role::Expert && adapter.covers(group, tensor));
    groups.iter().any(covered).then(|| text(LANGUAGE, "kin.adapter.on-experts"))
}

/// Whether training this adapter fits, on the base as it is and in 4 bits.
fn tasks(adapter: &Adapter, base: &Base, choice: &Choice) -> Vec<String> {
    let line = |task: Task| {
        let mut setup = budget::setup(&base.model, task, choice);
        setup.lora_r = adapter.rank;
        setup.lora_targets = adapter.target_names(&base.model.inventory);
        budget::usual_line(&base.model, &setup, choice.card())
    };
    [Task::Lora, Task::Qlora].into_iter().filter(|&task| choice.task.is_none_or(|chosen| chosen == task)).filter_map(line).collect()
}

/// Targets that the base does not have. Silent where its modules may be called otherwise than here: models that are
/// not known or bring their own code, and experts, which are modules in some versions of the code and none in others.
fn missing(kin: &Kin, adapter: &Adapter, base: &Base) -> Vec<Mark> {
    let inventory = &base.model.inventory;
    let Some(member) = kin.member("target_modules").filter(|_| base.model.is_exact() && base.root.get("auto_map").is_none()) else {
        return Vec::new();
    };
    let experts = base.model.role(Role::Expert) > 0;
    let towers = inventory.groups.iter().any(|group| !matches!(group.part, Part::Text | Part::Encoder | Part::Decoder));
    let none = adapter.modules(inventory).is_empty();
    let mark = |span: Range<usize>, key: &str, name: &str| {
        let values = [("name", plain(name)), ("place", plain(&base.place)), ("modules", names(base))];
        let severity = if none { Severity::Error } else { Severity::Warning };
        Mark { span, code: "adapter-target-missing", severity, message: fill(LANGUAGE, key, &values) }
    };
    // Experts that go by numbers are not called by words in any version.
    let numbered = experts && adapter::is_module(inventory, "w1");
    let may_be_expert = |name: &str| experts && EXPERT_NAMES.contains(&name) && !(numbered && matches!(name, "gate_proj" | "up_proj"));
    match (&adapter.targets, &member.node.value) {
        (Targets::Named(_), Value::Array(items)) => {
            let absent = |item: &&Node| match &item.value {
                Value::String(name) => !(may_be_expert(name) || adapter::is_module(inventory, name)),
                _ => false,
            };
            let named = |item: &Node| match &item.value {
                Value::String(name) => mark(item.span.clone(), if none { "kin.adapter.missing-all" } else { "kin.adapter.missing" }, name),
                _ => mark(item.span.clone(), "kin.adapter.missing", ""),
            };
            items.iter().take(MOST_CHECKED).filter(absent).take(MOST_ROWS).map(named).collect()
        }
        (Targets::Matching(pattern), _) if none && !experts && !towers => {
            vec![mark(member.node.span.clone(), "kin.adapter.missing-pattern", pattern.as_str())]
        }
        _ => Vec::new(),
    }
}

/// The modules that could take an adapter, in a few words.
fn names(base: &Base) -> String {
    let modules = Adapter::new(1, &["all-linear"]).modules(&base.model.inventory);
    let mut names: Vec<String> = Vec::new();
    for module in modules {
        if !names.contains(&module.name) {
            names.push(module.name);
        }
    }
    let more = if names.len() > MOST_ROWS { " …" } else { "" };
    format!("{}{more}", names.into_iter().take(MOST_ROWS).collect::<Vec<_>>().join(", "))
}

fn targets(adapter: &Adapter) -> String {
    match &adapter.targets {
        Targets::AllLinear => text(LANGUAGE, "kin.adapter.all-linear").to_owned(),
        Targets::Matching(pattern) => plain(pattern.as_str()),
        Targets::Named(names) => {
            let shown: Vec<String> = names.iter().take(MOST_NAMES).map(|name| plain(name)).collect();
            if names.len() > MOST_NAMES { format!("{} …", shown.join(", ")) } else { shown.join(", ") }
        }
    }
}

/// What a key contributes, measured on the base.
pub(super) fn contribution(kin: &Kin, base: Option<&Base>, key: &str) -> Vec<String> {
    let (Some(base), Ok(adapter)) = (base, adapter::read(Section::new(&kin.root))) else {
        return Vec::new();
    };
    let modules = adapter.modules(&base.model.inventory);
    let total = modules.iter().map(|module| module.trained).fold(0, u64::saturating_add);
    let states = |parameters: u64| size(parameters.saturating_mul(16));
    match key {
        "base_model_name_or_path" => vec![fill(LANGUAGE, "kin.use.base", &[("place", markdown::escape(&base.place))])],
        "modules_to_save" => {
            let all = u64::try_from(adapter.trainable(&base.model.inventory)).unwrap_or(u64::MAX);
            let whole = all.saturating_sub(total);
            let values = [("total", grouped(whole)), ("bytes", states(whole)), ("adapters", grouped(total))];
            if whole > 0 { vec![fill(LANGUAGE, "kin.use.saved", &values)] } else { Vec::new() }
        }
        _ if total == 0 => Vec::new(),
        "r" => {
            let many = modules.iter().map(|module| module.many).fold(0, u64::saturating_add);
            let values = [("rank", grouped(adapter.rank)), ("modules", grouped(many)), ("total", grouped(total)), ("bytes", states(total))];
            let key = if adapter.has_own_ranks() { "kin.use.ranks" } else { "kin.use.rank" };
            vec![fill(LANGUAGE, key, &values)]
        }
        "target_modules" => {
            let row = |module: &Module| {
                let values = [
                    ("module", module.name.clone()),
                    ("many", grouped(module.many)),
                    ("out", grouped(module.out)),
                    ("input", grouped(module.input)),
                    ("count", grouped(module.trained)),
                ];
                fill(LANGUAGE, "kin.use.module", &values)
            };
            let rows: Vec<String> = modules.iter().take(MOST_ROWS).map(row).collect();
            let share = format!("{:.2} %", total as f64 * 100.0 / base.model.total() as f64);
            vec![fill(LANGUAGE, "kin.use.modules", &[("rows", rows.join("\n")), ("total", grouped(total)), ("share", share)])]
        }
        _ => Vec::new(),
    }
}
