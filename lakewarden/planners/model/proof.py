"""What is checked before Lakewarden acts on a table, and what a check has found."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class Check(StrEnum):
    """What is checked of a table."""

    TABLE = "table"
    LOCK = "lock"
    HEARTBEATS = "heartbeats"
    HOOK = "hook"
    ALONE = "alone"
    READERS = "readers"
    RETENTION = "retention"
    ZONE = "zone"
    CLOCK = "clock"
    WORKERS = "workers"


class ProofResult(StrEnum):
    """The result of a check. What is not proved is not known from here, or becomes ok by itself if everything is as it
    should be.
    """

    OK = "ok"
    NOT_PROVED = "not proved"
    WRONG = "wrong"


@dataclass(frozen=True, kw_only=True, slots=True)
class Proof:
    """The result of one check, of a table (`Check`) or of a machine: what was found, and what to do about it."""

    check: str
    result: ProofResult
    found: str
    cure: str | None = None

    @property
    def is_ok(self) -> bool:
        """Whether nothing has to be done."""
        return self.result is ProofResult.OK


def proved(check: str, finding: str) -> Proof:
    """Return what is as it should be."""
    return Proof(check=check, result=ProofResult.OK, found=finding)


def not_proved(check: str, finding: str, cure: str | None = None) -> Proof:
    """Return what cannot be told yet, or not from here."""
    return Proof(check=check, result=ProofResult.NOT_PROVED, found=finding, cure=cure)


def wrong(check: str, finding: str, cure: str | None) -> Proof:
    """Return what is not as it should be."""
    return Proof(check=check, result=ProofResult.WRONG, found=finding, cure=cure)


# What can be seen of a table's lock.


@dataclass(frozen=True, kw_only=True, slots=True)
class LockSample:
    """A lock at one moment, as its own store shows it.

    `number` changes if the lock is created again under the same name, at `since`. `mark` changes whenever the lock is
    taken or released. `taken` is how often it was released since it was created. None if only the mark tells. `held`: a
    program holds it, or waits for it. `used_at` is when it was last taken or released. None if that is not known. A
    lock that was never taken may not exist. Then its number is empty.
    """

    number: str = ""
    since: datetime | None = None
    mark: str = ""
    taken: int | None = None
    held: bool = False
    used_at: datetime | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class LockReading:
    """The lock `name` around one observation of its table: `before` the timeline was listed, and `after` it.

    If it could not be seen, both are None, and `failure` says why.
    """

    name: str
    before: LockSample | None = None
    after: LockSample | None = None
    failure: str | None = None
