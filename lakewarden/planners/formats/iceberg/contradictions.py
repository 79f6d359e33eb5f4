"""Settings of one table that cannot hold together."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from lakewarden.planners.formats.iceberg.options import IcebergTableOptions
from lakewarden.planners.formats.iceberg.service_options import CleanOptions, OrphansOptions, RewriteOptions
from lakewarden.planners.model.table import Table
from lakewarden.planners.ports import Contradiction
from lakewarden.planners.settings import format_duration, format_size

_YOUNGEST_ORPHAN = timedelta(hours=24)


def contradictions(table: Table) -> Iterator[Contradiction]:
    """Yield the keys that have to change, why, and what to set."""
    options = table.options if isinstance(table.options, IcebergTableOptions) else IcebergTableOptions()
    for service, policy in table.policies.items():
        match policy.options:
            case CleanOptions() as clean:
                found = _of_clean(clean, options.longest_outage)
            case OrphansOptions() as orphans:
                found = _of_orphans(orphans, options.longest_outage)
            case RewriteOptions() as rewrite:
                found = _of_rewrite(rewrite)
            case _:
                continue
        yield from (Contradiction(key=f"services.{service}.options.{key}", reason=reason) for key, reason in found)


_Found = Iterator[tuple[str, str]]


def _of_clean(clean: CleanOptions, outage: timedelta) -> _Found:
    age = clean.max_snapshot_age
    if age is not None and age < outage:
        yield (
            "max_snapshot_age",
            f"{format_duration(age)} is less than options.longest_outage, {format_duration(outage)}: a writer that "
            "comes back by then looks for its last snapshot. Raise max_snapshot_age, or lower longest_outage if no "
            "writer is ever away for so long",
        )


def _of_orphans(orphans: OrphansOptions, outage: timedelta) -> _Found:
    age = orphans.older_than
    if age < _YOUNGEST_ORPHAN:
        yield (
            "older_than",
            f"{format_duration(age)} is less than 24h: a younger file may belong to a commit that is under way. Set at "
            "least 24h",
        )
    elif age < outage:
        yield (
            "older_than",
            f"{format_duration(age)} is less than options.longest_outage, {format_duration(outage)}: a Flink job that "
            "comes back by then commits files that it wrote before it stopped. Raise older_than, or lower "
            "longest_outage if no writer is ever away for so long",
        )


def _of_rewrite(rewrite: RewriteOptions) -> _Found:
    """Yield what Iceberg's planner refuses (`SizeBasedFileRewritePlanner.sizeThresholds`)."""
    smallest, target, largest = rewrite.min_file_size, rewrite.target_file_size, rewrite.max_file_size
    if smallest is not None and target is not None and smallest >= target:
        yield "min_file_size", f"{format_size(smallest)} is not less than target_file_size: set less than that"
    if largest is not None and target is not None and largest <= target:
        yield "max_file_size", f"{format_size(largest)} is not more than target_file_size: set more than that"
    if target is None and smallest is not None and largest is not None and smallest >= largest:
        yield "min_file_size", f"{format_size(smallest)} is not less than max_file_size: set less than that"
