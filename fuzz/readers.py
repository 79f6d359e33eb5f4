"""The readers that are fuzzed, each with some valid inputs to begin with. A refusal in our own words is no finding."""

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
from lakewarden.planners.formats.hudi.metadata.properties import read_table_properties
from lakewarden.planners.formats.hudi.metadata.timeline import to_utc
from lakewarden.planners.formats.iceberg import ICEBERG
from lakewarden.planners.formats.iceberg.metadata.digests import ManifestDigest
from lakewarden.planners.formats.iceberg.metadata.manifests import Manifest, read_manifest, read_manifest_list
from lakewarden.planners.formats.iceberg.metadata.parsing import parse_metadata
from lakewarden.planners.formats.iceberg.options.service_options import CleanOptions, CompactionOptions
from lakewarden.planners.formats.paimon import PAIMON
from lakewarden.planners.formats.paimon.metadata import manifests as paimon_manifests
from lakewarden.planners.formats.paimon.metadata.files import partition_path as paimon_partition
from lakewarden.planners.formats.paimon.metadata.schemas import parse_schema
from lakewarden.planners.formats.paimon.metadata.snapshots import parse_snapshot
from lakewarden.planners.model.clock import ManualClock
from lakewarden.planners.model.errors import LakewardenError
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Policy, Table, TableId
from lakewarden.planners.ports import FileEntry, TableFormat
from lakewarden.planners.storage.local import LocalStorage
from lakewarden.planners.triggers import NumCommits
from lakewarden.service.commands.observing import explanation_of
from tests.support.hostile import hostile_avro
from tests.support.hudi.hudi_table import HudiTable, base_file, log_file
from tests.support.iceberg.iceberg_table import EQUALITY_DELETES, POSITION_DELETES, IcebergTable
from tests.support.paimon.paimon_table import PaimonTable

NAMES = (
    "hudi_payload", "hudi_properties", "hudi_names", "hudi_table",
    "iceberg_metadata", "iceberg_manifest_list", "iceberg_manifest", "iceberg_table",
    "paimon_snapshot", "paimon_schema", "paimon_manifest_list", "paimon_manifest", "paimon_index_manifest",
    "paimon_table",
)  # fmt: skip

_NOW = datetime(2026, 3, 1, tzinfo=UTC)


@dataclass(frozen=True, kw_only=True, slots=True)
class Reader:
    """A reader and its valid inputs. `read` returns the result for an input, and may raise only its `refusals`. Any
    other exception is a finding.
    """

    read: Callable[[bytes], str]
    seeds: Sequence[bytes]
    refusals: tuple[type[Exception], ...] = (LakewardenError,)


def readers(folder: Path) -> Mapping[str, Reader]:
    """Return every reader by its name. The tables of the readers that read whole tables lie below `folder`."""
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
        **_paimon_readers(folder / "paimon"),
    }


def _paimon_readers(folder: Path) -> Mapping[str, Reader]:
    table = PaimonTable(folder, clock=ManualClock(), codec="deflate")
    table.append(table.file(0), table.file(1), user="job", identifier=1)
    table.compact(p=0)
    table.delete_vectors({"data-00000002-0.parquet": 1})
    table.append(user="job", identifier=2)
    table.tag("daily", 1)
    table.branch("try")
    table.consume("reader", 1)
    manifests = sorted((folder / "manifest").iterdir())
    lists = [path.read_bytes() for path in manifests if path.name.startswith("manifest-list-")]
    indexes = [path.read_bytes() for path in manifests if path.name.startswith("index-")]
    others = [table.manifest_file(one).read_bytes() for one in table.manifests[table.newest]]
    snapshots = [table.snapshot_file(number).read_bytes() for number in table.snapshots]
    return {
        "paimon_snapshot": Reader(
            read=lambda content: str(parse_snapshot(content, file="/t/snapshot-1")), seeds=snapshots
        ),
        "paimon_schema": Reader(
            read=lambda content: str(parse_schema(content, file="/t/schema-0", named=0)),
            seeds=[(folder / "schema" / "schema-0").read_bytes()],
        ),
        "paimon_manifest_list": Reader(
            read=lambda content: str(len(paimon_manifests.read_manifest_list(content, file="/t/l"))),
            seeds=[*lists, *_crafted()],
        ),
        "paimon_manifest": Reader(read=_paimon_manifest, seeds=[*others, *_crafted()]),
        "paimon_index_manifest": Reader(
            read=lambda content: str(paimon_manifests.read_index_manifest(content, file="/t/i")),
            seeds=[*indexes, *_crafted()],
        ),
        "paimon_table": _whole(PAIMON, folder, folder),
    }


def _paimon_manifest(content: bytes) -> str:
    """Read a manifest with as many files as its list says, or with none."""
    found = []
    for added, deleted in ((1, 0), (2, 0), (1, 2)):
        meta = paimon_manifests.ManifestMeta(name="m", size=len(content), added=added, deleted=deleted)
        with suppress(LakewardenError):
            digest = paimon_manifests.digest_of(content, meta, file="/t/m", small=2**20)
            found += [paimon_partition(key[0], ["p"], ["INT"]) for key in digest.tallies]
    return " ".join(found)


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
    lambda record: written([record]), lambda record: partitions_to_come([record]), checkpoints,
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
    """A storage in which every file has this content."""

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
    digest = ManifestDigest(read_manifest(content, _MANIFEST, {}), spec=0)
    return str(sorted(digest.touched_by(1)))


_HINTS = ("version-hint.text", "LATEST", "EARLIEST")


def _whole(format_: TableFormat, folder: Path, below: Path) -> Reader:
    """Return a reader of a whole table with one file exchanged. The first byte of the input says which."""
    files = sorted(path for path in below.rglob("*") if path.is_file() and path.name not in _HINTS)
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
        json.dumps(explanation_of(table, view, now=_NOW).model_dump(mode="json"), allow_nan=False).encode()
        return " ".join((*view.faults, *(one.reason for one in view.blockers)))

    return Reader(read=read, seeds=[bytes([at % 256]) + sound[path] for at, path in enumerate(files)])
