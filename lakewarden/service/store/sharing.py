"""The distribution of tables: each replica by itself takes its fair share of the free tables."""

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

    `held` are the shares of the living replicas. The fair share is an even part, rounded up, of all tables that this
    replica or another owner knows. If the replica no longer knows a table, or has too many, it keeps a table only while
    it is busy.
    """
    fair = -(-len({*locations, *held}) // len(living))
    mine = {location for location, holder in held.items() if holder == replica}
    kept = mine & set(busy)
    idle = sorted((mine & set(locations)) - kept)
    kept.update(idle[: max(fair - len(kept), 0)])
    free = sorted(set(locations) - set(held))
    return frozenset(kept | set(free[: max(fair - len(kept), 0)]))
