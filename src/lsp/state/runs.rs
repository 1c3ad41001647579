//! Open logs of one run: which of them holds the root cause.
//!
//! Documents belong together by their names alone, as files do in `check`; nothing is opened.

use std::sync::Arc;

use ropey::Rope;

use super::{Job, State, Todo};
use crate::log::run::{self, Told};
use crate::log::{Analysis, Finding};
use crate::lsp::convert::DocumentUri;

/// Documents of one run that are looked at.
const MOST_FILES: usize = 64;

/// The root cause of a run, in another document.
pub struct Root {
    /// The document.
    pub uri: DocumentUri,
    /// Its text, as it is now.
    pub rope: Rope,
    /// The finding.
    pub finding: Finding,
}

impl State {
    /// Gives a job's analysis the roles that it has among the open documents of its run; returns the root cause when it
    /// stands in another one. Those are shown anew when what this one says has changed.
    pub fn among_its_run(&self, job: &Job, analysis: &mut Option<Arc<Analysis>>) -> Option<Root> {
        let rank = job.run.as_ref()?.rank;
        let key = &job.run.as_ref()?.key;
        let told = analysis.as_deref().map(|analysis| Told::of(analysis, rank));
        let mut inner = self.lock();
        let own = inner.documents.get_mut(&job.uri.key()).filter(|document| document.incarnation == job.incarnation)?;
        let changed = own.told != told;
        own.told = told;
        if changed {
            inner.show_run(key, &job.uri);
            self.work.notify_one();
        }
        let members = inner.documents.values().filter(|document| document.run.as_ref().is_some_and(|run| run.key == *key));
        let mut members: Vec<_> = members.filter_map(|document| Some((document, document.told.as_ref()?))).collect();
        members.sort_by_key(|(document, _)| document.uri.key());
        members.truncate(MOST_FILES);
        let nth = members.iter().position(|(document, _)| document.uri == job.uri)?;
        let stories: Vec<&Told> = members.iter().map(|(_, told)| *told).collect();
        let (holder, finding) = run::choose(&stories)?;
        if members.len() < 2 {
            return None;
        }
        let (holder, finding) = (members[holder].0, (holder == nth, finding.clone()));
        let (uri, rope) = (holder.uri.clone(), holder.rope.clone());
        drop(inner);
        let (is_here, finding) = finding;
        let mut own = Analysis::clone(analysis.as_deref()?);
        if is_here {
            run::lead(&mut own, &finding);
        } else {
            run::follow(&mut own, &finding, &uri.name());
        }
        let follows = own.story.elsewhere.is_some();
        *analysis = Some(Arc::new(own));
        follows.then_some(Root { uri, rope, finding })
    }
}

impl super::Inner {
    /// Has the other open documents of a run shown anew.
    pub(super) fn show_run(&mut self, key: &str, but: &DocumentUri) {
        let others = self.documents.values_mut().filter(|document| document.uri != *but && document.told.is_some());
        for document in others.filter(|document| document.run.as_ref().is_some_and(|run| run.key == key)) {
            document.todo = document.todo.and(Todo::Show);
            document.reading = None;
            document.missed = true;
        }
    }
}
