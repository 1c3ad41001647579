//! What a key means in this architecture, what it contributes, and what holds when it is left out.
//!
//! What a family assumes for a missing key is not kept in a table here: the config is read once more without the key.

use std::ops::Range;

use super::budget::{self, Choice};
use super::completion;
use super::contribution::contribution;
use super::keys::{self, Subject};
use super::{LANGUAGE, View, count, whole};
use crate::explain::markdown;
use crate::explain::texts::{fill, text};
use crate::log::units;
use crate::model::config::Section;
use crate::model::json::{Member, Node, Value};
use crate::model::{self, Model};

/// Characters of a value that are repeated.
const MOST_OF_VALUE: usize = 60;

/// What is said about a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyText {
    /// Byte range of the key and its value.
    pub span: Range<usize>,
    /// Markdown.
    pub markdown: String,
}

/// What is said at a byte of the text, with the plans of the tasks that were chosen.
pub fn at(view: &View, choice: &Choice, at: usize) -> Option<KeyText> {
    let (path, member) = member_at(&view.root, at)?;
    let (subject, name, spellings) = path.iter().find_map(|member| known(member))?;
    // Inside `quantization_config` every key speaks of the whole object.
    let member = path.iter().copied().find(|one| known(one).is_some()).unwrap_or(member);
    let holder = if path.len() > 1 && known(path[0]).is_none() { Some(path[0]) } else { None };
    let about_language = match holder {
        None => subject_of_file(subject) || std::ptr::eq(view.language(), &view.root),
        Some(holder) => inside(&holder.node, view.language()) || std::ptr::eq(&holder.node, view.language()),
    };
    let mut parts = vec![heading(member, name)];
    if let Value::String(value) = &member.node.value
        && matches!(subject, Subject::Dtype | Subject::Attention)
    {
        parts.extend(completion::meaning(value).map(|meaning| format!("{}: {meaning}.", markdown::code(value))));
    }
    match (&view.model, about_language) {
        (_, false) => parts.extend(holder.map(|part| fill(LANGUAGE, "config.other-part", &[("part", markdown::code(&part.name))]))),
        (Ok(model), true) => {
            parts.extend(contribution(model, subject));
            parts.extend(left_out(view, model, holder, subject, spellings));
            parts.extend(uncertain(model, subject));
            if matches!(subject, Subject::ModelType | Subject::Class) {
                parts.extend(budget::tables(model, choice));
            }
        }
        (Err(error), true) => parts.push(fill(LANGUAGE, "config.no-numbers", &[("why", markdown::escape(&error.message))])),
    }
    Some(KeyText { span: whole(member), markdown: parts.join("\n\n") })
}

fn known(member: &Member) -> Option<(Subject, &'static str, &'static str)> {
    keys::subject(&member.name)
}

/// Keys that speak of the whole model wherever its language model is described.
fn subject_of_file(subject: Subject) -> bool {
    matches!(
        subject,
        Subject::ModelType
            | Subject::Class
            | Subject::Dtype
            | Subject::Tied
            | Subject::Quantization
            | Subject::Attention
            | Subject::Free(_)
    )
}

fn inside(outer: &Node, inner: &Node) -> bool {
    outer.span.start <= inner.span.start && inner.span.end <= outer.span.end
}

/// The members around a byte, the outermost first, and the innermost of them.
fn member_at(root: &Node, at: usize) -> Option<(Vec<&Member>, &Member)> {
    let mut path = Vec::new();
    let mut node = root;
    while let Value::Object(members) = &node.value {
        let Some(member) = members.iter().find(|member| whole(member).contains(&at) || whole(member).end == at) else {
            break;
        };
        path.push(member);
        node = &member.node;
    }
    // Beside the keys of an object there is nothing to explain.
    let last = path.last().copied()?;
    let speaks = !matches!(last.node.value, Value::Object(_)) || last.name_span.contains(&at) || known(last).is_some();
    speaks.then_some((path, last))
}

