"""Java's `.properties` format, as far as `java.util.Properties.load` defines it."""

from __future__ import annotations

import re

_NATURAL_LINE = re.compile(r"\r\n|\r|\n")
_KEY = re.compile(r"((?:\\.|[^\\=:\s])*)[ \t\f]*(?:[=:][ \t\f]*)?(.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)", re.DOTALL)
_SURROGATE = re.compile("[\ud800-\udfff]")
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_properties(content: bytes) -> dict[str, str]:
    """Return the keys and values of a properties file; the last of equal keys counts. It takes time by its length."""
    found: dict[str, str] = {}
    for line in _logical_lines(content.decode("latin-1")):
        match = _KEY.match(line)
        if match is not None:
            found[_unescaped(match[1])] = _unescaped(match[2])
    return found


def _logical_lines(text: str) -> list[str]:
    """Return the lines without comments and blanks, with those that end in an odd number of backslashes joined."""
    lines: list[str] = []
    carried: list[str] = []
    for natural in _NATURAL_LINE.split(text):
        line = natural.lstrip(" \t\f")
        if not carried and (not line or line[0] in "#!"):
            continue
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            carried.append(line[:-1])
        else:
            lines.append("".join((*carried, line)))
            carried.clear()
    return lines if not carried else [*lines, "".join(carried)]


def _unescaped(text: str) -> str:
    if "\\" not in text:
        return text
    plain = _ESCAPE.sub(lambda m: chr(int(m[1][1:], 16)) if len(m[1]) > 1 else _CONTROLS.get(m[1], m[1]), text)
    return _paired(plain) if _SURROGATE.search(plain) else plain


def _paired(text: str) -> str:
    """Return a text with its surrogate pairs as characters, and with a mark for a single surrogate, which could be
    written nowhere.
    """
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
