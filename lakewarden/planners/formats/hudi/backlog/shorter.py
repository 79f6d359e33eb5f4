"""Whether the policy of clean keeps fewer commits than the newest clean did. Readers may count on those. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from lakewarden.planners.formats.hudi.backlog.neglected import HOURS_BY_HUDI, RETAINED_BY_HUDI
from lakewarden.planners.formats.hudi.metadata.names import COMMITS, Action
from lakewarden.planners.formats.hudi.metadata.timeline import LastClean
from lakewarden.planners.formats.hudi.options.service_options import CleanOptions, CleanPolicy
from lakewarden.planners.model.instant import Instant, Service
from lakewarden.planners.model.table import Table
from lakewarden.planners.model.timeline import Timeline
from lakewarden.planners.model.view import KeptMore


def kept_more(table: Table, timeline: Timeline, cleaned: LastClean | None) -> Mapping[Service, KeptMore]:
    """Return what the newest clean kept and the policy would not have kept at that time. Nothing if there was no clean,
    or if one of the two counts versions of files.

    Commits that have left the active timeline are not counted. So the clean may have kept more than is said. A write
    that was in flight when the clean was planned is not counted either, because Hudi did not count it.
    """
    policy = table.policies.get(Service.CLEAN)
    if policy is None or cleaned is None or cleaned.retained is None or cleaned.seen is None:
        return {}
    options = policy.options if isinstance(policy.options, CleanOptions) else CleanOptions()
    done = [i for i in timeline.instants if not i.pending and Action(i.action).completed_as in COMMITS]
    planned_at = next((i.requested_at for i in timeline.instants if i.time == cleaned.instant), None)
    between = [i for i in done if cleaned.retained <= i.time <= cleaned.seen]
    kept = [i for i in between if planned_at is None or not _completed_after(i, planned_at)]
    if not kept:
        return {}
    match CleanPolicy(options.policy):
        case CleanPolicy.KEEP_LATEST_COMMITS:
            keeps = options.commits_retained or RETAINED_BY_HUDI
        case CleanPolicy.KEEP_LATEST_BY_HOURS:
            since = kept[-1].requested_at - timedelta(hours=options.hours_retained or HOURS_BY_HUDI)
            keeps = sum(i.requested_at >= since for i in kept)
        case _:
            return {}
    if len(kept) <= keeps:
        return {}
    commits = "1 commit" if keeps == 1 else f"{keeps:,} commits"
    says = f"the policy keeps {commits}, where the newest clean {cleaned.instant} kept {len(kept):,}"
    return {Service.CLEAN: KeptMore(says=says, instant=cleaned.instant, commits=len(kept))}


def _completed_after(instant: Instant, moment: datetime) -> bool:
    """Whether the timeline says that an instant was completed later. Below table version 8 it says nothing of that."""
    return instant.completed_time is not None and instant.completed_at is not None and instant.completed_at > moment
