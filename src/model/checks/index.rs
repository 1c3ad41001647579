//! The config beside `model.safetensors.index.json`: layers, head and bytes.

use super::{Check, Gravity, Problem, at, language, own_code};
use crate::model::Model;
use crate::model::beside::WeightsIndex;
use crate::model::config::Section;
use crate::model::inventory::{Inventory, Role};
use crate::model::quantization::Dtype;

/// Layers for multi-token prediction, which are stored behind the others and not loaded.
const EXTRA_LAYERS: &str = "num_nextn_predict_layers|num_mtp_layers|mtp_num_hidden_layers|mtp_num_layers";

/// The problems between a config and its index.
pub(super) fn checks(c: Section<'_>, model: &Model, index: &WeightsIndex) -> Vec<Check> {
    // Code that comes with the model may name and cut its tensors in ways of its own.
    if !model.is_exact() || own_code(c) || index.tensors == 0 {
        return Vec::new();
    }
    let extra = language(c).int_opt(EXTRA_LAYERS).ok().flatten().unwrap_or(0);
    let layers = layers(c, model, index, extra);
    // Where the layers differ, bytes must differ too: one finding is enough.
    let bytes = if layers.is_some() { None } else { bytes(c, model, index, extra) };
    [layers, head(c, model, index), bytes].into_iter().flatten().collect()
}

fn layers(c: Section<'_>, model: &Model, index: &WeightsIndex, extra: u64) -> Option<Check> {
    let config = model.dimensions.layers;
    // Models with several stacks of one name cannot be told apart by it.
    let one_stack = model.inventory.groups.iter().any(|group| group.prefix == "model.layers.{i}");
    let stored = index.layers.filter(|_| one_stack && config > 0)?;
    if stored == config || (config..=config.saturating_add(extra)).contains(&stored) {
        return None;
    }
    let problem = Problem::IndexLayers { config, stored, extra };
    Some(at(c, super::keys::LAYERS, problem, if stored < config { Gravity::Wrong } else { Gravity::Doubtful }))
}

fn head(c: Section<'_>, model: &Model, index: &WeightsIndex) -> Option<Check> {
    let embeds = model.embedding() > 0 && index.has_embedding;
    match (model.tied, &index.head) {
        (true, Some(tensor)) if model.head() == 0 && embeds => {
            Some(at(c, "tie_word_embeddings", Problem::TiedHeadStored { tensor: tensor.clone() }, Gravity::Note))
        }
        (false, None) if embeds && model.head() > 0 => {
            let written = c.has("tie_word_embeddings") || language(c).has("tie_word_embeddings");
            Some(at(c, "tie_word_embeddings", Problem::HeadNotStored { written }, Gravity::Doubtful))
        }
        _ => None,
    }
}

/// Bytes that differ by more than what is known to be stored besides.
fn bytes(c: Section<'_>, model: &Model, index: &WeightsIndex, extra: u64) -> Option<Check> {
    let stored = index.total_bytes.filter(|&bytes| bytes > 0)?;
    let exact = model.quantization.as_ref().is_none_or(|one| one.exact);
    let config = model.weights_bytes().filter(|&bytes| exact && bytes > 0)?;
    let scale = |value: u64, part: f64| (value as f64 * part) as u64;
    let allowance = scale(config, if model.quantization.is_some() { 0.05 } else { 0.02 });
    // A tied head may be stored besides, and so may layers for multi-token prediction with their experts.
    let element = model.stored_dtype().bytes();
    let head = if model.tied { model.embedding().saturating_mul(element) } else { 0 };
    let layer = largest_layer(&model.inventory).saturating_mul(element).saturating_add(model.embedding().saturating_mul(2 * element));
    let most = config.saturating_add(allowance).saturating_add(head).saturating_add(layer.saturating_mul(extra));
    let least = config.saturating_sub(allowance);
    if (least..=most).contains(&stored) {
        return None;
    }
    // Some writers put the number of parameters where the bytes belong.
    let near = |bytes: u64| stored.abs_diff(bytes) <= scale(bytes, 0.01);
    if near(model.total()) {
        return None;
    }
    let dtypes = [Dtype::Float32, Dtype::Bfloat16, Dtype::Float8];
    let dtype = if model.quantization.is_some() {
        None
    } else {
        dtypes.into_iter().find(|dtype| near(model.total().saturating_mul(dtype.bytes())))
    };
    let key = if model.quantization.is_some() { "quantization_config|compression_config" } else { "dtype|torch_dtype" };
    let mut check = at(c, key, Problem::IndexBytes { config, stored, dtype }, Gravity::Doubtful);
    check.index_span = Some(index.total_span.clone());
    Some(check)
}

/// Parameters of the largest layer.
fn largest_layer(inventory: &Inventory) -> u64 {
    let one = |group: &crate::model::inventory::Group| {
        let count = u128::from(group.count().max(1));
        u64::try_from(group.sum(|tensor| if tensor.role == Role::Head { 0 } else { tensor.copies }) / count).unwrap_or(u64::MAX)
    };
    inventory.groups.iter().filter(|group| group.layer).map(one).max().unwrap_or(0)
}
