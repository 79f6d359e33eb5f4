"""The services that a failed write met: they were pending, or completed, during the write, and may have failed it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from lakewarden.planners.formats.hudi.metadata.commits import partitions_to_come
from lakewarden.planners.formats.hudi.metadata.memo import Reading
from lakewarden.planners.formats.hudi.metadata.names import Layout
from lakewarden.planners.formats.hudi.metadata.plans import clustering_plan
from lakewarden.planners.formats.hudi.metadata.timeline import Known
from lakewarden.planners.model.instant import Instant, Service
from lakewarden.planners.model.timeline import Timeline
from lakewarden.planners.model.view import WriteFailure


def services_met(
    failure: WriteFailure, known: Sequence[Known], timeline: Timeline, reading: Reading, *, layout: Layout
) -> frozenset[str]:
    """Return the instants of services that a write can have failed by.

    A pending clustering rejects the write. The write loses to a clustering, a deletion of partitions or a log
    compaction that is completed during the write. It loses to a compaction that was requested after it and completed
    before it, or, in layout 1, is merely pending (docs/hudi.md). Services that are known to be in other partitions than
    the write do it no harm.
    """
    files = {one.files.time: one for one in known}
    written_to = _partitions_of_write(files.get(failure.instant), reading)
    return frozenset(
        instant.time
        for one, instant in zip(known, timeline.instants, strict=True)
        if _in_its_way(instant, _ended(one, instant), failure, layout) and _share(written_to, one, reading)
    )


def _in_its_way(service: Instant, ended: datetime | None, failure: WriteFailure, layout: Layout) -> bool:
    begun = failure.at if failure.begun_at is None else failure.begun_at
    completed = ended is not None and begun <= ended <= failure.at
    there = service.requested_at <= failure.at and (ended is None or begun <= ended)
    match service.stands_for:
        case Service.CLUSTERING | Service.TTL:
            return there
        case Service.LOG_COMPACTION:
            return completed
        case Service.COMPACTION:
            return service.time > failure.instant and (there if layout is Layout.V1 else completed)
        case _:
            return False


def _ended(one: Known, instant: Instant) -> datetime | None:
    """Return when an instant was completed. Layout 1 does not say it; there it is when its last file was written."""
    if instant.pending:
        return None
    return instant.completed_at or (None if one.files.completed is None else one.files.completed.modified)


def _share(written_to: frozenset[str] | None, one: Known, reading: Reading) -> bool:
    """Whether a write and a service may have met in a partition. They may if one of them names no partitions."""
    if written_to is None:
        return True
    theirs = frozenset(one.written.partitions) if one.written is not None else _planned(one, reading)
    return theirs is None or not written_to.isdisjoint(theirs)


def _partitions_of_write(one: Known | None, reading: Reading) -> frozenset[str] | None:
    if one is None or one.files.inflight is None:
        return None
    return reading.fact_if_whole(one.files.inflight, partitions_to_come)


def _planned(one: Known, reading: Reading) -> frozenset[str] | None:
    if one.stands_for is not Service.CLUSTERING or one.files.requested is None:
        return None
    return reading.fact_if_whole(one.files.requested, _clustered)


def _clustered(record: Mapping[str, Any] | None) -> frozenset[str] | None:
    plan = None if record is None else clustering_plan(record)
    return None if plan is None else frozenset(file.partition for file in plan.files)
