"""Which partitions are left alone because a writer changes their rows (docs/iceberg.md, the second invariant). Pure.

A MERGE, UPDATE or DELETE fails if a rewrite replaces a file between its scan and its commit. It is not visible before
its commit, so it is predicted from earlier commits. A partition is left alone for a while after such a commit. If the
commits are regular, it is also left alone around the moment at which the next one is due. A new partition has no
earlier commits. On a table with such a writer it is left alone until the writer's next commit is over, because many
writers change the rows that they have just appended.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from heapq import nlargest

from lakewarden.planners.formats.iceberg.metadata.digests import WriteMark
from lakewarden.planners.formats.iceberg.metadata.metadata import Snapshot
from lakewarden.planners.formats.iceberg.metadata.timeline import time_of
from lakewarden.planners.formats.iceberg.options.table_options import IcebergTableOptions
from lakewarden.planners.model.view import Touch, WriterActivity


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
    by_id = {one.id: one for one in updates}
    seen: dict[str, set[int]] = {}
    for file in files:
        if file.snapshot in by_id:
            seen.setdefault(file.partition, set()).add(file.snapshot)
    return {
        partition: _newest(updated.get(partition), [by_id[one] for one in seen.get(partition, ())])
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
    by_id = {one.id: one for one in writes}
    made_by: dict[str, set[int]] = {}
    for file in files:
        if file.partition not in updated:
            made_by.setdefault(file.partition, set()).add(file.snapshot)
    new = {
        partition: min((by_id[one] for one in snapshots), key=lambda one: one.at)
        for partition, snapshots in made_by.items()
        if snapshots <= by_id.keys()
    }
    return {**updated, **{partition: _touch(one, updates=False) for partition, one in new.items()}}


def _newest(known: Touch | None, seen: Sequence[Snapshot]) -> Touch:
    touches = [_touch(one, updates=True) for one in seen]
    every = {touch.instant: touch for touch in ([known] if known is not None else []) + touches}
    newest, *earlier = nlargest(2, every.values(), key=lambda touch: touch.at)
    return replace(newest, before=earlier[0].at) if earlier else newest


def _touch(snapshot: Snapshot, *, updates: bool) -> Touch:
    return Touch(at=snapshot.at, instant=time_of(snapshot.at, snapshot.id), updates=updates)


def on_the_clock(moment: datetime, now: datetime) -> str:
    """Return a moment for people, in UTC. It has its date if that is not today. A view may be kept for a while, so the
    text must not depend on the current time.
    """
    return f"{moment:%H:%M:%S} UTC" if moment.date() == now.date() else f"{moment:%Y-%m-%d %H:%M:%S} UTC"
