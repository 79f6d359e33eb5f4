"""A replica: one life of one daemon."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NewType

ReplicaId = NewType("ReplicaId", str)
"""One life of one daemon: a daemon that is started again, or that lost its lease, is another replica."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Replica:
    """A daemon on this store. `url` is where the others reach its API; `alive` tells whether its lease still runs, on
    the database's clock.
    """

    id: ReplicaId
    url: str
    alive: bool = True
