"""How an act in an object store goes on, from whatever state it is in: the same for a run that goes on and for the next
one after a kill.

    staged      taken back: the new files are removed
    pointing    the metastore leads to the new files, partition by partition        (by a metastore)
    pointed     readers that were led to the partition before are waited for        (by a metastore)
    replacing   the marker goes, the new files appear, the old ones go, the marker comes back; then the metastore leads
                to the partition again
    returned    readers that were led to the other folder are waited for            (by a metastore)
    clearing    the folder of the act is removed

Only an old file that is still the one that was rewritten is deleted. Each act may be repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol, assert_never

import structlog

from lakewarden.executors.points import Point
from lakewarden.executors.programs.directory.replacing.act import ActRecord, Acts, Replacement
from lakewarden.executors.programs.directory.replacing.object_files import ObjectFiles
from lakewarden.planners.formats.directory.compacting.acts import ActProgress, ActState
from lakewarden.planners.formats.directory.listing.names import OURS, EntryKind
from lakewarden.planners.model.clock import Clock
from lakewarden.planners.model.errors import PermanentError, TemporaryError
from lakewarden.planners.model.printable import printable
from lakewarden.planners.ports import FileEntry

log = structlog.get_logger(__name__)

_LEFT_BEHIND = timedelta(days=1)
"""The folder of an act that never began is removed so long after its last change."""


class Leads(Protocol):
    """The list of partitions in a metastore. The act may be repeated."""

    def lead(self, path: str, *, source: str, target: str) -> bool:
        """Lead readers of a partition from one folder to another, and return whether it leads there now."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Road:
    """Takes the act of a directory as far as its readers allow."""

    table: str
    acts: Acts
    files: ObjectFiles
    kinds: Callable[[str], EntryKind]
    clock: Clock
    reach: Callable[[Point], None]
    leads: Leads | None = None

    def end_earlier(self) -> datetime | None:
        """Take back, or forward, what a killed run has begun. Return when that may go on; None if it is over."""
        state = self.acts.current()
        if state is not None and state.progress is ActProgress.STAGED:
            self.acts.end()
            self.acts.clear(state.act)
            state = None
        if state is None:
            self.acts.clear_left(before=self.clock.now() - _LEFT_BEHIND)
            return None
        return self.go_on()

    def go_on(self) -> datetime | None:
        """Take the act forward until it is over, or waits for readers. Return when it may go on; None if it is over."""
        while (state := self.acts.current()) is not None:
            at = state.goes_on_at
            if at is not None and self.clock.now() < at:
                return at
            self._step(state)
        return None

    def _step(self, state: ActState) -> None:
        match state.progress:
            case ActProgress.STAGED:
                raise PermanentError(f"the act {state.act} was not begun")
            case ActProgress.POINTING:
                self._lead(state, forth=True)
                self._move(state, ActProgress.POINTED)
            case ActProgress.POINTED:
                self._move(state, ActProgress.REPLACING)
            case ActProgress.REPLACING:
                record = self.acts.record(state.act)
                for one in record.replacements:
                    self._replace(one, f"{self.acts.home(state.act)}/{one.folder}")
                if record.by_metastore:
                    self._lead(state, forth=False)
                self._move(state, ActProgress.RETURNED if record.by_metastore else ActProgress.CLEARING)
            case ActProgress.RETURNED:
                self._move(state, ActProgress.CLEARING)
            case ActProgress.CLEARING:
                self.acts.require_unchanged()
                self.acts.clear(state.act)
                self.acts.end()
            case _:
                assert_never(state.progress)

    def _move(self, state: ActState, progress: ActProgress) -> None:
        self.acts.move(state.at(progress, self.clock.now()))

    def _lead(self, state: ActState, *, forth: bool) -> None:
        """Let the metastore lead to the new files, or back to the partitions."""
        if self.leads is None:
            raise PermanentError(f"options.metastore is not set: the act {state.act} needs it to be ended")
        record: ActRecord = self.acts.record(state.act)
        for one in record.replacements:
            self.acts.require_unchanged()
            there = f"{OURS}/{state.act}/{one.folder}"
            source, target = (one.partition, there) if forth else (there, one.partition)
            if not self.leads.lead(one.partition, source=source, target=target):
                log.warning("partition_not_led", partition=printable(one.partition), source=printable(source))
            self.reach(Point.POINTED)

    def _replace(self, one: Replacement, staged: str) -> None:
        """Put the new files of a partition beside the old ones, and delete these."""
        place = f"{self.table}/{one.partition}"
        self.acts.require_unchanged()
        found = self.files.files_in(place)
        if one.marker is not None and not found.keys().isdisjoint(one.old):
            self.files.delete(f"{place}/{one.marker}")
        for name, size in one.new.items():
            if not _is(found.get(name), size):
                self._copy(f"{staged}/{name}", f"{place}/{name}")
                self.reach(Point.COPIED)
        found = self.files.files_in(place)
        if missing := [name for name, size in one.new.items() if not _is(found.get(name), size)]:
            raise TemporaryError(f"{place}/{missing[0]} was copied, and is not there")
        self.acts.require_unchanged()
        self.reach(Point.PUBLISHED)
        for name, old in one.old.items():
            entry = found.get(name)
            if entry is not None and entry.version == old.version:
                self.files.delete(f"{place}/{name}")
                self.reach(Point.DELETING)
            elif entry is not None:
                log.warning("file_kept", partition=printable(one.partition), file=printable(name))
        if one.marker is not None and not self._late(one, self.files.files_in(place)):
            self._copy(f"{staged}/{one.marker}", f"{place}/{one.marker}")

    def _late(self, one: Replacement, found: Mapping[str, FileEntry]) -> bool:
        """Whether a writer has added or changed something that the marker does not vouch for."""
        known = one.new.keys() | {name for name, stay in one.stay.items() if _same(found.get(name), stay.version)}
        return any(name not in known for name in found if self.kinds(name) in (EntryKind.DATA, EntryKind.STAGED))

    def _copy(self, source: str, target: str) -> None:
        try:
            self.files.copy(source, target)
        except FileNotFoundError as gone:
            self.acts.require_unchanged()
            raise PermanentError(f"{source} is missing: look which files of its partition hold all rows") from gone


def _is(entry: FileEntry | None, size: int) -> bool:
    return entry is not None and entry.size == size


def _same(entry: FileEntry | None, version: str) -> bool:
    return entry is not None and entry.version == version
