//! Series of step lines to findings, by the pages that name a series.

use super::growth::{self, Growth};
use super::imbalance::{self, Imbalance};
use super::reading::Statistic;
use super::series::{self, Sample, Series};
use crate::log::blocks::row;
use crate::log::build;
use crate::log::finding::{Finding, Number};
use crate::log::progress::Counter;
use crate::log::rules::{Page, Rules};
use crate::log::units::{Unit, Value};
use crate::log::verdict::memory_series;
use crate::log::vocabulary::{Cause, Kind};
use crate::text::Lines;

/// The series that pages may name: memory of the device or of the host that only grows; a reserve that climbs over level
/// tensors; one rank far above the others.
pub const SERIES: &[&str] = &[GROWTH, HOST_GROWTH, FRAGMENTATION, IMBALANCE];
const GROWTH: &str = "step-growth";
const HOST_GROWTH: &str = "step-host-growth";
const FRAGMENTATION: &str = "step-fragmentation";
const IMBALANCE: &str = "step-imbalance";

/// Placeholders that series give to message templates.
pub const SERIES_PLACEHOLDERS: &[&str] = &[
    "field",
    "each",
    "from",
    "to",
    "limit",
    "growth",
    "used",
    "first_used",
    "free",
    "first_free",
    "total",
    "reserved",
    "reserved_rise",
    "allocated",
    "samples",
    "rank",
    "ranks",
    "others",
];

/// Lines of the thin sample, over all attempts ...
const THIN_LINES: usize = 384;
/// ... and of the dense one.
const MOST_LINES: usize = 1536;
/// Attempts that are looked at, the last ones.
const MOST_ATTEMPTS: usize = 8;
/// Totals of one size class differ by at most this share.
const SAME_TOTAL: f64 = 1.03;

/// Adds what the step lines of each attempt say of memory to the findings; nothing of a healthy run.
pub(in crate::log) fn add(findings: &mut Vec<Finding>, starts: &[usize], lines: &dyn Lines, rules: &Rules) {
    let told = of_attempts(findings, starts, lines, rules);
    if told.is_empty() {
        return;
    }
    // Lines with allocated and reserved memory may be step lines: the series that knows the steps tells more.
    let is_of_lines = |finding: &Finding| {
        rules.page(&finding.rule).is_some_and(|page| page.front.block.as_deref() == Some("memory-line-series"))
            && told.iter().any(|one| is_same(one, finding) && one.cause == Cause::MemoryGrowth && one.number("last_step").is_some())
    };
    findings.retain(|finding| !is_of_lines(finding));
    let fresh: Vec<Finding> = told.into_iter().filter(|one| !findings.iter().any(|other| is_same(one, other))).collect();
    findings.extend(fresh);
    findings.sort_by_key(|finding| (finding.span.line, finding.span.start));
}

/// Do two pages tell the same of the same rank?
fn is_same(one: &Finding, other: &Finding) -> bool {
    other.kind == Kind::Leak && other.cause == one.cause && other.rank == one.rank
}

fn of_attempts(known: &[Finding], starts: &[usize], lines: &dyn Lines, rules: &Rules) -> Vec<Finding> {
    let pages: Vec<&Page> = rules.pages().iter().filter(|page| page.front.series.is_some()).collect();
    let firsts: Vec<usize> = std::iter::once(0).chain(starts.iter().copied()).collect();
    let skipped = firsts.len().saturating_sub(MOST_ATTEMPTS);
    let attempts = firsts.len() - skipped;
    let mut out = Vec::new();
    for (nth, &first) in firsts.iter().enumerate().skip(skipped) {
        let until = firsts.get(nth + 1).copied().unwrap_or_else(|| lines.count());
        let thin = series::collect(first, until, THIN_LINES / attempts, lines);
        let may_grow = thin.is_empty() || thin.iter().any(growth::may_grow);
        let all = if may_grow { series::collect(first, until, MOST_LINES / attempts, lines) } else { Vec::new() };
        let mut told: Vec<&Series> = Vec::new();
        for one in &all {
            // Names of one thing in one line: `max_active` and `max_allocated`.
            if told.iter().any(|other| other.key.is_beside(&one.key) && is_of_host(other) == is_of_host(one)) {
                continue;
            }
            if let Some(found) = of_series(one, &all, known, lines).and_then(|told| finding(&told, one, &pages, lines)) {
                told.push(one);
                out.push(found);
            }
        }
        // A rank that leaks is above the others for that.
        if let Some(found) = imbalance::find(&thin).filter(|found| told.iter().all(|one| one.key.rank != found.fullest.key.rank)) {
            out.extend(finding(&uneven(&found, lines), found.fullest, &pages, lines));
        }
    }
    out
}

