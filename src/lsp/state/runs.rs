//! Open logs of one run: which of them holds the root cause, what followed in the others, and how far their ranks came.
//!
//! Documents belong together by their names alone, as files do in `check`; nothing is opened.

use std::sync::Arc;

use ropey::Rope;

use super::{Document, Job, State, Todo};
use crate::log::run::{self, Told};
use crate::log::vocabulary::{Kind, Severity};
use crate::log::{Analysis, Finding, collectives, ranks};
use crate::lsp::convert::DocumentUri;

/// Documents of one run that are looked at.
const MOST_FILES: usize = 512;
/// Documents of a run whose settings are read for another one.
const MOST_READ: usize = 8;
/// Events of a document that may be listed in another one.
const MOST_ECHOES: usize = 4;
/// Events of other documents that are listed with the root cause.
const MOST_LISTED: usize = 10;

/// What a document says that matters to the other logs of its run.
#[derive(Debug, PartialEq)]
pub(super) struct Shared {
    told: Told,
    /// The first of its events, as they may be named elsewhere.
    echoes: Vec<Finding>,
    /// All of its events.
    events: usize,
}

/// A finding in another document.
pub struct Place {
    /// The document.
    pub uri: DocumentUri,
    /// Its text, as it is now.
    pub rope: Rope,
    /// The finding.
    pub finding: Finding,
}

/// What the other open documents of a run say beside one of them.
#[derive(Default)]
pub struct Others {
    /// The root cause of the run, when it stands in another document.
    pub root: Option<Place>,
    /// Where the root cause stands in this one: what other documents say went wrong, the first of each.
    pub events: Vec<Place>,
    /// Events of theirs that are not among these.
    pub more: usize,
}

impl State {
    /// Gives a job's analysis the roles that it has among the open documents of its run, and compares the ranks over all
    /// of them. The others are shown anew when what this one says has changed.
    pub fn among_its_run(&self, job: &Job, analysis: &mut Option<Arc<Analysis>>) -> Others {
        self.compare(job, analysis).unwrap_or_default()
    }

    /// Names and texts of the other open documents of a document's run, rank 0 first.
    pub fn others_of_run(&self, uri: &DocumentUri) -> Vec<(String, Rope)> {
        let inner = self.lock();
        let Some(run) = inner.documents.get(&uri.key()).and_then(|document| document.run.as_ref()) else { return Vec::new() };
        let same = |document: &&Document| document.uri != *uri && document.run.as_ref().is_some_and(|other| other.key == run.key);
        let mut others: Vec<&Document> = inner.documents.values().filter(same).collect();
        others.sort_by_key(|document| (document.run.as_ref().and_then(|run| run.rank) != Some(0), document.uri.key()));
        others.into_iter().take(MOST_READ).map(|document| (document.uri.name(), document.rope.clone())).collect()
    }

