"""What a table's lock shows of having been taken."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class LockSight:
    """A lock at one moment, as its own place shows it.

    `number` tells it from another one that was made anew under its name, at `since`. `mark` changes whenever it is
    taken or let go. `taken` is how often it was let go since it was made; None where only the mark tells. `held`:
    somebody has it, or waits for it. `used_at` is when it was last taken or let go, None where that is not told. One
    that nobody has ever taken may not be there at all: its number is empty.
    """

    number: str = ""
    since: datetime | None = None
    mark: str = ""
    taken: int | None = None
    held: bool = False
    used_at: datetime | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class LockLook:
    """The lock `name` around one look at its table: `before` the timeline was listed, and `after` it.

    Where it could not be seen both are None, and `trouble` says why.
    """

    name: str
    before: LockSight | None = None
    after: LockSight | None = None
    trouble: str | None = None
