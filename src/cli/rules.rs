//! `trainwreck rules` lists the rule pages and tests a workspace's own; `trainwreck explain RULE` prints one.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;

use crate::explain;
use crate::explain::config::pages;
use crate::explain::texts::{Language, fill};
use crate::files;
use crate::log::analyze;
use crate::log::rules::{Rules, excerpts};

/// Arguments of `rules`.
#[derive(Debug, Args)]
pub struct RulesArgs {
    /// Only rules whose id, title or kind contains this
    pub filter: Option<String>,
    /// Folder whose .trainwreck/rules are loaded; the current one by default
    #[arg(long, value_name = "DIR")]
    pub workspace: Option<PathBuf>,
    /// Run the excerpts of the workspace's own pages and report what does not hold
    #[arg(long)]
    pub test: bool,
}

/// Arguments of `explain`.
#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// Id of a rule, as `trainwreck rules` lists it; words of its id or title; or a message, in quotes
    pub rule: String,
    /// Folder whose .trainwreck/rules are loaded; the current one by default
    #[arg(long, value_name = "DIR")]
    pub workspace: Option<PathBuf>,
}

/// Rules that are named when a name fits several.
const MOST_CANDIDATES: usize = 12;

fn workspace(chosen: &Option<PathBuf>) -> PathBuf {
    chosen.clone().unwrap_or_else(|| PathBuf::from("."))
}

/// Runs `rules`; returns the exit code: 1 when a page has a mistake or no rule fits the filter, 2 when there is no page to
/// test.
///
/// # Errors
/// When standard output cannot be written.
pub fn list(args: &RulesArgs) -> anyhow::Result<i32> {
    let (rules, mut problems) = files::load_rules(&[workspace(&args.workspace)]);
    let wanted = args.filter.as_deref().unwrap_or_default().to_lowercase();
    let mut out = anstream::stdout().lock();
    if args.test {
        let own: Vec<_> = rules.pages().iter().filter(|page| page.own).collect();
        let folder = workspace(&args.workspace).join(files::USER_RULES);
        if own.is_empty() && problems.is_empty() {
            let folder = super::complaint(&folder.to_string_lossy());
            writeln!(anstream::stderr(), "trainwreck: no pages in {folder}: nothing was tested")?;
            return Ok(2);
        }
        problems.extend(own.iter().flat_map(|page| excerpts::check(page, &rules)));
        if problems.iter().all(|problem| problem.note) {
            let folder = super::complaint(&folder.to_string_lossy());
            writeln!(out, "{}", fill(Language::English, "rules.hold", &[("count", own.len().to_string()), ("folder", folder)]))?;
        }
    } else {
        let mut listed = 0;
        for page in rules.pages() {
            let front = &page.front;
            let texts = [front.id.as_str(), front.title.as_str(), front.kind.as_str()];
            if texts.iter().any(|text| text.to_lowercase().contains(&wanted)) {
                let title = super::printable_line(&front.title);
                writeln!(out, "{:<28} {:<10} {:<8} {title}", front.id, front.kind, front.severity)?;
                listed += 1;
            }
        }
        for page in pages::all() {
            if [&page.id, &page.title].iter().any(|text| text.to_lowercase().contains(&wanted)) {
                writeln!(out, "{:<28} {:<10} {:<8} {}", page.id, "config", page.severity, page.title)?;
                listed += 1;
            }
        }
        if listed == 0 {
            writeln!(anstream::stderr(), "trainwreck: no rule's id, title or kind contains `{}`", super::printable_line(&wanted))?;
            return Ok(1);
        }
    }
    for problem in &problems {
        writeln!(anstream::stderr(), "{}", super::complaint(&problem.to_string()))?;
    }
    Ok(i32::from(problems.iter().any(|problem| !problem.note)))
}

/// Runs `explain`; returns the exit code: 2 when there is no such rule.
///
/// # Errors
/// When standard output cannot be written.
pub fn explain(args: &ExplainArgs) -> anyhow::Result<i32> {
    // Marks on configs have pages too, without a pattern.
    if let Some(page) = pages::page(&args.rule) {
        write!(anstream::stdout(), "{}", page.markdown())?;
        return Ok(0);
    }
    let (rules, _) = files::load_rules(&[workspace(&args.workspace)]);
    let shown = super::printable_line(&args.rule);
    let candidates = candidates(&args.rule, &rules);
    if let [id] = candidates.as_slice()
        && let Some(page) = explain::page_markdown(&rules, id)
    {
        write!(anstream::stdout(), "{}", super::printable(&page))?;
        return Ok(0);
    }
    let mut complaint = anstream::stderr();
    if candidates.is_empty() {
        writeln!(complaint, "trainwreck: no rule is called `{shown}`; `trainwreck rules` lists them")?;
        return Ok(2);
    }
    let more = candidates.len().saturating_sub(MOST_CANDIDATES);
    let list = candidates[..candidates.len() - more].join(", ");
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    writeln!(complaint, "trainwreck: no rule is called `{shown}`; near it: {list}{rest}")?;
    Ok(2)
}

/// The rule of this id; else the one that finds something in the text; else all whose id or title holds all its words.
fn candidates(wanted: &str, rules: &Arc<Rules>) -> Vec<String> {
    if rules.page(wanted).is_some() {
        return vec![wanted.to_owned()];
    }
    // An exception is told by its traceback; its last line alone is what people copy.
    let as_exception = format!("Traceback (most recent call last):\n  File \"main.py\", line 1, in <module>\n{wanted}");
    for text in [wanted, &as_exception] {
        let analysis = analyze(text, rules);
        if let Some(finding) = analysis.story.root.or(Some(0)).and_then(|index| analysis.findings.get(index)) {
            return vec![finding.rule.to_string()];
        }
    }
    let words: Vec<String> = wanted.split([' ', '-', '_']).filter(|word| !word.is_empty()).map(str::to_lowercase).collect();
    let holds = |text: &str| !words.is_empty() && words.iter().all(|word| text.contains(word.as_str()));
    let pages = rules.pages().iter().map(|page| &page.front);
    let mut near: Vec<&str> =
        pages.filter(|front| holds(&format!("{} {}", front.id, front.title.to_lowercase()))).map(|front| front.id.as_str()).collect();
    // What is mostly meant first: the words stand in the id itself, and little else does.
    near.sort_by_key(|id| (!holds(id), id.len()));
    near.into_iter().map(str::to_owned).collect()
}
