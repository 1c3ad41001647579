//! `trainwreck check PATH... | -`: reads logs and says why the run died.
//!
//! Exit code: 0 nothing at or above the level, 1 findings, 2 could not run. A closed pipe is no error.

use std::io::{IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, ValueEnum};

use super::{github, json, markdown, sarif, text};
use crate::explain::post_mortem::Part;
use crate::files;
use crate::log::rules::Rules;
use crate::log::vocabulary::Severity;
use crate::log::{Analysis, analyze, sniff};
use crate::text::StrLines;
use crate::text::redact::Redactor;

/// Arguments of `check`.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// Log files or folders; `-` reads standard input
    #[arg(required = true)]
    pub paths: Vec<PathBuf>,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    /// Findings from this severity on make the exit code 1
    #[arg(long, value_enum, default_value_t = Level::Warning)]
    pub level: Level,
    /// Folder whose .trainwreck/rules are loaded; the current one by default
    #[arg(long, value_name = "DIR")]
    pub workspace: Option<PathBuf>,
    /// Show every finding, not only the first of each event
    #[arg(long)]
    pub all: bool,
    /// Mask user names, host names, home paths, addresses and tokens before anything is read
    #[arg(long)]
    pub redact: bool,
}

/// Output formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people
    Text,
    /// One object with findings and story per file, as an array
    Json,
    /// One object per finding and line
    Jsonl,
    /// The post-mortem of each file, for an issue tracker
    Markdown,
    /// SARIF 2.1.0, for code-scanning viewers
    Sarif,
    /// Workflow commands that GitHub draws as annotations
    Github,
}

/// Severities as flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Level {
    /// Errors only
    Error,
    /// Warnings and errors
    Warning,
    /// Everything
    Info,
}

impl Level {
    fn reached_by(self, severity: Severity) -> bool {
        match self {
            Level::Error => severity == Severity::Error,
            Level::Warning => severity != Severity::Info,
            Level::Info => true,
        }
    }
}

/// Files of a folder that are read although their names do not end like a log's.
const MOST_FOLDER_FILE: u64 = 4 << 30;

/// Runs the command; returns the exit code.
///
/// # Errors
/// When standard output cannot be written, other than a closed pipe.
pub fn run(args: &CheckArgs) -> anyhow::Result<i32> {
    let workspace = args.workspace.clone().unwrap_or_else(|| PathBuf::from("."));
    let (rules, problems) = files::load_rules(&[workspace]);
    let mut complain = Complaints::default();
    for problem in &problems {
        complain.say(&format!("{problem} (this rule page is left out)"));
    }
    let mut inputs = Vec::new();
    for path in &args.paths {
        gather(path, &mut inputs, &mut complain);
    }
    let mut out = std::io::BufWriter::new(anstream::stdout());
    let outcome = write_all(args, &inputs, &rules, &mut out, &mut complain).and_then(|found| out.flush().map(|()| found));
    match outcome {
        Ok(_) if complain.failed => Ok(2),
        Ok(true) => Ok(1),
        Ok(false) => Ok(0),
        Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => Ok(0),
        Err(e) => Err(anyhow::Error::new(e).context("writing the report")),
    }
}

/// Messages about what could not be read; they go to standard error.
#[derive(Default)]
struct Complaints {
    failed: bool,
}

impl Complaints {
    fn say(&mut self, message: &str) {
        let _ = writeln!(anstream::stderr(), "trainwreck: {}", super::printable_line(message));
    }

    fn fail(&mut self, message: &str) {
        self.failed = true;
        self.say(message);
    }
}

/// A thing to read.
struct Input {
    path: Option<PathBuf>,
    /// Was it named by the user (then it is read whatever its name), or met in a folder?
    named: bool,
}

fn gather(path: &Path, inputs: &mut Vec<Input>, complain: &mut Complaints) {
    if path == Path::new("-") {
        inputs.push(Input { path: None, named: true });
        return;
    }
    if !path.is_dir() {
        inputs.push(Input { path: Some(path.to_owned()), named: true });
        return;
    }
    let mut walk = ignore::WalkBuilder::new(path);
    walk.standard_filters(false).hidden(true).follow_links(false).sort_by_file_path(Path::cmp);
    for entry in walk.build() {
        match entry {
            Ok(entry) if entry.file_type().is_some_and(|kind| kind.is_file()) => {
                // Empty ones are left out: those of /proc say so and never end.
                let small = entry.metadata().is_ok_and(|data| (1..=MOST_FOLDER_FILE).contains(&data.len()));
                if small && sniff::looks_like_log(&entry.path().to_string_lossy(), "", "") {
                    inputs.push(Input { path: Some(entry.into_path()), named: false });
                }
            }
            Ok(_) => {}
            Err(e) => complain.fail(&e.to_string()),
        }
    }
}

