//! Step lines of all trainers: which step, and whether the loss is a number.
//!
//! Dialects: Hugging Face Trainer dicts (4.x bare, 5.x quoted), tqdm and Keras bars, Megatron, DeepSpeed, mmengine,
//! torchtitan, fairseq, plain prints. Read on demand around a finding, so that a healthy line costs nothing.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::LazyLock;

use regex::Regex;

use super::record;
use crate::text::{Lines, clean, floor_border};

/// A line that reports progress.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Progress {
    /// Step, iteration or batch number, the finest the line has.
    pub step: Option<u64>,
    /// How many steps there will be, where the line says so beside the step.
    pub total: Option<u64>,
    /// The epoch, a whole number. A line that only begins an epoch has nothing else.
    pub epoch: Option<u64>,
    /// The loss; `None` when the line has none.
    pub loss: Option<f64>,
    /// The norm of the gradient; `None` when the line has none.
    pub grad_norm: Option<f64>,
}

/// At most this much of a line is read.
const MOST_BYTES: usize = 4096;

/// Bars of other work than steps: another process may load on while this one is dead.
const OTHER_WORK: [&str; 12] = [
    "Loading",
    "loading",
    "ownload",
    "Fetching",
    "Capturing",
    "capture",
    "Processed prompts",
    "okeniz",
    "Resolving",
    "Converting",
    "Map",
    "shards",
];

/// What the number of a step line counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counter {
    /// Steps, iterations or batches.
    Step,
    /// Epochs.
    Epoch,
}

struct Dialects {
    step: Vec<(Counter, Regex)>,
    epoch: Regex,
    /// A line that begins an epoch and may say nothing else: `Epoch 3/10`.
    heading: Regex,
    loss: Regex,
    /// darknet prints the word behind the value.
    average: Regex,
    grad_norm: Regex,
}

/// A whole number of epochs.
const EPOCH: &str = r"(?i)\bepoch['\x22]?\s*[=:#\[ ]?\s*['\x22]?(\d+)(?:[^\w.]|\.\D|\.?$)";

static DIALECTS: LazyLock<Option<Dialects>> = LazyLock::new(|| {
    use Counter::{Epoch, Step};
    let step = [
        (Step, r"(?i)\b(?:global_?step(?:/max_steps)?|num_updates|micro_?step)['\x22]?\s*[=: ]\s*['\x22]?(\d+)"),
        // A whole number, thousands may be grouped; `ms/batch 11.11` and `2s/step` are speeds.
        (Step, r"(?i)(?:^|[^\w/])(?:iteration|iter|step|batch)s?\b['\x22]?\s*[=:#\[ ]?\s*['\x22]?(\d+(?:,\d{3})*)(?:[^\d.]|\.\D|\.?$)"),
        // Epoch and batch in brackets: mmengine, Swin, DETR; `Iter(train)` of mmengine counts over all epochs
        (Step, r"\[\d+(?:/\d+)?\]\s*\[\s*(\d+)/\s*(\d+)\]"),
        (Step, r"\bIter\(\w+\)\s*\[\s*(\d+)/\s*\d+\]"),
        // YOLO's table: epoch and memory come first, the bar behind them counts the batches of every epoch anew
        (Epoch, r"^\s*(\d+)/\d+\s+[\d.]+[GM]\s"),
        (Step, r"第\s*(\d+)\s*[步轮次]"),
        (Step, r"\[\s*(\d+)/(\d+) \(\s*\d+(?:\.\d+)?%\)\]"),
        (Step, r"\|\s*(\d+)/\s*(\d+) batches\b"),
        (Step, r"(\d+)/(\d+) \[[^\]]*(?:it/s|s/it|step)"),
        (Step, r"\b(\d+)/(\d+) \[[=>.━╸ ]"),
        (Step, r"\b(\d+)/(\d+) [━╸]"),
        (Epoch, EPOCH),
        // darknet: ` 1201: 2.312345, 2.100000 avg loss, 0.001000 rate`
        (Step, r"^\s*(\d+): [-+.\w]+, [-+.\w]+ avg\b"),
    ];
    Some(Dialects {
        step: step.into_iter().filter_map(|(counter, pattern)| Some((counter, Regex::new(pattern).ok()?))).collect(),
        epoch: Regex::new(EPOCH).ok()?,
        heading: Regex::new(r"(?i)^\W*(?:(?:train(?:ing)?|start(?:ing)?|begin(?:ning)?)\s+)?epoch\b").ok()?,
        average: Regex::new(r"^\s*\d+: [-+.\w]+, ([-+]?(?:\d[\d.]*(?:e[-+]?\d+)?|nan|inf)) avg\b").ok()?,
        loss: Regex::new(
            r"(?i)(?:^|[^\w/]|\b(?:train|actor|critic|policy)/)(?:\w*[_ ])?(?:loss(?:/[\w./]+)?|损失值?|損失)['\x22\]]?\s*[=:： ]\s*(?:tensor\()?['\x22]?([-+]?(?:\d[\d.]*(?:e[-+]?\d+)?|nan|inf\b))",
        )
        .ok()?,
        grad_norm: Regex::new(
            r"(?i)\b(?:\w+[/_ ])?(?:grad(?:ient)?[_ ]?norm|gnorm|grad_2\.0_norm_total)['\x22]?\s*[=: ]\s*(?:tensor\()?['\x22]?([-+]?(?:\d[\d.]*(?:e[-+]?\d+)?|nan|inf\b))",
        )
        .ok()?,
    })
});

