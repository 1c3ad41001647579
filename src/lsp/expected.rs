//! What a memory plan expects of the run in a log, for the hover of its out-of-memory error.
//!
//! Settings are read from the open text, the config from it or from a fixed place beside the file; never from a path
//! that the text names.

use std::path::{Path, PathBuf};

use super::state::Reading;
use crate::explain::expected::{self, Candidate, Origin};
use crate::explain::texts::Language;
use crate::files;
use crate::log::{Analysis, Finding};

/// The section of the hover; none where no model is in question.
pub fn section(reading: &Reading, analysis: &Analysis, finding: &Finding, workspaces: &[PathBuf]) -> Option<String> {
    let candidates = || reading.uri.file().map_or_else(Vec::new, |file| beside(&file, workspaces));
    let expected = expected::of_finding(analysis, finding, &reading.rope, None, &candidates)?;
    Some(expected::markdown(&expected, Language::English))
}

fn beside(log: &Path, workspaces: &[PathBuf]) -> Vec<Candidate> {
    let found = files::configs_beside(log, workspaces).into_iter();
    found.map(|(name, text)| Candidate { origin: Origin::Beside(name), text }).collect()
}
