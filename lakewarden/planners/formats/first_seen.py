"""Since when each file is unknown to a table. One listing of its folder tells the next.

The facts lie in a file beside the table, where the format puts it. The first line says which table it is for. Then
there is one line for each file, and at the end their number. If the list is missing, is not whole, or is for another
table, every file counts as seen for the first time. Then no file is deleted until it has been unknown for the
configured time again.
"""

from __future__ import annotations

import json
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from heapq import merge
from itertools import compress, count, pairwise
from typing import Any

from lakewarden.planners.decoding.damage import DamagedError
from lakewarden.planners.decoding.json_stream import from_json
from lakewarden.planners.ports import Storage

MOST = 1_000_000
"""How many files are remembered at most, with 16 bytes of memory each. Those that are unknown for longest are kept. The
others wait."""

_VERSION = 1
_LARGEST = 64 * 2**20
_MILLISECOND = timedelta(milliseconds=1)
_EPOCH = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True, kw_only=True, slots=True)
class Life:
    """Which table a list is for. A table that was created again in the same folder, or was moved, is another one."""

    uuid: str
    location: str


@dataclass(frozen=True, slots=True)
class FirstSeen:
    """Files that no version of a table has known in any listing since they were first seen. The key of a file is a
    digest of its path and of the time at which it was written. A file that was written anew is another file.
    """

    _digests: array[int] = field(default_factory=lambda: array("Q"))
    _since: array[int] = field(default_factory=lambda: array("q"))

    def __len__(self) -> int:
        return len(self._digests)

    def unknown_for(self, path: str, written_at: datetime, *, at: datetime) -> timedelta:
        """Return for how long a file has been unknown. It is unknown `at` this time of the storage's clock."""
        now = _milliseconds(at)
        return (now - self._since_of(_digest(path, written_at), now)) * _MILLISECOND

    def then(self, unknown: Iterable[tuple[str, datetime]], *, at: datetime) -> FirstSeen:
        """Return what is remembered after a listing `at` this time. `unknown` are the files that it shows and the table
        does not know, with the times at which they were written. All other files are forgotten: they are gone, or the
        table knows them now.
        """
        now = _milliseconds(at)
        again, new = bytearray(len(self)), array("Q")
        for path, written_at in unknown:
            place = self._place(digest := _digest(path, written_at))
            if place is not None:
                again[place] = 1
            elif len(new) < MOST:
                new.append(digest)
        before = ((self._digests[place], min(now, self._since[place])) for place in compress(count(), again))
        first = sorted(new[: max(0, MOST - sum(again))])
        return _of(merge(before, ((digest, now) for digest in first)))

    def _since_of(self, digest: int, now: int) -> int:
        """Return since when a file is unknown. It is `now` if the list did not have the file before."""
        place = self._place(digest)
        return now if place is None else self._since[place]

    def _place(self, digest: int) -> int | None:
        at = bisect_left(self._digests, digest)
        return at if at < len(self._digests) and self._digests[at] == digest else None


def first_seen(file: str, storage: Storage, *, life: Life) -> FirstSeen:
    """Return what the list in this `file` (canonical) says. It is empty if there is no whole list for this table.
    Raises TemporaryError if the list cannot be read.
    """
    try:
        head, *lines, end = storage.read(file, limit=_LARGEST).splitlines()
        if from_json(head) != _head(life) or from_json(end) != {"files": len(lines)}:
            return FirstSeen()
        return _parsed(lines)
    except (FileNotFoundError, DamagedError, ValueError, TypeError, OverflowError):
        return FirstSeen()


def content_of(seen: FirstSeen, *, life: Life) -> bytes:
    """Return the content of the list."""
    return "\n".join(_lines(seen, life)).encode()


def _lines(seen: FirstSeen, life: Life) -> Iterator[str]:
    yield json.dumps(_head(life))
    for digest, since in zip(seen._digests, seen._since, strict=True):  # noqa: SLF001 - of this module
        yield f"{digest:016x} {since}"
    yield json.dumps({"files": len(seen)})


def _head(life: Life) -> Mapping[str, Any]:
    return {"version": _VERSION, "table-uuid": life.uuid, "location": life.location}


def _parsed(lines: Iterable[bytes]) -> FirstSeen:
    """Return what the lines say. They must be in order. Raises ValueError, TypeError and OverflowError."""
    seen = _of((int(digest, 16), int(at)) for digest, at in map(bytes.split, lines))
    if any(digest > other for digest, other in pairwise(seen._digests)):  # noqa: SLF001 - of this module
        raise ValueError("its lines are not in order")
    return seen


def _of(in_order: Iterable[tuple[int, int]]) -> FirstSeen:
    digests, since = array("Q"), array("q")
    for digest, at in in_order:
        digests.append(digest)
        since.append(at)
    return FirstSeen(digests, since)


def _digest(path: str, written_at: datetime) -> int:
    named = f"{_milliseconds(written_at)} {path}".encode(errors="surrogateescape")
    return int.from_bytes(blake2b(named, digest_size=8).digest(), "big")


def _milliseconds(at: datetime) -> int:
    return (at - _EPOCH) // _MILLISECOND
