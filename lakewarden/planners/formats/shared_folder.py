"""What follows from a table of another format in the same folder.

Tools make a table of one format readable as another: they write metadata of the second format into the folder of the
first, and the files stay those of the first. Only the table that the others are made from may be changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from lakewarden.planners.formats.layouts import LAYOUTS, FoundTable, MadeFrom, found_in, in_words, origin_of
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.model.view import Blocker
from lakewarden.planners.ports import Observation, Storage

_AGAIN = timedelta(minutes=10)
_MOST_KEPT = 20_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Sharing:
    """What follows from the tables that share a folder: what blocks the services of one of them, and its warnings."""

    blocker: Blocker | None = None
    warnings: tuple[str, ...] = ()

    def shown_in(self, observation: Observation, *, now: datetime) -> Observation:
        """Return an observation that shows it. What blocks the table is looked for again after ten minutes."""
        if self == ALONE:
            return observation
        view, keep_until = observation.view, observation.keep_until
        blockers = view.blockers if self.blocker is None else (self.blocker, *view.blockers)
        again = now + _AGAIN
        return replace(
            observation,
            view=replace(view, blockers=blockers, warnings=(*view.warnings, *self.warnings)),
            keep_until=again if keep_until is None else min(keep_until, again),
        )


ALONE = Sharing()


def sharing(
    own: str, folders: Iterable[str], storage: Storage, *, properties: Mapping[str, str] | None = None
) -> Sharing:
    """Return what follows for a table of the format `own` from the tables of other formats in its folders.

    `properties` are the table's own, if they are known: else they are read from its folder. Raises TemporaryError.
    """
    if properties is not None and (origin := origin_of(properties)) is not None:
        return Sharing(blocker=_made_by_a_tool(own, origin, next(iter(folders))))
    warnings: list[str] = []
    for folder in dict.fromkeys(folders):
        others = found_in(folder, storage, formats=[name for name in LAYOUTS if name != own])
        if not others:
            continue
        mine = next(iter(found_in(folder, storage, formats=[own])), None)
        verdict = _judged(own, folder, mine, others)
        if verdict.blocker is not None:
            return verdict
        warnings += verdict.warnings
    return Sharing(warnings=tuple(warnings))


def _judged(own: str, folder: str, mine: FoundTable | None, others: Sequence[FoundTable]) -> Sharing:
    """Pure. `mine` is the table itself, if it lies in this folder."""
    origin = None if mine is None else mine.origin
    source = next((table for table in others if own in table.copies), None)
    if origin is None and source is not None:
        origin = MadeFrom(source.format, f"the writers of {source.table}")
    if origin is not None:
        return Sharing(blocker=_made_by_a_tool(own, origin, folder))
    copies = frozenset() if mine is None else mine.copies
    warnings = []
    for other in others:
        made_from_this = other.origin is not None and other.origin.format == own
        if not made_from_this and other.format not in copies:
            return Sharing(blocker=_two_tables(folder, other))
        tool = "its writers" if other.origin is None else other.origin.tool
        warnings.append(
            f"{tool} copies its metadata to {other.format.capitalize()} ({other.file}). Readers of the copy need files "
            "that clean deletes, if the copy is older than the commits that clean keeps: let it keep them for longer "
            "than the copies are apart"
        )
    return Sharing(warnings=tuple(warnings))


def _made_by_a_tool(own: str, origin: MadeFrom, folder: str) -> Blocker:
    source = in_words(origin.format)
    instead = f"register {folder} as {source}" if origin.format else "maintain the table that it was made from"
    return Blocker(
        code="shared_folder",
        reason=f"this {own.capitalize()} table is a copy of the metadata of {source}, made by {origin.tool}: the files "
        f"belong to {source}, which would lose them, and the next copy undoes what is changed here",
        remedy=f"remove it from the configuration, and {instead}. If no copies are made any more, and this table "
        "has writers of its own, unset the property that it has left here",
    )


def _two_tables(folder: str, other: FoundTable) -> Blocker:
    origin = "" if other.origin is None else f", which {other.origin.tool} made from {in_words(other.origin.format)}"
    return Blocker(
        code="shared_folder",
        reason=f"{folder} is also the folder of {other.table} ({other.file}{origin}): which of the two tables a file "
        "belongs to cannot be told",
        remedy="let each table have a folder of its own. If the other one is what a migration has left, move its "
        f"metadata ({LAYOUTS[other.format].folder}) out of the folder once no engine reads it",
    )


class SharedFolders:
    """Remembers for ten minutes what was found in a table's folders. A run asks again before it begins."""

    def __init__(self, own: str) -> None:
        self._own = own
        self._kept: dict[str, tuple[datetime, Sharing]] = {}

    def of(
        self, folders: Sequence[str], storage: Storage, *, now: datetime, properties: Mapping[str, str] | None = None
    ) -> Sharing:
        """Return what follows for a table. The first folder is its location. Raises as `sharing` does."""
        at, verdict = self._kept.get(folders[0], (None, ALONE))
        if properties is not None and origin_of(properties) is not None:
            return sharing(self._own, folders, storage, properties=properties)
        if at is None or not at <= now < at + _AGAIN:
            verdict = sharing(self._own, folders, storage, properties=properties)
            if len(self._kept) >= _MOST_KEPT:
                self._kept.clear()
            self._kept[folders[0]] = (now, verdict)
        return verdict


def require_own_folder(
    own: str, folders: Iterable[str], storage: Storage, *, properties: Mapping[str, str] | None = None
) -> None:
    """Raise PermanentError if a table of another format in its folders blocks a table of the format `own`."""
    blocker = sharing(own, folders, storage, properties=properties).blocker
    if blocker is not None:
        raise PermanentError(f"{blocker.reason}; {blocker.remedy}")