fn heading(member: &Member, name: &str) -> String {
    let value = value(&member.node).map(|value| format!(" = {value}")).unwrap_or_default();
    let what = text(LANGUAGE, &format!("config.key.{name}"));
    format!("**{}**{value} · {what}", markdown::code(&member.name))
}

/// A value in a word.
pub(super) fn value(node: &Node) -> Option<String> {
    Some(match &node.value {
        Value::Null => "null".to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::Integer(number) => u64::try_from(*number).map_or_else(|_| number.to_string(), units::grouped),
        Value::Float(number) => number.to_string(),
        Value::String(text) => markdown::code(&text.chars().take(MOST_OF_VALUE).collect::<String>()),
        Value::Array(_) | Value::Object(_) => return None,
    })
}

/// What the family assumes without the key, if that can be told for certain.
fn left_out(view: &View, model: &Model, holder: Option<&Member>, subject: Subject, spellings: &str) -> Option<String> {
    let read = read_of(subject)?;
    if !model.is_exact() {
        return None;
    }
    let mut root = view.root.clone();
    let object = match holder {
        None => &mut root,
        Some(_) => find_mut(&mut root, &view.language().span)?,
    };
    let Value::Object(members) = &mut object.value else {
        return None;
    };
    // Two spellings in one file may be two things to the family.
    let before = members.len();
    members.retain(|member| !spellings.split('|').any(|name| name == member.name));
    if members.len() + 1 != before {
        return None;
    }
    let without = model::from_section(Section::new(&root));
    let family = markdown::code(&model.model_type);
    let Ok(without) = without.as_ref() else {
        return Some(fill(LANGUAGE, "config.needed", &[("family", family)]));
    };
    let assumed = read(without)?;
    let key = match subject {
        // No matter of the family.
        Subject::Dtype => "config.default-dtype",
        _ if without.total() == model.total() => "config.default",
        _ => "config.default-total",
    };
    Some(fill(LANGUAGE, key, &[("family", family), ("value", assumed), ("total", count(without.total()))]))
}

/// The object at a byte range.
fn find_mut<'a>(root: &'a mut Node, span: &Range<usize>) -> Option<&'a mut Node> {
    let mut node = root;
    while node.span != *span {
        let Value::Object(members) = &mut node.value else {
            return None;
        };
        node = &mut members.iter_mut().find(|member| member.node.span.start <= span.start && span.end <= member.node.span.end)?.node;
    }
    Some(node)
}

/// How a model answers what a key says; none for keys that it keeps no answer to.
fn read_of(subject: Subject) -> Option<fn(&Model) -> Option<String>> {
    fn size(number: u64) -> Option<String> {
        (number > 0).then(|| units::grouped(number))
    }
    Some(match subject {
        Subject::Hidden => |model| size(model.dimensions.hidden),
        Subject::Layers => |model| size(model.dimensions.layers),
        Subject::Heads => |model| size(model.dimensions.heads),
        Subject::KvHeads => |model| size(model.dimensions.kv_heads),
        Subject::HeadDim => |model| size(model.dimensions.head_dim),
        Subject::Intermediate => |model| size(model.dimensions.intermediate),
        Subject::Vocab => |model| size(model.dimensions.vocab),
        Subject::Positions => |model| size(model.dimensions.positions),
        Subject::Experts => |model| size(model.dimensions.experts),
        Subject::ActiveExperts => |model| size(model.dimensions.active_experts),
        Subject::ExpertWidth => |model| size(model.dimensions.expert_width),
        Subject::Tied => |model| Some(model.tied.to_string()),
        Subject::Dtype => |model| Some(markdown::code(model.stored_dtype().name())),
        _ => return None,
    })
}

/// Why the numbers are estimates.
fn uncertain(model: &Model, subject: Subject) -> Option<String> {
    if matches!(subject, Subject::Free(_) | Subject::Attention) {
        return None;
    }
    let why = markdown::escape(model.inexact.as_deref()?);
    Some(fill(LANGUAGE, "config.uncertain", &[("why", why)]))
}
