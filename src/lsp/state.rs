//! The open documents, what is known of each, and what still has to be found out.
//!
//! Everything is behind one std mutex that is held for moments only and never across an await. A handler that changes
//! a document stores text and version before it awaits anything, so a request that comes later sees the change. The
//! analysis happens elsewhere (`schedule.rs`) on a snapshot of the rope; a [`Reading`] is handed out only while it
//! describes the text as it is.

pub mod runs;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ropey::Rope;
use tokio::sync::{mpsc, watch};

use super::config::ConfigReading;
use super::convert::{ClientFacts, Diagnostics, DocumentUri};
use super::reader::Change;
use super::settings::{Chosen, Settings};
use crate::explain::seen;
use crate::log::rules::Rules;
use crate::log::run::{Membership, membership};
use crate::log::{Analysis, LogDocument};
use crate::text::document::{self, LineEdit};

/// What is known about one state of a document's text.
pub struct Reading {
    /// The document.
    pub uri: DocumentUri,
    /// Its version, as the client counts.
    pub version: i32,
    /// Distinct for every reading of every document.
    pub serial: u64,
    /// The text that was read.
    pub rope: Rope,
    /// Its findings; `None` when the text is no log.
    pub analysis: Option<Arc<Analysis>>,
    /// What it says as a model's config; `None` when it is none.
    pub config: Option<Arc<ConfigReading>>,
    /// Which of the findings are shown, the root cause first.
    pub shown: Vec<usize>,
    /// As what.
    pub diagnostics: Diagnostics,
    /// The rules that were used.
    pub rules: Arc<Rules>,
    /// The settings that were in force.
    pub settings: Arc<Settings>,
}

/// What the analysis of a document lacks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Todo {
    /// Nothing.
    Nothing,
    /// The findings are right, but they must be shown anew.
    Show,
    /// These lines changed.
    Edit(LineEdit),
    /// Nothing is known yet.
    Everything,
}

impl Todo {
    fn and(self, later: Todo) -> Todo {
        match (self, later) {
            (Todo::Everything, _) | (_, Todo::Everything) => Todo::Everything,
            (Todo::Edit(a), Todo::Edit(b)) => Todo::Edit(a.then(b)),
            (Todo::Edit(a), _) | (_, Todo::Edit(a)) => Todo::Edit(a),
            (Todo::Show, _) | (_, Todo::Show) => Todo::Show,
            (Todo::Nothing, Todo::Nothing) => Todo::Nothing,
        }
    }
}

/// An open document.
pub struct Document {
    uri: DocumentUri,
    language: String,
    version: i32,
    rope: Rope,
    /// Counts the changes of the text; the client's versions may repeat.
    revision: u64,
    /// Tells this document from an earlier one of the same address.
    incarnation: u64,
    todo: Todo,
    engine: Option<LogDocument>,
    /// What the text that was read last says as a model's config.
    config: Option<Arc<ConfigReading>>,
    in_work: bool,
    cancel: Arc<AtomicBool>,
    reading: Option<(u64, Arc<Reading>)>,
    /// The run that its name says it belongs to.
    run: Option<Membership>,
    /// What it says that matters to the other logs of its run.
    shared: Option<runs::Shared>,
    /// Totals of cards that its memory errors print.
    totals: Vec<u64>,
    /// Diagnostics of this document were sent that are not empty.
    pub marked: bool,
    /// The client has answers that are no longer true, or none because it took too long: it should ask again.
    pub missed: bool,
}

/// A piece of work for the analysis.
pub struct Job {
    /// The document, and its address as a key.
    pub uri: DocumentUri,
    /// Its language id.
    pub language: String,
    /// Its version, as the client counts.
    pub version: i32,
    /// Its text.
    pub rope: Rope,
    /// What to do.
    pub todo: Todo,
    /// The findings so far.
    pub engine: Option<LogDocument>,
    /// What it said as a model's config so far.
    pub config: Option<Arc<ConfigReading>>,
    /// Set when nobody waits for the outcome any more.
    pub cancel: Arc<AtomicBool>,
    /// The run that its name says it belongs to.
    pub run: Option<Membership>,
    /// The rules to use.
    pub rules: Arc<Rules>,
    /// The settings in force.
    pub settings: Arc<Settings>,
    /// What the client can show.
    pub facts: Arc<ClientFacts>,
    /// Distinct number for the reading.
    pub serial: u64,
    revision: u64,
    incarnation: u64,
}

/// What the publisher is told.
#[derive(Debug, PartialEq, Eq)]
pub enum Event {
    /// There is a new reading of this document.
    Read(DocumentUri),
    /// The totals of cards in the open logs changed.
    TotalsSeen,
    /// This document was closed while diagnostics of it were shown.
    Closed(DocumentUri),
}

