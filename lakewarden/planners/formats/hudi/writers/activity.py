"""What a table's writers are doing."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from statistics import median_low

from lakewarden.planners.model.instant import InstantKind
from lakewarden.planners.model.timeline import Timeline
from lakewarden.planners.model.view import Touch, WriteFailure, WriterActivity

_WRITES_TO_TELL_A_CADENCE = 20


def writer_activity(
    timeline: Timeline,
    *,
    failures: tuple[WriteFailure, ...],
    touches: Mapping[str, Touch] | None,
    touching: Mapping[str, frozenset[str]],
) -> WriterActivity:
    """Return the writes in flight, the newest completed write and the usual time between two writes, with what was
    read of the commits.
    """
    done = [i for i in timeline.instants if not i.pending and i.stands_for is InstantKind.WRITE]
    begun = [i.requested_at for i in done[-_WRITES_TO_TELL_A_CADENCE:]]
    gaps = [later - earlier for earlier, later in pairwise(begun)]
    return WriterActivity(
        in_flight=timeline.writes_in_flight(),
        last_commit_at=max((i.completed_at or i.requested_at for i in done), default=None),
        usual_interval=median_low(gaps) if gaps else None,
        touches=touches,
        touching=touching,
        failures=failures,
    )
