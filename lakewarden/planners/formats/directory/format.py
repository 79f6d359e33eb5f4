"""Plain directories as a TableFormat: listings become a TableView. There is no metadata to read."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from lakewarden.planners.formats.by_path import NamedByPath
from lakewarden.planners.formats.directory.observing import looked_at, observed, token_of, warm_folders
from lakewarden.planners.formats.directory.options import (
    CommitAct,
    CompactionOptions,
    DirectoryTableOptions,
    OrphansOptions,
    PartitionCommitOptions,
    Publication,
    TtlOptions,
)
from lakewarden.planners.formats.directory.writers import ENGINES, HOOK, writer_options
from lakewarden.planners.hooks import CommitHook
from lakewarden.planners.model.clock import SystemClock
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.model.instant import Instant, Service, Step
from lakewarden.planners.model.table import Table
from lakewarden.planners.model.view import TableView
from lakewarden.planners.ports import (
    Contradiction,
    Observation,
    Sign,
    Storage,
    WriterEngine,
    WriterOption,
)
from lakewarden.planners.settings import Settings, shown
from lakewarden.planners.storage.locations import is_local

# Settings of a directory that contradict each other.

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


_MOST_REMEMBERED = 10_000
_MOST_HEARD = 256
"""So many folders of one directory, named by hooks, are looked at in one observation."""


class DirectoryFormat(NamedByPath):
    """Lists folders. A token is made of the times of the warm folders: those that changed last, and those above them.

    Which folders are warm is remembered from the last look of this process. Without one all folders are listed once.
    """

    name = "directory"
    commit_hook: CommitHook | None = HOOK
    table_options: type[Settings] = DirectoryTableOptions
    services: Mapping[Service, type[Settings]] = {
        Service.COMPACTION: CompactionOptions,
        Service.ORPHANS: OrphansOptions,
        Service.PARTITION_COMMIT: PartitionCommitOptions,
        Service.TTL: TtlOptions,
    }
    writer_engines: tuple[WriterEngine, ...] = ENGINES
    first_services: tuple[Service, ...] = (Service.COMPACTION,)
    sign: Sign | None = None
    """Any folder could be one. `--format directory` says that it is."""

    def __init__(self) -> None:
        self._warm: dict[str, Sequence[str]] = {}
        self._heard: dict[str, frozenset[str]] = {}
        self._guard = threading.Lock()

    def contradictions(self, table: Table) -> Sequence[Contradiction]:
        """Return the services that touch files and miss the horizon of a restored job."""
        return tuple(contradictions(table))

    def shared_name(self, catalog: str, settings: Any, identifier: str) -> str:
        """Raise PermanentError: no catalog knows a directory."""
        raise PermanentError(
            f"a directory is named by its path, and not by {identifier} in the catalog {shown(catalog)}"
        )

    def writer_options(
        self, table: Table, *, engine: WriterEngine, hook_url: str, lock_held: timedelta | None = None
    ) -> Sequence[WriterOption]:
        """Return what lets one side alone write the markers."""
        return writer_options(table, engine=engine)

    def token(self, table: Table, storage: Storage) -> str:
        """Return a digest of the times of the warm folders: one stat each, and in a store without folder times one
        listing each.
        """
        warm = self._warm.get(table.location)
        if warm is None:
            now = SystemClock().now()
            walk = looked_at(table, storage, None, before=now, now=now)
            warm = self._remember(table.location, warm_folders(walk.folders))
            return token_of(table.location, storage, warm, walk)
        return token_of(table.location, storage, warm)

    def observe(self, table: Table, storage: Storage, previous: Observation | None, *, now: datetime) -> Observation:
        """Return the table's view. A folder is listed again only where something may have changed."""
        with self._guard:
            heard = self._heard.pop(table.location, frozenset())
        try:
            observation = observed(table, storage, previous, now=now, heard=heard)
        except Exception as error:
            for folder in heard:
                self.heard(table.location, folder)
            if isinstance(error, PermanentError):
                self._warm.pop(table.location, None)
            raise
        self._remember(table.location, observation.memo.warm)
        return observation

    def heard(self, location: str, folder: str) -> None:
        """Look at a folder with the next observation. Beyond some hundreds the next look at all folders sees them."""
        with self._guard:
            folders = self._heard.get(location, frozenset())
            if len(folders) < _MOST_HEARD and len(self._heard) < _MOST_REMEMBERED:
                self._heard[location] = folders | {folder}

    def _remember(self, location: str, warm: Sequence[str]) -> Sequence[str]:
        if len(self._warm) >= _MOST_REMEMBERED:
            self._warm.clear()
        self._warm[location] = warm
        return warm

    def endangered(self, view: TableView, service: Service, *, step: Step, instant: str | None) -> tuple[Instant, ...]:
        """Return none: a marker fails no writer."""
        return ()

    def awaited(self, view: TableView, service: Service, *, step: Step, instant: str | None) -> str | None:
        """Return None: a partition that is written to is left out, and nothing else waits for it."""
        return None


DIRECTORY = DirectoryFormat()
