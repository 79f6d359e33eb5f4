"""How an act in an object store goes on, from whatever state it is in: the same for a run that goes on and for the next
one after a kill.

    staged      taken back: the new files are removed
    pointing    the metastore leads to the new files, partition by partition        (by a metastore)
    pointed     readers that were led to the partition before are waited for        (by a metastore)
    replacing   the marker goes, the new files appear, the old ones go, the marker comes back; what writers have put
                into the other folder is copied into the partition; then the metastore leads to the partition again
    returned    readers that were led to the other folder are waited for, and then what writers have put there since is
                moved into the partition                                            (by a metastore)
    clearing    what the act has put into its folder is removed

A partition stays as it is if a writer has replaced its old files, or has led its entry elsewhere, before its first new
file appears. Only an old file that is still the one that was rewritten is deleted. A file of a writer is deleted only
if its copy is in the partition. Each act may be repeated.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import assert_never

import structlog

from lakewarden.executors.points import Point
from lakewarden.executors.programs.directory.partition_list import PartitionList
from lakewarden.executors.programs.directory.replacing.act import RECORD, ActRecord, Acts, ObjectFiles, Replacement
from lakewarden.planners.formats.directory.compacting import ActProgress, ActState
from lakewarden.planners.formats.directory.listing.folders import OURS, EntryKind
from lakewarden.planners.model.clock import Clock
from lakewarden.planners.model.errors import PermanentError, TemporaryError
from lakewarden.planners.model.printable import printable
from lakewarden.planners.ports import FileEntry
from lakewarden.planners.settings import shown
from lakewarden.planners.storage.empty_files import RefusedPlaceError

log = structlog.get_logger(__name__)

_LEFT_BEHIND = timedelta(days=1)
"""The folder of an act that never began is removed so long after its last change."""

_LEAST_GRACE = timedelta(minutes=1)
"""So long at least is waited for a writer that has parts in progress in the folder of an act."""

_LED = re.compile(rf"{OURS}/([0-9a-f]{{16}})/([0-9]+)")
"""Where an act leads the entry of a partition, by its path below the table."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Road:
    """Takes the act of a directory as far as its readers allow."""

    table: str
    acts: Acts
    files: ObjectFiles
    kinds: Callable[[str], EntryKind]
    clock: Clock
    reach: Callable[[Point], None]
    grace: timedelta
    leads: PartitionList | None

    def end_earlier(self) -> datetime | None:
        """Take back, or forward, what a killed run has begun. Return when that may go on; None if it is over."""
        state = self.acts.current()
        if state is not None and state.progress is ActProgress.STAGED:
            self.acts.end()
            self.clear(state.act)
            state = None
        return None if state is None else self.go_on()

    def left(self) -> Sequence[str]:
        """Return the acts that left a folder a day ago. None of them is under way if no act is."""
        return list(self.acts.left(before=self.clock.now() - _LEFT_BEHIND))

    def clear(self, act: str) -> None:
        """Remove what an act has put into its folder. Its names have the name of the act, but for record and marker."""

        def is_ours(path: str) -> bool:
            name = path.rpartition("/")[2]
            return path == RECORD or act in name or self.kinds(name) is EntryKind.MARKER

        if kept := self.acts.clear(act, is_ours):
            log.warning(
                "files_of_a_writer_kept",
                folder=printable(self.acts.home(act)),
                file=printable(kept[0]),
                files=len(kept),
                remedy="a writer put them there: move them into their partition, or delete them",
            )

    def take_up(self, strays: Mapping[str, str], run: str) -> datetime | None:
        """Begin an act that leads entries back: those of a metastore that lead into our folder while no act is under
        way, because its journal was deleted. `strays` are their partitions, by the folders, all paths below the table.
        Return when it may go on; None if nothing is under way.
        """
        led = [(match[1], match[2], path) for below, path in sorted(strays.items()) if (match := _LED.fullmatch(below))]
        if not led:
            return None
        act = led[0][0]
        log.warning("entries_led_back", act=act, partition=printable(led[0][2]))
        if self.acts.record_left(act) is None:
            lost = [
                Replacement(partition=path, folder=folder, old={}, new={}, stay={})
                for act_id, folder, path in led
                if act_id == act
            ]
            self.acts.write(act, ActRecord(run=run, by_metastore=True, replacements=tuple(lost)))
        now, grace = self.clock.now(), self.grace.total_seconds()
        self.acts.begin(ActState(act=act, run=run, progress=ActProgress.REPLACING, since=now, grace_seconds=grace))
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
                for replacement in record.replacements:
                    self._replace(replacement, state.act, is_led=record.by_metastore)
                    if record.by_metastore:
                        self._bring(replacement, state.act)
                if record.by_metastore:
                    self._lead(state, forth=False)
                self._move(state, ActProgress.RETURNED if record.by_metastore else ActProgress.CLEARING)
            case ActProgress.RETURNED:
                self._end_grace(state)
            case ActProgress.CLEARING:
                self.acts.require_unchanged()
                self.clear(state.act)
                self.acts.end()
            case _:
                assert_never(state.progress)

    def _end_grace(self, state: ActState) -> None:
        """Move what writers have put into the other folder since. If one is still at work there, wait once more."""
        for replacement in self.acts.record(state.act).replacements:
            for name in self._bring(replacement, state.act):
                self.files.delete(f"{self.acts.home(state.act)}/{replacement.folder}/{name}")
        if self._is_written_to(state.act):
            more = max(state.grace_seconds, _LEAST_GRACE.total_seconds())
            self._move(state.model_copy(update={"grace_seconds": more}), ActProgress.RETURNED)
        else:
            self._move(state, ActProgress.CLEARING)

    def _move(self, state: ActState, progress: ActProgress) -> None:
        self.acts.move(state.at(progress, self.clock.now()))

    def _lead(self, state: ActState, *, forth: bool) -> None:
        """Let the metastore lead to the new files, or back to the partitions."""
        for replacement in self.acts.record(state.act).replacements:
            self.acts.require_unchanged()
            there = _there(replacement, state.act)
            source, target = (replacement.partition, there) if forth else (there, replacement.partition)
            if not self._led(replacement.partition, source=source, target=target):
                log.warning("partition_not_led", partition=printable(replacement.partition), source=printable(source))
            self.reach(Point.POINTED)

    def _led(self, path: str, *, source: str, target: str) -> bool:
        if self.leads is None:
            raise PermanentError(f"options.metastore is not set: the act of {self.table} needs it to be ended")
        try:
            return self.leads.lead(path, source=source, target=target)
        except RefusedPlaceError as refused:  # an act goes on when the metastore takes it
            raise TemporaryError(str(refused)) from refused

    def _replace(self, replacement: Replacement, act: str, *, is_led: bool) -> None:
        """Put the new files of a partition beside the old ones, and delete these."""
        place, staged = f"{self.table}/{replacement.partition}", f"{self.acts.home(act)}/{replacement.folder}"
        self.acts.require_unchanged()
        files = self.files.files_in(place)
        if (why := self._why_left(replacement, act, files, is_led=is_led)) is not None:
            log.warning("partition_not_compacted", partition=printable(replacement.partition), reason=why)
            return
        if replacement.marker is not None and not files.keys().isdisjoint(replacement.old):
            self.files.delete(f"{place}/{replacement.marker}")
        for name, size in replacement.new.items():
            if not _is(files.get(name), size):
                self._copy(f"{staged}/{name}", f"{place}/{name}")
                self.reach(Point.COPIED)
        files = self.files.files_in(place)
        if missing := [name for name, size in replacement.new.items() if not _is(files.get(name), size)]:
            raise TemporaryError(f"{place}/{missing[0]} was copied, and is not there")
        self.acts.require_unchanged()
        self.reach(Point.PUBLISHED)
        for name, old in replacement.old.items():
            entry = files.get(name)
            if entry is None:
                continue
            if entry.version == old.version and self.files.delete_seen(f"{place}/{name}", entry):
                self.reach(Point.DELETING)
            else:
                log.warning("file_kept", partition=printable(replacement.partition), file=printable(name))
        if replacement.marker is not None and not self._late(replacement, self.files.files_in(place)):
            self._copy(f"{staged}/{replacement.marker}", f"{place}/{replacement.marker}")

    def _why_left(
        self, replacement: Replacement, act: str, files: Mapping[str, FileEntry], *, is_led: bool
    ) -> str | None:
        """Return why a partition is not to be replaced any more; None if it is, or if a new file is there already."""
        if any(_is(files.get(name), size) for name, size in replacement.new.items()):
            return None
        for name, old in replacement.old.items():
            if not _same(files.get(name), old.version):
                return f"a writer has replaced or removed {shown(name)} since it was rewritten"
        there = _there(replacement, act)
        if is_led and not self._led(replacement.partition, source=there, target=there):
            return "its entry in the metastore was led elsewhere"
        return None

    def _bring(self, replacement: Replacement, act: str) -> Sequence[str]:
        """Copy into the partition what writers have put where the metastore led them, and return the names."""
        place, other = f"{self.table}/{replacement.partition}", f"{self.acts.home(act)}/{replacement.folder}"
        files = self.files.files_in(place)
        theirs = {
            name: entry
            for name, entry in self.files.files_in(other).items()
            if act not in name and self.kinds(name) is EntryKind.DATA
        }
        for name, entry in theirs.items():
            if name not in files:
                self.acts.require_unchanged()
                self._copy(f"{other}/{name}", f"{place}/{name}")
                log.info("late_file_moved", partition=printable(replacement.partition), file=printable(name))
            elif files[name].size != entry.size:
                raise PermanentError(f"{other}/{name} and {place}/{name} are two files: rename the first one")
        return list(theirs)

    def _is_written_to(self, act: str) -> bool:
        """Whether a writer has parts in progress in the folder of an act, or had within a day."""
        since = self.clock.now() - _LEFT_BEHIND
        return any(
            entry.modified > since and EntryKind.STAGED in map(self.kinds, path.split("/"))
            for path, entry in self.files.below(self.acts.home(act)).items()
        )

    def _late(self, replacement: Replacement, files: Mapping[str, FileEntry]) -> bool:
        """Whether a writer has added or changed something that the marker does not vouch for."""
        names = replacement.new.keys() | {
            name for name, stay in replacement.stay.items() if _same(files.get(name), stay.version)
        }
        return any(name not in names for name in files if self.kinds(name) in (EntryKind.DATA, EntryKind.STAGED))

    def _copy(self, source: str, target: str) -> None:
        try:
            self.files.copy(source, target)
        except FileNotFoundError as gone:
            self.acts.require_unchanged()
            raise PermanentError(f"{source} is missing: look which files of its partition hold all rows") from gone


def _there(replacement: Replacement, act: str) -> str:
    return f"{OURS}/{act}/{replacement.folder}"


def _is(entry: FileEntry | None, size: int) -> bool:
    return entry is not None and entry.size == size


def _same(entry: FileEntry | None, version: str) -> bool:
    return entry is not None and entry.version == version
