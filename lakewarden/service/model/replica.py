"""A replica: one life of one daemon."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import NewType

ReplicaId = NewType("ReplicaId", str)
"""One life of one daemon. A daemon that was restarted, or that lost its lease, is another replica."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Replica:
    """A daemon on this store. `url` is where other replicas reach its API.

    `alive` says whether its lease still runs, and `lapses_in` after which time it ends if it is not renewed. Both are
    by the clock of the database. A lease without end has no such time.
    """

    id: ReplicaId
    url: str
    alive: bool = True
    lapses_in: timedelta | None = field(default=None, compare=False)
