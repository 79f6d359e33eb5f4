"""Settings of one Hudi table that contradict each other."""

from __future__ import annotations

from collections.abc import Iterator

from lakewarden.planners.formats.hudi.backlog.archiving import archived_too_early
from lakewarden.planners.formats.hudi.catalogs import HiveCatalog
from lakewarden.planners.formats.hudi.deletion.readers import misread
from lakewarden.planners.formats.hudi.options.locks import lockless, misplaced
from lakewarden.planners.formats.hudi.options.ours import why_not
from lakewarden.planners.formats.hudi.options.service_options import catalog_sync_of
from lakewarden.planners.formats.hudi.options.table_options import BucketIndex, HudiTableOptions
from lakewarden.planners.formats.hudi.writers.acquisitions.samples import leaves_traces
from lakewarden.planners.formats.hudi.writers.non_blocking import GIVEN_AGAIN
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Mode, Table
from lakewarden.planners.ports import Contradiction
from lakewarden.planners.storage.locations import is_in_catalog

_NO_LOCK = (
    "is missing, and mode is act: nothing runs beside live writers without a lock that both sides name. Name the "
    "writers' lock (docs/writers.md), or set writers: none if the table has no writers"
)


_NO_TRACE = (
    "a {} lock leaves no trace when it is taken, so nothing shows whether the writers take it, and nothing runs. "
    "Compare the lock options of every writer with `lakewarden writer-options`, then set lock_proof: trusted"
)
_SIMPLE_BUCKETS = "files of a simple bucket index must not be clustered: clustering never runs. Remove the policy"


def contradictions(table: Table) -> Iterator[Contradiction]:
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
    told = () if is_known else ("database", "table", *(["uri"] if isinstance(table.catalog, HiveCatalog) else []))
    lacking = [key for key in options.lacking if key not in told]
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
