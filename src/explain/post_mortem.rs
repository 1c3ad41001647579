//! The post-mortem: when the run died, what killed it and where, what only followed, what went before, what to do first.
//!
//! Rows of plain text that a face draws; together they fit on a screen with the heading.

use std::collections::BTreeMap;

use super::escape::longest_run;
use super::sentences;
use super::texts::{Language, fill, text};
use super::{diagnostic_message, headline, markdown, moment, ranges};
use crate::log::clock;
use crate::log::progress;
use crate::log::rules::Rules;
use crate::log::story::{Group, is_told_at_once, precedes_root};
use crate::log::vocabulary::{Cause, Kind, Outcome, Role, Severity};
use crate::log::{Analysis, Finding};
use crate::text::Lines;

/// Lines above the root cause that are searched for a step line.
const STEP_LINES: usize = 2000;
/// Earlier attempts that are named.
const MOST_ATTEMPTS: usize = 3;
/// Characters of the first remedy: three lines of a terminal.
const MOST_REMEDY: usize = 240;
/// Follow-ups that are named.
const MOST_FOLLOWERS: usize = 3;

/// One file of the run.
#[derive(Clone, Copy)]
pub struct Part<'a> {
    /// Its name, when the run has several files; lines of a single one need none.
    pub name: Option<&'a str>,
    /// The rank whose file it is, where its name says so.
    pub rank: Option<u32>,
    /// What it says.
    pub analysis: &'a Analysis,
    /// Its text; `None` when only the findings are at hand.
    pub lines: Option<&'a dyn Lines>,
}

/// A row: a label and what stands behind it, an item a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// What the row tells.
    pub label: &'static str,
    /// Its items; a long one may be wrapped.
    pub items: Vec<String>,
}

/// The rows for a run; none when nothing in it is worth a post-mortem.
///
/// `root` is the part and the finding that explain the others.
pub fn rows(parts: &[Part<'_>], root: Option<(usize, usize)>, rules: &Rules) -> Vec<Row> {
    let language = Language::English;
    let row = |key: &str, items: Vec<String>| Row { label: text(language, key), items };
    let followers = followers(parts, root, false);
    let mut out = Vec::new();
    match root {
        Some((part, index)) => {
            let (part, finding) = (&parts[part], &parts[part].analysis.findings[index]);
            let when = match (finding.severity, finding.kind) {
                (Severity::Error, Kind::Nan) => "post.went-bad",
                (Severity::Error, _) => "post.died",
                _ => "post.seen",
            };
            out.push(row(when, vec![moment(part, index, language)]));
            let same = same_elsewhere(parts, finding, language).map(|same| format!(" · {same}")).unwrap_or_default();
            out.push(row("post.cause", vec![format!("{}{same}", cause(part, index, language))]));
            if let Some(frame) = finding.text("frame") {
                out.push(row("post.frame", vec![frame.to_owned()]));
            }
        }
        None if followers.is_empty() => return out,
        None => out.push(row("post.cause", vec![text(language, "post.no-cause").to_owned()])),
    }
    if !followers.is_empty() {
        out.push(row("post.followed", followers));
    }
    // It is the same in all of them.
    if let Some(collective) = parts.first().and_then(|part| part.analysis.story.waited_in()) {
        let told = root.is_some_and(|(part, index)| collective.missing_for(&parts[part].analysis.findings[index]).is_some());
        let ranks = sentences::collective_sentences(collective, told, &str::to_owned, language);
        if !ranks.is_empty() {
            out.push(row("post.ranks", ranks));
        }
    }
    let mut before = root.map(|(part, index)| before(&parts[part], index, language)).unwrap_or_default();
    before.extend(self::followers(parts, root, true));
    if !before.is_empty() {
        out.push(row("post.before", before));
    }
    let spoken = root.map(|(part, index)| &parts[part].analysis.findings[index]).or_else(|| first_loud(parts));
    if let Some(remedy) = spoken.and_then(|finding| super::remedies(finding, rules, 1).pop()) {
        out.push(row("post.do", vec![short(&remedy)]));
    }
    out
}

/// As many whole sentences of a remedy as fit into the row, the first one at its first stop when even that is long.
fn short(remedy: &str) -> String {
    let mut kept = "";
    let mut rest = remedy;
    while let (sentence, behind) = markdown::split_sentence(rest)
        && !sentence.is_empty()
    {
        let upto = &remedy[..remedy.len() - behind.len()];
        if upto.trim_end().chars().count() > MOST_REMEDY {
            break;
        }
        (kept, rest) = (upto.trim_end(), behind);
    }
    if !kept.is_empty() || remedy.is_empty() {
        return kept.to_owned();
    }
    // Stops inside of a command or of brackets are none.
    let stops = remedy.match_indices([';', ':', ',']).map(|(at, _)| at);
    let open = |head: &str| head.matches('`').count() % 2 == 1 || head.matches('(').count() > head.matches(')').count();
    let cut = stops.filter(|&at| remedy[at + 1..].starts_with([' ', '\n']) && !open(&remedy[..at]));
    let last = cut.take_while(|&at| remedy[..at].chars().count() <= MOST_REMEDY).last();
    last.map_or_else(|| remedy.to_owned(), |at| format!("{}.", &remedy[..at]))
}

/// What a part tells of, one item an event, in the order of its lines.
pub fn seen(part: &Part<'_>) -> Vec<String> {
    let item = |group: &Group| {
        let line = part.analysis.findings[group.lead].span.line;
        format!("{} ({})", diagnostic_message(part.analysis, group.lead), place(part, line))
    };
    part.analysis.story.groups.iter().map(item).collect()
}

/// The first finding that is not mere information.
fn first_loud<'a>(parts: &[Part<'a>]) -> Option<&'a Finding> {
    parts.iter().flat_map(|part| &part.analysis.findings).find(|finding| finding.severity != Severity::Info)
}

