"""The zone of a timeline, proved from the files.

Instants are wall-clock times without their zone, and Hudi orders everything by them. A service that stamps in
another zone than the writers makes rows vanish without an error (docs/hudi.md). Not every client obeys the table's own
`hoodie.table.timeline.timezone`. But a file is written when its instant says, so the two clocks together show the
zone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from lakewarden.planners.formats.hudi.metadata.names import InstantFiles, Layout
from lakewarden.planners.formats.hudi.metadata.timeline import to_utc, wall_time
from lakewarden.planners.model.view import Blocker

_NEAR = timedelta(minutes=5)
_ON_THE_DOT = timedelta(minutes=1)
_QUARTER = timedelta(minutes=15)
_WIDEST = timedelta(hours=14)
_WITNESSES = 3

_DECLARE = "set options.timeline_timezone of the table to the zone in which its writers stamp instants"


@dataclass(frozen=True, kw_only=True, slots=True)
class ZoneWitness:
    """An instant's wall-clock time, and when the file with that instant in its name was written."""

    time: str
    written: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class ZoneFinding:
    """The zone in which the timeline is to be read, and a blocker if it is not the zone of the workers."""

    zone: tzinfo
    blocker: Blocker | None = None


def witnesses(completed: Iterable[InstantFiles], layout: Layout) -> tuple[ZoneWitness, ...]:
    """Return the newest completed instants that can tell the zone, newest first.

    Layout 2 writes the completion time into the name of the completed file. Layout 1 has only the requested time,
    and a `.requested` file that is made at that time.
    """
    zone_witnesses = [seen for instant in completed if (seen := _witness(instant, layout)) is not None]
    return tuple(sorted(zone_witnesses, key=lambda w: w.time, reverse=True)[:_WITNESSES])


def _witness(instant: InstantFiles, layout: Layout) -> ZoneWitness | None:
    if layout is Layout.V2:
        if instant.completed is None or instant.completed_time is None:
            return None
        return ZoneWitness(time=instant.completed_time, written=instant.completed.modified)
    return None if instant.requested is None else ZoneWitness(time=instant.time, written=instant.requested.modified)


def find_zone(
    seen: Sequence[ZoneWitness], *, declared: str | None, stated: str | None, workers: ZoneInfo
) -> ZoneFinding:
    """Return the timeline's zone, with a blocker unless it is proved or declared to be that of the workers.

    `stated` is the table's `hoodie.table.timeline.timezone` (UTC or LOCAL). An unproved timeline is read in it.
    """
    if declared is not None:
        return _as_declared(declared, workers)
    offset = next((shift for witness in seen if (shift := _offset(witness, workers)) is not None), None)
    if offset is not None:
        return _not_proved(
            timezone(offset),
            f"its instants are stamped in {_offset_name(offset)}, its session workers run in {workers.key}",
            remedy="serve the table with a spark profile in the timezone of its writers; if the table was copied and "
            f"the times of its files mean nothing, {_DECLARE}",
        )
    if any(_agrees(witness, workers) for witness in seen):
        return ZoneFinding(zone=workers)
    why = "the times of its files do not fit its instants" if seen else "none of its instants can tell"
    zone = UTC if stated == "UTC" else workers
    return _not_proved(zone, f"the zone of its timeline is not proved: {why}", remedy=_DECLARE)


def _not_proved(zone: tzinfo, reason: str, *, remedy: str) -> ZoneFinding:
    return ZoneFinding(zone=zone, blocker=Blocker(code="zone_not_proved", reason=reason, remedy=remedy))


def _as_declared(declared: str, workers: ZoneInfo) -> ZoneFinding:
    try:
        zone = ZoneInfo(declared)
    except (ZoneInfoNotFoundError, ValueError):
        reason = f"options.timeline_timezone is {declared!r}, which is not an IANA time zone"
        return ZoneFinding(
            zone=workers,
            blocker=Blocker(code="settings_refused", reason=reason, remedy="name one, as in 'Europe/Paris'"),
        )
    if _same(zone, workers):
        return ZoneFinding(zone=zone)
    return _not_proved(
        zone,
        f"its timeline is in {declared}, but its session workers run in {workers.key}",
        remedy=f"serve the table with a spark profile with timezone: {declared}",
    )


def _same(zone: ZoneInfo, other: ZoneInfo) -> bool:
    """Whether two zones show the same time all the year round (`UTC` and `Etc/UTC` do)."""
    months = [datetime(2026, month, 1, tzinfo=UTC) for month in range(1, 13)]
    return all(month.astimezone(zone).utcoffset() == month.astimezone(other).utcoffset() for month in months)


def _agrees(witness: ZoneWitness, zone: tzinfo) -> bool:
    return abs(to_utc(witness.time, zone, near=witness.written) - witness.written) <= _NEAR


def _offset(witness: ZoneWitness, workers: ZoneInfo) -> timedelta | None:
    """Return the offset that a witness shows if it is not the workers': to the quarter hour."""
    if _agrees(witness, workers):
        return None
    ahead = wall_time(witness.time).replace(tzinfo=UTC) - witness.written
    offset = round(ahead / _QUARTER) * _QUARTER
    return offset if abs(offset) <= _WIDEST and abs(ahead - offset) <= _ON_THE_DOT else None


def _offset_name(offset: timedelta) -> str:
    return timezone(offset).tzname(None) or "UTC"
