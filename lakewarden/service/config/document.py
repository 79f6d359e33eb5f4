"""A YAML file becomes plain values and the lines they stand on, refusing what YAML would pass over in silence.

Read are YAML's mappings, lists and the plain values of its core schema (YAML 1.2): `yes`, `22:00`, `0123` and
`2026-11-22` are texts and numbers as they look, not booleans, numbers of base sixty, octal numbers and dates.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from lakewarden.planners.settings import shown
from lakewarden.service.config.problems import KeyPath, Problem

LARGEST_BYTES = 16 * 2**20
DEEPEST = 32
MOST_VALUES = 1_000_000

_HINTS = {
    "cannot start any token": "put text that begins with %, @ or ` in quotes",
    "mapping values are not allowed": "a colon too many: check the indentation, and put text that holds ': ' in quotes",
    "could not find expected ':'": "a key needs a colon and a space after it",
    "did not find expected key": "check the indentation of this line and of the one before",
    "did not find expected '-' indicator": "check the indentation: the entries of a list begin in one column",
    "did not find expected ','": "a bracket is not closed, or a comma is missing",
    "found unexpected end of stream": "a quote is not closed",
    "found unknown escape character": r"in double quotes \ begins an escape: use single quotes",
    "control characters are not allowed": "remove the character",
    "did not find expected alphabetic": "put text that begins with * or & in quotes",
    "found another document": "remove the line ---: a configuration is one document",
}
_TABS = "indent with spaces, never with tabs"


@dataclass(frozen=True, kw_only=True, slots=True)
class Document:
    """What a file says and on which line; `values` is None where it could not be read at all."""

    file: Path
    values: dict[str, Any] | None
    lines: Mapping[KeyPath, int]
    problems: tuple[Problem, ...]

    def line(self, at: KeyPath) -> int | None:
        """Return the line of a key, or of the nearest one above it that stands in the file."""
        for length in range(len(at), 0, -1):
            above, below = at[:length], ".".join(map(str, at[length:]))
            if (*above, below) in self.lines:  # a key with dots in it
                return self.lines[*above, below]
            if above in self.lines:
                return self.lines[above]
        return None

    def told(self, problem: Problem) -> str:
        """Return a problem in one line, with the file and the line it is in."""
        line = problem.line or self.line(problem.at)
        place = f"{self.file}:{line}" if line else str(self.file)
        return f"{place}: {problem}"


def read_document(file: Path) -> Document:
    """Return what the file says, with all that can be found wrong of it before its meaning is known.

    An empty file is an empty mapping. Never raises.
    """
    try:
        text = _text(file)
        node, found = _composed(text), _Values()
        values = {} if node is None else found.of(node, ())
    except _RefusedError as refused:
        wrong = Problem(at=(), sentence=refused.sentence, line=refused.line)
        return Document(file=file, values=None, lines={}, problems=(wrong,))
    if not isinstance(values, dict):
        kind = "a list" if isinstance(values, list) else f"just {shown(values)}"
        wrong = Problem(at=(), sentence=f"must hold a mapping with keys such as tables, not {kind}", line=1)
        return Document(file=file, values=None, lines={}, problems=(wrong,))
    return Document(file=file, values=values, lines=found.lines, problems=tuple(found.problems))


class _RefusedError(Exception):
    """The file cannot be read."""

    def __init__(self, sentence: str, line: int | None = None) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.line = line


def _text(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            content = opened.read(LARGEST_BYTES + 1)
    except FileNotFoundError:
        raise _RefusedError("there is no such configuration file") from None
    except (OSError, ValueError) as trouble:  # the latter for a name with a NUL
        raise _RefusedError(f"cannot be read: {trouble}") from trouble
    if len(content) > LARGEST_BYTES:
        raise _RefusedError(f"is larger than {LARGEST_BYTES} bytes")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as other:
        line = content.count(b"\n", 0, other.start) + 1
        raise _RefusedError("cannot be read: it is not UTF-8: save it in that encoding", line) from other


class _Loader(yaml.CSafeLoader):
    """The core schema of YAML 1.2."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 - pyyaml's own


