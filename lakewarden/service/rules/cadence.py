"""How often a table is polled. While hooks announce the commits of a table in an object store or a catalog, it is
polled rarely, because each poll is a request that costs money. Pure: moments are seconds of one monotonic clock.
"""

from __future__ import annotations

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


def hook_arrived(known: Announced, now: float) -> Announced:
    """Return what is known after a hook. It may be the late one of a commit that a poll has seen."""
    known = _settled(known, now)
    if known.missed_at is None:
        return replace(known, hook_at=now)
    return Announced(commits=min(known.commits + 1, TRUSTED_AFTER), hook_at=now)


def observed(known: Announced, *, committed: bool, now: float) -> Announced:
    """Return what is known after an observation. `committed`: a writer has committed since the one before."""
    known = _settled(known, now)
    if not committed:
        return known
    if known.hook_at is not None and now - known.hook_at <= COUNTS_SECONDS:
        return Announced(commits=min(known.commits + 1, TRUSTED_AFTER), missed_at=known.missed_at)
    return replace(known, hook_at=None, missed_at=now if known.missed_at is None else known.missed_at)


def interval(known: Announced, *, poll: timedelta, with_hooks: timedelta, now: float) -> timedelta:
    """Return how long after an observation the next one is made: `poll`, or `with_hooks` if that is longer and hooks
    announce each commit.
    """
    known = _settled(known, now)
    trusted = known.missed_at is None and known.commits >= TRUSTED_AFTER
    return max(poll, with_hooks) if trusted else poll


def _settled(known: Announced, now: float) -> Announced:
    """Return what is known if a commit stayed without its hook for too long: nothing is trusted any more."""
    if known.missed_at is None or now - known.missed_at <= LATE_SECONDS:
        return known
    return Announced(hook_at=known.hook_at)
