//! Findings as an editor's marks.
//!
//! The root cause comes first. A group of like findings has one mark, on its lead; what only followed from the root
//! cause is information, faded where the client can, and the two point to each other. A file has at most as many marks
//! as the settings say, the last of which tells how many more there are: editors freeze, or stop drawing, beyond.

use std::path::Path;

use ropey::Rope;
use tower_lsp_server::ls_types::{
    CodeDescription, Diagnostic, DiagnosticRelatedInformation, DiagnosticSeverity, DiagnosticTag, Location, NumberOrString, Range,
};

use super::convert::{ClientFacts, Diagnostics, DocumentUri, range};
use super::settings::Settings;
use super::state::Job;
use super::state::runs::{Others, Place};
use crate::explain;
use crate::explain::texts::{Language, fill};
use crate::log::finding::Span;
use crate::log::rules::Rules;
use crate::log::story::precedes_root;
use crate::log::vocabulary::{Kind, Role, Severity};
use crate::log::{Analysis, Finding};
use crate::text::{Lines, floor_border};

/// Where the pages of the built-in rules can be read.
const PAGES: &str = concat!(env!("CARGO_PKG_REPOSITORY"), "/blob/main/src/log/rules/");
/// The name under which an editor lists the marks.
pub const SOURCE: &str = "trainwreck";
/// Bytes of a line that are underlined where no message says how many.
const MOST_MARKED: usize = 120;
/// How many lines that only followed the root cause lists.
const MOST_FOLLOWED: usize = 20;
/// How many of its like a mark lists.
const MOST_ALIKE: usize = 8;

/// The findings of a job's text that are shown, as many as the settings allow, and their marks.
///
/// `others` is what the other open documents of the run say.
pub fn build(job: &Job, analysis: &Analysis, others: &Others) -> (Vec<usize>, Diagnostics) {
    let mut shown = shown(analysis, &job.settings);
    let root = analysis.story.root.filter(|root| shown.contains(root));
    let scene = Scene { uri: &job.uri, rope: &job.rope, facts: &job.facts, rules: &job.rules, analysis, shown: &shown, root, others };
    let most = job.settings.max_findings;
    // The mark that counts the rest takes the last place; with a single place the root cause has it.
    let kept = if shown.len() > most { (most - 1).max(1) } else { shown.len() };
    let mut marks: Diagnostics = shown[..kept].iter().map(|&i| scene.mark(i)).collect();
    if kept == shown.len() && kept < most {
        marks.extend(scene.divergence());
    }
    if kept < shown.len() && kept < most {
        marks.push(scene.rest(shown[kept], shown.len() - kept, most));
    }
    shown.truncate(kept);
    (shown, marks)
}

/// The findings that get a mark, in the order of their weight: the root cause, then other root causes, then the rest,
/// each in line order.
fn shown(analysis: &Analysis, settings: &Settings) -> Vec<usize> {
    let mut folded = vec![false; analysis.findings.len()];
    for group in &analysis.story.groups {
        for &member in group.members.iter().filter(|&&member| member != group.lead) {
            folded[member] = true;
        }
    }
    let wanted = |(i, finding): &(usize, &Finding)| {
        let table = finding.kind == Kind::Report && finding.severity == Severity::Info;
        !(table || folded[*i] || settings.disabled.contains(&*finding.rule))
    };
    let mut shown: Vec<usize> = analysis.findings.iter().enumerate().filter(wanted).map(|(i, _)| i).collect();
    shown.sort_by_key(|&i| {
        let finding = &analysis.findings[i];
        (analysis.story.root != Some(i), finding.role != Role::RootCause, severity(finding, analysis.story.names_root()), i)
    });
    shown
}

