//! The report for people.

use std::io::Write;

use crate::log::Analysis;
use crate::log::rules::Rules;
use crate::text::{Lines, StrLines};

/// Counts over all files.
#[derive(Debug, Default)]
pub struct Summary {
    files: usize,
}

impl Summary {
    /// Writes the closing lines.
    ///
    /// # Errors
    /// When the output cannot be written.
    pub fn write(&self, out: &mut dyn Write) -> std::io::Result<()> {
        writeln!(out, "{} files", self.files)
    }
}

/// Writes the report of one file.
///
/// # Errors
/// When the output cannot be written.
pub fn write(out: &mut dyn Write, name: &str, analysis: &Analysis, lines: &StrLines<'_>, _rules: &Rules, _all: bool, summary: &mut Summary) -> std::io::Result<()> {
    summary.files += 1;
    for f in &analysis.findings {
        writeln!(out, "{name}:{}: {} {} {} {} {}", f.span.line + 1, f.severity, f.rule, f.role, f.cause, f.message)?;
        writeln!(out, "    {}", lines.line(f.span.line).chars().take(160).collect::<String>())?;
    }
    Ok(())
}
