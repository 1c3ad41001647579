//! Findings and configs to words: Markdown for hovers, plain text for diagnostics and terminals.
//!
//! The first line is the answer. What a log says reaches Markdown only escaped.

mod attempts;
mod conditions;
pub mod config;
pub mod device_oom;
mod escape;
pub mod expected;
pub mod markdown;
mod message;
mod moment;
mod numbers;
mod page;
mod place;
pub mod post_mortem;
pub mod seen;
mod sentences;
pub mod texts;
mod waits;

use crate::log::finding::{Finding, Span};
use crate::log::marks::LEAK;
use crate::log::rules::{Page, Rules};
use crate::log::units;
use crate::log::verdict::{TensorShape, Verdict};
use crate::log::vocabulary::{Cause, Confidence, Kind, Role};
use crate::log::{Analysis, story};
pub use message::{diagnostic_message, divergence_message, headline};
use numbers::{decimal, number_hover};
pub use page::page_markdown;
use texts::{Language, fill, text};

/// A tensor below this many bytes is small against any card.
const SMALL_TENSOR: u64 = 1 << 30;
/// Ranks written out one by one; more are written as ranges anyway.
const MOST_RANGES: usize = 12;
/// Bytes of a line that are underlined at most.
const MOST_MARKED: usize = 120;

/// What a hover shows.
#[derive(Clone, Debug, PartialEq)]
pub struct HoverText {
    /// Markdown.
    pub markdown: String,
    /// What it speaks of.
    pub span: Span,
}

/// What a face adds to the hover of a finding: it may look at files, this module not.
pub type Addition<'a> = &'a dyn Fn(&Finding) -> Option<String>;

/// The hover at a position: a number of a message, or the message.
pub fn hover(analysis: &Analysis, rules: &Rules, line: usize, column: usize, addition: Addition<'_>) -> Option<HoverText> {
    let language = Language::English;
    let index = story::at_position(&analysis.findings, line, column).or_else(|| only_one_on(analysis, line))?;
    let finding = &analysis.findings[index];
    let page = rules.page(&finding.rule)?;
    if let Some((number, span)) = story::number_at(finding, line, column) {
        return Some(HoverText { markdown: number_hover(number, finding, page, language), span });
    }
    Some(HoverText { markdown: finding_hover(analysis, index, page, addition, language), span: finding.span })
}

/// Beside a finding's range, its line still explains it when it is the only one.
fn only_one_on(analysis: &Analysis, line: usize) -> Option<usize> {
    let mut here = story::at_line(&analysis.findings, line).map(|(i, _)| i);
    let first = here.next()?;
    here.next().is_none().then_some(first)
}

fn finding_hover(analysis: &Analysis, index: usize, page: &Page, addition: Addition<'_>, language: Language) -> String {
    let finding = &analysis.findings[index];
    // A table has no diagnostic beside it, so its readings stand in the hover.
    let table = finding.kind == Kind::Report && page.front.block.is_some();
    let first = match waits::absent(analysis, finding, language) {
        Some(absent) => format!("{}.", markdown::escape(&absent)),
        None if table => markdown::escape(&finding.message),
        None => answer(finding, page, language),
    };
    let mut parts = vec![format!("**{first}**")];
    parts.extend(behind_a_leak(finding, page, language));
    parts.extend(more_of_the_verdict(finding, language));
    match &finding.verdict {
        Some(Verdict::DeviceOom(oom)) => parts.extend(device_oom::table(oom, language)),
        _ if table => parts.push(markdown::values(page.section("What it means"), finding)),
        // The first sentence stands above; the rest of the meaning follows it.
        _ => parts.extend(rest_of_meaning(page, finding)),
    }
    parts.extend(addition(finding));
    if let Some(frame) = finding.text("frame") {
        parts.push(fill(language, "section.frame", &[("frame", markdown::code(frame))]));
    }
    let list = |key: &str, heading: &str| -> Option<String> {
        let items = markdown::fitting(page.section(heading), finding);
        (!items.is_empty()).then(|| {
            let lines: Vec<String> = items.iter().enumerate().map(|(i, item)| format!("{}. {item}", i + 1)).collect();
            format!("**{}**\n\n{}", text(language, key), lines.join("\n"))
        })
    };
    parts.extend(list("section.do", "What to do"));
    let no: Vec<String> = markdown::fitting(page.section("What does not help"), finding).iter().map(|item| format!("- {item}")).collect();
    if !no.is_empty() {
        parts.push(format!("**{}**\n\n{}", text(language, "section.no"), no.join("\n")));
    }
    parts.push(place::in_the_story(analysis, index, language));
    parts.push(fill(language, "section.more", &[("rule", finding.rule.to_string())]));
    parts.retain(|part| !part.is_empty());
    parts.join("\n\n")
}

