"""Which instants of a table were completed: those that the active timeline shows as such, and those in its archive.

Hudi takes an instant that is not on the active timeline for completed only if it is earlier than the first one there,
whatever that is and in whatever state, savepoints aside (`CompletionTimeQueryViewV2.isArchived`, with
`BaseHoodieTimeline.getFirstNonSavepointCommit`; bytecode of 1.2.0). If an archive goes past an instant that stays, such
as the plan of a clean, no plan names the log files of the commits that it has archived. Readers still show their rows,
and a rewrite by that plan loses them (run). In layout 1 Hudi looks at writes and rewrites alone, and no archive goes
past those.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from lakewarden.planners.formats.hudi.history.lsm import Archived, history_files, history_folder, read_history
from lakewarden.planners.formats.hudi.metadata.names import COMMITS, Action, Layout
from lakewarden.planners.formats.hudi.metadata.table_properties import TableProperties
from lakewarden.planners.model.errors import PermanentError, TemporaryError
from lakewarden.planners.model.instant import Instant
from lakewarden.planners.ports import Storage


class _Named(Protocol):
    @property
    def time(self) -> str: ...
    @property
    def action(self) -> str: ...


_Instant = TypeVar("_Instant", bound=_Named)


@dataclass(frozen=True, kw_only=True, slots=True)
class CompletedInstants:
    """The times of completion by instant. What was requested `before` the first instant of the active timeline was
    completed, too. `passed` is that first instant if commits after it were archived: Hudi's plans ignore their files.
    """

    times: Mapping[str, str] = field(default_factory=dict)
    before: str = ""
    passed: Instant | None = None

    def at(self, time: str) -> str | None:
        """Return when an instant was completed. None if it was not."""
        return self.times.get(time, time if time < self.before else None)


def completed_instants(instants: Sequence[Instant], properties: TableProperties, storage: Storage) -> CompletedInstants:
    """Return what was completed, by the `instants` of the active timeline and by the archive. Only the files of the
    archive that reach into the active timeline are read; in nearly every table there are none.

    Raises TemporaryError if the archive cannot be read, because a merge removes its files or because it is damaged.
    """
    times = {one.time: one.completed_time or one.time for one in instants if not one.pending}
    first = first_shown(instants)
    if first is None:
        return CompletedInstants(times=times)
    archived = [] if properties.layout is Layout.V1 else archived_since(first.time, properties, storage)
    passed = any(one.action in COMMITS and one.time not in times for one in archived)
    return CompletedInstants(
        times={one.time: one.completed_time or one.time for one in archived} | times,
        before=first.time,
        passed=first if passed else None,
    )


def first_shown(instants: Iterable[_Instant]) -> _Instant | None:
    """Return the instant with which Hudi takes the active timeline to begin: the first one that is not at the time of
    a savepoint. None if there is none.
    """
    shown = list(instants)
    saved = {one.time for one in shown if one.action == Action.SAVEPOINT}
    return min((one for one in shown if one.time not in saved), key=lambda one: one.time, default=None)


def archived_since(time: str, properties: TableProperties, storage: Storage) -> Sequence[Archived]:
    """Return the archived instants that were requested at a time or later. For layout 2. Raises TemporaryError if the
    archive cannot be read.
    """
    folder = history_folder(properties)
    try:
        return [
            one
            for file in history_files(folder, storage)
            if file.last >= time
            for one in read_history(folder, file, storage, operations=False)
            if one.time >= time
        ]
    except (FileNotFoundError, PermanentError) as error:
        raise TemporaryError(f"the archived timeline in {folder} cannot be read: {error}") from error
