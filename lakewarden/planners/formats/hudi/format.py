"""Apache Hudi as a TableFormat: the metadata of table versions 6, 8 and 9 becomes a TableView, without a JVM."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from lakewarden.planners.formats.hudi.backlog.archiving import archived_too_early
from lakewarden.planners.formats.hudi.backlog.backlog import needs_commits
from lakewarden.planners.formats.hudi.catalogs import Catalog, HiveCatalog, as_found, tables_in
from lakewarden.planners.formats.hudi.deletion.readers import misread
from lakewarden.planners.formats.hudi.metadata.properties import HOME, parse_properties
from lakewarden.planners.formats.hudi.metadata.tokens import Tokens
from lakewarden.planners.formats.hudi.observing import observed
from lakewarden.planners.formats.hudi.options.locks import lock_named_by, lockless, misplaced
from lakewarden.planners.formats.hudi.options.service_options import (
    RETAINED_BY_HUDI,
    STRATEGIES,
    ArchiveOptions,
    CatalogSyncOptions,
    CleanOptions,
    ClusteringOptions,
    CompactionOptions,
    IndexingOptions,
    LogCompactionOptions,
    MetadataRebuildOptions,
    NoOptions,
    RollbackOptions,
    SavepointOptions,
    TtlOptions,
    catalog_sync_of,
)
from lakewarden.planners.formats.hudi.options.table_options import BucketIndex, HudiTableOptions, why_not
from lakewarden.planners.formats.hudi.writers.acquisitions.samples import around, leaves_traces
from lakewarden.planners.formats.hudi.writers.failures import awaited, endangered_writes
from lakewarden.planners.formats.hudi.writers.non_blocking import GIVEN_AGAIN
from lakewarden.planners.formats.hudi.writers.writer_options import ENGINES, HOOK, writer_options
from lakewarden.planners.formats.shared_folder import SharedFolders
from lakewarden.planners.hooks import CommitHook
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Mode, Table
from lakewarden.planners.ports import (
    Contradiction,
    Observation,
    Sign,
    Storage,
    WriterDefaults,
    WriterEngine,
)
from lakewarden.planners.settings import Settings, shown
from lakewarden.planners.storage.locations import is_in_catalog
from lakewarden.planners.triggers import Trigger

# Settings of one Hudi table that contradict each other.

_NO_LOCK = (
    "is missing, and mode is act: nothing runs beside live writers without a lock that both sides name. Name the "
    "writers' lock (docs/writers.md), or set writers: none if the table has no writers"
)


_NO_TRACE = (
    "a {} lock leaves no trace when it is taken, so nothing shows whether the writers take it, and nothing runs. "
    "Compare the lock options of every writer with `lakewarden writer-options`, then set lock_proof: trusted"
)
_SIMPLE_BUCKETS = "files of a simple bucket index must not be clustered: clustering never runs. Remove the policy"


def _contradictions(table: Table) -> Iterator[Contradiction]:
    """Yield the keys that have to change, with the reason and the remedy: a lock that is missing or cannot work at the
    table's location, an archive that takes a clean's commits, readers with needs that cannot be kept, keys that users
    may not set, and policies that never run. The place of a table that is not found yet is not known.
    """
    options = table.options if isinstance(table.options, HudiTableOptions) else HudiTableOptions()
    alone = options.lock is None and options.writers == "none"
    is_known = not is_in_catalog(table.location)
    reasons = {
        "options.lock.provider": misplaced(options.lock, table.location) if options.lock and is_known else None,
        "options.writers": lockless(table.location) if alone and is_known else None,
        "services.archive.options.keep_min_commits": archived_too_early(table),
        "options.readers": misread(table, options),
        "services.catalog_sync.options": _nowhere(table, is_known=is_known),
    }
    reasons |= {f"options.conf.{key}": why_not(key) for key in options.conf}
    yield from (Contradiction(key=key, reason=reason) for key, reason in reasons.items() if reason is not None)
    yield from _holding_back(table, options)


def _nowhere(table: Table, *, is_known: bool) -> str | None:
    """Return the missing parts of the table's place in a catalog that will not be known when the table is found."""
    options = catalog_sync_of(table)
    if options is None:
        return None
    from_metastore = (
        () if is_known else ("database", "table", *(["uri"] if isinstance(table.catalog, HiveCatalog) else []))
    )
    lacking = [key for key in options.lacking if key not in from_metastore]
    return f"set the table's place in its metastore: {', '.join(lacking)}" if lacking else None


def _holding_back(table: Table, options: HudiTableOptions) -> Iterator[Contradiction]:
    """Yield what blocks services on a table that can still be observed."""
    if Service.CLUSTERING in table.policies and options.declared_index is BucketIndex.SIMPLE:
        yield Contradiction(key="services.clustering", reason=_SIMPLE_BUCKETS, blocks=True)
    if Service.TTL in table.policies and options.concurrency == "non_blocking":
        reason = f"writers do not block: {GIVEN_AGAIN}. ttl never runs: remove the policy"
        yield Contradiction(key="services.ttl", reason=reason, blocks=True)
    if options.writers != "live" or table.mode is Mode.OBSERVE or not table.policies:
        return
    if options.lock is None and table.mode is Mode.ACT:
        yield Contradiction(key="options.lock", reason=_NO_LOCK, blocks=True)
    if options.lock is not None and options.lock_proof == "observed" and not leaves_traces(options.lock):
        reason = _NO_TRACE.format(options.lock.provider)
        yield Contradiction(key="options.lock_proof", reason=reason, blocks=True)


