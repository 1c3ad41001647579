"""Documents and positions as the protocol counts them, in the negotiated encoding.

A line ends with LF, or CR LF. A lone CR does not end one here, although the protocol says so:
editors that split at it send LF, and the others keep it inside the line.
"""


# Name of the codec, bytes of a code unit.
CODECS = {"utf-8": ("utf-8", 1), "utf-16": ("utf-16-le", 2), "utf-32": ("utf-32-le", 4)}


def width(text, encoding):
    """The length of a text in code units."""
    codec, size = CODECS[encoding]
    return len(text.encode(codec)) // size


def lines_of(text):
    return [line[:-1] if line.endswith("\r") else line for line in text.split("\n")[:-1]] + [
        text.split("\n")[-1]
    ]


def position(text, offset, encoding):
    """The position of a character offset."""
    before = text[:offset]
    start = before.rfind("\n") + 1
    return {"line": before.count("\n"), "character": width(before[start:], encoding)}


def column_index(line, character, encoding):
    """The character index of a column, or None where it lies outside or within a character."""
    codec, size = CODECS[encoding]
    units = line.encode(codec)[: character * size]
    if len(units) != character * size:
        return None
    try:
        return len(units.decode(codec))
    except UnicodeDecodeError:
        return None


def offset(text, place, encoding):
    """The character offset of a position; past the end of a line or text it is clamped."""
    raw = text.split("\n")
    if place["line"] >= len(raw):
        return len(text)
    index = column_index(raw[place["line"]], place["character"], encoding)
    if index is None:
        index = len(raw[place["line"]])
    return sum(len(line) + 1 for line in raw[: place["line"]]) + index


def apply(text, changes, encoding):
    """A text after content changes."""
    for change in changes:
        if "range" not in change:
            text = change["text"]
            continue
        start = offset(text, change["range"]["start"], encoding)
        end = offset(text, change["range"]["end"], encoding)
        text = text[:start] + change["text"] + text[end:]
    return text


def fault_of_position(lines, place, encoding):
    """What is wrong with a position in a document, or None."""
    if place["line"] >= len(lines):
        return f"line {place['line']} of {len(lines)}"
    if column_index(lines[place["line"]], place["character"], encoding) is None:
        length = width(lines[place["line"]], encoding)
        return f"character {place['character']} in line {place['line']} of length {length}, or within a character"
    return None


def fault_of_range(lines, place, encoding):
    """What is wrong with a range in a document, or None."""
    for end in ("start", "end"):
        fault = fault_of_position(lines, place[end], encoding)
        if fault:
            return f"{end}: {fault}"
    start, end = place["start"], place["end"]
    if (start["line"], start["character"]) > (end["line"], end["character"]):
        return "it ends before it starts"
    return None
