//! Reads what the client sends, on a thread of its own, and hands on only what the protocol library survives.
//!
//! The library ends at the first body it cannot parse, and editors do send such bodies: a client that cuts an emoji in
//! two writes half of a surrogate pair. So this reader looks at each body first. Half a pair becomes U+FFFD, as do
//! bytes that are no UTF-8; a body that is no JSON-RPC message is dropped with a line on standard error; at broken
//! headers, where no next message can be found, the stream ends.
//!
//! Large texts do not go through the library at all, which would hold and copy them several times: they are parsed
//! once, here, and wait as a [`Parcel`] for the small message that names them.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, BufRead};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use memchr::memchr;
use ropey::Rope;
use serde::Deserialize;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::sync::mpsc;
use tower_lsp_server::jsonrpc::{Request, Response};

use super::frame::{self, Frame};
use super::note;
use crate::text::document::Place;

/// The notification that stands for a parcel.
pub const PARCEL_METHOD: &str = "trainwreck/parcel";
/// Bodies from this size on are looked at for texts to put aside, in bytes.
const LARGE_BODY: usize = 64 << 10;
/// How many pieces may wait between this thread and the server.
const QUEUE: usize = 64;

/// A change of a document: the range it replaces (everything when `None`), and the new text.
pub type Change = (Option<(Place, Place)>, String);

/// A large text on its way.
#[derive(Debug)]
pub struct Parcel {
    /// The document, as the client names it.
    pub uri: String,
    /// Its version, as the client counts.
    pub version: i32,
    /// What is to be done with it.
    pub what: Contents,
}

/// What a parcel holds.
#[derive(Debug)]
pub enum Contents {
    /// A document was opened.
    Open {
        /// Its language id.
        language: String,
        /// Its text.
        rope: Rope,
    },
    /// A document was changed.
    Change(Vec<Change>),
}

/// Parcels that wait for their message, by number.
#[derive(Debug, Default)]
pub struct Parcels(Mutex<(u64, BTreeMap<u64, Parcel>)>);

impl Parcels {
    fn put(&self, parcel: Parcel) -> u64 {
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        inner.0 += 1;
        let number = inner.0;
        inner.1.insert(number, parcel);
        number
    }

    /// Takes a parcel. Messages come in order, so lower numbers that still wait were refused and are thrown away.
    pub fn take(&self, number: u64) -> Option<Parcel> {
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut later = inner.1.split_off(&number);
        let parcel = later.remove(&number);
        inner.1 = later;
        parcel
    }
}

/// What the server reads: the messages that passed.
#[derive(Debug)]
pub struct Passed {
    pieces: mpsc::Receiver<Vec<u8>>,
    piece: Vec<u8>,
    at: usize,
}

impl AsyncRead for Passed {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        while self.at == self.piece.len() {
            match ready!(self.pieces.poll_recv(context)) {
                Some(piece) => (self.piece, self.at) = (piece, 0),
                None => return Poll::Ready(Ok(())),
            }
        }
        let end = self.piece.len().min(self.at + buffer.remaining());
        buffer.put_slice(&self.piece[self.at..end]);
        self.at = end;
        if end == self.piece.len() {
            (self.piece, self.at) = (Vec::new(), 0);
        }
        Poll::Ready(Ok(()))
    }
}

/// Starts reading standard input.
pub fn start(parcels: Arc<Parcels>) -> io::Result<Passed> {
    let (sender, pieces) = mpsc::channel(QUEUE);
    let thread = std::thread::Builder::new().name("reader".into());
    thread.spawn(move || read_all(&mut io::stdin().lock(), &parcels, &sender))?;
    Ok(Passed { pieces, piece: Vec::new(), at: 0 })
}

fn read_all(input: &mut impl BufRead, parcels: &Parcels, sender: &mpsc::Sender<Vec<u8>>) {
    loop {
        let body = match frame::read(input) {
            Ok(Frame::Body(body)) => body,
            Ok(Frame::TooLong(bytes)) => {
                note(&format!("dropped a message of {bytes} bytes: too long"));
                continue;
            }
            Ok(Frame::End) => return,
            Ok(Frame::Broken(why)) => return note(&format!("stopped reading: {why}")),
            Err(error) => return note(&format!("stopped reading: {error}")),
        };
        if let Some(body) = pass(body, parcels)
            && (sender.blocking_send(frame::headers(&body)).is_err() || sender.blocking_send(body).is_err())
        {
            return;
        }
    }
}

