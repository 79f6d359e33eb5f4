"""Which partitions writers touch. A clustering has to avoid them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lakewarden.planners.formats.hudi.metadata.commits import partitions_to_come
from lakewarden.planners.formats.hudi.metadata.memo import Reading
from lakewarden.planners.formats.hudi.metadata.timeline import Known
from lakewarden.planners.model.instant import Instant, InstantKind
from lakewarden.planners.model.view import Touch


def touches(known: Sequence[Known], instants: Sequence[Instant]) -> Mapping[str, Touch] | None:
    """Return the newest completed write into each partition; None if what one of them wrote is not known.

    Services only rewrite rows, so they touch nothing. `instants` are those of `known`, one by one.
    """
    newest: dict[str, Touch] = {}
    for one, instant in zip(known, instants, strict=True):
        if instant.pending or instant.stands_for is not InstantKind.WRITE:
            continue
        if one.written is None:
            return None
        touch = {updates: _touch(one, instant, updates=updates) for updates in (False, True)}
        for partition, updates in one.written.partitions.items():
            if partition not in newest or newest[partition].at <= touch[updates].at:
                newest[partition] = touch[updates]
    return newest


def _touch(one: Known, instant: Instant, *, updates: bool) -> Touch:
    """Return a write's touch. Layout 1 has no completion time, so there it is the time of the completed file. In a
    copied table that time says nothing, and is rather too late than too early.
    """
    at = instant.completed_at
    if at is None:
        at = instant.requested_at if one.files.completed is None else one.files.completed.modified
    return Touch(at=max(at, instant.requested_at), instant=instant.time, updates=updates)


def touching(known: Sequence[Known], instants: Sequence[Instant], reading: Reading) -> Mapping[str, frozenset[str]]:
    """Return the partitions that the writes in flight say they will write to, by the time of the write. Writes that do
    not say it are left out.
    """
    found = {}
    for one, instant in zip(known, instants, strict=True):
        entry = one.files.inflight
        if entry is None or not instant.pending or instant.stands_for is not InstantKind.WRITE:
            continue
        partitions = reading.fact_if_whole(entry, partitions_to_come)
        if partitions is not None:
            found[instant.time] = partitions
    return found