struct Inner {
    documents: HashMap<String, Document>,
    counter: u64,
    /// As they were set.
    set: Settings,
    /// What was chosen over them in this session.
    chosen: Chosen,
    /// Both together.
    settings: Arc<Settings>,
    rules: Arc<Rules>,
    facts: Arc<ClientFacts>,
}

/// The state of the server.
pub struct State {
    inner: Mutex<Inner>,
    work: Condvar,
    readings: watch::Sender<u64>,
    /// The client said `shutdown`: it is asked nothing any more.
    ended: AtomicBool,
    events: mpsc::UnboundedSender<Event>,
}

impl State {
    /// No documents, built-in rules; events go to the receiver.
    pub fn new() -> (Arc<State>, mpsc::UnboundedReceiver<Event>) {
        let (events, receiver) = mpsc::unbounded_channel();
        let inner = Inner {
            documents: HashMap::new(),
            counter: 0,
            set: Settings::default(),
            chosen: Chosen::default(),
            settings: Arc::default(),
            rules: Rules::builtin(),
            facts: Arc::default(),
        };
        let state =
            State { inner: Mutex::new(inner), work: Condvar::new(), readings: watch::channel(0).0, ended: AtomicBool::new(false), events };
        (Arc::new(state), receiver)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the client can do.
    pub fn facts(&self) -> Arc<ClientFacts> {
        self.lock().facts.clone()
    }

    /// Says what the client can do; once, before any document is opened.
    pub fn set_facts(&self, facts: ClientFacts) {
        self.lock().facts = Arc::new(facts);
    }

    /// Puts settings in force; true when they differ from those before. A setting that the user changes now is newer
    /// than what was chosen in this session.
    pub fn set_settings(&self, settings: Settings) -> bool {
        let mut inner = self.lock();
        if settings.choice.gpu != inner.set.choice.gpu {
            inner.chosen.gpu = None;
        }
        if settings.choice.task != inner.set.choice.task {
            inner.chosen.task = None;
        }
        inner.set = settings;
        self.apply(&mut inner)
    }

    /// Chooses a card or a task for this session.
    pub fn choose(&self, choice: Chosen) {
        let mut inner = self.lock();
        if choice.gpu.is_some() {
            inner.chosen.gpu = choice.gpu;
        }
        if choice.task.is_some() {
            inner.chosen.task = choice.task;
        }
        self.apply(&mut inner);
    }

    fn apply(&self, inner: &mut Inner) -> bool {
        let settings = inner.chosen.over(&inner.set);
        if *inner.settings == settings {
            return false;
        }
        inner.settings = Arc::new(settings);
        self.all(inner, Todo::Show);
        true
    }

    /// Uses other rules from now on.
    pub fn set_rules(&self, rules: Arc<Rules>) {
        let mut inner = self.lock();
        inner.rules = rules;
        self.all(&mut inner, Todo::Everything);
    }

    fn all(&self, inner: &mut Inner, todo: Todo) {
        for document in inner.documents.values_mut() {
            document.todo = document.todo.and(todo);
            document.reading = None;
            document.missed = true;
        }
        self.work.notify_one();
    }

    /// Stores a document that was opened.
    pub fn open(&self, uri: DocumentUri, language: String, version: i32, rope: Rope) {
        let mut inner = self.lock();
        inner.counter += 1;
        let document = Document {
            language,
            version,
            rope,
            revision: inner.counter,
            incarnation: inner.counter,
            todo: Todo::Everything,
            engine: None,
            config: None,
            in_work: false,
            cancel: Arc::default(),
            reading: None,
            run: membership(&uri.path()),
            shared: None,
            totals: Vec::new(),
            marked: false,
            missed: false,
            uri: uri.clone(),
        };
        if let Some(former) = inner.documents.insert(uri.key(), document) {
            former.cancel.store(true, Ordering::Relaxed);
        }
        self.work.notify_one();
    }

    /// Stores changes of a document, in order.
    pub fn change(&self, uri: &DocumentUri, version: i32, changes: &[Change]) {
        let mut inner = self.lock();
        let encoding = inner.facts.encoding;
        inner.counter += 1;
        let revision = inner.counter;
        let Some(document) = inner.documents.get_mut(&uri.key()) else {
            return;
        };
        for (range, text) in changes {
            if let Some(edit) = document::edit(&mut document.rope, encoding, *range, text) {
                document.todo = document.todo.and(Todo::Edit(edit));
            }
        }
        document.version = version;
        document.revision = revision;
        document.todo = document.todo.and(Todo::Show);
        self.work.notify_one();
    }

    /// Forgets a document.
    pub fn close(&self, uri: &DocumentUri) {
        let mut inner = self.lock();
        let Some(document) = inner.documents.remove(&uri.key()) else {
            return;
        };
        if let (Some(run), Some(_)) = (&document.run, &document.shared) {
            inner.show_run(&run.key, uri);
            self.work.notify_one();
        }
        drop(inner);
        document.cancel.store(true, Ordering::Relaxed);
        if !document.totals.is_empty() {
            self.tell(Event::TotalsSeen);
        }
        if document.marked {
            self.tell(Event::Closed(document.uri));
        }
    }

    /// Stops all work; the client is asked nothing any more.
    pub fn cancel_all(&self) {
        self.ended.store(true, Ordering::Relaxed);
        for document in self.lock().documents.values() {
            document.cancel.store(true, Ordering::Relaxed);
        }
    }

    /// Did the client say `shutdown`?
    pub fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    fn tell(&self, event: Event) {
        // Nobody listens any more only while the server ends.
        let _ = self.events.send(event);
    }

    /// Looks at a document, if it is open.
    pub fn with<T>(&self, uri: &DocumentUri, look: impl FnOnce(&mut Document) -> T) -> Option<T> {
        self.lock().documents.get_mut(&uri.key()).map(look)
    }

    /// The reading of a document's text as it is now, if there is one.
    pub fn reading(&self, uri: &DocumentUri) -> Option<Arc<Reading>> {
        self.with(uri, |document| document.current())?
    }

    /// The reading of a document's text as it is now; waits for it at most so long. `None` when it is not open or the
    /// time is over.
    pub async fn wait_for_reading(&self, uri: &DocumentUri, time: Duration) -> Option<Arc<Reading>> {
        let mut readings = self.readings.subscribe();
        let wait = async {
            loop {
                if let Some(reading) = self.with(uri, |document| document.current())? {
                    return Some(reading);
                }
                readings.changed().await.ok()?;
            }
        };
        match tokio::time::timeout(time, wait).await {
            Ok(reading) => reading,
            Err(_) => {
                self.with(uri, |document| document.missed = true);
                None
            }
        }
    }

    /// Waits for work; the smallest document first, so that a large one delays no other.
    pub fn next_job(&self) -> Job {
        let mut inner = self.lock();
        loop {
            let inner_now = &mut *inner;
            let ready = inner_now.documents.values_mut();
            let ready = ready.filter(|d| d.todo != Todo::Nothing && !d.in_work);
            if let Some(document) = ready.min_by_key(|d| d.rope.len_bytes()) {
                document.in_work = true;
                inner_now.counter += 1;
                return Job {
                    uri: document.uri.clone(),
                    language: document.language.clone(),
                    version: document.version,
                    rope: document.rope.clone(),
                    todo: std::mem::replace(&mut document.todo, Todo::Nothing),
                    engine: document.engine.take(),
                    config: document.config.take(),
                    cancel: document.cancel.clone(),
                    run: document.run.clone(),
                    rules: inner_now.rules.clone(),
                    settings: inner_now.settings.clone(),
                    facts: inner_now.facts.clone(),
                    serial: inner_now.counter,
                    revision: document.revision,
                    incarnation: document.incarnation,
                };
            }
            inner = self.work.wait(inner).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Takes back the outcome of a job: the findings so far (`None` when they are lost), and the reading. The reading
    /// of a text that has changed meanwhile is dropped.
    pub fn finish(&self, job: &mut Job, reading: Option<Reading>) {
        let totals =
            reading.as_ref().and_then(|reading| reading.analysis.as_ref()).map_or_else(Vec::new, |analysis| seen::totals(analysis));
        let mut inner = self.lock();
        let same = |document: &&mut Document| document.incarnation == job.incarnation;
        let Some(document) = inner.documents.get_mut(&job.uri.key()).filter(same) else {
            return;
        };
        document.in_work = false;
        document.engine = job.engine.take();
        document.config = job.config.take();
        if document.revision == job.revision
            && document.todo == Todo::Nothing
            && let Some(reading) = reading
        {
            document.reading = Some((job.revision, Arc::new(reading)));
            let other = document.totals != totals;
            document.totals = totals;
            drop(inner);
            if other {
                self.tell(Event::TotalsSeen);
            }
            self.tell(Event::Read(job.uri.clone()));
            self.readings.send_modify(|count| *count += 1);
        }
    }

    /// The card whose totals the open logs print; none where they speak of different ones.
    pub fn card_seen(&self) -> Option<seen::Card> {
        let totals: Vec<u64> = self.lock().documents.values().flat_map(|document| &document.totals).copied().collect();
        seen::card(&totals)
    }

    /// Whether the text of a job is still the document's.
    pub fn is_current(&self, job: &Job) -> bool {
        self.with(&job.uri, |document| document.revision == job.revision) == Some(true)
    }
}

impl Document {
    fn current(&self) -> Option<Arc<Reading>> {
        let (revision, reading) = self.reading.as_ref()?;
        (*revision == self.revision).then(|| reading.clone())
    }
}
