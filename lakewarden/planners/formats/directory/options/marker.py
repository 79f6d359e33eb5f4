"""The name of a directory's marker."""

from __future__ import annotations

from lakewarden.planners.formats.directory.options.options_of import options_of
from lakewarden.planners.formats.directory.options.service_options import PartitionCommitOptions
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Table


def marker_of(table: Table) -> str:
    """Return the name of the marker. A run knows the options of its own service alone."""
    commit = options_of(table, Service.PARTITION_COMMIT, PartitionCommitOptions)
    if Service.PARTITION_COMMIT in table.policies:
        return commit.success_file_name
    names = (getattr(policy.options, "success_file_name", None) for policy in table.policies.values())
    return next((name for name in names if isinstance(name, str)), commit.success_file_name)
