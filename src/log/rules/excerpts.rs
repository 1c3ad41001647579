//! The excerpts of a page, run as tests: what a page says it flags and what it leaves alone.

use std::sync::Arc;

use super::{Page, PageProblem, Rules};
use crate::log::units;
use crate::log::vocabulary::{Cause, Role, Severity};
use crate::log::{Analysis, Finding, analyze};

/// A page needs at least so many *Not flagged* excerpts.
const LEAST_NOT_FLAGGED: usize = 2;

/// A fenced excerpt, its expectation lines taken out.
#[derive(Clone, Debug, Default)]
pub struct Excerpt {
    /// The log text.
    pub text: String,
    /// 1-based line in the page of the excerpt's first line.
    pub page_line: usize,
    /// What must be found.
    pub expected: Vec<Expectation>,
}

/// One expectation line.
#[derive(Clone, Debug, Default)]
pub struct Expectation {
    /// 0-based line of the excerpt it speaks of.
    pub line: usize,
    /// 1-based line in the page.
    pub page_line: usize,
    /// Columns of the range in characters, where carets give one.
    pub columns: Option<(usize, usize)>,
    /// What is said of the finding.
    pub words: Vec<String>,
}

/// The excerpts under a heading.
pub fn excerpts(page: &Page, heading: &str) -> Vec<Excerpt> {
    let section = page.section(heading);
    let offset = section.as_ptr() as usize - page.body.as_ptr() as usize;
    let mut page_line = page.body_line + page.body[..offset].matches('\n').count();
    let mut out: Vec<Excerpt> = Vec::new();
    let mut open: Option<Excerpt> = None;
    for line in section.lines() {
        page_line += 1;
        match (&mut open, line.starts_with("```")) {
            (Some(_), true) => out.extend(open.take()),
            (None, true) => open = Some(Excerpt { page_line, ..Excerpt::default() }),
            (Some(excerpt), false) => excerpt.push(line, page_line - 1),
            (None, false) => {}
        }
    }
    out
}

impl Excerpt {
    /// A whole file as one excerpt.
    pub fn parse(text: &str) -> Excerpt {
        let mut excerpt = Excerpt::default();
        for (i, line) in text.lines().enumerate() {
            excerpt.push(line, i + 1);
        }
        excerpt
    }

    /// Adds a log line or an expectation line.
    fn push(&mut self, line: &str, page_line: usize) {
        match line.strip_prefix("#~") {
            Some(rest) => self.expected.push(expectation(rest, self.text.matches('\n').count().saturating_sub(1), page_line)),
            None => {
                self.text.push_str(&unescape(line));
                self.text.push('\n');
            }
        }
    }

    /// Compares what is found with what is expected; every deviation comes with its line.
    ///
    /// All findings of severity error or warning must be expected, and all of the rule `silent`, if there is one.
    pub fn deviations(&self, analysis: &Analysis, silent: Option<&str>) -> Vec<(usize, String)> {
        check_excerpt(silent, self, analysis)
    }
}

/// `␛` stands for the escape byte and `␍` for a lone carriage return, so that a page stays readable.
fn unescape(line: &str) -> String {
    line.replace('␛', "\u{1b}").replace('␍', "\r")
}

fn expectation(rest: &str, line: usize, page_line: usize) -> Expectation {
    let columns = rest.find('^').map(|at| {
        let start = 2 + rest[..at].chars().count();
        (start, start + rest[at..].chars().take_while(|c| *c == '^').count())
    });
    let words = rest.trim_start_matches([' ', '^']).split_whitespace().map(str::to_owned).collect();
    Expectation { line, page_line, columns, words }
}

/// Runs all excerpts of a page; every deviation is a problem with its line.
pub fn check(page: &Page, rules: &Arc<Rules>) -> Vec<PageProblem> {
    let mut problems = Vec::new();
    let mut say = |line: usize, message: String| problems.push(PageProblem::mistake(page.file.clone(), line, message));
    let flagged = excerpts(page, "Flagged");
    if flagged.iter().all(|excerpt| excerpt.expected.is_empty()) {
        say(page.body_line, "no excerpt under *Flagged* expects anything".to_owned());
    }
    let quiet = excerpts(page, "Not flagged");
    if quiet.len() < LEAST_NOT_FLAGGED {
        say(page.body_line, format!("a page needs at least {LEAST_NOT_FLAGGED} excerpts under *Not flagged*"));
    }
    for (excerpt, is_quiet) in flagged.iter().map(|e| (e, false)).chain(quiet.iter().map(|e| (e, true))) {
        for (line, message) in excerpt.deviations(&analyze(&excerpt.text, rules), is_quiet.then_some(page.front.id.as_str())) {
            say(line, message);
        }
    }
    problems
}

