"""A language client over a process's stdio: frames, requests, waiting. No knowledge of the server.

Both directions are recorded in `Server.transcript` as (sender, message), the client's messages
before they are written, so that an answer never stands before its request.
"""

import json
import subprocess
import threading
import time


class NoAnswer(Exception):
    """The server did not answer in time, or it ended."""


def result_for(request):
    """What an obliging client answers to a request of the server."""
    if request["method"] == "workspace/configuration":
        return [None for _ in request["params"]["items"]]
    if request["method"] == "workspace/applyEdit":
        return {"applied": False}
    return None


class Server:
    """A running server. `answers=False` is a client that never answers the server's requests."""

    def __init__(self, command, answers=True):
        self.answers = answers
        self.transcript = []
        self.received = []  # (seconds on the monotonic clock, message)
        self.arrived = threading.Condition()
        self.broken_frame = None
        self.ended = False
        self.next_id = 0
        self.writing = threading.Lock()
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        self.log = b""
        threading.Thread(target=self._read, daemon=True).start()
        threading.Thread(target=self._read_log, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    # Reading

    def _read_log(self):
        for line in self.process.stderr:
            self.log = (self.log + line)[-20000:]

    def _frame(self):
        length = None
        while True:
            header = self.process.stdout.readline()
            if not header:
                return None
            if header == b"\r\n":
                break
            name, colon, value = header.partition(b":")
            if not colon or not header.endswith(b"\r\n"):
                self.broken_frame = header[:200]
                return None
            if name.lower() == b"content-length":
                length = int(value)
        if length is None:
            self.broken_frame = b"no Content-Length"
            return None
        body = self.process.stdout.read(length)
        return body if len(body) == length else None

    def _read(self):
        try:
            while (body := self._frame()) is not None:
                message = json.loads(body)
                with self.arrived:
                    self.transcript.append(("server", message))
                    self.received.append((time.monotonic(), message))
                    self.arrived.notify_all()
                if "method" in message and "id" in message and self.answers:
                    self.send({"id": message["id"], "result": result_for(message)})
        except (ValueError, OSError) as problem:
            self.broken_frame = repr(problem)
        with self.arrived:
            self.ended = True
            self.arrived.notify_all()

    # Writing

    def send_bytes(self, data):
        """Writes bytes as they are; a closed pipe is left to the one who waits for an answer."""
        try:
            with self.writing:
                self.process.stdin.write(data)
                self.process.stdin.flush()
        except (BrokenPipeError, ValueError):
            pass

    def send_body(self, body):
        self.send_bytes(b"Content-Length: %d\r\n\r\n" % len(body) + body)

    def send(self, message):
        message = {"jsonrpc": "2.0", **message}
        with self.arrived:
            self.transcript.append(("client", message))
        self.send_body(json.dumps(message).encode())

    def notify(self, method, params=None):
        self.send({"method": method} if params is None else {"method": method, "params": params})

    def ask(self, method, params=None, id=None):
        """Sends a request and returns its id without waiting."""
        if id is None:
            self.next_id += 1
            id = self.next_id
        message = {"id": id, "method": method}
        if params is not None:
            message["params"] = params
        self.send(message)
        return id

    # Waiting

    def wait_for(self, accept, seconds=15, what="a message"):
        """The first received message, old or new, that `accept` is true of."""
        until = time.monotonic() + seconds
        seen = 0
        with self.arrived:
            while True:
                for at, message in self.received[seen:]:
                    if accept(message):
                        return message
                seen = len(self.received)
                left = until - time.monotonic()
                if left <= 0:
                    raise NoAnswer(f"no {what} within {seconds} s")
                if self.ended:
                    raise NoAnswer(f"the server ended before {what}: {self.log.decode(errors='replace')[-300:]}")
                self.arrived.wait(left)

    def answer(self, id, seconds=15):
        return self.wait_for(
            lambda m: "method" not in m and m.get("id") == id and type(m.get("id")) is type(id),
            seconds,
            f"answer to request {id}",
        )

    def request(self, method, params=None, seconds=15, id=None):
        """The whole answer, with `result` or `error`."""
        return self.answer(self.ask(method, params, id), seconds)

    def result(self, method, params=None, seconds=15):
        answer = self.request(method, params, seconds)
        if "error" in answer:
            raise NoAnswer(f"{method} failed: {answer['error']}")
        return answer["result"]

    def exit_code(self, seconds=10):
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    # Common steps

    def start(self, capabilities, options=None):
        """initialize and initialized; the server's answer."""
        params = {"processId": None, "rootUri": None, "capabilities": capabilities}
        if options is not None:
            params["initializationOptions"] = options
        answer = self.result("initialize", params)
        self.notify("initialized", {})
        return answer

    def open(self, uri, text, language="log", version=1):
        self.notify(
            "textDocument/didOpen",
            {"textDocument": {"uri": uri, "languageId": language, "version": version, "text": text}},
        )

    def change(self, uri, version, *changes):
        self.notify(
            "textDocument/didChange",
            {"textDocument": {"uri": uri, "version": version}, "contentChanges": list(changes)},
        )

    def published(self, uri, version=None, seconds=15):
        """The diagnostics that the server published for a version of a document."""

        def accept(message):
            return (
                message.get("method") == "textDocument/publishDiagnostics"
                and message["params"]["uri"] == uri
                and (version is None or message["params"].get("version") == version)
            )

        return self.wait_for(accept, seconds, f"diagnostics of {uri} version {version}")["params"]["diagnostics"]

    def last_published(self, uri):
        """The diagnostics that a client which knows no versions shows now."""
        for _, message in reversed(self.received):
            if message.get("method") == "textDocument/publishDiagnostics" and message["params"]["uri"] == uri:
                return message["params"]["diagnostics"]
        return []

    def stop(self):
        """shutdown and exit; the exit code, with standard input left open."""
        self.request("shutdown")
        self.notify("exit")
        return self.exit_code()
