"""Sessions as an editor holds them. Every message of the server goes before the judge."""

import json
import re
import time
from itertools import zip_longest
from random import Random

import capabilities
import samples
import text as texts
from client import NoAnswer, Server
from validate import Judge

NUMBER = re.compile(r"\d+(?:\.\d+)? (?:bytes|[KMG]i?B)|\b\d+\b")


class Editor:
    """A server and the documents that an editor has open in it."""

    def __init__(self, server, declared):
        self.server = server
        answer = server.start(declared, {"maxFindings": 200, "rules": {"disabled": []}, "inlayHints": {"enabled": True}})
        self.provides = answer["capabilities"]
        self.encoding = self.provides.get("positionEncoding", "utf-16")
        self.pulls = "diagnostic" in declared.get("textDocument", {}) and bool(self.provides.get("diagnosticProvider"))
        self.versioned = declared.get("textDocument", {}).get("publishDiagnostics", {}).get("versionSupport", False)
        self.texts = {}
        self.versions = {}

    def open(self, uri, text, language="log"):
        self.texts[uri], self.versions[uri] = text, 1
        self.server.open(uri, text, language)

    def change(self, uri, start, end, new):
        """Replaces the characters start..end by an incremental change."""
        old = self.texts[uri]
        self.versions[uri] += 1
        place = {
            "start": texts.position(old, start, self.encoding),
            "end": texts.position(old, end, self.encoding),
        }
        self.texts[uri] = old[:start] + new + old[end:]
        self.server.change(uri, self.versions[uri], {"range": place, "text": new})

    def close(self, uri):
        self.server.notify("textDocument/didClose", {"textDocument": {"uri": uri}})
        del self.texts[uri]

    def ask(self, method, uri, **params):
        return self.server.result(method, {"textDocument": {"uri": uri}, **params}, 30)

    def whole(self, uri):
        text = self.texts[uri]
        return {"start": {"line": 0, "character": 0}, "end": texts.position(text, len(text), self.encoding)}

    def diagnostics(self, uri):
        if self.pulls:
            return self.ask("textDocument/diagnostic", uri)["items"]
        if self.versioned:
            return self.server.published(uri, self.versions[uri], 30)
        # Without versions nothing tells which text they belong to: wait until no more come.
        self.server.published(uri, None, 30)
        count = None
        while count != len(self.server.received):
            count = len(self.server.received)
            time.sleep(0.4)
        return self.server.last_published(uri)

    def hover(self, uri, offset):
        return self.ask("textDocument/hover", uri, position=texts.position(self.texts[uri], offset, self.encoding))

    def ask_everything(self, uri):
        """Each request about a document that the server says it answers; what it shows of it."""
        hints = self.ask("textDocument/inlayHint", uri, range=self.whole(uri))
        symbols = self.ask("textDocument/documentSymbol", uri)
        for provider, method in (
            ("foldingRangeProvider", "foldingRange"),
            ("codeLensProvider", "codeLens"),
            ("documentLinkProvider", "documentLink"),
        ):
            if self.provides.get(provider):
                self.ask("textDocument/" + method, uri)
        diagnostics = self.diagnostics(uri)
        if self.provides.get("codeActionProvider"):
            for diagnostic in diagnostics[:5]:
                self.ask("textDocument/codeAction", uri, range=diagnostic["range"], context={"diagnostics": [diagnostic]})
        if self.provides.get("semanticTokensProvider"):
            self.ask("textDocument/semanticTokens/full", uri)
        return diagnostics, hints, symbols

    def hover_everywhere(self, uri, limit=60):
        """On numbers, at the starts, in the middle and at the ends of lines."""
        text = self.texts[uri]
        offsets = [match.start() for match in NUMBER.finditer(text)]
        start = 0
        for line in text.split("\n"):
            offsets += [start, start + len(line) // 2, start + len(line)]
            start += len(line) + 1
        offsets.sort()
        step = max(1, len(offsets) // limit)
        return [self.hover(uri, offset) for offset in offsets[::step]]


def plain(shown, uri):
    """What a document shows, without its own address: for comparing two documents."""
    return json.loads(json.dumps(shown).replace(uri, "URI"))


def look_at(editor, name, text):
    uri = f"file:///logs/{name}"
    editor.open(uri, text)
    shown = editor.ask_everything(uri)
    editor.hover_everywhere(uri)
    return uri, shown


def look_at_config(check, editor):
    """A model's config: lenses, a chosen GPU, completion while it is typed, a mark."""
    uri = "file:///models/llama/config.json"
    editor.open(uri, samples.CONFIG, "json")
    diagnostics, hints, _ = editor.ask_everything(uri)
    check("a config has hints and no marks", bool(hints) and not diagnostics, diagnostics)
    editor.hover_everywhere(uri, 20)
    command = lambda name, *arguments: editor.server.result(
        "workspace/executeCommand", {"command": name, "arguments": list(arguments)}, 30)
    command("trainwreck.chooseGpu", "rtx-4090")
    titles = [lens["command"]["title"] for lens in editor.ask("textDocument/codeLens", uri)]
    check("its lenses go by the chosen GPU", any("on rtx-4090 · " in title for title in titles), titles)
    check("the catalogue is listed", len(command("trainwreck.gpus")) > 200)
    command("trainwreck.chooseGpu")
    asked = editor.server.wait_for(lambda m: m.get("method") == "window/showMessageRequest", 10, "a question")
    check("without an argument the user is asked", len(asked["params"]["actions"]) > 3)
    at = samples.CONFIG.index('"num_hidden_layers"')
    editor.change(uri, at, at, '"num_key')
    place = texts.position(editor.texts[uri], at + len('"num_key'), editor.encoding)
    offers = editor.ask("textDocument/completion", uri, position=place)
    check("a key is completed while it is typed", [offer["label"] for offer in offers] == ["num_key_value_heads"], offers)
    editor.change(uri, at, at + len('"num_key'), "")
    at = editor.texts[uri].index("4096")
    editor.change(uri, at, at + 4, "4100")
    codes = [one.get("code") for one in editor.diagnostics(uri)]
    check("heads that do not divide are marked", codes == ["config-head-width"], codes)
    editor.hover(uri, editor.texts[uri].index('"num_attention_heads"'))
    editor.close(uri)


def edit(editor, uri):
    """A few edits of the kinds that go wrong: behind wide characters, across lines, at the ends."""
    text = lambda: editor.texts[uri]
    at = text().index("Tried to allocate")
    editor.change(uri, at, at, "🚂é ")
    editor.change(uri, at, at + 3, "")
    editor.change(uri, 0, 0, "première ligne 🚂\n\nthird\n")
    editor.change(uri, len(text()), len(text()), "\n" + samples.oom("3.00 GiB") + "\nlast 🚂")
    second = text().index("\n") + 1
    editor.change(uri, 2, second + 1, "")
    last = text().rindex("\n")
    editor.change(uri, last, len(text()), "")


PIECES = (
    "\n", "\r", "\r\n", "é", "🚂", "x" * 30, "[rank3]: ", "\x1b[31m", "Killed\n", samples.bars(3),
    samples.oom() + "\n", samples.oom()[:90], "loss: nan\n", samples.STEPS[:200], samples.CRASHES, samples.NAN[-400:],
)


def edit_at_random(editor, uri, random):
    """One edit somewhere: a piece of a log is put in, a stretch is taken out, or both."""
    text = editor.texts[uri]
    start = random.randrange(len(text) + 1)
    end = min(len(text), start + random.choice((0, 0, 1, 5, 80, 700)))
    editor.change(uri, start, end, random.choice(PIECES) if random.random() < 0.7 else "")


def random_edits(check, editor, sample_run):
    """After any edits the server shows what it would show had the text been opened anew."""
    for seed in range(3):
        random = Random(seed)
        uri = f"file:///random/{seed}.log"
        editor.open(uri, samples.WIDE + samples.BAR + sample_run[-9000:] + samples.NAN)
        different = None
        for round in range(25):
            for _ in range(random.randrange(1, 5)):
                edit_at_random(editor, uri, random)
            edited = editor.ask_everything(uri)
            fresh_uri = f"file:///random/{seed}-{round}.log"
            editor.open(fresh_uri, editor.texts[uri])
            fresh = editor.ask_everything(fresh_uri)
            editor.close(fresh_uri)
            if plain(edited, uri) != plain(fresh, fresh_uri):
                different = f"round {round}: " + first_difference(plain(edited, uri), plain(fresh, fresh_uri))
                break
        check(f"random edits give what a fresh open gives (seed {seed})", different is None, different)


def first_difference(edited, fresh):
    for what, one, other in zip(("diagnostics", "hints", "symbols"), edited, fresh):
        for left, right in zip_longest(one or [], other or []):
            if left != right:
                return f"{what}: edited {json.dumps(left)[:300]}, fresh {json.dumps(right)[:300]}"
    return "none"


def hold(check, editor, sample_run):
    uri, (diagnostics, hints, symbols) = look_at(editor, "run.log", sample_run)
    errors = [one for one in diagnostics if one.get("severity") == 1]
    line = sample_run[: sample_run.index("torch.OutOfMemoryError")].count("\n")
    check("the sample run has one error, on the line that killed it",
          [one["range"]["start"]["line"] for one in errors] == [line],
          [(one["range"]["start"]["line"] + 1, one.get("code")) for one in errors])
    check("it has inlay hints and an outline", bool(hints) and bool(symbols))
    number = sample_run.index("10.31 GiB")
    hover = editor.hover(uri, number + 2)
    check("a number of it has a hover", hover is not None and "10.31 GiB" in str(hover["contents"]), hover)

    for name, text in (("wide.log", samples.WIDE), ("bar.log", samples.BAR), ("crashes.log", samples.CRASHES)):
        _, (diagnostics, _, _) = look_at(editor, name, text)
        check(f"{name} has findings", bool(diagnostics))
    look_at(editor, "nan.log", samples.NAN)
    _, (diagnostics, hints, _) = look_at(editor, "steps.log", samples.STEPS)
    check("a healthy run has none", not diagnostics and not hints, diagnostics)

    look_at_config(check, editor)

    for name in ("wide.log", "bar.log"):
        uri = "file:///logs/" + name
        edit(editor, uri)
        edited = editor.ask_everything(uri)
        fresh_uri, fresh = look_at(editor, "fresh-" + name, editor.texts[uri])
        check(f"{name}: edits give what a fresh open gives", plain(edited, uri) == plain(fresh, fresh_uri))

    for index, (name, text) in enumerate(samples.HOSTILE.items()):
        uri = f"file:///hostile/{index}.log"
        editor.open(uri, text)
        try:
            editor.ask_everything(uri)
            editor.hover_everywhere(uri, 12)
            check(f"hostile text is survived: {name}", True)
        except NoAnswer as problem:
            check(f"hostile text is survived: {name}", False, problem)
        editor.close(uri)

    uri = "file:///logs/run.log"
    answers = [
        editor.server.request("textDocument/hover", {"textDocument": {"uri": uri}, "position": place})
        for place in (
            {"line": 1_000_000, "character": 0},
            {"line": 0, "character": 1_000_000},
            {"line": 2**31 - 1, "character": 2**31 - 1},
        )
    ]
    answers.append(editor.server.request("textDocument/hover", {"textDocument": {"uri": "file:///never/opened.log"}, "position": {"line": 0, "character": 0}}))
    check("positions outside and unknown files are answered", len(answers) == 4)

    server = editor.server
    server.notify("$/setTrace", {"value": "off"})
    server.notify("workspace/didChangeConfiguration", {"settings": {}})
    server.notify("workspace/didChangeWatchedFiles", {"changes": [{"uri": uri, "type": 2}]})
    server.notify("textDocument/didSave", {"textDocument": {"uri": uri}})
    server.notify("textDocument/didChange", {"textDocument": {"uri": "file:///never/opened.log", "version": 3}, "contentChanges": [{"text": "x"}]})
    server.notify("textDocument/didClose", {"textDocument": {"uri": "file:///never/opened.log"}})
    server.notify("window/workDoneProgress/cancel", {"token": "none"})
    check("notes that do not concern it are survived", editor.hover(uri, number) is not None)

    if not editor.pulls:
        seen = len(server.received)
        editor.close(uri)
        try:
            server.wait_for(
                lambda m: m.get("method") == "textDocument/publishDiagnostics"
                and m["params"]["uri"] == uri and not m["params"]["diagnostics"]
                and any(m is one for _, one in server.received[seen:]),
                10, "empty diagnostics")
            check("closing a file clears its diagnostics", True)
        except NoAnswer as problem:
            check("closing a file clears its diagnostics", False, problem)


def run(command, check, sample_run):
    sessions = {
        "utf-8 session": capabilities.with_encodings("utf-8", "utf-16"),
        "utf-16 session": capabilities.with_encodings("utf-16"),
        "utf-32 session": capabilities.with_encodings("utf-32", "utf-16"),
        "pulling session": capabilities.pulling(),
        "bare session": capabilities.BARE,
    }
    for name, declared in sessions.items():
        def named(what, ok, detail=None):
            check(f"{name}: {what}", ok, detail)

        with Server(command) as server:
            try:
                editor = Editor(server, declared)
                hold(named, editor, sample_run)
                if editor.versioned:
                    random_edits(named, editor, sample_run)
                code = server.stop()
                named("it ends with code 0", code == 0, code)
            except NoAnswer as problem:
                named("it ran to its end", False, problem)
            named("frames are well formed", server.broken_frame is None, server.broken_frame)
            judge = Judge().judge(server.transcript)
        for subject, faults in judge.faults.items():
            distinct = sorted(set(faults), key=faults.index)
            detail = f"{len(faults)} faults: " + " | ".join(distinct[:3]) if faults else None
            named(subject, not faults, detail)
        named(
            "the judge had something to judge",
            judge.counts["answers"] > 100 and judge.counts["ranges"] > 20,
            judge.counts,
        )
