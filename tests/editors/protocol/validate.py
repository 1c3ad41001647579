"""Judges a recorded session: is each message of the server what the protocol allows?

Shapes come from lsprotocol, which is generated from the protocol's own machine-readable model: a
message is read into its type and written again; what differs was wrong (unknown members, silent
conversions), what cannot be read was wrong too (missing members, bad values).
"""

import json

from lsprotocol import converters, types

import text as texts

CONVERTER = converters.get_converter()

# Requests that a server may send only to a client that declared them.
NEEDS = {
    "workspace/configuration": ("workspace", "configuration"),
    "workspace/applyEdit": ("workspace", "applyEdit"),
    "workspace/workspaceFolders": ("workspace", "workspaceFolders"),
    "workspace/inlayHint/refresh": ("workspace", "inlayHint", "refreshSupport"),
    "workspace/diagnostic/refresh": ("workspace", "diagnostics", "refreshSupport"),
    "workspace/codeLens/refresh": ("workspace", "codeLens", "refreshSupport"),
    "workspace/foldingRange/refresh": ("workspace", "foldingRange", "refreshSupport"),
    "workspace/semanticTokens/refresh": ("workspace", "semanticTokens", "refreshSupport"),
    "window/workDoneProgress/create": ("window", "workDoneProgress"),
    "window/showDocument": ("window", "showDocument", "support"),
}

# Members of a diagnostic that a client must have declared under textDocument.publishDiagnostics.
DIAGNOSTIC_NEEDS = {
    "relatedInformation": "relatedInformation",
    "tags": "tagSupport",
    "codeDescription": "codeDescriptionSupport",
    "data": "dataSupport",
}


def without_nulls(value):
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    return value


def declared(capabilities, path):
    for name in path:
        capabilities = capabilities.get(name) if isinstance(capabilities, dict) else None
    return bool(capabilities)


def difference(wire, back, path=""):
    """The first place where two JSON values differ, or None."""
    if type(wire) is not type(back):
        return f"{path or 'message'}: {wire!r:.60} is no {type(back).__name__}"
    if isinstance(wire, dict):
        for key in wire.keys() | back.keys():
            if key not in back:
                return f"{path}.{key}: unknown member"
            if key not in wire:
                return f"{path}.{key}: missing"
            found = difference(wire[key], back[key], f"{path}.{key}")
            if found:
                return found
        return None
    if isinstance(wire, list):
        if len(wire) != len(back):
            return f"{path}: {len(wire)} items became {len(back)}"
        for index, (one, other) in enumerate(zip(wire, back)):
            found = difference(one, other, f"{path}[{index}]")
            if found:
                return found
        return None
    return None if wire == back else f"{path}: {wire!r:.60} became {back!r:.60}"


def fault_of_shape(message, kind):
    """What is wrong with a message read as a type of lsprotocol, or None."""
    try:
        back = CONVERTER.unstructure(CONVERTER.structure(message, kind), unstructure_as=kind)
    except Exception as problem:  # cattrs raises groups of many types
        return f"not a {kind.__name__}: {flat(problem)}"
    found = difference(without_nulls(message), without_nulls(json.loads(json.dumps(back))))
    return f"not a {kind.__name__}: {found}" if found else None


def flat(problem):
    inner = getattr(problem, "exceptions", None)
    return "; ".join(flat(one) for one in inner) if inner else f"{type(problem).__name__} {problem}"[:200]


def ranges_in(value, key=None):
    """All ranges and positions (of inlay hints) in a JSON value."""
    if isinstance(value, dict):
        if set(value) == {"start", "end"} and isinstance(value["start"], dict):
            yield "range", value
            return
        if key == "position":
            yield "position", value
            return
        for name, item in value.items():
            yield from ranges_in(item, name)
    elif isinstance(value, list):
        for item in value:
            yield from ranges_in(item)


