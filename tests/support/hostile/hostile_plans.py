"""Hudi tables with plans that would harm what is not theirs: other tables, or their own metadata."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import fastavro

from tests.support.hostile.hostile_table import Looks, Place, hostile
from tests.support.hudi.hudi_table import CLEAN_PLAN, avro

_FIXTURES = Path(__file__).parents[2] / "fixtures" / "hudi"
_STRINGS = {"type": "array", "items": "string"}
_ROLLBACK_PLAN = {
    "type": "record", "name": "HoodieRollbackPlan", "fields": [
        {"name": "instantToRollback", "type": {"type": "record", "name": "HoodieInstantInfo", "fields": [
            {"name": "commitTime", "type": "string"}, {"name": "action", "type": "string"}]}},
        {"name": "RollbackRequests", "type": {"type": "array", "items": {
            "type": "record", "name": "HoodieRollbackRequest", "fields": [
                {"name": "partitionPath", "type": "string"}, {"name": "fileId", "type": ["null", "string"]},
                {"name": "latestBaseInstant", "type": ["null", "string"]},
                {"name": "filesToBeDeleted", "type": _STRINGS}]}}},
        {"name": "version", "type": "int"},
    ],
}  # fmt: skip
_CLUSTERING_PLAN = {
    "type": "record", "name": "HoodieRequestedReplaceMetadata", "fields": [
        {"name": "operationType", "type": "string"},
        {"name": "clusteringPlan", "type": {"type": "record", "name": "HoodieClusteringPlan", "fields": [
            {"name": "inputGroups", "type": {"type": "array", "items": {
                "type": "record", "name": "HoodieClusteringGroup", "fields": [
                    {"name": "slices", "type": {"type": "array", "items": {
                        "type": "record", "name": "HoodieSliceInfo", "fields": [
                            {"name": "dataFilePath", "type": "string"}, {"name": "deltaFilePaths", "type": _STRINGS},
                            {"name": "fileId", "type": "string"}, {"name": "partitionPath", "type": "string"}]}}}]}}},
        ]}},
    ],
}  # fmt: skip


# -- cleans


def _clean(
    name: str,
    attacks: str,
    *,
    files: Callable[[Place], Sequence[str]] = lambda _: (),
    partitions: Callable[[Place], Sequence[str]] = lambda _: (),
    of_partition: str = "p0",
) -> None:
    """Take in a table with one pending clean, of files by their paths and of whole partitions."""

    def make(place: Place) -> None:
        table = place.hudi()
        to_delete = {of_partition: [{"filePath": path} for path in files(place)]} if files(place) else {}
        plan = {"filePathsToBeDeletedPerPartition": to_delete, "partitionsToBeDeleted": list(partitions(place))}
        table.put(f"{table.next_time()}.clean.requested", avro(CLEAN_PLAN, plan))

    hostile("hudi", attacks, Looks.BLOCKED, name=name)(make)


def canaries(place: Place) -> list[str]:
    """Return the paths of the other table's data files."""
    return [str(path) for path in sorted((place.foreign / "p0").glob("keep-*"))]


_clean("clean_of_another_table", "Files of another table.", files=lambda place: [f"file:{c}" for c in canaries(place)])
_clean("clean_without_a_scheme", "Files of another table, without a scheme.", files=canaries)
_clean(
    "clean_of_an_authority",
    "Files of another table, by the name of a host.",
    files=lambda place: [f"file://localhost{c}" for c in canaries(place)],
)
_clean(
    "clean_through_dots",
    "Files of another table, by a path that begins in this one.",
    files=lambda place: [f"file:{place.folder}/p0/../../../foreign/p0/{Path(c).name}" for c in canaries(place)],
)
_clean(
    "clean_through_encoded_dots",
    "The same with dots that are encoded.",
    files=lambda place: [
        f"file:{place.folder}/p0/%2e%2e/%2E./../../foreign/p0/{Path(c).name}" for c in canaries(place)
    ],
)
_clean(
    "clean_through_slashes",
    "The same with more slashes than needed, and backslashes.",
    files=lambda place: [
        f"file:///{place.folder}//p0/..//..///..//foreign//p0/{Path(c).name}" for c in canaries(place)
    ],
)
_clean(
    "clean_by_a_relative_path",
    "Files of another table, by a path that begins nowhere.",
    files=lambda place: [f"../../foreign/p0/{Path(c).name}" for c in canaries(place)],
)
_clean(
    "clean_of_a_namesake",
    "Files of a table whose path begins as this one's.",
    files=lambda place: [f"file:{place.folder}_of_others/p0/keep.parquet"],
)
_clean(
    "clean_of_another_store", "Files of another store.", files=lambda _: ["s3://other/p0/a.parquet", "hdfs://nn/p0/a"]
)
_clean(
    "clean_of_a_partition_of_another",
    "Files whose partition is another table's.",
    files=lambda place: [Path(c).name for c in canaries(place)],
    of_partition="../../foreign/p0",
)
_clean("clean_of_another_folder", "A whole folder, which is another table's.", partitions=lambda _: ["../../foreign"])
_clean(
    "clean_of_an_absolute_folder",
    "A folder by its absolute path: of two slashes, Hudi takes away one.",
    partitions=lambda place: [f"/{place.foreign}"],
)
_clean("clean_of_everything", "The partition that is the whole table.", partitions=lambda _: [""])
_clean("clean_of_itself", "The partition that is this folder.", partitions=lambda _: [".", "/", "./p0/.."])
_clean("clean_of_the_metadata", "A partition that is the table's metadata.", partitions=lambda _: [".hoodie"])
_clean(
    "clean_of_the_properties",
    "A file that is the table's metadata.",
    files=lambda place: [f"file:{place.folder}/.hoodie/hoodie.properties"],
)
_clean(
    "clean_with_escapes",
    "A partition whose name is an escape sequence and a line of a log.",
    partitions=lambda _: ["\x1b[2J\u202e..\n2026-01-01 ERROR gone/../.."],
)


