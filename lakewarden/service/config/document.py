"""The configuration file becomes plain values with their lines."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import Field

from lakewarden.planners.settings import Duration, Settings, Size, Within, shown
from lakewarden.service.config.problems import KeyPath, Problem

# A YAML text becomes plain values. What YAML would silently change is refused.
#
# The reader knows mappings, lists and the plain values of the core schema of YAML 1.2. So `yes`, `22:00`, `0123` and
# `2026-11-22` are texts and numbers as they look. They are not booleans, numbers of base sixty, octal numbers or dates.

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
_EMPTY = "is empty: a file without a key may be a file that is just being written. Write `tables: []` for no tables"
_TABS = "indent with spaces, never with tabs"


class RefusedError(Exception):
    """The text, or the file with it, cannot be read."""

    def __init__(self, sentence: str, line: int | None = None) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.line = line


class _Loader(yaml.CSafeLoader):
    """The core schema of YAML 1.2."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 - a name of pyyaml


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


def _events(text: str) -> Iterator[yaml.Event]:
    """Yield the events of the document. Raise at what is no YAML, at the first alias or tag, at a second document, and
    if the file is too large or too deep.

    Values are made of events, because the nodes of a large file would need ten times the memory of its values.
    """
    try:
        yield from _allowed(text)
    except yaml.MarkedYAMLError as wrong:
        mark, began = wrong.problem_mark, wrong.context_mark
        line = min(mark.line, text.count("\n")) + 1 if mark else None
        since = f" (it begins on line {began.line + 1})" if began and mark and began.line < mark.line - 1 else ""
        raise RefusedError(f"{_with_a_hint(wrong.problem or str(wrong), text, line)}{since}", line) from wrong
    except yaml.YAMLError as wrong:
        sentence = getattr(wrong, "reason", None) or str(wrong).partition("\n")[0]
        raise RefusedError(_with_a_hint(sentence, text, None), _line_of(wrong, text)) from wrong


def _allowed(text: str) -> Iterator[yaml.Event]:
    depth = 0
    begun: Any = None
    mark: Any
    for values, event in enumerate(yaml.parse(text, _Loader)):
        line = event.start_mark.line + 1 if event.start_mark else None
        match event:
            case yaml.AliasEvent():
                hint = "write what tables share as a policy under policies, or put text that begins with * in quotes"
                raise RefusedError(f"aliases (*name) are not read: {hint}", line)
            case yaml.ScalarEvent(tag=str(tag)) | yaml.CollectionStartEvent(tag=str(tag)):
                hint = "write a plain value, or put text that begins with ! in quotes"
                raise RefusedError(f"the tag {shown(tag)} is not read: {hint}", line)
            case yaml.ScalarEvent(value=str(value)) if "\0" in value:
                raise RefusedError(f"the text {shown(value)} has a NUL character, and no setting has one", line)
            case yaml.CollectionStartEvent():
                depth += 1
            case yaml.CollectionEndEvent():
                depth -= 1
            case yaml.DocumentStartEvent() if begun is not None:
                problem, mark = "but found another document", event.start_mark
                raise yaml.MarkedYAMLError(context_mark=begun, problem=problem, problem_mark=mark)
        if depth > DEEPEST:
            raise RefusedError(f"nested more than {DEEPEST} deep: no setting is", line)
        if values > MOST_VALUES:
            raise RefusedError(f"more than {MOST_VALUES} values: no configuration is so large", line)
        if isinstance(event, yaml.NodeEvent):
            begun = begun or event.start_mark
            yield event
        elif isinstance(event, yaml.CollectionEndEvent):
            yield event


def _with_a_hint(sentence: str, text: str, line: int | None) -> str:
    written = text.splitlines()[line - 1] if line is not None and line <= len(text.splitlines()) else ""
    if "\t" in written[: len(written) - len(written.lstrip())]:
        return f"not valid YAML: {sentence}: {_TABS}"
    hint = next((f": {hint}" for sign, hint in _HINTS.items() if sign in sentence), "")
    return f"not valid YAML: {sentence}{hint}"


def _line_of(wrong: yaml.YAMLError, text: str) -> int | None:
    position = getattr(wrong, "position", None)
    return None if position is None else text.encode().count(b"\n", 0, position) + 1