_INT, _FLOAT = "tag:yaml.org,2002:int", "tag:yaml.org,2002:float"
_BOOL, _NULL = "tag:yaml.org,2002:bool", "tag:yaml.org,2002:null"
_NUMBER = "-+0123456789."
_Loader.add_implicit_resolver(_BOOL, re.compile(r"(true|True|TRUE|false|False|FALSE)\Z"), list("tTfF"))
_Loader.add_implicit_resolver(_NULL, re.compile(r"(~|null|Null|NULL|)\Z"), ["~", "n", "N", ""])
_Loader.add_implicit_resolver(_INT, re.compile(r"[-+]?[0-9]{1,18}\Z"), list(_NUMBER))
_Loader.add_implicit_resolver(
    _FLOAT,
    re.compile(r"([-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))\Z"),
    list(_NUMBER),
)


def _composed(text: str) -> yaml.Node | None:
    """Return the document's nodes; raises where it is no YAML, has tags or aliases, or is too deep or too large."""
    try:
        _refuse_growth(text)
        node: yaml.Node | None = yaml.compose(text, _Loader)
    except yaml.MarkedYAMLError as wrong:
        mark, began = wrong.problem_mark, wrong.context_mark
        line = min(mark.line, text.count("\n")) + 1 if mark else None
        since = f" (it begins on line {began.line + 1})" if began and mark and began.line < mark.line - 1 else ""
        raise _RefusedError(f"{_with_a_hint(wrong.problem or str(wrong), text, line)}{since}", line) from wrong
    except yaml.YAMLError as wrong:
        said = getattr(wrong, "reason", None) or str(wrong).partition("\n")[0]
        raise _RefusedError(_with_a_hint(said, text, None), _line_of(wrong, text)) from wrong
    return node


def _refuse_growth(text: str) -> None:
    """Raise at the first alias or tag and where there is too much: before anything is built from it."""
    depth = 0
    for values, event in enumerate(yaml.parse(text, _Loader)):
        line = event.start_mark.line + 1 if event.start_mark else None
        match event:
            case yaml.AliasEvent():
                hint = "use defaults instead, or put text that begins with * in quotes"
                raise _RefusedError(f"aliases (*name) are not read: {hint}", line)
            case yaml.ScalarEvent(tag=str(tag)) | yaml.CollectionStartEvent(tag=str(tag)):
                hint = "write a plain value, or put text that begins with ! in quotes"
                raise _RefusedError(f"the tag {shown(tag)} is not read: {hint}", line)
            case yaml.CollectionStartEvent():
                depth += 1
            case yaml.CollectionEndEvent():
                depth -= 1
        if depth > DEEPEST:
            raise _RefusedError(f"nested more than {DEEPEST} deep: no setting is", line)
        if values > MOST_VALUES:
            raise _RefusedError(f"more than {MOST_VALUES} values: no configuration is so large", line)


def _with_a_hint(said: str, text: str, line: int | None) -> str:
    written = text.splitlines()[line - 1] if line is not None and line <= len(text.splitlines()) else ""
    if "\t" in written[: len(written) - len(written.lstrip())]:
        return f"no valid YAML: {said}: {_TABS}"
    hint = next((f": {hint}" for sign, hint in _HINTS.items() if sign in said), "")
    return f"no valid YAML: {said}{hint}"


def _line_of(wrong: yaml.YAMLError, text: str) -> int | None:
    position = getattr(wrong, "position", None)
    return None if position is None else text.encode().count(b"\n", 0, position) + 1


@dataclass(kw_only=True, slots=True)
class _Values:
    """Turns nodes into values, keeping the lines of keys and entries, and what is wrong on the way."""

    lines: dict[KeyPath, int] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def of(self, node: yaml.Node, at: KeyPath) -> Any:
        if at:
            self.lines.setdefault(at, node.start_mark.line + 1)
        match node:
            case yaml.MappingNode():
                return self._mapping(node, at)
            case yaml.SequenceNode():
                return [self.of(entry, (*at, number)) for number, entry in enumerate(node.value)]
            case _:
                return _scalar(node)

    def _mapping(self, node: yaml.MappingNode, at: KeyPath) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode):
                self.problems.append(Problem(at=at, sentence="a key is a text, no list and no mapping", line=line))
                continue
            key = key_node.value
            here = (*at, key)
            if key in made:
                said = f"stands here a second time; the first is on line {self.lines[here]}"
                self.problems.append(Problem(at=here, sentence=said, line=line))
                continue
            self.lines[here] = line
            made[key] = self.of(value_node, here)
        return made


def _scalar(node: yaml.Node) -> Any:
    text = str(node.value)
    if node.tag == _INT:
        return int(text)
    if node.tag == _FLOAT:
        return float(re.sub(r"\.(?=[a-zA-Z])", "", text))
    if node.tag == _BOOL:
        return text.lower() == "true"
    return None if node.tag == _NULL else text
