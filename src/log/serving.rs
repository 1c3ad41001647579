//! Was the log written by a serving engine, or by a trainer? Then the other one's advice is for others.
//!
//! Decided once a log, by the lines at its beginning and those above the first memory error: a mark of an engine, and
//! none of a trainer. Reinforcement learning has both, and counts as training.

use std::sync::LazyLock;

use aho_corasick::AhoCorasick;

use super::finding::Finding;
use super::progress::Steps;
use super::vocabulary::Kind;
use crate::text::{Lines, floor_border};

/// Name of the text that names the engine on a finding.
pub const SERVING: &str = "serving";
/// Name of the text that says that a trainer wrote the log.
pub const TRAINER: &str = "trainer";
/// Lines looked at: from the beginning, and above the error.
const HEAD_LINES: usize = 300;
const NEAR_LINES: usize = 150;
/// At most this much of a line is looked at.
const MOST_LINE: usize = 4096;

/// What only an engine prints: in its own messages, or in the frames of its code.
const ENGINES: &[(&str, &str)] = &[
    ("LLM engine (v", "vLLM"),
    ("Initializing an LLM engine", "vLLM"),
    ("/vllm/", "vLLM"),
    ("vllm.entrypoints", "vLLM"),
    ("vLLM API server", "vLLM"),
    ("EngineCore", "vLLM"),
    ("ServerArgs(", "SGLang"),
    ("/sglang/", "SGLang"),
    ("sglang.srt", "SGLang"),
    ("text_generation_launcher", "TGI"),
    ("text-generation-launcher", "TGI"),
    ("text_generation_server", "TGI"),
    ("/lmdeploy/", "LMDeploy"),
    ("[TRT-LLM]", "TensorRT-LLM"),
    ("/tensorrt_llm/", "TensorRT-LLM"),
];
/// What only a training run prints.
const TRAINERS: &[&str] = &[
    "Running training",
    "trainable param",
    "loss.backward",
    ".backward(",
    "optimizer.step",
    "trainer.train(",
    "training_step",
    "grad_norm",
    "'loss':",
    "actor/",
    "/trl/",
    "/verl/",
    "RayPPOTrainer",
    "deepspeed",
    "DeepSpeed",
    "fsdp",
    "FSDP",
    "megatron",
];

static MARKS: LazyLock<Option<AhoCorasick>> =
    LazyLock::new(|| AhoCorasick::new(ENGINES.iter().map(|(mark, _)| *mark).chain(TRAINERS.iter().copied())).ok());

/// Who wrote a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Writer {
    Engine(&'static str),
    Trainer,
}

/// Says on the memory errors of a log who wrote it: the name of the serving engine, or that it was a trainer.
pub(super) fn mark(findings: &mut [Finding], last_step: Option<usize>, steps: &Steps<'_>) {
    let Some(first) = findings.iter().find(|finding| finding.kind == Kind::Oom).map(|finding| finding.span.line) else { return };
    // Only training reports a loss at its steps.
    let has_loss = last_step.and_then(|line| steps.at(line)).is_some_and(|now| now.loss.is_some());
    let writer = if has_loss { Some(Writer::Trainer) } else { writer(steps.lines, first) };
    let (name, text) = match writer {
        Some(Writer::Engine(engine)) => (SERVING, engine),
        Some(Writer::Trainer) => (TRAINER, "loss"),
        None => return,
    };
    for finding in findings.iter_mut().filter(|finding| finding.kind == Kind::Oom) {
        finding.texts.push((name.to_owned(), text.to_owned()));
    }
}

fn writer(lines: &dyn Lines, error: usize) -> Option<Writer> {
    let marks = MARKS.as_ref()?;
    let near = error.saturating_sub(NEAR_LINES).max(HEAD_LINES.min(error));
    let mut found = None;
    for at in (0..HEAD_LINES.min(error)).chain(near..error + 1) {
        let line = lines.line(at);
        for hit in marks.find_iter(&line[..floor_border(&line, MOST_LINE)]) {
            match ENGINES.get(hit.pattern().as_usize()) {
                Some((_, engine)) => found = found.or(Some(Writer::Engine(engine))),
                None => return Some(Writer::Trainer),
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::StrLines;

    fn of(log: &str) -> Option<Writer> {
        let lines = StrLines::new(log);
        writer(&lines, lines.count() - 1)
    }

    #[test]
    fn engines_are_told_from_trainers() {
        assert_eq!(
            of("INFO [core.py:58] Initializing a V1 LLM engine (v0.8.5) with config: x\nCUDA out of memory"),
            Some(Writer::Engine("vLLM"))
        );
        assert_eq!(of("  File \"/usr/lib/python3/sglang/srt/x.py\", line 3, in f\nCUDA out of memory"), Some(Writer::Engine("SGLang")));
        assert_eq!(of("Initializing an LLM engine\n{'loss': 1.0}\nCUDA out of memory"), Some(Writer::Trainer));
        assert_eq!(of("step 3\nCUDA out of memory"), None);
    }
}
