"""What every table service is called, whether it deletes, and what may run beside it on one table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lakewarden.planners.model.instant import Service


@dataclass(frozen=True, kw_only=True, slots=True)
class ServiceTraits:
    """What the road needs to know of a service without knowing any format.

    `beside` are the services that may run on the same table at the same time. `barrier` services are
    waited for before the table's next commit by us. `one_plan`: a pending plan, whoever made it, has to be finished
    before another can be made, so that leaving it to its author for ever would end the service. `joined`: it is
    executed and committed in one step, which nobody can stop half-way, so its permit expires. `yields`: its pending
    plan makes writers fail, so it never waits with one: it is executed at once or withdrawn at once. `meets_writers`: a
    write can fail by its plan or by its commit. `hinders`: a plan of it that was left half-way is in the way of writers
    or of other services until it is finished or given up. `gives_way_to`: what goes first where both are due on one
    table, because it costs readers more the longer it waits. `by_hand`: it runs when a person asks for it, and never by
    itself. `locked`: its joined step holds the table's lock, for which writers wait.
    """

    deletes: bool
    joined: bool = True
    yields: bool = False
    beside: frozenset[Service] = frozenset()
    barrier: bool = False
    one_plan: bool = False
    meets_writers: bool = False
    hinders: bool = False
    gives_way_to: frozenset[Service] = frozenset()
    by_hand: bool = False
    locked: bool = False


_CLEANED_BESIDE = frozenset({Service.COMPACTION, Service.LOG_COMPACTION})
_COMPACTION_FIRST = frozenset({Service.COMPACTION})
"""What every query has to merge grows until it is done; and what a log compaction would merge it merges, too."""

SERVICES: Mapping[Service, ServiceTraits] = {
    Service.COMPACTION: ServiceTraits(
        deletes=False, joined=False, beside=frozenset({Service.CLEAN}), meets_writers=True
    ),
    Service.LOG_COMPACTION: ServiceTraits(
        deletes=False,
        joined=False,
        beside=frozenset({Service.CLEAN}),
        meets_writers=True,
        hinders=True,
        gives_way_to=_COMPACTION_FIRST,
    ),
    Service.CLUSTERING: ServiceTraits(
        deletes=False, yields=True, meets_writers=True, hinders=True, gives_way_to=_COMPACTION_FIRST
    ),
    Service.CLEAN: ServiceTraits(deletes=True, beside=_CLEANED_BESIDE, barrier=True, one_plan=True),
    Service.ARCHIVE: ServiceTraits(deletes=True),
    Service.ROLLBACK: ServiceTraits(deletes=True, one_plan=True),
    Service.TTL: ServiceTraits(deletes=True, meets_writers=True),
    Service.INDEXING: ServiceTraits(deletes=False, one_plan=True, locked=True),
    Service.SAVEPOINT: ServiceTraits(deletes=False),
    Service.CATALOG_SYNC: ServiceTraits(deletes=False),
    Service.METADATA_VALIDATION: ServiceTraits(deletes=False, joined=False, by_hand=True),
    Service.METADATA_REBUILD: ServiceTraits(deletes=False, by_hand=True, locked=True),
    Service.ORPHANS: ServiceTraits(deletes=True),
}

BY_HAND = frozenset(service for service, traits in SERVICES.items() if traits.by_hand)
"""What runs only when a person asks for it."""
