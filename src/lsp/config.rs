//! Configs of models in the editor: which documents they are, and what is known of each.
//!
//! A config is read anew at every edit; while its JSON is broken, as it is during typing, the hints of the last good
//! text stay, each at the line that still holds its key.

use std::sync::Arc;

use ropey::Rope;
use tower_lsp_server::ls_types::{
    CodeDescription, CodeLens, Command, CompletionItem, CompletionItemKind, CompletionTextEdit, Diagnostic, DiagnosticSeverity, Hover,
    InlayHint, InlayHintLabel, NumberOrString, Position, Range, TextEdit,
};

use super::beside;
use super::choose;
use super::convert::{ClientFacts, Diagnostics, number, place, position, range};
use super::diagnostics::SOURCE;
use super::hover;
use super::state::{Job, Reading, Todo};
use crate::explain::config::kin::{Base, Said, offers};
use crate::explain::config::{self, Outcome, View};
use crate::explain::seen::Card;
use crate::explain::texts::{Language, text};
use crate::log::Span;
use crate::log::vocabulary::Severity;
use crate::model::checks::Around;
use crate::model::documents::Document;
use crate::text::document::{self, LineEdit};
use crate::text::{Lines, floor_border};

/// Language ids of JSON.
const LANGUAGES: [&str; 3] = ["json", "jsonc", "json5"];
/// Language ids of texts that nobody claims.
const UNCLAIMED: [&str; 4] = ["", "plaintext", "text", "txt"];
/// Endings of names of JSON.
const ENDINGS: [&str; 3] = [".json", ".jsonc", ".json5"];
/// Where the pages of the marks can be read.
const PAGES: &str = concat!(env!("CARGO_PKG_REPOSITORY"), "/blob/main/src/explain/config/pages/");
/// How many lines of an edit are searched for the keys of hints.
const MOST_SEARCHED: usize = 2000;

/// What is known of a config.
pub struct ConfigReading {
    /// The config; none while the JSON is broken, and for files around a model.
    view: Option<View>,
    hints: Vec<LineHint>,
    lens: Vec<String>,
    /// One line a task.
    tasks: Vec<String>,
    marks: Vec<config::Mark>,
    /// What kind of file around a model it is; none for a config.
    kin: Option<Document>,
    /// The config that such a file belongs to.
    base: Option<Arc<Base>>,
}

/// A hint and its place.
#[derive(Clone, Debug, PartialEq)]
struct LineHint {
    line: usize,
    /// Byte column; none for the end of the line.
    column: Option<usize>,
    key: String,
    text: String,
}

/// Reads the job's text as a config; none when it is no config.
pub fn read(job: &mut Job) -> Option<Arc<ConfigReading>> {
    let former = job.config.take();
    let reading = if former.is_some() || may_be(job) { read_text(job, former) } else { None };
    job.config.clone_from(&reading);
    reading
}

fn read_text(job: &Job, former: Option<Arc<ConfigReading>>) -> Option<Arc<ConfigReading>> {
    let rope = &job.rope;
    let bytes = rope.len_bytes();
    let head = rope.byte_slice(..rope.char_to_byte(rope.byte_to_char(bytes.min(config::HEAD_BYTES))));
    if config::is_too_long(bytes, &head.to_string()) {
        return None;
    }
    match config::read(&rope.to_string()) {
        Outcome::Other => None,
        Outcome::Broken => former.map(|former| kept(&former, rope, job.todo)),
        Outcome::Kin(kin) => {
            let base = beside::base(&job.uri, kin.base_name(), kin.looks_above());
            let Said { lens, tasks, hints, marks } = kin.say(base.as_deref(), &job.settings.choice);
            let hints = hints.into_iter().map(|hint| placed(rope, hint)).collect();
            Some(Arc::new(ConfigReading { hints, lens, tasks, marks, view: None, kin: Some(kin.document()), base }))
        }
        Outcome::Config(view) => {
            let hints = view.hints().into_iter().map(|hint| placed(rope, hint)).collect();
            let tasks = view.tasks(&job.settings.choice);
            let marks = marks_of(&view, job);
            Some(Arc::new(ConfigReading { hints, lens: view.lens(), tasks, marks, view: Some(*view), kin: None, base: None }))
        }
    }
}

fn marks_of(view: &View, job: &Job) -> Vec<config::Mark> {
    let index = beside::index(&job.uri);
    let memory = job.settings.choice.card().map(|card| card.memory.saturating_mul(card.count));
    view.marks(&Around { index: index.as_deref(), gpu_bytes: memory })
}

/// Is the text JSON by its language, its name, or by how it begins where neither says anything else?
fn may_be(job: &Job) -> bool {
    let name = job.uri.name().to_ascii_lowercase();
    LANGUAGES.contains(&job.language.as_str())
        || ENDINGS.iter().any(|ending| name.ends_with(ending))
        || UNCLAIMED.contains(&job.language.as_str()) && first_character(&job.rope) == Some('{')
}

fn first_character(rope: &Rope) -> Option<char> {
    rope.chars().take(MOST_SEARCHED).find(|c| !c.is_whitespace() && *c != '\u{feff}')
}