/// When: the time stamp and the last step above the finding.
fn moment(part: &Part<'_>, index: usize, language: Language) -> String {
    let finding = &part.analysis.findings[index];
    let group = part.analysis.story.group_of(index);
    if let Some(group) = group.filter(|group| matches!(group.outcome, Outcome::WentOn | Outcome::Recovered)) {
        return super::place::onward(part.analysis, group, language);
    }
    let (line, end) = (finding.span.line, finding.span.end_line);
    let above = || finding.time.clone().or_else(|| moment::time_above(part.lines?, line));
    let shown = |time: String| match clock::is_uptime(&time) {
        true => fill(language, "post.uptime", &[("seconds", time)]),
        false => moment::readable(&time),
    };
    let time = above().map(shown).or_else(|| {
        // What is printed below may have waited for this.
        let (time, at) = moment::time_below(part.lines?, end)?;
        Some(fill(language, "post.before-time", &[("time", shown(time)), ("place", place(part, at))]))
    });
    let last_step = match part.lines {
        Some(lines) => moment::step_at(lines, line).or_else(|| part.analysis.story.last_step.filter(|(_, at)| *at > end)),
        None => part.analysis.story.last_step,
    };
    let step = match (finding.step, last_step) {
        (Some(step), _) => Some(fill(language, "post.at-step", &[("step", step.to_string())])),
        (None, Some((step, at))) => {
            let key = if at < line { "post.after-step" } else { "post.near-step" };
            Some(fill(language, key, &[("step", step.to_string()), ("place", place(part, at))]))
        }
        (None, None) => {
            let (epoch, at) = part.lines.and_then(|lines| moment::epoch_at(lines, line)).unzip();
            epoch.zip(at).map(|(epoch, at)| fill(language, "post.epoch", &[("epoch", epoch), ("place", place(part, at))]))
        }
    };
    match (time, step) {
        (Some(time), Some(step)) => format!("{time}, {step}"),
        (Some(one), None) | (None, Some(one)) => one,
        (None, None) => text(language, "post.no-moment").to_owned(),
    }
}

