"""Where a directory can be compacted, and what a killed compaction has left there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from lakewarden.planners.formats.directory.compacting.acts import act_of
from lakewarden.planners.formats.directory.listing.names import DROP, OURS
from lakewarden.planners.formats.directory.options.compaction_options import CompactionOptions, Publication
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.printable import printable
from lakewarden.planners.model.view import Blocker
from lakewarden.planners.ports import MOST_FILES, Storage
from lakewarden.planners.storage.local import LocalStorage
from lakewarden.planners.storage.objects import ObjectStorage


def blockers(location: str, storage: Storage, options: CompactionOptions, log: str | None) -> Iterator[Blocker]:
    """Yield why no partition can be replaced, if so. `log` is the list of a streaming sink in it, or above it."""
    if not isinstance(storage, LocalStorage):
        yield Blocker(
            code="unsupported_store",
            reason=f"partitions in the store of {location} cannot be moved away in one act",
            remedy="partitions are deleted on local disks alone: remove services.ttl",
            services=frozenset({Service.TTL}),
            only_if_configured=True,
        )
        if not is_s3(location, storage):
            yield Blocker(
                code="unsupported_store",
                reason=f"parts in progress in the store of {location} cannot be looked at file by file",
                remedy="such parts are deleted on local disks and S3: remove services.orphans",
                services=frozenset({Service.ORPHANS}),
                only_if_configured=True,
            )
    why = why_not_there(location, storage, options)
    if why is not None:
        yield Blocker(
            code="unsupported_store",
            reason=why,
            remedy=_remedy(location, storage),
            services=frozenset({Service.COMPACTION}),
        )
    if log is not None:
        listed = f"{log} may list the files of {location}: Spark's streaming sink lists its files by name there"
        if why is None:
            yield Blocker(
                code="unsupported_table",
                reason=listed,
                remedy="remove services.compaction: readers of that list would miss the files that were replaced",
                services=frozenset({Service.COMPACTION}),
            )
        yield Blocker(
            code="unsupported_table",
            reason=listed,
            remedy="remove services.ttl: readers of that list would fail at the files that were deleted",
            services=frozenset({Service.TTL}),
            only_if_configured=True,
        )


def why_not_there(location: str, storage: Storage, options: CompactionOptions) -> str | None:
    """Return why partitions cannot be replaced in the way that the options ask for; None if they can."""
    if options.publication is Publication.EXCHANGE:
        known = isinstance(storage, LocalStorage)
        return None if known else f"the store of {location} cannot exchange two folders in one act"
    if is_s3(location, storage):
        return None
    way = f"the publication {options.publication.value}"
    if isinstance(storage, LocalStorage):
        return f"{way} is for S3: partitions on local disks are exchanged, which is safer"
    return f"{way} was not tried in the store of {location}"


def _remedy(location: str, storage: Storage) -> str:
    if isinstance(storage, LocalStorage):
        return "remove services.compaction.options.publication"
    if is_s3(location, storage):
        return (
            "set services.compaction.options.publication to metastore if all readers go by options.metastore, or to "
            "with_duplicates if readers may find rows twice for a moment, or remove services.compaction"
        )
    return "directories are compacted on local disks and S3: remove services.compaction"


def is_s3(location: str, storage: Storage) -> bool:
    """Whether a directory lies on S3."""
    return location.startswith("s3://") and isinstance(storage, ObjectStorage)


def unfinished(location: str, storage: Storage, options: CompactionOptions) -> Mapping[Service, str]:
    """Return in words what earlier runs have left, by the service that acted."""
    if not isinstance(storage, LocalStorage):
        if options.publication is Publication.EXCHANGE or not is_s3(location, storage):
            return {}
        act = act_of(location, storage)
        return {} if act is None else {Service.COMPACTION: f"an act of the run {printable(act.run)} is {act.progress}"}
    try:
        names = [one.name for one in storage.listing(f"{location}/{OURS}", most=MOST_FILES)]
    except FileNotFoundError:
        return {}
    left = Counter(Service.TTL if name.startswith(DROP) else Service.COMPACTION for name in names)
    return {one: f"a run that ended early has left {count} acts in {OURS}" for one, count in left.items()}