/// Writes every input's report; says whether anything reached the level.
fn write_all(
    args: &CheckArgs,
    inputs: &[Input],
    rules: &Arc<Rules>,
    out: &mut dyn Write,
    complain: &mut Complaints,
) -> std::io::Result<bool> {
    let mut found = false;
    let mut reports = Vec::new();
    let mut summary = text::Summary::default();
    let mut annotations = github::Annotations::default();
    let mut redactor = args.redact.then(|| learn(inputs));
    let show_progress = inputs.len() > 8 && std::io::stderr().is_terminal();
    for (i, input) in inputs.iter().enumerate() {
        if show_progress {
            let _ = write!(anstream::stderr(), "\r\x1b[Ktrainwreck: {}/{} files", i + 1, inputs.len());
        }
        let Some((mut name, mut content)) = read(input, complain) else { continue };
        if let Some(redactor) = &mut redactor {
            redactor.learn(&content);
            (name, content) = (redactor.apply(&name), redactor.apply(&content));
        }
        if !input.named && sniff::is_document(head(&content)) {
            continue;
        }
        let analysis = if sniff::is_document(head(&content)) { Analysis::default() } else { analyze(&content, rules) };
        found |= analysis.findings.iter().any(|f| args.level.reached_by(f.severity));
        let lines = StrLines::new(&content);
        match args.format {
            Format::Text => text::write(out, &name, &analysis, &lines, rules, args.all, &mut summary)?,
            Format::Json => reports.push(json::report(&name, &analysis, &lines)),
            Format::Jsonl => {
                for f in &analysis.findings {
                    serde_json::to_writer(&mut *out, &json::finding(&name, f, &lines))?;
                    out.write_all(b"\n")?;
                }
            }
            Format::Markdown => {
                let part = Part { name: None, analysis: &analysis, lines: Some(&lines) };
                markdown::write(out, &name, &[part], analysis.story.root.map(|root| (0, root)), rules)?;
            }
            Format::Sarif => reports.extend(sarif::results(&name, &analysis, &lines)),
            Format::Github => annotations.write(out, &name, &analysis, &lines)?,
        }
    }
    if show_progress {
        let _ = write!(anstream::stderr(), "\r\x1b[K");
    }
    match args.format {
        Format::Json => {
            serde_json::to_writer_pretty(&mut *out, &reports)?;
            out.write_all(b"\n")?;
        }
        Format::Sarif => {
            serde_json::to_writer_pretty(&mut *out, &sarif::document(reports, rules))?;
            out.write_all(b"\n")?;
        }
        Format::Text => summary.write(out)?,
        Format::Github => annotations.finish(out)?,
        Format::Jsonl | Format::Markdown => {}
    }
    Ok(found)
}

/// The names that the paths and files show, so that each is masked in all of them.
fn learn(inputs: &[Input]) -> Redactor {
    let mut redactor = Redactor::default();
    for path in inputs.iter().filter_map(|input| input.path.as_deref()) {
        redactor.learn(&path.to_string_lossy());
        // What cannot be read is reported when it is its turn.
        if let Some(content) = std::fs::read(path).ok().and_then(|bytes| files::decode(bytes).ok()) {
            redactor.learn(&content);
        }
    }
    redactor
}

/// The beginning of a text, enough to tell a log from a document.
fn head(content: &str) -> &str {
    &content[..crate::text::floor_border(content, 32 << 10)]
}

fn read(input: &Input, complain: &mut Complaints) -> Option<(String, String)> {
    let mut bytes = Vec::new();
    let name = match &input.path {
        None => {
            if let Err(e) = std::io::stdin().lock().read_to_end(&mut bytes) {
                complain.fail(&format!("standard input cannot be read: {e}"));
                return None;
            }
            "<stdin>".to_owned()
        }
        Some(path) => {
            match std::fs::read(path) {
                Ok(content) => bytes = content,
                Err(e) => {
                    complain.fail(&format!("{}: cannot be read: {e}", path.display()));
                    return None;
                }
            }
            path.to_string_lossy().into_owned()
        }
    };
    match files::decode(bytes) {
        Ok(content) => Some((name, content)),
        Err(files::Binary) => {
            if input.named {
                complain.fail(&format!("{name}: not a text file, left out"));
            }
            None
        }
    }
}
