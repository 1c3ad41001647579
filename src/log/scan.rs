//! One gate over the text; a page's patterns run only on the lines where the gate opens.
//!
//! The matches of a line depend on that line, [`LOOK_BACK`] lines above and [`LOOK_AHEAD`] below, and on nothing else, so
//! that a text scanned in pieces gives what it gives at once.

use std::cell::{Cell, OnceCell, RefCell};

use regex::{Captures, Regex};

use super::echo;
use super::finding::Span;
use super::recent::Recent;
use super::record::{self, Prefix, Record};
use super::rules::page::MOST_CONTINUATION;
use super::rules::{Page, Rules};
use crate::text::clean::{self, Segment};
use crate::text::{Lines, StrLines, floor_border};

/// Lines above a line that its matches depend on.
pub const LOOK_BACK: usize = 12;
/// Lines below a line that its matches depend on.
pub const LOOK_AHEAD: usize = MOST_CONTINUATION + LOOK_BACK;

/// A line longer than this is read in windows around its anchors.
const LONG_LINE: usize = 64 << 10;
/// Window of a long line: bytes before and behind an anchor.
const WINDOW: (usize, usize) = (2 << 10, 6 << 10);
/// Windows of one line that a page is looked for in.
const MOST_WINDOWS: usize = 64;
/// A message whose match leaves at most this many bytes of its line may have been cut inside its next clause.
const CUT_CLAUSE: usize = 48;
/// A wrapped message spans at most this many lines ...
const MOST_WRAPPED_LINES: usize = 14;
/// ... and bytes.
const MOST_WRAPPED_BYTES: usize = 3 << 10;
/// A wrapped message may begin this many lines above the line with the anchor.
const MOST_WRAPPED_ABOVE: usize = 6;
/// Matches of one page on one segment.
const MOST_MATCHES: usize = 8;
/// Lines between two questions whether to go on.
const PATIENCE: usize = 256;

/// A page's pattern found in a text.
#[derive(Clone, Debug, PartialEq)]
pub struct Match {
    /// Index of the page in its [`Rules`].
    pub page: usize,
    /// The line at which the gate opened.
    pub line: usize,
    /// Where the whole match stands.
    pub span: Span,
    /// Clean bytes of the match.
    pub length: usize,
    /// The named captures that took part.
    pub captures: Vec<Capture>,
    /// The prefix of the first line.
    pub prefix: Prefix,
}

/// A named capture.
#[derive(Clone, Debug, PartialEq)]
pub struct Capture {
    /// Its name in the pattern.
    pub name: String,
    /// Its text; white space is missing where it was broken over lines.
    pub text: String,
    /// Where it stands.
    pub span: Span,
}

/// All matches of a text, in order of their gate lines.
///
/// `keep_going` is asked now and then; `None` when it said no.
pub fn scan(text: &str, lines: &StrLines<'_>, rules: &Rules, keep_going: &dyn Fn() -> bool) -> Option<Vec<Match>> {
    let mut out = Vec::new();
    let Some(gate) = rules.gate() else { return Some(out) };
    let recent = RefCell::new(Recent::new(MOST_WRAPPED_BYTES));
    let (mut at, mut line, mut since) = (0, 0, 0);
    while at < text.len() {
        let Some(hit) = gate.find(aho_corasick::Input::new(text).span(at..text.len())) else { break };
        line = lines.line_at(hit.start(), line);
        Reader {
            lines,
            rules,
            line,
            recent: &recent,
            above: OnceCell::new(),
            first_match: Cell::new(0),
            near: OnceCell::new(),
            below: OnceCell::new(),
        }
        .read(&mut out);
        at = lines.start(line + 1);
        since += 1;
        if since % PATIENCE == 0 && !keep_going() {
            return None;
        }
    }
    keep_going().then_some(out)
}

/// A line with the neighbours that its patterns may ask for.
struct Reader<'a> {
    lines: &'a StrLines<'a>,
    rules: &'a Rules,
    line: usize,
    recent: &'a RefCell<Recent>,
    above: OnceCell<Vec<Record>>,
    /// Matches found before the segment at hand.
    first_match: Cell<usize>,
    near: OnceCell<Vec<Record>>,
    below: OnceCell<Vec<Record>>,
}

