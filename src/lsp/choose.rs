//! The commands that choose what configs are measured against: a GPU and a task, for this session.
//!
//! With an argument a command sets the choice. Without one it asks by `window/showMessageRequest`, which every editor
//! can show; an editor with a better list asks `trainwreck.gpus` for the catalogue and gives the id as the argument.
//! The answer of the client is read by the task that runs the handlers, so a handler never waits for it.

use std::sync::Arc;

use serde_json::{Value, json};
use tower_lsp_server::Client;
use tower_lsp_server::jsonrpc::{Error, Result};
use tower_lsp_server::ls_types::{MessageActionItem, MessageType};

use super::settings::Chosen;
use super::state::State;
use crate::explain::config::budget::{self, TASKS};
use crate::explain::texts::{Language, fill, text};
use crate::gpu;
use crate::gpu::cards::card;

/// Chooses a GPU.
pub const GPU: &str = "trainwreck.chooseGpu";
/// Chooses a task.
pub const TASK: &str = "trainwreck.chooseTask";
/// Lists the catalogue.
const LIST: &str = "trainwreck.gpus";
/// All of them.
pub const COMMANDS: [&str; 3] = [GPU, TASK, LIST];

/// Cards that are offered where a list of some hundred cannot be shown: one of each usual size.
const OFFERED: [&str; 7] = ["t4", "rtx-4090", "l40s", "a100-sxm4-40gb", "a100-sxm4-80gb", "h100-sxm", "h200"];
/// The argument that takes a choice back.
const NONE: &str = "none";
/// The argument for every usual task.
const ALL: &str = "all";
const LANGUAGE: Language = Language::English;

/// Runs a command.
pub fn execute(client: &Client, state: &Arc<State>, command: &str, arguments: &[Value]) -> Result<Option<Value>> {
    let argument = match arguments.first() {
        None => None,
        Some(Value::String(name)) => Some(name.trim()),
        Some(other) => return Err(Error::invalid_params(fill(LANGUAGE, "config.ask.no-name", &[("sort", sort_of(other).to_owned())]))),
    };
    match (command, argument) {
        (LIST, _) => return Ok(Some(catalogue())),
        (GPU, Some(name)) => state.choose(gpu_choice(name).map_err(Error::invalid_params)?),
        (TASK, Some(name)) => state.choose(task_choice(name).map_err(Error::invalid_params)?),
        (GPU, None) => {
            let cards = OFFERED.into_iter().filter_map(|id| gpu::catalogue().by_id(id));
            let mut offers: Vec<(String, &str)> = cards.map(|gpu| (title(gpu), gpu.id.as_str())).collect();
            offers.push((text(LANGUAGE, "config.ask.no-gpu").to_owned(), NONE));
            ask(client, state, "config.ask.gpu", offers, gpu_choice);
        }
        (TASK, None) => {
            let mut offers = vec![(text(LANGUAGE, "config.ask.all-tasks").to_owned(), ALL)];
            offers.extend(TASKS.map(|task| (budget::task_name(task).to_owned(), budget::task_id(task))));
            ask(client, state, "config.ask.task", offers, task_choice);
        }
        _ => return Err(Error::method_not_found()),
    }
    Ok(None)
}

/// What an argument is that is no text.
fn sort_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a truth value",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

fn gpu_choice(name: &str) -> std::result::Result<Chosen, String> {
    let gpu = if name.is_empty() || name == NONE { None } else { Some(card(name)?) };
    Ok(Chosen { gpu: Some(gpu), task: None })
}

fn task_choice(name: &str) -> std::result::Result<Chosen, String> {
    let task = match name {
        ALL => None,
        _ => Some(budget::task(name).ok_or_else(|| fill(LANGUAGE, "config.ask.unknown-task", &[("task", name.to_owned())]))?),
    };
    Ok(Chosen { gpu: None, task: Some(task) })
}

/// Asks the user; nothing happens when the question is put away.
fn ask(
    client: &Client,
    state: &Arc<State>,
    question: &str,
    offers: Vec<(String, &str)>,
    choice: fn(&str) -> std::result::Result<Chosen, String>,
) {
    let (client, state, question) = (client.clone(), state.clone(), text(LANGUAGE, question));
    let offers: Vec<(String, String)> = offers.into_iter().map(|(title, id)| (title, id.to_owned())).collect();
    tokio::spawn(async move {
        let actions = offers.iter().map(|(title, _)| MessageActionItem { title: title.clone(), properties: Default::default() });
        // A person may take as long as they like: no limit, and nothing waits for it.
        let answer = client.show_message_request(MessageType::INFO, question, Some(actions.collect())).await;
        let chosen = answer.ok().flatten().and_then(|action| offers.into_iter().find(|(title, _)| *title == action.title));
        if let Some(Ok(chosen)) = chosen.map(|(_, id)| choice(&id)) {
            state.choose(chosen);
        }
    });
}

/// A card as it is offered: `rtx-4090 · 23.52 GiB`.
fn title(gpu: &gpu::Gpu) -> String {
    let memory = gpu.usable_bytes().map(|(bytes, _)| format!(" · {}", crate::log::units::binary(bytes)));
    format!("{}{}", gpu.id, memory.unwrap_or_default())
}

/// The catalogue, as an editor lists it: `[{id, name, vendor, memory_bytes}]`, cards of unknown memory left out.
fn catalogue() -> Value {
    let entry = |gpu: &gpu::Gpu| {
        let (bytes, _) = gpu.usable_bytes()?;
        Some(json!({"id": gpu.id, "name": gpu.name, "vendor": gpu.vendor, "memory_bytes": bytes}))
    };
    gpu::catalogue().gpus.iter().filter_map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_offered_is_in_the_catalogue() {
        for id in OFFERED {
            assert!(gpu_choice(id).is_ok() && gpu::catalogue().by_id(id).is_some(), "{id}");
        }
    }

    #[test]
    fn choices_are_read() {
        assert_eq!(gpu_choice(NONE), Ok(Chosen { gpu: Some(None), task: None }));
        assert!(gpu_choice("abacus").is_err() && task_choice("juggling").is_err());
        assert_eq!(task_choice(ALL), Ok(Chosen { gpu: None, task: Some(None) }));
    }
}