class HudiFormat:
    """Reads `.hoodie`. A token takes two stats. An observation takes the properties, a listing of the timeline, one of
    its metadata table, one of the heartbeats while something is pending, and the payloads that were not read before. It
    reads what completed commits wrote if a policy of the table needs it, or always if it is `thorough`.
    """

    name = "hudi"
    table_options: type[Settings] = HudiTableOptions
    catalog_settings: Any = Catalog
    services: Mapping[Service, type[Settings]] = {
        Service.COMPACTION: CompactionOptions,
        Service.LOG_COMPACTION: LogCompactionOptions,
        Service.CLUSTERING: ClusteringOptions,
        Service.CLEAN: CleanOptions,
        Service.ARCHIVE: ArchiveOptions,
        Service.ROLLBACK: RollbackOptions,
        Service.TTL: TtlOptions,
        Service.INDEXING: IndexingOptions,
        Service.SAVEPOINT: SavepointOptions,
        Service.CATALOG_SYNC: CatalogSyncOptions,
        Service.METADATA_VALIDATION: NoOptions,
        Service.METADATA_REBUILD: MetadataRebuildOptions,
    }
    trigger_strategies: Mapping[str, Callable[[Any], Trigger]] = STRATEGIES
    commit_hook: CommitHook | None = HOOK
    writer_engines: tuple[WriterEngine, ...] = ENGINES
    first_services: tuple[Service, ...] = (
        Service.COMPACTION,
        Service.CLUSTERING,
        Service.CLEAN,
        Service.ARCHIVE,
        Service.ROLLBACK,
    )
    sign: Sign | None = Sign(folder=HOME)
    tables_in = staticmethod(tables_in)
    as_found = staticmethod(as_found)
    writer_options = staticmethod(writer_options)
    endangered = staticmethod(endangered_writes)
    awaited = staticmethod(awaited)

    def __init__(self, *, thorough: bool = False) -> None:
        self._thorough = thorough
        self._tokens = Tokens()
        self._shared = SharedFolders(self.name)

    def contradictions(self, table: Table) -> Sequence[Contradiction]:
        """Return the keys that have to change. The place of a table that is not found yet is not known."""
        return tuple(_contradictions(table))

    def shared_name(self, catalog: str, settings: Any, identifier: str) -> str:
        """Raise PermanentError: every catalog knows a Hudi table by its path."""
        raise PermanentError(
            f"a hudi table is named by its path; the catalog {shown(catalog)} is for patterns, which find {identifier}"
        )

    def token(self, table: Table, storage: Storage) -> str:
        """Return the version of the properties file, and the stamp of the timeline's folder that they name."""
        return self._tokens.of(table.location, storage)

    def observe(self, table: Table, storage: Storage, previous: Observation | None, *, now: datetime) -> Observation:
        """Return the table's view.

        An equal token vouches for it until the next heartbeat that guards a pending instant expires. It does not
        vouch for it if the view has faults, if its newest change is younger than two seconds, or if a pending write
        has no heartbeat. The first heartbeat comes a moment after the write's first file, into a folder that the token
        does not watch.
        """
        commits = self._thorough or needs_commits(table)

        def look() -> Observation:
            return observed(table, storage, previous, token=self.token(table, storage), commits=commits, now=now)

        sharing = self._shared.of([table.location], storage, now=now)
        return sharing.shown_in(around(table, storage, look), now=now)

    def defaults_file(self, environment: Mapping[str, str]) -> Path:
        """Return where Hudi's writers look for `hudi-defaults.conf`."""
        return Path(environment.get("HUDI_CONF_DIR", "/etc/hudi/conf")) / "hudi-defaults.conf"

    def options_from(self, defaults: bytes) -> WriterDefaults:
        """Return the lock that `hudi-defaults.conf` names, if it names one."""
        lock, remarks = lock_named_by(parse_properties(defaults))
        return WriterDefaults(options={} if lock is None else {"lock": lock}, remarks=remarks)

    def keeping(self, commits: int) -> Mapping[Service, Mapping[str, Any]]:
        """Return the options that keep so many commits. Archive keeps more of them on the timeline, as by default."""
        by_default = ArchiveOptions()
        more = max(0, commits - RETAINED_BY_HUDI)
        return {
            Service.CLEAN: {"commits_retained": commits},
            Service.ARCHIVE: {
                "keep_min_commits": by_default.keep_min_commits + more,
                "keep_max_commits": by_default.keep_max_commits + more,
            },
        }


HUDI = HudiFormat()

THOROUGH = HudiFormat(thorough=True)
"""For callers that need to know what each commit wrote, whatever the table's policies ask for."""
