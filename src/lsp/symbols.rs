//! The story as an outline: the root cause with what followed from it, then everything else that has a mark.

use tower_lsp_server::ls_types::{DocumentSymbol, DocumentSymbolResponse, Location, Range, SymbolInformation, SymbolKind};

use super::convert::{ClientFacts, range};
use super::state::Reading;
use crate::log::vocabulary::{Role, Severity};
use crate::log::{Analysis, Finding};

/// The outline of a reading: a tree where the client shows one, else a list.
pub fn outline(reading: &Reading, facts: &ClientFacts) -> DocumentSymbolResponse {
    let entries = entries(reading, facts);
    if facts.tree {
        return DocumentSymbolResponse::Nested(entries);
    }
    let mut flat = Vec::new();
    for entry in entries {
        let children = entry.children.clone().unwrap_or_default();
        let parent = entry.name.clone();
        flat.push(flatten(reading, entry, None));
        flat.extend(children.into_iter().map(|child| flatten(reading, child, Some(parent.clone()))));
    }
    DocumentSymbolResponse::Flat(flat)
}

fn entries(reading: &Reading, facts: &ClientFacts) -> Vec<DocumentSymbol> {
    let Some(analysis) = &reading.analysis else {
        return Vec::new();
    };
    let shown = &reading.shown;
    let followed = |i: &usize| analysis.findings[*i].role == Role::Consequence;
    let root = analysis.story.root.filter(|root| shown.contains(root));
    let mut top = Vec::new();
    if let Some(root) = root {
        let mut symbol = entry(reading, facts, analysis, root);
        let mut children: Vec<usize> = shown.iter().copied().filter(followed).collect();
        children.sort_unstable();
        let children: Vec<_> = children.into_iter().map(|i| entry(reading, facts, analysis, i)).collect();
        for child in &children {
            symbol.range = cover(symbol.range, child.range);
        }
        symbol.children = (!children.is_empty()).then_some(children);
        top.push(symbol);
    }
    let rest = shown.iter().copied().filter(|i| Some(*i) != root && !(root.is_some() && followed(i)));
    top.extend(rest.map(|i| entry(reading, facts, analysis, i)));
    top
}

fn entry(reading: &Reading, facts: &ClientFacts, analysis: &Analysis, i: usize) -> DocumentSymbol {
    let finding = &analysis.findings[i];
    let group = analysis.story.groups.iter().find(|group| group.lead == i);
    let times = group.map(|group| group.members.len()).filter(|&times| times > 1);
    let range = range(&reading.rope, facts.encoding, finding.span);
    #[allow(deprecated)] // The protocol's crate has no other way to build one.
    DocumentSymbol {
        name: name(finding, times),
        detail: Some(finding.message.clone()),
        kind: kind(finding),
        tags: None,
        deprecated: None,
        range,
        selection_range: range,
        children: None,
    }
}

fn name(finding: &Finding, times: Option<usize>) -> String {
    let role = match finding.role {
        Role::RootCause => "root cause: ",
        _ => "",
    };
    let times = times.map(|times| format!(" ({times} times)")).unwrap_or_default();
    format!("{role}{}{times}", finding.title)
}

fn kind(finding: &Finding) -> SymbolKind {
    match (finding.role, finding.severity) {
        (Role::RootCause, _) => SymbolKind::EVENT,
        (_, Severity::Info) => SymbolKind::KEY,
        _ => SymbolKind::NULL,
    }
}

fn cover(a: Range, b: Range) -> Range {
    Range::new(a.start.min(b.start), a.end.max(b.end))
}

fn flatten(reading: &Reading, entry: DocumentSymbol, parent: Option<String>) -> SymbolInformation {
    #[allow(deprecated)] // The protocol's crate has no other way to build one.
    SymbolInformation {
        name: entry.name,
        kind: entry.kind,
        tags: None,
        deprecated: None,
        location: Location { uri: reading.uri.0.clone(), range: entry.selection_range },
        container_name: parent,
    }
}
