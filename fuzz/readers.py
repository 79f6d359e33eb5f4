"""What is fuzzed: each reader, with some sound inputs to begin with. A refusal in our own words is no finding."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from lakewarden.planners.formats.hudi.backlog.archiving import checkpoints
from lakewarden.planners.formats.hudi.format import THOROUGH
from lakewarden.planners.formats.hudi.metadata import plans
from lakewarden.planners.formats.hudi.metadata.commits import partitions_to_come, written
from lakewarden.planners.formats.hudi.metadata.names import Layout, collapse
from lakewarden.planners.formats.hudi.metadata.payloads import MALFORMED, UnreadableError, decode
from lakewarden.planners.formats.hudi.metadata.table_properties import read_table_properties
from lakewarden.planners.formats.hudi.metadata.times import to_utc
from lakewarden.planners.formats.iceberg import ICEBERG
from lakewarden.planners.formats.iceberg.metadata.digests import Digest
from lakewarden.planners.formats.iceberg.metadata.manifests import Manifest, read_manifest, read_manifest_list
from lakewarden.planners.formats.iceberg.metadata.metadata import parse_metadata
from lakewarden.planners.formats.iceberg.options.service_options import CleanOptions, CompactionOptions
from lakewarden.planners.model.clock import ManualClock
from lakewarden.planners.model.errors import LakewardenError
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Policy, Table, TableId
from lakewarden.planners.ports import FileEntry, TableFormat
from lakewarden.planners.storage.local import LocalStorage
from lakewarden.planners.triggers import NumCommits
from lakewarden.service.reporting.inspect import report
from tests.support import hostile_avro
from tests.support.hudi_table import HudiTable, base_file, log_file
from tests.support.iceberg_table import EQUALITY_DELETES, POSITION_DELETES, IcebergTable

NAMES = (
    "hudi_payload", "hudi_properties", "hudi_names", "hudi_table",
    "iceberg_metadata", "iceberg_manifest_list", "iceberg_manifest", "iceberg_table",
)  # fmt: skip

_NOW = datetime(2026, 3, 1, tzinfo=UTC)


@dataclass(frozen=True, kw_only=True, slots=True)
class Reader:
    """What reads, and what it is known to read. `read` returns what it says of an input, and raises nothing but its
    `refusals`: whatever else it raises is a finding.
    """

    read: Callable[[bytes], str]
    seeds: Sequence[bytes]
    refusals: tuple[type[Exception], ...] = (LakewardenError,)


def readers(folder: Path) -> Mapping[str, Reader]:
    """Return every reader by its name; the tables of those that look at whole ones lie below `folder`."""
    hudi, iceberg = _hudi(folder / "hudi"), _iceberg(folder / "iceberg")
    payloads = [path.read_bytes() for path in sorted(hudi.timeline.iterdir())] + list(_crafted())
    lists = [path.read_bytes() for path in sorted(iceberg.metadata.glob("snap-*.avro"))] + list(_crafted())
    manifests = [path.read_bytes() for path in sorted(iceberg.metadata.glob("*-m0.avro"))] + list(_crafted())
    metadata = [path.read_bytes() for path in sorted(iceberg.metadata.glob("v*.metadata.json"))]
    names = "\n".join(path.name for path in sorted(hudi.timeline.iterdir())).encode()
    return {
        "hudi_payload": Reader(read=_payload, seeds=payloads, refusals=(UnreadableError,)),
        "hudi_properties": Reader(read=_properties, seeds=[(hudi.home / "hoodie.properties").read_bytes()]),
        "hudi_names": Reader(read=_names, seeds=[names]),
        "hudi_table": _whole(THOROUGH, hudi.folder, hudi.home),
        "iceberg_metadata": Reader(read=_metadata, seeds=[*metadata, gzip.compress(metadata[-1])]),
        "iceberg_manifest_list": Reader(read=_manifest_list, seeds=lists),
        "iceberg_manifest": Reader(read=_manifest, seeds=manifests),
        "iceberg_table": _whole(ICEBERG, iceberg.folder, iceberg.metadata),
    }


def _crafted() -> Iterator[bytes]:
    yield hostile_avro.of_itself(20)
    yield hostile_avro.of_nulls()
    yield hostile_avro.of_negative_counts()
    yield hostile_avro.of_doubled_names(5)
    yield hostile_avro.of_zeros(2**20)


def _hudi(folder: Path) -> HudiTable:
    table = HudiTable(folder, version=9, clock=ManualClock(), zone=UTC)
    for number in range(2):
        table.write({"p0": [base_file(f"a-{number}", "1"), log_file("a", "1")]})
    table.savepoint(table.write({"p1": [base_file("b", "1")]}), {"p1": ("b.parquet",)})
    table.complete_clean(table.plan_clean(files={"p0": ("a.parquet",)}), seen="20260101000001000")
    table.roll_back(table.begin_write())
    table.plan_compaction(run="run-1")
    table.plan_clean(files={"p0": ("c.parquet",)}, partitions=("p9",))
    table.begin_write()
    return table


def _iceberg(folder: Path) -> IcebergTable:
    table = IcebergTable(folder, clock=ManualClock())
    table.append(table.file(0), table.file(1))
    table.commit("delete", add=[table.file(0, content=POSITION_DELETES, bounds_name=table.live()[0].path)])
    table.commit("delete", add=[table.file(1, content=EQUALITY_DELETES)], remove=table.live()[:1])
    table.rewrite_manifests()
    return table


_FACTS: Sequence[Callable[[Any], object]] = (
    plans.compaction_plan, plans.clustering_plan, plans.clean_plan, plans.rollback_target, plans.savepointed_files,
    written, partitions_to_come, checkpoints,
)  # fmt: skip


def _payload(content: bytes) -> str:
    record = decode(content)
    made = []
    for make in _FACTS if record is not None else ():
        with suppress(UnreadableError, *MALFORMED):
            make(record)
            made.append(make.__name__)
    return " ".join(made)


class _OneFile(LocalStorage):
    """Every file has this content."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def read(self, location: str, *, limit: int = 2**26) -> bytes:
        return self._content[:limit]


