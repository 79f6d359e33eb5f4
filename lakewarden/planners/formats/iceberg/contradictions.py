"""Settings of one table that contradict each other."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from lakewarden.planners.formats.iceberg.catalogs.settings import RestCatalog
from lakewarden.planners.formats.iceberg.deletion.readers import misread
from lakewarden.planners.formats.iceberg.options.ages import Age, least_age_of_orphans, least_age_of_snapshots
from lakewarden.planners.formats.iceberg.options.service_options import CleanOptions, OrphansOptions, RewriteOptions
from lakewarden.planners.formats.iceberg.options.table_options import IcebergTableOptions
from lakewarden.planners.model.table import Table
from lakewarden.planners.ports import Contradiction
from lakewarden.planners.settings import format_duration, format_size


def contradictions(table: Table) -> Iterator[Contradiction]:
    """Yield each key that has to change, the reason, and the value to set."""
    options = table.options if isinstance(table.options, IcebergTableOptions) else IcebergTableOptions()
    if (why := misread(options.readers)) is not None:
        yield Contradiction(key="options.readers", reason=why)
    for service, policy in table.policies.items():
        match policy.options:
            case CleanOptions() as clean:
                found = _of_clean(clean, options, table.catalog)
            case OrphansOptions() as orphans:
                found = _of_orphans(orphans, options)
            case RewriteOptions() as rewrite:
                found = _of_rewrite(rewrite)
            case _:
                continue
        yield from (Contradiction(key=f"services.{service}.options.{key}", reason=reason) for key, reason in found)


_Found = Iterator[tuple[str, str]]

_REST_HOLDS_NO_WRITER = (
    "a REST catalog removes a partition spec although a writer commits a file of it at the same moment, and the table "
    "cannot be read from then on. Remove clean_expired_metadata"
)


def _of_clean(clean: CleanOptions, options: IcebergTableOptions, catalog: object) -> _Found:
    if clean.clean_expired_metadata and isinstance(catalog, RestCatalog):
        yield "clean_expired_metadata", _REST_HOLDS_NO_WRITER
    least = least_age_of_snapshots(options)
    if clean.max_snapshot_age is not None and clean.max_snapshot_age < least.age:
        yield "max_snapshot_age", _too_young("max_snapshot_age", clean.max_snapshot_age, least)
    for at, branch in enumerate(clean.branches):
        if branch.max_snapshot_age is not None and branch.max_snapshot_age < least.age:
            yield f"branches.{at}.max_snapshot_age", _too_young("max_snapshot_age", branch.max_snapshot_age, least)


def _of_orphans(orphans: OrphansOptions, options: IcebergTableOptions) -> _Found:
    least = least_age_of_orphans(options)
    if orphans.older_than is not None and orphans.older_than < least.age:
        yield "older_than", _too_young("older_than", orphans.older_than, least)


def _too_young(key: str, age: timedelta, least: Age) -> str:
    return f"{format_duration(age)} is less than {least}. Raise {key}{least.or_lower}"


def _of_rewrite(rewrite: RewriteOptions) -> _Found:
    """Yield what Iceberg's planner refuses (`SizeBasedFileRewritePlanner.sizeThresholds`)."""
    smallest, target, largest = rewrite.min_file_size, rewrite.target_file_size, rewrite.max_file_size
    if smallest is not None and target is not None and smallest >= target:
        yield "min_file_size", f"{format_size(smallest)} is not less than target_file_size: set less than that"
    if largest is not None and target is not None and largest <= target:
        yield "max_file_size", f"{format_size(largest)} is not more than target_file_size: set more than that"
    if target is None and smallest is not None and largest is not None and smallest >= largest:
        yield "min_file_size", f"{format_size(smallest)} is not less than max_file_size: set less than that"
