//! `trainwreck check PATH... | -`: reads logs and says why the run died.
//!
//! Exit code: 0 nothing at or above the level, 1 findings, 2 could not run. A closed pipe is no error.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::{IsTerminal, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use clap::{Args, ValueEnum};

use super::expected::Configs;
use super::report::Report;
use super::shared::Output;
use crate::files;
use crate::files::input::{self, Unread};
use crate::log::record;
use crate::log::rules::Rules;
use crate::log::run::{self, Part};
use crate::log::settings::{self, RunSettings};
use crate::log::{Analysis, analyze, ranks, sniff};
use crate::text::StrLines;
use crate::text::redact::Redactor;

/// Arguments of `check`.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// Log files or folders; `-` reads standard input
    #[arg(required = true)]
    pub paths: Vec<PathBuf>,
    /// Format, level and workspace
    #[command(flatten)]
    pub output: Output<Format>,
    /// Config of the model that the run used: its out-of-memory error is compared with a memory plan
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Show every finding, not only the first of each event
    #[arg(long)]
    pub all: bool,
    /// Mask user names, host names, home paths, addresses and tokens before anything is read
    #[arg(long)]
    pub redact: bool,
}

/// Output formats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people
    #[default]
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

/// Bytes of a line in which its prefix stands.
const MOST_PREFIX: usize = 512;

/// Runs the command; returns the exit code.
///
/// # Errors
/// When standard output cannot be written, other than a closed pipe.
pub fn run(args: &CheckArgs) -> anyhow::Result<i32> {
    let workspace = args.output.workspace();
    let mut complain = Complaints { failed: false, redactor: args.redact.then(Learned::default) };
    let mut configs = Configs::new(args.config.as_deref(), &workspace).unwrap_or_else(|problem| {
        complain.fail(&problem);
        Configs::default()
    });
    let (rules, problems) = files::load_rules(&[workspace]);
    for problem in &problems {
        let so = if problem.note { "" } else { " (this rule page is left out)" };
        complain.say(&format!("{problem}{so}"));
    }
    let mut inputs = Vec::new();
    for path in &args.paths {
        gather(path, &mut inputs, &mut complain);
    }
    if args.redact {
        let mut learned = learn(&inputs);
        configs.mask(&mut learned.names);
        complain.redactor = Some(learned);
    }
    let mut out = std::io::BufWriter::new(anstream::stdout());
    let outcome = write_all(args, &inputs, &configs, &rules, &mut out, &mut complain).and_then(|found| out.flush().map(|()| found));
    match outcome {
        Ok(_) if complain.failed => Ok(2),
        Ok(true) => Ok(1),
        Ok(false) => Ok(0),
        Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => Ok(0),
        Err(e) => Err(anyhow::Error::new(e).context("writing the report")),
    }
}

/// Messages about what could not be read; they go to standard error.
struct Complaints {
    failed: bool,
    /// Masks them like everything else that is printed.
    redactor: Option<Learned>,
}

impl Complaints {
    fn say(&self, message: &str) {
        say(message, self.redactor.as_ref());
    }

    fn fail(&mut self, message: &str) {
        self.failed = true;
        self.say(message);
    }
}

fn say(message: &str, redactor: Option<&Learned>) {
    let masked = redactor.map_or(Cow::Borrowed(message), |redactor| Cow::Owned(redactor.names.apply(message)));
    let _ = writeln!(anstream::stderr(), "trainwreck: {}", super::complaint(&masked));
}

/// A thing to read.
struct Input {
    path: Option<PathBuf>,
    /// Was it named by the user (then it is read whatever its name), or met in a folder?
    named: bool,
}

impl Input {
    fn name(&self) -> String {
        self.path.as_ref().map_or_else(|| "<stdin>".to_owned(), |path| path.to_string_lossy().into_owned())
    }
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
                let small = entry.metadata().is_ok_and(|data| (1..=input::MOST_LOG).contains(&data.len()));
                if small && sniff::looks_like_log(&entry.path().to_string_lossy(), "", "") {
                    inputs.push(Input { path: Some(entry.into_path()), named: false });
                }
            }
            Ok(_) => {}
            Err(e) => complain.fail(&e.to_string()),
        }
    }
}