class Judge:
    """Walks a transcript and collects faults by subject."""

    SUBJECTS = (
        "shapes",
        "one answer per request",
        "ranges inside the document",
        "only what the client declared",
        "diagnostics carry the version",
        "no questions after shutdown",
    )

    def __init__(self):
        self.faults = {subject: [] for subject in self.SUBJECTS}
        self.counts = {"messages": 0, "ranges": 0, "answers": 0}
        self.encoding = "utf-16"
        self.offered = ["utf-16"]
        self.capabilities = {}
        self.open_requests = {}
        self.answered = set()
        self.documents = {}  # uri -> {version: text}
        self.current = {}  # uri -> version
        self.down = False

    def fault(self, subject, text):
        self.faults[subject].append(text)

    def judge(self, transcript):
        for sender, message in transcript:
            if sender == "client":
                self.from_client(message)
            else:
                self.from_server(message)
        for id, (method, _, _) in self.open_requests.items():
            self.fault("one answer per request", f"{method} ({id}) was never answered")
        return self

    # The client's side: what is open, what was asked

    def from_client(self, message):
        method, params = message.get("method"), message.get("params") or {}
        if method is None:
            return
        if method == "initialize":
            self.capabilities = params["capabilities"]
            self.offered = self.capabilities.get("general", {}).get("positionEncodings", ["utf-16"])
        if method == "textDocument/didOpen":
            document = params["textDocument"]
            self.documents[document["uri"]] = {document["version"]: document["text"]}
            self.current[document["uri"]] = document["version"]
        elif method == "textDocument/didChange":
            uri, version = params["textDocument"]["uri"], params["textDocument"]["version"]
            if uri in self.current:
                old = self.documents[uri][self.current[uri]]
                self.documents[uri][version] = texts.apply(old, params["contentChanges"], self.encoding)
                self.current[uri] = version
        elif method == "textDocument/didClose":
            self.current.pop(params["textDocument"]["uri"], None)
        if "id" in message:
            uri = params.get("textDocument", {}).get("uri")
            self.open_requests[message["id"]] = (method, uri, self.current.get(uri))

    # The server's side

    def from_server(self, message):
        self.counts["messages"] += 1
        if message.get("jsonrpc") != "2.0":
            self.fault("shapes", f"jsonrpc is {message.get('jsonrpc')!r}")
        if "method" not in message:
            self.answer(message)
            return
        method = message["method"]
        if method not in types.METHOD_TO_TYPES:
            self.fault("shapes", f"unknown method {method}")
            return
        if types.message_direction(method) == "clientToServer":
            self.fault("shapes", f"{method} goes from client to server")
        found = fault_of_shape(message, types.METHOD_TO_TYPES[method][0])
        if found:
            self.fault("shapes", f"{method}: {found}")
            return
        if "id" in message:
            # Notes may still be on their way; a question can no longer be answered.
            if self.down:
                self.fault("no questions after shutdown", method)
            self.request_of_server(method, message.get("params") or {})
        if method == "textDocument/publishDiagnostics":
            self.diagnostics(message["params"])

    def request_of_server(self, method, params):
        if method == "client/registerCapability":
            for one in params["registrations"]:
                if not declared(self.capabilities, (*one["method"].split("/"), "dynamicRegistration")):
                    self.fault("only what the client declared", f"registers {one['method']}")
        elif method in NEEDS and not declared(self.capabilities, NEEDS[method]):
            self.fault("only what the client declared", method)

    def answer(self, message):
        id = message.get("id")
        if id is None and "error" in message:
            return  # the answer to something that could not be read
        if id not in self.open_requests:
            word = "a second answer" if id in self.answered else "an answer to nothing"
            self.fault("one answer per request", f"{word}: {message!r:.200}")
            return
        self.counts["answers"] += 1
        method, uri, version = self.open_requests.pop(id)
        self.answered.add(id)
        if ("result" in message) == ("error" in message):
            self.fault("shapes", f"{method}: neither result nor error, or both: {message!r:.200}")
            return
        if "error" in message:
            found = fault_of_shape(message, types.ResponseErrorMessage)
            if found:
                self.fault("shapes", f"{method}: {found}")
            return
        if method in types.METHOD_TO_TYPES:
            found = fault_of_shape(message, types.METHOD_TO_TYPES[method][1])
            if found:
                self.fault("shapes", f"{method}: {found}")
                return
        self.meaning(method, message["result"], uri, version)

    def meaning(self, method, result, uri, version):
        if method == "initialize":
            chosen = result["capabilities"].get("positionEncoding", "utf-16")
            if chosen not in self.offered:
                self.fault("only what the client declared", f"positionEncoding {chosen} of {self.offered}")
            self.encoding = chosen
        elif method == "shutdown":
            self.down = True
        if result is None:
            return
        document = self.capabilities.get("textDocument", {})
        if method == "textDocument/hover":
            formats = document.get("hover", {}).get("contentFormat")
            kind = result["contents"].get("kind") if isinstance(result["contents"], dict) else None
            if formats and kind and kind not in formats:
                self.fault("only what the client declared", f"hover in {kind}, wanted {formats}")
        if method == "textDocument/documentSymbol" and result and "selectionRange" in result[0]:
            if not declared(document, ("documentSymbol", "hierarchicalDocumentSymbolSupport")):
                self.fault("only what the client declared", "hierarchical symbols")
            self.symbols(result)
        if method == "textDocument/diagnostic":
            # Until 3.17 the members of pulled diagnostics are declared under publishDiagnostics.
            pulled = {**document.get("publishDiagnostics", {}), **document.get("diagnostic", {})}
            self.members(result.get("items", []), pulled)
        if uri is not None and version is not None and method != "textDocument/codeAction":
            self.ranges(method, result, self.documents[uri][version])

    def symbols(self, symbols, parent=None):
        def edges(place):
            return tuple((place[end]["line"], place[end]["character"]) for end in ("start", "end"))

        for symbol in symbols:
            start, end = edges(symbol["range"])
            inner_start, inner_end = edges(symbol["selectionRange"])
            if not start <= inner_start <= inner_end <= end:
                self.fault("ranges inside the document", f"selectionRange outside of range: {symbol!r:.200}")
            if not symbol["name"].strip():
                self.fault("shapes", "a symbol without a name")
            if parent and not parent[0] <= start <= end <= parent[1]:
                self.fault("ranges inside the document", f"symbol outside of its parent: {symbol['name']}")
            self.symbols(symbol.get("children") or [], (start, end))

    def ranges(self, what, value, text):
        lines = texts.lines_of(text)
        for kind, place in ranges_in(value):
            self.counts["ranges"] += 1
            check = texts.fault_of_range if kind == "range" else texts.fault_of_position
            found = check(lines, place, self.encoding)
            if found:
                self.fault("ranges inside the document", f"{what}: {found}")

    def members(self, diagnostics, capabilities):
        for diagnostic in diagnostics:
            for member, need in DIAGNOSTIC_NEEDS.items():
                if diagnostic.get(member) is not None and not declared(capabilities, (need,)):
                    self.fault("only what the client declared", f"diagnostic.{member}")

    def diagnostics(self, params):
        uri, version = params["uri"], params.get("version")
        capabilities = self.capabilities.get("textDocument", {}).get("publishDiagnostics", {})
        self.members(params["diagnostics"], capabilities)
        if uri not in self.current:
            if params["diagnostics"]:
                self.fault("diagnostics carry the version", f"diagnostics for {uri}, which is not open")
            return
        if declared(capabilities, ("versionSupport",)) and version is None:
            self.fault("diagnostics carry the version", "no version")
        history = self.documents[uri]
        if version is not None and version not in history:
            self.fault("diagnostics carry the version", f"version {version} was never sent")
            return
        if version is None:
            # Nothing tells which text they are about: an older one, while the newest is read.
            text = next((one for one in reversed(history.values()) if self.all_inside(params, one)), history[self.current[uri]])
        else:
            text = history[version]
        for diagnostic in params["diagnostics"]:
            self.ranges("publishDiagnostics", diagnostic["range"], text)
            for related in diagnostic.get("relatedInformation") or []:
                if related["location"]["uri"] == uri:
                    self.ranges("relatedInformation", related["location"]["range"], text)

    def all_inside(self, params, text):
        lines = texts.lines_of(text)
        return not any(texts.fault_of_range(lines, one["range"], self.encoding) for one in params["diagnostics"])
