"""Settings of one Hudi table that cannot hold together."""

from __future__ import annotations

from collections.abc import Iterator

from lakewarden.planners.formats.hudi.backlog.archiving import archived_too_early
from lakewarden.planners.formats.hudi.catalogs import HiveCatalog
from lakewarden.planners.formats.hudi.deletion.readers import misread
from lakewarden.planners.formats.hudi.options.locks import lockless, misplaced
from lakewarden.planners.formats.hudi.options.ours import why_not
from lakewarden.planners.formats.hudi.options.service_options import CatalogSyncOptions
from lakewarden.planners.formats.hudi.options.table_options import BucketIndex, HudiTableOptions
from lakewarden.planners.formats.hudi.writers.acquisitions.sights import leaves_traces
from lakewarden.planners.formats.hudi.writers.non_blocking import GIVEN_AGAIN
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Mode, Table
from lakewarden.planners.ports import Contradiction
from lakewarden.planners.storage.locations import is_in_catalog

_NO_LOCK = (
    "is missing, and mode is act: nothing runs beside live writers without a lock that both sides name. Name the "
    "writers' lock (docs/writers.md), or say writers: none where nobody writes"
)


_NO_TRACE = (
    "a {} lock leaves no trace of having been taken, so nobody can see whether the writers take it: nothing runs. "
    "Compare the lock options of every writer with `lakewarden writer-options`, then set lock_proof: trusted"
)
_SIMPLE_BUCKETS = "files of a simple bucket index must not be clustered: it never runs. Remove the policy"


def contradictions(table: Table) -> Iterator[Contradiction]:
    """Yield the keys that have to change, why, and what to set: a lock that is missing or cannot work where the table
    is, an archive that takes a clean's commits, readers whose needs cannot be kept, keys that are not the user's to
    set, and what never runs. Where a table that is yet to be found will be, is not known.
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
    """Return what is not known of the table's place in a catalog, and will not be when the table is found."""
    policy = table.policies.get(Service.CATALOG_SYNC)
    options = policy.options if policy is not None else None
    if not isinstance(options, CatalogSyncOptions):
        return None
    told = () if is_known else ("database", "table", *(["uri"] if isinstance(table.catalog, HiveCatalog) else []))
    lacking = [key for key in options.lacking if key not in told]
    return f"say what the table is called in which metastore: {', '.join(lacking)}" if lacking else None


def _holding_back(table: Table, options: HudiTableOptions) -> Iterator[Contradiction]:
    """Yield what keeps services from running on a table that can be looked at all the same."""
    if Service.CLUSTERING in table.policies and options.declared_index is BucketIndex.SIMPLE:
        yield Contradiction(key="services.clustering", reason=_SIMPLE_BUCKETS, holds_back=True)
    if Service.TTL in table.policies and options.concurrency == "non_blocking":
        reason = f"writers do not block: {GIVEN_AGAIN}. It never runs: remove the policy"
        yield Contradiction(key="services.ttl", reason=reason, holds_back=True)
    if options.writers != "live" or table.mode is Mode.OBSERVE or not table.policies:
        return
    if options.lock is None and table.mode is Mode.ACT:
        yield Contradiction(key="options.lock", reason=_NO_LOCK, holds_back=True)
    if options.lock is not None and options.lock_proof == "observed" and not leaves_traces(options.lock):
        reason = _NO_TRACE.format(options.lock.provider)
        yield Contradiction(key="options.lock_proof", reason=reason, holds_back=True)
