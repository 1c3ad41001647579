//! Matches to findings: which of overlapping matches stays, what its numbers are, what its block and verdict add, and
//! what the message says.

use std::collections::HashMap;
use std::sync::Arc;

use super::blocks;
use super::finding::{Finding, Number};
use super::recent::Recent;
use super::rules::{Page, Rules, page};
use super::scan::Match;
use super::units::{self, Unit, Value};
use super::verdict;
use super::vocabulary::Kind;
use crate::text::Lines;

/// Ranks from this number on are no ranks.
const MOST_RANKS: f64 = 16_777_216.0;

/// Captures that are quantities in every page, also where it does not declare them.
const QUANTITIES: [&str; 26] = [
    "tried",
    "total",
    "free",
    "allocated",
    "reserved",
    "reserved_unallocated",
    "process_in_use",
    "other_processes_in_use",
    "limit",
    "private_pools",
    "gpu",
    "needed",
    "used",
    "max_tokens",
    "seq",
    "last_enqueued",
    "last_completed",
    "timeout",
    "ran_for",
    "exitcode",
    "signal",
    "pid",
    "xid",
    "loss_scale",
    "step",
    "rank",
];

/// Sorts of devices by which a page's title may call the one it speaks of.
const SORTS: [&str; 3] = ["CUDA", "NPU", "XPU"];

/// The text that names the frame of the user's own code in which an exception was raised.
const FRAME: &str = "frame";

/// The findings of all matches of a text, in line order. Roles and severities are still the pages' own.
pub fn findings(matches: &[Match], lines: &dyn Lines, rules: &Rules) -> Vec<Finding> {
    let mut recent = blocks::recent();
    let reader = |m: &Match| rules.pages().get(m.page).and_then(|page| page.front.block.as_deref());
    let matches = matches.iter().filter(|m| blocks::may_have(reader(m), m, lines)).collect();
    let built = resolve(matches, rules).into_iter().filter_map(|m| Some((is_fallback(m, rules), build(m, rules, lines, &mut recent)?)));
    let (fallback, mut own): (Vec<_>, Vec<_>) = built.partition(|(is_fallback, _)| *is_fallback);
    if fallback.is_empty() {
        return own.into_iter().map(|(_, finding)| finding).collect();
    }
    // A fallback page yields its lines to any other finding on them, and leaves it the frame that it read.
    let mut of_line: HashMap<usize, usize> = HashMap::new();
    for (i, (_, finding)) in own.iter().enumerate() {
        for line in finding.span.line..=finding.span.end_line {
            of_line.entry(line).or_insert(i);
        }
    }
    let mut kept = Vec::new();
    for (_, finding) in fallback {
        let Some(&taken) = (finding.span.line..=finding.span.end_line).find_map(|line| of_line.get(&line)) else {
            kept.push(finding);
            continue;
        };
        let heir = &mut own[taken].1;
        if let Some(frame) = finding.text(FRAME).filter(|_| heir.text(FRAME).is_none()) {
            heir.texts.push((FRAME.to_owned(), frame.to_owned()));
        }
    }
    let mut all: Vec<Finding> = own.into_iter().map(|(_, finding)| finding).chain(kept).collect();
    all.sort_by_key(|finding| (finding.span.line, finding.span.start));
    all
}

fn is_fallback(m: &Match, rules: &Rules) -> bool {
    rules.pages().get(m.page).is_some_and(|page| page.front.fallback)
}

/// Of matches that overlap, the longest stays, and none of a fallback page beside another; of equals, the one nearer to a cause.
fn resolve<'m>(matches: Vec<&'m Match>, rules: &Rules) -> Vec<&'m Match> {
    let mut sorted = matches;
    sorted.sort_by_key(|m| (m.span.line, m.span.start, std::cmp::Reverse(m.length), m.page));
    let precedence = |m: &Match| rules.pages().get(m.page).map(|page| page.front.precedence);
    let rank = |m: &Match| (!is_fallback(m, rules), m.length, std::cmp::Reverse(precedence(m)));
    let mut kept: Vec<&Match> = Vec::with_capacity(sorted.len());
    for m in sorted {
        match kept.last() {
            Some(last) if (m.span.line, m.span.start) < (last.span.end_line, last.span.end) => {
                if rank(m) > rank(last) {
                    kept.pop();
                    kept.push(m);
                }
            }
            _ => kept.push(m),
        }
    }
    kept
}

