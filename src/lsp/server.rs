//! The handlers.
//!
//! Handlers run on one task, so none computes for long; those that change a document do it before they await anything,
//! and none awaits an answer of the client: an answer is read by the same task.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use tower_lsp_server::jsonrpc::{Error, ErrorCode, Result};
use tower_lsp_server::ls_types::*;
use tower_lsp_server::{Client, LanguageServer};

use super::convert::{ClientFacts, DocumentUri, kind_of, place};
use super::expected::Around;
use super::publish::PATIENCE;
use super::reader::{Contents, Parcels};
use super::settings::{SECTION, Settings};
use super::state::{Reading, State};
use super::user_rules::{UserRules, WATCHED};
use super::{choose, config, hover, inlay_hints, symbols};

/// How long a hover waits for an analysis that is under way.
const HOVER_WAIT: Duration = Duration::from_secs(2);
/// How long other requests wait for it.
const WAIT: Duration = Duration::from_secs(20);
/// The protocol's code for "ask again".
const SERVER_CANCELLED: i64 = -32802;

/// How long the answer to `initialize` waits for the rule pages of the workspace.
const RULES_PATIENCE: Duration = Duration::from_millis(300);

/// The server behind the protocol library.
pub struct Backend {
    client: Client,
    state: Arc<State>,
    parcels: Arc<Parcels>,
    user_rules: Arc<UserRules>,
    /// Settings given at the start; later ones are put over them.
    first_settings: Mutex<Settings>,
    /// `shutdown` came.
    pub down: Arc<AtomicBool>,
}

/// The message that stands for a large text.
#[derive(Debug, Deserialize)]
pub struct ParcelNumber {
    number: u64,
}

impl Backend {
    /// A server without documents.
    pub fn new(client: Client, state: Arc<State>, parcels: Arc<Parcels>) -> Backend {
        Backend { client, state, parcels, user_rules: Arc::default(), first_settings: Mutex::default(), down: Arc::default() }
    }

    /// Stores a large text that was put aside.
    pub async fn parcel(&self, ParcelNumber { number }: ParcelNumber) {
        let Some(parcel) = self.parcels.take(number) else {
            return;
        };
        let Some(uri) = DocumentUri::parse(&parcel.uri) else {
            return super::note("a document with a malformed address was passed over");
        };
        match parcel.what {
            Contents::Open { language, rope } => self.state.open(uri, language, parcel.version, rope),
            Contents::Change(changes) => self.state.change(&uri, parcel.version, &changes),
        }
    }

    async fn reading(&self, uri: Uri, time: Duration) -> Option<Arc<Reading>> {
        self.state.wait_for_reading(&DocumentUri(uri), time).await
    }

    fn later_settings(&self, value: &Value) {
        let first = self.first_settings.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.state.set_settings(first.with(value));
    }

    fn reload_rules(&self) {
        let (rules, client, state) = (self.user_rules.clone(), self.client.clone(), self.state.clone());
        tokio::spawn(async move {
            rules.load(&state).await;
            rules.show(&client).await;
        });
    }

    /// Asks for our settings; the answer is dealt with when it comes.
    fn ask_for_settings(&self) {
        let (client, state) = (self.client.clone(), self.state.clone());
        let first = self.first_settings.lock().unwrap_or_else(PoisonError::into_inner).clone();
        tokio::spawn(async move {
            let item = ConfigurationItem { scope_uri: None, section: Some(SECTION.to_owned()) };
            if let Ok(Ok(values)) = tokio::time::timeout(PATIENCE, client.configuration(vec![item])).await
                && let Some(value) = values.first()
            {
                state.set_settings(first.with(value));
            }
        });
    }

    /// Asks to be told about changes of settings and rule pages.
    fn register(&self, facts: &ClientFacts) {
        let mut wanted = Vec::new();
        let mut want = |method: &str, options: Value| {
            wanted.push(Registration { id: method.to_owned(), method: method.to_owned(), register_options: Some(options) });
        };
        if facts.registers_configuration {
            want("workspace/didChangeConfiguration", json!({ "section": SECTION }));
        }
        if facts.registers_watchers {
            want("workspace/didChangeWatchedFiles", json!({"watchers": [{ "globPattern": WATCHED }]}));
        }
        if wanted.is_empty() {
            return;
        }
        let client = self.client.clone();
        tokio::spawn(async move {
            // A client that refuses is served without.
            let _ = tokio::time::timeout(PATIENCE, client.register_capability(wanted)).await;
        });
    }
}

fn folders(params: &InitializeParams) -> Vec<PathBuf> {
    #[allow(deprecated)] // Older clients send nothing else.
    let root = params.root_uri.clone();
    let listed = params.workspace_folders.iter().flatten().map(|folder| folder.uri.clone());
    let mut uris: Vec<Uri> = listed.collect();
    if uris.is_empty() {
        uris.extend(root);
    }
    files(uris)
}

