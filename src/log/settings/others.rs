//! Settings that another file of the same run printed: rank 0 prints them, and any rank may fail.

use super::{RunSettings, Told};

/// Where something was said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct At {
    /// The line, 0-based.
    pub line: usize,
    /// Which of the other files of the run it stands in; `None` for the file itself.
    pub file: Option<u16>,
}

impl At {
    /// A line of the file itself.
    pub fn here(line: usize) -> At {
        At { line, file: None }
    }
}

/// Adds what other files of the run say and the file itself does not, the first ones first.
pub fn add_others(own: &mut RunSettings, others: &[RunSettings]) {
    for (nth, other) in others.iter().enumerate() {
        let Ok(file) = u16::try_from(nth) else { return };
        let at = |at: At| At { file: Some(file), ..at };
        if own.configs.is_empty() {
            own.configs = other.configs.iter().map(|told| moved(told, &at)).collect();
        }
        own.deepspeed = own.deepspeed.take().or_else(|| other.deepspeed.as_ref().map(|told| moved(told, &at)));
        own.engine = own.engine.take().or_else(|| other.engine.as_ref().map(|told| moved(told, &at)));
        own.training = own.training.or(other.training.map(at));
        for (name, told) in &other.arguments {
            own.arguments.entry(name.clone()).or_insert_with(|| moved(told, &at));
        }
        for (setting, told) in &other.values {
            own.values.entry(*setting).or_insert_with(|| moved(told, &at));
        }
    }
}

fn moved<T: Clone>(told: &Told<T>, at: &dyn Fn(At) -> At) -> Told<T> {
    Told { value: told.value.clone(), line: at(told.line) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::settings::{Setting, read};
    use crate::text::StrLines;

    #[test]
    fn what_a_file_says_itself_counts() {
        let read = |log: &str| read(&StrLines::new(log), usize::MAX);
        let mut own = read("per_device_train_batch_size=2,\n");
        let first = read("step 1\nper_device_train_batch_size=8,\ngradient_accumulation_steps=4,\nLlamaConfig {\n\"a\": 1\n}\n");
        add_others(&mut own, &[first, read("gradient_accumulation_steps=16,\nbf16=True,\n")]);
        let number = |setting: Setting| own.number(setting).map(|told| (told.value, told.line));
        assert_eq!(number(Setting::Batch), Some((2, At::here(0))));
        assert_eq!(number(Setting::Accumulation), Some((4, At { line: 2, file: Some(0) })));
        assert_eq!(own.switch(Setting::Bf16).map(|told| told.line), Some(At { line: 1, file: Some(1) }));
        assert_eq!(own.configs[0].line, At { line: 3, file: Some(0) });
    }
}
