//! Rule pages of the workspace: loaded at the start and whenever one of them changes; their mistakes become marks on
//! the pages.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use tower_lsp_server::Client;
use tower_lsp_server::ls_types::{Diagnostic, DiagnosticSeverity, Position, Range};

use super::convert::{Diagnostics, DocumentUri, number};
use super::state::State;
use crate::files::{USER_RULES, load_rules};
use crate::log::rules::PageProblem;

/// Files whose changes are told to us.
pub const WATCHED: &str = "**/.trainwreck/rules/*.md";
/// How many units of a faulty line are marked; editors cut the mark at the line's end.
const MARKED_COLUMNS: u32 = 200;

/// The folders that are looked into, and the pages that have marks.
#[derive(Default)]
pub struct UserRules {
    workspaces: Mutex<Vec<PathBuf>>,
    problems: Mutex<Vec<PageProblem>>,
    marked: Mutex<Vec<DocumentUri>>,
    /// One loading at a time, the later one last.
    turn: tokio::sync::Mutex<()>,
}

impl UserRules {
    /// Says which folders the workspace has.
    pub fn set_workspaces(&self, folders: Vec<PathBuf>) {
        *self.workspaces.lock().unwrap_or_else(PoisonError::into_inner) = folders;
    }

    /// The folders of the workspace.
    pub fn workspaces(&self) -> Vec<PathBuf> {
        self.workspaces.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Adds and removes folders of the workspace.
    pub fn change_workspaces(&self, added: Vec<PathBuf>, removed: &[PathBuf]) {
        let mut folders = self.workspaces.lock().unwrap_or_else(PoisonError::into_inner);
        folders.retain(|folder| !removed.contains(folder) && !added.contains(folder));
        folders.extend(added);
    }

    /// Is this file a rule page of the workspace?
    pub fn is_page(&self, file: &Path) -> bool {
        let folders = self.workspaces.lock().unwrap_or_else(PoisonError::into_inner);
        file.extension().is_some_and(|ending| ending == "md")
            && folders.iter().any(|folder| file.parent() == Some(&folder.join(USER_RULES)))
    }

    /// Loads all pages and uses them from now on; their mistakes are kept for [`UserRules::show`].
    pub async fn load(&self, state: &State) {
        let _turn = self.turn.lock().await;
        let folders = self.workspaces.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Ok((rules, problems)) = tokio::task::spawn_blocking(move || load_rules(&folders)).await {
            state.set_rules(rules);
            *self.problems.lock().unwrap_or_else(PoisonError::into_inner) = problems;
        }
    }

    /// Marks the mistakes on their pages, and takes away the marks of those mended.
    pub async fn show(&self, client: &Client) {
        let _turn = self.turn.lock().await;
        let mut pages = marks(&self.problems.lock().unwrap_or_else(PoisonError::into_inner));
        let former = std::mem::take(&mut *self.marked.lock().unwrap_or_else(PoisonError::into_inner));
        for uri in former {
            pages.entry(uri.key()).or_insert_with(|| (uri, Vec::new()));
        }
        for (uri, marks) in pages.into_values() {
            if !marks.is_empty() {
                self.marked.lock().unwrap_or_else(PoisonError::into_inner).push(uri.clone());
            }
            client.publish_diagnostics(uri.0, marks, None).await;
        }
    }
}

fn marks(problems: &[PageProblem]) -> HashMap<String, (DocumentUri, Diagnostics)> {
    let mut pages = HashMap::new();
    for problem in problems {
        let Some(uri) = DocumentUri::of_file(Path::new(&problem.file)) else {
            continue;
        };
        let line = number(problem.line.saturating_sub(1));
        let page = pages.entry(uri.key()).or_insert_with(|| (uri, Vec::new()));
        page.1.push(Diagnostic {
            range: Range::new(Position::new(line, 0), Position::new(line, MARKED_COLUMNS)),
            severity: Some(if problem.note { DiagnosticSeverity::INFORMATION } else { DiagnosticSeverity::ERROR }),
            source: Some("trainwreck".to_owned()),
            message: problem.message.clone(),
            ..Diagnostic::default()
        });
    }
    pages
}
