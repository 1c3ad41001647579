"""Single faults and pressures on the wire: start, end, broken messages, order, load."""

import re
import time

import capabilities
import samples
from client import NoAnswer, Server

URI = "file:///logs/probe.log"
INVALID_REQUEST, METHOD_NOT_FOUND, NOT_INITIALIZED, CANCELLED = -32600, -32601, -32002, -32800


def code_of(answer):
    return answer.get("error", {}).get("code")


def hover_params(line=0, character=0, uri=URI):
    return {"textDocument": {"uri": uri}, "position": {"line": line, "character": character}}


def number_in(tried):
    """The column of the asked-for amount in the message."""
    return samples.oom(tried).index(tried) + 1


def shown(answer):
    return str((answer.get("result") or {}).get("contents", ""))


def started(command, declared=None, answers=True):
    server = Server(command, answers)
    server.start(declared or capabilities.with_encodings("utf-8"))
    return server


def before_initialize(command, check):
    with Server(command) as server:
        code = code_of(server.request("textDocument/hover", hover_params()))
        check("a request before initialize is refused (-32002)", code == NOT_INITIALIZED, code)
        server.notify("textDocument/didOpen", {"textDocument": {"uri": URI, "languageId": "log", "version": 1, "text": samples.oom()}})
        server.start(capabilities.FULL)
        code = code_of(server.request("initialize", {"processId": None, "rootUri": None, "capabilities": {}}))
        check("a second initialize is refused (-32600)", code == INVALID_REQUEST, code)
        check("the server works after both", server.stop() == 0)


def unknown_methods(command, check):
    with started(command) as server:
        code = code_of(server.request("textDocument/noSuchThing", {}))
        check("an unknown request is refused (-32601)", code == METHOD_NOT_FOUND, code)
        try:
            code = code_of(server.request("$/noSuchThing", {}, 5))
        except NoAnswer as problem:
            code = problem
        check("an unknown $/ request is refused (-32601)", code == METHOD_NOT_FOUND, code)
        server.notify("noSuchNote", {})
        server.notify("$/noSuchNote", {})
        answer = server.request("textDocument/hover", hover_params(), id="a string")
        check("unknown notes are ignored, and ids may be strings", answer["id"] == "a string")
        code = code_of(server.request("textDocument/hover", {"position": "nowhere"}))
        check("wrong parameters are refused (-32602)", code == -32602, code)


def cancelling(command, check):
    with started(command) as server:
        server.open(URI, (samples.oom() + "\n") * 20000)
        ids = [server.ask("textDocument/documentSymbol", {"textDocument": {"uri": URI}}) for _ in range(20)]
        for id in ids:
            server.notify("$/cancelRequest", {"id": id})
        server.notify("$/cancelRequest", {"id": 99999})
        answers = [server.answer(id, 30) for id in ids]
        codes = {code_of(answer) for answer in answers}
        check("a cancelled request is answered once, with its result or -32800", codes <= {None, CANCELLED}, codes)
        time.sleep(0.2)
        count = sum(1 for _, m in server.received if "method" not in m and m.get("id") in ids)
        check("no answer comes twice", count == len(ids), f"{count} answers to {len(ids)} requests")
        check("the server works after it", "error" not in server.request("textDocument/hover", hover_params()))


def ending(command, check):
    with started(command) as server:
        answer = server.request("shutdown")
        check("shutdown is answered with null", "error" not in answer and answer.get("result", 0) is None, answer)
        code = code_of(server.request("textDocument/hover", hover_params()))
        check("a request after shutdown is refused (-32600)", code == INVALID_REQUEST, code)
        server.notify("exit")
        code = server.exit_code()
        check("shutdown, exit, input left open: code 0", code == 0, code)
    with started(command) as server:
        server.notify("exit")
        code = server.exit_code()
        check("exit without shutdown: code 1", code == 1, code)
    with Server(command) as server:
        server.notify("exit")
        code = server.exit_code()
        check("exit before initialize: code 1", code == 1, code)
    with started(command) as server:
        server.open(URI, samples.STEPS * 20000)
        server.process.stdin.close()
        code = server.exit_code()
        check("the editor is gone (input closed): the server ends", code is not None, "still running after 10 s")
    with started(command) as server:
        server.open(URI, samples.STEPS * 20000)
        server.request("shutdown")
        server.notify("exit")
        code = server.exit_code()
        check("ending while a large file is analysed: code 0", code == 0, code)


