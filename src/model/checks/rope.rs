//! Rotary scaling: its rule, the fields that the rule needs, and whether it fits the context.
//!
//! The rules and their fields are those of transformers. Older files write `rope_scaling` with
//! `type`, newer ones `rope_parameters` with `rope_type`, which may hold one object a kind of layer.

use super::{Check, Gravity, Problem, at, language, own_code};
use crate::model::Model;
use crate::model::architectures::decoder::keys;
use crate::model::config::Section;
use crate::model::json::{Node, Value};

/// Where files write the scaling.
const SCALING: &str = "rope_parameters|rope_scaling";
/// The original context, in the scaling or beside it.
const ORIGINAL: &str = "original_max_position_embeddings";

/// The problems of a config's rotary scaling.
pub(super) fn checks(c: Section<'_>, model: &Model) -> Vec<Check> {
    // What an architecture that is not known does with its keys is not known either.
    if !model.is_exact() || own_code(c) {
        return Vec::new();
    }
    let text = language(c);
    let scaling = text.section(SCALING);
    let nested: Vec<Section<'_>> = scaling
        .members()
        .filter(|(name, node)| name.ends_with("_attention") && matches!(node.value, Value::Object(_)))
        .map(|(_, node)| Section::new(node))
        .collect();
    let objects = if nested.is_empty() { vec![scaling] } else { nested };
    objects.into_iter().filter(|one| !one.is_empty()).flat_map(|one| of(c, text, one, model)).collect()
}

/// The rule by the name of a file.
fn rule(name: &str) -> Option<&'static str> {
    Some(match name {
        "default" => "default",
        "mrope" => "mrope",
        "linear" => "linear",
        "dynamic" => "dynamic",
        "yarn" => "yarn",
        // The first name of the rule.
        "longrope" | "su" => "longrope",
        "llama3" => "llama3",
        "proportional" => "proportional",
        "axial" => "axial",
        _ => return None,
    })
}

/// Fields without which a rule cannot be built.
fn needed(rope: &str) -> &'static [&'static str] {
    match rope {
        "linear" | "dynamic" | "yarn" => &["factor"],
        "longrope" => &["short_factor", "long_factor"],
        "llama3" => &["factor", ORIGINAL, "low_freq_factor", "high_freq_factor"],
        _ => &[],
    }
}

fn of(c: Section<'_>, text: Section<'_>, scaling: Section<'_>, model: &Model) -> Vec<Check> {
    let inside = |names: &str, problem: Problem, gravity: Gravity| match scaling.raw(names) {
        Some((key, node)) => Check { problem, gravity, key: key.to_owned(), span: node.span.clone(), index_span: None },
        None => at(c, SCALING, problem, gravity),
    };
    let Some(name) = scaling.str("rope_type|type") else {
        // Newer files may leave the rule out where nothing is scaled.
        let scaled = scaling.has("factor|short_factor|long_factor|low_freq_factor");
        return if scaled { vec![at(c, SCALING, Problem::RopeTypeMissing, Gravity::Wrong)] } else { Vec::new() };
    };
    let Some(rope) = rule(name) else {
        return vec![inside("rope_type|type", Problem::RopeTypeUnknown { name: name.to_owned() }, Gravity::Wrong)];
    };
    let missing: Vec<Check> = needed(rope)
        .iter()
        .filter(|field| !(scaling.node(field).is_some() || **field == ORIGINAL && text.node(ORIGINAL).is_some()))
        .map(|field| inside("rope_type|type", Problem::RopeFieldMissing { rope, field }, Gravity::Wrong))
        .collect();
    if !missing.is_empty() {
        return missing;
    }
    let mut found = Vec::new();
    let factor = scaling.node("factor").map(|(_, node)| number(node));
    if factor.is_some_and(|factor| factor.is_none_or(|factor| factor < 1.0)) {
        found.push(inside("factor", Problem::RopeFactor { rope }, Gravity::Doubtful));
    }
    let original = scaling.int_opt(ORIGINAL).ok().flatten().or_else(|| text.int_opt(ORIGINAL).ok().flatten());
    let context = text.int_opt(keys::POSITIONS).ok().flatten();
    if let (Some(original), Some(context)) = (original, context) {
        found.extend(
            context_problem(rope, factor.flatten(), original, context).map(|(problem, gravity)| inside(ORIGINAL, problem, gravity)),
        );
    }
    if let (Some(low), Some(high)) = (number_of(scaling, "low_freq_factor"), number_of(scaling, "high_freq_factor"))
        && rope == "llama3"
        && low >= high
    {
        found.push(inside("low_freq_factor", Problem::RopeFrequencies { low, high }, Gravity::Doubtful));
    }
    if rope == "longrope" {
        found.extend(
            lists(text, scaling, model)
                .into_iter()
                .map(|(field, entries, wanted)| inside(field, Problem::RopeFactorList { field, entries, wanted }, Gravity::Doubtful)),
        );
    }
    found
}

/// Whether context, original context and factor go together.
///
/// Only YaRN ties all three; a file that names the original context as its context is the usual way
/// to switch YaRN on. Llama's rule needs an original context below the context.
fn context_problem(rope: &'static str, factor: Option<f64>, original: u64, context: u64) -> Option<(Problem, Gravity)> {
    match (rope, factor) {
        ("yarn", Some(factor)) if factor >= 1.0 && original > 0 => {
            let near = |value: f64| (value - context as f64).abs() <= 0.01 * context as f64;
            let product = factor * original as f64;
            (!near(product) && !near(original as f64))
                .then_some((Problem::RopeContext { rope, factor, original, context }, Gravity::Doubtful))
        }
        ("llama3", _) if original >= context => Some((Problem::RopeOriginal { rope, original, context }, Gravity::Doubtful)),
        ("longrope", _) if original > context => Some((Problem::RopeOriginal { rope, original, context }, Gravity::Doubtful)),
        _ => None,
    }
}

/// Lists of factors of a wrong length: field, entries, half the rotary width.
fn lists(text: Section<'_>, scaling: Section<'_>, model: &Model) -> Vec<(&'static str, u64, u64)> {
    let partial = text.float("partial_rotary_factor", scaling.float("partial_rotary_factor", 1.0).unwrap_or(1.0)).unwrap_or(1.0);
    let rotary = text.int_opt("qk_rope_head_dim").ok().flatten().unwrap_or((model.dimensions.head_dim as f64 * partial) as u64);
    let wanted = rotary / 2;
    let length = |field: &'static str| match &scaling.node(field)?.1.value {
        Value::Array(items) => Some((field, items.len() as u64, wanted)),
        _ => None,
    };
    ["short_factor", "long_factor"].into_iter().filter_map(length).filter(|(_, entries, wanted)| entries != wanted).collect()
}

fn number_of(c: Section<'_>, name: &str) -> Option<f64> {
    number(c.node(name)?.1)
}

fn number(node: &Node) -> Option<f64> {
    match node.value {
        Value::Integer(number) => Some(number as f64),
        Value::Float(number) => Some(number),
        _ => None,
    }
}