    fn compare(&self, job: &Job, analysis: &mut Option<Arc<Analysis>>) -> Option<Others> {
        let run = job.run.as_ref()?;
        let shared = analysis.as_deref().map(|analysis| shared(job, analysis, run.rank));
        let mut inner = self.lock();
        let own = inner.documents.get_mut(&job.uri.key()).filter(|document| document.incarnation == job.incarnation)?;
        let changed = own.shared != shared;
        own.shared = shared;
        if changed {
            inner.show_run(&run.key, &job.uri);
            self.work.notify_one();
        }
        let members = inner.documents.values().filter(|document| document.run.as_ref().is_some_and(|other| other.key == run.key));
        let mut members: Vec<(&Document, &Shared)> = members.filter_map(|document| Some((document, document.shared.as_ref()?))).collect();
        members.sort_by_key(|(document, _)| document.uri.key());
        members.truncate(MOST_FILES);
        let nth = members.iter().position(|(document, _)| document.uri == job.uri)?;
        if members.len() < 2 {
            return None;
        }
        let told: Vec<&Told> = members.iter().map(|(_, shared)| &shared.told).collect();
        let collective = run::waited_in(&told);
        let root = run::choose(&told).map(|(holder, finding)| (holder, finding.clone()));
        let mut others = Others::default();
        match &root {
            Some((holder, _)) if *holder == nth => others = events_of(&members, nth),
            Some((holder, finding)) => {
                let mut root = place(members[*holder].0, finding);
                if let Some(collective) = &collective {
                    collectives::mark(std::slice::from_mut(&mut root.finding), collective);
                }
                others.root = Some(root);
            }
            None => {}
        }
        drop(inner);
        let mut own = Analysis::clone(analysis.as_deref()?);
        run::compare(&mut own, collective.as_ref());
        match (&root, &others.root) {
            (_, Some(elsewhere)) => run::follow(&mut own, &elsewhere.finding, &told_apart(&elsewhere.uri, &job.uri)),
            (Some((_, finding)), None) => run::lead(&mut own, finding),
            (None, None) => {}
        }
        if own.story.elsewhere.is_none() {
            others.root = None;
        }
        *analysis = Some(Arc::new(own));
        Some(others)
    }
}

/// How a document is called in another one of its run: with its folder, where the name alone is the other's, too.
fn told_apart(uri: &DocumentUri, from: &DocumentUri) -> String {
    let name = uri.name();
    if name != from.name() {
        return name;
    }
    let path = uri.path();
    let folder = path.rsplit('/').nth(1).filter(|folder| !folder.is_empty());
    folder.map_or_else(|| name.clone(), |folder| format!("{folder}/{name}"))
}

/// What a job's document says to the others.
fn shared(job: &Job, analysis: &Analysis, rank: Option<u32>) -> Shared {
    let Analysis { findings, story } = analysis;
    let told = if findings.is_empty() {
        // A rank that is well may know how many there are.
        let mut quiet = Analysis::default();
        quiet.story.ranks = ranks::of_quiet(&job.rope, rank);
        Told::of(&quiet, rank)
    } else {
        Told::of(analysis, rank)
    };
    let loud = |finding: &Finding| finding.severity != Severity::Info && !matches!(finding.kind, Kind::Report | Kind::Leak);
    let groups = story.groups.iter().filter(|group| !group.went_on && loud(&findings[group.lead]));
    let leads: Vec<usize> = groups.map(|group| group.lead).collect();
    let ranked = |&lead: &usize| Finding { rank: findings[lead].rank.or(rank), ..findings[lead].clone() };
    Shared { told, echoes: leads.iter().take(MOST_ECHOES).map(ranked).collect(), events: leads.len() }
}

/// What the other members say went wrong: the first event of each, then their second ones.
fn events_of(members: &[(&Document, &Shared)], but: usize) -> Others {
    let others = || members.iter().enumerate().filter(|(nth, _)| *nth != but).map(|(_, member)| member);
    let rounds =
        (0..MOST_ECHOES).flat_map(|round| others().filter_map(move |(document, shared)| Some((document, shared.echoes.get(round)?))));
    let events: Vec<Place> = rounds.take(MOST_LISTED).map(|(document, finding)| place(document, finding)).collect();
    let all: usize = others().map(|(_, shared)| shared.events).sum();
    Others { root: None, more: all - events.len(), events }
}

fn place(document: &Document, finding: &Finding) -> Place {
    Place { uri: document.uri.clone(), rope: document.rope.clone(), finding: finding.clone() }
}

impl super::Inner {
    /// Has the other open documents of a run shown anew.
    pub(super) fn show_run(&mut self, key: &str, but: &DocumentUri) {
        let others = self.documents.values_mut().filter(|document| document.uri != *but && document.shared.is_some());
        for document in others.filter(|document| document.run.as_ref().is_some_and(|run| run.key == key)) {
            document.todo = document.todo.and(Todo::Show);
            document.reading = None;
            document.missed = true;
        }
    }
}
