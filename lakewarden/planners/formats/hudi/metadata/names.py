"""The names of a timeline's files, in both layouts, and how several files are one instant (docs/hudi.md).

    layout 1 (table versions up to 6)    <T>.<action>.requested  <T>.<action>.inflight  <T>.<completed action>
    layout 2 (table versions 8 and 9)    <T>.<action>.requested  <T>.<action>.inflight  <T>_<C>.<completed action>

T is when the instant was requested, C when it was completed. A copy-on-write commit in flight is `<T>.inflight`.
Services of the metadata table have, in layout 1, the T of the commit they follow with up to six more digits.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from functools import lru_cache

from lakewarden.planners.model.instant import State
from lakewarden.planners.ports import FileEntry


class Layout(IntEnum):
    """How a table lays out its timeline (`hoodie.timeline.layout.version`)."""

    V1 = 1
    V2 = 2


class Action(StrEnum):
    """Hudi's own word for what an instant does."""

    COMMIT = "commit"
    DELTACOMMIT = "deltacommit"
    REPLACECOMMIT = "replacecommit"
    COMPACTION = "compaction"
    LOGCOMPACTION = "logcompaction"
    CLUSTERING = "clustering"
    CLEAN = "clean"
    ROLLBACK = "rollback"
    SAVEPOINT = "savepoint"
    RESTORE = "restore"
    INDEXING = "indexing"
    SCHEMACOMMIT = "schemacommit"

    @property
    def completed_as(self) -> Action:
        """Return the action under which Hudi completes it."""
        return _COMPLETED_AS.get(self, self)


_COMPLETED_AS = {
    Action.COMPACTION: Action.COMMIT,
    Action.LOGCOMPACTION: Action.DELTACOMMIT,
    Action.CLUSTERING: Action.REPLACECOMMIT,
}
_ACTIONS = {action.value: action for action in Action}
_NAME = re.compile(r"(\d{14,23})(?:_(\d{14,17}))?(?:\.([a-z]+))?(?:\.(requested|inflight))?", re.ASCII)
_PENDING = {"requested": State.REQUESTED, "inflight": State.INFLIGHT}
_WORDS = {state: word for word, state in _PENDING.items()}


_MANY = 200
"""A folder of a timeline with more names than this is large."""

COMMITS = frozenset({Action.COMMIT, Action.DELTACOMMIT, Action.REPLACECOMMIT})
"""The completed actions that change what a table holds, or how it is laid out."""


@dataclass(frozen=True, kw_only=True, slots=True)
class InstantFile:
    """What the name of one timeline file says. `action` is the one in the name, which completion may change."""

    time: str
    action: Action
    state: State
    completed_time: str | None = None


def parse(name: str, layout: Layout) -> InstantFile | None:
    """Return what a file name says; None if the file belongs to no instant."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    time, completed_time, word, ending = match.groups()
    if word in _PENDING and ending is None:
        word, ending = Action.COMMIT.value, word
        if ending == "requested":
            return None
    action = _ACTIONS.get(word)
    if action is None or (completed_time is not None) != (layout is Layout.V2 and ending is None):
        return None
    state = State.COMPLETED if ending is None else _PENDING[ending]
    if state is State.COMPLETED and action.completed_as is not action:
        return None
    return InstantFile(time=time, action=action, state=state, completed_time=completed_time)


_remembered = lru_cache(maxsize=2**16)(parse)


def parser(names: int) -> Callable[[str, Layout], InstantFile | None]:
    """Return `parse` for a folder with so many names. It remembers those of a large timeline, which every observation
    lists again. Those of thousands of small timelines would need more memory than they save time.
    """
    return _remembered if names > _MANY else parse


def file_name(file: InstantFile) -> str:
    """Return the name that `parse` makes `file` of, in the layout that its completion time implies."""
    if file.state is State.COMPLETED:
        times = file.time if file.completed_time is None else f"{file.time}_{file.completed_time}"
        return f"{times}.{file.action}"
    if file.state is State.INFLIGHT and file.action is Action.COMMIT:
        return f"{file.time}.inflight"
    return f"{file.time}.{file.action}.{_WORDS[file.state]}"


@dataclass(frozen=True, kw_only=True, slots=True)
class InstantFiles:
    """The files of one instant, in its highest state. `action` is the one it was requested under, if a file of the
    request is still there.
    """

    time: str
    action: Action
    state: State
    completed_time: str | None
    requested: FileEntry | None
    inflight: FileEntry | None
    completed: FileEntry | None

    @property
    def ended(self) -> str:
        """The completion time; layout 1 has none, there it is the requested time."""
        return self.completed_time or self.time


def collapse(entries: Collection[FileEntry], layout: Layout) -> list[InstantFiles]:
    """Return the instants that a listing of the timeline's folder shows, oldest requested time first.

    The files of a request stay beside the completed one until they are archived, so the highest state counts.
    """
    groups: dict[tuple[str, Action], list[tuple[InstantFile, FileEntry]]] = {}
    parse_name = parser(len(entries))
    for entry in entries:
        file = None if entry.is_folder else parse_name(entry.name, layout)
        if file is not None:
            groups.setdefault((file.time, file.action.completed_as), []).append((file, entry))
    return [_instant_files(files) for _, files in sorted(groups.items())]


def _instant_files(files: list[tuple[InstantFile, FileEntry]]) -> InstantFiles:
    files.sort(key=lambda pair: (pair[0].state, pair[0].completed_time or ""))
    lowest, highest = files[0][0], files[-1][0]
    entries = {file.state: entry for file, entry in files}
    return InstantFiles(
        time=highest.time,
        action=lowest.action,
        state=highest.state,
        completed_time=highest.completed_time,
        requested=entries.get(State.REQUESTED),
        inflight=entries.get(State.INFLIGHT),
        completed=entries.get(State.COMPLETED),
    )
