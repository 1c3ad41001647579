"""What clients say of themselves."""

import copy

# A modern editor that shows pushed diagnostics; it lets the server ask and refresh.
FULL = {
    "general": {"positionEncodings": ["utf-8", "utf-16", "utf-32"]},
    "window": {"workDoneProgress": True, "showMessage": {}, "showDocument": {"support": True}},
    "workspace": {
        "applyEdit": True,
        "configuration": True,
        "workspaceFolders": True,
        "didChangeConfiguration": {"dynamicRegistration": True},
        "didChangeWatchedFiles": {"dynamicRegistration": True, "relativePatternSupport": True},
        "inlayHint": {"refreshSupport": True},
        "codeLens": {"refreshSupport": True},
        "semanticTokens": {"refreshSupport": True},
    },
    "textDocument": {
        "synchronization": {"didSave": True, "dynamicRegistration": False},
        "publishDiagnostics": {
            "relatedInformation": True,
            "versionSupport": True,
            "codeDescriptionSupport": True,
            "dataSupport": True,
            "tagSupport": {"valueSet": [1, 2]},
        },
        "hover": {"contentFormat": ["markdown", "plaintext"]},
        "inlayHint": {"resolveSupport": {"properties": ["tooltip"]}},
        "documentSymbol": {
            "hierarchicalDocumentSymbolSupport": True,
            "symbolKind": {"valueSet": list(range(1, 27))},
        },
        "codeAction": {"codeActionLiteralSupport": {"codeActionKind": {"valueSet": ["", "quickfix"]}}},
        "foldingRange": {"lineFoldingOnly": True},
    },
}

# A client that knows the minimum; its positions are UTF-16, its hovers plain text.
BARE = {"textDocument": {"hover": {"contentFormat": ["plaintext"]}}}


def with_encodings(*encodings):
    """FULL, with these position encodings in order of preference."""
    capabilities = copy.deepcopy(FULL)
    capabilities["general"]["positionEncodings"] = list(encodings)
    return capabilities


def pulling():
    """An editor that asks for diagnostics and counts in UTF-16, as most do."""
    capabilities = with_encodings("utf-16")
    capabilities["textDocument"]["diagnostic"] = {"dynamicRegistration": False, "relatedDocumentSupport": False}
    capabilities["workspace"]["diagnostics"] = {"refreshSupport": True}
    return capabilities
