"""Which commits may leave the active timeline, and why the others stay.

Hudi's own archiver (`TimelineArchiverV1`, `TimelineArchiverV2`) keeps what follows a pending write, a savepoint, the
last compaction of the metadata table, and files that were replaced and not yet cleaned. It goes past every other
instant that it leaves on the timeline, and then plans leave out log files (`history/completed.py`). It does not keep
the checkpoints of writers. Structured Streaming looks for its last batch, and Hudi Streamer for its checkpoint, in
active commits only. If the last commit of a query is archived, the query writes its last batch twice (docs/hudi.md).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from lakewarden.planners.decoding.damage import DamagedError
from lakewarden.planners.decoding.json_text import from_json
from lakewarden.planners.formats.hudi.metadata.names import Action, InstantFiles
from lakewarden.planners.formats.hudi.metadata.payloads import MALFORMED
from lakewarden.planners.formats.hudi.options.service_options import CleanPolicy
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Table

BATCH = 1000
"""The most commits that are archived at a time. The run holds the table's lock meanwhile."""

MOVED_WITH_COMMITS = frozenset({Action.CLEAN, Action.ROLLBACK})
"""What Hudi's archive moves besides commits, once it is completed."""

_RETAINED_BY_HUDI = 10
"""`hoodie.clean.commits.retained` as Hudi sets it."""

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
    retained = clean.options.commits_retained or _RETAINED_BY_HUDI
    if archive.options.keep_min_commits > retained:
        return None
    return f"{archive.options.keep_min_commits} must be above the {retained} commits that the clean retains"


def checkpoints(extra_metadata: Mapping[str, str]) -> frozenset[str]:
    """Return the identifiers of the writers with a checkpoint in a commit's `extraMetadata`."""
    found = {key for key in (*_STREAMER, KAFKA_OFFSETS) if extra_metadata.get(key)}
    streaming = extra_metadata.get(_STREAMING)
    if streaming:
        try:
            found |= {f"query {identifier}" for identifier in from_json(streaming.encode())}
        except (DamagedError, *MALFORMED):
            found.add(_STREAMING)  # Hudi does not write this: it is kept
    return frozenset(found)


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
    strays = {time for one in commits for time in one.logged if time != one.time and time not in completed}
    before = [(one.time, stray) for stray in sorted(strays) for one in commits if one.time < stray]
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
