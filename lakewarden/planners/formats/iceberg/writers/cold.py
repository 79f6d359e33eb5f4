"""Which partitions are left alone because a writer changes their rows (docs/iceberg.md, the second invariant). Pure.

A MERGE, UPDATE or DELETE fails if a rewrite replaces a file between its scan and its commit. Nobody sees it before it
commits, so it is told from what it did before: a partition is left alone for a while after such a commit, and around
the moment at which the next one is due, where they come regularly. A new partition has no such past: on the table of
such a writer it is left alone until that has had its next turn, for many a writer changes the rows that it has just
appended.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from heapq import nlargest

from lakewarden.planners.formats.iceberg.metadata.digests import Written
from lakewarden.planners.formats.iceberg.metadata.metadata import Snapshot
from lakewarden.planners.formats.iceberg.metadata.timeline import time_of
from lakewarden.planners.formats.iceberg.options.table_options import IcebergTableOptions
from lakewarden.planners.model.view import Touch, WriterActivity


def left_alone(activity: WriterActivity, options: IcebergTableOptions, now: datetime) -> Mapping[str, datetime]:
    """Return the partitions that no rewrite may take now, each with the moment from which it may, if nothing is
    written to it until then.

    It goes by `activity.updated`; where nothing is known of updates, nothing is left alone.
    """
    touches = (activity.updated or {}).items()
    spans = ((partition, _span(touch, _quiet(touch, activity, options), now)) for partition, touch in touches)
    return {partition: end for partition, (start, end) in spans if start <= now < end}


def next_turn(activity: WriterActivity, options: IcebergTableOptions, now: datetime) -> datetime | None:
    """Return when time alone next adds a partition to those that are left alone, or takes one away; None if never."""
    spans = (_span(touch, _quiet(touch, activity, options), now) for touch in (activity.updated or {}).values())
    return min((moment for span in spans for moment in span if moment > now), default=None)


def quiet_time(activity: WriterActivity, options: IcebergTableOptions) -> timedelta:
    """Return for how long a partition is left alone after a commit that changed its rows."""
    return max(options.quiet_for, options.quiet_intervals * (activity.update_interval or timedelta()))


def _quiet(touch: Touch, activity: WriterActivity, options: IcebergTableOptions) -> timedelta:
    """Return for how long a partition is left alone after a touch; after its first append, for one turn."""
    if touch.updates:
        return quiet_time(activity, options)
    return max(options.quiet_for, activity.update_interval or timedelta())


def never_quiet(activity: WriterActivity, options: IcebergTableOptions) -> bool:
    """Whether a partition is touched so regularly that it is left alone all the time."""
    quiet = quiet_time(activity, options)
    touches = (activity.updated or {}).values()
    return any(touch.before is not None and touch.at - touch.before <= 2 * quiet for touch in touches)


def _span(touch: Touch, quiet: timedelta, now: datetime) -> tuple[datetime, datetime]:
    """Return from when until when a partition is left alone: the span that holds `now`, or else the next (a past one
    if there is none).

    There are two, which may be one: after the newest touch, and around the next if that is due after the same time as
    the last one was.
    """
    after = touch.at + quiet
    since = min(touch.at, now)  # a writer's clock may be ahead of ours
    if touch.before is None:
        return since, after
    due = touch.at + (touch.at - touch.before)
    if due - quiet <= after:
        return since, due + quiet
    return (since, after) if now < after else (due - quiet, due + quiet)


def with_rhythm(
    updated: Mapping[str, Touch], files: Iterable[Written], updates: Sequence[Snapshot]
) -> Mapping[str, Touch]:
    """Return `updated` with the touch before the newest of each partition, and with the partitions that were touched
    earlier, as far as the live `files` show it.

    A commit that changes rows leaves new files behind where it did, which stay until they are rewritten; a partition
    without any is none that a rewrite would take. `updates` are main's commits of that kind.
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
    updated: Mapping[str, Touch], files: Iterable[Written], writes: Sequence[Snapshot]
) -> Mapping[str, Touch]:
    """Return `updated` with the first append to each partition that none of the known commits has changed rows in, as
    far as it is new.

    It is where all its live `files` are of retained `writes`: one that is older, or that a rewrite has made, tells of
    a partition that was there before. Without commits that change rows there is nobody to spare.
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
    """Return a moment for people, in UTC: with its day where that is not today's. A view may be kept for a while, so
    what it says must not grow old.
    """
    return f"{moment:%H:%M:%S} UTC" if moment.date() == now.date() else f"{moment:%Y-%m-%d %H:%M:%S} UTC"
