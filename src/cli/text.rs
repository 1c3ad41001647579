//! The report for people: the root cause with its line, verdict, account and first remedies, then what followed from it.

use std::io::Write;
use std::ops::Range;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};

use super::{post_mortem, printable, printable_line};
use crate::explain::expected::{self, Expected};
use crate::explain::post_mortem as post_mortem_words;
use crate::explain::texts::{Language, fill, text};
use crate::explain::{self, device_oom};
use crate::log::rules::Rules;
use crate::log::story::precedes_root;
use crate::log::verdict::Verdict;
use crate::log::vocabulary::{Cause, Kind, Role, Severity};
use crate::log::{Analysis, Finding};
use crate::text::{Lines, floor_border};

/// A line is shown in a window of about this many bytes around the message.
const WINDOW: usize = 150;
/// Width to which remedies are wrapped.
const WIDTH: usize = 96;
/// Remedies shown in a report.
const MOST_REMEDIES: usize = 3;
/// Events listed under one heading.
const MOST_EVENTS: usize = 10;
/// The language of the terminal's report.
const LANGUAGE: Language = Language::English;

/// Counts over all files.
#[derive(Debug, Default)]
pub struct Summary {
    files: usize,
    with_findings: usize,
}

impl Summary {
    fn count(&mut self, files: usize, with_findings: usize) {
        self.files += files;
        self.with_findings += with_findings;
    }

    /// Writes the closing line.
    ///
    /// # Errors
    /// When the output cannot be written.
    pub fn write(&self, out: &mut dyn Write) -> std::io::Result<()> {
        match (self.files, self.with_findings) {
            (1, 1) => Ok(()),
            (1, _) => writeln!(out, "{}", text(LANGUAGE, "report.file")),
            (files, with) => {
                writeln!(out, "{}", fill(LANGUAGE, "report.files", &[("files", files.to_string()), ("with", with.to_string())]))
            }
        }
    }
}

/// Writes the report of one file; nothing for a file without findings.
///
/// # Errors
/// When the output cannot be written.
pub fn write(out: &mut dyn Write, page: &Page<'_>, all: bool, summary: &mut Summary) -> std::io::Result<()> {
    let Page { analysis, lines, rules, .. } = *page;
    summary.count(1, usize::from(!analysis.findings.is_empty()));
    if analysis.findings.is_empty() {
        return Ok(());
    }
    let name = printable_line(page.name);
    let page = Page { name: &name, ..*page };
    if all {
        root_first(analysis).try_for_each(|index| page.event(out, index, true))?;
    } else if let Some(root) = analysis.story.root {
        page.event(out, root, true)?;
        let belongs = |i: usize| matches!(analysis.findings[i].role, Role::Consequence | Role::Confirmation);
        page.list(out, "report.before", |i| belongs(i) && precedes_root(analysis, i))?;
        page.list(out, "report.followed", |i| belongs(i) && !precedes_root(analysis, i))?;
        // A repeat that leads a group ended an earlier attempt. The growth before the root cause stands in the post-mortem.
        let is_told = |f: &Finding| analysis.story.memory.is_some() && f.kind == Kind::Leak && f.cause == Cause::MemoryGrowth;
        let is_beside = |f: &Finding| matches!(f.role, Role::Context | Role::Repeat) && !is_told(f);
        page.list(out, "report.also", |i| is_beside(&analysis.findings[i]))?;
    } else {
        let is_loud = |i: usize| analysis.findings[i].severity != Severity::Info;
        let loud: Vec<usize> = page.leads(is_loud).collect();
        if loud.iter().any(|&i| analysis.findings[i].role == Role::Consequence) {
            writeln!(out, "{}\n", text(LANGUAGE, "report.none"))?;
        }
        for &index in loud.iter().take(MOST_EVENTS) {
            page.event(out, index, true)?;
        }
        page.list(out, "report.also", |i| !is_loud(i))?;
    }
    let hidden = analysis.findings.len() - analysis.story.groups.len();
    if !all && hidden > 0 {
        writeln!(out, "{}", fill(LANGUAGE, "report.hidden", &[("count", hidden.to_string())]))?;
    }
    writeln!(out)?;
    let part = post_mortem_words::Part { name: None, rank: None, analysis, lines: Some(lines) };
    let rows = post_mortem_words::rows(&[part], analysis.story.root.map(|root| (0, root)), rules);
    post_mortem::write(out, &rows)?;
    writeln!(out)
}

