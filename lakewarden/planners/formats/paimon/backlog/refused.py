"""The services that Lakewarden does not run on a Paimon table, each with its reason and what to do. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Table
from lakewarden.planners.model.view import Blocker

REFUSED: Mapping[Service, Blocker] = {
    Service.CLUSTERING: Blocker(
        code="unsupported_table",
        reason="a clustering of Paimon overwrites the partitions that it sorts, and drops the rows that were appended "
        "meanwhile (run with 0.9.0: 60 rows of 6 commits were lost), so Lakewarden does not run it",
        remedy="remove the service; sort with CALL sys.compact(order_strategy => ...) while no job writes to these "
        "partitions",
        services=frozenset({Service.CLUSTERING}),
        only_if_configured=True,
    ),
}


def refusals(table: Table) -> Iterator[Blocker]:
    """Yield the blockers of the services that a table asks for and that are not run."""
    yield from (blocker for service, blocker in REFUSED.items() if service in table.policies)
