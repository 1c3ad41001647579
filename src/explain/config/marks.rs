//! What is wrong in a config: values that cannot be read, and sizes that do not go together.
//!
//! Silent where the architecture is not known, and where a family has rules of its own for the sizes: a config that
//! works must have no mark.

use std::ops::Range;

use super::keys::{self, find, number};
use super::{LANGUAGE, View, duplicates, pages, plain, size};
use crate::explain::markdown;
use crate::explain::texts::fill;
use crate::log::units::grouped;
use crate::log::vocabulary::Severity;
use crate::model::Model;
use crate::model::architectures::decoder::keys as spellings;
use crate::model::architectures::{TEXT, WHOLE};
use crate::model::checks::{Around, Check, Gravity, Problem, checks};
use crate::model::config::ConfigError;
use crate::model::documents::Document;
use crate::model::inventory::Role;
use crate::model::json::{Member, Node, Value};
use crate::model::kv_cache::{self, Cache};
use crate::model::quantization::Dtype;

/// Something wrong at a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Byte range to underline.
    pub span: Range<usize>,
    /// Short id.
    pub code: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// What, why, and what to do.
    pub message: String,
}

impl Mark {
    /// The mark for a hover: its message, then what its page says.
    pub fn markdown(&self) -> String {
        let advice = pages::page(self.code).map(|page| page.advice()).unwrap_or_default();
        format!("**{}**\n\n{advice}", markdown::escape(&self.message))
    }
}

/// Names of dtypes that PyTorch has beside those that weights are counted in.
const OTHER_DTYPES: &str = "|auto|uint8|int16|short|int32|int|int64|long|bool|uint16|uint32|uint64|int4|uint4|complex64|complex128|cfloat|cdouble|\
    float8_e4m3fnuz|float8_e5m2fnuz|float8_e8m0fnu|float4_e2m1fn_x2|qint8|quint8|qint32|";

/// The marks of a config beside what is known of its folder and of the chosen GPU.
pub fn of(view: &View, around: &Around<'_>) -> Vec<Mark> {
    let mut marks: Vec<Mark> = dtype(view).into_iter().collect();
    marks.extend(duplicates::of(&view.root, false));
    match &view.model {
        Err(error) => marks.extend(unreadable(view, error)),
        Ok(model) if model.is_exact() => {
            marks.extend(width_of_heads(view, model));
            marks.extend(grouped_heads(view, model));
            marks.extend(experts(view));
            marks.extend(checks(&view.root, model, around).into_iter().map(checked));
        }
        Ok(_) => {}
    }
    marks
}

/// A check in words.
pub(super) fn checked(check: Check) -> Mark {
    let severity = match (&check.problem, check.gravity) {
        // Nothing is wrong with the file: the GPU is a choice.
        (Problem::WeightsExceedGpu { .. }, _) | (_, Gravity::Doubtful) => Severity::Warning,
        (_, Gravity::Note) => Severity::Info,
        (_, Gravity::Wrong) => Severity::Error,
    };
    let (code, values) = match check.problem.clone() {
        Problem::RopeTypeUnknown { name } => ("config-rope-scaling", vec![("name", plain(&name))]),
        Problem::RopeTypeMissing => ("config-rope-scaling", Vec::new()),
        Problem::RopeFieldMissing { rope, field } => ("config-rope-scaling", vec![("rope", rope.to_owned()), ("field", field.to_owned())]),
        Problem::RopeFactor { rope } => ("config-rope-scaling", vec![("rope", rope.to_owned())]),
        Problem::RopeContext { rope, factor, original, context } => {
            let product = grouped((factor * original as f64).clamp(0.0, 1e18) as u64);
            let values = [("original", grouped(original)), ("context", grouped(context)), ("product", product)];
            let named = [("rope", rope.to_owned()), ("factor", factor.to_string())];
            ("config-rope-scaling", values.into_iter().chain(named).collect())
        }
        Problem::RopeOriginal { rope, original, context } => {
            ("config-rope-scaling", vec![("rope", rope.to_owned()), ("original", grouped(original)), ("context", grouped(context))])
        }
        Problem::RopeFrequencies { low, high } => ("config-rope-scaling", vec![("low", low.to_string()), ("high", high.to_string())]),
        Problem::RopeFactorList { field, entries, wanted } => {
            ("config-rope-scaling", vec![("field", field.to_owned()), ("entries", grouped(entries)), ("wanted", grouped(wanted))])
        }
        Problem::LayerTypes { listed, layers } => ("config-sizes", vec![("listed", grouped(listed)), ("layers", grouped(layers))]),
        Problem::TiedHeadStored { tensor } => ("config-tied-head", vec![("tensor", plain(&tensor))]),
        Problem::HeadNotStored { .. } => ("config-tied-head", Vec::new()),
        Problem::IndexLayers { config, stored, .. } => {
            ("config-index-mismatch", vec![("config", grouped(config)), ("stored", grouped(stored))])
        }
        Problem::IndexBytes { config, stored, dtype } => {
            let agrees = dtype.map(|one| format!(" {}", fill(LANGUAGE, "config.check.index-dtype", &[("dtype", one.name().to_owned())])));
            let values = vec![("config", size(config)), ("stored", size(stored)), ("agrees", agrees.unwrap_or_default())];
            ("config-index-mismatch", values)
        }
        Problem::WeightsExceedGpu { weights, memory } => {
            ("config-gpu-too-small", vec![("weights", size(weights)), ("memory", size(memory))])
        }
    };
    let message = fill(LANGUAGE, &format!("config.check.{}", check.problem.code()), &values);
    Mark { span: check.span, code, severity, message }
}

