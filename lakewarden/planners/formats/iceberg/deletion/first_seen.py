"""Since when files are unknown to a table: what one listing of its folder tells the next.

A list beside the table's metadata, `metadata/lakewarden-orphans.seen`: first what it is of, then a line for each file,
then how many they are. Where it is lost, is not whole, or is of another table, every file is seen for the first time
again: then nothing goes for as long as a file has to be unknown.
"""

from __future__ import annotations

import json
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from itertools import pairwise
from typing import Any

from lakewarden.planners.decoding.damage import DamagedError
from lakewarden.planners.decoding.json_text import from_json
from lakewarden.planners.ports import Storage

MOST = 1_000_000
"""So many files are remembered, those that are unknown for longest; 16 bytes of memory each. The others wait."""

_VERSION = 1
_LARGEST = 64 * 2**20
_MILLISECOND = timedelta(milliseconds=1)
_EPOCH = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True, kw_only=True, slots=True)
class Life:
    """Which table a list is of: one that was made again in the same folder, or was moved, is another."""

    uuid: str
    location: str


@dataclass(frozen=True, slots=True)
class FirstSeen:
    """Files that no version of a table knew in any listing since they were first seen. A file is known again by a
    digest of its path and of when it was written: one that was written anew is another file.
    """

    _digests: array[int] = field(default_factory=lambda: array("Q"))
    _since: array[int] = field(default_factory=lambda: array("q"))

    def __len__(self) -> int:
        return len(self._digests)

    def unknown_for(self, path: str, written_at: datetime, *, at: datetime) -> timedelta:
        """Return for how long a file has been unknown that is so `at` this time of the storage's clock."""
        now = _milliseconds(at)
        return (now - self._since_of(_digest(path, written_at), now)) * _MILLISECOND

    def then(self, unknown: Mapping[str, datetime], *, at: datetime) -> FirstSeen:
        """Return what is remembered after a listing `at` which shows these files, that the table does not know, with
        when they were written. What it does not show is forgotten, and so is what the table knows by then.
        """
        now = _milliseconds(at)
        digests = (_digest(path, written_at) for path, written_at in unknown.items())
        entries = [(min(now, self._since_of(digest, now)), digest) for digest in digests]
        if len(entries) > MOST:
            entries = sorted(entries)[:MOST]
        return _of((digest, since) for since, digest in entries)

    def _since_of(self, digest: int, now: int) -> int:
        """Return since when a file is unknown, which is `now` where it was not listed before."""
        at = bisect_left(self._digests, digest)
        return self._since[at] if at < len(self._digests) and self._digests[at] == digest else now


def file_of(location: str) -> str:
    """Return where the list lies, in the folder of the table's metadata."""
    return f"{location}/metadata/lakewarden-orphans.seen"


def first_seen(folder: str, storage: Storage, *, life: Life) -> FirstSeen:
    """Return what the list says that lies in the table's `folder` (canonical); nothing where there is none of this life
    that is whole. Raises TemporaryError where it cannot be read.
    """
    try:
        head, *lines, end = storage.read(file_of(folder), limit=_LARGEST).splitlines()
        if from_json(head) != _head(life) or from_json(end) != {"files": len(lines)}:
            return FirstSeen()
        return _parsed(lines)
    except (FileNotFoundError, DamagedError, ValueError, TypeError, OverflowError):
        return FirstSeen()


def content_of(seen: FirstSeen, *, life: Life) -> bytes:
    """Return what is written for it."""
    return "\n".join(_lines(seen, life)).encode()


def _lines(seen: FirstSeen, life: Life) -> Iterator[str]:
    yield json.dumps(_head(life))
    for digest, since in zip(seen._digests, seen._since, strict=True):  # noqa: SLF001 - of this module
        yield f"{digest:016x} {since}"
    yield json.dumps({"files": len(seen)})


def _head(life: Life) -> Mapping[str, Any]:
    return {"version": _VERSION, "table-uuid": life.uuid, "location": life.location}


def _parsed(lines: Iterable[bytes]) -> FirstSeen:
    """Return what the lines say, which are in order. Raises ValueError, TypeError and OverflowError."""
    digests, since = array("Q"), array("q")
    for line in lines:
        digest, at = line.split()
        digests.append(int(digest, 16))
        since.append(int(at))
    if any(one > other for one, other in pairwise(digests)):
        raise ValueError("its lines are not in order")
    return FirstSeen(digests, since)


def _of(entries: Iterable[tuple[int, int]]) -> FirstSeen:
    in_order = sorted(entries)
    return FirstSeen(array("Q", (digest for digest, _ in in_order)), array("q", (since for _, since in in_order)))


def _digest(path: str, written_at: datetime) -> int:
    named = f"{_milliseconds(written_at)} {path}".encode(errors="surrogateescape")
    return int.from_bytes(blake2b(named, digest_size=8).digest(), "big")


def _milliseconds(at: datetime) -> int:
    return (at - _EPOCH) // _MILLISECOND
