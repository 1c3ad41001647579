//! What a memory plan expects of the run in a log, for the hover of its out-of-memory error.
//!
//! Settings are read from the open text, the config from it or from a fixed place beside the file; never from a path
//! that the text names.

use std::path::{Path, PathBuf};

use ropey::Rope;

use super::convert::DocumentUri;
use super::state::Reading;
use crate::explain::expected::{self, Candidate, Origin, Other};
use crate::explain::texts::Language;
use crate::files;
use crate::log::{Analysis, Finding, settings};

/// What a hover may look at beside its document.
pub struct Around<'a> {
    /// The folders that the editor has open.
    pub workspaces: &'a [PathBuf],
    /// Names and texts of the other open documents of a document's run.
    pub run: &'a dyn Fn(&DocumentUri) -> Vec<(String, Rope)>,
}

/// The section of the hover; none where no model is in question.
pub fn section(reading: &Reading, analysis: &Analysis, finding: &Finding, around: &Around<'_>) -> Option<String> {
    let candidates = || reading.uri.file().map_or_else(Vec::new, |file| beside(&file, around.workspaces));
    let others =
        || (around.run)(&reading.uri).into_iter().map(|(name, rope)| Other { name, settings: settings::read(&rope, usize::MAX) }).collect();
    let expected =
        expected::of_finding(analysis, finding, &reading.rope, expected::Around { named: None, beside: &candidates, others: &others })?;
    Some(expected::markdown(&expected, Language::English))
}

fn beside(log: &Path, workspaces: &[PathBuf]) -> Vec<Candidate> {
    let found = files::configs_beside(log, workspaces).into_iter();
    found.map(|(name, text)| Candidate { origin: Origin::Beside(name), text }).collect()
}