/// Writes the report of a run over several files: the root cause, then the post-mortem over all of them.
///
/// # Errors
/// When the output cannot be written.
pub(super) fn write_run(
    out: &mut dyn Write,
    parts: &[post_mortem_words::Part<'_>],
    heading: &str,
    root: &Root<'_>,
    rules: &Rules,
    all: bool,
    summary: &mut Summary,
) -> std::io::Result<()> {
    let found = parts.iter().filter(|part| !part.analysis.findings.is_empty()).count();
    summary.count(parts.len(), found);
    if found == 0 {
        return Ok(());
    }
    let values = [("files", parts.len().to_string()), ("name", printable_line(heading))];
    writeln!(out, "{}\n", fill(LANGUAGE, "report.run", &values))?;
    let mut order: Vec<(usize, &post_mortem_words::Part<'_>)> = parts.iter().enumerate().collect();
    order.sort_by_key(|(nth, _)| root.place.is_none_or(|place| place.0 != *nth));
    for (nth, part) in order {
        let Some(lines) = part.lines else { continue };
        let name = printable_line(part.name.unwrap_or_default());
        let expected = root.expected.filter(|_| root.place.is_some_and(|place| place.0 == nth));
        let page = Page { name: &name, analysis: part.analysis, lines, rules, expected };
        if all {
            root_first(part.analysis).try_for_each(|index| page.event(out, index, true))?;
        } else if let Some((_, root)) = root.place.filter(|root| root.0 == nth) {
            page.event(out, root, true)?;
        }
    }
    post_mortem::write(out, &post_mortem_words::rows(parts, root.place, rules))?;
    writeln!(out)
}

/// All findings: the root cause, then the others in the order of their lines.
fn root_first(analysis: &Analysis) -> impl Iterator<Item = usize> {
    let root = analysis.story.root;
    root.into_iter().chain((0..analysis.findings.len()).filter(move |&index| Some(index) != root))
}

/// The root cause of a run over several files.
pub(super) struct Root<'a> {
    /// File and finding.
    pub place: Option<(usize, usize)>,
    /// What a memory plan expects of it.
    pub expected: Option<&'a Expected>,
}

/// What the report of a file is made of.
#[derive(Clone, Copy)]
pub struct Page<'a> {
    /// Name of the file.
    pub name: &'a str,
    /// Its findings and story.
    pub analysis: &'a Analysis,
    /// Its lines.
    pub lines: &'a dyn Lines,
    /// The rules that were used.
    pub rules: &'a Rules,
    /// What a memory plan expects of the root cause.
    pub expected: Option<&'a Expected>,
}

impl Page<'_> {
    /// Leads of groups that do not hold the root cause.
    fn leads<'s>(&'s self, keep: impl Fn(usize) -> bool + 's) -> impl Iterator<Item = usize> + 's {
        let root = self.analysis.story.root;
        self.analysis
            .story
            .groups
            .iter()
            .filter(move |group| root.is_none_or(|root| !group.members.contains(&root)))
            .map(|group| group.lead)
            .filter(move |&lead| keep(lead))
    }

    fn list(&self, out: &mut dyn Write, heading: &'static str, keep: impl Fn(usize) -> bool) -> std::io::Result<()> {
        let mut leads: Vec<usize> = self.leads(keep).collect();
        // Rows of tables are for reading; they come behind the events.
        let is_table =
            |index: usize| self.analysis.findings[index].kind == Kind::Report && self.analysis.findings[index].severity == Severity::Info;
        leads.sort_by_key(|&index| is_table(index));
        if leads.is_empty() {
            return Ok(());
        }
        writeln!(out, "{}:", text(LANGUAGE, heading))?;
        for &index in leads.iter().take(MOST_EVENTS) {
            let finding = &self.analysis.findings[index];
            writeln!(out, "  {}:{}  {}", self.name, finding.span.line + 1, one_line(&explain::headline(self.analysis, index)))?;
        }
        Ok(())
    }

    fn event(&self, out: &mut dyn Write, index: usize, with_remedies: bool) -> std::io::Result<()> {
        let finding = &self.analysis.findings[index];
        let line = self.lines.line(finding.span.line);
        let mark = explain::mark(finding, &line);
        let (shown, span) = window(&line, mark.start, mark.end);
        let level = match finding.severity {
            Severity::Error => Level::ERROR,
            Severity::Warning => Level::WARNING,
            Severity::Info => Level::INFO,
        };
        // The post-mortem below compares the ranks.
        let title = one_line(&explain::headline(self.analysis, index));
        let label = explain::hint(self.analysis, index).unwrap_or_else(|| text(LANGUAGE, role_key(finding.role)).to_owned());
        let answer = printable(&explain::answer_plain(finding, self.rules));
        let remedies = self.remedies(finding, with_remedies);
        let account = account(finding);
        let plan = self.expected.filter(|_| finding.role == Role::RootCause).map(plan);
        let snippet = Snippet::source(shown.as_str())
            .path(self.name)
            .line_start(finding.span.line + 1)
            .annotation(AnnotationKind::Primary.span(span).label(label.as_str()));
        let mut group: Group<'_> =
            level.primary_title(title.as_str()).id(&*finding.rule).element(snippet).element(Level::NOTE.message(answer.as_str()));
        if let Some(account) = &account {
            group = group.element(Level::NOTE.message(account.as_str()));
        }
        if let Some(plan) = &plan {
            group = group.element(Level::NOTE.message(plan.as_str()));
        }
        if let Some(remedies) = &remedies {
            group = group.element(Level::HELP.message(remedies.as_str()));
        }
        writeln!(out, "{}\n", Renderer::styled().render(&[group]))
    }

    fn remedies(&self, finding: &Finding, wanted: bool) -> Option<String> {
        let items = explain::remedies(finding, self.rules, MOST_REMEDIES);
        if !wanted || items.is_empty() {
            return None;
        }
        let lines: Vec<String> = items.iter().enumerate().map(|(i, item)| wrapped(&format!("{}. {}", i + 1, item.trim()))).collect();
        Some(printable(&format!("{}\n{}", text(LANGUAGE, "report.do"), lines.join("\n"))))
    }
}

