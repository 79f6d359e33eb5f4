"""What keeps partition commit from a directory."""

from __future__ import annotations

from collections.abc import Iterator

from lakewarden.planners.formats.directory.options.service_options import CommitAct, PartitionCommitOptions
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.view import Blocker
from lakewarden.planners.ports import Storage
from lakewarden.planners.storage.empty_files import empty_files


def blockers(location: str, storage: Storage, commit: PartitionCommitOptions) -> Iterator[Blocker]:
    """Yield why no marker can be written, if so."""
    if CommitAct.SUCCESS_FILE in commit.policy.acts and empty_files(location, storage) is None:
        yield Blocker(
            code="unsupported_store",
            reason=f"there is no way yet to write a marker on a condition into the store of {location}",
            remedy="markers are written on local disks and S3: set the policy metastore, or remove "
            "services.partition_commit",
            services=frozenset({Service.PARTITION_COMMIT}),
        )
