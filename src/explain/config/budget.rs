//! Whether the usual tasks fit a card: one line a task, for the lens over a config.
//!
//! The numbers are those of `trainwreck fit` with its defaults. A line that is nearer to the card than the plan's own
//! range says "probably".

use super::{LANGUAGE, View, plain, size, terms};
use crate::explain::texts::{fill, text};
use crate::gpu::cards::{Card, classes};
use crate::log::units::grouped;
use crate::model::fit::{self, Fit, Verdict};
use crate::model::plan::{self, Plan};
use crate::model::training::{Setup, Task};
use crate::model::{Model, remedies};

/// What a user chose to look at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// The card; none for the usual classes. A name that stands for no card says why.
    pub gpu: Option<Result<Card, String>>,
    /// The task; none for the usual ones.
    pub task: Option<Task>,
    /// GPUs of a run, where a file does not tell; none for a usual machine.
    pub gpus: Option<u64>,
    /// Tokens of a sequence; none for those of the task.
    pub seq: Option<u64>,
}

/// Every task, in the order of its cost; each has a line when none is chosen.
pub const TASKS: [Task; 4] = [Task::Inference, Task::Qlora, Task::Lora, Task::Full];

impl Choice {
    /// The chosen card, when its name stands for one.
    pub fn card(&self) -> Option<&Card> {
        self.gpu.as_ref().and_then(|gpu| gpu.as_ref().ok())
    }
}

/// The name of a task in settings and commands.
pub fn task_id(task: Task) -> &'static str {
    match task {
        Task::Inference => "inference",
        Task::Qlora => "qlora",
        Task::Lora => "lora",
        Task::Full => "full",
    }
}

/// The task of this name.
pub fn task(id: &str) -> Option<Task> {
    TASKS.into_iter().find(|task| task_id(*task) == id)
}

/// The name of a task for people.
pub fn task_name(task: Task) -> &'static str {
    text(LANGUAGE, &format!("config.task.{}", task_id(task)))
}

/// The lines of a config; none where nothing can be planned.
pub fn lines(view: &View, choice: &Choice) -> Vec<String> {
    let Ok(model) = &view.model else {
        return Vec::new();
    };
    if let Some(Err(why)) = &choice.gpu {
        return vec![fill(LANGUAGE, "config.task.no-gpu", &[("why", plain(why))])];
    }
    match choice.task {
        Some(task) => chosen(model, choice, task),
        None => TASKS.into_iter().filter_map(|task| usual_line(model, &setup(model, task, choice), choice.card())).collect(),
    }
}

/// The settings of a task: of the length that was chosen, else the usual one, but no longer than the texts that the
/// model takes.
pub fn setup(model: &Model, task: Task, choice: &Choice) -> Setup {
    let mut setup = Setup::new(task).within(model);
    if let Some(seq) = choice.seq {
        setup.seq = seq;
    }
    setup
}

/// A chosen task: its line, and how far it could go or what would make it fit.
fn chosen(model: &Model, choice: &Choice, task: Task) -> Vec<String> {
    let (setup, card) = (setup(model, task, choice), choice.card());
    let Some(first) = usual_line(model, &setup, card) else {
        let why = plan::of(model, &setup).err().map(|error| plain(&error.to_string())).unwrap_or_default();
        let why = why.strip_prefix("--task full: ").unwrap_or(&why).to_owned();
        return vec![fill(LANGUAGE, "config.task.none", &[("task", task_name(task).to_owned()), ("why", why)])];
    };
    let more = card.and_then(|card| further(model, &setup, card));
    std::iter::once(first).chain(more).collect()
}

fn further(model: &Model, setup: &Setup, card: &Card) -> Option<String> {
    let fit = fit::of(model, setup, card.memory).ok()?;
    if fit.verdict != Verdict::TooLarge {
        return Some(reach(setup, &fit));
    }
    let remedy = remedies::of(model, setup, card.memory).into_iter().find(|remedy| remedy.fits);
    Some(match remedy {
        Some(remedy) => fill(LANGUAGE, "config.task.remedy", &[("change", remedy.change), ("total", size(remedy.total))]),
        None => text(LANGUAGE, "config.task.no-remedy").to_owned(),
    })
}

fn reach(setup: &Setup, fit: &Fit) -> String {
    let values = |many: u64| [("many", grouped(many)), ("tokens", grouped(setup.seq)), ("longest", grouped(fit.max_context))];
    match fit.max_concurrency {
        Some(many) => fill(LANGUAGE, "config.task.reach-inference", &values(many)),
        None => fill(LANGUAGE, "config.task.reach", &values(fit.max_batch)),
    }
}

