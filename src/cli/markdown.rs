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
/// Events that are listed where nothing failed.
const MOST_SEEN: usize = 10;
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
        return write_seen(out, parts);
    }
    let excerpt = root.map(|(part, finding)| quoted(&parts[part], finding)).unwrap_or_default();
    writeln!(out, "{}", post_mortem::markdown(&rows, &excerpt))?;
    writeln!(out, "{}\n", fill(language, "post.made-by", &[("version", env!("CARGO_PKG_VERSION").to_owned())]))
}

/// A run without a failure: what was seen in it, or that nothing was.
fn write_seen(out: &mut dyn Write, parts: &[Part<'_>]) -> std::io::Result<()> {
    let language = Language::English;
    let seen: Vec<String> = parts.iter().flat_map(post_mortem::seen).collect();
    if seen.is_empty() {
        return writeln!(out, "{}\n", text(language, "post.nothing"));
    }
    writeln!(out, "{} {}:\n", text(language, "post.no-failure"), text(language, "report.also"))?;
    for item in seen.iter().take(MOST_SEEN) {
        writeln!(out, "- {}", crate::explain::markdown::quoted(&printable_line(item)))?;
    }
    writeln!(out)
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
    fn a_run_without_a_failure_lists_what_was_seen() {
        let told = |text: &str| {
            let rules = Rules::builtin();
            let analysis = analyze(text, &rules);
            let lines = StrLines::new(text);
            let parts = [Part { name: None, rank: None, analysis: &analysis, lines: Some(&lines) }];
            let mut out = Vec::new();
            write(&mut out, "run.log", &parts, analysis.story.root.map(|root| (0, root)), None, &rules).unwrap();
            String::from_utf8(out).unwrap()
        };
        let steps: String = (1..9).map(|i| format!("step {i} loss 2.1\n")).collect();
        let out = told(&format!("step 0 loss 2.2\nRuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB\n{steps}"));
        assert!(out.contains("No failure was found. Also seen:\n\n- Out of GPU memory"), "{out}");
        assert!(told(&steps).contains("Nothing known was found"));
    }

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
