"""Which partitions are left alone because a writer changes their rows (docs/iceberg.md, the second invariant). Pure.

A MERGE, UPDATE or DELETE fails if a rewrite replaces a file between its scan and its commit. It is not visible before
its commit, so it is predicted from earlier commits. A partition is left alone for a while after such a commit. If the
commits are regular, it is also left alone around the moment at which the next one is due. A new partition has no
earlier commits. On a table with such a writer it is left alone until the writer's next commit is over, because many
writers change the rows that they have just appended.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from heapq import nlargest

from lakewarden.planners.formats.iceberg.catalogs.settings import COMMITTING
from lakewarden.planners.formats.iceberg.metadata.digests import WriteMark
from lakewarden.planners.formats.iceberg.metadata.metadata import Snapshot, TableMetadata
from lakewarden.planners.formats.iceberg.metadata.timeline import time_of
from lakewarden.planners.formats.iceberg.options.table_options import IcebergTableOptions
from lakewarden.planners.model.decision import NotDue
from lakewarden.planners.model.instant import Instant, Service, Step, Timeline
from lakewarden.planners.model.view import TableView, Touch, WriterActivity
from lakewarden.planners.settings import format_duration


def left_alone(activity: WriterActivity, options: IcebergTableOptions, now: datetime) -> Mapping[str, datetime]:
    """Return the partitions that no rewrite may take now, each with the moment from which it may, if no write comes
    before.

    It uses `activity.updated`. If updates are not known, no partition is left alone.
    """
    touches = (activity.updated or {}).items()
    spans = ((partition, _span(touch, _quiet(touch, activity, options), now)) for partition, touch in touches)
    return {partition: end for partition, (start, end) in spans if start <= now < end}


def next_turn(activity: WriterActivity, options: IcebergTableOptions, now: datetime) -> datetime | None:
    """Return when time alone next adds a partition to those that are left alone, or removes one. None if never."""
    spans = (_span(touch, _quiet(touch, activity, options), now) for touch in (activity.updated or {}).values())
    return min((moment for span in spans for moment in span if moment > now), default=None)


def quiet_time(activity: WriterActivity, options: IcebergTableOptions) -> timedelta:
    """Return for how long a partition is left alone after a commit that changed its rows."""
    return max(options.quiet_for, options.quiet_intervals * (activity.update_interval or timedelta()))


def _quiet(touch: Touch, activity: WriterActivity, options: IcebergTableOptions) -> timedelta:
    """Return for how long a partition is left alone after a touch. After its first append that is one usual
    interval, but at least `quiet_for`.
    """
    if touch.updates:
        return quiet_time(activity, options)
    return max(options.quiet_for, activity.update_interval or timedelta())


def never_quiet(activity: WriterActivity, options: IcebergTableOptions) -> bool:
    """Whether a partition is touched so regularly that it is always left alone."""
    quiet = quiet_time(activity, options)
    touches = (activity.updated or {}).values()
    return any(touch.before is not None and touch.at - touch.before <= 2 * quiet for touch in touches)


def _span(touch: Touch, quiet: timedelta, now: datetime) -> tuple[datetime, datetime]:
    """Return from when until when a partition is left alone: the span that contains `now`, or else the next one. If
    there is no next one, return the last.

    There are two spans, and they may overlap. One begins with the newest touch. The other is around the next touch, if
    that is due after the same time as the last one was.
    """
    after = touch.at + quiet
    since = min(touch.at, now)  # a writer's clock may be ahead of the daemon's
    if touch.before is None:
        return since, after
    due = touch.at + (touch.at - touch.before)
    if due - quiet <= after:
        return since, due + quiet
    return (since, after) if now < after else (due - quiet, due + quiet)


def with_rhythm(
    updated: Mapping[str, Touch], files: Iterable[WriteMark], updates: Sequence[Snapshot]
) -> Mapping[str, Touch]:
    """Return `updated` with the touch before the newest of each partition. Add the partitions that were touched
    earlier, as far as the live `files` show it.

    A commit that changes rows adds new files in the partitions that it touches. They stay until they are rewritten. A
    partition without such files is none that a rewrite would take. `updates` are main's commits of that kind.
    """
    by_id = {update.id: update for update in updates}
    seen: dict[str, set[int]] = {}
    for file in files:
        if file.snapshot in by_id:
            seen.setdefault(file.partition, set()).add(file.snapshot)
    return {
        partition: _newest(updated.get(partition), [by_id[snapshot] for snapshot in seen.get(partition, ())])
        for partition in updated.keys() | seen.keys()
    }


def with_new_ones(
    updated: Mapping[str, Touch], files: Iterable[WriteMark], writes: Sequence[Snapshot]
) -> Mapping[str, Touch]:
    """Return `updated` with the first append to each new partition in which no known commit has changed rows.

    A partition is new if retained `writes` have added all its live `files`. An older file, or a file of a rewrite,
    shows that the partition was there before. If there are no commits that change rows, no partition needs to be left
    alone.
    """
    if not updated:
        return updated
    by_id = {write.id: write for write in writes}
    made_by: dict[str, set[int]] = {}
    for file in files:
        if file.partition not in updated:
            made_by.setdefault(file.partition, set()).add(file.snapshot)
    new = {
        partition: min((by_id[snapshot] for snapshot in snapshots), key=lambda snapshot: snapshot.at)
        for partition, snapshots in made_by.items()
        if snapshots <= by_id.keys()
    }
    return {**updated, **{partition: touch_of(snapshot, updates=False) for partition, snapshot in new.items()}}


def _newest(last_touch: Touch | None, seen: Sequence[Snapshot]) -> Touch:
    touches = [touch_of(update, updates=True) for update in seen]
    every = {touch.instant: touch for touch in ([last_touch] if last_touch is not None else []) + touches}
    newest, *earlier = nlargest(2, every.values(), key=lambda touch: touch.at)
    return replace(newest, before=earlier[0].at) if earlier else newest


def touch_of(snapshot: Snapshot, *, updates: bool) -> Touch:
    """Return the touch of a commit. `updates`: it changed rows that were there."""
    return Touch(at=snapshot.at, instant=time_of(snapshot.at, snapshot.id), updates=updates)


def on_the_clock(moment: datetime, now: datetime) -> str:
    """Return a moment for people, in UTC. It has its date if that is not today. A view may be kept for a while, so the
    text must not depend on the current time.
    """
    return f"{moment:%H:%M:%S} UTC" if moment.date() == now.date() else f"{moment:%Y-%m-%d %H:%M:%S} UTC"


# How Lakewarden's commits keep a distance from writers that change rows (docs/iceberg.md, the third invariant). Pure.
#
# A rewrite may make such a writer fail. Every commit that moves the table's pointer or replaces its manifests makes the
# writer try its commit again. So compaction, clustering and the rewrite of manifests keep a distance from each other on
# its table. If the writer stops committing after a rewrite of Lakewarden, that rewrite may be the cause. Then rewrites
# of data files rest. The archive continues, because no validation of a writer can fail because of it. Clean and orphans
# change no file that a writer reads, so neither rule applies to them.

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
    by_service: dict[Service, NotDue] = {}
    last, silence = _last_of_ours(timeline), silenced(timeline, activity)
    if last is not None and _is_updated(activity, now) and now < last.requested_at + options.distance:
        reason = (
            f"Lakewarden committed last at {on_the_clock(last.requested_at, now)}: beside writers that MERGE, UPDATE "
            f"or DELETE its commits keep a distance of {format_duration(options.distance)}"
        )
        wait = NotDue(code="writers_first", reason=reason, again_at=last.requested_at + options.distance)
        by_service |= dict.fromkeys(_SPACED, wait)
    if silence is not None and silence.begins <= now < silence.ends:
        rest = NotDue(
            code="writers_first", reason=_fell_silent(silence, activity.update_interval, now), again_at=silence.ends
        )
        by_service |= dict.fromkeys(REWRITES, rest)
    return by_service


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
