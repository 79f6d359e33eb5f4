"""What can be seen of a table's lock."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


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
