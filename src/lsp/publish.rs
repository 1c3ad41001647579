//! Sends diagnostics to clients that do not ask for them, and tells clients to ask again.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::UnboundedReceiver;
use tower_lsp_server::Client;

use super::convert::{ClientFacts, DocumentUri};
use super::state::{Event, State};

/// How long a client may take to answer; some never do.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// Follows the events of the state until it is gone.
pub async fn publish(client: Client, state: Arc<State>, mut events: UnboundedReceiver<Event>) {
    while let Some(event) = events.recv().await {
        // Behind `shutdown` a client neither wants to be told nor asked.
        if state.has_ended() {
            continue;
        }
        match event {
            Event::TotalsSeen if state.facts().refreshes_lenses => ask_for_lenses(&client),
            Event::TotalsSeen => {}
            Event::Read(uri) => read(&client, &state, &uri).await,
            Event::Closed(uri) => client.publish_diagnostics(uri.0, Vec::new(), None).await,
        }
    }
}

async fn read(client: &Client, state: &Arc<State>, uri: &DocumentUri) {
    // What the text is by now; an older reading is not worth sending.
    let Some(reading) = state.reading(uri) else {
        return;
    };
    let facts = state.facts();
    let silent = reading.diagnostics.is_empty() && reading.analysis.is_none() && reading.config.is_none();
    let looked = state.with(uri, |document| {
        let marked = document.marked;
        document.marked = !facts.pulls && !reading.diagnostics.is_empty();
        (marked, std::mem::take(&mut document.missed))
    });
    let Some((marked, missed)) = looked else {
        return;
    };
    if !facts.pulls && (!silent || marked) {
        let version = facts.versions.then_some(reading.version);
        client.publish_diagnostics(reading.uri.0.clone(), reading.diagnostics.clone(), version).await;
    }
    if missed {
        ask_again(client, state, &facts);
    }
}

/// Tells the client to ask for code lenses again; never waits for its answer.
fn ask_for_lenses(client: &Client) {
    let client = client.clone();
    tokio::spawn(async move {
        let _ = tokio::time::timeout(PATIENCE, client.code_lens_refresh()).await;
    });
}

/// Tells the client to ask for diagnostics, hints and lenses again; never waits for its answer.
fn ask_again(client: &Client, state: &Arc<State>, facts: &ClientFacts) {
    let (client, state) = (client.clone(), state.clone());
    let (diagnostics, hints, lenses) = (facts.refreshes_diagnostics && facts.pulls, facts.refreshes_hints, facts.refreshes_lenses);
    tokio::spawn(async move {
        let ask = async {
            if diagnostics {
                let _ = client.workspace_diagnostic_refresh().await;
            }
            // The client may have said `shutdown` while it was waited for.
            if hints && !state.has_ended() {
                let _ = client.inlay_hint_refresh().await;
            }
            if lenses && !state.has_ended() {
                let _ = client.code_lens_refresh().await;
            }
        };
        let _ = tokio::time::timeout(PATIENCE, ask).await;
    });
}