fn is_of_host(series: &Series) -> bool {
    series.key.statistic == Statistic::Host
}

/// What a series says.
struct Told {
    series: &'static str,
    /// The sample that is marked: where the growth begins.
    at: Sample,
    cause: Cause,
    numbers: Vec<Number>,
    texts: Vec<(String, String)>,
}

/// Judges a series in the light of those of the same lines.
///
/// Of several statistics of live tensors the current one counts: a peak never falls. A reserve alone can be a leak too;
/// beside level tensors it is fragmentation.
fn of_series(one: &Series, all: &[Series], known: &[Finding], lines: &dyn Lines) -> Option<Told> {
    let beside = |statistic: Statistic| all.iter().find(|other| other.key.statistic == statistic && other.key.is_beside(&one.key));
    match one.key.statistic {
        Statistic::Reserved => {
            let live = beside(Statistic::Used).or_else(|| beside(Statistic::Peak));
            match live {
                Some(live) => fragmentation(one, live, lines),
                None => growth::judge(one).map(|growth| leak(one, growth, known, lines)),
            }
        }
        Statistic::Peak if beside(Statistic::Used).is_some() => None,
        _ => growth::judge(one).map(|growth| leak(one, growth, known, lines)),
    }
}

fn leak(one: &Series, growth: Growth, known: &[Finding], lines: &dyn Lines) -> Told {
    let samples = &one.samples[growth.from..];
    let (first, last) = (samples[0], samples[samples.len() - 1]);
    let is_free = one.key.statistic == Statistic::Free;
    let total = last.total.or_else(|| if is_of_host(one) { None } else { total_of(known) });
    let mut numbers = vec![row::bytes("growth", growth.slope as u64), row::count("samples", one.samples.len() as u64)];
    let names = if is_free { ("first_free", "free") } else { ("first_used", "used") };
    numbers.push(series::number(names.0, &first, lines));
    numbers.push(series::number(names.1, &last, lines));
    numbers.extend(total.filter(|_| !is_free).map(|total| row::bytes("total", total as u64)));
    let counts = if growth.has_steps { one.key.counter } else { None };
    if counts.is_some() {
        numbers.extend(first.step.map(|step| row::count("first_step", step)));
        numbers.extend(last.step.map(|step| row::count("last_step", step)));
    }
    let room = if is_free { Some(last.bytes) } else { total.map(|total| total - last.bytes) };
    let left = room.filter(|room| *room >= 0.0).map(|room| (room / growth.slope).floor());
    let each = each(counts);
    let mut texts = vec![
        ("field".to_owned(), one.key.name.clone()),
        ("each".to_owned(), format!("{} {each}", if counts == Some(Counter::Epoch) { "an" } else { "a" })),
        ("from".to_owned(), place(counts, &first)),
        ("to".to_owned(), place(counts, &last)),
    ];
    if let Some(left) = left {
        numbers.push(whole("steps_left", left));
        let limit = match last.step.filter(|_| counts.is_some() && growth.is_one_count) {
            Some(step) => {
                numbers.push(whole("limit_step", step as f64 + left));
                format!("at about {each} {:.0}", step as f64 + left)
            }
            None => format!("after about {left:.0} more {each}s"),
        };
        texts.push(("limit".to_owned(), limit));
    }
    let series = if is_of_host(one) { HOST_GROWTH } else { GROWTH };
    Told { series, at: first, cause: Cause::MemoryGrowth, numbers, texts }
}

