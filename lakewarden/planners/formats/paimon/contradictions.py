"""Settings of a Paimon table that contradict each other."""

from __future__ import annotations

from collections.abc import Iterator

from lakewarden.planners.formats.paimon.backlog.refused import refusals
from lakewarden.planners.formats.paimon.catalogs.settings import (
    FilesystemCatalog,
    JdbcCatalog,
    folder_in,
    keeps_commits_apart,
)
from lakewarden.planners.formats.paimon.options.ages import least_age_of_orphans
from lakewarden.planners.formats.paimon.options.service_options import OrphansOptions
from lakewarden.planners.formats.paimon.options.table_options import PaimonTableOptions
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.model.table import Table
from lakewarden.planners.ports import Contradiction
from lakewarden.planners.settings import format_duration, shown
from lakewarden.planners.storage.locations import is_in_catalog, named_in_catalog


def contradictions(table: Table) -> Iterator[Contradiction]:
    """Yield each key that has to change, the reason, and the value to set."""
    own = table.options if isinstance(table.options, PaimonTableOptions) else PaimonTableOptions()
    least = least_age_of_orphans(own)
    for service, policy in table.policies.items():
        options = policy.options
        if isinstance(options, OrphansOptions) and options.older_than is not None and options.older_than < least.age:
            lower = "" if least.option is None else f", or lower {least.option} if no writer comes back after so long"
            yield Contradiction(
                key=f"services.{service}.options.older_than",
                reason=f"{format_duration(options.older_than)} is less than {least}. Raise older_than{lower}",
            )
    yield from _holding_back(table)


def _holding_back(table: Table) -> Iterator[Contradiction]:
    """Yield what blocks services on a table that can still be observed."""
    for blocker in refusals(table):
        for service in blocker.services:
            yield Contradiction(key=f"services.{service}", reason=f"{blocker.reason}: {blocker.remedy}", blocks=True)
    folder = _folder(table)
    if not table.policies or folder is None or keeps_commits_apart(table.catalog, folder):
        return
    yield Contradiction(
        key="path",
        reason=f"every service is Blocked at {shown(folder)}: Lakewarden serves Paimon tables on disks, and on S3 by "
        "their names in a Hive or JDBC catalog, if the writers commit under its lock",
        blocks=True,
    )


def _folder(table: Table) -> str | None:
    """Return the table's folder as far as the configuration tells it. A metastore is not asked."""
    if not is_in_catalog(table.location):
        return table.location
    if not isinstance(table.catalog, FilesystemCatalog | JdbcCatalog):
        return None
    try:
        return folder_in(table.catalog.warehouse, named_in_catalog(table.location)[1])
    except PermanentError:
        return None