fn files(uris: impl IntoIterator<Item = Uri>) -> Vec<PathBuf> {
    uris.into_iter().filter_map(|uri| DocumentUri(uri).file()).collect()
}

fn capabilities(facts: &ClientFacts) -> ServerCapabilities {
    let sync = TextDocumentSyncOptions {
        open_close: Some(true),
        change: Some(TextDocumentSyncKind::INCREMENTAL),
        save: Some(TextDocumentSyncSaveOptions::Supported(true)),
        ..TextDocumentSyncOptions::default()
    };
    let pull = DiagnosticOptions { identifier: Some(SECTION.to_owned()), ..DiagnosticOptions::default() };
    ServerCapabilities {
        position_encoding: Some(kind_of(facts.encoding)),
        text_document_sync: Some(TextDocumentSyncCapability::Options(sync)),
        hover_provider: Some(HoverProviderCapability::Simple(true)),
        inlay_hint_provider: Some(OneOf::Left(true)),
        code_lens_provider: Some(CodeLensOptions { resolve_provider: Some(false) }),
        document_symbol_provider: Some(OneOf::Left(true)),
        completion_provider: Some(CompletionOptions { trigger_characters: Some(vec!["\"".to_owned()]), ..CompletionOptions::default() }),
        execute_command_provider: Some(ExecuteCommandOptions {
            commands: choose::COMMANDS.iter().map(|name| (*name).to_owned()).collect(),
            ..ExecuteCommandOptions::default()
        }),
        diagnostic_provider: facts.pulls.then_some(DiagnosticServerCapabilities::Options(pull)),
        workspace: Some(WorkspaceServerCapabilities {
            workspace_folders: Some(WorkspaceFoldersServerCapabilities {
                supported: Some(true),
                change_notifications: Some(OneOf::Left(true)),
            }),
            file_operations: None,
        }),
        ..ServerCapabilities::default()
    }
}

impl LanguageServer for Backend {
    async fn initialize(&self, params: InitializeParams) -> Result<InitializeResult> {
        let facts = ClientFacts::of(&params.capabilities);
        self.user_rules.set_workspaces(folders(&params));
        // The rules of a workspace count from the first document on; many of them may come later.
        let (rules, state) = (self.user_rules.clone(), self.state.clone());
        let loading = tokio::spawn(async move { rules.load(&state).await });
        let _ = tokio::time::timeout(RULES_PATIENCE, loading).await;
        if let Some(options) = &params.initialization_options {
            let settings = Settings::default().with(options);
            *self.first_settings.lock().unwrap_or_else(PoisonError::into_inner) = settings.clone();
            self.state.set_settings(settings);
        }
        let capabilities = capabilities(&facts);
        self.state.set_facts(facts);
        Ok(InitializeResult {
            capabilities,
            server_info: Some(ServerInfo { name: "trainwreck".to_owned(), version: Some(env!("CARGO_PKG_VERSION").to_owned()) }),
            ..InitializeResult::default()
        })
    }

    async fn initialized(&self, _: InitializedParams) {
        let facts = self.state.facts();
        let (rules, client) = (self.user_rules.clone(), self.client.clone());
        tokio::spawn(async move { rules.show(&client).await });
        self.register(&facts);
        if facts.configuration {
            self.ask_for_settings();
        }
    }

    async fn shutdown(&self) -> Result<()> {
        self.down.store(true, Ordering::Relaxed);
        self.state.cancel_all();
        Ok(())
    }

    async fn did_open(&self, params: DidOpenTextDocumentParams) {
        let document = params.text_document;
        let rope = ropey::Rope::from_str(&document.text);
        self.state.open(DocumentUri(document.uri), document.language_id, document.version, rope);
    }

    async fn did_change(&self, params: DidChangeTextDocumentParams) {
        let changes: Vec<_> = params
            .content_changes
            .into_iter()
            .map(|change| (change.range.map(|range| (place(range.start), place(range.end))), change.text))
            .collect();
        let document = params.text_document;
        self.state.change(&DocumentUri(document.uri), document.version, &changes);
    }

    async fn did_close(&self, params: DidCloseTextDocumentParams) {
        self.state.close(&DocumentUri(params.text_document.uri));
    }

    async fn did_save(&self, params: DidSaveTextDocumentParams) {
        let file = DocumentUri(params.text_document.uri).file();
        if file.is_some_and(|file| self.user_rules.is_page(&file)) {
            self.reload_rules();
        }
    }

    async fn did_change_watched_files(&self, params: DidChangeWatchedFilesParams) {
        let files = files(params.changes.into_iter().map(|change| change.uri));
        if files.iter().any(|file| self.user_rules.is_page(file)) {
            self.reload_rules();
        }
    }