/// The line of a task; none where the plan cannot be made.
pub(super) fn usual_line(model: &Model, setup: &Setup, card: Option<&Card>) -> Option<String> {
    line(called(setup), model, setup, card)
}

/// The plans in full, each term with its formula: of the chosen task, else of inference and of full training.
pub(super) fn tables(model: &Model, choice: &Choice) -> Vec<String> {
    let tasks = choice.task.map_or_else(|| vec![Task::Inference, Task::Full], |task| vec![task]);
    let table = |task: Task| {
        let setup = setup(model, task, choice);
        Some(terms::table(&called(&setup), &plan::of(model, &setup).ok()?))
    };
    tasks.into_iter().filter_map(table).collect()
}

/// A task and its length in words.
fn called(setup: &Setup) -> String {
    fill(LANGUAGE, "config.task.what", &[("task", task_name(setup.task).to_owned()), ("tokens", grouped(setup.seq))])
}

/// The line of a run that is called so; none where the plan cannot be made.
pub(super) fn line(what: String, model: &Model, setup: &Setup, card: Option<&Card>) -> Option<String> {
    let plan = plan::of(model, setup).ok()?;
    let about = super::about(model.is_exact());
    let Some(card) = card else {
        return Some(classes_line(what, about, &plan));
    };
    let (key, bytes) = judged(&plan, card.memory);
    let many = if card.count > 1 { "config.task.one-of" } else { "config.task.on" };
    let on = fill(LANGUAGE, many, &[("gpu", plain(&card.id)), ("count", grouped(card.count))]);
    let values = [
        ("what", what),
        ("about", about),
        ("total", size(plan.total)),
        ("memory", size(card.memory)),
        ("on", on),
        ("verdict", fill(LANGUAGE, key, &[("bytes", size(bytes))])),
    ];
    Some(fill(LANGUAGE, "config.task.line", &values))
}

/// The words for a plan on so much memory, and the bytes that are left or lacking.
fn judged(plan: &Plan, memory: u64) -> (&'static str, u64) {
    if plan.total > memory {
        let key = if plan.total_low > memory { "config.task.lacks" } else { "config.task.lacks-probably" };
        return (key, plan.total - memory);
    }
    let key = if plan.total_high <= memory { "config.task.fits" } else { "config.task.fits-probably" };
    (key, memory - plan.total)
}

/// Without a chosen card: the smallest usual class that is large enough.
fn classes_line(what: String, about: String, plan: &Plan) -> String {
    let fitting = classes().into_iter().find(|card| plan.total <= card.memory);
    let values = |class: String| [("what", what.clone()), ("about", about.clone()), ("total", size(plan.total)), ("class", class)];
    match fitting {
        Some(card) => fill(LANGUAGE, "config.task.from-class", &values(card.id.replace(" class", ""))),
        None => fill(LANGUAGE, "config.task.above-classes", &values(String::new())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::config::{Outcome, read};
    use crate::gpu::cards::card;

    const LLAMA: &str = r#"{"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 128256, "hidden_size": 4096,
        "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
        "max_position_embeddings": 131072, "torch_dtype": "bfloat16"}"#;

    fn said(gpu: Option<&str>, task: Option<Task>) -> Vec<String> {
        let Outcome::Config(view) = read(LLAMA) else { panic!("a config") };
        lines(&view, &Choice { gpu: gpu.map(card), task, ..Choice::default() })
    }

    #[test]
    fn one_line_a_task() {
        let on = said(Some("rtx-4090"), None);
        assert_eq!(on.len(), 4);
        assert!(on[0].starts_with("inference, 8,192 tokens · ") && on[0].contains(" on rtx-4090 · fits, "), "{on:?}");
        assert!(on[1].starts_with("QLoRA, ") && on[1].contains(" · fits, "), "{on:?}");
        assert!(on[3].contains("does not fit, ") && on[3].ends_with(" short"), "{on:?}");
        let classes = said(None, None);
        assert!(classes[0].ends_with("fits 24 GB cards and larger"), "{classes:?}");
        assert!(said(Some("abacus"), None)[0].contains("abacus"));
    }

    #[test]
    fn a_chosen_task_says_how_far_it_goes() {
        let fits = said(Some("rtx-4090"), Some(Task::Inference));
        assert!(fits[1].contains("sequences at once") && fits[1].contains("longest"), "{fits:?}");
        let lacks = said(Some("rtx-4090"), Some(Task::Full));
        assert!(lacks[1].starts_with("would fit with "), "{lacks:?}");
    }

    #[test]
    fn names_of_tasks_are_read_back() {
        for one in TASKS {
            assert_eq!(task(task_id(one)), Some(one));
            assert_ne!(task_name(one), "?");
        }
        assert_eq!(task("all"), None);
    }
}
