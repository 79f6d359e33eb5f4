"""Which commits may leave the active timeline, and what holds the others there.

Hudi's own archiver (`TimelineArchiverV1`, `TimelineArchiverV2`) keeps what lies behind a pending instant, a savepoint,
the last compaction of the metadata table and files that were replaced and not yet cleaned. It does not keep what
writers remember: Structured Streaming's last batch and Hudi Streamer's checkpoint are looked for in active commits
only, so a query whose last commit is archived writes its last batch twice (docs/hudi.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lakewarden.planners.decoding.damage import DamagedError
from lakewarden.planners.decoding.json_text import from_json
from lakewarden.planners.formats.hudi.names import COMMITS, Action, InstantFiles
from lakewarden.planners.formats.hudi.payloads import MALFORMED, UnreadableError, decode
from lakewarden.planners.formats.hudi.service_options import CleanPolicy
from lakewarden.planners.formats.hudi.table_properties import HOME, TableProperties, read_table_properties
from lakewarden.planners.formats.hudi.whole import whole_timeline
from lakewarden.planners.model.errors import PermanentError, TemporaryError
from lakewarden.planners.model.instant import Service, State
from lakewarden.planners.model.table import Table
from lakewarden.planners.model.timeline import Timeline
from lakewarden.planners.ports import Storage

_LARGEST_COMMIT = 2**30

_RETAINED_BY_HUDI = 10
"""`hoodie.clean.commits.retained` as Hudi sets it."""

_STREAMING = "_hudi_streaming_sink_checkpoint"
"""`HoodieStreamingSink.SINK_CHECKPOINT_KEY`: a JSON object of batch numbers by the writer's identifier."""

_STREAMER = ("deltastreamer.checkpoint.key", "streamer.checkpoint.key.v2")
"""`StreamerCheckpointV1.STREAMER_CHECKPOINT_KEY_V1` and that of V2: the checkpoint itself."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Commit:
    """A completed commit, and whose progress it holds."""

    time: str
    checkpoints: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True, slots=True)
class Pin:
    """From the instant `at` on everything stays, because of `reason`."""

    at: str
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Archiving:
    """How many of the oldest `commits` may go, how many instants that is with the cleans and rollbacks between them,
    and why it is not more.
    """

    commits: int
    going: int
    instants: int
    reason: str


def archived_too_early(table: Table) -> str | None:
    """Return why the table's archive would take commits that its clean counts; None if it would not. Hudi's clean
    counts active commits only: with fewer than it retains, it never finds anything to delete.
    """
    archive, clean = (table.policies.get(service) for service in (Service.ARCHIVE, Service.CLEAN))
    if archive is None or clean is None or clean.options.policy is not CleanPolicy.KEEP_LATEST_COMMITS:
        return None
    retained = clean.options.commits_retained or _RETAINED_BY_HUDI
    if archive.options.keep_min_commits > retained:
        return None
    return f"{archive.options.keep_min_commits} must be above the {retained} commits that the clean retains"


def checkpoints(extra_metadata: Mapping[str, str]) -> frozenset[str]:
    """Return the identifiers of the writers whose progress a commit's `extraMetadata` holds."""
    found = {key for key in _STREAMER if extra_metadata.get(key)}
    streaming = extra_metadata.get(_STREAMING)
    if streaming:
        try:
            found |= {f"query {identifier}" for identifier in from_json(streaming.encode())}
        except (DamagedError, *MALFORMED):
            found.add(_STREAMING)  # not what Hudi writes: kept as it is
    return frozenset(found)


def checkpoint_pins(commits: Iterable[Commit]) -> Iterator[Pin]:
    """Yield what the newest commit of each identifier holds. Pure."""
    newest = {identifier: commit.time for commit in commits for identifier in commit.checkpoints}
    for identifier, time in newest.items():
        yield Pin(at=time, reason=f"commit {time} holds the last checkpoint of {identifier}")


def overtaken_pins(
    writes: Iterable[InstantFiles], compactions: Sequence[str], *, retained: str | None
) -> Iterator[Pin]:
    """Yield the oldest write that was in flight when a compaction was planned and whose log files are still read. Pure.

    They lie in the file slices that begin with that compaction, which only the write's completion time tells. Hudi's
    own readers look for it among archived instants, too; hudi-rs does not, and then misses the rows (docs/hudi.md).
    When a later compaction has merged them, and no older slice is `retained` any more, the write may go. Instants of
    layout 1 have no completion time, and its slices need none.
    """
    for write in writes:
        overtaken_by = [time for time in compactions if write.time < time < write.ended]
        merged = any(write.ended < time and (retained is None or time <= retained) for time in compactions)
        if overtaken_by and not merged:
            yield Pin(at=write.time, reason=f"compaction {overtaken_by[0]} overtook write {write.time}")
            return


def archivable(
    commits: Sequence[Commit], pins: Iterable[Pin], *, keep_min: int, keep_max: int
) -> tuple[Sequence[Commit], str]:
    """Return the commits that may go, the oldest first, and why it is not more. Pure."""
    if len(commits) <= keep_max:
        return (), f"the timeline has {len(commits)} commits, and archiving begins above {keep_max}"
    first = min((*checkpoint_pins(commits), *pins), key=lambda pin: pin.at, default=None)
    going = commits[: len(commits) - keep_min]
    if first is None or going[-1].time < first.at:
        return going, f"the newest {keep_min} commits stay"
    free = [commit for commit in going if commit.time < first.at]
    return free, f"{len(going) - len(free)} of {len(going)} commits that could go are held: {first.reason}"


