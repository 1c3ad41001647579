//! One rule page: front matter, patterns, prose. The form is described in `docs/rules.md`.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use regex::{Regex, RegexBuilder};
use serde::Deserialize;

use super::mistake;
use super::own::{self, Budget, Refused};
use crate::log::units::Unit;
use crate::log::vocabulary::{Cause, Confidence, Kind, Role, Severity};

/// The most lines a message may run on over.
pub const MOST_CONTINUATION: usize = 40;

/// Patterns and vetoes of a page at most, each.
const MOST_PATTERNS: usize = 40;
/// Anchors of a page at most.
const MOST_ANCHORS: usize = 120;
/// Compiled size of one pattern at most, in bytes.
const MOST_PATTERN_SIZE: usize = 4 << 20;

/// A mistake in a page, or what is to be known of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageProblem {
    /// The page's file, as it was given.
    pub file: String,
    /// 1-based line in the page.
    pub line: usize,
    /// What is wrong and what is expected.
    pub message: String,
    /// Not a mistake: the page is used, and this is to be known of it.
    pub note: bool,
}

impl PageProblem {
    /// A mistake on a line, counted from 1.
    pub fn mistake(file: impl Into<String>, line: usize, message: impl Into<String>) -> PageProblem {
        PageProblem { file: file.into(), line, message: message.into(), note: false }
    }
}

impl std::fmt::Display for PageProblem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.message)
    }
}

/// The front matter of a page.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Front {
    /// Kebab-case name, the same as the file's.
    pub id: String,
    /// A few words for outlines.
    pub title: String,
    /// What sort of event it is.
    pub kind: Kind,
    /// The cause when no verdict tells a better one.
    pub cause: Cause,
    /// The part the line usually plays.
    pub role: Role,
    /// How bad it is.
    pub severity: Severity,
    /// How sure it is.
    pub confidence: Confidence,
    /// Place in the ranking of causes, 1 to 11; lower is nearer to the cause.
    pub precedence: u8,
    /// Literal strings that open the gate; none where the page names a series.
    #[serde(default)]
    pub anchors: Vec<String>,
    /// Regular expressions with named captures; none where the page names a series.
    #[serde(default)]
    pub patterns: Vec<String>,
    /// Name of the series over the step lines of a run that the page speaks of, in place of a message on a line.
    #[serde(default)]
    pub series: Option<String>,
    /// The line is passed over when one of these matches.
    #[serde(default)]
    pub unless: Vec<String>,
    /// May the message be broken over lines at any character?
    #[serde(default)]
    pub wraps: bool,
    /// How many following lines the pattern may see, joined by LF.
    #[serde(default)]
    pub continues: usize,
    /// Name of the block reader that reads the lines from here on into data; without a block there is no finding.
    #[serde(default)]
    pub block: Option<String>,
    /// Does the page yield to any other page that finds something on the same lines?
    #[serde(default)]
    pub fallback: bool,
    /// Name of the verdict that turns the numbers into a cause.
    #[serde(default)]
    pub verdict: Option<String>,
    /// Message templates; the first whose placeholders are all present is used.
    #[serde(deserialize_with = "one_or_more")]
    pub message: Vec<String>,
    /// How captured numbers are to be read.
    #[serde(default)]
    pub numbers: BTreeMap<String, Unit>,
}

fn one_or_more<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Either {
        One(String),
        More(Vec<String>),
    }
    Ok(match Either::deserialize(from)? {
        Either::One(text) => vec![text],
        Either::More(texts) => texts,
    })
}

/// A rule page.
#[derive(Debug)]
pub struct Page {
    /// The front matter.
    pub front: Front,
    /// The id, shared with the findings.
    pub id: Arc<str>,
    /// The title, shared with the findings.
    pub title: Arc<str>,
    /// Where the page came from, for messages.
    pub file: String,
    /// The prose behind the front matter.
    pub body: Cow<'static, str>,
    /// 1-based line at which the prose begins.
    pub body_line: usize,
    /// Is it a page of a workspace? Those may take less than built-in ones.
    pub own: bool,
    compiled: OnceLock<Compiled>,
}

/// The patterns of a page, compiled when a line first needs them.
#[derive(Debug)]
pub struct Compiled {
    /// As they are written.
    pub patterns: Vec<Regex>,
    /// Without any white space, for messages that wrap.
    pub squeezed: Vec<Regex>,
    /// The vetoes.
    pub unless: Vec<Regex>,
}

