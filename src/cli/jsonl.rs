//! Findings as lines of JSON, written by `check --format jsonl` and read again by `story` ([`super::joined`]).
//!
//! A line has the fields of [`objects::finding`], and what another machine needs to tell one story over many files: the
//! operation and process group of a collective, the marks by which remedies are chosen, whether the run went on, the last step beside the root cause, and the
//! number of ranks beside a file's first finding.

use std::io::Write;

use serde_json::{Map, Value as Json, json};

use super::{json as objects, json_text};
use crate::log::Analysis;
use crate::log::marks::KEPT;
use crate::log::vocabulary::Role;
use crate::text::Lines;

/// Captures that are written and read again.
pub(super) const TEXTS: [&str; 7] = ["op", "pg", "pg_name", "exception", "frame", "alloc_conf", "node"];

/// Writes all findings of a file.
///
/// # Errors
/// When the output cannot be written.
pub fn write(out: &mut dyn Write, file: &str, analysis: &Analysis, lines: &dyn Lines) -> std::io::Result<()> {
    for (index, finding) in analysis.findings.iter().enumerate() {
        let mut object = objects::finding(file, finding, lines);
        for name in TEXTS {
            if let Some(text) = finding.text(name) {
                object[name] = text.into();
            }
        }
        let marks: Map<String, Json> = KEPT.iter().filter_map(|name| Some(((*name).to_owned(), finding.text(name)?.into()))).collect();
        if !marks.is_empty() {
            object["marks"] = marks.into();
        }
        if analysis.story.group_of(index).is_some_and(|group| group.went_on) {
            object["went_on"] = true.into();
        }
        if let (0, Some(world)) = (index, analysis.story.ranks.world) {
            object["world_size"] = world.into();
        }
        if let (true, Some((step, line))) = (finding.role == Role::RootCause, analysis.story.last_step) {
            object["last_step"] = json!({"step": step, "line": line + 1});
        }
        json_text::write_line(out, &object)?;
    }
    Ok(())
}