@hostile("hudi", "Files of another table, by a partition that is a link to it.", Looks.BLOCKED)
def clean_through_a_link(place: Place) -> None:
    table = place.hudi()
    (place.folder / "p1").symlink_to(place.foreign / "p0")
    names = tuple(Path(canary).name for canary in canaries(place))
    table.plan_clean(files={"p1": names})


@hostile("hudi", "A whole partition that is a link to another table.", Looks.BLOCKED)
def clean_of_a_linked_folder(place: Place) -> None:
    table = place.hudi()
    (place.folder / "p1").symlink_to(place.foreign)
    table.plan_clean(partitions=("p1/p0",))


# -- what is executed without deleting, and what is rolled back


@hostile("hudi", "A compaction that reads and writes in another table's folder.", Looks.BLOCKED)
def compaction_of_another_table(place: Place) -> None:
    name = Path(canaries(place)[0]).name
    place.hudi().plan_compaction(files={"../../foreign/p0": (name, f".{name}.log.1_0-1-2")})


@hostile("hudi", "A compaction of files by absolute paths.", Looks.BLOCKED)
def compaction_of_absolute_files(place: Place) -> None:
    place.hudi().plan_compaction(files={"p0": tuple(f"file:{canary}" for canary in canaries(place))})


@hostile("hudi", "A clustering of another table's files, which then counts them as replaced.", Looks.BLOCKED)
def clustering_of_another_table(place: Place) -> None:
    table = place.hudi()
    slices = [
        {
            "dataFilePath": f"file:{canary}",
            "deltaFilePaths": [],
            "fileId": "keep-0",
            "partitionPath": "../../foreign/p0",
        }
        for canary in canaries(place)
    ]
    plan = {"operationType": "CLUSTER", "clusteringPlan": {"inputGroups": [{"slices": slices}]}}
    table.put(f"{table.next_time()}.clustering.requested", avro(_CLUSTERING_PLAN, plan))


@hostile("hudi", "A rollback that nobody finished, of files of another table.", Looks.BLOCKED)
def rollback_of_another_table(place: Place) -> None:
    table = place.hudi()
    write = table.begin_write(heartbeat=False)
    to_delete = [
        {
            "partitionPath": "../../foreign/p0",
            "fileId": None,
            "latestBaseInstant": None,
            "filesToBeDeleted": [f"file:{canary}" for canary in canaries(place)],
        }
    ]
    undone = {"commitTime": write, "action": "deltacommit"}
    plan = {"instantToRollback": undone, "RollbackRequests": to_delete, "version": 1}
    table.put(f"{table.next_time()}.rollback.requested", avro(_ROLLBACK_PLAN, plan))


@hostile("hudi", "Commits that say they wrote another table's files: what plans are made from.", Looks.SHOWN)
def commits_of_another_table(place: Place) -> None:
    stats = [
        {"fileId": "keep-0", "path": f"../../foreign/p0/{Path(canary).name}", "fileSizeInBytes": 8}
        for canary in canaries(place)
    ]
    table = place.hudi()
    for _ in range(8):
        table.write({"../../foreign/p0": stats, "/etc": stats, "": stats})


# -- copies


def _copy(kind: str, version: int) -> None:
    def make(place: Place) -> None:
        place.folder.mkdir()
        with zipfile.ZipFile(_FIXTURES / f"{kind}_v{version}.zip") as packed:
            packed.extractall(place.folder)
        original = place.foreign / "original" / kind
        for file in (place.folder / ".hoodie").rglob("*.requested"):
            _move(file, original)

    attacks = "A copied table: its pending plans, by real Hudi, name the files of the original."
    looks = Looks.BLOCKED if kind == "mor" else Looks.SHOWN  # the copy-on-write tables have plans, and none that pends
    hostile("hudi", attacks, looks, name=f"copy_of_{kind}_v{version}")(make)


def _move(file: Path, original: Path) -> None:
    """Let a plan name the original where we know it, with a canary in place of each file that it deletes."""
    content = file.read_bytes()
    if not content.startswith(b"Obj") or not file.name.endswith("clean.requested"):
        return
    reader = fastavro.reader(io.BytesIO(content))
    record: Any = next(reader)
    for partition, to_delete in record["filePathsToBeDeletedPerPartition"].items():
        for one in to_delete:
            canary = original / partition / str(one["filePath"]).rpartition("/")[2]
            canary.parent.mkdir(parents=True, exist_ok=True)
            canary.write_bytes(b"canary of the original")
            one["filePath"] = f"file:{canary}"
    schema: Any = reader.writer_schema
    out = io.BytesIO()
    fastavro.writer(out, schema, [record])
    file.write_bytes(out.getvalue())


for _kind in ("mor", "cow"):
    for _version in (6, 8, 9):
        _copy(_kind, _version)