/// The body to hand on, if any.
fn pass(mut body: Vec<u8>, parcels: &Parcels) -> Option<Vec<u8>> {
    let halves = repair_surrogates(&mut body);
    if halves > 0 {
        note(&format!("replaced {halves} halves of surrogate pairs in a message"));
    }
    let text = match String::from_utf8(body) {
        Ok(text) => text,
        Err(error) => {
            note("replaced bytes that are no UTF-8 in a message");
            String::from_utf8_lossy(error.as_bytes()).into_owned()
        }
    };
    if text.len() >= LARGE_BODY
        && let Some(parcel) = parcel(&text)
    {
        drop(text);
        let number = parcels.put(parcel.build());
        let message = format!(r#"{{"jsonrpc":"2.0","method":"{PARCEL_METHOD}","params":{{"number":{number}}}}}"#);
        return Some(message.into_bytes());
    }
    // What the protocol library parses; it ends at anything else.
    match serde_json::from_str::<Request>(&text) {
        Err(error) if serde_json::from_str::<Response>(&text).is_err() => {
            note(&format!("dropped a message of {} bytes: {error}", text.len()));
            None
        }
        Ok(request) if request.id().is_some() && request.method().starts_with(RESERVED) => Some(renamed(&request)),
        _ => Some(text.into_bytes()),
    }
}

/// Methods that begin so may be ignored as notifications, not as requests; the library leaves both without an answer.
const RESERVED: &str = "$/";

/// The same request under a name that the library does not know, so that it is refused (-32601).
fn renamed(request: &Request) -> Vec<u8> {
    let body = serde_json::json!({"jsonrpc": "2.0", "id": request.id(), "method": format!("unknown {}", request.method())});
    body.to_string().into_bytes()
}

/// A parcel before its text is made a rope, which needs the message's memory no longer.
enum Unbuilt {
    Open(Open),
    Change(Changes),
}

impl Unbuilt {
    fn build(self) -> Parcel {
        match self {
            Unbuilt::Open(Open { text_document }) => Parcel {
                uri: text_document.uri,
                version: text_document.version,
                what: Contents::Open { rope: Rope::from_str(&text_document.text), language: text_document.language_id },
            },
            Unbuilt::Change(changes) => Parcel {
                uri: changes.text_document.uri,
                version: changes.text_document.version,
                what: Contents::Change(
                    changes
                        .content_changes
                        .into_iter()
                        .map(|change| (change.range.map(|r| (r.start.place(), r.end.place())), change.text))
                        .collect(),
                ),
            },
        }
    }
}

/// The parcel in a large message, when it opens or changes a document.
fn parcel(text: &str) -> Option<Unbuilt> {
    // A method stands in front of the params or behind them, never far from an end of the message.
    let near = 4 << 10;
    let bytes = text.as_bytes();
    let (head, tail) = (&bytes[..near], &bytes[bytes.len() - near..]);
    let names = |method: &[u8]| {
        let found = |part: &[u8]| memchr::memmem::find(part, method).is_some();
        found(head) || found(tail)
    };
    if names(b"textDocument/didOpen")
        && let Ok(Call { method, params }) = serde_json::from_str::<Call<'_, Open>>(text)
        && method == "textDocument/didOpen"
    {
        return Some(Unbuilt::Open(params));
    }
    if names(b"textDocument/didChange")
        && let Ok(Call { method, params }) = serde_json::from_str::<Call<'_, Changes>>(text)
        && method == "textDocument/didChange"
    {
        return Some(Unbuilt::Change(params));
    }
    None
}

#[derive(Deserialize)]
struct Call<'a, P> {
    #[serde(borrow)]
    method: Cow<'a, str>,
    params: P,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Open {
    text_document: OpenDocument,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OpenDocument {
    uri: String,
    language_id: String,
    version: i32,
    text: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Changes {
    text_document: ChangedDocument,
    content_changes: Vec<ContentChange>,
}

#[derive(Deserialize)]
struct ChangedDocument {
    uri: String,
    version: i32,
}

#[derive(Deserialize)]
struct ContentChange {
    range: Option<WireRange>,
    text: String,
}

#[derive(Deserialize)]
struct WireRange {
    start: WirePlace,
    end: WirePlace,
}

#[derive(Deserialize)]
struct WirePlace {
    line: u32,
    character: u32,
}

impl WirePlace {
    fn place(&self) -> Place {
        Place { line: self.line as usize, column: self.character as usize }
    }
}

/// Writes `\uFFFD` over every escape that is one half of a surrogate pair without the other; returns how many.
fn repair_surrogates(body: &mut [u8]) -> usize {
    let mut repaired = 0;
    let mut at = 0;
    while let Some(found) = memchr(b'\\', &body[at..]) {
        let here = at + found;
        let Some(unit) = escaped_unit(body, here) else {
            at = (here + 2).min(body.len());
            continue;
        };
        let pair = (0xD800..0xDC00).contains(&unit) && escaped_unit(body, here + 6).is_some_and(|low| (0xDC00..0xE000).contains(&low));
        if pair {
            at = here + 12;
            continue;
        }
        if (0xD800..0xE000).contains(&unit) {
            body[here + 2..here + 6].copy_from_slice(b"FFFD");
            repaired += 1;
        }
        at = here + 6;
    }
    repaired
}

/// The value of the `\uXXXX` escape that begins at `at`.
fn escaped_unit(body: &[u8], at: usize) -> Option<u32> {
    let escape = body.get(at..at + 6)?;
    let digits = escape.strip_prefix(b"\\u")?;
    digits.iter().try_fold(0, |value, &digit| Some(value * 16 + (digit as char).to_digit(16)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write;

    fn repaired(text: &str) -> String {
        let mut body = text.as_bytes().to_vec();
        repair_surrogates(&mut body);
        String::from_utf8(body).unwrap()
    }

    #[test]
    fn halves_of_pairs_are_replaced_and_nothing_else() {
        assert_eq!(repaired(r#""\ud83d""#), r#""\uFFFD""#);
        assert_eq!(repaired(r#""\uDE00x""#), r#""\uFFFDx""#);
        assert_eq!(repaired(r#""\ud83d\ud83d\ude00""#), r#""\uFFFD\ud83d\ude00""#);
        for whole in [r#""\ud83d\ude00""#, r#""\\ud83d""#, r#""\u00e9\n\"""#, r#""\u12""#, "\\"] {
            assert_eq!(repaired(whole), whole);
        }
    }

    #[test]
    fn only_messages_pass() {
        let parcels = Parcels::default();
        let passes = |text: &str| pass(text.as_bytes().to_vec(), &parcels).is_some();
        assert!(passes(r#"{"jsonrpc":"2.0","id":1,"method":"shutdown"}"#));
        assert!(passes(r#"{"jsonrpc":"2.0","id":1,"result":null}"#));
        assert!(passes(r#"{"jsonrpc":"2.0","id":"a","error":{"code":-1,"message":"x"}}"#));
        assert!(passes(r#"{"jsonrpc":"2.0","method":"x","params":{"text":"\ud83d"}}"#));
        for refused in ["", "{", "[]", "1", "{}", r#"{"jsonrpc":"1.0","method":"x"}"#] {
            assert!(!passes(refused), "{refused}");
        }
        let mut deep = String::from(r#"{"jsonrpc":"2.0","method":"x","params":"#);
        write!(deep, "{}{}}}", "[".repeat(5000), "]".repeat(5000)).unwrap();
        assert!(!passes(&deep));
        assert!(pass(b"{\"jsonrpc\":\"2.0\",\"method\":\"\xff\"}".to_vec(), &parcels).is_some());
    }

    #[test]
    fn large_texts_become_parcels() {
        let parcels = Parcels::default();
        let text = "x".repeat(LARGE_BODY);
        let open = serde_json::json!({"jsonrpc": "2.0", "method": "textDocument/didOpen", "params": {"textDocument":
            {"uri": "file:///a", "languageId": "log", "version": 3, "text": text}}});
        let passed = pass(open.to_string().into_bytes(), &parcels).unwrap();
        assert!(String::from_utf8(passed).unwrap().contains(PARCEL_METHOD));
        let change = serde_json::json!({"jsonrpc": "2.0", "method": "textDocument/didChange", "params": {
            "textDocument": {"uri": "file:///a", "version": 4}, "contentChanges": [{"text": text}]}});
        assert!(pass(change.to_string().into_bytes(), &parcels).is_some());
        let parcel = parcels.take(2).unwrap();
        assert!(matches!(parcel.what, Contents::Change(changes) if changes[0].1 == text));
        assert!(parcels.take(1).is_none(), "an older parcel is thrown away");
        let other = serde_json::json!({"jsonrpc": "2.0", "method": "x", "params": {"text": text}});
        let passed = pass(other.to_string().into_bytes(), &parcels).unwrap();
        assert!(passed.len() > LARGE_BODY);
    }
}