/// How loud a finding is, by the part it plays. Lower is louder.
fn severity(finding: &Finding, root_known: bool) -> Loudness {
    let own = match finding.severity {
        Severity::Error => Loudness::Error,
        Severity::Warning => Loudness::Warning,
        Severity::Info => Loudness::Information,
    };
    match finding.role {
        Role::RootCause => own,
        // Where nothing better is known, what followed from it is what there is to see.
        Role::Consequence if !root_known => own.max(Loudness::Warning),
        Role::Consequence | Role::Confirmation => Loudness::Information,
        Role::Context if own < Loudness::Information => Loudness::Information,
        Role::Repeat | Role::Context => Loudness::Hint,
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Loudness {
    Error,
    Warning,
    Information,
    Hint,
}

impl Loudness {
    fn protocol(self) -> DiagnosticSeverity {
        match self {
            Loudness::Error => DiagnosticSeverity::ERROR,
            Loudness::Warning => DiagnosticSeverity::WARNING,
            Loudness::Information => DiagnosticSeverity::INFORMATION,
            Loudness::Hint => DiagnosticSeverity::HINT,
        }
    }
}

/// The rank of a finding in front of its message, where the message does not begin with it.
fn of_rank(finding: &Finding) -> String {
    let unnamed = finding.rank.filter(|_| !explain::post_mortem::names_rank(&finding.message));
    unnamed.map(|rank| format!("rank {rank}: ")).unwrap_or_default()
}

struct Scene<'a> {
    uri: &'a DocumentUri,
    rope: &'a Rope,
    facts: &'a ClientFacts,
    rules: &'a Rules,
    analysis: &'a Analysis,
    shown: &'a [usize],
    /// The root cause, when it is shown.
    root: Option<usize>,
    /// What other documents of the run say.
    others: &'a Others,
}

impl Scene<'_> {
    fn mark(&self, i: usize) -> Diagnostic {
        let finding = &self.analysis.findings[i];
        let quiet = matches!(finding.role, Role::Consequence | Role::Repeat);
        let root_known = self.analysis.story.names_root();
        Diagnostic {
            range: self.marked(finding),
            severity: Some(severity(finding, root_known).protocol()),
            code: Some(NumberOrString::String(finding.rule.to_string())),
            code_description: self.page(&finding.rule),
            source: Some(SOURCE.to_owned()),
            message: explain::diagnostic_message(self.analysis, i),
            related_information: self.related(i),
            tags: (quiet && root_known && self.facts.fades).then(|| vec![DiagnosticTag::UNNECESSARY]),
            data: None,
        }
    }

    /// The line from which the run diverged: nothing was wrong with it but its number, so that no finding marks it.
    fn divergence(&self) -> Option<Diagnostic> {
        let onset = self.analysis.story.onset.filter(|onset| self.shown.contains(&onset.finding))?;
        let (line, message) = (onset.divergence?.line, explain::divergence_message(self.analysis)?);
        let text = Lines::line(self.rope, line);
        let start = text.len() - text.trim_start().len();
        let span = Span { line, start, end_line: line, end: floor_border(&text, text.trim_end().len().min(start + MOST_MARKED)) };
        Some(Diagnostic {
            range: range(self.rope, self.facts.encoding, span),
            severity: Some(DiagnosticSeverity::INFORMATION),
            code: Some(NumberOrString::String(self.analysis.findings[onset.finding].rule.to_string())),
            source: Some(SOURCE.to_owned()),
            message,
            related_information: self.facts.related.then(|| vec![self.place(onset.finding, "followed: ")]),
            ..Diagnostic::default()
        })
    }

    /// What is underlined of a finding.
    fn marked(&self, finding: &Finding) -> Range {
        range(self.rope, self.facts.encoding, explain::mark(finding, &Lines::line(self.rope, finding.span.line)))
    }

    fn page(&self, rule: &str) -> Option<CodeDescription> {
        if !self.facts.code_links {
            return None;
        }
        // A page of the workspace is a file of its own; the name of a built-in one is its path in the source tree.
        let file = &self.rules.page(rule)?.file;
        let href = match DocumentUri::of_file(Path::new(file)) {
            Some(own) if Path::new(file).is_absolute() => own.0,
            _ => format!("{PAGES}{file}").parse().ok()?,
        };
        Some(CodeDescription { href })
    }

    /// Places that belong to a finding: for the root cause what followed from it, for what followed the root cause, for
    /// a group its other members.
    fn related(&self, i: usize) -> Option<Vec<DiagnosticRelatedInformation>> {
        if !self.facts.related {
            return None;
        }
        let mut places = Vec::new();
        match self.root {
            Some(root) if root == i => {
                let shown = self.shown.iter().copied();
                let followed = shown.filter(|&k| self.analysis.findings[k].role == Role::Consequence);
                let what = |k: usize| if precedes_root(self.analysis, k) { "before it: " } else { "followed: " };
                places.extend(followed.take(MOST_FOLLOWED).map(|k| self.place(k, what(k))));
                places.extend(self.others.events.iter().map(|event| self.in_another(event, self.relation(root, event))));
                places.extend(self.more_elsewhere(root));
            }
            Some(root) if self.analysis.findings[i].role == Role::Consequence => {
                places.push(self.place(root, "root cause: "));
            }
            None if self.analysis.findings[i].role == Role::Consequence => {
                places.extend(self.others.root.iter().map(|root| self.in_another(root, "root cause: ")))
            }
            _ => {}
        }
        if let Some(group) = self.analysis.story.groups.iter().find(|group| group.lead == i) {
            let others = group.members.iter().filter(|&&member| member != i);
            places.extend(others.take(MOST_ALIKE).map(|&member| self.place(member, "also: ")));
        }
        (!places.is_empty()).then_some(places)
    }

    fn place(&self, i: usize, what: &str) -> DiagnosticRelatedInformation {
        let finding = &self.analysis.findings[i];
        let rank = of_rank(finding);
        DiagnosticRelatedInformation {
            location: Location { uri: self.uri.0.clone(), range: self.marked(finding) },
            message: format!("{what}{rank}{}", finding.message),
        }
    }

    fn in_another(&self, place: &Place, what: &str) -> DiagnosticRelatedInformation {
        let marked = explain::mark(&place.finding, &Lines::line(&place.rope, place.finding.span.line));
        let rank = of_rank(&place.finding);
        DiagnosticRelatedInformation {
            location: Location { uri: place.uri.0.clone(), range: range(&place.rope, self.facts.encoding, marked) },
            message: format!("{what}{rank}{}", place.finding.message),
        }
    }

    /// What an event of another document is to the root cause: the same once more, or what followed.
    fn relation(&self, root: usize, event: &Place) -> &'static str {
        let root = &self.analysis.findings[root];
        if (&root.rule, root.cause) == (&event.finding.rule, event.finding.cause) { "also: " } else { "followed: " }
    }

    /// How many events of other documents are not listed.
    fn more_elsewhere(&self, root: usize) -> Option<DiagnosticRelatedInformation> {
        if self.others.more == 0 {
            return None;
        }
        let message = fill(Language::English, "diagnostic.more-elsewhere", &[("count", self.others.more.to_string())]);
        let location = Location { uri: self.uri.0.clone(), range: self.marked(&self.analysis.findings[root]) };
        Some(DiagnosticRelatedInformation { location, message })
    }

    /// The mark that stands for those left out, on the first of them.
    fn rest(&self, first: usize, count: usize, most: usize) -> Diagnostic {
        Diagnostic {
            range: self.marked(&self.analysis.findings[first]),
            severity: Some(DiagnosticSeverity::INFORMATION),
            source: Some(SOURCE.to_owned()),
            message: fill(Language::English, "diagnostic.rest", &[("count", count.to_string()), ("most", most.to_string())]),
            ..Diagnostic::default()
        }
    }
}
