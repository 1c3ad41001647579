//! A timeout is told by who did not come: the ranks that report it only waited.

use super::sentences::named;
use super::texts::{Language, fill};
use crate::log::{Analysis, Finding};

/// The ranks that never joined the collective that a finding waited in, in a sentence without its stop.
///
/// Nothing where none is missing, or where the ranks were not in the same collective.
pub(super) fn absent(analysis: &Analysis, finding: &Finding, language: Language) -> Option<String> {
    let collective = analysis.story.waited_in()?;
    let missing = collective.missing_for(finding)?;
    let waited = finding.number("ran_for").or_else(|| finding.number("timeout"));
    let values = [
        ("missing", named(missing, true, language)),
        ("op", finding.text("op").unwrap_or_default().to_owned()),
        ("seq", collective.seq.to_string()),
        ("ranks", named(&collective.waiting(), false, language)),
        ("time", waited.map(|time| format!(" {}", time.shown())).unwrap_or_default()),
    ];
    Some(fill(language, "collective.never-joined", &values))
}
