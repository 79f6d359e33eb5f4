"""What holds services back on a Hudi table, with the settings that would let them go."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from lakewarden.planners.formats.hudi.options import FilesystemLock, HudiTableOptions
from lakewarden.planners.formats.hudi.table_properties import TableProperties
from lakewarden.planners.model.instant import Deed, Service
from lakewarden.planners.model.table import Table
from lakewarden.planners.model.timeline import Timeline
from lakewarden.planners.model.view import Hindrance

KNOWN_VERSIONS = frozenset({"6", "8", "9"})
"""Table versions whose timeline we read and whose services were tried: Hudi 0.14 to 1.2."""

_BEFORE_THE_FIRST_BEAT = timedelta(seconds=30)
"""A write's first file and its first heartbeat come one after the other; until then a clean only waits."""

_NAME_THE_LOCK = """\
name the lock that the table's writers use:
  options:
    lock:
      provider: zookeeper
      url: HOST:PORT
      base_path: /PATH
      lock_key: KEY
or, if nobody writes to the table while it is served:
  options:
    writers: none"""


def hindrances(
    table: Table, options: HudiTableOptions, timeline: Timeline, properties: TableProperties, *, now: datetime
) -> Iterator[Hindrance]:
    """Yield what holds services back, the gravest first."""
    if properties.version not in KNOWN_VERSIONS:
        yield Hindrance(
            reason=f"table version {properties.version} is unknown to Lakewarden",
            remedy=f"it knows versions {', '.join(sorted(KNOWN_VERSIONS))}: upgrade Lakewarden or the table",
        )
    for instant in timeline.instants:
        if instant.pending and instant.stands_for in (Deed.RESTORE, Deed.SAVEPOINT):
            yield Hindrance(
                reason=f"{instant.stands_for} {instant.time} is in flight",
                remedy=f"let the {instant.stands_for} end, or remove what is left of it",
            )
    if options.lock is None and options.writers == "live":
        yield Hindrance(reason="no lock is named that keeps us and the table's writers apart", remedy=_NAME_THE_LOCK)
    for write in timeline.writes_in_flight():
        if write.guarded_until is None and now - write.requested_at > _BEFORE_THE_FIRST_BEAT:
            yield Hindrance(
                services=frozenset({Service.CLEAN}),
                reason=f"write {write.time} is in flight without a heartbeat: it has failed, or its writer is not "
                "LAZY; a clean would roll it back",
                remedy="set hoodie.clean.failed.writes.policy=LAZY (before 1.0: hoodie.cleaner.policy.failed.writes) "
                "on the table's writers, as their lock asks for anyway; what a failed write left behind goes by a "
                "rollback policy (without_heartbeat_after)",
            )
            break
    yield from _meaningless(table, properties)


def _meaningless(table: Table, properties: TableProperties) -> Iterator[Hindrance]:
    """Yield the policies that have nothing to do on a table of this kind."""
    if not properties.merge_on_read:
        for service in (Service.COMPACTION, Service.LOG_COMPACTION):
            if service in table.policies:
                yield Hindrance(
                    services=frozenset({service}),
                    reason="the table is copy-on-write: it has no log files to compact",
                    remedy=f"remove its {service} policy",
                )
    if not properties.partitioned and Service.TTL in table.policies:
        yield Hindrance(
            services=frozenset({Service.TTL}),
            reason="the table has no partitions that could expire",
            remedy="remove its ttl policy",
        )


def warnings(options: HudiTableOptions) -> tuple[str, ...]:
    """Return what a person should know of the table's settings although nothing is held back by it."""
    if isinstance(options.lock, FilesystemLock):
        return (
            "the filesystem lock does not exclude: a client that times out deletes its holder's lock. "
            "It is for trials; use ZooKeeper beside real writers.",
        )
    return ()
