//! Errors that Python prints while it cleans up, and ignores: `Exception ignored in: <function X.__del__ …>`, failures of
//! exit callbacks and of hooks. They end nothing; whatever they say happened after the end.

use super::finding::Finding;
use super::record::{self, Record};
use super::uncaught;
use super::vocabulary::{Cause, Kind, Role, Severity};
use crate::text::Lines;

/// Lines above an error that are read for the heading of its traceback.
const MOST_LINES: usize = 120;
/// Bytes of a line that are read.
const MOST_BYTES: usize = 1024;
/// Errors that are looked at.
const MOST_FINDINGS: usize = 256;

/// Makes errors of the clean-up context, except the only word of an error that breaks the device for good.
pub(super) fn mark(findings: &mut [Finding], lines: &dyn Lines) {
    let loud = |f: &Finding| f.severity != Severity::Info || uncaught::is_exception(f);
    let ignored: Vec<usize> =
        (0..findings.len()).filter(|&i| loud(&findings[i])).take(MOST_FINDINGS).filter(|&i| is_ignored(&findings[i], lines)).collect();
    let explains = |f: &Finding| f.role == Role::RootCause && f.severity == Severity::Error;
    let told = (0..findings.len()).any(|i| explains(&findings[i]) && !ignored.contains(&i));
    let kept = ignored.iter().copied().find(|&i| !told && explains(&findings[i]) && findings[i].kind == Kind::CudaError);
    for i in ignored.into_iter().filter(|&i| Some(i) != kept) {
        let finding = &mut findings[i];
        if uncaught::is_exception(finding) {
            finding.cause = Cause::Teardown;
        }
        (finding.role, finding.severity) = (Role::Context, Severity::Info);
    }
}

/// Does the traceback that an error stands in, or one that led to it, have such a heading?
fn is_ignored(finding: &Finding, lines: &dyn Lines) -> bool {
    let record = |i: usize| record::last(&lines.line(i), MOST_BYTES);
    let line = finding.span.line;
    let own = record(line);
    if announces(&own.body.text) {
        return true;
    }
    let mut above = (line.saturating_sub(MOST_LINES)..line).rev().map(record).filter(|above| is_beside(above, &own));
    loop {
        let Some(header) = above.by_ref().find(|above| !is_body(above, &own)) else { return false };
        if !header.body.text.contains("Traceback (most recent call last)") {
            return false;
        }
        let Some(heading) = above.next() else { return false };
        if announces(&heading.body.text) {
            return true;
        }
        // A chain of tracebacks: the exception above led to this one.
        if !heading.body.text.ends_with("another exception occurred:") && !heading.body.text.ends_with("cause of the following exception:")
        {
            return false;
        }
        above.next();
    }
}

/// Is it a line of the same rank or process, and not a blank one?
fn is_beside(above: &Record, own: &Record) -> bool {
    above.prefix.is_same_source(&own.prefix) && !above.body.text.is_empty()
}

/// Is it a frame, a source line or a row of carets of the traceback?
fn is_body(above: &Record, own: &Record) -> bool {
    let text = above.body.text.as_str();
    (above.indent > own.indent || text.starts_with("File \"") || text.starts_with(['^', '~'])) && !text.contains("Traceback (most")
}

fn announces(text: &str) -> bool {
    let of_thread =
        || text.starts_with("Exception in thread ") && ["daemon", "interpreter shutdown"].iter().any(|word| text.contains(word));
    let starts = ["Exception ignored ", "Error in atexit._run_exitfuncs", "Error in sys.excepthook", "Exception in threading.excepthook"];
    starts.iter().any(|start| text.starts_with(start)) || of_thread()
}
