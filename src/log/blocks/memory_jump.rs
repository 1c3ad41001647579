//! Memory at places of one step: how much more there is behind backward than behind forward.
//!
//! A line that names a place (`after forward`, `before backward`, `[step 3] after backward: allocated 25.3 GB`) carries its
//! size, or DeepSpeed's `MA … Max_MA …` stands below it. Live tensors are compared with live tensors, a peak with a peak.
//! Every printer's GB and MB are binary here.

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

use super::Block;
use super::row::{self, Row};
use crate::log::finding::Number;
use crate::log::memory::reading::{self, Statistic};
use crate::log::progress::{self, Counter};
use crate::log::rules::page::ascii;
use crate::log::scan::Match;
use crate::log::units::{Unit, Value};
use crate::log::vocabulary::Severity;
use crate::text::Lines;

/// Behind backward there must be so many times what there was behind forward ...
const LEAST_RATIO: f64 = 1.5;
/// ... and at least so much more.
const LEAST_RISE: u64 = 256 << 20;
/// Lines between the two places of one step.
const MOST_BETWEEN: usize = 64;
/// Lines above that are searched for the step before.
const MOST_ABOVE: usize = 2000;

struct Forms {
    places: Regex,
    deepspeed: Regex,
    size: Regex,
}

static FORMS: LazyLock<Option<Forms>> = LazyLock::new(|| {
    let form = |text: &str| Regex::new(&ascii(text, true)).ok();
    const SIZE: &str = r"(?P<size>\d[\d,]*(?:\.\d+)? ?(?:[KMG]i?B|[MG])\b)";
    const PLACES: &str = concat!(
        r"(?i)\b(?:before|pre)[ _-](?:the )?(?:model[ ._])?(?:forward|fwd)",
        r"|(?P<forward>\b(?:after|post|end of)[ _-](?:the )?(?:model[ ._])?(?:forward|fwd)",
        r"|\b(?:before|pre)[ _-](?:the )?(?:loss[._])?(?:backward|bwd)|\b(?:forward|fwd)(?:\]|:| (?:pass|done|peak|mem)))",
        r"|(?P<backward>\b(?:after|post|end of)[ _-](?:the )?(?:loss[._])?(?:backward|bwd)",
        r"|\b(?:before|pre)[ _-](?:the )?optim(?:izer)?|\b(?:backward|bwd)(?:\]|:| (?:pass|done|peak|mem)))",
    );
    Some(Forms { places: form(PLACES)?, deepspeed: form(&format!(r"\bMA {SIZE}[\s|]+Max_MA (?P<peak>[\d.]+ [GM]B)"))?, size: form(SIZE)? })
});

/// A place of a step, with what a line says of memory there.
struct Place {
    line: usize,
    is_backward: bool,
    name: String,
    rank: Option<u32>,
    step: Option<u64>,
    /// Live tensors, where the line says them.
    live: Option<Number>,
    /// The peak, where the line says it.
    peak: Option<Number>,
}

impl Place {
    fn is_same(&self, other: &Place) -> bool {
        self.rank == other.rank && self.name == other.name
    }
}

const LIVE: &str = "Live tensors";
const PEAK: &str = "The peak";

/// The growth from behind forward to behind backward at the match; nothing where it is small, or told for the step before.
pub fn read(m: &Match, lines: &dyn Lines) -> Option<Block> {
    let forms = FORMS.as_ref()?;
    let backward = places(m.span.line, forms, lines).into_iter().find(|place| place.is_backward)?;
    let (what, before, after) = jump(&backward, forms, lines)?;
    let first = is_first(&backward, forms, lines);
    // Of steps that are all alike the first tells the gradients, the second that it goes on; the others add nothing.
    let earlier = step_before(&backward, forms, lines);
    if earlier.is_some_and(|earlier| jump(&earlier, forms, lines).is_some() && (first || !is_first(&earlier, forms, lines))) {
        return None;
    }
    let mut block = Block { end: (m.span.end_line, m.span.end), ..Block::default() };
    let rise = after.value.as_f64() - before.value.as_f64();
    block.numbers = vec![Number { name: "forward".to_owned(), ..before }, Number { name: "backward".to_owned(), ..after }];
    block.numbers.push(row::bytes("rise", rise as u64));
    block.texts.push(("what".to_owned(), what.to_owned()));
    let (name, otherwise) = if first { ("first", "the first step shown") } else { ("later", "a later step") };
    block.texts.push((name.to_owned(), backward.step.map_or_else(|| otherwise.to_owned(), |step| format!("step {step}"))));
    block.severity = Some(if first || what == PEAK { Severity::Info } else { Severity::Warning });
    Some(block)
}

/// Is it the step that makes the gradients: the first one, or the first that is shown where steps have no number?
fn is_first(backward: &Place, forms: &Forms, lines: &dyn Lines) -> bool {
    backward.step.map_or_else(|| step_before(backward, forms, lines).is_none(), |step| step <= 1)
}

