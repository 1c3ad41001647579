//! `model.safetensors.index.json`: what is stored, against what the config describes.

use super::{Base, Said};
use crate::explain::config::marks::checked;
use crate::explain::config::{LANGUAGE, plain, size};
use crate::explain::texts::fill;
use crate::log::units::grouped;
use crate::model::beside::weights_index;
use crate::model::checks::{Around, Problem, checks};
use crate::model::config::Section;

pub(super) fn say(root: Section<'_>, base: Option<&Base>) -> Said {
    let Ok(index) = weights_index(root) else {
        return Said::default();
    };
    let stored = index.total_bytes.map_or_else(String::new, |bytes| format!(" · {}", size(bytes)));
    let mut said = Said {
        lens: vec![fill(LANGUAGE, "kin.index", &[("tensors", grouped(index.tensors as u64)), ("stored", stored)])],
        ..Said::default()
    };
    let Some(base) = base else {
        return said;
    };
    let ours = |problem: &Problem| {
        matches!(
            problem,
            Problem::IndexBytes { .. } | Problem::IndexLayers { .. } | Problem::TiedHeadStored { .. } | Problem::HeadNotStored { .. }
        )
    };
    let found = checks(&base.root, &base.model, &Around { index: Some(&index), gpu_bytes: None });
    // A place in the config is none in this file.
    let here = |check: crate::model::checks::Check| {
        let mut mark = checked(check);
        mark.span = index.total_span.clone();
        mark
    };
    said.marks = found.into_iter().filter(|check| ours(&check.problem)).map(here).collect();
    if let Some(bytes) = base.model.weights_bytes().filter(|_| said.marks.is_empty() && base.model.is_exact()) {
        if index.total_bytes.is_some_and(|stored| stored.abs_diff(bytes) <= bytes / 100) {
            said.lens.push(fill(LANGUAGE, "kin.index.agrees", &[("place", plain(&base.place)), ("bytes", size(bytes))]));
        }
    }
    said
}
