//! The editor's face: a language server on standard input and output.
//!
//! - `frame`, `reader`: what comes in, made safe for the protocol library;
//! - `server`: the handlers; `state`: the open documents; `schedule`: their analysis;
//! - `convert`: protocol types for our own and back; `settings`, `user_rules`: what a user can set and add;
//! - `diagnostics`, `hover`, `inlay_hints`, `symbols`: one file a feature of logs; `config`: the features of model configs; `beside`: files beside them; `choose`: the commands that choose a GPU and a task.
//!
//! Nothing a document says makes the server open, run or contact anything. Standard error gets a line when something
//! had to be dropped.

mod beside;
mod choose;
mod config;
mod convert;
mod diagnostics;
mod expected;
mod frame;
mod hover;
mod inlay_hints;
mod publish;
mod reader;
mod schedule;
mod server;
mod settings;
mod state;
mod symbols;
mod user_rules;

use std::io::Write;
use std::sync::Arc;

use tower_lsp_server::{LspService, Server};

use self::reader::Parcels;
use self::state::State;

/// How many requests may be in work at once. Those that wait for an analysis do nothing, so many may.
const CONCURRENCY: usize = 32;

/// Serves until the client says `exit` or closes the stream. Returns the exit code: 0 when `shutdown` came before, 1
/// otherwise.
pub fn run() -> i32 {
    match serve() {
        Ok(true) => 0,
        Ok(false) => 1,
        Err(error) => {
            note(&format!("could not start: {error}"));
            1
        }
    }
}

/// Serves; true when the client said `shutdown`.
fn serve() -> std::io::Result<bool> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let parcels = Arc::new(Parcels::default());
    let input = reader::start(parcels.clone())?;
    let (state, events) = State::new();
    schedule::start(state.clone())?;
    let down = runtime.block_on(async {
        let (service, socket) = LspService::build(|client| {
            tokio::spawn(publish::publish(client.clone(), state.clone(), events));
            server::Backend::new(client, state.clone(), parcels)
        })
        .custom_method(reader::PARCEL_METHOD, server::Backend::parcel)
        .finish();
        let down = service.inner().down.clone();
        Server::new(input, tokio::io::stdout(), socket).concurrency_level(CONCURRENCY).serve(service).await;
        down.load(std::sync::atomic::Ordering::Relaxed)
    });
    state.cancel_all();
    runtime.shutdown_background();
    Ok(down)
}

/// Writes a line to standard error; that it cannot be written is no reason to stop.
fn note(text: &str) {
    let _ = writeln!(std::io::stderr(), "trainwreck: {text}");
}
