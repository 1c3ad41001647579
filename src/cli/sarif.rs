//! `check --format sarif`: SARIF 2.1.0 (OASIS), for code-scanning viewers.
//!
//! One run with one result a finding. Columns count code points, `endColumn` stands behind the last one. The root cause is
//! a related location of what followed from it. Repeats are `unchanged` copies and left to `jsonl`; the lead of a group
//! carries their number as `occurrenceCount`.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Value as Json, json};

use super::expected;
use super::json::column;
use crate::explain;
use crate::explain::expected::Expected;
use crate::log::rules::Rules;
use crate::log::vocabulary::{Role, Severity};
use crate::log::{Analysis, Span};
use crate::text::Lines;

/// The results of one file: the lead of each group. `plan` is what a memory plan expects of its root cause.
pub fn results(file: &str, analysis: &Analysis, lines: &dyn Lines, plan: Option<&Expected>) -> Vec<Json> {
    let story = &analysis.story;
    let root = story.root.map(|root| location(file, analysis.findings[root].span, lines));
    let one = |group: &crate::log::story::Group| {
        let finding = &analysis.findings[group.lead];
        let mut out = json!({
            "ruleId": &*finding.rule,
            "level": level(finding.severity),
            "message": {"text": plain_text(&explain::diagnostic_message(analysis, group.lead))},
            "locations": [location(file, finding.span, lines)],
            "occurrenceCount": group.members.len(),
            "properties": {
                "kind": finding.kind.as_str(),
                "cause": finding.cause.as_str(),
                "role": finding.role.as_str(),
                "confidence": finding.confidence.as_str(),
                "ranks": group.ranks,
            },
        });
        if let Some(plan) = plan.filter(|_| finding.role == Role::RootCause) {
            out["message"]["text"] = plain_text(&expected::told_with(&explain::diagnostic_message(analysis, group.lead), plan)).into();
            out["properties"]["plan"] = expected::json(plan);
        }
        if let Some(root) = root.as_ref().filter(|_| matches!(finding.role, Role::Consequence | Role::Confirmation)) {
            let mut related = root.clone();
            related["message"] = json!({"text": explain::texts::text(explain::texts::Language::English, "role.root-cause")});
            out["relatedLocations"] = json!([related]);
        }
        out
    };
    // Viewers show them in this order.
    let holds_root = |group: &&crate::log::story::Group| story.root.is_some_and(|root| group.members.contains(&root));
    let (first, rest): (Vec<_>, Vec<_>) = story.groups.iter().partition(holds_root);
    first.into_iter().chain(rest).map(one).collect()
}

/// The whole document.
pub fn document(results: Vec<Json>, rules: &Rules) -> Json {
    let used: BTreeSet<&str> = results.iter().filter_map(|result| result["ruleId"].as_str()).collect();
    let described: Vec<Json> = used
        .into_iter()
        .filter_map(|id| {
            let page = rules.page(id)?;
            let help = explain::page_markdown(rules, id)?;
            Some(json!({
                "id": id,
                "shortDescription": {"text": plain_text(&page.title)},
                "help": {"text": plain_text(&explain::markdown::plain(&help)), "markdown": help},
                "defaultConfiguration": {"level": level(page.front.severity)},
            }))
        })
        .collect();
    json!({
        "$schema": "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {
                "name": "trainwreck",
                "version": env!("CARGO_PKG_VERSION"),
                "informationUri": env!("CARGO_PKG_REPOSITORY"),
                "rules": described,
            }},
            "columnKind": "unicodeCodePoints",
            "results": results,
        }],
    })
}

/// The text of a message: braces would be placeholders (3.11.5), brackets the text of a link (3.11.6).
fn plain_text(text: &str) -> String {
    let has_link = text.contains("](");
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '{' | '}' => out.push(c),
            // Not every viewer takes the escapes away again.
            '[' | ']' if has_link => out.push('\\'),
            _ => {}
        }
        out.push(c);
    }
    out
}

fn level(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Info => "note",
    }
}

fn location(file: &str, span: Span, lines: &dyn Lines) -> Json {
    json!({"physicalLocation": {
        "artifactLocation": {"uri": uri(file)},
        "region": {
            "startLine": span.line + 1,
            "startColumn": column(&lines.line(span.line), span.start),
            "endLine": span.end_line + 1,
            "endColumn": column(&lines.line(span.end_line), span.end),
        },
    }})
}

/// A path as a URI reference: relative ones stay relative, each part percent-encoded.
fn uri(file: &str) -> String {
    let absolute = Path::new(file).is_absolute();
    let mut out = String::from(match (absolute, file.starts_with('/')) {
        (true, true) => "file://",
        (true, false) => "file:///",
        _ => "",
    });
    for byte in file.replace('\\', "/").bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => out.push(char::from(byte)),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_holds_neither_links_nor_placeholders() {
        assert_eq!(plain_text("[rank0]: {a}"), "[rank0]: {{a}}");
        assert_eq!(plain_text("a [x](https://y) {0} {{"), "a \\[x\\](https://y) {{0}} {{{{");
    }
}