impl Page {
    /// Reads a page. `file` is used in messages and must end in `<id>.md`.
    ///
    /// # Errors
    /// The first mistake, with its line.
    pub fn parse(file: &str, text: Cow<'static, str>) -> Result<Page, PageProblem> {
        let problem = |line: usize, message: String| PageProblem::mistake(file, line, message);
        let (open, front_text, close) =
            split_front(&text).ok_or_else(|| problem(1, "the page must begin with front matter between two `+++` lines".to_owned()))?;
        let front: Front = toml::from_str(front_text).map_err(|e| {
            let at = e.span().map_or(0, |span| span.start);
            let line = open + front_text[..at.min(front_text.len())].matches('\n').count();
            let key = front_text.lines().nth(line - open).and_then(|line| line.split_once('=')).map_or("", |(key, _)| key.trim());
            problem(line, mistake::of_front_matter(key, e.message()))
        })?;
        let body_line = text[..close].matches('\n').count() + 1;
        let body = match &text {
            Cow::Borrowed(text) => Cow::Borrowed(&text[close..]),
            Cow::Owned(text) => Cow::Owned(text[close..].to_owned()),
        };
        let (id, title) = (front.id.as_str().into(), front.title.as_str().into());
        let page = Page { front, id, title, file: file.to_owned(), body, body_line, own: false, compiled: OnceLock::new() };
        let line_of = |what: &str| front_text.find(what).map_or(1, |at| open + front_text[..at].matches('\n').count());
        page.check(&line_of).map_err(|(line, message)| problem(line, message))?;
        Ok(page)
    }

    /// The page's patterns, compiled on first use.
    pub fn compiled(&self) -> &Compiled {
        self.compiled.get_or_init(|| {
            // Both were compiled once when the page was read; a pattern that fails here is left out, not guessed at.
            let all = |patterns: &[String]| {
                patterns.iter().filter_map(|p| if self.own { own::compile(p) } else { compile(p) }.ok()).collect::<Vec<_>>()
            };
            let squeezed = if self.front.wraps { self.front.patterns.iter().map(|p| squeeze(p)).collect() } else { Vec::new() };
            Compiled { patterns: all(&self.front.patterns), squeezed: all(&squeezed), unless: all(&self.front.unless) }
        })
    }

    /// The text under a heading, without the heading; empty when there is none.
    pub fn section(&self, heading: &str) -> &str {
        section(&self.body, heading)
    }

    fn compiles(&self, pattern: &str) -> Result<(), Refused> {
        compile(pattern).map_err(Refused::Wrong)?;
        if self.front.wraps && compile(&squeeze(pattern)).is_err() {
            return Err(Refused::Large(own::NOT_SQUEEZED.to_owned()));
        }
        Ok(())
    }

