"""A timeline's instants, all of them or none: for programs that are about to delete something.

A listing can leave files out silently: a proxy loses a page, a store answers from a copy that is behind. So a file that
was seen before, and is not listed now, is asked for by its own name. It is gone only if the store denies that very
file: then it was archived, rolled back or withdrawn. A file that no listing has ever shown cannot be missed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lakewarden.planners.formats.hudi.metadata.names import (
    Action,
    InstantFile,
    InstantFiles,
    collapse,
    file_name,
    parser,
)
from lakewarden.planners.formats.hudi.metadata.table_properties import TableProperties
from lakewarden.planners.model.errors import PermanentError, TemporaryError
from lakewarden.planners.model.instant import Instant, InstantKind
from lakewarden.planners.model.timeline import Timeline
from lakewarden.planners.ports import FileEntry, Storage


def whole_timeline(
    properties: TableProperties, storage: Storage, *, known: Timeline | None = None
) -> Sequence[InstantFiles]:
    """Return the instants of a table's active timeline, oldest requested time first.

    It is listed twice. The second listing must hold what the first one shows, and what is `known` from earlier
    observations. Raises TemporaryError if it leaves out a file that is there, or if the folder cannot be listed. A
    missing folder is no empty one here.
    """
    folder, layout = properties.timeline_folder, properties.layout
    try:
        first, second = storage.listing(folder), storage.listing(folder)
    except FileNotFoundError as error:
        raise TemporaryError(f"{folder} cannot be listed") from error
    parse = parser(len(first))
    shown = [entry.name for entry in first if not entry.is_folder and parse(entry.name, layout) is not None]
    missing = [*left_out(shown, second, folder, storage)]
    if known is not None:
        missing += missed(known, second, collapse(second, layout), folder, storage)
    if missing:
        raise TemporaryError(not_whole(folder, missing))
    return collapse(second, layout)


def left_out(expected: Iterable[str], entries: Sequence[FileEntry], folder: str, storage: Storage) -> Sequence[str]:
    """Return those of the expected files that are in the folder although its listing does not show them.

    Raises TemporaryError if the store does not answer.
    """
    shown = {entry.name for entry in entries}
    return [name for name in dict.fromkeys(expected) if name not in shown and _is_there(f"{folder}/{name}", storage)]


def not_whole(folder: str, missing: Sequence[str]) -> str:
    """Return in words that a listing left out files that exist."""
    more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
    return f"the listing of {folder} is not whole: it leaves out {missing[0]}{more}"


def missed(
    known: Timeline, entries: Sequence[FileEntry], shown: Sequence[InstantFiles], folder: str, storage: Storage
) -> Sequence[str]:
    """Return the files of `known` instants that a listing leaves out although they are there. `shown` are the instants
    that it shows.

    Archiving may remove hundreds of instants at once, the oldest first. Of the completed ones older than everything
    listed only the newest is asked for. Savepoints and pending instants are always asked for.
    """
    oldest = shown[0].time if shown else ""
    older = [
        i for i in known.instants if i.time < oldest and not i.pending and i.stands_for is not InstantKind.SAVEPOINT
    ]
    passed_over = frozenset(older[:-1])
    there = {(one.time, one.action.value, one.state, one.completed_time) for one in shown}
    asked = (
        i for i in known.instants if (i.time, i.action, i.state, i.completed_time) not in there and i not in passed_over
    )
    return left_out(map(name_of, asked), entries, folder, storage)


def name_of(instant: Instant) -> str:
    """Return the name of the file by which an instant is in the state that a timeline shows."""
    action = Action(instant.action)
    return file_name(
        InstantFile(
            time=instant.time,
            action=action if instant.pending else action.completed_as,
            state=instant.state,
            completed_time=instant.completed_time,
        )
    )


def _is_there(path: str, storage: Storage) -> bool:
    try:
        storage.read(path, limit=0)
    except FileNotFoundError:
        return False
    except PermanentError:
        return True  # it is larger than the limit
    return True
