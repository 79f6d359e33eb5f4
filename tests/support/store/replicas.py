"""Replicas for tests that are about something else: a store lets only the owner of a table claim its runs."""

from __future__ import annotations

from datetime import timedelta

from lakewarden.service.model.replica import Replica, ReplicaId
from lakewarden.service.store.sql.store import Store

ME = ReplicaId("me")
LEASE = timedelta(hours=1)


def a_replica(replica: str = ME) -> Replica:
    """Return a replica of that id, with an address of its own."""
    return Replica(id=ReplicaId(replica), url=f"http://{replica}:8080")


def take_ownership(store: Store, *locations: str, replica: ReplicaId = ME) -> ReplicaId:
    """Let a replica own these tables beside those it has: it joins if it is not there, and takes their shares.

    Only where nobody else is on the store may it take as many as it likes.
    """
    store.join(a_replica(replica), lease=LEASE)
    mine = {location for location, holder in store.shares().items() if holder == replica}
    taken = store.share(replica, locations=mine | set(locations), busy=mine)
    assert taken.issuperset(locations), f"{set(locations) - taken} is more than the fair share of {replica}"
    return replica
