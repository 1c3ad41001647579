//! Was it evaluation that failed? Told by the names of the functions in the traceback above an error.

use crate::text::Lines;

/// Lines of a traceback that are read.
const MOST_LINES: usize = 120;
/// What a function of evaluation is called first.
const EVALUATES: [&str; 9] = ["eval", "evaluate", "evaluation", "val", "valid", "validate", "validation", "predict", "prediction"];
/// What may follow; with other words it is something else (`evaluate_actions`, `predict_noise`).
const OF_A_LOOP: [&str; 8] = ["step", "loop", "epoch", "one", "model", "batch", "fn", "dataset"];
/// What may stand before it.
const LEADS: [&str; 4] = ["run", "do", "on", "inner"];
/// What a function of training is called first.
const TRAINS: [&str; 5] = ["train", "training", "backward", "fit", "optimizer"];

/// What a function's name says of the loop it belongs to: evaluation, training, or nothing.
fn evaluates(name: &str) -> Option<bool> {
    let mut words = name.rsplit('.').next().unwrap_or(name).split('_').filter(|word| !word.is_empty()).peekable();
    while words.next_if(|word| LEADS.contains(word)).is_some() {}
    let first = words.next()?;
    if TRAINS.contains(&first) {
        return Some(false);
    }
    (EVALUATES.contains(&first) && words.all(|word| OF_A_LOOP.contains(&word))).then_some(true)
}

/// The function of evaluation in which an error was raised: the innermost one of the traceback above `line`, where no
/// function of training stands below it.
pub(super) fn function_above(lines: &dyn Lines, line: usize) -> Option<String> {
    for i in (line.saturating_sub(MOST_LINES)..line).rev() {
        let text = lines.line(i);
        if text.contains("Traceback (most recent call last)") {
            return None;
        }
        let Some((_, name)) = text.rsplit_once(", in ").filter(|(place, _)| place.contains("File \"")) else { continue };
        let name = name.trim_end();
        match evaluates(name) {
            Some(true) => return Some(name.to_owned()),
            Some(false) => return None,
            None => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::StrLines;

    #[test]
    fn names_of_functions() {
        for name in
            ["evaluate", "evaluation_loop", "prediction_step", "validation_step", "_evaluation_step", "run_evaluation", "val_one_epoch"]
        {
            assert_eq!(evaluates(name), Some(true), "{name}");
        }
        for name in ["train", "training_step", "_inner_training_loop", "backward", "Trainer.fit"] {
            assert_eq!(evaluates(name), Some(false), "{name}");
        }
        for name in ["evaluate_actions", "predict_noise", "forward", "<module>", "validate_args", "main"] {
            assert_eq!(evaluates(name), None, "{name}");
        }
    }

    #[test]
    fn the_innermost_name_decides() {
        let frames = |names: [&str; 3]| {
            let frame = |name: &str| format!("[rank1]:   File \"/app/x.py\", line 3, in {name}\n[rank1]:     y = f(x)\n");
            format!("[rank1]: Traceback (most recent call last):\n{}oom\n", names.map(frame).concat())
        };
        let found = |names| function_above(&StrLines::new(&frames(names)), 7);
        assert_eq!(found(["train", "evaluate", "forward"]).as_deref(), Some("evaluate"));
        assert_eq!(found(["evaluate", "training_step", "forward"]), None);
        assert_eq!(found(["main", "<module>", "forward"]), None);
        let earlier = format!("{}Traceback (most recent call last):\noom\n", frames(["main", "evaluate", "forward"]));
        assert_eq!(function_above(&StrLines::new(&earlier), 9), None);
    }
}
