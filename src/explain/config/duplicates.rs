//! Keys that stand twice in one object with two values: only the last is read.

use std::collections::HashMap;

use super::marks::Mark;
use super::{LANGUAGE, plain};
use crate::explain::texts::fill;
use crate::log::vocabulary::Severity;
use crate::model::json::{Member, Node, Value};

/// Most marks of this kind; a text that is doubled as a whole needs no more.
const MOST: usize = 20;
/// The code of the mark.
const CODE: &str = "config-duplicate-key";

/// Every key that a later one of the same name in its object overrides with another value.
///
/// `refused` says that the reader of this kind of file does not take the last one, but stops.
pub fn of(root: &Node, refused: bool) -> Vec<Mark> {
    let mut marks = Vec::new();
    let mut open = vec![root];
    while let Some(node) = open.pop() {
        match &node.value {
            Value::Object(members) => {
                marks.extend(in_object(members, refused));
                open.extend(members.iter().map(|member| &member.node));
            }
            Value::Array(items) => open.extend(items),
            _ => {}
        }
        if marks.len() >= MOST {
            break;
        }
    }
    marks.sort_by_key(|mark| mark.span.start);
    marks.truncate(MOST);
    marks
}

fn in_object(members: &[Member], refused: bool) -> Vec<Mark> {
    let mut last: HashMap<&str, &Member> = HashMap::new();
    let mut marks = Vec::new();
    for member in members.iter().rev() {
        let Some(later) = last.insert(&member.name, member) else { continue };
        // Of several the last one is what all others are held against.
        last.insert(&member.name, later);
        if !refused && same(&member.node, &later.node) {
            continue;
        }
        let key = if refused { "config.mark.duplicate-refused" } else { "config.mark.duplicate" };
        let message = fill(LANGUAGE, key, &[("key", plain(&member.name))]);
        let severity = if refused { Severity::Error } else { Severity::Warning };
        marks.push(Mark { span: member.name_span.clone(), code: CODE, severity, message });
    }
    marks
}

/// Whether two values are the same wherever they stand.
fn same(one: &Node, other: &Node) -> bool {
    match (&one.value, &other.value) {
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.name == b.name && same(&a.node, &b.node))
        }
        (a, b) => a == b,
    }
}