/// The two sizes of a step, when the second is far above the first.
fn jump(backward: &Place, forms: &Forms, lines: &dyn Lines) -> Option<(&'static str, Number, Number)> {
    let forward = forward_of(backward, forms, lines)?;
    let pairs = [(LIVE, forward.live, backward.live.clone()), (PEAK, forward.peak, backward.peak.clone())];
    pairs.into_iter().find_map(|(what, before, after)| {
        let (before, after) = (before?, after?);
        let (low, high) = (before.value.bytes()?, after.value.bytes()?);
        (low > 0 && high as f64 >= LEAST_RATIO * low as f64 && high - low >= LEAST_RISE).then_some((what, before, after))
    })
}

/// The place behind forward in the same step.
fn forward_of(backward: &Place, forms: &Forms, lines: &dyn Lines) -> Option<Place> {
    for i in (backward.line.saturating_sub(MOST_BETWEEN)..=backward.line).rev() {
        let here = places(i, forms, lines);
        // The line before belongs to another step.
        if i < backward.line && here.iter().any(|place| place.is_backward && place.is_same(backward)) {
            return None;
        }
        if let Some(forward) = here.into_iter().find(|place| !place.is_backward && place.rank == backward.rank) {
            return (forward.step.is_none() || forward.step == backward.step).then_some(forward);
        }
    }
    None
}

/// The same place in the step before.
fn step_before(now: &Place, forms: &Forms, lines: &dyn Lines) -> Option<Place> {
    let above = (now.line.saturating_sub(MOST_ABOVE)..now.line).rev();
    above.flat_map(|i| places(i, forms, lines)).find(|place| place.is_backward && place.is_same(now))
}

/// Reads a line as places with their sizes.
fn places(i: usize, forms: &Forms, lines: &dyn Lines) -> Vec<Place> {
    // Most lines name no place.
    let raw = lines.line(i);
    if !["ward", "wd", "WARD", "ptim"].iter().any(|letters| raw.contains(letters)) {
        return Vec::new();
    }
    let row = Row::read(lines, i);
    let text = row.text();
    let names: Vec<(bool, Range<usize>)> = forms
        .places
        .captures_iter(text)
        .filter_map(|found| {
            let backward = found.name("backward");
            Some((backward.is_some(), backward.or_else(|| found.name("forward"))?.range()))
        })
        .collect();
    let step = progress::counter(text).filter(|(_, counter)| *counter == Counter::Step).map(|(step, _)| step);
    let of = |(nth, (is_backward, name)): (usize, &(bool, Range<usize>))| {
        // Of several places on a line each has what stands behind it.
        let part = if names.len() == 1 { 0..text.len() } else { name.start..names.get(nth + 1).map_or(text.len(), |next| next.1.start) };
        let (live, peak) = sizes(&row, part, name.end, forms).or_else(|| deepspeed(&Row::read(lines, i + 1), forms))?;
        let name = row.get(name).to_ascii_lowercase();
        Some(Place { line: i, is_backward: *is_backward, name, rank: row.rank(), step, live, peak })
    };
    names.iter().enumerate().filter_map(of).collect()
}

/// Live tensors and the peak that a part of a line prints.
fn sizes(row: &Row, part: Range<usize>, behind_name: usize, forms: &Forms) -> Option<(Option<Number>, Option<Number>)> {
    let text = &row.text()[part.clone()];
    let readings = reading::read(text);
    let of = |statistic: Statistic| {
        let found = readings.iter().find(|one| one.statistic == statistic)?;
        Some(number(row, part.start + found.value.start..part.start + found.value.end, found.bytes))
    };
    let (live, peak) = (of(Statistic::Used), of(Statistic::Peak));
    if live.is_some() || peak.is_some() {
        return Some((live, peak));
    }
    // `after forward: 12.1 GB`: the only size there is.
    let bare = forms.size.captures_at(&row.text()[..part.end], behind_name)?.name("size")?;
    let number = row.number("", bare.range(), Unit::Binary);
    let is_peak = ["peak", "max", "Peak", "Max"].iter().any(|word| text.contains(word));
    Some(if is_peak { (None, number) } else { (number, None) })
}

fn number(row: &Row, range: Range<usize>, bytes: f64) -> Number {
    let (text, span) = (row.get(&range).to_owned(), Some(row.span(range)));
    Number { name: String::new(), value: Value::Bytes(bytes as u64), unit: Unit::Binary, text, span }
}

/// DeepSpeed's line below the name of the place.
fn deepspeed(row: &Row, forms: &Forms) -> Option<(Option<Number>, Option<Number>)> {
    let found = forms.deepspeed.captures(row.text())?;
    let number = |name: &str| row.number("", found.name(name)?.range(), Unit::Binary);
    Some((number("size"), number("peak")))
}