def _properties(content: bytes) -> str:
    found = read_table_properties("/table", _OneFile(content))
    if not f"{found.timeline_folder}/".startswith("/table/.hoodie/") or ".." in found.timeline_folder.split("/"):
        raise ValueError(f"the timeline is at {found.timeline_folder}")
    found.name.encode()
    return found.kind


def _names(content: bytes) -> str:
    listed = content.decode("utf-8", "surrogateescape").split("\n")
    entries = [FileEntry(name=name, size=0, modified=_NOW) for name in listed]
    for layout in Layout:
        for one in collapse(entries, layout):
            for zone in (UTC, ZoneInfo("America/Los_Angeles")):
                to_utc(one.time, zone)
                to_utc(one.ended, zone)
    return ""


def _metadata(content: bytes) -> str:
    found = parse_metadata(content, file="/table/metadata/v1.metadata.json")
    list(found.ancestors(found.current))
    return str([one.count("total-data-files") for one in found.snapshots])


def _manifest_list(content: bytes) -> str:
    return str(len(read_manifest_list(content, path="/list")))


_MANIFEST = Manifest(
    path="/m", length=1, spec=0, of_deletes=False, sequence=1, added_by=1, added=1, existing=0, deleted=0
)


def _manifest(content: bytes) -> str:
    digest = Digest(read_manifest(content, _MANIFEST, {}), spec=0)
    return str(sorted(digest.touched_by(1)))


def _whole(format_: TableFormat, folder: Path, below: Path) -> Reader:
    """Return a reader that looks at a whole table, one file of which is exchanged: the first byte says which."""
    files = sorted(path for path in below.rglob("*") if path.is_file() and path.name != "version-hint.text")
    sound = {path: path.read_bytes() for path in files}
    services = {Service.COMPACTION: CompactionOptions(), Service.CLEAN: CleanOptions()}
    policies = {
        service: Policy(trigger=NumCommits(at_least=1), options=options) for service, options in services.items()
    }
    table = Table(
        id=TableId("fuzzed"),
        format=format_.name,
        location=str(folder),
        policies=policies if format_.name == ICEBERG.name else {},
    )

    def read(content: bytes) -> str:
        path = files[content[0] % len(files)] if content else files[0]
        path.write_bytes(content[1:])
        try:
            view = format_.observe(table, LocalStorage(), None, now=_NOW).view
        finally:
            path.write_bytes(sound[path])
        json.dumps(report(view, format_.name), allow_nan=False).encode()
        return " ".join((*view.faults, *(one.reason for one in view.hindrances)))

    return Reader(read=read, seeds=[bytes([at % 256]) + sound[path] for at, path in enumerate(files)])
