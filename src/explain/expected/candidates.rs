//! Which model the run was of: the one whose config it printed, or one that lies beside its log.

use super::{Candidate, Origin};
use crate::log::settings::{At, RunSettings, Setting};
use crate::model::config::Section;
use crate::model::documents::{Document, recognise};
use crate::model::{self, Model, json};

/// Counts that differ by more than this share are of different models.
pub(super) const SAME: f64 = 0.03;
/// Training of less than this share of the parameters is training of adapters.
pub(super) const ADAPTERS: f64 = 0.5;

/// The one model that is in question.
pub(super) fn model_of(settings: &RunSettings, candidates: &[Candidate]) -> Option<(Origin, Model)> {
    let named = candidates.iter().find(|candidate| matches!(candidate.origin, Origin::Named));
    if let Some(named) = named {
        return Some((named.origin.clone(), model::read(&named.text).ok()?));
    }
    let printed: Vec<(At, Model)> = settings.configs.iter().filter_map(|told| Some((told.line, read_model(&told.value)?))).collect();
    if let Some(((line, first), rest)) = printed.split_first() {
        // Two models in one run (a reward model, a teacher) share the card; a plan of one of them would explain nothing.
        return rest.iter().all(|(_, other)| same(first, other)).then(|| (Origin::Printed(*line), first.clone()));
    }
    if let Some((line, text)) = from_arguments(settings) {
        return Some((Origin::Arguments(line), model::read(&text).ok()?));
    }
    let mut found = candidates.iter().filter_map(|candidate| Some((candidate.origin.clone(), read_model(&candidate.text)?)));
    let first = found.next()?;
    found.all(|(_, other)| same(&first.1, &other)).then_some(first)
}

/// The model of a text that is a model's config.
fn read_model(text: &str) -> Option<Model> {
    let node = json::parse(text).ok()?;
    let root = Section::new(&node);
    matches!(recognise(root), Document::ModelConfig | Document::OriginalParams).then(|| model::from_section(root).ok())?
}

/// Whether a text is the config of a model.
pub fn is_model(text: &str) -> bool {
    read_model(text).is_some()
}

fn same(a: &Model, b: &Model) -> bool {
    (a.total(), &a.model_type, a.dimensions.layers) == (b.total(), &b.model_type, b.dimensions.layers)
}

/// A config from Megatron's arguments, for the two shapes that they describe wholly.
fn from_arguments(settings: &RunSettings) -> Option<(At, String)> {
    let get = |name: &str| settings.arguments.get(name).map(|told| told.value.as_str());
    let number = |name: &str| get(name)?.parse::<u64>().ok();
    let line = settings.arguments.get("num_layers")?.line;
    settings.arguments.get("tensor_model_parallel_size")?;
    if get("num_experts").is_some_and(|experts| experts != "None") || get("multi_latent_attention") == Some("True") {
        return None;
    }
    let (layers, hidden, heads) = (number("num_layers")?, number("hidden_size")?, number("num_attention_heads")?);
    let (vocab, wide) = (number("padded_vocab_size")?, number("ffn_hidden_size")?);
    let tied = get("untie_embeddings_and_output_weights") == Some("False");
    if get("swiglu") == Some("True") && get("normalization") == Some("RMSNorm") {
        let groups = if get("group_query_attention") == Some("True") { number("num_query_groups")? } else { heads };
        let width = number("kv_channels").unwrap_or(hidden / heads.max(1));
        let text = object(&[
            ("hidden_size", hidden),
            ("num_hidden_layers", layers),
            ("num_attention_heads", heads),
            ("num_key_value_heads", groups),
            ("head_dim", width),
            ("intermediate_size", wide),
            ("vocab_size", vocab),
        ]);
        return Some((line, format!("{{\"model_type\": \"llama\", \"tie_word_embeddings\": {tied}, {text}}}")));
    }
    (get("position_embedding_type") == Some("learned_absolute") && get("swiglu") == Some("False") && tied).then(|| {
        let positions = number("max_position_embeddings").unwrap_or(1024);
        let text = object(&[
            ("n_embd", hidden),
            ("n_layer", layers),
            ("n_head", heads),
            ("n_inner", wide),
            ("n_positions", positions),
            ("vocab_size", vocab),
        ]);
        (line, format!("{{\"model_type\": \"gpt2\", {text}}}"))
    })
}

fn object(members: &[(&str, u64)]) -> String {
    members.iter().map(|(name, value)| format!("\"{name}\": {value}")).collect::<Vec<_>>().join(", ")
}

/// Whether the counts that the log prints contradict a model: then the run's model is another one.
pub(super) fn contradicts(settings: &RunSettings, model: &Model) -> bool {
    let total = model.total() as f64;
    let trainable = settings.number(Setting::Trainable).map_or(0.0, |told| told.value as f64);
    let four_bit = settings.switch(Setting::FourBit).is_some_and(|told| told.value);
    if trainable > total * (1.0 + SAME) {
        return true;
    }
    let Some(all) = settings.number(Setting::AllParameters) else { return false };
    let base = all.value as f64 - if trainable < ADAPTERS * total { trainable } else { 0.0 };
    // 4-bit weights are counted by halves in some versions.
    let low = if four_bit { 0.45 } else { 1.0 - SAME };
    !(low * total..=total * (1.0 + SAME)).contains(&base)
}

/// Whether the model may be the one that runs: counts of the log say so, or it is one that is trained or served for
/// itself. Runs print the configs of their text encoders too.
pub(super) fn stands_alone(settings: &RunSettings, model: &Model) -> bool {
    settings.get(Setting::Trainable).or(settings.get(Setting::AllParameters)).is_some()
        || model.architecture.contains("For")
        || model.architecture.contains("LMHead")
}