    /// Checks what the form of the front matter cannot say. Cheap: patterns are compiled only by [`Page::verify`].
    fn check(&self, line_of: &dyn Fn(&str) -> usize) -> Result<(), (usize, String)> {
        let front = &self.front;
        let stem = self.file.rsplit(['/', '\\']).next().and_then(|name| name.strip_suffix(".md"));
        if stem != Some(front.id.as_str()) {
            return Err((line_of("id"), format!("the file must be named after its id, `{}.md`", front.id)));
        }
        if !front.id.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-') {
            return Err((line_of("id"), "an id has lower-case letters, digits and dashes only".to_owned()));
        }
        if front.series.is_some() && !(front.anchors.is_empty() && front.patterns.is_empty()) {
            return Err((line_of("series"), "a page of a series has neither anchors nor patterns".to_owned()));
        }
        let needs_patterns = front.series.is_none();
        if (needs_patterns && front.anchors.is_empty()) || front.anchors.iter().any(|anchor| anchor.trim().chars().count() < 2) {
            return Err((line_of("anchors"), "a page needs anchors of at least two characters".to_owned()));
        }
        if !(usize::from(needs_patterns)..=MOST_PATTERNS).contains(&front.patterns.len())
            || front.unless.len() > MOST_PATTERNS
            || front.anchors.len() > MOST_ANCHORS
        {
            let message = format!("a page has 1 to {MOST_PATTERNS} patterns, as many vetoes at most, and at most {MOST_ANCHORS} anchors");
            return Err((line_of("patterns"), message));
        }
        if !(1..=11).contains(&front.precedence) {
            return Err((line_of("precedence"), "precedence is 1 to 11".to_owned()));
        }
        if front.continues > MOST_CONTINUATION {
            return Err((line_of("continues"), format!("a message continues over at most {MOST_CONTINUATION} lines")));
        }
        if front.message.is_empty() {
            return Err((line_of("message"), "a page needs a message".to_owned()));
        }
        Ok(())
    }

    /// Compiles every pattern and looks for the headings: what loading leaves for later. A page of a workspace pays for its
    /// patterns.
    ///
    /// # Errors
    /// All mistakes, each with its line in the page.
    pub fn verify(&self, text: &str, mut budget: Option<&mut Budget>) -> Result<(), Vec<PageProblem>> {
        let mut problems = Vec::new();
        let line_of = |what: &str| text.find(what).map_or(1, |at| text[..at].matches('\n').count() + 1);
        let mut say = |line, message| problems.push(PageProblem::mistake(self.file.clone(), line, message));
        for pattern in self.front.patterns.iter().chain(&self.front.unless) {
            let outcome = match &mut budget {
                Some(budget) => budget.take(pattern, self.front.wraps),
                None => self.compiles(pattern),
            };
            match outcome {
                Ok(()) => {}
                Err(Refused::Wrong(e)) => say(line_of(pattern), mistake::of_pattern(pattern, &e)),
                Err(Refused::Large(why)) => say(line_of(pattern), why),
                Err(Refused::Spent) => {
                    say(1, Budget::spent());
                    break;
                }
            }
        }
        if let Some(verdict) = &self.front.verdict {
            if !crate::log::verdict::NAMES.contains(&verdict.as_str()) {
                say(line_of("verdict"), format!("no verdict is called `{verdict}`; there are {}", crate::log::verdict::NAMES.join(", ")));
            }
        }
        if let Some(block) = self.front.block.as_deref().filter(|block| !crate::log::blocks::exists(block)) {
            let names: Vec<&str> = crate::log::blocks::names().collect();
            say(line_of("block"), format!("no block is called `{block}`; there are {}", names.join(", ")));
        }
        if let Some(series) = self.front.series.as_deref().filter(|series| !crate::log::memory::SERIES.contains(series)) {
            say(line_of("series"), format!("no series is called `{series}`; there are {}", crate::log::memory::SERIES.join(", ")));
        }
        for template in &self.front.message {
            for name in placeholders(template) {
                // The rank of a line stands in its prefix.
                let known = name == "rank"
                    || self.front.patterns.iter().any(|p| p.contains(&format!("<{name}>")))
                    || crate::log::verdict::PLACEHOLDERS.contains(&name)
                    || (self.front.series.is_some() && crate::log::memory::SERIES_PLACEHOLDERS.contains(&name))
                    || self.front.block.is_some();
                if !known {
                    say(line_of("message"), format!("no pattern captures `{name}`"));
                }
            }
        }
        for heading in ["What it means", "What to do", "Flagged", "Not flagged"] {
            if find_heading(&self.body, heading).is_none() {
                say(self.body_line, format!("the heading `## {heading}` is missing"));
            }
        }
        if problems.is_empty() { Ok(()) } else { Err(problems) }
    }
}

/// Names in braces in a template, also those that choose a word: `{count:line|lines}`.
pub fn placeholders(template: &str) -> impl Iterator<Item = &str> {
    template.split('{').skip(1).filter_map(|rest| rest.split_once('}')).map(|(name, _)| name.split(':').next().unwrap_or(name))
}

/// The text under a heading of a body, without the heading; empty when there is none.
pub(crate) fn section<'a>(body: &'a str, heading: &str) -> &'a str {
    let Some(start) = find_heading(body, heading) else { return "" };
    let rest = &body[start..];
    let end = next_heading(rest).unwrap_or(rest.len());
    rest[..end].trim()
}

/// (1-based line of the front matter's first line, its text, offset behind the closing line)
pub(crate) fn split_front(text: &str) -> Option<(usize, &str, usize)> {
    let start = text.strip_prefix("+++\n").map(|_| 4).or_else(|| text.strip_prefix("+++\r\n").map(|_| 5))?;
    let close = text[start..].find("\n+++")? + start + 1;
    let end = text[close..].find('\n').map_or(text.len(), |at| close + at + 1);
    Some((2, &text[start..close], end))
}