impl Reader<'_> {
    fn read(&self, out: &mut Vec<Match>) {
        let raw = self.lines.get(self.line);
        if raw.len() <= LONG_LINE {
            for segment in clean::segments(raw, 0) {
                self.read_segment(segment, out);
            }
            return;
        }
        self.read_long(raw, out);
    }

    /// Reads windows of a long line around its anchors. Each page has a share of its own, so that a bar that repeats one
    /// message does not hide another one behind it. Windows do not overlap: all together are no longer than the line.
    fn read_long(&self, raw: &str, out: &mut Vec<Match>) {
        let Some(gate) = self.rules.gate() else { return };
        let mut read = vec![0; self.rules.pages().len()];
        let mut at = 0;
        for hit in gate.find_overlapping_iter(raw) {
            // What may hold a split anchor says its pages only when it is clean.
            let is_spent = self.rules.page_of(&hit).is_some_and(|page| read[page] >= MOST_WINDOWS);
            if hit.start() < at || is_spent {
                continue;
            }
            let window = window(raw, hit.start()..hit.end(), at);
            at = window.end;
            for segment in clean::segments(&raw[window.clone()], window.start) {
                let mut pages = self.rules.candidates(&segment.text);
                pages.retain(|&page| read[page] < MOST_WINDOWS);
                pages.iter().for_each(|&page| read[page] += 1);
                self.read_pages(segment, pages, out);
            }
        }
    }

    fn read_segment(&self, segment: Segment, out: &mut Vec<Match>) {
        let pages = self.rules.candidates(&segment.text);
        self.read_pages(segment, pages, out);
    }

    /// Reads a segment with the pages whose anchors stand in it.
    fn read_pages(&self, segment: Segment, pages: Vec<usize>, out: &mut Vec<Match>) {
        if pages.is_empty() {
            return;
        }
        self.first_match.set(out.len());
        let record = echo::without_glued_source(record::read(segment));
        let Some(messages) = clean::json_messages(&record.body) else {
            // Most lines match nothing, and reading the lines above costs more than to match.
            let before = out.len();
            self.read_record(&record, &pages, out);
            if out.len() > before && echo::is_echo(&record, self.above()) {
                out.truncate(before);
            }
            return;
        };
        // A record of a data set: its strings are somebody's texts.
        if echo::is_quotation(&record) {
            return;
        }
        let inner: Vec<Record> = messages
            .into_iter()
            .map(|body| {
                let mut inner = echo::without_glued_source(record::read(body));
                inner.prefix.rank = inner.prefix.rank.or(record.prefix.rank);
                inner.prefix.time = inner.prefix.time.take().or_else(|| record.prefix.time.clone());
                inner.prefix.host = inner.prefix.host.take().or_else(|| record.prefix.host.clone());
                inner
            })
            .collect();
        for (i, record) in inner.iter().enumerate() {
            let above: Vec<Record> = inner[..i].iter().rev().take(LOOK_BACK).cloned().collect();
            if echo::is_echo(record, &above) {
                continue;
            }
            for &page in &pages {
                let below = &inner[i + 1..];
                self.try_page(page, record, Lookout { line: self.line, below, step: 0 }, out);
            }
        }
    }

    fn read_record(&self, record: &Record, pages: &[usize], out: &mut Vec<Match>) {
        for &page in pages {
            self.try_page(page, record, Lookout { line: self.line, below: &[], step: 1 }, out);
        }
    }

    fn try_page(&self, index: usize, record: &Record, look: Lookout<'_>, out: &mut Vec<Match>) {
        let page = &self.rules.pages()[index];
        let compiled = page.compiled();
        let body = record.body.text.as_str();
        let one_line = page.front.continues == 0 && !page.front.wraps;
        if one_line && !compiled.patterns.iter().any(|pattern| pattern.is_match(body)) {
            return;
        }
        if compiled.unless.iter().any(|veto| veto.is_match(body)) {
            return;
        }
        let before = out.len();
        let below = |count: usize| -> &[Record] {
            let all = if look.step == 0 { look.below } else { self.below(count) };
            &all[..count.min(all.len())]
        };
        let here = Place { line: look.line, step: look.step };
        let rest = if page.front.continues > 0 { below(page.front.continues) } else { &[] };
        self.all_matches(index, &compiled.patterns, &Joined::new(record, rest, '\n'), here, out);
        if !page.front.wraps {
            return;
        }
        // A match that stops well inside its line is whole; one near the line's end may go on below: the rest of the line
        // can be the beginning of a clause that the break cut in two.
        let ends_inside = |m: &Match| m.span.end_line == look.line && m.span.end + CUT_CLAUSE < record.body.raw_stop(body.len());
        if out.len() > before && out[before..].iter().all(ends_inside) {
            return;
        }
        self.try_wrapped(index, page, record, below(MOST_WRAPPED_LINES), here, before, out);
    }

    /// Looks for a message that was broken over lines at any character: both it and the pattern lose their white space.
    #[allow(clippy::too_many_arguments)]
    fn try_wrapped(&self, index: usize, page: &Page, record: &Record, below: &[Record], here: Place, before: usize, out: &mut Vec<Match>) {
        let patterns = &page.compiled().squeezed;
        let below = &below[..below.iter().take_while(|line| !line.body.text.is_empty()).count()];
        let joined = Joined::squeezed(record, below);
        let mut found = Vec::new();
        if let Some(vetoed) = self.all_matches(index, patterns, &joined, here, &mut found) {
            // The line alone was only the beginning of it.
            let from = |m: &Match| (m.span.line, m.span.start) == (vetoed.line, vetoed.start);
            if let Some(at) = out[before..].iter().position(from) {
                out.remove(before + at);
            }
            return;
        }
        if let Some(wrapped) = found.into_iter().next() {
            match out[before..].iter().position(|m| m.span.start == wrapped.span.start && m.span.line == wrapped.span.line) {
                Some(at) if out[before + at].captures.len() < wrapped.captures.len() => out[before + at] = wrapped,
                None if out.len() == before => out.push(wrapped),
                _ => {}
            }
            return;
        }
        // A line that says something by itself is hardly the middle of a message that begins above.
        if out.len() > self.first_match.get() || here.step == 0 {
            return;
        }
        let above = self.above();
        for back in 1..=MOST_WRAPPED_ABOVE.min(above.len()) {
            if above[back - 1].body.text.is_empty() {
                return;
            }
            let start = &above[back - 1];
            let mut rest: Vec<Record> = above[..back - 1].iter().rev().cloned().collect();
            rest.push(record.clone());
            rest.extend(below.iter().cloned());
            let joined = Joined::squeezed(start, &rest);
            let there = Place { line: here.line - back, step: 1 };
            let mut found = Vec::new();
            self.all_matches(index, patterns, &joined, there, &mut found);
            if let Some(mut wrapped) = found.into_iter().find(|m| m.span.end_line >= here.line) {
                if !page.compiled().unless.iter().any(|veto| veto.is_match(&start.body.text)) && !echo::is_echo(start, &above[back..]) {
                    wrapped.line = here.line;
                    out.push(wrapped);
                }
                return;
            }
        }
    }

    /// Adds the matches that begin in the first record of a joined text. Where one of them is vetoed as a whole, that one
    /// comes back.
    fn all_matches(&self, page: usize, patterns: &[Regex], joined: &Joined, place: Place, out: &mut Vec<Match>) -> Option<Span> {
        let unless = &self.rules.pages()[page].compiled().unless;
        let mut vetoed = None;
        for pattern in patterns {
            let before = out.len();
            for found in pattern.captures_iter(&joined.text).take(MOST_MATCHES) {
                let Some(whole) = found.get(0).filter(|whole| whole.start() < joined.first.max(1) && !whole.is_empty()) else { continue };
                if joined.is_vetoed(whole.end(), unless) {
                    vetoed = Some(joined.span(whole.range(), place));
                    continue;
                }
                out.push(Match {
                    page,
                    line: place.line,
                    span: joined.span(whole.range(), place),
                    length: whole.len(),
                    captures: captures(pattern, &found, joined, place),
                    prefix: joined.records[0].prefix.clone(),
                });
            }
            if out.len() > before || vetoed.is_some() {
                break;
            }
        }
        vetoed
    }

    /// The records above, nearest first.
    fn above(&self) -> &[Record] {
        self.above.get_or_init(|| (1..=LOOK_BACK.min(self.line)).map(|back| self.neighbour(self.line - back)).collect())
    }

    /// At least `count` records below, where there are so many, nearest first. Few are asked for more often than many.
    fn below(&self, count: usize) -> &[Record] {
        let read = |most: usize| {
            let last = self.lines.count().min(self.line + 1 + most);
            (self.line + 1..last).map(|i| self.neighbour(i)).collect()
        };
        if count <= MOST_WRAPPED_LINES {
            self.near.get_or_init(|| read(MOST_WRAPPED_LINES))
        } else {
            self.below.get_or_init(|| read(MOST_CONTINUATION))
        }
    }

    /// A neighbouring line: what is seen of it last, when it has carriage returns.
    fn neighbour(&self, i: usize) -> Record {
        Record::clone(&self.recent.borrow_mut().line(self.lines, i))
    }
}

