"""The configuration file becomes plain values with their lines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from lakewarden.planners.settings import shown
from lakewarden.service.config.problems import KeyPath, Problem
from lakewarden.service.config.yaml_values import RefusedError, Values

LARGEST_BYTES = 16 * 2**20

_ELSEWHERE = "name it with --config or LAKEWARDEN_CONFIG, or write a first one with `lakewarden init`"


@dataclass(frozen=True, kw_only=True)
class Document:
    """The values of a file, and its text. `values` is None if the file could not be read at all."""

    file: Path
    values: dict[str, Any] | None
    text: str
    problems: tuple[Problem, ...]

    def line(self, at: KeyPath) -> int | None:
        """Return the line of a key, or of the nearest key above it that is in the file."""
        if self.values is None or not at:
            return None
        for length in range(len(at), 0, -1):
            above, below = at[:length], ".".join(map(str, at[length:]))
            if (*above, below) in self._lines:  # a key with dots in it
                return self._lines[*above, below]
            if above in self._lines:
                return self._lines[above]
        return None

    @cached_property
    def _lines(self) -> Mapping[KeyPath, int]:
        """The lines of keys and entries. They need more memory than the values, and only problems need them."""
        lines: dict[KeyPath, int] = {}
        Values(self.text, lines).read()
        return lines

    def told(self, problem: Problem) -> str:
        """Return a problem in one line, with its file and line."""
        line = problem.line or self.line(problem.at)
        place = f"{self.file}:{line}" if line else str(self.file)
        return f"{place}: {problem}"


def read_document(file: Path) -> Document:
    """Return the values of the file, with all problems that need no knowledge of the settings. Never raises."""
    try:
        text = _text(file)
    except RefusedError as refused:
        wrong = Problem(at=(), sentence=refused.sentence, line=refused.line)
        return Document(file=file, values=None, text="", problems=(wrong,))
    return document_of(text, file=file)


def document_of(text: str, *, file: Path) -> Document:
    """Return the values of a text that is in the file, or is to be written to it. Never raises.

    A text without a key is refused: it may be a file that is just being written.
    """
    try:
        found = Values(text)
        values = found.read()
    except RefusedError as refused:
        wrong = Problem(at=(), sentence=refused.sentence, line=refused.line)
        return Document(file=file, values=None, text=text, problems=(wrong,))
    if not isinstance(values, dict):
        kind = "a list" if isinstance(values, list) else f"just {shown(values)}"
        wrong = Problem(at=(), sentence=f"must hold a mapping with keys such as tables, not {kind}", line=1)
        return Document(file=file, values=None, text=text, problems=(wrong,))
    return Document(file=file, values=values, text=text, problems=tuple(found.problems))


def _text(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            content = opened.read(LARGEST_BYTES + 1)
    except FileNotFoundError:
        raise RefusedError(f"there is no such configuration file: {_ELSEWHERE}") from None
    except (OSError, ValueError) as error:  # ValueError for a name with a NUL
        raise RefusedError(f"cannot be read: {error}") from error
    if len(content) > LARGEST_BYTES:
        raise RefusedError(f"is larger than {LARGEST_BYTES} bytes")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as other:
        line = content.count(b"\n", 0, other.start) + 1
        raise RefusedError("cannot be read: it is not UTF-8: save it in that encoding", line) from other