/// The family, when its rules are known.
fn family(view: &View) -> Option<&str> {
    let Value::String(family) = &view.root.get("model_type")?.value else {
        return None;
    };
    let known = |names: &[&str]| names.contains(&family.as_str());
    let listed = TEXT.iter().map(|(name, _)| *name).chain(WHOLE.iter().map(|(name, _)| *name));
    (view.document == Document::ModelConfig && known(&listed.collect::<Vec<_>>())).then_some(family)
}

/// A value that cannot be read, or a key that is missing.
fn unreadable(view: &View, error: &ConfigError) -> Option<Mark> {
    let family = plain(family(view)?);
    let member = member_of(&view.root, error);
    let missing = member.is_none_or(|member| member.name != error.key) && !error.key.is_empty();
    let what = [("what", plain(&error.message)), ("family", family), ("key", plain(&error.key))];
    if missing || error.key.is_empty() {
        // Where the family is named is the place that a missing key is seen from.
        let named = find(&view.root, "model_type")?;
        let key = if missing { "config.mark.missing" } else { "config.mark.sizes" };
        let code = if missing { "config-missing-key" } else { "config-sizes" };
        return Some(Mark { span: named.node.span.clone(), code, severity: Severity::Warning, message: fill(LANGUAGE, key, &what) });
    }
    let span = error.span.clone();
    Some(Mark { span, code: "config-value", severity: Severity::Warning, message: fill(LANGUAGE, "config.mark.value", &what) })
}

/// The innermost member whose value holds the place of an error.
fn member_of<'a>(root: &'a Node, error: &ConfigError) -> Option<&'a Member> {
    let span = &error.span;
    let mut found = None;
    let mut node = root;
    while let Value::Object(members) = &node.value {
        let holds = |member: &&Member| member.node.span.start <= span.start && span.end <= member.node.span.end;
        let Some(member) = members.iter().find(holds) else {
            break;
        };
        found = Some(member);
        node = &member.node;
    }
    // The object itself is what lacks a key, not what has it, unless it stands where a number belongs.
    found.filter(|member| member.name == error.key || !(matches!(member.node.value, Value::Object(_)) && member.node.span == *span))
}

/// A dtype that does not exist.
fn dtype(view: &View) -> Option<Mark> {
    let named = |member: &&Member| !matches!(member.node.value, Value::Null | Value::Object(_));
    let member = find(&view.root, keys::DTYPE).filter(named).or_else(|| find(view.language(), keys::DTYPE).filter(named))?;
    let name = match &member.node.value {
        Value::String(name) => name.clone(),
        Value::Integer(number) => number.to_string(),
        _ => member.node.kind().to_owned(),
    };
    let bare = name.strip_prefix("torch.").unwrap_or(&name);
    let is_name = matches!(member.node.value, Value::String(_));
    if is_name && (Dtype::parse(&name).is_some() || OTHER_DTYPES.contains(&format!("|{bare}|"))) {
        return None;
    }
    family(view)?;
    let message = fill(LANGUAGE, "config.mark.dtype", &[("name", plain(&name))]);
    Some(Mark { span: member.node.span.clone(), code: "config-dtype", severity: Severity::Error, message })
}