/// Where the records below a message come from: the lines of the text, or the inner lines of a JSON record.
struct Lookout<'a> {
    line: usize,
    below: &'a [Record],
    step: usize,
}

/// The line of a joined text's first record, and by how much the line rises from record to record.
#[derive(Clone, Copy)]
struct Place {
    line: usize,
    step: usize,
}

/// Several records as one text, with the way back.
struct Joined<'a> {
    text: String,
    records: Vec<&'a Record>,
    /// (offset in `text`, record, offset in its body), one entry a run of equal text.
    runs: Vec<(usize, usize, usize)>,
    first: usize,
}

impl<'a> Joined<'a> {
    fn new(first: &'a Record, rest: &'a [Record], glue: char) -> Self {
        let mut joined = Joined { text: String::new(), records: Vec::with_capacity(1 + rest.len()), runs: Vec::new(), first: 0 };
        for (i, record) in std::iter::once(first).chain(rest).enumerate() {
            if i > 0 {
                joined.text.push(glue);
            }
            joined.runs.push((joined.text.len(), i, 0));
            joined.text.push_str(&record.body.text);
            joined.records.push(record);
            if i == 0 {
                joined.first = joined.text.len();
            }
        }
        joined
    }

    fn squeezed(first: &'a Record, rest: &'a [Record]) -> Self {
        let mut joined = Joined { text: String::new(), records: Vec::with_capacity(1 + rest.len()), runs: Vec::new(), first: 0 };
        for (i, record) in std::iter::once(first).chain(rest).enumerate() {
            if joined.text.len() > MOST_WRAPPED_BYTES {
                break;
            }
            let body = record.body.text.as_str();
            for word in body.split_whitespace() {
                joined.runs.push((joined.text.len(), i, word.as_ptr() as usize - body.as_ptr() as usize));
                joined.text.push_str(word);
            }
            joined.records.push(record);
            if i == 0 {
                joined.first = joined.text.len();
            }
        }
        joined
    }