/// Reads the progress of a clean message; `None` when it reports none.
pub fn read(text: &str) -> Option<Progress> {
    let text = &text[..floor_border(text, MOST_BYTES)];
    if !may_report(text) {
        return None;
    }
    let dialects = DIALECTS.as_ref()?;
    let number = |regex: &Regex| regex.captures(text).and_then(|c| c.get(1)).map(|m| m.as_str().to_ascii_lowercase());
    let real = |regex: &Regex| {
        number(regex).and_then(|text| match text.trim_start_matches(['-', '+']) {
            "nan" => Some(f64::NAN),
            "inf" => Some(f64::INFINITY),
            _ => text.trim_end_matches('.').parse().ok(),
        })
    };
    let loss = real(&dialects.loss).or_else(|| real(&dialects.average));
    let counted = dialects.counter(text);
    let (step, total) = (counted.map(|counted| counted.0), counted.and_then(|counted| counted.1));
    let epoch = number(&dialects.epoch).and_then(|text| text.parse().ok());
    // DeepSpeed's own step line carries no loss: `[Rank 0] step=120, skipped=6`.
    let bar = (text.contains("it/s") || text.contains("s/it") || text.contains("skipped=")) && !is_other_work(text);
    if loss.is_some() || (bar && step.is_some()) {
        return Some(Progress { step, total, epoch, loss, grad_norm: real(&dialects.grad_norm) });
    }
    (epoch.is_some() && dialects.heading.is_match(text)).then(|| Progress { epoch, ..Progress::default() })
}

/// The step, iteration, batch or epoch that a clean message names, and which of them it is.
pub fn counter(text: &str) -> Option<(u64, Counter)> {
    let (step, _, counter) = DIALECTS.as_ref()?.counter(&text[..floor_border(text, MOST_BYTES)])?;
    Some((step, counter))
}

/// Does a line speak of work that is no training, though it counts its parts?
pub fn is_other_work(text: &str) -> bool {
    OTHER_WORK.iter().any(|word| text.contains(word))
}

impl Dialects {
    /// The number, the number it counts up to where the line has it, and what is counted.
    fn counter(&self, text: &str) -> Option<(u64, Option<u64>, Counter)> {
        self.step.iter().find_map(|(counter, regex)| {
            let found = regex.captures(text)?;
            let whole = |nth: usize| found.get(nth)?.as_str().replace(',', "").parse().ok();
            Some((whole(1)?, whole(2), *counter))
        })
    }
}

/// Does a text have the words without which no dialect reports anything? Most lines have not, and need no closer look.
fn may_report(text: &str) -> bool {
    ["oss", "OSS", "it/s", "s/it", "skipped=", "损失", "poch ", "POCH ", "poch:", " avg"].iter().any(|word| text.contains(word))
}

/// The progress of line `i`: the last segment that has any.
pub fn of_line(lines: &dyn Lines, i: usize) -> Option<Progress> {
    let raw = lines.line(i);
    let start = raw.len().saturating_sub(MOST_BYTES);
    let start = (start..raw.len()).find(|&at| raw.is_char_boundary(at)).unwrap_or(0);
    // Colour codes may stand inside a word, so that only the clean text shows it.
    if !may_report(&raw[start..]) && !raw.contains('\x1b') && !raw.contains("^[") {
        return None;
    }
    clean::segments(&raw[start..], start).into_iter().rev().find_map(|segment| read(&record::read(segment).body.text))
}

/// The step lines of a text, each line read at most once, however many findings ask for it.
pub struct Steps<'a> {
    /// The text.
    pub lines: &'a dyn Lines,
    known: RefCell<Known>,
}

/// A bit for each line that was read, and what the few with progress say.
#[derive(Default)]
struct Known {
    read: Vec<u64>,
    progress: HashMap<usize, Progress>,
}

impl<'a> Steps<'a> {
    /// Nothing is read yet.
    pub fn new(lines: &'a dyn Lines) -> Self {
        Steps { lines, known: RefCell::default() }
    }

    /// The progress of line `i`.
    pub fn at(&self, i: usize) -> Option<Progress> {
        let mut known = self.known.borrow_mut();
        let (word, bit) = (i / 64, 1u64 << (i % 64));
        if known.read.get(word).is_some_and(|bits| bits & bit != 0) {
            return known.progress.get(&i).copied();
        }
        let now = of_line(self.lines, i);
        if known.read.len() <= word {
            known.read.resize(word + 1, 0);
        }
        known.read[word] |= bit;
        if let Some(now) = now {
            known.progress.insert(i, now);
        }
        now
    }

