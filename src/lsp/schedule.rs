//! The analysis of the open documents, on one thread of its own.
//!
//! A document is read as a snapshot of its rope while edits go on; edits that came meanwhile are merged into one range
//! of lines and done next, on the findings so far. An edit therefore never cancels the reading of a large file that
//! grows all the time; only closing the document, or opening it anew, does.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use ropey::Rope;

use super::config::{self, ConfigReading};
use super::diagnostics;
use super::note;
use super::state::{Job, Reading, State, Todo};
use crate::log::sniff::HEAD_LINES;
use crate::log::{Analysis, LogDocument, looks_like_log};
use crate::text::document::LineEdit;

/// How much of a text is looked at to tell whether it is a log, in bytes.
const HEAD: usize = 64 << 10;

/// What a text says as a config, and as a log.
type Known = (Option<Arc<ConfigReading>>, Option<Arc<Analysis>>);

/// Starts the thread. It ends with the process.
pub fn start(state: Arc<State>) -> std::io::Result<()> {
    let thread = std::thread::Builder::new().name("analysis".into());
    thread.spawn(move || {
        loop {
            let mut job = state.next_job();
            let reading = read(&state, &mut job);
            state.finish(&mut job, reading);
        }
    })?;
    Ok(())
}

/// Does a job; `None` when it was cancelled or its text has changed meanwhile.
fn read(state: &State, job: &mut Job) -> Option<Reading> {
    let (config, mut analysis) = match catch_unwind(AssertUnwindSafe(|| look(job))) {
        Ok(known) => known?,
        Err(_) => {
            // Never expected; but a server that stays silent ever after would be worse than a file without findings.
            note(&format!("the analysis of {} failed", job.uri.key()));
            (job.engine, job.config) = (None, None);
            (None, None)
        }
    };
    if !state.is_current(job) {
        return None;
    }
    let others = state.among_its_run(job, &mut analysis);
    let (shown, diagnostics) = match (&analysis, &config) {
        (Some(analysis), _) => diagnostics::build(job, analysis, &others),
        (None, Some(config)) => (Vec::new(), config::marks(config, job)),
        (None, None) => Default::default(),
    };
    Some(Reading {
        uri: job.uri.clone(),
        version: job.version,
        serial: job.serial,
        rope: job.rope.clone(),
        analysis,
        config,
        shown,
        diagnostics,
        rules: job.rules.clone(),
        settings: job.settings.clone(),
    })
}

/// What is known of the job's text: as a config, or as a log. `None` when the job was cancelled.
fn look(job: &mut Job) -> Option<Known> {
    if let Some(config) = config::read(job) {
        job.engine = None;
        return Some((Some(config), None));
    }
    Some((None, analyse(job)?))
}

/// The findings of the job's text, `Some(None)` when it is no log, `None` when the job was cancelled.
fn analyse(job: &mut Job) -> Option<Option<Arc<Analysis>>> {
    let cancel = job.cancel.clone();
    let keep_going = || !cancel.load(Ordering::Relaxed);
    let engine = match (job.todo, job.engine.take()) {
        // What is judged is the beginning of a text: an edit there may have made the log a document.
        (Todo::Edit(LineEdit { first, .. }), Some(_)) if first < HEAD_LINES && !is_log(job) => return Some(None),
        (Todo::Edit(LineEdit { first, old, new }), Some(mut engine)) => {
            engine.edit(&job.rope, first, old, new, &keep_going)?;
            engine
        }
        (Todo::Show | Todo::Nothing, Some(engine)) => engine,
        _ => {
            if !is_log(job) {
                return Some(None);
            }
            let mut engine = LogDocument::new(job.rules.clone());
            engine.open(&job.rope, &keep_going)?;
            engine
        }
    };
    let analysis = engine.analysis();
    job.engine = Some(engine);
    Some(Some(analysis))
}

fn is_log(job: &Job) -> bool {
    looks_like_log(&job.uri.name(), &job.language, &head(&job.rope))
}

fn head(rope: &Rope) -> String {
    let end = rope.byte_to_char(HEAD.min(rope.len_bytes()));
    rope.slice(..end).to_string()
}
