"""What is read of an Iceberg table, with everything filled in, so that a test names only what it is about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import count
from typing import Any

from lakewarden.planners.formats.iceberg.metadata.digests import LiveFile
from lakewarden.planners.formats.iceberg.metadata.manifests import FileContent, Manifest
from lakewarden.planners.formats.iceberg.metadata.metadata import MAIN, PartitionField, Ref, Snapshot, TableMetadata
from lakewarden.planners.model.instant import Service
from tests.support.values import NOW

MIB = 2**20

_KEYS = count(1)
_DAY = PartitionField(field_id=1000, name="p", transform="identity")
_FILE = LiveFile(
    partition="p=0",
    spec=0,
    content=FileContent.DATA,
    is_vector=False,
    size=MIB,
    records=100,
    sequence=1,
    snapshot=1,
    key=0,
    references=None,
)


def a_file(partition: str = "p=0", **news: Any) -> LiveFile:
    """Return a data file of a MiB with a key of its own, changed by `news`."""
    return _FILE._replace(**{"partition": partition, "key": next(_KEYS), **news})


def files(number: int, partition: str = "p=0", **news: Any) -> list[LiveFile]:
    """Return so many files, all changed by `news`."""
    return [a_file(partition, **news) for _ in range(number)]


def deletes_of(file: LiveFile, **news: Any) -> LiveFile:
    """Return a position delete file that is for one data file alone, committed after it, changed by `news`."""
    own = {
        "content": FileContent.POSITION_DELETES,
        "references": file.key,
        "records": 10,
        "sequence": file.sequence + 1,
    }
    return a_file(file.partition, **{"spec": file.spec, **own, **news})


def a_snapshot(number: int, *, ago: timedelta, operation: str = "append", **summary: str) -> Snapshot:
    """Return a snapshot after the one before it in number, with dashes for the underscores in its summary's keys."""
    return Snapshot(
        id=number,
        parent=number - 1 or None,
        sequence=number,
        at=NOW - ago,
        operation=operation,
        summary={key.replace("_", "-"): text for key, text in summary.items()},
        manifest_list=f"/lake/trips/metadata/snap-{number}.avro",
    )


def of_ours(service: Service, run: str = "r1") -> Mapping[str, str]:
    """Return what the summary of a commit of ours bears."""
    return {"lakewarden.run-id": run, "lakewarden.service": service.value}


def a_commit_of_ours(number: int, service: Service, *, ago: timedelta) -> Snapshot:
    """Return a snapshot by a service of ours."""
    return replace(a_snapshot(number, ago=ago, operation="replace"), summary=of_ours(service))


def a_manifest(**news: Any) -> Manifest:
    """Return a manifest of data files of 10 kB, changed by `news`."""
    told: dict[str, Any] = {
        "path": f"/lake/trips/metadata/{next(_KEYS)}-m0.avro",
        "length": 10_000,
        "spec": 0,
        "of_deletes": False,
        "sequence": 1,
        "added_by": 1,
        "added": 1,
        "existing": 0,
        "deleted": 0,
    }
    return Manifest(**{**told, **news})


def a_metadata(*snapshots: Snapshot, **news: Any) -> TableMetadata:
    """Return a table, partitioned by `p`, whose current snapshot is the last of these, changed by `news`."""
    current = snapshots[-1].id if snapshots else None
    refs: Sequence[Ref] = () if current is None else (Ref(name=MAIN, is_branch=True, snapshot=current),)
    told: dict[str, Any] = {
        "file": "/lake/trips/metadata/v1.metadata.json",
        "format_version": 2,
        "uuid": "u",
        "location": "/lake/trips",
        "updated_at": NOW,
        "properties": {},
        "snapshots": snapshots,
        "current": current,
        "refs": refs,
        "specs": {0: (_DAY,)},
        "default_spec": 0,
        "sort_order": 0,
        "by_id": {one.id: one for one in snapshots},
    }
    return TableMetadata(**{**told, **news})
