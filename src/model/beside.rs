//! Files beside a config that say how it is stored or trained: the index of the weights and
//! the state of a trainer.

use super::config::{Result, Section};
use super::json::{Span, Value};

/// What `model.safetensors.index.json` says.
#[derive(Debug, Clone, PartialEq)]
pub struct WeightsIndex {
    /// Bytes of all tensors.
    pub total_bytes: Option<u64>,
    /// Place of that number.
    pub total_span: Span,
    /// Number of tensors.
    pub tensors: usize,
    /// Name of the stored head; a tied model usually stores none.
    pub head: Option<String>,
    /// Whether an input embedding of words is stored.
    pub has_embedding: bool,
    /// Layers of the language model: one more than the largest index; none where no name has one.
    pub layers: Option<u64>,
}

/// Names of the module before `weight` by which classes store the head.
const HEADS: &[&str] = &["lm_head", "embed_out", "output_layer"];
/// Words in the name of a tensor that does not belong to the language model's stack.
const OTHER_STACKS: &[&str] = &["visual", "vision", "vit", "audio", "encoder", "mtp", "image", "tower", "speech", "talker", "token2wav"];

/// Reads an index of weights.
pub fn weights_index(c: Section<'_>) -> Result<WeightsIndex> {
    let metadata = c.section("metadata");
    let total_span = metadata.node("total_size").map_or_else(|| c.span(), |(_, node)| node.span.clone());
    let map = c.section("weight_map");
    let names = || map.members().map(|(name, _)| name);
    let module_is = |name: &str, modules: &[&str]| {
        let mut words = name.rsplit('.');
        words.next();
        words.next().is_some_and(|module| modules.contains(&module))
    };
    let head = names().find(|name| module_is(name, HEADS) || *name == "output.weight" || *name == "head.weight");
    let embeddings = ["embed_tokens", "wte", "tok_embeddings", "embed_in", "word_embeddings", "embeddings", "embedding"];
    Ok(WeightsIndex {
        total_bytes: bytes(metadata, "total_size"),
        total_span,
        tensors: map.members().count(),
        head: head.map(str::to_owned),
        has_embedding: names().any(|name| module_is(name, &embeddings)),
        layers: names().filter_map(layer_of).max().map(|last| last.saturating_add(1)),
    })
}

/// Index of the layer of the language model to which a tensor belongs: the number behind `layers`, `h` or `blocks`.
fn layer_of(name: &str) -> Option<u64> {
    let words: Vec<&str> = name.split('.').collect();
    if words.iter().any(|word| OTHER_STACKS.iter().any(|other| word.contains(other))) {
        return None;
    }
    let at = words.iter().position(|word| matches!(*word, "layers" | "h" | "blocks"))?;
    words.get(at + 1)?.parse().ok()
}

/// A number of bytes, which may exceed what is sensible for a size.
fn bytes(c: Section<'_>, name: &str) -> Option<u64> {
    match c.node(name)?.1.value {
        Value::Integer(number) => u64::try_from(number).ok(),
        Value::Float(number) if (0.0..1e18).contains(&number) => Some(number as u64),
        _ => None,
    }
}

/// One entry of a trainer's history.
#[derive(Debug, Clone, PartialEq)]
pub struct LogEntry {
    /// Step of the optimiser.
    pub step: Option<u64>,
    /// Training loss; NaN and infinity as written.
    pub loss: Option<f64>,
    /// Norm of the gradients.
    pub grad_norm: Option<f64>,
    /// Place of the entry.
    pub span: Span,
}

/// The history of `trainer_state.json`.
pub fn trainer_history(c: Section<'_>) -> Vec<LogEntry> {
    let number = |entry: Section<'_>, name: &str| match entry.node(name).map(|(_, node)| &node.value) {
        Some(Value::Integer(number)) => Some(*number as f64),
        Some(Value::Float(number)) => Some(*number),
        // Newer trainers write what JSON has no number for as a string.
        Some(Value::String(text)) => text.parse().ok(),
        _ => None,
    };
    let entry = |entry: Section<'_>| LogEntry {
        step: entry.int_opt("step").ok().flatten(),
        loss: number(entry, "loss"),
        grad_norm: number(entry, "grad_norm"),
        span: entry.span(),
    };
    c.sections("log_history").into_iter().map(entry).filter(|one| one.loss.is_some() || one.grad_norm.is_some()).collect()
}

/// The first entry whose loss or gradient norm is no finite number, by its index.
pub fn first_non_finite(history: &[LogEntry]) -> Option<usize> {
    let broken = |value: Option<f64>| value.is_some_and(|value| !value.is_finite());
    history.iter().position(|entry| broken(entry.loss) || broken(entry.grad_norm))
}

/// The first entry from which the loss stays above three times the best before it, by its index.
///
/// Ten entries must lie before it, so that the fall at the start of a run does not count, and the
/// loss must stay up to the end or for five entries: a single spike is no divergence.
pub fn divergence(history: &[LogEntry]) -> Option<usize> {
    let losses: Vec<(usize, f64)> =
        history.iter().enumerate().filter_map(|(index, entry)| Some((index, entry.loss.filter(|loss| loss.is_finite())?))).collect();
    let mut best = f64::INFINITY;
    for (place, (index, loss)) in losses.iter().enumerate() {
        if place >= 10 && best > 0.0 && *loss > 3.0 * best {
            let after: Vec<f64> = losses.iter().skip(place).take(5).map(|(_, loss)| *loss).collect();
            if after.len() >= 3 && after.iter().all(|loss| *loss > 3.0 * best) {
                return Some(*index);
            }
        }
        best = best.min(*loss);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::json::parse;
    use super::*;

    #[test]
    fn index_of_weights() {
        let node =
            parse(r#"{"metadata": {"total_size": 16060522496}, "weight_map": {"lm_head.weight": "a", "model.norm.weight": "a"}}"#).unwrap();
        let index = weights_index(Section::new(&node)).unwrap();
        assert_eq!((index.total_bytes, index.tensors, index.head.as_deref()), (Some(16_060_522_496), 2, Some("lm_head.weight")));
    }

    #[test]
    fn history_with_nan_and_divergence() {
        let entries: Vec<String> = (0..20)
            .map(|step| format!("{{\"step\": {step}, \"loss\": {}}}", if step < 14 { 2.0 - f64::from(step) * 0.1 } else { 9.0 }))
            .collect();
        let text = format!("{{\"global_step\": 20, \"log_history\": [{}, {{\"step\": 20, \"loss\": NaN}}]}}", entries.join(","));
        let history = trainer_history(Section::new(&parse(&text).unwrap()));
        assert_eq!(divergence(&history), Some(14));
        assert_eq!(first_non_finite(&history), Some(20));
    }
}
