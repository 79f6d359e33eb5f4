"""What a table's writers are doing, as far as commits tell: a Paimon write is not visible before it is committed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from statistics import median_low

from lakewarden.planners.formats.paimon.metadata.snapshots import Snapshot
from lakewarden.planners.model.view import WriterActivity

_COMMITS_TO_TELL_A_CADENCE = 20


def writer_activity(snapshots: Sequence[Snapshot]) -> WriterActivity:
    """Return the newest write of snapshots, which come the oldest first, and the usual time between two. Pure."""
    times = [one.at for one in snapshots if one.is_write][-_COMMITS_TO_TELL_A_CADENCE:]
    return WriterActivity(last_commit_at=max(times, default=None), usual_interval=_usual(times))


def _usual(times: Sequence[datetime]) -> timedelta | None:
    gaps = [max(later - earlier, timedelta(0)) for earlier, later in pairwise(times)]
    return median_low(gaps) if gaps else None
