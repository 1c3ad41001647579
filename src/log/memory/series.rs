//! Series of memory in the step lines of a stretch of a log: one a rank, kind of line and name.
//!
//! A long stretch is read in windows spread over it, so that the cost has a bound and depends on the text alone.

use super::reading::{self, Statistic};
use crate::log::finding::{Number, Span};
use crate::log::progress::{self, Counter};
use crate::log::record::{self, Prefix, Record};
use crate::log::units::{Unit, Value};
use crate::text::{Lines, clean, floor_border};

/// Lines of one window.
const WINDOW: usize = 32;
/// Series that are followed.
const MOST_SERIES: usize = 128;
/// Bytes of a line that are read: its first ones, and of a line with carriage returns its last ones.
const MOST_BYTES: usize = 2048;
/// Bytes of the words that tell one kind of line from another.
const MOST_WORDS: usize = 40;

/// Lines of one list of metrics.
const MOST_LIST: usize = 64;

/// Words of lines that count their parts and hold more memory with each, as they should: not of a training step.
const GROWS_BY_DESIGN: [&str; 8] = ["oading", "ecode", "ecoding", "enerat", "uantiz", "ayer", "warmup", "Warmup"];

/// A size at a step.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    pub line: usize,
    /// Raw column at which the name begins.
    pub start: usize,
    /// Raw columns of the value.
    pub value: (usize, usize),
    pub step: Option<u64>,
    pub bytes: f64,
    /// Size of the card, where the line says it.
    pub total: Option<f64>,
    /// What the step worked on, where the line says it.
    pub shape: Option<f64>,
}

/// What tells one series from another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Key {
    pub rank: Option<u32>,
    /// The letters in front of the line's first digit.
    words: String,
    pub statistic: Statistic,
    /// Name as it is printed.
    pub name: String,
    /// What its steps are.
    pub counter: Option<Counter>,
}

impl Key {
    /// Are both of the same lines?
    pub fn is_beside(&self, other: &Key) -> bool {
        self.rank == other.rank && self.words == other.words
    }

    /// Are both of lines of one kind, whoever wrote them?
    pub fn has_words_of(&self, other: &Key) -> bool {
        self.words == other.words
    }
}

/// Samples of one key in line order; of lines of one step the largest (or the least that is free).
#[derive(Clone, Debug)]
pub(super) struct Series {
    pub key: Key,
    pub samples: Vec<Sample>,
}

impl Series {
    pub fn bytes(&self) -> Vec<f64> {
        self.samples.iter().map(|sample| sample.bytes).collect()
    }

    /// Do its lines count steps, not epochs?
    pub fn counts_steps(&self) -> bool {
        self.key.counter == Some(Counter::Step)
    }

    fn add(&mut self, sample: Sample) {
        let again = self.samples.last_mut().filter(|last| last.step.is_some() && last.step == sample.step);
        let Some(last) = again else {
            self.samples.push(sample);
            return;
        };
        last.bytes = if self.key.statistic == Statistic::Free { last.bytes.min(sample.bytes) } else { last.bytes.max(sample.bytes) };
    }
}

/// The series of the lines `[first, until)`, of which at most `most` are read.
pub(super) fn collect(first: usize, until: usize, most: usize, lines: &dyn Lines) -> Vec<Series> {
    let mut out: Vec<Series> = Vec::new();
    let mut last = 0;
    for line in windows(first, until, most).flatten() {
        let Some(step_line) = read(line, lines) else { continue };
        for (key, sample) in step_line {
            // The series of a log take turns.
            let next = (0..out.len()).map(|i| (last + i) % out.len()).find(|&i| out[i].key == key);
            match next {
                Some(at) => (last, _) = (at, out[at].add(sample)),
                None if out.len() < MOST_SERIES => out.push(Series { key, samples: vec![sample] }),
                None => {}
            }
        }
    }
    out
}

/// Ranges of lines: all of them where they are few, else windows spread evenly, the last one at the end.
fn windows(first: usize, until: usize, most: usize) -> impl Iterator<Item = std::ops::Range<usize>> {
    let count = until.saturating_sub(first);
    let (parts, length) = if count <= most { (1, count) } else { ((most / WINDOW).max(2), WINDOW) };
    (0..parts).map(move |part| {
        let start = first + (count - length) * part / (parts - 1).max(1);
        start..start + length
    })
}

/// The sizes of a step line; `None` when it is none.
fn read(line: usize, lines: &dyn Lines) -> Option<Vec<(Key, Sample)>> {
    let raw = lines.line(line);
    let (start, piece) = piece(&raw);
    if !reading::may_hold(piece) {
        return None;
    }
    clean::segments(piece, start).into_iter().rev().find_map(|segment| read_record(line, &unwrapped(segment), lines))
}

/// The prefix of a line.
pub(super) fn prefix(line: usize, lines: &dyn Lines) -> Prefix {
    let raw = lines.line(line);
    let (start, piece) = piece(&raw);
    clean::segments(piece, start).pop().map(|segment| unwrapped(segment).prefix).unwrap_or_default()
}

/// The part of a line that is read, and where it begins.
fn piece(raw: &str) -> (usize, &str) {
    let returns = memchr::memchr(b'\r', raw.as_bytes()).is_some();
    let start = if returns { floor_border(raw, raw.len().saturating_sub(MOST_BYTES)) } else { 0 };
    (start, &raw[start..floor_border(raw, start + MOST_BYTES)])
}

/// A line without its prefix, and without the JSON record that a container's log wraps around it.
fn unwrapped(segment: clean::Segment) -> Record {
    let record = record::read(segment);
    let inner = clean::json_messages(&record.body).and_then(|messages| messages.into_iter().next());
    inner.map(record::read).unwrap_or(record)
}

