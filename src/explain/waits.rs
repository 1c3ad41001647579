//! A timeout is told by who did not come: the ranks that report it only waited.

use super::ranges;
use super::texts::{Language, fill};
use crate::log::Finding;
use crate::log::collectives::Collective;

/// The ranks that never joined the collective that a finding waited in, in a sentence without its stop.
///
/// Nothing where none is missing, or where the ranks were not in the same collective.
pub(super) fn absent(finding: &Finding, collective: &Collective, language: Language) -> Option<String> {
    let missing = collective.missing_for(finding)?;
    let waited = finding.number("ran_for").or_else(|| finding.number("timeout"));
    let values = [
        ("missing", ranges(missing)),
        ("op", finding.text("op").unwrap_or_default().to_owned()),
        ("seq", collective.seq.to_string()),
        ("ranks", ranges(&collective.waiting())),
        ("time", waited.map(|time| format!(" {}", time.shown())).unwrap_or_default()),
    ];
    Some(fill(language, if missing.len() == 1 { "collective.absent" } else { "collective.absent-many" }, &values))
}
