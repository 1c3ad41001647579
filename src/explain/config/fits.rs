//! Whether a config's model fits the card that an open log speaks of, task by task.

use super::{LANGUAGE, View};
use crate::explain::seen::Card;
use crate::explain::texts::{fill, text};
use crate::model::fit::{self, Verdict};
use crate::model::plan;
use crate::model::training::{Setup, Task};

/// Tasks of the lens, the least demanding first.
const TASKS: [(Task, &str); 4] = [
    (Task::Inference, "seen.inference"),
    (Task::Qlora, "expected.task.qlora"),
    (Task::Lora, "expected.task.lora"),
    (Task::Full, "expected.task.full"),
];

/// One line over the file; none for a config without a plan.
pub fn lens(view: &View, card: &Card) -> Option<String> {
    let model = view.model.as_ref().ok()?;
    let verdict = |(task, name): (Task, &str)| {
        let setup = Setup::new(task);
        let key = match fit::verdict(&plan::of(model, &setup).ok()?, &setup, card.memory) {
            Verdict::Fits => "seen.fits",
            Verdict::Tight => "seen.tight",
            Verdict::TooLarge => "seen.not",
        };
        Some(fill(LANGUAGE, key, &[("task", text(LANGUAGE, name).to_owned())]))
    };
    let tasks: Vec<String> = TASKS.into_iter().filter_map(verdict).collect();
    (!tasks.is_empty()).then(|| fill(LANGUAGE, "seen.lens", &[("card", card.name.clone()), ("tasks", tasks.join(", "))]))
}