/// The answer in one sentence: a leak that led to it, else what its own line says.
fn answer(finding: &Finding, page: &Page, language: Language) -> String {
    match finding.text(LEAK) {
        Some(last) => fill(language, "verdict.leak", &[("last", last.to_owned())]),
        None => own_answer(finding, page, language),
    }
}

/// What a finding's own line says in one sentence: the verdict, or the first sentence of the page's meaning.
fn own_answer(finding: &Finding, page: &Page, language: Language) -> String {
    match &finding.verdict {
        Some(Verdict::DeviceOom(oom)) => device_oom::verdict(oom, language).swap_remove(0),
        Some(Verdict::TensorShape(tensor)) => tensor_sentence(tensor, language),
        None => markdown::values(markdown::split_sentence(page.section("What it means")).0, finding),
    }
}

/// The answer of the line itself, where a leak stands in front of it.
fn behind_a_leak(finding: &Finding, page: &Page, language: Language) -> Option<String> {
    finding.text(LEAK).map(|_| own_answer(finding, page, language))
}

fn rest_of_meaning(page: &Page, finding: &Finding) -> Option<String> {
    let meaning = page.section("What it means");
    let rest = if finding.verdict.is_some() { meaning } else { markdown::split_sentence(meaning).1 };
    (!rest.is_empty()).then(|| markdown::values(rest, finding))
}

fn more_of_the_verdict(finding: &Finding, language: Language) -> Vec<String> {
    match &finding.verdict {
        Some(Verdict::DeviceOom(oom)) => {
            device_oom::verdict(oom, language).into_iter().skip(1).map(|text| markdown::values(&text, finding)).collect()
        }
        Some(Verdict::TensorShape(tensor)) => {
            let key = match tensor {
                TensorShape { on_host: true, .. } => "verdict.tensor-host",
                TensorShape { bytes, .. } if *bytes < SMALL_TENSOR => "verdict.tensor-small",
                _ => "verdict.tensor-large",
            };
            vec![text(language, key).to_owned()]
        }
        None => Vec::new(),
    }
}

fn tensor_sentence(tensor: &TensorShape, language: Language) -> String {
    let shape: Vec<String> = tensor.shape.iter().map(u64::to_string).collect();
    let values = [
        ("binary", units::binary(tensor.bytes)),
        ("decimal", decimal(tensor.bytes)),
        ("shape", shape.join(" × ")),
        ("dtype", markdown::escape(&tensor.dtype)),
        ("element", tensor.element_bytes.to_string()),
    ];
    fill(language, "verdict.tensor", &values)
}

/// `0-3, 7` for 0 1 2 3 7.
pub fn ranges(ranks: &[u32]) -> String {
    let mut out: Vec<String> = Vec::new();
    let mut rest = ranks;
    while let Some(&first) = rest.first() {
        let run = rest.iter().enumerate().take_while(|(i, rank)| u64::from(**rank) == u64::from(first) + *i as u64).count();
        let last = rest[run - 1];
        out.push(if run == 1 { first.to_string() } else { format!("{first}-{last}") });
        rest = &rest[run..];
        if out.len() == MOST_RANGES && !rest.is_empty() {
            out.push("…".to_owned());
            break;
        }
    }
    out.join(", ")
}

