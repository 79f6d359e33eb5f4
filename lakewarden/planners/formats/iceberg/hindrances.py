"""What holds services back on an Iceberg table, and what a person does about it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from lakewarden.planners.formats.iceberg.groups import ContradictoryThresholdsError, thresholds
from lakewarden.planners.formats.iceberg.metadata import TableMetadata
from lakewarden.planners.formats.iceberg.service_options import RewriteOptions
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Table
from lakewarden.planners.model.view import Hindrance

NEWEST_VERSION = 3
"""The newest format version that Iceberg 1.11.0 reads and writes."""

_DELETING = frozenset({Service.CLEAN, Service.ORPHANS})


def hindrances(table: Table, metadata: TableMetadata) -> Iterator[Hindrance]:
    """Yield what holds services back, the gravest first."""
    properties = metadata.properties
    if metadata.format_version > NEWEST_VERSION:
        yield Hindrance(
            reason=f"format version {metadata.format_version} is unknown to Lakewarden",
            remedy=f"it knows versions 1 to {NEWEST_VERSION}: upgrade Lakewarden",
        )
    if properties.get("gc.enabled", "true").lower() != "true":
        yield Hindrance(
            services=_DELETING,
            reason="the table says gc.enabled=false: its files may belong to another table too, and none is deleted",
            remedy="remove the policies clean and orphans; or set gc.enabled=true if no other table has its files",
        )
    yield from _thresholds(table, properties)


def _thresholds(table: Table, properties: Mapping[str, str]) -> Iterator[Hindrance]:
    """Yield the rewrites whose sizes Iceberg's planner would refuse."""
    for service, policy in table.policies.items():
        if not isinstance(policy.options, RewriteOptions):
            continue
        try:
            thresholds(policy.options, properties)
        except ContradictoryThresholdsError as wrong:
            yield Hindrance(
                services=frozenset({service}),
                reason=str(wrong),
                remedy=f"set target_file_size, min_file_size and max_file_size of its {service} policy so that they "
                "come in this order: min, target, max",
            )


def warnings(metadata: TableMetadata) -> tuple[str, ...]:
    """Return what a person should know of the table although nothing is held back by it."""
    if any(one.manifest_list is None for one in metadata.snapshots):
        return ("some snapshots name their manifests in the metadata file, as the first release of Iceberg wrote it",)
    return ()
