"""What a table's writers are doing, as far as commits show it. An Iceberg write is not visible before its commit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from itertools import islice, pairwise
from statistics import median_low

from lakewarden.planners.formats.iceberg.metadata.metadata import Snapshot
from lakewarden.planners.model.view import Touch, WriterActivity

_COMMITS_TO_TELL_A_CADENCE = 20


def writer_activity(
    writes: Iterable[Snapshot],
    *,
    touches: Mapping[str, Touch] | None,
    updated: Mapping[str, Touch] | None,
    update_interval: timedelta | None,
) -> WriterActivity:
    """Return the time of the newest write, the usual time between two writes, and the touches. `writes` are those of
    main, the newest first.
    """
    times = [one.at for one in islice(writes, _COMMITS_TO_TELL_A_CADENCE)]
    return WriterActivity(
        last_commit_at=max(times, default=None),
        usual_interval=usual_interval(times),
        touches=touches,
        updated=updated,
        update_interval=update_interval,
    )


def usual_interval(times: Iterable[datetime]) -> timedelta | None:
    """Return the usual time between two of the newest commits. `times` come the newest first. None if there are fewer
    than two.
    """
    gaps = [later - earlier for later, earlier in pairwise(islice(times, _COMMITS_TO_TELL_A_CADENCE))]
    return median_low(gaps) if gaps else None