fn find_heading(body: &str, heading: &str) -> Option<usize> {
    let mut at = 0;
    let mut fenced = false;
    for line in body.split_inclusive('\n') {
        at += line.len();
        fenced ^= line.trim_start().starts_with("```");
        if !fenced && line.strip_prefix("## ").is_some_and(|title| title.trim() == heading) {
            return Some(at);
        }
    }
    None
}

fn next_heading(rest: &str) -> Option<usize> {
    let mut at = 0;
    let mut fenced = false;
    for line in rest.split_inclusive('\n') {
        fenced ^= line.trim_start().starts_with("```");
        if !fenced && line.starts_with("## ") {
            return Some(at);
        }
        at += line.len();
    }
    None
}

fn compile(pattern: &str) -> Result<Regex, regex::Error> {
    RegexBuilder::new(&ascii(pattern, false)).size_limit(MOST_PATTERN_SIZE).build()
}

/// A pattern whose digits and word borders are ASCII ones, its word characters too when `words` says so.
///
/// The messages are ASCII text. Unicode borders keep the fast automaton from running on any line with a bar or an accent,
/// and Unicode classes make it large.
pub fn ascii(pattern: &str, words: bool) -> String {
    let mut out = String::with_capacity(pattern.len() + 16);
    let mut in_class = false;
    let mut rest = pattern;
    while let Some(c) = rest.chars().next() {
        let length = if c == '\\' { 1 + rest[1..].chars().next().map_or(0, char::len_utf8) } else { c.len_utf8() };
        let (token, tail) = rest.split_at(length);
        match (token, in_class) {
            ("[", false) => in_class = true,
            ("]", true) => in_class = false,
            _ => {}
        }
        out.push_str(match (token, in_class) {
            ("\\d", true) => "0-9",
            ("\\d", false) => "[0-9]",
            ("\\b", false) => "(?-u:\\b)",
            ("\\w", true) if words => "0-9A-Za-z_",
            ("\\w", false) if words => "[0-9A-Za-z_]",
            ("\\s", true) if words => " \\t",
            ("\\s", false) if words => "[ \\t]",
            _ => token,
        });
        rest = tail;
    }
    out
}

/// A pattern without its white space: it matches the same message with all white space taken out.
pub fn squeeze(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len());
    let mut rest = pattern;
    while let Some(c) = rest.chars().next() {
        let skip = if rest.starts_with("\\s") || rest.starts_with("\\n") || rest.starts_with("\\ ") {
            2
        } else if c == ' ' {
            1
        } else {
            if c == '\\' {
                let next = rest[1..].chars().next().map_or(0, char::len_utf8);
                out.push_str(&rest[..1 + next]);
                rest = &rest[1 + next..];
            } else {
                out.push(c);
                rest = &rest[c.len_utf8()..];
            }
            continue;
        };
        rest = &rest[skip..];
        // A quantifier goes with the white space it counted.
        if let Some(brace) = rest.strip_prefix('{').and_then(|r| r.find('}')) {
            rest = &rest[brace + 2..];
        } else {
            rest = rest.strip_prefix(['+', '*', '?']).unwrap_or(rest);
            rest = rest.strip_prefix('?').unwrap_or(rest);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn squeezing_takes_white_space_and_its_quantifiers() {
        assert_eq!(squeeze(r"Tried to allocate (?P<tried>[\d.]+ ?\S+)\s+of\s*x {2}y"), r"Triedtoallocate(?P<tried>[\d.]+\S+)ofxy");
    }

    #[test]
    fn digits_and_borders_are_ascii() {
        assert_eq!(ascii(r"\bx[\d.]+\d\\d", false), r"(?-u:\b)x[0-9.]+[0-9]\\d");
        assert_eq!(ascii(r"[\w./-]+\s", true), r"[0-9A-Za-z_./-]+[ \t]");
    }

    #[test]
    fn a_mistake_has_a_line() {
        let text = "+++\nid = \"x\"\nkind = \"oops\"\n+++\n";
        let problem = Page::parse("x.md", Cow::Borrowed(text)).unwrap_err();
        assert_eq!((problem.line, problem.file.as_str()), (3, "x.md"));
        assert_eq!(Page::parse("x.md", Cow::Borrowed("no front")).unwrap_err().line, 1);
    }
}
