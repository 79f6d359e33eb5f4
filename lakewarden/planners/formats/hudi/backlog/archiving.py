"""Which commits may leave the active timeline, and why the others stay.

Hudi's own archiver (`TimelineArchiverV1`, `TimelineArchiverV2`) keeps what follows a pending write, a savepoint, the
last compaction of the metadata table, and files that were replaced and not yet cleaned. It goes past every other
instant that it leaves on the timeline, and then plans leave out log files (`history.py`). It does not keep
the checkpoints of writers. Structured Streaming looks for its last batch, and Hudi Streamer for its checkpoint, in
active commits only. If the last commit of a query is archived, the query writes its last batch twice (docs/hudi.md).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any, NamedTuple, TypeVar

from lakewarden.planners.decoding.damage import DamagedError
from lakewarden.planners.decoding.json_stream import from_json
from lakewarden.planners.formats.hudi.history import archived_since, first_shown
from lakewarden.planners.formats.hudi.metadata.commits import logged_at
from lakewarden.planners.formats.hudi.metadata.names import COMMITS, Action, InstantFiles, Layout
from lakewarden.planners.formats.hudi.metadata.payloads import (
    LARGEST,
    MALFORMED,
    WHOLE,
    Chunks,
    surely_read,
    whole_timeline,
)
from lakewarden.planners.formats.hudi.metadata.plans import retained_by_clean
from lakewarden.planners.formats.hudi.metadata.properties import HOME, TableProperties, read_table_properties
from lakewarden.planners.formats.hudi.options.service_options import RETAINED_BY_HUDI, CleanPolicy
from lakewarden.planners.model.errors import PermanentError, TemporaryError
from lakewarden.planners.model.instant import Service, State, Timeline
from lakewarden.planners.model.table import Table
from lakewarden.planners.ports import FileEntry, Storage

BATCH = 1000
"""The most commits that are archived at a time. The run holds the table's lock meanwhile."""

MOVED_WITH_COMMITS = frozenset({Action.CLEAN, Action.ROLLBACK})
"""What Hudi's archive moves besides commits, once it is completed."""

_STREAMING = "_hudi_streaming_sink_checkpoint"
"""`HoodieStreamingSink.SINK_CHECKPOINT_KEY`: a JSON object of batch numbers by the writer's identifier."""

_STREAMER = ("deltastreamer.checkpoint.key", "streamer.checkpoint.key.v2")
"""`StreamerCheckpointV1.STREAMER_CHECKPOINT_KEY_V1` and that of V2: the checkpoint itself."""

KAFKA_OFFSETS = "kafka.commit.offsets"
"""What Hudi's sink for Kafka Connect looks for in the newest commit (`ConnectTransactionCoordinator`)."""


class GroupKey(NamedTuple):
    """A file group, by its partition (`""` where the table has none) and its id."""

    partition: str
    id: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Commit:
    """A completed commit: the writers for which it holds a checkpoint, the file groups that it removed from the table,
    and the instants in the names of its log files.
    """

    time: str
    checkpoints: frozenset[str] = frozenset()
    replaced: tuple[GroupKey, ...] = ()
    logged: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True, slots=True)
class Pin:
    """Everything from the instant `at` on stays, because of `reason`."""

    at: str
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Archiving:
    """How many of the oldest `commits` may go, how many instants that is with the services between them, and why not
    more. `left_behind` are the times of completed instants that Hudi would leave behind, or has left.
    """

    commits: int
    going: int
    left_behind: Sequence[str] = ()
    instants: int
    reason: str


def archived_too_early(table: Table) -> str | None:
    """Return why the table's archive would take commits that its clean counts; None if it would not. Hudi's clean
    counts active commits only. With fewer than it retains, it finds nothing to delete.
    """
    archive, clean = (table.policies.get(service) for service in (Service.ARCHIVE, Service.CLEAN))
    if archive is None or clean is None or clean.options.policy is not CleanPolicy.KEEP_LATEST_COMMITS:
        return None
    retained = clean.options.commits_retained or RETAINED_BY_HUDI
    if archive.options.keep_min_commits > retained:
        return None
    return f"{archive.options.keep_min_commits} must be above the {retained} commits that the clean retains"


