"""Settings of a directory that contradict each other."""

from __future__ import annotations

from collections.abc import Iterator

from lakewarden.planners.formats.directory.options.compaction_options import CompactionOptions, Publication
from lakewarden.planners.formats.directory.options.service_options import CommitAct, PartitionCommitOptions
from lakewarden.planners.formats.directory.options.table_options import DirectoryTableOptions
from lakewarden.planners.formats.directory.options.ttl_options import TtlOptions
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Table
from lakewarden.planners.ports import Contradiction
from lakewarden.planners.settings import shown
from lakewarden.planners.storage.locations import is_local

_NEED_A_HORIZON = (Service.COMPACTION, Service.ORPHANS)


def contradictions(table: Table) -> Iterator[Contradiction]:
    """Yield each key that has to change, the reason, and the value to set."""
    options = table.options if isinstance(table.options, DirectoryTableOptions) else DirectoryTableOptions()
    if options.restore_horizon is None:
        for service in _NEED_A_HORIZON:
            policy = table.policies.get(service)
            if policy is not None and policy.options is not None:
                yield Contradiction(
                    key="options.restore_horizon",
                    reason=f"{service} touches files that a restored job looks for: set it to more than the longest "
                    "time after which a stopped job is restored, as in 7d, or to 0s if no job ever is",
                )
    for policy in table.policies.values():
        acts = policy.options.policy.acts if isinstance(policy.options, PartitionCommitOptions) else ()
        if CommitAct.METASTORE in acts and options.metastore is None:
            yield Contradiction(
                key="options.metastore",
                reason="the policy metastore lists partitions in a table of a Hive metastore: set its uri, database "
                "and table",
            )
        by_metastore = getattr(policy.options, "publication", None) is Publication.METASTORE
        if by_metastore and options.metastore is None:
            yield Contradiction(
                key="options.metastore",
                reason="the publication metastore leads readers by a table of a Hive metastore: set its uri, database "
                "and table",
            )
        if isinstance(policy.options, TtlOptions) and policy.options.retain is None:
            yield Contradiction(
                key="services.ttl.options.retain",
                reason="ttl deletes data, and has no default: set how long a partition is kept after its time, as 90d",
            )
    yield from _holding_back(table)
    names = {getattr(policy.options, "success_file_name", None) for policy in table.policies.values()} - {None}
    if len(names) > 1:
        yield Contradiction(
            key="services.compaction.options.success_file_name",
            reason=f"the services name several markers, {' and '.join(sorted(map(shown, names)))}: name one",
        )


def _holding_back(table: Table) -> Iterator[Contradiction]:
    """Yield the services that are Blocked by the store of a directory, which can still be observed."""
    where, on_disk, on_s3 = shown(table.location), is_local(table.location), table.location.startswith("s3://")
    if Service.TTL in table.policies and not on_disk:
        yield _blocked(Service.TTL, f"partitions are deleted on local disks alone, and not at {where}: remove it")
    if Service.ORPHANS in table.policies and not (on_disk or on_s3):
        yield _blocked(
            Service.ORPHANS, f"parts in progress are deleted on local disks and S3, not at {where}: remove it"
        )
    policy = table.policies.get(Service.COMPACTION)
    if policy is None:
        return
    options = policy.options if isinstance(policy.options, CompactionOptions) else CompactionOptions()
    exchanges = options.publication is Publication.EXCHANGE
    if on_disk and not exchanges:
        yield _blocked(Service.COMPACTION, "partitions on local disks are exchanged: remove options.publication")
    if on_s3 and exchanges:
        yield _blocked(
            Service.COMPACTION,
            f"two folders cannot be exchanged at {where}: set options.publication to metastore or with_duplicates, or "
            "remove it",
        )
    if not (on_disk or on_s3):
        yield _blocked(
            Service.COMPACTION, f"directories are compacted on local disks and S3, not at {where}: remove it"
        )


def _blocked(service: Service, why: str) -> Contradiction:
    return Contradiction(key=f"services.{service}", reason=f"it is Blocked: {why}", blocks=True)
