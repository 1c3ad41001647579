//! `check --format markdown`: the post-mortem for an issue tracker.

use std::io::Write;

use super::printable_line;
use crate::explain::expected::{self, Expected};
use crate::explain::post_mortem::{self, Part, Row};
use crate::explain::texts::{Language, fill, text};
use crate::log::rules::Rules;
use crate::text::floor_border;

/// Lines of the root cause that are quoted.
const MOST_QUOTED: usize = 6;
/// Bytes of a quoted line.
const MOST_BYTES: usize = 600;

/// Writes the post-mortem of a run; a sentence when nothing was found.
///
/// # Errors
/// When the output cannot be written.
pub fn write(
    out: &mut dyn Write,
    heading: &str,
    parts: &[Part<'_>],
    root: Option<(usize, usize)>,
    expected: Option<&Expected>,
    rules: &Rules,
) -> std::io::Result<()> {
    let language = Language::English;
    let name = crate::explain::markdown::escape(heading);
    writeln!(out, "### {}: {name}\n", text(language, "post.title"))?;
    let mut rows = post_mortem::rows(parts, root, rules);
    if let Some(expected) = expected {
        let plan = Row { label: text(language, "post.plan"), items: expected::lines(expected, language) };
        // What to do first stands last.
        rows.insert(rows.len().saturating_sub(1), plan);
    }
    if rows.is_empty() {
        return writeln!(out, "{}\n", text(language, "post.nothing"));
    }
    let excerpt = root.map(|(part, finding)| quoted(&parts[part], finding)).unwrap_or_default();
    writeln!(out, "{}", post_mortem::markdown(&rows, &excerpt))?;
    writeln!(out, "{}\n", fill(language, "post.made-by", &[("version", env!("CARGO_PKG_VERSION").to_owned())]))
}

/// The lines of a finding with their numbers.
fn quoted(part: &Part<'_>, finding: usize) -> Vec<(usize, String)> {
    let Some(lines) = part.lines else { return Vec::new() };
    let span = part.analysis.findings[finding].span;
    (span.line..=span.end_line.min(span.line + MOST_QUOTED - 1))
        .map(|i| {
            let line = lines.line(i);
            let end = floor_border(&line, MOST_BYTES);
            let cut = if end < line.len() { " …" } else { "" };
            (i + 1, format!("{}{cut}", printable_line(&line[..end])))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::analyze;
    use crate::text::StrLines;

    #[test]
    fn what_a_log_says_stays_text() {
        let text = "```\n[rank0]: RuntimeError: CUDA error: out of memory ``` <img src=x> [a](b) | c\n";
        let rules = Rules::builtin();
        let analysis = analyze(text, &rules);
        let lines = StrLines::new(text);
        let parts = [Part { name: None, rank: None, analysis: &analysis, lines: Some(&lines) }];
        let mut out = Vec::new();
        write(&mut out, "<b>|run.log", &parts, analysis.story.root.map(|root| (0, root)), None, &rules).unwrap();
        let out = String::from_utf8(out).unwrap();
        assert!(out.contains("\n````text\n2: [rank0]: RuntimeError"), "{out}");
        assert!(!out.split("````").next().unwrap().contains("<b>"), "{out}");
    }
}
