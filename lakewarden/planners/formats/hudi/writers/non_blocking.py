"""Writers without blocking (`NON_BLOCKING_CONCURRENCY_CONTROL`, Hudi 1.0 and later): the declaration is compared with
the names of the file groups that they write to.

Such writers append to the log files of the same file groups at once, and check no conflict before they commit. Only a
bulk insert does (`HoodieWriteConfig.needResolveWriteConflict`, bytecode of 1.2.0). Completion times say to which slice
a log file belongs. So no such writer can lose to a compaction, which waits for none. They need a simple bucket index
on a merge-on-read table of version 8 or later (`HoodieWriteConfig.Builder.validate`, `CommonClientUtils`). A file group
that one of them makes has the same name for all, `<bucket>-0000-0000-0000-000000000000-0`
(`BucketIdentifier.newBucketFileIdForNBCC`), and keeps it under any writer. Existing buckets keep their names.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from enum import StrEnum

from lakewarden.planners.decoding.json_stream import counted
from lakewarden.planners.formats.hudi.metadata.payloads import Chunks
from lakewarden.planners.formats.hudi.metadata.properties import TableProperties
from lakewarden.planners.formats.hudi.metadata.timeline import Known
from lakewarden.planners.formats.hudi.metadata.tokens import Reading
from lakewarden.planners.formats.hudi.options.table_options import HudiTableOptions
from lakewarden.planners.model.instant import InstantKind, Service, State
from lakewarden.planners.model.table import Table
from lakewarden.planners.model.view import Blocker

_SHARED = re.compile(r"\d{8}-0000-0000-0000-000000000000(-\d+)?", re.ASCII)
_SHARED_FILE = re.compile(rf"\.?{_SHARED.pattern}_.*", re.ASCII | re.DOTALL)
_BUCKET = re.compile(r"\d{8}-.*", re.ASCII | re.DOTALL)
_BY_COMPLETION_TIMES = 8
_LARGEST = 2**20
"""The largest commit that is read for its names."""
_COMMITS = 5
"""The newest commits that are looked at. One alone may have written to older buckets."""


class Names(StrEnum):
    """What the names of file groups tell of the writers that made them."""

    SHARED = "shared"
    """Some are names that every writer without blocking gives, and all are of buckets."""
    OF_BUCKETS = "of buckets"
    """All are of buckets, and made by writers that block, or by older ones."""
    OTHERS = "others"
    """Some are not of buckets: no writer without blocking writes to such a file group."""


def bears_shared_name(file: str) -> bool:
    """Whether a base or log file belongs to a file group with a name that writers without blocking give again after the
    file group is gone.

    If a partition is deleted, Hudi knows its replaced file groups by their names alone. It hides what is written to
    such a name afterwards, and the next clean deletes it (docs/hudi.md).
    """
    return _SHARED_FILE.fullmatch(file) is not None


def names_told(chunks: Chunks) -> Names | None:
    """Return what the file groups tell that a commit wrote to; None if it wrote to none."""
    by_partition = (chunk.get("partitionToWriteStats") or {} for chunk in chunks)
    return told_by(
        {str(stat.get("fileId")) for stats in by_partition for written in stats.values() for stat in written}
    )


def told_by(names: Collection[str]) -> Names | None:
    """Return what these file groups tell by their names; None if there are none."""
    if not names:
        return None
    if not all(_BUCKET.fullmatch(name) for name in names):
        return Names.OTHERS
    return Names.SHARED if any(_SHARED.fullmatch(name) for name in names) else Names.OF_BUCKETS


def found_in(
    table: Table,
    options: HudiTableOptions,
    known_instants: Sequence[Known],
    properties: TableProperties,
    reading: Reading,
) -> Names | None:
    """Return what the newest writes tell; None if they tell nothing, or if it does not matter: nothing is declared, and
    no policy asks for a service to which it matters.
    """
    if not _is_possible(properties):
        return None
    if options.concurrency != "non_blocking" and _MATTERS_TO.isdisjoint(table.policies):
        return None
    writes = (instant.files for instant in reversed(known_instants) if instant.stands_for is InstantKind.WRITE)
    completed = [write.completed for write in writes if write.state is State.COMPLETED and write.completed is not None]
    names = [
        commit_names
        for entry in completed[:_COMMITS]
        if entry.size <= _LARGEST and (commit_names := reading.fact_if_whole(entry, names_told)) is not None
    ]
    if names and names[0] is Names.OTHERS:
        return Names.OTHERS
    return Names.SHARED if Names.SHARED in names else (names[0] if names else None)


_MATTERS_TO = frozenset({Service.COMPACTION, Service.CLUSTERING, Service.TTL})


def believed(options: HudiTableOptions, properties: TableProperties, names: Names | None) -> bool:
    """Whether the table's writers do not block: its owner declares it, and the names do not contradict it. If nothing
    was written yet, or lately, there is no write to wait for either.
    """
    return options.concurrency == "non_blocking" and names in (None, Names.SHARED) and _is_possible(properties)


def warning(options: HudiTableOptions, properties: TableProperties, names: Names | None) -> str | None:
    """Return what an operator should know of the declaration and of the names."""
    declared = options.concurrency == "non_blocking"
    if declared and not _is_possible(properties):
        return (
            "concurrency: non_blocking is not believed, and compaction waits for writes: Hudi has it only on "
            "merge-on-read tables of version 8 or later. Remove it from the table's options"
        )
    if declared and names is Names.OTHERS:
        return (
            "concurrency: non_blocking is not believed, and compaction waits for writes: the newest commit wrote to "
            "file groups that are not buckets, which no such writer does. Give all writers what `lakewarden "
            "writer-options` prints, with hoodie.index.type=BUCKET, or remove it from the table's options"
        )
    if declared and names is Names.OF_BUCKETS:
        return (
            "concurrency: non_blocking is declared, and nothing shows it, so compaction waits for writes: the newest "
            "commits wrote to buckets that other writers have made. If all writers have "
            "hoodie.write.concurrency.mode=NON_BLOCKING_CONCURRENCY_CONTROL, leave it: it is believed when one of "
            "them has made a bucket. Otherwise remove it from the table's options"
        )
    if not declared and names is Names.SHARED:
        return (
            "the newest commits wrote to buckets that writers without blocking have made: if all writers have "
            "hoodie.write.concurrency.mode=NON_BLOCKING_CONCURRENCY_CONTROL, set options: {concurrency: "
            "non_blocking}, and compaction waits for none of them"
        )
    return None


def not_deleted(table: Table, options: HudiTableOptions, names: Names | None) -> Blocker | None:
    """Return what keeps partitions from being deleted; None if nothing does, or no policy asks for it."""
    if Service.TTL not in table.policies:
        return None
    if options.concurrency != "non_blocking" and names is not Names.SHARED:
        return None
    return Blocker(
        services=frozenset({Service.TTL}),
        code="writers_do_not_block",
        reason=f"the table's writers do not block: {GIVEN_AGAIN}",
        remedy="remove its ttl policy, and delete old rows by their keys",
    )


GIVEN_AGAIN = (
    "they give the buckets of a deleted partition the same names again, and Hudi would hide and delete what they write "
    "to it afterwards"
)


def _is_possible(properties: TableProperties) -> bool:
    version = counted(properties.version)
    return properties.merge_on_read and version is not None and version >= _BY_COMPLETION_TIMES
