"""Who attends which table: each replica by itself takes its fair share of what is free."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from lakewarden.service.model.replica import ReplicaId


def shared_out(
    replica: ReplicaId,
    *,
    living: Collection[ReplicaId],
    held: Mapping[str, ReplicaId],
    locations: Collection[str],
    busy: Collection[str],
) -> frozenset[str]:
    """Return the tables that a living replica has from now on.

    `held` is what the living have. Fair is an even part, rounded up, of all tables that this replica or a holder
    knows. A table that the replica no longer knows, and surplus, is kept only while it is busy.
    """
    fair = -(-len({*locations, *held}) // len(living))
    mine = {location for location, holder in held.items() if holder == replica}
    kept = mine & set(busy)
    idle = sorted((mine & set(locations)) - kept)
    kept.update(idle[: max(fair - len(kept), 0)])
    free = sorted(set(locations) - set(held))
    return frozenset(kept | set(free[: max(fair - len(kept), 0)]))
