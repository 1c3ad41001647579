//! `trainwreck story FILES.jsonl | -`: one story over what `check --format jsonl` found on many machines.
//!
//! Reads findings, never logs: the logs stay where they were written. A line that is no finding is reported with its
//! number and passed over. Exit code: 0 nothing at or above the level, 1 findings, 2 could not run.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use serde_json::{Value as Json, json};

use super::joined::Joined;
use super::report::run_name;
use super::shared::Output;
use super::{complaint, json, json_text, markdown, post_mortem, printable_line};
use crate::explain::post_mortem as words;
use crate::explain::texts::{Language, fill, text};
use crate::files::{self, input};
use crate::log::Finding;
use crate::log::rules::Rules;
use crate::log::run::{Part, Place};
use crate::log::vocabulary::Role;
use crate::text::StrLines;

/// Bytes of a line that are read; a longer one is no finding.
const MOST_LINE: u64 = 1 << 20;
/// Lines that are reported as malformed, for each input; the rest is counted.
const MOST_REPORTED: usize = 10;

/// Arguments of `story`.
#[derive(Debug, Args)]
pub struct StoryArgs {
    /// Output of `check --format jsonl`, of any number of files; `-` reads standard input
    #[arg(required = true)]
    pub inputs: Vec<PathBuf>,
    /// Format, level and workspace
    #[command(flatten)]
    pub output: Output<Format>,
}

/// Output formats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people
    #[default]
    Text,
    /// One object per run, as an array
    Json,
    /// For an issue tracker
    Markdown,
}

/// What could not be read; told on standard error.
#[derive(Default)]
struct Trouble {
    /// An input could not be opened or read.
    failed: bool,
    /// Lines that are no findings.
    malformed: usize,
}

/// Runs the command; returns the exit code.
///
/// # Errors
/// When standard output cannot be written, other than a closed pipe.
pub fn run(args: &StoryArgs) -> anyhow::Result<i32> {
    let workspace = args.output.workspace();
    let (rules, problems) = files::load_rules(&[workspace]);
    for problem in &problems {
        say(&format!("{problem} (this rule page is left out)"));
    }
    let mut joined = Joined::default();
    let mut trouble = Trouble::default();
    for path in &args.inputs {
        let name = if path == Path::new("-") { "<stdin>".to_owned() } else { path.to_string_lossy().into_owned() };
        let unreadable = |e: std::io::Error| format!("cannot be read: {e}");
        let outcome = if path == Path::new("-") {
            read(&mut std::io::stdin().lock(), &name, &rules, &mut joined, &mut trouble).map_err(unreadable)
        } else {
            let waiting = || say(&format!("{name}: {}", input::WAITING));
            input::stream(path, &waiting)
                .and_then(|file| read(&mut BufReader::new(file), &name, &rules, &mut joined, &mut trouble).map_err(unreadable))
        };
        if let Err(why) = outcome {
            trouble.failed = true;
            say(&format!("{name}: {why}"));
        }
    }
    if joined.findings == 0 && (trouble.failed || trouble.malformed > 0) {
        return Ok(2);
    }
    if joined.left_out > 0 {
        say(&fill(Language::English, "story.left-out", &[("count", joined.left_out.to_string())]));
    }
    let mut out = std::io::BufWriter::new(anstream::stdout());
    match write(args, joined, trouble.malformed, &rules, &mut out).and_then(|found| out.flush().map(|()| found)) {
        Ok(_) if trouble.failed => Ok(2),
        Ok(found) => Ok(i32::from(found)),
        Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => Ok(0),
        Err(e) => Err(anyhow::Error::new(e).context("writing the story")),
    }
}

fn say(message: &str) {
    let _ = writeln!(anstream::stderr(), "trainwreck: {}", complaint(message));
}

/// Reads one input, line by line.
fn read(input: &mut dyn BufRead, name: &str, rules: &Rules, joined: &mut Joined, trouble: &mut Trouble) -> std::io::Result<()> {
    let mut buffer = Vec::new();
    let mut bad = 0;
    let found_before = joined.findings;
    for number in 1usize.. {
        buffer.clear();
        let length = (&mut *input).take(MOST_LINE).read_until(b'\n', &mut buffer)?;
        if length == 0 {
            break;
        }
        let whole = buffer.last() == Some(&b'\n') || (length as u64) < MOST_LINE;
        if !whole {
            skip_line(input)?;
        }
        let line = String::from_utf8_lossy(&buffer);
        let problem = match (whole, line.trim()) {
            (true, "") => continue,
            (true, line) => joined.add(line, rules).err(),
            (false, _) => Some(format!("longer than {} MiB", MOST_LINE >> 20)),
        };
        if let Some(problem) = problem {
            bad += 1;
            if bad <= MOST_REPORTED {
                say(&format!("{name}:{number}: not a finding, left out: {problem}"));
            }
        }
    }
    if bad > MOST_REPORTED {
        let values = [("name", name.to_owned()), ("count", (bad - MOST_REPORTED).to_string())];
        say(&fill(Language::English, "story.more-malformed", &values));
    }
    if bad > 0 && joined.findings == found_before {
        say(&format!("{name}: no line is a finding of `trainwreck check --format jsonl`; `trainwreck check` reads logs"));
    }
    trouble.malformed += bad;
    Ok(())
}

fn skip_line(input: &mut dyn BufRead) -> std::io::Result<()> {
    let mut rest = Vec::new();
    loop {
        rest.clear();
        let length = (&mut *input).take(MOST_LINE).read_until(b'\n', &mut rest)?;
        if length == 0 || rest.last() == Some(&b'\n') {
            return Ok(());
        }
    }
}