    /// Number of lines of the text.
    pub fn count(&self) -> usize {
        self.lines.count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dialects() {
        let cases = [
            ("{'loss': 2.3451, 'grad_norm': 1.23, 'learning_rate': 4.9e-05, 'epoch': 0.01}", None, Some(2.3451)),
            ("{'loss': '2.345', 'grad_norm': '1.235', 'epoch': '0.01'}", None, Some(2.345)),
            ("Epoch 10, Batch 240, Loss: 2.354", Some(240), Some(2.354)),
            ("Batch 319: loss 0.3127", Some(319), Some(0.3127)),
            ("iteration     5426/  250000 | consumed samples: 1 | lm loss: 1.9E+00 | loss scale: 1.0", Some(5426), Some(1.9)),
            ("100/100 [==============================] - 151s 2s/step - loss: 1.9857", Some(100), Some(1.9857)),
            ("  1%|▏         | 22/1752 [01:02<1:21:36,  2.83s/it]", Some(22), None),
            ("step: 12  loss:  4.1234  grad_norm:  1.0", Some(12), Some(4.1234)),
            ("[logging.py:96:log_dist] [Rank 0] step=120, skipped=6, lr=[0.0001], mom=[(0.9, 0.999)]", Some(120), None),
            ("step:12 - actor/entropy:0.31 - actor/pg_loss:0.0105 - actor/grad_norm:0.21", Some(12), Some(0.0105)),
            ("\t Train loss/train/total: 11.8600", None, Some(11.86)),
            ("      6/100      6.61G      1.194      1.294   640: 100%|██████████| 120/120 [00:20<00:00,  5.91it/s]", Some(6), None),
            ("第 6 步：损失值 2.0400，学习率 1e-05", Some(6), Some(2.04)),
            ("Train Epoch: 1 [1600/5000 (32%)] \tLoss: 0.0041 \tLocal Rank: 0", Some(1600), Some(0.0041)),
            ("| epoch   1 |   400/ 2983 batches | lr 30.00 | ms/batch 11.11 | loss  7.63 | ppl  2057.21", Some(400), Some(7.63)),
            (" 1201: 2.312345, 2.100000 avg, 0.001000 rate, 3.123456 seconds", Some(1201), Some(2.1)),
            ("Epoch: [0]  [  20/1251]  eta: 0:12:34  lr: 0.000001  loss: 6.93 (6.95)  max mem: 10234", Some(20), Some(6.93)),
            ("Train: [0/300][10/1251]\teta 0:12:34 lr 0.000001\tloss 6.9123 (6.93)\tmem 10234MB", Some(10), Some(6.9123)),
            ("Iter(train) [  100/20000]  lr: 1.0e-03  memory: 9000  loss: 0.4100", Some(100), Some(0.41)),
            ("{'loss': 1.23, 'memory(GiB)': 14.5, 'epoch': 0.01, 'global_step/max_steps': '5/93'}", Some(5), Some(1.23)),
            ("<epoch:  5, iter:  10,200, lr:1.992e-04> loss: 1.8082e-02", Some(10200), Some(0.018082)),
        ];
        for (line, step, loss) in cases {
            assert_eq!(read(line).map(|now| (now.step, now.loss)), Some((step, loss)), "{line}");
        }
        for (line, norm) in [
            ("{'loss': 2.3451, 'grad_norm': 1.23, 'learning_rate': 4.9e-05, 'epoch': 0.01}", 1.23),
            ("iteration 12/ 250 | lm loss: 1.9E+00 | loss scale: 1.0 | grad norm: 0.512 |", 0.512),
            ("step: 12  loss:  4.1234  grad_norm:  1.0", 1.0),
            ("2020-08-01 | INFO | train_inner | loss=4.2, ppl=18, gnorm=0.9, clip=0", 0.9),
        ] {
            assert_eq!(read(line).and_then(|now| now.grad_norm), Some(norm), "{line}");
        }
        for (line, epoch, step, total) in [
            ("Epoch 3/10", Some(3), None, None),
            ("===> Training epoch 4", Some(4), None, None),
            ("Epoch 4:   1%|          | 1/100 [00:00<00:20,  5.91it/s, loss=0.60]", Some(4), Some(1), Some(100)),
            (" 5/100 [>.............................] - ETA: 10s - loss: 0.6931", None, Some(5), Some(100)),
            ("Train Epoch: 2 [1600/5000 (32%)] \tLoss: 0.0041", Some(2), Some(1600), Some(5000)),
        ] {
            assert_eq!(read(line).map(|now| (now.epoch, now.step, now.total)), Some((epoch, step, total)), "{line}");
        }
        assert_eq!(read("max epoch: 10"), None);
        assert!(read("step 1200 loss = nan").unwrap().loss.unwrap().is_nan());
        for line in [
            "Loading safetensors checkpoint shards:  25% Completed | 1/4 [00:01<00:03,  1.31s/it]",
            "Fetching 9 files:  11%|█ | 1/9 [00:01<00:03,  1.31s/it]",
        ] {
            assert_eq!(read(line), None, "{line}");
        }
        for line in ["RuntimeError: CUDA out of memory", "Loading checkpoint shards", "loss scale: 1.0", "[rank0]: Traceback"] {
            assert_eq!(read(line).filter(|p| p.loss.is_some()), None, "{line}");
        }
    }
}