    async fn did_change_workspace_folders(&self, params: DidChangeWorkspaceFoldersParams) {
        let added = files(params.event.added.into_iter().map(|folder| folder.uri));
        let removed = files(params.event.removed.into_iter().map(|folder| folder.uri));
        self.user_rules.change_workspaces(added, &removed);
        self.reload_rules();
    }

    async fn did_change_configuration(&self, params: DidChangeConfigurationParams) {
        // Clients that can be asked send nothing of use here.
        if self.state.facts().configuration {
            self.ask_for_settings();
        } else {
            self.later_settings(&params.settings);
        }
    }

    async fn hover(&self, params: HoverParams) -> Result<Option<Hover>> {
        let at = params.text_document_position_params;
        let Some(reading) = self.reading(at.text_document.uri, HOVER_WAIT).await else {
            return Ok(None);
        };
        let facts = self.state.facts();
        let workspaces = self.user_rules.workspaces();
        // A config is read once more for the hover; that is no work for this thread.
        let state = self.state.clone();
        let hover = tokio::task::spawn_blocking(move || {
            let around = Around { workspaces: &workspaces, run: &|uri| state.others_of_run(uri) };
            hover::hover(&reading, &facts, at.position, &around)
        });
        let hover = hover.await;
        Ok(hover.ok().flatten())
    }

    async fn inlay_hint(&self, params: InlayHintParams) -> Result<Option<Vec<InlayHint>>> {
        let Some(reading) = self.reading(params.text_document.uri, WAIT).await else {
            return Ok(None);
        };
        Ok(Some(inlay_hints::hints(&reading, &self.state.facts(), params.range)))
    }

    async fn code_lens(&self, params: CodeLensParams) -> Result<Option<Vec<CodeLens>>> {
        let Some(reading) = self.reading(params.text_document.uri, WAIT).await else {
            return Ok(None);
        };
        // A card that was chosen is nearer than one that an open log speaks of.
        let card = self.state.card_seen().filter(|_| reading.settings.choice.gpu.is_none());
        // Plans of several tasks are no work for this thread.
        let lens = move || reading.config.as_ref().map(|config| config::lens(config, &reading.rope, card.as_ref()));
        Ok(tokio::task::spawn_blocking(lens).await.ok().flatten())
    }

    async fn completion(&self, params: CompletionParams) -> Result<Option<CompletionResponse>> {
        let at = params.text_document_position;
        let Some(reading) = self.reading(at.text_document.uri, HOVER_WAIT).await else {
            return Ok(None);
        };
        Ok(config::completion(&reading, &self.state.facts(), at.position).map(CompletionResponse::Array))
    }

    async fn execute_command(&self, params: ExecuteCommandParams) -> Result<Option<Value>> {
        choose::execute(&self.client, &self.state, &params.command, &params.arguments)
    }

    async fn document_symbol(&self, params: DocumentSymbolParams) -> Result<Option<DocumentSymbolResponse>> {
        let Some(reading) = self.reading(params.text_document.uri, WAIT).await else {
            return Ok(None);
        };
        Ok(Some(symbols::outline(&reading, &self.state.facts())))
    }

    async fn diagnostic(&self, params: DocumentDiagnosticParams) -> Result<DocumentDiagnosticReportResult> {
        let uri = DocumentUri(params.text_document.uri);
        let Some(reading) = self.state.wait_for_reading(&uri, WAIT).await else {
            return self.no_report(&uri);
        };
        let id = reading.serial.to_string();
        let report = if params.previous_result_id.as_deref() == Some(&id) {
            let unchanged = UnchangedDocumentDiagnosticReport { result_id: id };
            DocumentDiagnosticReport::Unchanged(RelatedUnchangedDocumentDiagnosticReport {
                related_documents: None,
                unchanged_document_diagnostic_report: unchanged,
            })
        } else {
            full_report(Some(id), reading.diagnostics.clone())
        };
        Ok(DocumentDiagnosticReportResult::Report(report))
    }
}

impl Backend {
    /// The answer when there is no reading: nothing for a document that is not open, "ask again" for one that is.
    fn no_report(&self, uri: &DocumentUri) -> Result<DocumentDiagnosticReportResult> {
        if self.state.with(uri, |_| ()).is_none() {
            return Ok(DocumentDiagnosticReportResult::Report(full_report(None, Vec::new())));
        }
        Err(Error {
            code: ErrorCode::ServerError(SERVER_CANCELLED),
            message: "the analysis is not finished".into(),
            data: Some(json!({ "retriggerRequest": true })),
        })
    }
}

fn full_report(id: Option<String>, items: Vec<Diagnostic>) -> DocumentDiagnosticReport {
    DocumentDiagnosticReport::Full(RelatedFullDocumentDiagnosticReport {
        related_documents: None,
        full_document_diagnostic_report: FullDocumentDiagnosticReport { result_id: id, items },
    })
}
