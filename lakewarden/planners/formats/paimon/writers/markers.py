"""The file that says of a partition that it is done, `_SUCCESS` in its folder.

Source: `org.apache.paimon.partition.file.SuccessFile` and `SuccessFileMarkDoneAction` of Paimon 1.3.1: a JSON object
with two times in milliseconds. Other fields are ignored.
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any, NamedTuple

from lakewarden.planners.decoding.damage import DamagedError
from lakewarden.planners.decoding.json_text import from_json
from lakewarden.planners.decoding.numbers import count, moment

NAME = "_SUCCESS"
LARGEST = 64 * 2**10

_CREATED, _MODIFIED, _SNAPSHOT = "creationTime", "modificationTime", "lakewardenSnapshot"


class Done(NamedTuple):
    """What a marker says: the partition was done at a moment. `snapshot` is the newest that its author knew; None if
    the author did not say so.
    """

    at: datetime
    snapshot: int | None = None


def parse_marker(content: bytes) -> Done | None:
    """Return what a marker says. None for a file that is no marker of Paimon's, as an empty one."""
    raw = _object(content)
    try:
        at = moment(raw[_MODIFIED], _MODIFIED)
        known = raw.get(_SNAPSHOT)
        return Done(at, None if known is None else count(known, _SNAPSHOT))
    except (KeyError, TypeError, ValueError, OverflowError):
        return None


def marker(at: datetime, *, snapshot: int, before: bytes | None) -> bytes:
    """Return a marker. The time of its creation is that of the marker `before`, if that is one."""
    now = round(at.timestamp() * 1000)
    raw = {} if before is None else _object(before)
    try:
        created = count(raw[_CREATED], _CREATED)
    except (KeyError, TypeError, ValueError):
        created = now
    return json.dumps({_CREATED: created, _MODIFIED: now, _SNAPSHOT: snapshot}, separators=(",", ":")).encode()


def _object(content: bytes) -> dict[str, Any]:
    try:
        raw = from_json(content)
    except DamagedError:
        return {}
    return raw if isinstance(raw, dict) else {}