/// The finding of a match; `None` when its page's verdict finds nothing in it.
fn build(m: &Match, rules: &Rules, lines: &dyn Lines, recent: &mut Recent) -> Option<Finding> {
    let page = &rules.pages()[m.page];
    let front = &page.front;
    let mut numbers: Vec<Number> = Vec::new();
    let mut texts: Vec<(String, String)> = Vec::new();
    for capture in &m.captures {
        match quantity(&capture.name, &capture.text, front.numbers.get(&capture.name).copied()) {
            Some((value, unit)) => {
                numbers.push(Number { name: capture.name.clone(), value, unit, text: capture.text.clone(), span: Some(capture.span) });
            }
            None => texts.push((capture.name.clone(), capture.text.clone())),
        }
    }
    if let Some(name) = front.verdict.as_deref().filter(|verdict| *verdict == "device-oom").and_then(|_| allocator_variable(m, lines)) {
        texts.push(("alloc_conf".to_owned(), name));
    }
    let mut span = m.span;
    let mut severity = front.severity;
    let mut page_cause = front.cause;
    if let Some(name) = &front.block {
        let block = blocks::read(name, m, lines, recent)?;
        (span.line, span.start) = block.start.unwrap_or((span.line, span.start));
        (span.end_line, span.end) = block.end;
        numbers.extend(block.numbers);
        texts.extend(block.texts);
        severity = block.severity.unwrap_or(severity);
        page_cause = block.cause.unwrap_or(page_cause);
    }
    let judged = front.verdict.as_deref().and_then(|name| verdict::judge(name, &mut numbers, &texts, page_cause));
    if judged.is_none() && front.verdict.as_deref().is_some_and(|name| verdict::CONDITIONS.contains(&name)) {
        return None;
    }
    let (cause, verdict) = judged.unwrap_or((page_cause, None));
    // The rows of a table were for the verdict alone.
    texts.retain(|(name, _)| name != "rows" && name != "header");
    let whole = |name: &str| numbers.iter().find(|n| n.name == name).map(|n| n.value.as_f64()).filter(|x| *x >= 0.0);
    let text = |name: &str| texts.iter().find(|(n, _)| n == name).map(|(_, t)| t.clone());
    let ranked = |name: &str| whole(name).filter(|x| *x < MOST_RANKS).map(|x| x as u32);
    // A number inside a process group is the global one only in the group of all ranks.
    let global = m.prefix.rank.filter(|_| m.prefix.is_global);
    let rank = ranked("rank").or(global).or_else(|| ranked("group_rank")).or(m.prefix.rank);
    Some(Finding {
        rule: page.id.clone(),
        title: title(page, &texts),
        kind: front.kind,
        cause,
        severity,
        confidence: front.confidence,
        role: front.role,
        precedence: front.precedence,
        message: message(&front.title, &front.message, &numbers, &texts, rank),
        span,
        rank,
        step: whole("step").map(|x| x as u64),
        time: text("time").or_else(|| m.prefix.time.clone()),
        host: text("host").or_else(|| m.prefix.host.clone()),
        numbers,
        texts,
        verdict,
    })
}

/// A capture as a number, where it is one: declared by the page, with the unit of a size, or of a name that is a quantity
/// everywhere. Any other figure is a name (a job, a version, an address).
fn quantity(name: &str, text: &str, unit: Option<Unit>) -> Option<(Value, Unit)> {
    let (value, read) = units::read(text, unit)?;
    let is_size = || value.bytes().is_some() && (text.ends_with('B') || text.ends_with("bytes"));
    (unit.is_some() || QUANTITIES.contains(&name) || is_size()).then_some((value, read))
}

/// The page's title; that of a memory error which begins with a sort of device names the one that the message does.
fn title(page: &Page, texts: &[(String, String)]) -> Arc<str> {
    let device = texts.iter().find(|(name, _)| name == "device").map(|(_, device)| device);
    let rest = page.title.split_once(' ').filter(|(sort, _)| page.front.kind == Kind::Oom && SORTS.contains(sort));
    match device.zip(rest) {
        Some((device, (_, rest))) => format!("{device} {rest}").into(),
        None => page.title.clone(),
    }
}

/// The allocator's environment variable as the advice behind the message names it: the name differs by release and device.
fn allocator_variable(m: &Match, lines: &dyn Lines) -> Option<String> {
    (m.span.end_line..m.span.end_line + 4).find_map(|i| {
        let line = lines.line(i);
        let at = line.find("_ALLOC_CONF")?;
        let start = line[..at].rfind("PYTORCH").filter(|start| at - start < 16)?;
        let name = &line[start..at + "_ALLOC_CONF".len()];
        // Only the variable's own name may reach a hover or a shell line.
        name.bytes().all(|b| b.is_ascii_uppercase() || b == b'_').then(|| name.to_owned())
    })
}

/// The first template whose placeholders are all present, filled in; the page's title when there is none.
pub(super) fn message(title: &str, templates: &[String], numbers: &[Number], texts: &[(String, String)], rank: Option<u32>) -> String {
    let value = |name: &str| -> Option<String> {
        if let Some(number) = numbers.iter().find(|n| n.name == name) {
            return Some(number.shown());
        }
        let text = texts.iter().find(|(n, _)| n == name).map(|(_, text)| text.clone());
        text.or_else(|| rank.filter(|_| name == "rank").map(|rank| rank.to_string()))
    };
    let fill = |template: &str| -> Option<String> {
        let mut out = template.to_owned();
        for name in page::placeholders(template) {
            out = units::fill_in(&out, name, &value(name)?);
        }
        Some(out)
    };
    templates.iter().find_map(|template| fill(template)).unwrap_or_else(|| title.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_look_like_numbers_stay_names() {
        for (name, text) in [("slurm_step", "123456.0"), ("job", "4711"), ("cuda", "12.4"), ("busid", "100000"), ("address", "1b")] {
            assert_eq!(quantity(name, text, None), None, "{name} {text}");
        }
        assert_eq!(quantity("pid", "4711", None).map(|(value, _)| value), Some(Value::Int(4711)));
        assert_eq!(quantity("cache", "512 bytes", None).map(|(value, _)| value), Some(Value::Bytes(512)));
        assert_eq!(quantity("cache", "2.00 GiB", None).map(|(value, _)| value), Some(Value::Bytes(2 << 30)));
        assert_eq!(quantity("job", "4711", Some(Unit::Index)).map(|(value, _)| value), Some(Value::Int(4711)));
    }
}