/// Writes the story of each run; says whether anything reached the level.
fn write(args: &StoryArgs, joined: Joined, malformed: usize, rules: &Rules, out: &mut dyn Write) -> std::io::Result<bool> {
    let language = Language::English;
    let mut found = false;
    let mut objects = Vec::new();
    for parts in by_attempt(joined.parts) {
        let (parts, root) = Joined::join(parts);
        found |= parts.iter().flat_map(|part| &part.analysis.findings).any(|f| args.output.level.reached_by(f.severity));
        let views: Vec<words::Part<'_>> = parts
            .iter()
            .map(|part| words::Part { name: Some(&part.name), rank: part.rank, analysis: &part.analysis, lines: None })
            .collect();
        let place = root.map(|root| (root.part, root.finding));
        let name = heading(&parts);
        match args.output.format {
            Format::Text => {
                let values = [("files", parts.len().to_string()), ("name", printable_line(&name))];
                writeln!(out, "{}\n", fill(language, "report.run", &values))?;
                post_mortem::write(out, &words::rows(&views, place, rules))?;
                writeln!(out)?;
            }
            Format::Json => objects.push(object(&parts, root, malformed)),
            Format::Markdown => markdown::write(out, &name, &views, place, None, rules)?,
        }
    }
    match args.output.format {
        Format::Text if joined.findings == 0 => writeln!(out, "{}", text(language, "post.nothing"))?,
        Format::Json => json_text::write_pretty(out, &objects)?,
        Format::Text | Format::Markdown => {}
    }
    Ok(found)
}

/// Restarts of a job that torchrun numbers (`attempt_0`, `attempt_1`) are runs of their own; all else given is one run.
fn by_attempt(parts: Vec<Part>) -> Vec<Vec<Part>> {
    let mut runs: BTreeMap<Option<u64>, Vec<Part>> = BTreeMap::new();
    for part in parts {
        let attempt = part.name.split(['/', '\\']).find_map(|folder| folder.strip_prefix("attempt_")?.parse().ok());
        runs.entry(attempt).or_default().push(part);
    }
    // What names no attempt belongs to the only one there is.
    match runs.len() {
        0..=2 if runs.contains_key(&None) => vec![runs.into_values().rev().flatten().collect()],
        _ => runs.into_values().collect(),
    }
}

/// What the run is called: the pattern of its files' names, else the first of them.
fn heading(parts: &[Part]) -> String {
    let name = run_name(&parts[0].name, parts.len() > 1);
    if parts.iter().all(|part| run_name(&part.name, parts.len() > 1) == name) { name } else { format!("{}, …", parts[0].name) }
}

/// The story of one run as an object.
fn object(parts: &[Part], root: Option<Place>, malformed: usize) -> Json {
    let mut out = json::run(parts, root);
    let all = || parts.iter().flat_map(|part| part.analysis.findings.iter().map(move |finding| (part, finding)));
    let mut ranks: Vec<u32> = all().filter_map(|(_, finding)| finding.rank).chain(parts.iter().filter_map(|part| part.rank)).collect();
    ranks.sort_unstable();
    ranks.dedup();
    out["ranks"] = ranks.into();
    out["skipped_lines"] = malformed.into();
    out["root_cause"] = root.map_or(Json::Null, |root| finding(&parts[root.part], &parts[root.part].analysis.findings[root.finding]));
    let mut order: Vec<Event<'_>> = Vec::new();
    let mut of_key: BTreeMap<(&str, &str, &str), usize> = BTreeMap::new();
    for part in parts {
        for group in &part.analysis.story.groups {
            let lead = &part.analysis.findings[group.lead];
            // The same event as the root cause, elsewhere, counts with it.
            let role = if lead.role == Role::Repeat { Role::RootCause } else { lead.role };
            let at = *of_key.entry((&lead.rule, lead.cause.as_str(), role.as_str())).or_insert(order.len());
            if at == order.len() {
                order.push(Event { part, lead, role, files: 0, count: 0, ranks: Vec::new() });
            }
            let event = &mut order[at];
            event.files += 1;
            event.count += group.members.len();
            event.ranks.extend(&group.ranks);
        }
    }
    out["events"] = order.into_iter().map(Event::object).collect();
    out
}

/// One event over all files.
struct Event<'a> {
    part: &'a Part,
    lead: &'a Finding,
    role: Role,
    files: usize,
    count: usize,
    ranks: Vec<u32>,
}

impl Event<'_> {
    fn object(mut self) -> Json {
        self.ranks.sort_unstable();
        self.ranks.dedup();
        json!({
            "rule": &*self.lead.rule,
            "title": &*self.lead.title,
            "kind": self.lead.kind.as_str(),
            "cause": self.lead.cause.as_str(),
            "severity": self.lead.severity.as_str(),
            "role": self.role.as_str(),
            "count": self.count,
            "files": self.files,
            "ranks": self.ranks,
            "first": {"file": self.part.name, "line": self.lead.span.line + 1},
        })
    }
}

/// A finding as `check` writes it. Its columns were counted in characters already.
fn finding(part: &Part, finding: &Finding) -> Json {
    let mut out = json::finding(&part.name, finding, &StrLines::new(""));
    out["column"] = (finding.span.start + 1).into();
    out["end_column"] = (finding.span.end + 1).into();
    out
}
