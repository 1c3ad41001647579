//! `trainwreck rules` lists the rule pages and tests a workspace's own; `trainwreck explain RULE` prints one.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;

use crate::explain;
use crate::files;
use crate::log::rules::excerpts;

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
    /// Id of a rule, as `trainwreck rules` lists it
    pub rule: String,
    /// Folder whose .trainwreck/rules are loaded; the current one by default
    #[arg(long, value_name = "DIR")]
    pub workspace: Option<PathBuf>,
}

fn workspace(chosen: &Option<PathBuf>) -> PathBuf {
    chosen.clone().unwrap_or_else(|| PathBuf::from("."))
}

/// Runs `rules`; returns the exit code: 1 when a page has a mistake.
///
/// # Errors
/// When standard output cannot be written.
pub fn list(args: &RulesArgs) -> anyhow::Result<i32> {
    let (rules, mut problems) = files::load_rules(&[workspace(&args.workspace)]);
    let wanted = args.filter.as_deref().unwrap_or_default();
    let mut out = anstream::stdout().lock();
    if args.test {
        let own: Vec<_> = rules.pages().iter().filter(|page| page.file.contains(files::USER_RULES)).collect();
        problems.extend(own.iter().flat_map(|page| excerpts::check(page, &rules)));
        if problems.is_empty() {
            writeln!(out, "{} pages in {}: all excerpts hold", own.len(), workspace(&args.workspace).join(files::USER_RULES).display())?;
        }
    } else {
        for page in rules.pages() {
            let front = &page.front;
            if [front.id.as_str(), front.title.as_str(), front.kind.as_str()].iter().any(|text| text.contains(wanted)) {
                writeln!(out, "{:<28} {:<10} {:<8} {}", front.id, front.kind, front.severity, front.title)?;
            }
        }
    }
    for problem in &problems {
        writeln!(anstream::stderr(), "{problem}")?;
    }
    Ok(i32::from(!problems.is_empty()))
}

/// Runs `explain`; returns the exit code: 2 when there is no such rule.
///
/// # Errors
/// When standard output cannot be written.
pub fn explain(args: &ExplainArgs) -> anyhow::Result<i32> {
    let (rules, _) = files::load_rules(&[workspace(&args.workspace)]);
    match explain::page_markdown(&rules, &args.rule) {
        Some(page) => {
            write!(anstream::stdout(), "{page}")?;
            Ok(0)
        }
        None => {
            writeln!(
                anstream::stderr(),
                "trainwreck: no rule is called `{}`; `trainwreck rules` lists them",
                super::printable_line(&args.rule)
            )?;
            Ok(2)
        }
    }
}