def checkpoints(extra_metadata: Mapping[str, str]) -> frozenset[str]:
    """Return the identifiers of the writers with a checkpoint in a commit's `extraMetadata`."""
    writers = {key for key in (*_STREAMER, KAFKA_OFFSETS) if extra_metadata.get(key)}
    streaming = extra_metadata.get(_STREAMING)
    if streaming:
        try:
            writers |= {f"query {identifier}" for identifier in from_json(streaming.encode())}
        except (DamagedError, *MALFORMED):
            writers.add(_STREAMING)  # Hudi does not write this: it is kept
    return frozenset(writers)


def checkpoint_pins(commits: Iterable[Commit]) -> Iterator[Pin]:
    """Yield a pin at the newest commit of each identifier. Pure."""
    newest = {identifier: commit.time for commit in commits for identifier in commit.checkpoints}
    for identifier, time in newest.items():
        yield Pin(at=time, reason=f"commit {time} holds the last checkpoint of {identifier}")


def overtaken_pins(
    writes: Iterable[InstantFiles], compactions: Sequence[str], *, retained: str | None
) -> Iterator[Pin]:
    """Yield the oldest write that was in flight when a compaction was planned, if its log files are still read. Pure.

    Its log files lie in the file slices that begin with that compaction. Only the write's completion time shows it.
    Hudi's own readers look for that time among archived instants, too. hudi-rs does not, and then misses the rows
    (docs/hudi.md). The write may go when a later compaction has merged its log files, and no older slice is `retained`.
    Instants of layout 1 have no completion time, and its slices need none.
    """
    for write in writes:
        overtaken_by = [time for time in compactions if write.time < time < write.ended]
        merged = any(write.ended < time and (retained is None or time <= retained) for time in compactions)
        if overtaken_by and not merged:
            yield Pin(at=write.time, reason=f"compaction {overtaken_by[0]} overtook write {write.time}")
            return


def taken_back_pins(commits: Sequence[Commit], completed: Collection[str]) -> Iterator[Pin]:
    """Yield the pins that keep log files with the instant of a withdrawn or pending plan out of the table. Pure.

    Writers make such log files while buckets are being resized. Hudi takes an instant for completed if it is older than
    the first commit of the active timeline. Then the table would show each of these rows twice (docs/hudi.md). This
    concerns layout 2 alone. In layout 1 the name of a log file contains the instant of its base file.
    """
    strays = {time for commit in commits for time in commit.logged if time != commit.time and time not in completed}
    before = [(commit.time, stray) for stray in sorted(strays) for commit in commits if commit.time < stray]
    if before:
        stray = before[0][1]
        at = max(time for time, of in before if of == stray)
        yield Pin(at=at, reason=f"log files of plan {stray}, which was not completed, would be part of the table")


def archivable(
    commits: Sequence[Commit], pins: Iterable[Pin], *, keep_min: int, keep_max: int
) -> tuple[Sequence[Commit], str]:
    """Return the commits that may go, the oldest first, and why not more. Pure."""
    if len(commits) <= keep_max:
        return (), f"the timeline has {len(commits)} commits, and archiving begins above {keep_max}"
    first = min((*checkpoint_pins(commits), *pins), key=lambda pin: pin.at, default=None)
    going = commits[: len(commits) - keep_min]
    left = [commit for commit in going if first is None or commit.time < first.at]
    if first is None or len(left) == len(going):
        return going, f"the newest {keep_min} commits stay"
    return left, f"{len(going) - len(left)} of {len(going)} commits that could go are held: {first.reason}"


