//! Was the log written by a serving engine? Then advice about training is for others.
//!
//! Decided once a log, by the lines at its beginning and those above the first memory error: a mark of an engine, and
//! none of a trainer. Reinforcement learning has both, and counts as training.

use std::sync::LazyLock;

use aho_corasick::AhoCorasick;

use super::finding::Finding;
use super::vocabulary::Kind;
use crate::text::{Lines, floor_border};

/// Name of the text that names the engine on a finding.
pub const SERVING: &str = "serving";
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

/// Names the engine on the memory errors of a log that a serving engine wrote.
pub fn mark(findings: &mut [Finding], lines: &dyn Lines) {
    let Some(first) = findings.iter().find(|finding| finding.kind == Kind::Oom).map(|finding| finding.span.line) else { return };
    let Some(engine) = engine(lines, first) else { return };
    for finding in findings.iter_mut().filter(|finding| finding.kind == Kind::Oom) {
        finding.texts.push((SERVING.to_owned(), engine.to_owned()));
    }
}

fn engine(lines: &dyn Lines, error: usize) -> Option<&'static str> {
    let marks = MARKS.as_ref()?;
    let near = error.saturating_sub(NEAR_LINES).max(HEAD_LINES.min(error));
    let mut found = None;
    for at in (0..HEAD_LINES.min(error)).chain(near..error + 1) {
        let line = lines.line(at);
        for hit in marks.find_iter(&line[..floor_border(&line, MOST_LINE)]) {
            match ENGINES.get(hit.pattern().as_usize()) {
                Some((_, engine)) => found = found.or(Some(*engine)),
                None => return None,
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::StrLines;

    fn of(log: &str) -> Option<&'static str> {
        let lines = StrLines::new(log);
        engine(&lines, lines.count() - 1)
    }

    #[test]
    fn engines_are_told_from_trainers() {
        assert_eq!(of("INFO [core.py:58] Initializing a V1 LLM engine (v0.8.5) with config: x\nCUDA out of memory"), Some("vLLM"));
        assert_eq!(of("  File \"/usr/lib/python3/sglang/srt/x.py\", line 3, in f\nCUDA out of memory"), Some("SGLang"));
        assert_eq!(of("Initializing an LLM engine\n{'loss': 1.0}\nCUDA out of memory"), None);
        assert_eq!(of("step 3\nCUDA out of memory"), None);
    }
}
