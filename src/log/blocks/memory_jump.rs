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
    forward: Regex,
    backward: Regex,
    deepspeed: Regex,
    size: Regex,
}

static FORMS: LazyLock<Option<Forms>> = LazyLock::new(|| {
    let form = |text: &str| Regex::new(&ascii(text, true)).ok();
    const SIZE: &str = r"(?P<size>\d[\d,]*(?:\.\d+)? ?(?:[KMG]i?B|[MG])\b)";
    Some(Forms {
        forward: form(
            r"(?i)\b(?:after|post|end of)[ _-](?:the )?(?:model[ ._])?(?:forward|fwd)|\b(?:before|pre)[ _-](?:the )?(?:loss[._])?(?:backward|bwd)|\bforward peak",
        )?,
        backward: form(
            r"(?i)\b(?:after|post|end of)[ _-](?:the )?(?:loss[._])?(?:backward|bwd)|\b(?:before|pre)[ _-](?:the )?optim(?:izer)?|\bbackward peak",
        )?,
        deepspeed: form(&format!(r"\bMA {SIZE}[\s|]+Max_MA (?P<peak>[\d.]+ [GM]B)"))?,
        size: form(SIZE)?,
    })
});

/// A line at a place of a step.
struct Place {
    line: usize,
    name: String,
    rank: Option<u32>,
    step: Option<u64>,
    /// Live tensors, where the line says them.
    live: Option<Number>,
    /// The peak, where the line says it.
    peak: Option<Number>,
}

/// The growth from behind forward to behind backward at the match; nothing where it is small, or told for the step before.
pub fn read(m: &Match, lines: &dyn Lines) -> Option<Block> {
    let forms = FORMS.as_ref()?;
    let backward = place(m.span.line, &forms.backward, forms, lines)?;
    let (what, before, after) = jump(&backward, forms, lines)?;
    let earlier = step_before(&backward, forms, lines);
    let is_first = earlier.is_none() || backward.step.is_some_and(|step| step <= 1);
    // Of steps that are all alike the first tells the gradients, the second that it goes on; the others add nothing.
    if let Some(earlier) = &earlier {
        let told = step_before(earlier, forms, lines).is_some() && jump(earlier, forms, lines).is_some();
        if told || is_first {
            return None;
        }
    }
    let mut block = Block { end: (m.span.end_line, m.span.end), ..Block::default() };
    let rise = after.value.as_f64() - before.value.as_f64();
    block.numbers = vec![Number { name: "forward".to_owned(), ..before }, Number { name: "backward".to_owned(), ..after }];
    block.numbers.push(row::bytes("rise", rise as u64));
    block.texts.push(("what".to_owned(), what.to_owned()));
    if is_first {
        block.texts.push(("first".to_owned(), "the first step shown".to_owned()));
    }
    block.severity = Some(if is_first || what == PEAK { Severity::Info } else { Severity::Warning });
    Some(block)
}

const LIVE: &str = "Live tensors";
const PEAK: &str = "The peak";

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
    for i in (backward.line.saturating_sub(MOST_BETWEEN)..backward.line).rev() {
        if let Some(forward) = place(i, &forms.forward, forms, lines).filter(|place| place.rank == backward.rank) {
            return (forward.step.is_none() || forward.step == backward.step).then_some(forward);
        }
        // The line before belongs to another step.
        if place(i, &forms.backward, forms, lines).is_some_and(|place| place.rank == backward.rank && place.name == backward.name) {
            return None;
        }
    }
    None
}

/// The same place in the step before.
fn step_before(place_now: &Place, forms: &Forms, lines: &dyn Lines) -> Option<Place> {
    (place_now.line.saturating_sub(MOST_ABOVE)..place_now.line)
        .rev()
        .filter_map(|i| place(i, &forms.backward, forms, lines))
        .find(|place| place.rank == place_now.rank && place.name == place_now.name)
}

/// Reads a line as a place with its sizes.
fn place(i: usize, names: &Regex, forms: &Forms, lines: &dyn Lines) -> Option<Place> {
    // Most lines name no place.
    let raw = lines.line(i);
    if !["ward", "wd", "WARD", "ptim"].iter().any(|letters| raw.contains(letters)) {
        return None;
    }
    let row = Row::read(lines, i);
    let name = names.find(row.text())?;
    let step = progress::counter(row.text()).filter(|(_, counter)| *counter == Counter::Step).map(|(step, _)| step);
    let (live, peak) = sizes(&row, name.end(), forms).or_else(|| deepspeed(&Row::read(lines, i + 1), forms))?;
    Some(Place { line: i, name: name.as_str().to_ascii_lowercase(), rank: row.rank(), step, live, peak })
}

/// Live tensors and the peak that a line prints.
fn sizes(row: &Row, from: usize, forms: &Forms) -> Option<(Option<Number>, Option<Number>)> {
    let readings = reading::read(row.text());
    let of =
        |statistic: Statistic| readings.iter().find(|one| one.statistic == statistic).map(|one| number(row, one.value.clone(), one.bytes));
    let (live, peak) = (of(Statistic::Used), of(Statistic::Peak));
    if live.is_some() || peak.is_some() {
        return Some((live, peak));
    }
    // `after forward: 12.1 GB`: the only size there is.
    let bare = forms.size.captures_at(row.text(), from)?.name("size")?;
    Some((row.number("", bare.range(), Unit::Binary), None))
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
