"""Snapshots: what a commit of a Paimon table says of itself.

Source: Paimon's table spec, "Snapshot" (docs/docs/concepts/spec/snapshot.md), and the files that paimon-spark 0.9.0,
paimon-flink 1.3.1 and pypaimon 2.1.0 write.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from lakewarden.planners.decoding.json_stream import count, long, moment
from lakewarden.planners.formats.paimon.metadata.files import (
    MALFORMED,
    corrupt,
    file_name,
    json_object,
    require_known,
)
from lakewarden.planners.formats.paimon.metadata.heads import is_of_manifests, run_of
from lakewarden.planners.model.instant import Instant, InstantKind, Service, State, Timeline

NEWEST = 3
"""The newest version of a snapshot file that is known."""

BATCH = 2**63 - 1
"""The commit identifier of a batch job (`BatchWriteBuilder.COMMIT_IDENTIFIER`). A streaming job counts its own."""

_KNOWN = frozenset(
    {
        "version", "id", "schemaId", "baseManifestList", "baseManifestListSize", "deltaManifestList",
        "deltaManifestListSize", "changelogManifestList", "changelogManifestListSize", "indexManifest", "commitUser",
        "commitIdentifier", "commitKind", "timeMillis", "logOffsets", "totalRecordCount", "deltaRecordCount",
        "changelogRecordCount", "watermark", "statistics", "properties", "nextRowId", "operation", "uuid",
        "writerVersion", "tagCreateTime", "tagTimeRetained",
    }
)  # fmt: skip
_LONGEST = 512


class CommitKind(StrEnum):
    """What a commit did (`org.apache.paimon.Snapshot.CommitKind`)."""

    APPEND = "APPEND"
    COMPACT = "COMPACT"
    OVERWRITE = "OVERWRITE"
    ANALYZE = "ANALYZE"


@dataclass(frozen=True, kw_only=True, slots=True)
class Snapshot:
    """One snapshot.

    `base` is the list of the manifests before it, `delta` that of its own, and `changelog` that of its changelog. The
    sizes are those of the lists in bytes; None where the release did not write them. `index` is the manifest of the
    index files, and `statistics` the file with the statistics of the rows. `records` is how many rows there are in all
    files. `unknown` are fields that Lakewarden does not know.
    """

    id: int
    version: int
    schema: int
    base: str
    base_size: int | None
    delta: str
    delta_size: int | None
    changelog: str | None
    index: str | None
    user: str
    identifier: int
    kind: CommitKind
    at: datetime
    records: int | None
    statistics: str | None = None
    unknown: tuple[str, ...] = ()

    @property
    def is_write(self) -> bool:
        """Whether a writer changed rows: compactions and statistics do not, and Lakewarden drops only partitions."""
        return self.kind in (CommitKind.APPEND, CommitKind.OVERWRITE) and run_of(self.user) is None

    @property
    def is_compaction(self) -> bool:
        """Whether files were compacted. Lakewarden's merges of manifests have the same kind."""
        return self.kind is CommitKind.COMPACT and not is_of_manifests(self.user)

    @property
    def is_streaming(self) -> bool:
        """Whether a streaming job made it, which looks for its identifier when it is restored."""
        return self.identifier != BATCH


def parse_snapshot(content: bytes, *, file: str, named: int | None = None, what: str = "snapshot") -> Snapshot:
    """Return what a snapshot file says, or a tag's, which is one. `named` is the id in the file's name.

    Raises CorruptMetadataError and NewerVersionError.
    """
    raw = json_object(content, file=file, what=what)
    try:
        version = count(raw.get("version", 1), "version")
        require_known(file, what, version, NEWEST)
        snapshot = _snapshot(raw, version)
        if named is not None and snapshot.id != named:
            raise ValueError(f"it says that it is snapshot {snapshot.id}")
    except MALFORMED as wrong:
        raise corrupt(file, what, wrong) from wrong
    return snapshot


def _snapshot(raw: Mapping[str, Any], version: int) -> Snapshot:
    records = raw.get("totalRecordCount")
    return Snapshot(
        id=count(raw["id"], "id"),
        version=version,
        schema=count(raw["schemaId"], "schemaId"),
        base=file_name(raw["baseManifestList"]),
        base_size=_maybe(raw.get("baseManifestListSize")),
        delta=file_name(raw["deltaManifestList"]),
        delta_size=_maybe(raw.get("deltaManifestListSize")),
        changelog=_name(raw.get("changelogManifestList")),
        index=_name(raw.get("indexManifest")),
        user=_text(raw["commitUser"]),
        identifier=long(raw["commitIdentifier"], "commitIdentifier"),
        kind=CommitKind(raw["commitKind"]),
        at=moment(raw["timeMillis"], "timeMillis"),
        records=None if records is None else count(records, "totalRecordCount"),
        statistics=_name(raw.get("statistics")),
        unknown=tuple(sorted(key[:80] for key in raw.keys() - _KNOWN))[:8],
    )


def _maybe(value: Any) -> int | None:
    return None if value is None else count(value)


def _name(value: Any) -> str | None:
    return None if value is None else file_name(value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("a text is missing")
    return value[:_LONGEST]


# Snapshots as a timeline: each is an instant that was completed in the moment in which it was committed.

_STANDS_FOR: Mapping[CommitKind, Service | InstantKind] = {
    CommitKind.APPEND: InstantKind.WRITE,
    CommitKind.OVERWRITE: InstantKind.WRITE,
    CommitKind.COMPACT: Service.COMPACTION,
    CommitKind.ANALYZE: Service.TABLE_STATS,
}

_OURS: Mapping[CommitKind, Service] = {CommitKind.COMPACT: Service.COMPACTION, CommitKind.OVERWRITE: Service.TTL}
"""What Lakewarden commits: compactions of files or manifests, and snapshots that drop partitions."""


def timeline_of(snapshots: Iterable[Snapshot]) -> Timeline:
    """Return snapshots, the oldest first. A rollback deletes the newest: nothing follows from one that is missing."""
    return Timeline(instants=tuple(map(instant_of, snapshots)), oldest_leave_first=False)


def time_of(snapshot: int) -> str:
    """Return an instant's time: the number of the snapshot, in ten digits, which sort as text."""
    return f"{snapshot:010d}"


def instant_of(snapshot: Snapshot) -> Instant:
    """Return what the timeline shows of a snapshot."""
    time, run = time_of(snapshot.id), run_of(snapshot.user)
    stands_for = _STANDS_FOR[snapshot.kind] if run is None else _OURS.get(snapshot.kind)
    if snapshot.kind is CommitKind.COMPACT and not snapshot.is_compaction:
        stands_for = Service.ARCHIVE
    return Instant(
        time=time,
        action=sys.intern(snapshot.kind.value.lower()),
        stands_for=stands_for or _STANDS_FOR[snapshot.kind],
        state=State.COMPLETED,
        requested_at=snapshot.at,
        completed_time=time,
        completed_at=snapshot.at,
        author=run if snapshot.kind in _OURS else None,
    )