/// A remedy in lines of a readable width, later ones indented.
fn wrapped(remedy: &str) -> String {
    let mut out = String::new();
    let mut column = 0;
    for word in remedy.split_whitespace() {
        let width = word.chars().count();
        if column > 0 && column + 1 + width > WIDTH {
            out.push_str("\n   ");
            column = 3;
        } else if column > 0 {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += width;
    }
    out
}

fn role_key(role: Role) -> &'static str {
    match role {
        Role::RootCause => "role.root-cause",
        Role::Consequence => "role.consequence",
        Role::Repeat => "role.repeat",
        Role::Confirmation => "role.confirmation",
        Role::Context => "role.context",
    }
}

/// What a memory plan expects, in lines of a readable width.
fn plan(expected: &Expected) -> String {
    let lines: Vec<String> = expected::lines(expected, LANGUAGE).iter().map(|line| wrapped(line)).collect();
    printable(&lines.join("\n"))
}

/// The account of the card, a row a line.
fn account(finding: &Finding) -> Option<String> {
    let Some(Verdict::DeviceOom(oom)) = &finding.verdict else { return None };
    let rows = device_oom::rows(oom, LANGUAGE)?;
    let width = rows.iter().map(|row| row.label.chars().count()).max()?;
    let lines: Vec<String> = rows
        .iter()
        .map(|row| format!("{:width$}  {:>12}  {}", row.label, crate::log::units::binary(row.bytes), row.bar).trim_end().to_owned())
        .collect();
    Some(format!("{}\n{}", device_oom::head(oom, LANGUAGE), lines.join("\n")))
}

/// A part of the line around the message, without control characters, and where the message stands in it.
fn window(line: &str, start: usize, end: usize) -> (String, Range<usize>) {
    let from = if line.len() <= 2 * WINDOW { 0 } else { floor_border(line, start.saturating_sub(WINDOW / 5)) };
    let start = floor_border(line, start).max(from);
    let to = floor_border(line, (from + WINDOW + 60).max(start + 20)).max(start);
    let end = floor_border(line, end).clamp(start, to);
    let mut shown = String::new();
    let add = |shown: &mut String, part: &str| shown.push_str(&printable_line(part).replace(char::REPLACEMENT_CHARACTER, " "));
    if from > 0 {
        shown.push_str("... ");
    }
    add(&mut shown, &line[from..start]);
    let a = shown.len();
    add(&mut shown, &line[start..end]);
    let b = shown.len();
    add(&mut shown, &line[end..to]);
    if to < line.len() {
        shown.push_str(" ...");
    }
    (shown, a..b)
}

fn one_line(message: &str) -> String {
    printable_line(message)
}