/// A reserve that climbs while the live tensors of the same lines stay level.
fn fragmentation(reserved: &Series, live: &Series, lines: &dyn Lines) -> Option<Told> {
    let from = growth::warm_up(reserved.samples.len()).min(reserved.samples.len());
    let pairs: Vec<(&Sample, &Sample)> =
        reserved.samples[from..].iter().filter_map(|sample| Some((of_one_step(sample, live)?, sample))).collect();
    let allocated: Vec<f64> = pairs.iter().map(|pair| pair.0.bytes).collect();
    let reserve: Vec<f64> = pairs.iter().map(|pair| pair.1.bytes).collect();
    let rise = memory_series::fragmenting(&allocated, &reserve)?;
    let (first, last) = (pairs.first()?, pairs.last()?);
    let numbers = vec![
        row::bytes("reserved_rise", rise as u64),
        series::number("reserved", last.1, lines),
        series::number("allocated", last.0, lines),
        row::count("samples", pairs.len() as u64),
    ];
    let counts = reserved.key.counter;
    let texts = vec![
        ("field".to_owned(), reserved.key.name.clone()),
        ("from".to_owned(), place(counts, first.1)),
        ("to".to_owned(), place(counts, last.1)),
    ];
    Some(Told { series: FRAGMENTATION, at: *first.1, cause: Cause::Fragmentation, numbers, texts })
}

/// The sample of the same step nearest to this one: on the same line, or in the same list of metrics.
fn of_one_step<'s>(sample: &Sample, others: &'s Series) -> Option<&'s Sample> {
    let at = others.samples.partition_point(|other| other.line < sample.line);
    let near = [others.samples.get(at), at.checked_sub(1).and_then(|before| others.samples.get(before))];
    near.into_iter().flatten().find(|other| other.line == sample.line || (sample.step.is_some() && other.step == sample.step))
}

fn uneven(found: &Imbalance<'_>, lines: &dyn Lines) -> Told {
    let mut numbers = vec![series::number("used", &found.at, lines), row::bytes("others", found.others as u64)];
    numbers.push(row::count("ranks", found.ranks as u64));
    numbers.extend(found.fullest.key.rank.map(|rank| row::count("rank", u64::from(rank))));
    numbers.extend(found.at.total.map(|total| row::bytes("total", total as u64)));
    let texts = vec![("field".to_owned(), found.fullest.key.name.clone())];
    Told { series: IMBALANCE, at: found.at, cause: Cause::Imbalance, numbers, texts }
}

fn each(counts: Option<Counter>) -> &'static str {
    match counts {
        Some(Counter::Step) => "step",
        Some(Counter::Epoch) => "epoch",
        None => "line",
    }
}

fn place(counts: Option<Counter>, sample: &Sample) -> String {
    match sample.step {
        Some(step) if counts.is_some() => format!("{} {step}", each(counts)),
        _ => format!("line {}", sample.line + 1),
    }
}

fn whole(name: &str, value: f64) -> Number {
    Number { name: name.to_owned(), value: Value::Int(value as i64), unit: Unit::Count, text: format!("{value:.0}"), span: None }
}

/// The size of the card, where other lines print it and all of them the same.
fn total_of(known: &[Finding]) -> Option<f64> {
    let of_card = |finding: &&Finding| finding.kind == Kind::Oom || (finding.kind == Kind::Report && finding.rule.starts_with("nvidia"));
    let totals = known.iter().filter(of_card).filter_map(|finding| finding.bytes("total"));
    let (least, most) =
        totals.fold((f64::INFINITY, 0.0), |(least, most), total| (f64::min(least, total as f64), f64::max(most, total as f64)));
    (most > 0.0 && most <= SAME_TOTAL * least).then_some(least)
}

fn finding(told: &Told, series: &Series, pages: &[&Page], lines: &dyn Lines) -> Option<Finding> {
    let page = pages.iter().find(|page| page.front.series.as_deref() == Some(told.series))?;
    let prefix = series::prefix(told.at.line, lines);
    let front = &page.front;
    Some(Finding {
        rule: page.id.clone(),
        title: page.title.clone(),
        kind: front.kind,
        cause: told.cause,
        severity: front.severity,
        confidence: front.confidence,
        role: front.role,
        precedence: front.precedence,
        message: build::message(&front.title, &front.message, &told.numbers, &told.texts, series.key.rank),
        span: series::span(&told.at),
        numbers: told.numbers.clone(),
        texts: told.texts.clone(),
        rank: series.key.rank,
        step: told.at.step.filter(|_| series.counts_steps()),
        time: prefix.time,
        host: prefix.host,
        verdict: None,
    })
}