/// The part of a finding that is underlined: its beginning, up to the size that was asked for, short enough to be drawn.
///
/// `line` is the finding's first line. The whole span answers a hover.
pub fn mark(finding: &Finding, line: &str) -> Span {
    let span = finding.span;
    let whole_end = if span.end_line == span.line { span.end.min(line.len()) } else { line.len() };
    let tried = finding.number("tried").and_then(|number| number.span);
    let end = match tried.filter(|tried| tried.line == span.line && tried.end_line == span.line) {
        Some(tried) => whole_end.min(tried.end),
        None => whole_end.min(crate::text::floor_border(line, span.start + MOST_MARKED)),
    };
    Span { end_line: span.line, end: end.max(span.start), ..span }
}

/// The verdict in a few words for the end of a root-cause line; nothing for other findings.
pub fn hint(analysis: &Analysis, index: usize) -> Option<String> {
    let language = Language::English;
    let finding = &analysis.findings[index];
    if finding.role != Role::RootCause {
        return None;
    }
    let waited = || {
        let missing = analysis.story.waited_in()?.missing_for(finding)?;
        (missing.len() <= MOST_RANGES).then(|| fill(language, "hint.missing", &[("ranks", sentences::named(missing, false, language))]))
    };
    let what = match message::memory_hint(finding, language).or_else(waited) {
        Some(what) => what,
        None => {
            let cause = match claims_too_much(finding) {
                true => text(language, "hint.out-of-memory"),
                false => text(language, &format!("cause.{}", finding.cause)),
            };
            match analysis.story.onset.filter(|onset| onset.finding == index).and_then(|onset| onset.last_finite_step) {
                Some(step) => fill(language, "hint.nan", &[("step", step.to_string())]),
                None => cause.to_owned(),
            }
        }
    };
    let sure = finding.confidence == Confidence::High || finding.cause == Cause::Unknown;
    let what = if sure { what } else { fill(language, "hint.likely", &[("what", what)]) };
    Some(fill(language, "hint.root", &[("what", what)]))
}

/// Is a card called full although no number of the message says what it held?
fn claims_too_much(finding: &Finding) -> bool {
    let says = ["free", "allocated", "used", "reserved", "total"].iter().any(|name| finding.bytes(name).is_some());
    finding.kind == Kind::Oom && finding.cause == Cause::DeviceFull && !says
}

/// The first remedies that fit a finding, in plain text, for a terminal.
pub fn remedies(finding: &Finding, rules: &Rules, most: usize) -> Vec<String> {
    let Some(page) = rules.page(&finding.rule) else { return Vec::new() };
    markdown::fitting(page.section("What to do"), finding).iter().take(most).map(|item| markdown::plain(item)).collect()
}

/// The answer of a finding in plain text, for a terminal.
pub fn answer_plain(finding: &Finding, rules: &Rules) -> String {
    let Some(page) = rules.page(&finding.rule) else { return finding.message.clone() };
    let mut out = vec![answer(finding, page, Language::English)];
    out.extend(behind_a_leak(finding, page, Language::English));
    out.extend(more_of_the_verdict(finding, Language::English));
    markdown::plain(&out.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_ranges() {
        assert_eq!(ranges(&[0, 1, 2, 3, 7]), "0-3, 7");
        assert_eq!(ranges(&[]), "");
    }

    #[test]
    fn sentences_end_at_a_stop_and_a_blank() {
        assert_eq!(markdown::split_sentence("torch 2.1 is full. More."), ("torch 2.1 is full.", "More."));
        assert_eq!(markdown::split_sentence("One only"), ("One only", ""));
    }
}
