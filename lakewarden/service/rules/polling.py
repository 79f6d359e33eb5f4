"""How often a table is polled: its cadence, or more rarely while hooks announce its commits. Pure.

Each poll of a table in an object store or a catalog is a request that costs money. Moments are seconds of one monotonic
clock.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from datetime import timedelta

TRUSTED_AFTER = 3
"""So many commits in a row that hooks announced make polls rare."""

LATE_SECONDS = 15.0
"""A poll may see a commit before its hook arrives. So long the hook may be late."""

COUNTS_SECONDS = 120.0
"""A hook announces a commit that is seen at most so long after it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Announced:
    """What was seen of the hooks of a table: the last `commits` in a row were announced. `hook_at` is when the newest
    hook arrived that no commit has followed. `missed_at` is when a commit was seen that no hook has announced yet.
    """

    commits: int = 0
    hook_at: float | None = None
    missed_at: float | None = None


NOTHING_HEARD = Announced()


def hook_arrived(record: Announced, now: float) -> Announced:
    """Return what is known after a hook. It may be the late one of a commit that a poll has seen."""
    record = _settled(record, now)
    if record.missed_at is None:
        return replace(record, hook_at=now)
    return Announced(commits=min(record.commits + 1, TRUSTED_AFTER), hook_at=now)


def observed(record: Announced, *, committed: bool, now: float) -> Announced:
    """Return what is known after an observation. `committed`: a writer has committed since the one before."""
    record = _settled(record, now)
    if not committed:
        return record
    if record.hook_at is not None and now - record.hook_at <= COUNTS_SECONDS:
        return Announced(commits=min(record.commits + 1, TRUSTED_AFTER), missed_at=record.missed_at)
    return replace(record, hook_at=None, missed_at=now if record.missed_at is None else record.missed_at)


def interval(record: Announced, *, poll: timedelta, with_hooks: timedelta, now: float) -> timedelta:
    """Return how long after an observation the next one is made: `poll`, or `with_hooks` if that is longer and hooks
    announce each commit.
    """
    record = _settled(record, now)
    trusted = record.missed_at is None and record.commits >= TRUSTED_AFTER
    return max(poll, with_hooks) if trusted else poll


def appointment(now: float, wait: float) -> float:
    """Return the moment after `wait` seconds, rounded up by less than a sixteenth of the wait.

    Moments are rounded to a power of two of seconds, half a second for a wait of ten. So thousands of tables come up at
    a few moments, and each costs the daemon a few wake-ups.
    """
    _, exponent = math.frexp(wait)
    step = 2.0 ** (exponent - _PARTS)
    return math.ceil((now + wait) / step) * step


_PARTS = 5
"""A wait of 2**n up to 2**(n + 1) seconds has steps of 2**(n + 1 - 5) seconds, at most a sixteenth of it."""


def _settled(record: Announced, now: float) -> Announced:
    """Return what is known if a commit stayed without its hook for too long: nothing is trusted any more."""
    if record.missed_at is None or now - record.missed_at <= LATE_SECONDS:
        return record
    return Announced(hook_at=record.hook_at)