/// A hint at the end of its line where nothing but a comma or a comment follows, else behind its value.
fn placed(rope: &Rope, hint: config::Hint) -> LineHint {
    let at = hint.at.min(rope.len_bytes());
    let line = rope.byte_to_line(at);
    let text = Lines::line(rope, line);
    let column = floor_border(&text, at - rope.line_to_byte(line));
    let rest = text[column..].trim_start_matches(',').trim_start();
    let ends = rest.is_empty() || rest.starts_with("//");
    LineHint { line, column: (!ends).then_some(column), key: hint.key, text: hint.text }
}

/// The hints of the last good text, moved with an edit.
fn kept(former: &ConfigReading, rope: &Rope, todo: Todo) -> Arc<ConfigReading> {
    let hints = match todo {
        Todo::Edit(edit) => former.hints.iter().filter_map(|hint| moved(hint, rope, edit)).collect(),
        _ => former.hints.clone(),
    };
    Arc::new(ConfigReading {
        view: None,
        hints,
        lens: former.lens.clone(),
        tasks: former.tasks.clone(),
        marks: Vec::new(),
        kin: former.kin,
        base: former.base.clone(),
    })
}

/// A hint after an edit: below it at its line's new number, inside it at the line that holds its key. Where no line does
/// and none was taken away, the key itself is being typed, and the hint stays.
fn moved(hint: &LineHint, rope: &Rope, edit: LineEdit) -> Option<LineHint> {
    let LineEdit { first, old, new } = edit;
    let line = match hint.line {
        line if line < first => line,
        line if line >= first + old => line - old + new,
        line => {
            let key = format!("\"{}\"", hint.key);
            let end = (first + new).min(Lines::count(rope));
            let holds = (first..end).take(MOST_SEARCHED).filter(|&at| Lines::line(rope, at).contains(&key));
            match holds.min_by_key(|at| at.abs_diff(line)) {
                Some(found) => found,
                None if new >= old => line,
                None => return None,
            }
        }
    };
    (line < Lines::count(rope)).then(|| LineHint { line, ..hint.clone() })
}

/// The hints of a config inside a range.
pub fn hints(config: &ConfigReading, reading: &Reading, facts: &ClientFacts, range: Range) -> Vec<InlayHint> {
    let placed = |hint: &LineHint| {
        let length = document::line_len(&reading.rope, hint.line);
        position(&reading.rope, facts.encoding, hint.line, hint.column.unwrap_or(length).min(length))
    };
    let inside = |at: &Position| range.start <= *at && *at <= range.end;
    let hint = |(at, hint): (Position, &LineHint)| InlayHint {
        position: at,
        label: InlayHintLabel::String(hint.text.clone()),
        kind: None,
        text_edits: None,
        tooltip: None,
        padding_left: Some(true),
        padding_right: Some(true),
        data: None,
    };
    config.hints.iter().map(|one| (placed(one), one)).filter(|(at, _)| inside(at)).map(hint).collect()
}

/// What is wrong in a config; nothing while its JSON is broken.
pub fn marks(config: &ConfigReading, job: &Job) -> Diagnostics {
    let wanted = |mark: &&config::Mark| !job.settings.disabled.contains(mark.code);
    let marks = config.marks.iter().filter(wanted).take(job.settings.max_findings);
    let mark = |mark: &config::Mark| Diagnostic {
        range: range(&job.rope, job.facts.encoding, span(&job.rope, mark.span.clone())),
        severity: Some(match mark.severity {
            Severity::Error => DiagnosticSeverity::ERROR,
            Severity::Warning => DiagnosticSeverity::WARNING,
            Severity::Info => DiagnosticSeverity::INFORMATION,
        }),
        code: Some(NumberOrString::String(mark.code.to_owned())),
        code_description: page(mark.code).filter(|_| job.facts.code_links),
        source: Some(SOURCE.to_owned()),
        message: mark.message.clone(),
        ..Diagnostic::default()
    };
    marks.map(mark).collect()
}

fn page(code: &str) -> Option<CodeDescription> {
    Some(CodeDescription { href: format!("{PAGES}{code}.md").parse().ok()? })
}

/// What is wrong at a position, and what a key means there; reads the config once more, so it is no work for the
/// runtime's thread.
pub fn hover(config: &ConfigReading, reading: &Reading, facts: &ClientFacts, position: Position) -> Option<Hover> {
    let at = document::offset(&reading.rope, facts.encoding, place(position));
    let wanted = |mark: &&config::Mark| !reading.settings.disabled.contains(mark.code);
    let marks: Vec<&config::Mark> =
        config.marks.iter().filter(wanted).filter(|mark| mark.span.start <= at && at <= mark.span.end).collect();
    let choice = &reading.settings.choice;
    let key = match (&config.view, config.kin) {
        (Some(view), _) => view.hover_for(choice, at),
        // A long index is not kept: it is read again where somebody asks.
        (None, Some(_)) => match config::read(&reading.rope.to_string()) {
            Outcome::Kin(kin) => kin.hover(config.base.as_deref(), choice, at),
            _ => None,
        },
        (None, None) => None,
    };
    let bytes = key.as_ref().map(|key| key.span.clone()).or_else(|| marks.first().map(|mark| mark.span.clone()))?;
    let parts: Vec<String> = marks.iter().map(|mark| mark.markdown()).chain(key.map(|key| key.markdown)).collect();
    Some(hover::contents(facts, parts.join("\n\n---\n\n"), range(&reading.rope, facts.encoding, span(&reading.rope, bytes))))
}

