//! What the commands that read findings have in common: their flags, and what reaches the exit code.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::log::vocabulary::Severity;

/// The flags of `check` and `story`. `F` are the output formats of the command.
#[derive(Debug, Args)]
pub struct Output<F: ValueEnum + Default + Clone + Send + Sync + 'static> {
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    pub format: F,
    /// Findings from this severity on make the exit code 1
    #[arg(long, value_enum, default_value_t = Level::Warning)]
    pub level: Level,
    /// Folder whose .trainwreck/rules are loaded; the current one by default
    #[arg(long, value_name = "DIR")]
    workspace: Option<PathBuf>,
}

impl<F: ValueEnum + Default + Clone + Send + Sync + 'static> Output<F> {
    /// The folder whose own pages and configs count.
    pub fn workspace(&self) -> PathBuf {
        self.workspace.clone().unwrap_or_else(|| PathBuf::from("."))
    }
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
    /// Does a finding of this severity count?
    pub fn reached_by(self, severity: Severity) -> bool {
        match self {
            Level::Error => severity == Severity::Error,
            Level::Warning => severity != Severity::Info,
            Level::Info => true,
        }
    }
}