fn check_excerpt(silent: Option<&str>, excerpt: &Excerpt, analysis: &Analysis) -> Vec<(usize, String)> {
    let mut out = Vec::new();
    let mut met = vec![false; analysis.findings.len()];
    let lines: Vec<&str> = excerpt.text.split('\n').collect();
    for expected in &excerpt.expected {
        let here: Vec<usize> = (0..met.len()).filter(|&i| analysis.findings[i].span.line == expected.line).collect();
        let misses: Vec<(usize, Vec<String>)> =
            here.iter().map(|&i| (i, deviations(&analysis.findings[i], expected, lines.get(expected.line).unwrap_or(&"")))).collect();
        match misses.iter().min_by_key(|(_, deviations)| deviations.len()) {
            None => out.push((expected.page_line, format!("nothing is found here, expected {}", expected.words.join(" ")))),
            Some((i, deviations)) => {
                met[*i] = true;
                if !deviations.is_empty() {
                    out.push((expected.page_line, deviations.join("; ")));
                }
            }
        }
    }
    for (finding, _) in analysis.findings.iter().zip(&met).filter(|(_, met)| !**met) {
        let own = silent.is_some_and(|rule| *finding.rule == *rule);
        if own || finding.severity != Severity::Info {
            let line = excerpt.page_line + 1 + excerpt_line(excerpt, finding.span.line);
            out.push((line, format!("unexpected {}", describe(finding))));
        }
    }
    out
}

/// Lines of the page between the fence and a line of the excerpt: expectation lines were taken out.
fn excerpt_line(excerpt: &Excerpt, line: usize) -> usize {
    line + excerpt.expected.iter().filter(|expected| expected.line < line).count()
}

fn describe(f: &Finding) -> String {
    let numbers: Vec<String> = f.numbers.iter().map(|n| format!("{}={}", n.name, n.text)).collect();
    format!("{} {} {} {} ({})", f.severity, f.rule, f.role, f.cause, numbers.join(" "))
}

fn deviations(f: &Finding, expected: &Expectation, line: &str) -> Vec<String> {
    let mut out = Vec::new();
    if let Some(columns) = expected.columns {
        let character = |byte: usize| line.get(..byte).map_or(0, |head| head.chars().count());
        let end = if f.span.end_line == f.span.line { character(f.span.end) } else { line.chars().count() };
        let got = (character(f.span.start), end);
        if got != columns {
            out.push(format!("the range is columns {}-{}, expected {}-{}", got.0, got.1, columns.0, columns.1));
        }
    }
    for word in &expected.words {
        let ok = if let Some((name, value)) = word.split_once('=') {
            has_value(f, name, value)
        } else if let Some(severity) = Severity::parse(word) {
            f.severity == severity
        } else if let Some(role) = Role::parse(word) {
            f.role == role
        } else {
            *f.rule == **word || Cause::parse(word) == Some(f.cause)
        };
        if !ok {
            out.push(format!("`{word}` does not hold, found {}", describe(f)));
        }
    }
    out
}

fn has_value(f: &Finding, name: &str, value: &str) -> bool {
    if let Some(number) = f.number(name) {
        let wanted = units::read(value, Some(number.unit)).or_else(|| units::read(value, None));
        return wanted.is_some_and(|(wanted, _)| {
            let (a, b) = (wanted.as_f64(), number.value.as_f64());
            (a - b).abs() <= 1e-9 * a.abs().max(1.0) || a.to_bits() == b.to_bits()
        });
    }
    match name {
        "rank" => f.rank.is_some_and(|rank| rank.to_string() == value),
        "step" => f.step.is_some_and(|step| step.to_string() == value),
        _ => f.text(name).is_some_and(|text| text == value),
    }
}
