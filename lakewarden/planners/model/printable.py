"""Texts from outside, where they are shown: a name may hold a terminal's escape sequences, a line of a log, or half a
character. What is kept and compared stays as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

LONGEST = 4000
"""So many characters of a text are shown; the rest is counted."""

_DEEPEST = 16


def printable(text: str, *, most: int = LONGEST, lines: bool = False) -> str:
    """Return a text that any terminal, log and encoding takes as it is: control characters, marks that turn the
    direction of reading, and halves of pairs are written as Python escapes them, and a long text is cut.

    Line breaks are kept where it may have several `lines`, and escaped otherwise.
    """
    shown = text[:most]
    if not shown.isprintable():
        shown = "".join(one if one.isprintable() or (lines and one == "\n") else _escaped(one) for one in shown)
    return shown if len(text) <= most else f"{shown}... ({len(text) - most} more)"


def printable_values(value: Any, *, most: int = LONGEST, lines: bool = True) -> Any:
    """Return what JSON may hold with every text in it printable, keys among them; other things are as they are."""
    return _printable(value, most, lines, _DEEPEST)


def _printable(value: Any, most: int, lines: bool, levels: int) -> Any:  # noqa: FBT001
    if isinstance(value, str):
        return printable(value, most=most, lines=lines)
    if not isinstance(value, Mapping | list | tuple):
        return value
    if not levels:
        return "..."
    if isinstance(value, Mapping):
        return {
            printable(key, most=most) if isinstance(key, str) else key: _printable(one, most, lines, levels - 1)
            for key, one in value.items()
        }
    return [_printable(one, most, lines, levels - 1) for one in value]


def _escaped(one: str) -> str:
    return one.encode("unicode_escape", "surrogatepass").decode("ascii")