/// What may be written at a position of a config; none in other texts.
pub fn completion(reading: &Reading, facts: &ClientFacts, position: Position) -> Option<Vec<CompletionItem>> {
    // While one types the JSON is broken; the text was a config before.
    let config = reading.config.as_ref()?;
    let at = document::offset(&reading.rope, facts.encoding, place(position));
    let text = reading.rope.to_string();
    let offers = match config.kin {
        Some(kind) => offers::at(kind, config.base.as_deref(), &text, at),
        None => config::completion::at(&text, at),
    };
    let item = |offer: config::completion::Offer| {
        let edit =
            TextEdit { range: range(&reading.rope, facts.encoding, span(&reading.rope, offer.span)), new_text: offer.insert.clone() };
        CompletionItem {
            kind: Some(if offer.is_key { CompletionItemKind::PROPERTY } else { CompletionItemKind::VALUE }),
            detail: Some(offer.detail).filter(|detail| !detail.is_empty()),
            // Editors compare with what the edit replaces, which begins with the quote.
            filter_text: Some(offer.insert),
            label: offer.name,
            text_edit: Some(CompletionTextEdit::Edit(edit)),
            ..CompletionItem::default()
        }
    };
    Some(offers.into_iter().map(item).collect())
}

/// A byte range of the text by lines.
fn span(rope: &Rope, bytes: std::ops::Range<usize>) -> Span {
    let line = |at: usize| rope.byte_to_line(at.min(rope.len_bytes()));
    let column = |at: usize, line: usize| at.min(rope.len_bytes()) - rope.line_to_byte(line);
    let (first, last) = (line(bytes.start), line(bytes.end));
    Span { line: first, start: column(bytes.start, first), end_line: last, end: column(bytes.end, last) }
}

/// What stands over the file: what it is, what fits (with a card that the open logs speak of, on that), and what to measure
/// against. Lenses of one line stand in one row, which ends at the window's edge, so each task has a line of its own.
pub fn lens(config: &ConfigReading, rope: &Rope, card: Option<&Card>) -> Vec<CodeLens> {
    let last = Lines::count(rope).saturating_sub(1);
    let lens_at = |line: usize, title: &str, command: &str| CodeLens {
        range: {
            let start = Position::new(number(line.min(last)), 0);
            Range::new(start, start)
        },
        command: Some(Command { title: title.to_owned(), command: command.to_owned(), arguments: None }),
        data: None,
    };
    let lens = |title: &str, command: &str| lens_at(0, title, command);
    // A command without a name is shown as text that cannot be chosen.
    let mut lenses: Vec<CodeLens> = config.lens.iter().map(|title| lens(title, "")).collect();
    let fits = config.view.as_ref().zip(card).and_then(|(view, card)| view.fits(card));
    lenses.extend(fits.iter().map(|title| lens(title, choose::GPU)));
    lenses.extend(config.tasks.iter().enumerate().map(|(i, title)| lens_at(i + 1, title, choose::GPU)));
    if !config.tasks.is_empty() {
        lenses.push(lens(text(Language::English, "config.change.gpu"), choose::GPU));
        if matches!(config.kin, None | Some(Document::DeepSpeedConfig | Document::AdapterConfig)) {
            lenses.push(lens(text(Language::English, "config.change.task"), choose::TASK));
        }
    }
    lenses
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hint(line: usize, key: &str) -> LineHint {
        LineHint { line, column: None, key: key.to_owned(), text: String::new() }
    }

    fn line_after(text: &str, hint: &LineHint, first: usize, old: usize, new: usize) -> Option<usize> {
        moved(hint, &Rope::from_str(text), LineEdit { first, old, new }).map(|hint| hint.line)
    }

    #[test]
    fn hints_move_with_their_lines() {
        let text = "{\n  \n  \"a\": 1,\n  \"b\": 2\n}";
        // An empty line came in front of "a".
        assert_eq!(line_after(text, &hint(1, "a"), 1, 1, 2), Some(2));
        assert_eq!(line_after(text, &hint(2, "b"), 1, 1, 2), Some(3));
        assert_eq!(line_after(text, &hint(0, "z"), 1, 1, 2), Some(0));
        // "c" was deleted with its line; the key on line 3 is being typed.
        assert_eq!(line_after(text, &hint(2, "c"), 1, 2, 1), None);
        assert_eq!(line_after(text, &hint(3, "bc"), 3, 1, 1), Some(3));
        // The text ends earlier than the hint.
        assert_eq!(line_after("{", &hint(9, "a"), 0, 1, 1), None);
    }
}