/// Writes the report of every run; says whether anything reached the level.
fn write_all(
    args: &CheckArgs,
    inputs: &[Input],
    configs: &Configs,
    rules: &Arc<Rules>,
    out: &mut dyn Write,
    complain: &mut Complaints,
) -> std::io::Result<bool> {
    let redactor = complain.redactor.clone();
    if redactor.as_ref().is_some_and(|redactor| redactor.names.is_full()) {
        // A report that looks masked and is not would be worse than none.
        complain.fail("more names of users, hosts or addresses than can be masked: nothing is printed; give fewer files at once");
        return Ok(false);
    }
    let names: Vec<String> = inputs.iter().map(Input::name).collect();
    let runs = run::group(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let mut report = Report::new(args, rules, configs);
    let show_progress = inputs.len() > 8 && std::io::stderr().is_terminal();
    let mut done = 0;
    for run in &runs {
        done += run.len();
        if show_progress {
            let _ = write!(anstream::stderr(), "\r\x1b[Ktrainwreck: {done}/{} files", inputs.len());
        }
        let files: Vec<&Input> = run.iter().map(|&i| &inputs[i]).collect();
        let loaded = load_all(&files, rules, redactor.as_ref(), complain);
        report.write(out, loaded)?;
    }
    if show_progress {
        let _ = write!(anstream::stderr(), "\r\x1b[K");
    }
    report.finish(out)
}

/// A file that was read: its part of the run, and its text where it is still needed.
pub(super) struct Loaded {
    pub(super) part: Part,
    pub(super) content: String,
    /// Where it lies; none for standard input.
    pub(super) path: Option<PathBuf>,
    /// What it prints of itself, where the text is not kept and others of its run may need it.
    pub(super) settings: Option<RunSettings>,
}

/// Reads and analyses the files of one run, several at a time; complaints come in the order of the files.
fn load_all(files: &[&Input], rules: &Arc<Rules>, redactor: Option<&Learned>, complain: &mut Complaints) -> Vec<Loaded> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(files.len());
    let outcomes = each(files, threads, &|input| load(input, files.len() > 1, rules, redactor));
    let mut loaded = Vec::new();
    for (outcome, input) in outcomes.into_iter().zip(files) {
        match outcome {
            Some(Ok(file)) => loaded.extend(file),
            Some(Err(message)) => complain.fail(&message),
            None => complain.fail(&format!("{}: was left out: a fault in trainwreck ended its analysis; please report it", input.name())),
        }
    }
    loaded
}

/// What `work` gives for each of these, in their order; `None` where it panicked. The others are not touched by it.
fn each<I: Sync, O: Send>(items: &[I], threads: usize, work: &(dyn Fn(&I) -> O + Sync)) -> Vec<Option<O>> {
    let next = AtomicUsize::new(0);
    let one_after_the_other = || {
        let mut out = Vec::new();
        loop {
            let i = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(i) else { return out };
            // Nothing that the work may have left half done is looked at again.
            out.push((i, catch_unwind(AssertUnwindSafe(|| work(item))).ok()));
        }
    };
    let mut outcomes = if threads < 2 {
        one_after_the_other()
    } else {
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..threads).map(|_| scope.spawn(one_after_the_other)).collect();
            workers.into_iter().flat_map(|worker| worker.join().unwrap_or_default()).collect()
        })
    };
    outcomes.sort_by_key(|(i, _)| *i);
    outcomes.into_iter().map(|(_, outcome)| outcome).collect()
}