class WrittenKeys(dict[str, Any]):
    """A mapping of the document. It knows the lines of its keys. Mappings of the same form share them."""

    __slots__ = ("_form", "line")

    def __init__(self, values: Mapping[str, Any], *, line: int, form: Mapping[str, int]) -> None:
        """`form` has the lines of the keys, counted from `line`."""
        super().__init__(values)
        self.line = line
        self._form = form

    def lines(self) -> Mapping[str, int]:
        """Return the lines of the keys."""
        return {key: self.line + below for key, below in self._form.items()}

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how it is copied and pickled: as a plain mapping, which may change."""
        return dict, (dict(self),)


class Values:
    """Makes the values of a text. It keeps the problems, and in `lines` the lines of keys and entries if they are
    wanted.
    """

    def __init__(self, text: str, lines: dict[KeyPath, int] | None = None) -> None:
        self.problems: list[Problem] = []
        self._events = _events(text)
        self._lines = lines
        self._texts: dict[str, str] = {}
        self._forms: dict[tuple[tuple[str, int], ...], Mapping[str, int]] = {}

    def read(self) -> Any:
        """Return the value of the document. Raises RefusedError if there is none, as in a file without a key."""
        first = next(self._events, None)
        if first is None:
            raise RefusedError(_EMPTY)
        return self._all(first)

    def _all(self, first: yaml.Event) -> Any:
        value = self._of(first, ())
        for _ in self._events:  # what stands behind the document is checked, too
            pass
        return value

    def _of(self, event: yaml.Event, at: KeyPath) -> Any:
        if self._lines is not None and at:
            self._lines.setdefault(at, _line(event))
        match event:
            case yaml.MappingStartEvent():
                return self._mapping(at, _line(event))
            case yaml.SequenceStartEvent():
                return self._sequence(at)
            case _:
                return self._shared(_scalar(event))

    def _sequence(self, at: KeyPath) -> list[Any]:
        made: list[Any] = []
        while not isinstance(entry := next(self._events), yaml.SequenceEndEvent):
            made.append(self._of(entry, (*at, len(made))))
        return made

    def _mapping(self, at: KeyPath, first: int) -> WrittenKeys:
        made: dict[str, Any] = {}
        stands: dict[str, int] = {}
        while not isinstance(key_event := next(self._events), yaml.MappingEndEvent):
            line = _line(key_event)
            if not isinstance(key_event, yaml.ScalarEvent):
                self.problems.append(Problem(at=at, sentence="a key is a text, no list and no mapping", line=line))
                self._skip(key_event)
                self._skip(next(self._events))
                continue
            key = self._shared(key_event.value)
            here = (*at, key)
            if key in made:
                sentence = f"appears a second time; the first is on line {stands[key]}"
                self.problems.append(Problem(at=here, sentence=sentence, line=line))
                self._skip(next(self._events))
                continue
            stands[key] = line
            if self._lines is not None:
                self._lines[here] = line
            made[key] = self._of(next(self._events), here)
        form = tuple((key, stands[key] - first) for key in made)
        return WrittenKeys(made, line=first, form=self._forms.setdefault(form, dict(form)))

    def _skip(self, event: yaml.Event) -> None:
        """Leave out a key or a value, with everything in it."""
        depth = int(isinstance(event, yaml.CollectionStartEvent))
        while depth:
            inner = next(self._events)
            depth += isinstance(inner, yaml.CollectionStartEvent) - isinstance(inner, yaml.CollectionEndEvent)

    def _shared(self, value: Any) -> Any:
        """Return a value. Equal texts are one text: thousands of tables have the same keys, and mostly the same
        words.
        """
        return self._texts.setdefault(value, value) if isinstance(value, str) else value


def _line(event: yaml.Event) -> int:
    return event.start_mark.line + 1 if event.start_mark else 1


def _scalar(event: Any) -> Any:
    """Return the value of a ScalarEvent."""
    text = str(event.value)
    plain = event.implicit[0]
    kinds = _Loader.yaml_implicit_resolvers.get(text[:1], ()) if plain else ()
    match next((kind for kind, written in kinds if written.match(text)), None):
        case "tag:yaml.org,2002:int":
            return int(text)
        case "tag:yaml.org,2002:float":
            return float(re.sub(r"\.(?=[a-zA-Z])", "", text))
        case "tag:yaml.org,2002:bool":
            return text.lower() == "true"
        case "tag:yaml.org,2002:null":
            return None
        case _:
            return text


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
        reader = Values(text)
        values = reader.read()
    except RefusedError as refused:
        wrong = Problem(at=(), sentence=refused.sentence, line=refused.line)
        return Document(file=file, values=None, text=text, problems=(wrong,))
    if not isinstance(values, dict):
        kind = "a list" if isinstance(values, list) else f"just {shown(values)}"
        wrong = Problem(at=(), sentence=f"must hold a mapping with keys such as tables, not {kind}", line=1)
        return Document(file=file, values=None, text=text, problems=(wrong,))
    return Document(file=file, values=values, text=text, problems=tuple(reader.problems))


def _text(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            content = opened.read(LARGEST_BYTES + 1)
    except FileNotFoundError:
        raise RefusedError(f"no such configuration file: {_ELSEWHERE}") from None
    except (OSError, ValueError) as error:  # ValueError for a name with a NUL
        raise RefusedError(f"cannot be read: {error}") from error
    if len(content) > LARGEST_BYTES:
        raise RefusedError(f"is larger than {LARGEST_BYTES} bytes")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as other:
        line = content.count(b"\n", 0, other.start) + 1
        raise RefusedError("cannot be read: it is not UTF-8: save it in that encoding", line) from other


# The settings for reading tables.


class ReadingSettings(Settings):
    """The processes that read the metadata of tables. If the reading of a table ends one of them, only that table
    fails.
    """

    processes: Annotated[int, Within(1, 64)] = 2
    """Processes that read tables of local and mounted disks. Two more read tables that take long."""

    requests: Annotated[int, Within(1, 512)] = 64
    """Tables of object stores and catalogs that are read at the same time. One process of their own reads them."""

    memory: Annotated[Size, Within("256MiB", "1TiB")] = Field(default="1GiB", validate_default=True)
    """The memory of one such process. If the metadata of a table needs more, the table is not served, and its status
    says so.
    """

    deadline: Annotated[Duration, Within("1s", "1h")] = Field(default="60s", validate_default=True)
    """An observation that has not ended by then is given up. Its process is killed if it reads nothing else."""