fn read_record(line: usize, record: &Record, lines: &dyn Lines) -> Option<Vec<(Key, Sample)>> {
    let text = record.body.text.as_str();
    let readings = reading::read(text);
    if readings.is_empty() {
        return None;
    }
    let mut counter = progress::counter(text);
    let mut words = words_in_front(text);
    // A line that counts its steps is one without any further look, unless it counts something else.
    let is_step = (counter.is_some() && !is_no_training(text)) || progress::read(text).is_some();
    if !is_step {
        // A metric on a line of its own: `Train memory/current_allocated_mem: 6.5`.
        counter = Some(step_of_list(line, lines).filter(|_| counter.is_none() && readings[0].name.contains('/'))?);
        words = String::new();
    }
    let rank = record.prefix.rank.or_else(|| rank_in(text));
    let shape = reading::shape(text);
    let body = &record.body;
    Some(
        readings
            .into_iter()
            .map(|found| {
                let key = Key { rank, words: words.clone(), statistic: found.statistic, name: found.name, counter: counter.map(|c| c.1) };
                let (start, value) = (body.raw_start(found.start), (body.raw_start(found.value.start), body.raw_stop(found.value.end)));
                let step = counter.map(|(step, _)| step);
                (key, Sample { line, start, value, step, bytes: found.bytes, total: found.total, shape })
            })
            .collect(),
    )
}

/// The step at the head of a list of metrics, one a line: `[batch=10/1000]:` of Composer, `[step=10/1000]` of OLMo.
fn step_of_list(line: usize, lines: &dyn Lines) -> Option<(u64, Counter)> {
    (line.saturating_sub(MOST_LIST)..line).rev().find_map(|i| {
        let head = lines.line(i);
        let head = &head[..floor_border(&head, MOST_BYTES)];
        if head.contains("[batch=") || head.contains("[step=") { progress::counter(head) } else { None }
    })
}

fn is_no_training(text: &str) -> bool {
    progress::is_other_work(text) || GROWS_BY_DESIGN.iter().any(|word| text.contains(word))
}

/// The text in front of the first digit.
fn words_in_front(text: &str) -> String {
    let end = text.find(|c: char| c.is_ascii_digit()).unwrap_or(text.len());
    text[..floor_border(text, end.min(MOST_WORDS))].trim().to_owned()
}

/// The rank that a line names in its text: `rank 3`, `[Rank 3]`, `rank=3`.
fn rank_in(text: &str) -> Option<u32> {
    let lower = text.get(..floor_border(text, 256))?.to_ascii_lowercase();
    let rest = lower[lower.find("rank")? + 4..].trim_start_matches([' ', '=', ':', '_']);
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    rest[..end].parse().ok()
}

/// Where a sample stands, from its name on.
pub(super) fn span(sample: &Sample) -> Span {
    Span { line: sample.line, start: sample.start, end_line: sample.line, end: sample.value.1 }
}

/// The value of a sample as it is printed.
pub(super) fn number(name: &str, sample: &Sample, lines: &dyn Lines) -> Number {
    let (start, end) = sample.value;
    let text = lines.line(sample.line).get(start..end).unwrap_or("").to_owned();
    let span = Some(Span { line: sample.line, start, end_line: sample.line, end });
    Number { name: name.to_owned(), value: Value::Bytes(sample.bytes as u64), unit: Unit::Binary, text, span }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::StrLines;

    fn series(text: &str, most: usize) -> Vec<Series> {
        let lines = StrLines::new(text);
        collect(0, lines.count(), most, &lines)
    }

    #[test]
    fn ranks_and_kinds_of_lines_are_series_of_their_own() {
        let text: String = (0..20)
            .map(|i| {
                format!("[rank{}]: step {i} loss 2.0 mem {i}1.0GB\nrank 5 step {i} mem {i}2GB\nval step {i} loss 3.1 mem 9.0GB\n", i % 2)
            })
            .collect();
        let all = series(&text, 1000);
        assert_eq!(all.iter().map(|one| one.samples.len()).collect::<Vec<_>>(), [10, 20, 20, 10], "{all:?}");
        assert_eq!(all.iter().map(|one| one.key.rank).collect::<Vec<_>>(), [Some(0), Some(5), None, Some(1)]);
    }

    #[test]
    fn lines_of_one_step_are_one_sample() {
        let all = series("step 1 loss 2 mem 4.0GB\nstep 1 loss 2 mem 5.0GB\nstep 2 loss 2 mem 4.5GB\n", 1000);
        assert_eq!(all[0].bytes(), [5.0 * 1073741824.0, 4.5 * 1073741824.0]);
    }

    #[test]
    fn a_long_stretch_is_read_in_windows_to_its_end() {
        let text: String = (0..10_000).map(|i| format!("step {i} loss 2.0 mem 4.0GB\n")).collect();
        let all = series(&text, 320);
        assert_eq!(all[0].samples.len(), 320 - 1, "the last line of the text is empty");
        assert_eq!(all[0].samples.last().unwrap().step, Some(9999));
    }

    #[test]
    fn the_last_segment_of_a_bar_counts() {
        let bar: String =
            (0..500).map(|i| format!("\r{i:4}/500 [00:10<14:00,  1.18it/s, train_loss=2.3{i:03}, mem=4{:02}MB]", i % 100)).collect();
        let all = series(&format!("Epoch 3: {bar}\n"), 100);
        assert_eq!((all[0].samples[0].step, all[0].samples[0].bytes), (Some(499), 499.0 * 1048576.0));
    }

    #[test]
    fn loading_and_decoding_grow_by_design() {
        assert!(series("Loading layer step 4 mem 4.0GB\ndecode step 4 mem 4.0GB\nthe card has memory: 4.0GB\n", 100).is_empty());
    }
}
