"""What the runs of orphans remember beside a table, in its folder `_lakewarden`, which no client of Paimon reads."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime

from lakewarden.planners.decoding.damage import DamagedError
from lakewarden.planners.decoding.json_stream import count, from_json, moment
from lakewarden.planners.ports import Storage

OURS = "_lakewarden"
_VERSION = 1
_LARGEST = 65_536


@dataclass(frozen=True, kw_only=True, slots=True)
class LastRun:
    """The last run that came to its end: when, how many unknown files it has left, and when the first of them may go.

    `created` tells the table from one that was made again in the same folder.
    """

    created: str
    at: datetime
    waiting: int = 0
    waits_until: datetime | None = None


def file_of(location: str) -> str:
    """Return the path of the file that tells of the last run."""
    return f"{location}/{OURS}/orphans.json"


def seen_file_of(location: str) -> str:
    """Return the path of the list that says since when files are unknown (`first_seen`)."""
    return f"{location}/{OURS}/orphans.seen"


def stamp_of(location: str, storage: Storage) -> str:
    """Return a text that changes with each run that came to its end."""
    try:
        return storage.version(file_of(location))
    except FileNotFoundError:
        return ""


def last_run(location: str, storage: Storage, *, created: str) -> LastRun | None:
    """Return what the last run has left. None if there was none, or if its file is damaged or of another table: then
    the service is due as if it never ran. Raises TemporaryError.
    """
    try:
        raw = from_json(storage.read(file_of(location), limit=_LARGEST))
        if raw["version"] != _VERSION or raw["created"] != created:
            return None
        waits = raw["waits-until-ms"]
        return LastRun(
            created=created,
            at=moment(raw["at-ms"], "at-ms"),
            waiting=count(raw["waiting"], "waiting"),
            waits_until=None if waits is None else moment(waits, "waits-until-ms"),
        )
    except (FileNotFoundError, DamagedError, ValueError, KeyError, TypeError, AttributeError):
        return None


def content_of(last: LastRun) -> bytes:
    """Return the content of the file."""
    return json.dumps(
        {
            "version": _VERSION,
            "created": last.created,
            "at-ms": round(last.at.timestamp() * 1000),
            "waiting": last.waiting,
            "waits-until-ms": None if last.waits_until is None else round(last.waits_until.timestamp() * 1000),
        }
    ).encode()