# The facts that an archive needs, read from the table's timeline. A run reads each commit once, and many at a time.
#
# A run reads before it takes the table's lock. Under the lock it reads only what is new by then.

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
            going, reason = archivable(
                [Commit(time=instant.time) for instant in done], (), keep_min=0, keep_max=keep_max
            )
        else:
            commits = self._commits(timeline, properties)
            pins = [*more, *self._pins(timeline, properties), *self._metadata_pins(timeline, properties)]
            if properties.layout is Layout.V2:
                pins += taken_back_pins(commits, {instant.time for instant in timeline.done(Action)})
            going, reason = archivable(commits, pins, keep_min=keep_min, keep_max=keep_max)
            kept = [*self._replacement_pins(going, timeline, locked=locked)]
            if kept:
                going, reason = archivable(commits, [*pins, *kept], keep_min=keep_min, keep_max=keep_max)
        going = going[:BATCH]
        until = going[-1].time if going else ""
        left = self._left_behind(timeline, properties, until=until)
        services = sum(instant.time < until for instant in timeline.done(MOVED_WITH_COMMITS))
        return Archiving(
            commits=len(done),
            going=len(going),
            left_behind=left,
            instants=len(left) + len(going) + services,
            reason=reason,
        )

    def _left_behind(self, timeline: _Timeline, properties: TableProperties, *, until: str) -> Sequence[str]:
        """Return the completed instants that Hudi's archive would leave behind, or that one has left: they are moved by
        us. It never moves an `indexing` or a `restore`, and no clean or rollback that was pending when it came by.
        """
        first = first_shown(timeline.instants)
        if properties.layout is Layout.V1 or first is None:
            return ()
        archived = [
            entry.time for entry in archived_since(first.time, properties, self._storage) if entry.action in COMMITS
        ]
        passed = max(archived, default="")
        return [
            instant.time
            for instant in timeline.instants
            if instant.state is State.COMPLETED
            and instant.action.completed_as not in {*COMMITS, Action.SAVEPOINT}
            and instant.time < (passed if instant.action in MOVED_WITH_COMMITS else max(passed, until))
        ]

    def _commits(self, timeline: _Timeline, properties: TableProperties) -> Sequence[Commit]:
        done = timeline.done(COMMITS)
        commits = self._payloads(done, properties, _commit)
        return [replace(commit, time=instant.time) for instant, commit in zip(done, commits, strict=True)]

    def _pins(self, timeline: _Timeline, properties: TableProperties) -> Iterator[Pin]:
        pending = [instant for instant in timeline.instants if instant.state is not State.COMPLETED]
        writing = [instant for instant in pending if instant.action.completed_as in COMMITS]
        if writing:
            before = [instant.time for instant in timeline.done(COMMITS) if instant.time < writing[0].time]
            at = before[-1] if before else writing[0].time
            yield Pin(at=at, reason=f"{writing[0].action} {writing[0].time} is pending")
        # No plan of Hudi's would see the log files of a commit that is archived after another pending instant.
        for other in [instant for instant in pending if instant not in writing][:1]:
            yield Pin(at=other.time, reason=f"{other.action} {other.time} is pending, and no archive goes past it")
        for savepoint in timeline.done((Action.SAVEPOINT,))[:1]:
            yield Pin(at=savepoint.time, reason=f"savepoint {savepoint.time}")
        yield from self._cleaning(timeline, properties)

    def _cleaning(self, timeline: _Timeline, properties: TableProperties) -> Iterator[Pin]:
        """Yield what the last clean retained. Without those commits the next clean would have to look through the
        whole table.
        """
        cleans = timeline.done((Action.CLEAN,))[-1:]
        [retained] = self._payloads(cleans, properties, retained_by_clean) or [None]
        if retained:
            yield Pin(at=retained, reason=f"clean {cleans[-1].time} retained everything since {retained}")
        yield from overtaken_pins(
            timeline.done((Action.DELTACOMMIT,)),
            [instant.time for instant in timeline.done((Action.COMMIT,))] if properties.merge_on_read else (),
            retained=retained,
        )

    def _replacement_pins(self, going: Iterable[Commit], timeline: _Timeline, *, locked: bool) -> Iterator[Pin]:
        """Yield the oldest commit that replaced file groups which still have files. Without it on the timeline these
        file groups would be part of the table again.

        The metadata of cleans is not enough. A clean leaves out what a savepoint holds, and without the commit it never
        comes back to it. A clean by file versions does not say how far it has come. While a clean is executed its files
        are gone, and the metadata table still lists them.
        """
        cleaning = any(
            instant.action is Action.CLEAN and instant.state is State.INFLIGHT for instant in timeline.instants
        )
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
        done = [instant for instant in whole_timeline(properties, self._storage) if instant.state is State.COMPLETED]
        compactions = [
            instant.time for instant in done if instant.action.completed_as in (Action.COMMIT, Action.REPLACECOMMIT)
        ]
        if not compactions:
            yield Pin(at="", reason="the metadata table has not been compacted yet")
            return
        last = compactions[-1]
        since = [instant for instant in timeline.done(COMMITS) if instant.ended > last]
        if since:
            yield Pin(at=since[0].time, reason=f"the metadata table was last compacted at {last}")

    def _payloads(
        self, instants: Sequence[InstantFiles], properties: TableProperties, what: Callable[[Chunks], Any]
    ) -> Sequence[Any]:
        """Return what `what` finds in each of these completed instants. Their names identify them for good."""
        entries = [_completed(instant) for instant in instants]
        new = [entry for entry in entries if entry.name not in self._read]
        payloads = _at_once(lambda entry: self._payload(properties.timeline_folder, entry, what), new)
        self._read.update(zip((entry.name for entry in new), payloads, strict=True))
        return [self._read[entry.name] for entry in entries]

    def _payload(self, folder: str, entry: FileEntry, what: Callable[[Chunks], Any]) -> Any:
        if entry.size <= WHOLE:
            return surely_read(self._storage, folder, entry, what)
        with self._large:  # one at a time: JSON of this size is in memory whole
            return surely_read(self._storage, folder, entry, what, largest_whole=LARGEST)


