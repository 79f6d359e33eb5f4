"""Texts from outside, in a form that can be shown. A name may contain a terminal's escape sequences, a line of a log,
or half a character. What is kept and compared stays as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

LONGEST = 4000
"""The most characters of a text that are shown. The others are counted."""

_DEEPEST = 16


def printable(text: str, *, most: int = LONGEST, lines: bool = False) -> str:
    """Return a text that any terminal, log and encoding can show. Control characters, marks that change the direction
    of reading, and halves of surrogate pairs are escaped as Python does it. A long text is cut.

    Line breaks are kept if the text may have several `lines`, and escaped otherwise.
    """
    shown = text[:most]
    if not shown.isprintable():
        shown = "".join(one if one.isprintable() or (lines and one == "\n") else _escaped(one) for one in shown)
    return shown if len(text) <= most else f"{shown}... ({len(text) - most} more)"


def printable_values(value: Any, *, most: int = LONGEST, lines: bool = True) -> Any:
    """Return a JSON value with every text in it printable, also its keys. Other values stay as they are."""
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
