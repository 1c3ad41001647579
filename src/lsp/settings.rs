//! What a user can set, and how editors send it.
//!
//! Settings come as `initializationOptions`, as the answer to `workspace/configuration` (section `trainwreck`) and with
//! `workspace/didChangeConfiguration`; in each as an object, with or without a `trainwreck` member around it. A value
//! of the wrong type is passed over: a typing mistake must not switch the server off.

use std::collections::HashSet;

use serde_json::Value;

use crate::explain::config::{Choice, budget};
use crate::gpu::cards::{self, Card};
use crate::model::training::Task;

/// The section of the settings that is ours.
pub const SECTION: &str = "trainwreck";

/// The most GPUs and tokens that can be set.
const MOST_GPUS: u64 = 1_000_000;
const MOST_TOKENS: u64 = 100_000_000;

/// The settings in force.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// How many diagnostics a file may have.
    pub max_findings: usize,
    /// Ids of rules that stay silent.
    pub disabled: HashSet<String>,
    /// Whether root-cause lines carry their verdict.
    pub inlay_hints: bool,
    /// The card and the task that configs are measured against.
    pub choice: Choice,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { max_findings: 200, disabled: HashSet::new(), inlay_hints: true, choice: Choice::default() }
    }
}

impl Settings {
    /// These settings with those of a client's object put over them.
    pub fn with(&self, value: &Value) -> Settings {
        let value = value.get(SECTION).unwrap_or(value);
        let mut settings = self.clone();
        if let Some(number) = value.get("maxFindings").and_then(Value::as_u64) {
            settings.max_findings = usize::try_from(number).unwrap_or(usize::MAX).max(1);
        }
        if let Some(ids) = value.pointer("/rules/disabled").and_then(Value::as_array) {
            settings.disabled = ids.iter().filter_map(Value::as_str).map(String::from).collect();
        }
        if let Some(on) = value.pointer("/inlayHints/enabled").and_then(Value::as_bool) {
            settings.inlay_hints = on;
        }
        if let Some(name) = value.get("gpu").and_then(Value::as_str) {
            settings.choice.gpu = (!name.trim().is_empty()).then(|| cards::card(name.trim()));
        }
        if let Some(name) = value.get("task").and_then(Value::as_str) {
            settings.choice.task = budget::task(name.trim());
        }
        // Nought stands for the default, as an editor without an empty number sends it.
        if let Some(gpus) = value.get("gpus").and_then(Value::as_u64) {
            settings.choice.gpus = (1..=MOST_GPUS).contains(&gpus).then_some(gpus);
        }
        if let Some(seq) = value.get("sequenceLength").and_then(Value::as_u64) {
            settings.choice.seq = (1..=MOST_TOKENS).contains(&seq).then_some(seq);
        }
        settings
    }
}

/// A choice of this session; the outer `None` leaves a setting as it is.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Chosen {
    /// The card, or none.
    pub gpu: Option<Option<Card>>,
    /// The task, or all.
    pub task: Option<Option<Task>>,
}

impl Chosen {
    /// The settings with this choice over them.
    pub fn over(&self, set: &Settings) -> Settings {
        let mut settings = set.clone();
        if let Some(gpu) = &self.gpu {
            settings.choice.gpu = gpu.clone().map(Ok);
        }
        if let Some(task) = self.task {
            settings.choice.task = task;
        }
        settings
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn both_forms_are_read() {
        let object = json!({"maxFindings": 7, "rules": {"disabled": ["cuda-oom"]}, "inlayHints": {"enabled": false},
            "gpu": "rtx-4090", "task": "lora", "gpus": 4, "sequenceLength": 4096});
        let choice = Choice { gpu: Some(cards::card("rtx-4090")), task: budget::task("lora"), gpus: Some(4), seq: Some(4096) };
        let expected = Settings { max_findings: 7, disabled: HashSet::from(["cuda-oom".to_string()]), inlay_hints: false, choice };
        assert_eq!(Settings::default().with(&object), expected);
        assert_eq!(Settings::default().with(&json!({ "trainwreck": object })), expected);
    }

    #[test]
    fn mistakes_change_nothing() {
        let wrong = json!({"maxFindings": "many", "rules": [1], "inlayHints": {"enabled": 1}, "gpu": 4090, "task": [], "gpus": 0, "sequenceLength": "long"});
        for value in [wrong, json!(null), json!([]), json!(3)] {
            assert_eq!(Settings::default().with(&value), Settings::default());
        }
        assert_eq!(Settings::default().with(&json!({"maxFindings": 0})).max_findings, 1);
    }
}