/// The width of a head is the quotient of two sizes that do not divide.
fn width_of_heads(view: &View, model: &Model) -> Option<Mark> {
    let (family, language, d) = (family(view)?, view.language(), &model.dimensions);
    let member = find(language, spellings::HEADS)?;
    let heads = number(&member.node).filter(|&heads| heads > 0 && heads == d.heads)?;
    let hidden = number(&find(language, spellings::HIDDEN)?.node).filter(|&hidden| hidden == d.hidden)?;
    let own_width = [spellings::HEAD_DIM, "d_kv|qk_nope_head_dim|qk_rope_head_dim|v_head_dim|attention_hidden_size"];
    let given = own_width.iter().filter_map(|names| find(language, names)).any(|member| member.node.value != Value::Null);
    // Where the family has a width of its own, the sizes need not divide.
    if given || hidden.is_multiple_of(heads) || d.head_dim != hidden / heads || !attends(model) {
        return None;
    }
    let message = fill(
        LANGUAGE,
        "config.mark.heads",
        &[
            ("hidden", grouped(hidden)),
            ("heads", grouped(heads)),
            ("width", grouped(hidden / heads)),
            ("product", grouped(hidden / heads * heads)),
            ("family", plain(family)),
        ],
    );
    Some(Mark { span: member.node.span.clone(), code: "config-head-width", severity: Severity::Error, message })
}

/// Query heads cannot be shared out evenly.
fn grouped_heads(view: &View, model: &Model) -> Option<Mark> {
    family(view)?;
    let language = view.language();
    let member = find(language, spellings::KV_HEADS)?;
    let kv_heads = number(&member.node)?;
    let heads = number(&find(language, spellings::HEADS)?.node).filter(|&heads| heads > 0 && heads == model.dimensions.heads)?;
    if kv_heads == 0 {
        // A family that does not look at the key still has keys and values.
        let shared_by_none = model.dimensions.kv_heads == 0 && model.role(Role::Attention) > 0;
        return shared_by_none.then(|| Mark {
            span: member.node.span.clone(),
            code: "config-kv-heads",
            severity: Severity::Error,
            message: fill(LANGUAGE, "config.mark.no-kv-heads", &[("heads", grouped(heads))]),
        });
    }
    // Some families do not look at the key.
    let used = model.inventory.groups.iter().flat_map(|group| &group.caches).any(|cache| match *cache {
        Cache::Full { heads, .. } | Cache::Sliding { heads, .. } | Cache::Chunked { heads, .. } => heads == kv_heads,
        _ => false,
    });
    if !used || heads.is_multiple_of(kv_heads) {
        return None;
    }
    let message = fill(LANGUAGE, "config.mark.kv-heads", &[("heads", grouped(heads)), ("kv", grouped(kv_heads))]);
    Some(Mark { span: member.node.span.clone(), code: "config-kv-heads", severity: Severity::Error, message })
}

/// More experts are asked for than a layer has.
fn experts(view: &View) -> Option<Mark> {
    family(view)?;
    let language = view.language();
    let member = find(language, keys::ACTIVE_EXPERTS)?;
    let active = number(&member.node)?;
    let experts = number(&find(language, keys::EXPERTS)?.node).filter(|&experts| experts > 0)?;
    if active <= experts {
        return None;
    }
    let message = fill(LANGUAGE, "config.mark.experts", &[("active", grouped(active)), ("experts", grouped(experts))]);
    Some(Mark { span: member.node.span.clone(), code: "config-experts", severity: Severity::Error, message })
}

/// Does any layer keep keys and values?
fn attends(model: &Model) -> bool {
    kv_cache::kinds(&model.inventory).iter().any(|sum| matches!(sum.kind, "full" | "sliding" | "chunked"))
}