def read_archiving(
    location: str, storage: Storage, *, keep_min: int, keep_max: int, known: Timeline | None = None
) -> Archiving:
    """Read the table's timeline, `known` from an earlier look, and return what may be archived of it.

    Raises TemporaryError if anything that matters cannot be read whole: then nobody knows.
    """
    properties = read_table_properties(location, storage)
    instants = whole_timeline(properties, storage, known=known)
    timeline = _Timeline(properties=properties, storage=storage, instants=instants)
    commits = list(timeline.commits())
    pins = [*timeline.pins(), *_metadata_pins(location, storage, timeline)]
    going, reason = archivable(commits, pins, keep_min=keep_min, keep_max=keep_max)
    return Archiving(
        commits=len(commits),
        going=len(going),
        instants=len(going) + (timeline.services_before(going[-1].time) if going else 0),
        reason=reason,
    )


def _metadata_pins(location: str, storage: Storage, timeline: _Timeline) -> Iterator[Pin]:
    """Yield what Hudi's metadata table holds: everything since its own last compaction."""
    try:
        properties = read_table_properties(f"{location}/{HOME}/metadata", storage)
    except PermanentError:
        return  # the table has none
    done = [one for one in whole_timeline(properties, storage) if one.state is State.COMPLETED]
    compactions = [one.time for one in done if one.action.completed_as in (Action.COMMIT, Action.REPLACECOMMIT)]
    if not compactions:
        yield Pin(at="", reason="the metadata table has not been compacted yet")
        return
    last = compactions[-1]
    since = [one for one in timeline.done(COMMITS) if one.ended > last]
    if since:
        yield Pin(at=since[0].time, reason=f"the metadata table was last compacted at {last}")


@dataclass(frozen=True, kw_only=True, slots=True)
class _Timeline:
    """A timeline that is read whole or not at all."""

    properties: TableProperties
    storage: Storage
    instants: Sequence[InstantFiles]

    def done(self, actions: Iterable[Action]) -> Sequence[InstantFiles]:
        return [one for one in self.instants if one.state is State.COMPLETED and one.action.completed_as in actions]

    def commits(self) -> Iterator[Commit]:
        for one in self.done(COMMITS):
            found = self._read(one, lambda record: checkpoints(record.get("extraMetadata") or {}))
            yield Commit(time=one.time, checkpoints=found or frozenset())

    def services_before(self, time: str) -> int:
        """Return how many cleans and rollbacks are archived with the commits up to `time`."""
        return sum(one.time < time for one in self.done((Action.CLEAN, Action.ROLLBACK)))

    def pins(self) -> Iterator[Pin]:
        pending = [one for one in self.instants if one.state is not State.COMPLETED]
        writing = [one for one in pending if one.action.completed_as in COMMITS]
        if writing:
            before = [one.time for one in self.done(COMMITS) if one.time < writing[0].time]
            at = before[-1] if before else writing[0].time
            yield Pin(at=at, reason=f"{writing[0].action} {writing[0].time} is pending")
        for savepoint in self.done((Action.SAVEPOINT,))[:1]:
            yield Pin(at=savepoint.time, reason=f"savepoint {savepoint.time}")
        yield from self._cleaning()

    def _cleaning(self) -> Iterator[Pin]:
        """Yield what the last clean retained, and the oldest replacement whose files no clean has removed yet.

        Without the commits that it retained, the next clean would have to look through the whole table; without a
        replacecommit, readers would see the files that it replaced again.
        """
        cleans = self.done((Action.CLEAN,))
        retained = self._read(cleans[-1], lambda record: record.get("earliestCommitToRetain")) if cleans else None
        if retained:
            yield Pin(at=retained, reason=f"clean {cleans[-1].time} retained everything since {retained}")
        yield from overtaken_pins(
            self.done((Action.DELTACOMMIT,)),
            [one.time for one in self.done((Action.COMMIT,))] if self.properties.merge_on_read else (),
            retained=retained,
        )
        bound = retained or (cleans[-1].time if cleans else "")
        replaced = [one for one in self.instants if one.action.completed_as is Action.REPLACECOMMIT]
        for one in [one for one in replaced if one.time >= bound][:1]:
            yield Pin(at=one.time, reason=f"no clean has removed yet what {one.action} {one.time} replaced")

    def _read(self, one: InstantFiles, what: Callable[[Mapping[str, Any]], Any]) -> Any:
        """Return what `what` finds in the payload of a completed instant; None for an empty one."""
        if one.completed is None:
            raise TemporaryError(f"{one.action} {one.time} went away while it was read")
        path = f"{self.properties.timeline_folder}/{one.completed.name}"
        try:
            record = decode(self.storage.read(path, limit=_LARGEST_COMMIT))
            return None if record is None else what(record)
        except (FileNotFoundError, UnreadableError, *MALFORMED) as error:
            raise TemporaryError(f"{one.completed.name} cannot be read: {error}") from error
