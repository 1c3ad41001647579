//! A client for the language server: starts the built binary and speaks the protocol over its standard streams.
//!
//! Every wait is for a message and has a limit; nothing sleeps.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test may fail that way
#![allow(dead_code)] // Each test program uses a part of it.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// Longest wait for anything. Far more than is needed, so that a loaded machine fails no test.
pub const LIMIT: Duration = Duration::from_secs(120);

/// The line that kills the sample run.
pub const OOM: &str = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total \
    capacity of 79.15 GiB of which 1.18 GiB is free. Including non-PyTorch memory, this process has 77.96 GiB memory \
    in use. Of the allocated memory 76.90 GiB is allocated by PyTorch, and 412.00 MiB is reserved by PyTorch but \
    unallocated. If reserved but unallocated memory is large try setting \
    PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.";
/// What another rank says half an hour later.
pub const WATCHDOG: &str = "[rank3]:[E1130 10:31:02.113 ProcessGroupNCCL.cpp:629] [Rank 3] Watchdog caught \
    collective operation timeout: WorkNCCL(SeqNum=5121, OpType=ALLREDUCE, NumelIn=4096, NumelOut=4096, \
    Timeout(ms)=1800000) ran for 1800041 milliseconds before timing out.";
/// A healthy step.
pub const STEP: &str = "{'loss': 1.8421, 'grad_norm': 0.92, 'learning_rate': 2e-05, 'epoch': 0.31}";

/// A run that died: steps, the error, its echo.
pub fn dead_run() -> String {
    format!("{STEP}\n{STEP}\n{OOM}\n{WATCHDOG}\n")
}

/// Capabilities of a client that wants everything and is sent its diagnostics.
pub fn rich() -> Value {
    json!({
        "general": {"positionEncodings": ["utf-16"]},
        "workspace": {"configuration": false, "workspaceFolders": true},
        "textDocument": {
            "publishDiagnostics": {"relatedInformation": true, "versionSupport": true, "codeDescriptionSupport": true,
                "tagSupport": {"valueSet": [1, 2]}},
            "hover": {"contentFormat": ["markdown", "plaintext"]},
            "documentSymbol": {"hierarchicalDocumentSymbolSupport": true},
            "inlayHint": {}
        }
    })
}

/// The same for a client that asks for its diagnostics.
pub fn pulling() -> Value {
    let mut capabilities = rich();
    capabilities["textDocument"]["diagnostic"] = json!({"dynamicRegistration": false});
    capabilities
}

/// A running server.
pub struct Client {
    child: Child,
    input: Option<ChildStdin>,
    inbox: Receiver<Value>,
    seen: VecDeque<Value>,
    next_id: i64,
    /// Answer the server's requests? Some clients never do.
    pub answers: bool,
    /// What the server asked for, in order.
    pub asked: Vec<Value>,
}

