"""The facts that an archive needs, read from the table's timeline. A run reads each commit once, and many at a time.

A run reads before it takes the table's lock. Under the lock it reads only what is new by then.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Lock
from typing import Any, TypeVar

from lakewarden.planners.formats.hudi.backlog.archiving import (
    BATCH,
    MOVED_WITH_COMMITS,
    Archiving,
    Commit,
    GroupKey,
    Pin,
    archivable,
    checkpoints,
    overtaken_pins,
    taken_back_pins,
)
from lakewarden.planners.formats.hudi.history.completed import archived_since, first_shown
from lakewarden.planners.formats.hudi.metadata.commits import logged_at
from lakewarden.planners.formats.hudi.metadata.names import COMMITS, Action, InstantFiles, Layout
from lakewarden.planners.formats.hudi.metadata.payloads import (
    LARGEST,
    MALFORMED,
    WHOLE,
    Chunks,
    PayloadTooLargeError,
    UnreadableError,
    decode,
    first,
    read_chunks,
)
from lakewarden.planners.formats.hudi.metadata.table_properties import HOME, TableProperties, read_table_properties
from lakewarden.planners.formats.hudi.metadata.whole import whole_timeline
from lakewarden.planners.model.errors import LakewardenError, PermanentError, TemporaryError
from lakewarden.planners.model.instant import State
from lakewarden.planners.model.timeline import Timeline
from lakewarden.planners.ports import FileEntry, Storage

_T = TypeVar("_T")
_Found = TypeVar("_Found")
_AT_ONCE = 16


class ArchiveReading:
    """What one run has read of its table. Not for several threads."""

    def __init__(self, location: str, storage: Storage) -> None:
        self._location = location
        self._storage = storage
        self._read: dict[str, Any] = {}
        self._gone: set[GroupKey] = set()
        self._large = Lock()

    def archiving(
        self,
        *,
        keep_min: int,
        keep_max: int,
        known: Timeline | None = None,
        locked: bool = False,
        more: Iterable[Pin] = (),
    ) -> Archiving:
        """Return what may be archived of the table as it is now. `known` is from an earlier observation. `more` are
        pins beyond the table's own. Under the lock nothing is listed: files that were not found gone before count as
        present.

        Raises TemporaryError if anything that matters cannot be read whole.
        """
        properties = read_table_properties(self._location, self._storage)
        timeline = _Timeline(whole_timeline(properties, self._storage, known=known))
        done = timeline.done(COMMITS)
        if len(done) <= keep_max:
            going, reason = archivable([Commit(time=one.time) for one in done], (), keep_min=0, keep_max=keep_max)
        else:
            commits = self._commits(timeline, properties)
            pins = [*more, *self._pins(timeline, properties), *self._metadata_pins(timeline, properties)]
            if properties.layout is Layout.V2:
                pins += taken_back_pins(commits, timeline.completed)
            going, reason = archivable(commits, pins, keep_min=keep_min, keep_max=keep_max)
            kept = [*self._replacement_pins(going, timeline, locked=locked)]
            if kept:
                going, reason = archivable(commits, [*pins, *kept], keep_min=keep_min, keep_max=keep_max)
        going = going[:BATCH]
        left = self._left_behind(timeline, properties, until=going[-1].time if going else "")
        return Archiving(
            commits=len(done),
            going=len(going),
            left_behind=left,
            instants=len(left) + len(going) + (timeline.services_before(going[-1].time) if going else 0),
            reason=reason,
        )

    def _left_behind(self, timeline: _Timeline, properties: TableProperties, *, until: str) -> Sequence[str]:
        """Return the completed instants that Hudi's archive would leave behind, or that one has left: they are moved by
        us. It never moves an `indexing` or a `restore`, and no clean or rollback that was pending when it came by.
        """
        first = first_shown(timeline.instants)
        if properties.layout is Layout.V1 or first is None:
            return ()
        archived = [one.time for one in archived_since(first.time, properties, self._storage) if one.action in COMMITS]
        passed = max(archived, default="")
        return [
            one.time
            for one in timeline.instants
            if one.state is State.COMPLETED
            and one.action.completed_as not in {*COMMITS, Action.SAVEPOINT}
            and one.time < (passed if one.action in MOVED_WITH_COMMITS else max(passed, until))
        ]

    def _commits(self, timeline: _Timeline, properties: TableProperties) -> Sequence[Commit]:
        done = timeline.done(COMMITS)
        told = self._payloads(done, properties, _told)
        return [
            Commit(time=one.time, checkpoints=found[0], replaced=found[1], logged=found[2])
            for one, found in zip(done, told, strict=True)
        ]

    def _pins(self, timeline: _Timeline, properties: TableProperties) -> Iterator[Pin]:
        pending = [one for one in timeline.instants if one.state is not State.COMPLETED]
        writing = [one for one in pending if one.action.completed_as in COMMITS]
        if writing:
            before = [one.time for one in timeline.done(COMMITS) if one.time < writing[0].time]
            at = before[-1] if before else writing[0].time
            yield Pin(at=at, reason=f"{writing[0].action} {writing[0].time} is pending")
        for one in pending:
            if one not in writing:  # no plan of Hudi's would see the log files of a commit that is archived after it
                yield Pin(at=one.time, reason=f"{one.action} {one.time} is pending, and no archive goes past it")
                break
        for savepoint in timeline.done((Action.SAVEPOINT,))[:1]:
            yield Pin(at=savepoint.time, reason=f"savepoint {savepoint.time}")
        yield from self._cleaning(timeline, properties)

    def _cleaning(self, timeline: _Timeline, properties: TableProperties) -> Iterator[Pin]:
        """Yield what the last clean retained. Without those commits the next clean would have to look through the
        whole table.
        """
        cleans = timeline.done((Action.CLEAN,))[-1:]
        [retained] = self._payloads(cleans, properties, _retained) or [None]
        if retained:
            yield Pin(at=retained, reason=f"clean {cleans[-1].time} retained everything since {retained}")
        yield from overtaken_pins(
            timeline.done((Action.DELTACOMMIT,)),
            [one.time for one in timeline.done((Action.COMMIT,))] if properties.merge_on_read else (),
            retained=retained,
        )

    def _replacement_pins(self, going: Iterable[Commit], timeline: _Timeline, *, locked: bool) -> Iterator[Pin]:
        """Yield the oldest commit that replaced file groups which still have files. Without it on the timeline these
        file groups would be part of the table again.

        The metadata of cleans is not enough. A clean leaves out what a savepoint holds, and without the commit it never
        comes back to it. A clean by file versions does not say how far it has come. While a clean is executed its files
        are gone, and the metadata table still lists them.
        """
        cleaning = any(one.action is Action.CLEAN and one.state is State.INFLIGHT for one in timeline.instants)
        listed: dict[str, frozenset[str]] = {}
        for commit in going:
            left = [group for group in commit.replaced if group not in self._gone]
            if left and not locked and not cleaning:
                partitions = {group.partition for group in left} - listed.keys()
                listed.update(zip(partitions, _at_once(self._groups_in, partitions), strict=True))
                self._gone |= {group for group in left if group.id not in listed[group.partition]}
            if not self._gone.issuperset(commit.replaced):
                yield Pin(at=commit.time, reason=f"no clean has removed yet what {commit.time} replaced")
                return

    def _groups_in(self, partition: str) -> frozenset[str]:
        """Return the ids of the file groups that show a file in one of two listings of a partition's folder. A single
        listing may be incomplete. `<id>_...` is a base file, `.<id>_...` one of its logs.
        """
        folder = f"{self._location}/{partition}" if partition else self._location
        try:
            entries = [*self._storage.listing(folder), *self._storage.listing(folder)]
        except FileNotFoundError:
            return frozenset()
        return frozenset(entry.name.removeprefix(".").partition("_")[0] for entry in entries if not entry.is_folder)

    def _metadata_pins(self, timeline: _Timeline, table: TableProperties) -> Iterator[Pin]:
        """Yield what Hudi's metadata table needs: everything since its own last compaction. What is left of a metadata
        table that the table no longer uses needs nothing.
        """
        if not table.has_metadata_table:
            return
        try:
            properties = read_table_properties(f"{self._location}/{HOME}/metadata", self._storage)
        except PermanentError:
            return  # it is not made yet
        done = [one for one in whole_timeline(properties, self._storage) if one.state is State.COMPLETED]
        compactions = [one.time for one in done if one.action.completed_as in (Action.COMMIT, Action.REPLACECOMMIT)]
        if not compactions:
            yield Pin(at="", reason="the metadata table has not been compacted yet")
            return
        last = compactions[-1]
        since = [one for one in timeline.done(COMMITS) if one.ended > last]
        if since:
            yield Pin(at=since[0].time, reason=f"the metadata table was last compacted at {last}")

    def _payloads(
        self, instants: Sequence[InstantFiles], properties: TableProperties, what: Callable[[Chunks], Any]
    ) -> Sequence[Any]:
        """Return what `what` finds in each of these completed instants. Their names identify them for good."""
        entries = [_completed(one) for one in instants]
        new = [entry for entry in entries if entry.name not in self._read]
        found = _at_once(lambda entry: self._payload(properties.timeline_folder, entry, what), new)
        self._read.update(zip((entry.name for entry in new), found, strict=True))
        return [self._read[entry.name] for entry in entries]

    def _payload(self, folder: str, entry: FileEntry, what: Callable[[Chunks], Any]) -> Any:
        path = f"{folder}/{entry.name}"
        try:
            if entry.size <= WHOLE:
                return what(read_chunks(self._storage, path, size=entry.size))
            with self._large:  # one at a time: JSON of this size is in memory whole
                try:
                    return what(read_chunks(self._storage, path, size=entry.size))
                except PayloadTooLargeError:
                    return what(filter(None, [decode(self._storage.read(path, limit=LARGEST))]))
        except (LakewardenError, FileNotFoundError, UnreadableError, *MALFORMED) as error:
            raise TemporaryError(f"{entry.name} cannot be read: {error}") from error


@dataclass(frozen=True, slots=True)
class _Timeline:
    """A timeline that is read whole or not at all."""

    instants: Sequence[InstantFiles]

    def done(self, actions: Iterable[Action]) -> Sequence[InstantFiles]:
        return [one for one in self.instants if one.state is State.COMPLETED and one.action.completed_as in actions]

    @property
    def completed(self) -> frozenset[str]:
        """The requested times of everything that is completed."""
        return frozenset(one.time for one in self.instants if one.state is State.COMPLETED)

    def services_before(self, time: str) -> int:
        """Return how many cleans and rollbacks are archived with the commits up to `time`."""
        return sum(one.time < time for one in self.done(MOVED_WITH_COMMITS))


def _at_once(what: Callable[[_T], _Found], of: Collection[_T]) -> Sequence[_Found]:
    """Return what `what` finds for each of them, several at a time, in their order."""
    if not of:
        return ()
    with ThreadPoolExecutor(max_workers=min(_AT_ONCE, len(of))) as pool:
        return list(pool.map(what, of))


def _told(chunks: Chunks) -> tuple[frozenset[str], tuple[GroupKey, ...], frozenset[str]]:
    """Return three facts about a commit: the writers for which it holds a checkpoint, the file groups that it removed
    from the table, and the instants in the names of its log files.
    """
    held: frozenset[str] = frozenset()
    groups: list[GroupKey] = []
    logged: set[str] = set()
    for chunk in chunks:
        held |= checkpoints(chunk.get("extraMetadata") or {})
        replaced = chunk.get("partitionToReplaceFileIds") or {}
        groups += [GroupKey(partition.strip("/"), str(one)) for partition, ids in replaced.items() for one in ids]
        for stats in (chunk.get("partitionToWriteStats") or {}).values():
            logged.update(logged_at(one.get("path") or "") for one in stats)
    return held, tuple(groups), frozenset(logged - {""})


def _retained(chunks: Chunks) -> str | None:
    return first(chunks, "earliestCommitToRetain").get("earliestCommitToRetain")


def _completed(one: InstantFiles) -> FileEntry:
    if one.completed is None:
        raise TemporaryError(f"{one.action} {one.time} disappeared while it was read")
    return one.completed