/// Reads and analyses one file, alone or `in_run` with others. `Ok(None)`: met in a folder, and no log.
fn load(input: &Input, in_run: bool, rules: &Arc<Rules>, redactor: Option<&Learned>) -> Result<Option<Loaded>, String> {
    let Some(mut content) = read(input, redactor)? else { return Ok(None) };
    let mut name = input.name();
    let rank = run::membership(&name).and_then(|run| run.rank);
    let is_document = sniff::is_document(head(&content));
    if is_document && !input.named {
        return Ok(None);
    }
    if let Some(redactor) = redactor {
        // What a pipe shows, and what a file has got since, could not be learned before.
        let is_known = input.path.as_ref().is_some_and(|path| redactor.lengths.get(path) == Some(&content.len()));
        let mut own = Cow::Borrowed(&redactor.names);
        if !is_known {
            learn_names(own.to_mut(), &content);
        }
        (name, content) = (own.apply(&name), own.apply(&content));
    }
    let mut analysis = if is_document { Analysis::default() } else { analyze(&content, rules) };
    let mut settings = None;
    if analysis.findings.is_empty() {
        // A rank that is well may know how many there are, and what the run was set to.
        if !is_document && in_run {
            let lines = StrLines::new(&content);
            analysis.story.ranks = ranks::of_quiet(&lines, rank);
            settings = rank.is_none_or(|rank| rank == 0).then(|| settings::read(&lines, usize::MAX));
        }
        // Of a long healthy file nothing is shown.
        content = String::new();
    }
    Ok(Some(Loaded { part: Part { name, rank, analysis }, content, path: input.path.clone(), settings }))
}

/// The names that the paths and files show, so that each is masked in all of them.
#[derive(Clone, Default)]
struct Learned {
    names: Redactor,
    /// How much was read of each file: it may grow until it is its turn.
    lengths: HashMap<PathBuf, usize>,
}

fn learn(inputs: &[Input]) -> Learned {
    let mut learned = Learned::default();
    for path in inputs.iter().filter_map(|input| input.path.as_deref()) {
        learned.names.learn(&path.to_string_lossy());
        // A pipe can be read only once.
        if !path.is_file() {
            continue;
        }
        // What cannot be read is reported when it is its turn.
        if let Ok(content) = input::log(path, &|| {}) {
            learn_names(&mut learned.names, &content);
            learned.lengths.insert(path.to_owned(), content.len());
        }
    }
    learned
}

/// The names that a text shows, those of hosts in front of its lines too.
fn learn_names(names: &mut Redactor, content: &str) {
    names.learn(content);
    let mut last = String::new();
    for host in content.lines().filter_map(|line| record::last(line, MOST_PREFIX).prefix.host) {
        if host != last {
            names.learn_host(&host);
            last = host;
        }
    }
}

/// The beginning of a text, enough to tell a log from a document.
fn head(content: &str) -> &str {
    &content[..crate::text::floor_border(content, 32 << 10)]
}

/// The text of an input; `Ok(None)` for a binary file met in a folder.
fn read(named: &Input, redactor: Option<&Learned>) -> Result<Option<String>, String> {
    let name = named.name();
    let outcome = match &named.path {
        None => input::log_from(std::io::stdin().lock(), input::MOST_PIPE),
        Some(path) => input::log(path, &|| {
            say(&format!("{name}: {}", input::WAITING), redactor);
        }),
    };
    match outcome {
        Ok(content) => Ok(Some(content)),
        Err(Unread::Binary) if named.named => Err(format!("{name}: not a text file, left out")),
        Err(Unread::Binary) => Ok(None),
        Err(Unread::Because(why)) => Err(format!("{name}: {why}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_costs_its_own_file_alone() {
        let items: Vec<usize> = (0..40).collect();
        for threads in [1, 3] {
            let out = each(&items, threads, &|&i| if i % 7 == 5 { panic!("on purpose") } else { i * 2 });
            assert_eq!(out.len(), 40);
            assert!(out.iter().enumerate().all(|(i, one)| *one == (i % 7 != 5).then_some(i * 2)), "{out:?}");
        }
    }
}