impl Client {
    /// Starts the server; nothing is said yet.
    pub fn spawn() -> Client {
        let mut child = Command::new(env!("CARGO_BIN_EXE_trainwreck"))
            .arg("lsp")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let input = child.stdin.take();
        let output = child.stdout.take().unwrap();
        let (sender, inbox) = channel();
        std::thread::spawn(move || {
            let mut output = BufReader::new(output);
            while let Some(message) = receive(&mut output) {
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        Client { child, input, inbox, seen: VecDeque::new(), next_id: 0, answers: true, asked: Vec::new() }
    }

    /// Starts the server with these capabilities; returns what it can do as well.
    pub fn with(capabilities: Value, more: Value) -> (Client, Value) {
        let mut client = Client::spawn();
        let mut params = json!({"processId": null, "rootUri": null, "capabilities": capabilities});
        for (key, value) in more.as_object().unwrap() {
            params[key] = value.clone();
        }
        let result = client.request("initialize", params);
        client.notify("initialized", json!({}));
        (client, result)
    }

    /// Starts the server as a client that wants everything.
    pub fn start() -> Client {
        Client::with(rich(), json!({})).0
    }

    /// Writes bytes as they are.
    pub fn raw(&mut self, bytes: &[u8]) {
        let input = self.input.as_mut().unwrap();
        input.write_all(bytes).unwrap();
        input.flush().unwrap();
    }

    /// Writes a body with its header.
    pub fn body(&mut self, body: &[u8]) {
        let mut message = format!("Content-Length: {}\r\n\r\n", body.len()).into_bytes();
        message.extend_from_slice(body);
        self.raw(&message);
    }

    /// Writes a message.
    pub fn send(&mut self, mut message: Value) {
        message["jsonrpc"] = json!("2.0");
        self.body(message.to_string().as_bytes());
    }

    /// Closes the server's input.
    pub fn hang_up(&mut self) {
        self.input = None;
    }

    /// Sends a notification.
    pub fn notify(&mut self, method: &str, params: Value) {
        self.send(json!({"method": method, "params": params}));
    }

    /// Sends a request and returns its id.
    pub fn ask(&mut self, method: &str, params: Value) -> i64 {
        self.next_id += 1;
        let mut message = json!({"id": self.next_id, "method": method});
        if !params.is_null() {
            message["params"] = params;
        }
        self.send(message);
        self.next_id
    }

    /// Waits for the answer to a request.
    pub fn answer(&mut self, id: i64) -> Value {
        self.wait(|message| message["id"] == json!(id) && message.get("method").is_none())
    }

    /// Sends a request and waits for its result.
    pub fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.ask(method, params);
        let answer = self.answer(id);
        assert!(answer.get("error").is_none(), "{method}: {answer}");
        answer["result"].clone()
    }

    /// Waits for a message; others are kept for later.
    pub fn wait(&mut self, wanted: impl Fn(&Value) -> bool) -> Value {
        if let Some(at) = self.seen.iter().position(&wanted) {
            return self.seen.remove(at).unwrap();
        }
        let end = Instant::now() + LIMIT;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let message = self.inbox.recv_timeout(left).expect("the server said nothing");
            if let (Some(id), Some(method)) = (message.get("id"), message.get("method")) {
                self.asked.push(message.clone());
                if self.answers {
                    let items = message["params"]["items"].as_array().map_or(0, Vec::len);
                    let result = if method == "workspace/configuration" { json!(vec![Value::Null; items]) } else { Value::Null };
                    self.send(json!({"id": id, "result": result}));
                }
            }
            if wanted(&message) {
                return message;
            }
            self.seen.push_back(message);
        }
    }

    /// What has come and was not waited for.
    pub fn unread(&self) -> impl Iterator<Item = &Value> {
        self.seen.iter()
    }

    /// Opens a document as version 1.
    pub fn open(&mut self, uri: &str, language: &str, text: &str) {
        let document = json!({"uri": uri, "languageId": language, "version": 1, "text": text});
        self.notify("textDocument/didOpen", json!({ "textDocument": document }));
    }

    /// Changes a document.
    pub fn change(&mut self, uri: &str, version: i64, changes: Value) {
        let document = json!({"uri": uri, "version": version});
        self.notify("textDocument/didChange", json!({"textDocument": document, "contentChanges": changes}));
    }

    /// Waits for the diagnostics of a version of a document.
    pub fn diagnostics(&mut self, uri: &str, version: i64) -> Vec<Value> {
        let message = self.wait(|m| {
            m["method"] == "textDocument/publishDiagnostics" && m["params"]["uri"] == uri && m["params"]["version"] == json!(version)
        });
        message["params"]["diagnostics"].as_array().unwrap().clone()
    }

    /// The hover at a position.
    pub fn hover(&mut self, uri: &str, line: usize, character: usize) -> Value {
        self.request("textDocument/hover", at(uri, line, character))
    }

    /// Asks for a document's diagnostics.
    pub fn pull(&mut self, uri: &str) -> Value {
        self.request("textDocument/diagnostic", json!({"textDocument": {"uri": uri}}))
    }

    /// Waits until the process has ended; its exit code.
    pub fn exit_code(&mut self) -> Option<i32> {
        let end = Instant::now() + LIMIT;
        // The inbox closes when the process closes its output.
        while self.inbox.recv_timeout(end.saturating_duration_since(Instant::now())).is_ok() {}
        assert!(Instant::now() < end, "the server does not end");
        self.child.wait().unwrap().code()
    }

    /// Ends the server as the protocol says; its exit code.
    pub fn shut_down(mut self) -> Option<i32> {
        self.request("shutdown", Value::Null);
        self.notify("exit", Value::Null);
        self.exit_code()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // A test that failed leaves no process behind; one that ended has none to kill.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Parameters that name a position.
pub fn at(uri: &str, line: usize, character: usize) -> Value {
    json!({"textDocument": {"uri": uri}, "position": {"line": line, "character": character}})
}

/// A range.
pub fn range(a: (usize, usize), b: (usize, usize)) -> Value {
    json!({"start": {"line": a.0, "character": a.1}, "end": {"line": b.0, "character": b.1}})
}

fn receive(output: &mut impl BufRead) -> Option<Value> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        if output.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let line = line.trim();
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.strip_prefix("Content-Length: ") {
            length = value.parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    output.read_exact(&mut body).ok()?;
    serde_json::from_slice(&body).ok()
}