@dataclass(frozen=True, slots=True)
class _Timeline:
    """A timeline that is read whole or not at all."""

    instants: Sequence[InstantFiles]

    def done(self, actions: Iterable[Action]) -> Sequence[InstantFiles]:
        return [
            instant
            for instant in self.instants
            if instant.state is State.COMPLETED and instant.action.completed_as in actions
        ]


def _at_once(what: Callable[[_T], _Found], of: Collection[_T]) -> Sequence[_Found]:
    """Return what `what` finds for each of them, several at a time, in their order."""
    if not of:
        return ()
    with ThreadPoolExecutor(max_workers=min(_AT_ONCE, len(of))) as pool:
        return list(pool.map(what, of))


def _commit(chunks: Chunks) -> Commit:
    """Decode a commit, which does not say its own time."""
    held: frozenset[str] = frozenset()
    groups: list[GroupKey] = []
    logged: set[str] = set()
    for chunk in chunks:
        held |= checkpoints(chunk.get("extraMetadata") or {})
        replaced = chunk.get("partitionToReplaceFileIds") or {}
        groups += [
            GroupKey(partition.strip("/"), str(file_id)) for partition, ids in replaced.items() for file_id in ids
        ]
        for stats in (chunk.get("partitionToWriteStats") or {}).values():
            logged.update(logged_at(stat.get("path") or "") for stat in stats)
    return Commit(time="", checkpoints=held, replaced=tuple(groups), logged=frozenset(logged - {""}))


def _completed(instant: InstantFiles) -> FileEntry:
    if instant.completed is None:
        raise TemporaryError(f"{instant.action} {instant.time} disappeared while it was read")
    return instant.completed