def broken_messages(command, check):
    def alive(server, what):
        try:
            answer = server.request("textDocument/hover", hover_params(0, number_in("2.00 GiB")), 5)
            check(what, "2.00 GiB" in shown(answer), answer)
        except NoAnswer as problem:
            check(what, False, problem)

    bodies = {
        "JSON cut short": b'{"jsonrpc":"2.0","method":"textDocument/did',
        "no JSON": b"hello",
        "no object": b"[1, 2]",
        "an empty body": b"",
        "invalid UTF-8": b'{"jsonrpc":"2.0","method":"$/x","params":"\xff\xfe"}',
    }
    for name, body in bodies.items():
        with started(command) as server:
            server.open(URI, samples.oom())
            server.send_body(body)
            alive(server, f"one broken message is survived: {name}")
    with started(command) as server:
        server.open(URI, samples.oom())
        body = (
            '{"jsonrpc":"2.0","method":"textDocument/didChange","params":{"textDocument":{"uri":"%s",'
            '"version":2},"contentChanges":[{"text":"%s \\ud83d\\n"}]}}' % (URI, samples.oom("2.00 GiB"))
        )
        server.send_body(body.encode())
        alive(server, "a lone surrogate escape is survived, and the change is taken")
    with started(command) as server:
        server.open(URI, samples.oom())
        body = b'{"jsonrpc":"2.0","method":"$/noSuchNote","params":{}}'
        server.send_bytes(
            b"content-length: %d\r\nContent-Type: application/vscode-jsonrpc; charset=utf-8\r\n\r\n" % len(body) + body
        )
        alive(server, "header names in small letters and Content-Type are taken")


def order(command, check):
    with started(command) as server:
        first = "STEP 1\n"
        server.open(URI, first + samples.oom("300.00 MiB") + "\n")
        stale = []
        began = time.monotonic()
        for n in range(301, 601):
            old, new = f"{n - 1}.00 MiB", f"{n}.00 MiB"
            start = samples.oom(old).index(old)
            place = {"start": {"line": 1, "character": start}, "end": {"line": 1, "character": start + 3}}
            server.change(URI, n, {"range": place, "text": str(n)})
            answer = server.request("textDocument/hover", hover_params(1, start + 1))
            if new not in shown(answer):
                stale.append((new, shown(answer)[:80]))
        seconds = time.monotonic() - began
        check(f"300 changes, each with a hover: none is stale ({seconds:.1f} s)", not stale, f"{len(stale)} stale: {stale[:2]}")

        last = None
        for n in range(1000, 2000):
            # Whole documents, numbers below 1024 MiB as PyTorch prints them.
            last = f"{n - 980}.00 MiB"
            server.change(URI, n, {"text": samples.oom(last) + "\n"})
        answer = server.request("textDocument/hover", hover_params(0, number_in(last)), 30)
        check("after a burst of 1000 changes a hover sees the last", last in shown(answer), shown(answer)[:80])
        try:
            diagnostics = server.published(URI, 1999, 30)
            check("the last version gets diagnostics", len(diagnostics) == 1, diagnostics)
        except NoAnswer as problem:
            check("the last version gets diagnostics", False, problem)
        versions = [
            m["params"].get("version")
            for _, m in server.received
            if m.get("method") == "textDocument/publishDiagnostics" and m["params"]["uri"] == URI
        ]
        check("diagnostics never go back to an older version", versions == sorted(versions), versions[-20:])


def large_text(megabytes):
    """An ordinary log that ends in the message."""
    lines = []
    size = 0
    n = 0
    while size < megabytes * 1_000_000:
        line = f"2025-11-29 10:{n // 60 % 60:02d}:{n % 60:02d},118 INFO step {n}/900000 loss={2 + n % 97 / 100:.4f} lr=2.00e-04 mem=18.2GiB\n"
        lines.append(line)
        size += len(line)
        n += 1
    return "".join(lines) + samples.oom() + "\n", n


