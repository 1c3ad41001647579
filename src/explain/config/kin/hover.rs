//! What a key of a file around a model is, and what it contributes.

use super::keys::{self, Key};
use super::{Base, Kin, deepspeed, lora};
use crate::explain::config::budget::Choice;
use crate::explain::config::hover::{KeyText, value};
use crate::explain::config::{LANGUAGE, sequence, size, terms, whole};
use crate::explain::markdown;
use crate::explain::texts::fill;
use crate::log::units::grouped;
use crate::model::config::Section;
use crate::model::documents::Document;
use crate::model::json::{Member, Node, Value};
use crate::model::plan;

/// What is said at a byte of the text.
pub(super) fn at(kin: &Kin, base: Option<&Base>, choice: &Choice, at: usize) -> Option<KeyText> {
    let (inside, member) = member_at(&kin.root, at)?;
    let key = keys::find(kin.document, inside, &member.name)?;
    let shown = value(&member.node).map(|value| format!(" = {value}")).unwrap_or_default();
    let mut parts = vec![format!("**{}**{shown} · {}", markdown::code(&member.name), keys::meaning(kin.document, key))];
    let named = match &member.node.value {
        Value::String(word) if key.values.split('|').any(|value| value == word) => {
            keys::value_meaning(word).map(|means| (word.clone(), means))
        }
        Value::Integer(number) if key.name == "stage" => keys::value_meaning(&number.to_string()).map(|means| (number.to_string(), means)),
        _ => None,
    };
    parts.extend(named.filter(|(word, means)| word != means).map(|(word, means)| format!("{}: {means}.", markdown::code(&word))));
    if !key.default.is_empty() {
        parts.push(fill(LANGUAGE, "kin.default", &[("value", markdown::code(key.default))]));
    }
    parts.extend(contribution(kin, base, choice, key, member));
    Some(KeyText { span: whole(member), markdown: parts.join("\n\n") })
}

/// The innermost member around a byte, and the name of the member around it.
fn member_at(root: &Node, at: usize) -> Option<(&str, &Member)> {
    let mut found: Option<&Member> = None;
    let mut inside = "";
    let mut node = root;
    loop {
        match &node.value {
            Value::Object(members) => {
                let Some(member) = members.iter().find(|member| whole(member).contains(&at) || whole(member).end == at) else { break };
                inside = found.map_or("", |outer| outer.name.as_str());
                found = Some(member);
                node = &member.node;
            }
            Value::Array(items) => {
                let Some(item) = items.iter().find(|item| item.span.start <= at && at <= item.span.end) else { break };
                node = item;
            }
            _ => break,
        }
    }
    // Between the keys of an object there is nothing to explain.
    let member = found?;
    let object = matches!(node.value, Value::Object(_));
    (!object || member.name_span.contains(&at)).then_some((inside, member))
}

fn contribution(kin: &Kin, base: Option<&Base>, choice: &Choice, key: &Key, member: &Member) -> Vec<String> {
    match kin.document {
        Document::AdapterConfig => lora::contribution(kin, base, key.name),
        Document::GenerationConfig => base.and_then(|base| generation(kin, base, key.name)).into_iter().collect(),
        Document::DeepSpeedConfig => base.map_or_else(Vec::new, |base| shared(kin, base, choice, key)),
        Document::WeightsIndex if key.name == "total_size" => total(member).into_iter().collect(),
        _ => Vec::new(),
    }
}

fn total(member: &Member) -> Option<String> {
    let bytes = crate::explain::config::keys::number(&member.node)?;
    Some(fill(LANGUAGE, "kin.use.total", &[("bytes", grouped(bytes)), ("size", size(bytes))]))
}

/// The cache at the length that the file allows, for all sequences that it asks for.
fn generation(kin: &Kin, base: &Base, key: &str) -> Option<String> {
    let number = |names: &str| kin.member(names).and_then(|member| crate::explain::config::keys::number(&member.node)).filter(|&n| n > 0);
    let many = number("num_beams").unwrap_or(1).max(number("num_return_sequences").unwrap_or(1));
    let length = match key {
        "max_new_tokens" | "max_length" => number(key)?,
        "num_beams" | "num_return_sequences" | "use_cache" => number("max_new_tokens").or(number("max_length"))?,
        _ => return None,
    };
    if base.model.kv_bytes_per_token(2) == 0 {
        return None;
    }
    let bytes = sequence(&base.model, length).saturating_mul(many);
    let text = if many > 1 { "kin.use.generation-many" } else { "kin.use.generation-length" };
    Some(fill(LANGUAGE, text, &[("many", grouped(many)), ("bytes", size(bytes)), ("tokens", grouped(length))]))
}

/// The plan of a run under DeepSpeed, or the term that the key decides.
fn shared(kin: &Kin, base: &Base, choice: &Choice, key: &Key) -> Vec<String> {
    let Ok(file) = crate::model::deepspeed::read(Section::new(&kin.root)) else {
        return Vec::new();
    };
    let run = deepspeed::run(&file, &base.model, choice);
    let Ok(plan) = plan::of(&base.model, &run.setup) else {
        return Vec::new();
    };
    let one = |name: &str| terms::one(&plan, name).into_iter().collect();
    match (key.inside, key.name) {
        (_, "reduce_bucket_size") => one("communication buckets"),
        (_, "stage3_max_live_parameters" | "stage3_max_reuse_distance") => one("gathered weights"),
        ("optimizer", "type") => one("optimiser states"),
        (
            _,
            "stage" | "zero_optimization" | "train_micro_batch_size_per_gpu" | "train_batch_size" | "offload_optimizer" | "offload_param",
        )
        | ("offload_optimizer" | "offload_param", "device")
        | ("bf16" | "fp16", "enabled") => {
            let what = deepspeed::what(&run.setup);
            vec![terms::table(&what, &plan), markdown::escape_all(&run.assumed)]
        }
        _ => Vec::new(),
    }
}
