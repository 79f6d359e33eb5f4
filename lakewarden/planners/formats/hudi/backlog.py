"""What has piled up for each service, counted as Hudi's own schedulers count (docs/hudi.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from lakewarden.planners.formats.hudi.names import Action, Layout
from lakewarden.planners.formats.hudi.table_properties import TableProperties
from lakewarden.planners.model.instant import Instant, Service
from lakewarden.planners.model.timeline import Timeline
from lakewarden.planners.model.view import Backlog

_COMMITS = frozenset({Action.COMMIT, Action.DELTACOMMIT, Action.REPLACECOMMIT})


def backlogs(
    timeline: Timeline, properties: TableProperties, *, cleaned_up_to: str | None
) -> Mapping[Service, Backlog]:
    """Return the backlog of every service that has a meaning for the table.

    `cleaned_up_to` is the `lastCompletedCommitTimestamp` of the last completed clean.
    """
    done = [i for i in timeline.instants if not i.pending]
    commits = [i for i in done if Action(i.action).completed_as in _COMMITS]
    found = {
        Service.CLUSTERING: _since(timeline, (Service.CLUSTERING,), commits, _requested),
        Service.CLEAN: _since(timeline, (Service.CLEAN,), commits, _requested, up_to=cleaned_up_to),
        Service.ARCHIVE: Backlog(commits=len(commits), commits_since_request=len(commits)),
    }
    if properties.merge_on_read:
        deltas = [i for i in commits if Action(i.action).completed_as is Action.DELTACOMMIT]
        ended = _completed if properties.layout is Layout.V2 else _requested
        both = (Service.COMPACTION, Service.LOG_COMPACTION)  # a compaction leaves nothing to log-compact
        found[Service.COMPACTION] = _since(timeline, (Service.COMPACTION,), deltas, ended)
        found[Service.LOG_COMPACTION] = _since(timeline, both, deltas, ended)
    return found


def _requested(instant: Instant) -> str:
    return instant.time


def _completed(instant: Instant) -> str:
    return instant.completed_time or instant.time


def _since(
    timeline: Timeline,
    services: Sequence[Service],
    commits: Sequence[Instant],
    order: Callable[[Instant], str],
    *,
    up_to: str | None = None,
) -> Backlog:
    """Count the commits that `order` puts after the services were last completed, and after they were last asked
    for. `up_to` is what the last completed one has seen, where it says so.
    """
    plans = [i for i in timeline.instants if i.stands_for in services]
    done = [i for i in plans if not i.pending]
    serviced = (up_to or done[-1].time) if done else ""
    asked = max(serviced, plans[-1].time) if plans and plans[-1].pending else serviced
    first = _ended(commits[0]) if commits else None
    return Backlog(
        commits=sum(order(i) > serviced for i in commits),
        commits_since_request=sum(order(i) > asked for i in commits),
        since=_ended(done[-1]) if done else first,
        since_request=plans[-1].requested_at if plans else first,
    )


def _ended(instant: Instant) -> datetime:
    """Return when an instant was completed; layout 1 does not say, so there it is when it was requested."""
    return instant.completed_at or instant.requested_at