def load(command, check):
    text, last = large_text(50)
    with started(command) as server:
        server.open("file:///logs/warm.log", samples.oom())
        server.published("file:///logs/warm.log", 1)
        server.open(URI, samples.oom())
        server.published(URI, 1)
        began = time.monotonic()
        server.open("file:///logs/large.log", text)
        sent = time.monotonic() - began
        answer = server.request("textDocument/hover", hover_params(0, number_in("2.00 GiB")), 60)
        seconds = time.monotonic() - began
        check(
            f"a hover while a 50 MB file is analysed ({seconds:.2f} s, of which {sent:.2f} s to send the file)",
            "2.00 GiB" in shown(answer) and seconds < sent + 2,
            shown(answer)[:80],
        )
        diagnostics = server.published("file:///logs/large.log", 1, 60)
        seconds = time.monotonic() - began
        check(
            f"its diagnostics ({seconds:.2f} s)",
            [one["range"]["start"]["line"] for one in diagnostics] == [last] and seconds < 20,
            diagnostics[:2],
        )
        end = {"line": last + 1, "character": 0}
        began = time.monotonic()
        server.change("file:///logs/large.log", 2, {"range": {"start": end, "end": end}, "text": "one more line\n"})
        server.published("file:///logs/large.log", 2, 30)
        seconds = time.monotonic() - began
        check(f"a line appended to it ({seconds:.3f} s)", seconds < 5, "too slow")


def silent_client(command, check):
    """A client that reads, but never answers a request of the server."""
    with started(command, capabilities.FULL, answers=False) as server:
        ids = []
        try:
            for n in range(150):
                uri = f"file:///logs/silent-{n}.log"
                server.open(uri, samples.oom())
                server.notify("workspace/didChangeConfiguration", {"settings": {"trainwreck": {"maxFindings": 100 + n}}})
                server.change(uri, 2, {"text": samples.oom("3.00 GiB")})
                server.notify("textDocument/didSave", {"textDocument": {"uri": uri}})
                ids.append(server.ask("textDocument/hover", hover_params(0, number_in("3.00 GiB"), uri)))
            answers = [server.answer(id, 60) for id in ids]
            check("a client that never answers does not stop the server (600 messages)",
                  all("3.00 GiB" in shown(answer) for answer in answers))
            check("it ends in order all the same", server.stop() == 0)
        except NoAnswer as problem:
            asked = [m["method"] for _, m in server.received if "method" in m and "id" in m]
            check("a client that never answers does not stop the server (600 messages)", False, f"{problem}; it asked {asked[:5]}")


def many_requests(command, check):
    """A client that asks a lot before it reads, as an editor does that restores many windows."""
    with started(command) as server:
        for n in range(40):
            server.open(f"file:///logs/many-{n}.log", samples.NAN + samples.oom())
        ids = []
        for round in range(10):
            for n in range(40):
                uri = {"textDocument": {"uri": f"file:///logs/many-{n}.log"}}
                ids.append(server.ask("textDocument/documentSymbol", uri))
        answers = [server.answer(id, 60) for id in ids]
        check("400 requests at once are all answered", not any("error" in answer for answer in answers))


def texts_stay_text(command, check):
    """Nothing of a log is markup in a hover: no link, image, HTML or command of its own."""
    evil = "](command:workbench.action.terminal.new) <img src=x onerror=1> ![p](http://127.0.0.1/p.png) [x](http://127.0.0.1/)"
    line = f"ERROR {evil} " + samples.oom() + f" {evil}"
    with started(command) as server:
        server.open(URI, line)
        found = set()
        for column in range(0, len(line), 7):
            text = shown(server.request("textDocument/hover", hover_params(0, column)))
            if re.search(r"(?<!\\)\]\((command:|http://127)", text):
                found.add("a link")
            if re.search(r"(?<!\\)<img", text):
                found.add("HTML")
        check("a log's markup stays text in hovers", not found, sorted(found))


PROBES = (
    before_initialize,
    unknown_methods,
    cancelling,
    ending,
    broken_messages,
    order,
    silent_client,
    many_requests,
    texts_stay_text,
    load,
)


def run(command, check):
    for probe in PROBES:
        try:
            probe(command, check)
        except NoAnswer as problem:
            check(f"{probe.__name__.replace('_', ' ')}: ran to its end", False, problem)
