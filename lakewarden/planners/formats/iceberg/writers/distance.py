"""How Lakewarden's commits keep a distance from writers that change rows (docs/iceberg.md, the third invariant). Pure.

A rewrite may make such a writer fail. Every commit that moves the table's pointer or replaces its manifests makes the
writer try its commit again. So compaction, clustering and the rewrite of manifests keep a distance from each other on
its table. If the writer stops committing after a rewrite of Lakewarden, that rewrite may be the cause. Then rewrites of
data files rest. The archive continues, because no validation of a writer can fail because of it. Clean and orphans
change no file that a writer reads, so neither rule applies to them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from lakewarden.planners.formats.iceberg.catalogs.hive_locks import COMMITTING
from lakewarden.planners.formats.iceberg.metadata.metadata import TableMetadata
from lakewarden.planners.formats.iceberg.options.table_options import IcebergTableOptions
from lakewarden.planners.formats.iceberg.writers.cold import on_the_clock
from lakewarden.planners.model.decision import NotDue
from lakewarden.planners.model.instant import Instant, Service
from lakewarden.planners.model.step import Step
from lakewarden.planners.model.timeline import Timeline
from lakewarden.planners.model.view import TableView, WriterActivity
from lakewarden.planners.settings import format_duration

REWRITES = frozenset({Service.COMPACTION, Service.CLUSTERING})
"""The services that replace data files."""

_SPACED = REWRITES | {Service.ARCHIVE, Service.TABLE_STATS}
_FUTURE = timedelta(seconds=30)
"""A newest commit that is dated so far ahead of our clock holds back our commits. Iceberg takes it for granted that
times rise, and refuses a commit that is a minute older than the last one (`TableMetadata` of 1.11.0).
"""

_GONE_AFTER, _GONE_AT_LEAST = 10, timedelta(minutes=1)
_SILENT_AFTER = 5
_TIMES_AS_LONG = 10


@dataclass(frozen=True, kw_only=True, slots=True)
class Silence:
    """A writer that changed rows has not committed since Lakewarden's `commit`. Rewrites wait for it from `begins`
    until `ends`.
    """

    commit: Instant
    begins: datetime
    ends: datetime


def kept_off(
    timeline: Timeline, activity: WriterActivity, options: IcebergTableOptions, now: datetime
) -> Mapping[Service, NotDue]:
    """Return which services must not commit now, why, and until when. The reason is the distance between commits, or
    the silence of a writer.
    """
    found: dict[Service, NotDue] = {}
    last, silence = _last_of_ours(timeline), silenced(timeline, activity)
    if last is not None and _is_updated(activity, now) and now < last.requested_at + options.distance:
        reason = (
            f"Lakewarden committed last at {on_the_clock(last.requested_at, now)}: beside writers that MERGE, UPDATE "
            f"or DELETE its commits keep a distance of {format_duration(options.distance)}"
        )
        wait = NotDue(code="writers_first", reason=reason, again_at=last.requested_at + options.distance)
        found |= dict.fromkeys(_SPACED, wait)
    if silence is not None and silence.begins <= now < silence.ends:
        rest = NotDue(
            code="writers_first", reason=_fell_silent(silence, activity.update_interval, now), again_at=silence.ends
        )
        found |= dict.fromkeys(REWRITES, rest)
    return found


def kept_off_by_time(metadata: TableMetadata, now: datetime) -> Mapping[Service, NotDue]:
    """Return the services that must not commit because the newest commit is dated in the future, and until when."""
    current = metadata.current_snapshot
    newest = metadata.updated_at if current is None else max(metadata.updated_at, current.at)
    if newest - now <= _FUTURE:
        return {}
    reason = (
        f"the newest commit is dated {newest:%Y-%m-%d %H:%M:%S} UTC, {_rounded(newest - now)} ahead of this daemon's "
        "clock: Iceberg refuses a commit with an earlier time, so compare the clocks of the writer and the daemon"
    )
    return dict.fromkeys(COMMITTING, NotDue(code="commit_in_the_future", reason=reason, again_at=newest))


def awaited(view: TableView, service: Service, *, step: Step) -> str | None:
    """Return what a commit of Lakewarden should wait for.

    Clustering is left out. It was checked when it was planned, and its plan is refused if it would have to wait.
    """
    wait = view.waits.get(service)
    if step is not Step.COMMIT or service is Service.CLUSTERING or wait is None:
        return None
    return wait.reason if wait.again_at is None or view.observed_at < wait.again_at else None


def silenced(timeline: Timeline, activity: WriterActivity) -> Silence | None:
    """Return the silence of a writer that changed rows and has not committed since a rewrite of Lakewarden. None if it
    has committed, if it was silent before, or if its usual interval is not known.

    Only the first rewrite since the writer's last commit counts. A later one came during the silence and did not cause
    it.
    """
    usual, last_at = activity.update_interval, _last_update(activity)
    if usual is None or last_at is None:
        return None
    since = (i for i in timeline.instants if _is_rewrite_of_ours(i) and i.requested_at > last_at)
    commit = min(since, key=lambda instant: instant.requested_at, default=None)
    if commit is None or commit.requested_at - last_at > _SILENT_AFTER * usual:
        return None
    silent = _SILENT_AFTER * usual
    return Silence(
        commit=commit,
        begins=commit.requested_at + silent,
        ends=commit.requested_at + _TIMES_AS_LONG * silent,
    )


def next_silence(timeline: Timeline, activity: WriterActivity, now: datetime) -> datetime | None:
    """Return when a writer will have been silent for too long, if it does not commit. None if no commit is expected."""
    silence = silenced(timeline, activity)
    return None if silence is None or silence.begins <= now else silence.begins


def _last_of_ours(timeline: Timeline) -> Instant | None:
    ours = [i for i in timeline.instants if i.author is not None and not i.pending and i.stands_for in _SPACED]
    return max(ours, key=lambda instant: instant.requested_at, default=None)


def _is_rewrite_of_ours(instant: Instant) -> bool:
    return instant.author is not None and not instant.pending and instant.stands_for in REWRITES


def _last_update(activity: WriterActivity) -> datetime | None:
    return max((touch.at for touch in (activity.updated or {}).values() if touch.updates), default=None)


def _is_updated(activity: WriterActivity, now: datetime) -> bool:
    """Whether a further commit that changes rows is to be expected."""
    last_at = _last_update(activity)
    usual = activity.update_interval or timedelta()
    return last_at is not None and now - last_at < max(_GONE_AFTER * usual, _GONE_AT_LEAST)


def _fell_silent(silence: Silence, usual: timedelta | None, now: datetime) -> str:
    return (
        f"a writer that changed rows every {_rounded(usual or timedelta())} has not committed since "
        f"Lakewarden's {silence.commit.stands_for} at {on_the_clock(silence.commit.requested_at, now)}: rewrites rest "
        f"until it has, or until {on_the_clock(silence.ends, now)}"
    )


def _rounded(span: timedelta) -> str:
    return format_duration(timedelta(seconds=max(1, round(span.total_seconds()))))