    fn locate(&self, at: usize) -> (usize, usize) {
        let run = self.runs.partition_point(|&(start, _, _)| start <= at).saturating_sub(1);
        self.runs.get(run).map_or((0, 0), |&(start, record, offset)| (record, offset + (at - start)))
    }

    /// Is a message that goes on over several records up to this byte vetoed when it is read as a whole? The break may stand
    /// between two words or inside one. (The first record alone was asked before.)
    fn is_vetoed(&self, end: usize, unless: &[Regex]) -> bool {
        let (last, _) = self.locate(floor_border(&self.text, end.saturating_sub(1)));
        if last == 0 || unless.is_empty() {
            return false;
        }
        ["", " "].iter().any(|glue| {
            let whole = self.records[..=last].iter().map(|record| record.body.text.as_str()).collect::<Vec<_>>().join(glue);
            unless.iter().any(|veto| veto.is_match(&whole))
        })
    }

    /// The text of a range with its white space, where it stands on one line.
    fn as_written(&self, range: std::ops::Range<usize>) -> String {
        let (first, start) = self.locate(range.start);
        let (last, end) = self.locate(floor_border(&self.text, range.end - 1));
        match self.records.get(first).map(|record| record.body.text.as_str()) {
            Some(body) if first == last && end >= start => {
                let stop = end + body[end..].chars().next().map_or(0, char::len_utf8);
                body[start..stop].to_owned()
            }
            _ => self.text[range].to_owned(),
        }
    }

    fn span(&self, range: std::ops::Range<usize>, place: Place) -> Span {
        let (first, start) = self.locate(range.start);
        let last_char = floor_border(&self.text, range.end.saturating_sub(1)).max(range.start);
        let (last, end) = self.locate(last_char);
        let end = end + (range.end - last_char);
        Span {
            line: place.line + first * place.step,
            start: self.records[first].body.raw_start(start),
            end_line: place.line + last * place.step,
            end: self.records[last].body.raw_stop(end.min(self.records[last].body.text.len())),
        }
    }
}

fn captures(pattern: &Regex, found: &Captures<'_>, joined: &Joined<'_>, place: Place) -> Vec<Capture> {
    pattern
        .capture_names()
        .flatten()
        .filter_map(|name| {
            let part = found.name(name)?;
            let span = joined.span(part.range(), place);
            (!part.is_empty()).then(|| Capture { name: name.to_owned(), text: joined.as_written(part.range()), span })
        })
        .collect()
}

/// The window around an anchor of a long line, not before `from`, cut at carriage returns where one is near.
fn window(raw: &str, anchor: std::ops::Range<usize>, from: usize) -> std::ops::Range<usize> {
    let near = floor_border(raw, anchor.start.saturating_sub(WINDOW.0)).max(from.min(anchor.start));
    let far = floor_border(raw, anchor.end + WINDOW.1);
    let start = raw[near..anchor.start].rfind('\r').map_or(near, |cr| near + cr + 1);
    let end = raw[anchor.start..far].find('\r').map_or(far, |cr| anchor.start + cr);
    start..end.max(anchor.end)
}
