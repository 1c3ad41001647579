//! `check --format github`: workflow commands that GitHub draws as annotations.
//!
//! GitHub shows ten errors, ten warnings and ten notices a step (docs.github.com, "Workflow commands"): the root cause
//! stands first, and a last notice says how many were left out. Values are escaped as the runner's toolkit does.

use std::io::Write;

use super::json::column;
use super::{expected, printable};
use crate::explain::expected::Expected;
use crate::explain::texts::{Language, fill};
use crate::explain::{self};
use crate::log::Analysis;
use crate::log::vocabulary::{Role, Severity};
use crate::text::Lines;

/// Annotations of one level that a step shows.
const MOST: usize = 10;

/// Counts what was written, over all files.
#[derive(Debug, Default)]
pub struct Annotations {
    errors: usize,
    warnings: usize,
    notices: usize,
    left_out: usize,
}

impl Annotations {
    /// Writes the events of one file, the root cause first; information is left to other formats, unless it is the root.
    /// `plan` is what a memory plan expects of the root cause.
    ///
    /// # Errors
    /// When the output cannot be written.
    pub fn write(
        &mut self,
        out: &mut dyn Write,
        file: &str,
        analysis: &Analysis,
        lines: &dyn Lines,
        plan: Option<&Expected>,
    ) -> std::io::Result<()> {
        let mut leads: Vec<usize> = analysis.story.groups.iter().map(|group| group.lead).collect();
        let findings = &analysis.findings;
        leads.retain(|&i| findings[i].severity != Severity::Info || findings[i].role == Role::RootCause);
        leads.sort_by_key(|&i| (findings[i].role != Role::RootCause, findings[i].severity != Severity::Error, i));
        for index in leads {
            let finding = &findings[index];
            let (command, count) = match finding.severity {
                Severity::Error => ("error", &mut self.errors),
                Severity::Warning => ("warning", &mut self.warnings),
                Severity::Info => ("notice", &mut self.notices),
            };
            // One notice is kept for the count of what was left out.
            if *count + usize::from(command == "notice") >= MOST {
                self.left_out += 1;
                continue;
            }
            *count += 1;
            let span = finding.span;
            let message = explain::diagnostic_message(analysis, index);
            let plan = plan.filter(|_| finding.role == Role::RootCause);
            let message = plan.map_or_else(|| message.clone(), |plan| expected::told_with(&message, plan));
            writeln!(
                out,
                "::{command} file={},line={},endLine={},col={},endColumn={},title={}::{}",
                property(file),
                span.line + 1,
                span.end_line + 1,
                column(&lines.line(span.line), span.start),
                column(&lines.line(span.end_line), span.end),
                property(&format!("{} ({})", finding.title, finding.rule)),
                data(&message),
            )?;
        }
        Ok(())
    }

    /// Says how many were left out.
    ///
    /// # Errors
    /// When the output cannot be written.
    pub fn finish(&self, out: &mut dyn Write) -> std::io::Result<()> {
        match self.left_out {
            0 => Ok(()),
            count => writeln!(out, "::notice::{}", data(&fill(Language::English, "github.left-out", &[("count", count.to_string())]))),
        }
    }
}

fn data(text: &str) -> String {
    printable(text).replace('%', "%25").replace('\n', "%0A")
}

fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::analyze;
    use crate::log::rules::Rules;
    use crate::text::StrLines;

    #[test]
    fn ten_a_level_and_the_rest_is_counted() {
        let mut all = Annotations::default();
        let mut out = Vec::new();
        for i in 0..14 {
            let text = "RuntimeError: CUDA error: out of memory\n";
            let analysis = analyze(text, &Rules::builtin());
            all.write(&mut out, &format!("a,{i}:b.log"), &analysis, &StrLines::new(text), None).unwrap();
        }
        all.finish(&mut out).unwrap();
        let out = String::from_utf8(out).unwrap();
        assert_eq!(out.lines().filter(|line| line.starts_with("::error file=a%2C")).count(), 10, "{out}");
        assert!(out.lines().last().unwrap().starts_with("::notice::4 "), "{out}");
        assert!(out.lines().next().unwrap().contains("file=a%2C0%3Ab.log,line=1,endLine=1,col=1,endColumn=40,title="), "{out}");
    }
}