/// What and where.
fn cause(part: &Part<'_>, index: usize, language: Language) -> String {
    let finding = &part.analysis.findings[index];
    let mut out = headline(part.analysis, index);
    if let Some(rank) = finding.rank.filter(|_| !names_rank(&out)) {
        out.push_str(&format!(" · {}", fill(language, "post.rank", &[("rank", rank.to_string())])));
    }
    if let Some(host) = &finding.host {
        out.push_str(&format!(" · {host}"));
    }
    format!("{out} ({})", place(part, finding.span.line))
}

/// Does a message begin with its rank or ranks?
pub fn names_rank(message: &str) -> bool {
    message.starts_with("Rank ") || message.starts_with("Ranks ")
}

/// Where else in the run the same event stands.
fn same_elsewhere(parts: &[Part<'_>], root: &Finding, language: Language) -> Option<String> {
    let same = |f: &Finding| f.rule == root.rule && f.cause == root.cause && f.role == Role::Repeat;
    let others: Vec<_> =
        parts.iter().filter(|part| part.analysis.story.root.is_none() && part.analysis.findings.iter().any(same)).collect();
    let mut ranks: Vec<u32> = others.iter().flat_map(|part| &part.analysis.findings).filter(|f| same(f)).filter_map(|f| f.rank).collect();
    ranks.sort_unstable();
    ranks.dedup();
    match (others.len(), ranks.len()) {
        (0, _) => None,
        (1, _) => Some(text(language, "post.same-one").to_owned()),
        (count, 0) => Some(fill(language, "post.same", &[("count", count.to_string())])),
        _ => Some(fill(language, "post.same-ranks", &[("ranks", ranges(&ranks))])),
    }
}

fn place(part: &Part<'_>, line: usize) -> String {
    match part.name {
        Some(name) => format!("{name}:{}", line + 1),
        None => fill(Language::English, "post.line", &[("line", (line + 1).to_string())]),
    }
}

/// What belongs to the root cause: one item a rule, with its ranks and its first line. `before` it, or what followed.
fn followers(parts: &[Part<'_>], root: Option<(usize, usize)>, before: bool) -> Vec<String> {
    struct Follower<'a> {
        title: &'a str,
        first: String,
        count: usize,
        /// One event, told on several lines.
        at_once: bool,
        ranks: Vec<u32>,
    }
    let mut order: Vec<Follower<'_>> = Vec::new();
    let mut of_rule: BTreeMap<&str, usize> = BTreeMap::new();
    for (nth, part) in parts.iter().enumerate() {
        for group in &part.analysis.story.groups {
            let lead = &part.analysis.findings[group.lead];
            let loud = root.is_none() || lead.severity != Severity::Info;
            let followed = matches!(lead.role, Role::Consequence | Role::Confirmation) && loud;
            if !followed
                || precedes_root(part.analysis, group.lead) != before
                || root.is_some_and(|(p, index)| p == nth && group.members.contains(&index))
            {
                continue;
            }
            let at = *of_rule.entry(&lead.rule).or_insert_with(|| {
                order.push(Follower { title: &lead.title, first: place(part, lead.span.line), count: 0, at_once: true, ranks: Vec::new() });
                order.len() - 1
            });
            order[at].at_once &= order[at].count == 0 && is_told_at_once(part.analysis, group);
            order[at].count += group.members.len();
            order[at].ranks.extend(&group.ranks);
        }
    }
    let language = Language::English;
    let left = order.len().saturating_sub(MOST_FOLLOWERS);
    let mut out: Vec<String> = order
        .into_iter()
        .take(MOST_FOLLOWERS)
        .map(|mut one| {
            one.ranks.sort_unstable();
            one.ranks.dedup();
            let values =
                [("title", one.title.to_owned()), ("count", one.count.to_string()), ("ranks", ranges(&one.ranks)), ("place", one.first)];
            let key = match (one.count, one.ranks.len()) {
                (1, _) => "post.follower",
                (_, 0) if one.at_once => "post.follower-lines",
                (_, 0) => "post.follower-times",
                (_, 1) => "post.follower-rank",
                _ => "post.follower-ranks",
            };
            fill(language, key, &values)
        })
        .collect();
    if left > 0 {
        out.push(fill(language, "post.more", &[("count", left.to_string())]));
    }
    out
}

/// What went before: the last finite loss, memory that grew, what was survived.
fn before(part: &Part<'_>, root: usize, language: Language) -> Vec<String> {
    let analysis = part.analysis;
    let line = analysis.findings[root].span.line;
    let mut out: Vec<String> = super::attempts::of_root(analysis, root, language).into_iter().collect();
    // Of memory that grows the loss says nothing.
    let lines = part.lines.filter(|_| analysis.findings[root].kind != Kind::Leak);
    if let Some((loss, step, at)) = lines.and_then(|lines| last_finite_loss(lines, line)) {
        let values =
            [("loss", loss.to_string()), ("step", step.map_or_else(String::new, |step| step.to_string())), ("place", place(part, at))];
        out.push(fill(language, if step.is_some() { "post.loss" } else { "post.loss-only" }, &values));
    }
    if let Some(divergence) = analysis.story.onset.filter(|onset| onset.finding == root).and_then(|onset| onset.divergence) {
        out.push(sentences::divergence_sentence(&divergence, &place(part, divergence.line), language));
    }
    out.extend(analysis.story.memory.map(|trend| sentences::growth_sentence(&trend, &|line| place(part, line), language)));
    let ended = analysis.story.attempts.iter().enumerate().filter_map(|(nth, attempt)| Some((nth, attempt.root.filter(|&r| r != root)?)));
    for (nth, other) in ended.take(MOST_ATTEMPTS) {
        let other = &analysis.findings[other];
        if other.rule != analysis.findings[root].rule {
            let values = [("nth", (nth + 1).to_string()), ("title", other.title.to_string()), ("place", place(part, other.span.line))];
            out.push(fill(language, "post.attempt-ended", &values));
        }
    }
    let earlier = |f: &Finding| f.span.line < line && f.severity != Severity::Error;
    let leads = || analysis.story.groups.iter().map(|group| group.lead).filter(|&lead| lead != root);
    // The growth up to the root cause is told already.
    let is_told = |f: &Finding| analysis.story.memory.is_some() && matches!(f.cause, Cause::MemoryGrowth | Cause::Fragmentation);
    if let Some(lead) = leads().find(|&lead| analysis.findings[lead].kind == Kind::Leak && !is_told(&analysis.findings[lead])) {
        out.push(format!("{} ({})", analysis.findings[lead].message, place(part, analysis.findings[lead].span.line)));
    }
    let survived = |f: &Finding| f.role == Role::Context && !matches!(f.kind, Kind::Report | Kind::Leak) && earlier(f);
    // What ended an earlier attempt is named already.
    let ended = |lead: usize| analysis.story.attempts.iter().any(|attempt| attempt.root == Some(lead));
    if let Some(lead) = leads().find(|&lead| survived(&analysis.findings[lead]) && !ended(lead)) {
        out.push(format!("{} ({})", diagnostic_message(analysis, lead), place(part, analysis.findings[lead].span.line)));
    }
    out
}

fn last_finite_loss(lines: &dyn Lines, line: usize) -> Option<(f64, Option<u64>, usize)> {
    (line.saturating_sub(STEP_LINES)..line).rev().find_map(|i| {
        let now = progress::of_line(lines, i)?;
        Some((now.loss.filter(|loss| loss.is_finite())?, now.step, i))
    })
}

/// The rows as Markdown for an issue tracker: a table, and the lines of the root cause as code.
pub fn markdown(rows: &[Row], excerpt: &[(usize, String)]) -> String {
    let mut out = String::from("| | |\n| --- | --- |\n");
    for row in rows {
        let items: Vec<String> = row.items.iter().map(|item| markdown::quoted(item)).collect();
        out.push_str(&format!("| **{}** | {} |\n", row.label, items.join("<br>")));
    }
    if !excerpt.is_empty() {
        let longest = excerpt.iter().map(|(_, line)| longest_run(line)).max().unwrap_or(0);
        let fence = "`".repeat(longest.max(2) + 1);
        out.push_str(&format!("\n{fence}text\n"));
        for (number, line) in excerpt {
            out.push_str(&format!("{number}: {line}\n"));
        }
        out.push_str(&format!("{fence}\n"));
    }
    out
}
