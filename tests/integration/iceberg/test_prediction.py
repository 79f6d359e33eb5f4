"""Lakewarden's prediction equals the plan of Iceberg's own planner. The tables have only metadata, so files can have
any size and any deletes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from lakewarden.planners.formats.iceberg.metadata.digests import LiveFile, ManifestDigest, key_of
from lakewarden.planners.formats.iceberg.metadata.files import files_of, manifests_of, read_table
from lakewarden.planners.formats.iceberg.metadata.metadata import TableMetadata
from lakewarden.planners.formats.iceberg.options.service_options import RewriteOptions
from lakewarden.planners.formats.iceberg.rewriting.groups import expected_files, file_groups, largest_output, split_size
from lakewarden.planners.formats.iceberg.rewriting.selection import planner_options, thresholds
from lakewarden.planners.storage import LocalStorage

if TYPE_CHECKING:
    from tests.support.iceberg.trips import Lake

pytestmark = pytest.mark.spark

MIB = 2**20
SIZES = (MIB, 200 * MIB, 383 * MIB, 385 * MIB, 512 * MIB, 900 * MIB, 1000 * MIB)
"""Around the limits of "too small" and "too large" for a target of 512 MiB."""

OPTIONS: Sequence[RewriteOptions] = (
    RewriteOptions(),
    RewriteOptions(min_input_files=2),
    RewriteOptions(min_input_files=100, delete_ratio_threshold=0.1),
    RewriteOptions(min_input_files=100, delete_ratio_threshold=1.0, delete_file_threshold=1),
    RewriteOptions(min_input_files=100, delete_file_threshold=3),
    RewriteOptions(target_file_size=MIB, min_file_size=1, max_file_size=250 * MIB),
)


@dataclass
class Made:
    """A table that Iceberg's own API writes. Its files do not exist."""

    java: Any
    jvm: Any
    paths: list[str] = field(default_factory=list)

    def path(self) -> str:
        """Return a path that no file has yet."""
        self.paths.append(f"/nowhere/data/{len(self.paths)}")
        return self.paths[-1]

    def append(self, partition: str, *sizes: int) -> Sequence[str]:
        """Commit data files of these sizes. Return their paths."""
        commit, paths = self.java.newAppend(), [self.path() for _ in sizes]
        for path, size in zip(paths, sizes, strict=True):
            builder = self.jvm.org.apache.iceberg.DataFiles.builder(self.java.spec()).withPath(f"{path}.parquet")
            builder = builder.withFileSizeInBytes(size).withRecordCount(100)
            commit = commit.appendFile(self._placed(builder, partition).build())
        commit.commit()
        return [f"{path}.parquet" for path in paths]

    def delete(self, partition: str, *, of: str | None = None, equal: bool = False, rows: int = 20) -> None:
        """Commit a delete file: by positions in one file or in the partition, or by equality of the id."""
        builder = self.jvm.org.apache.iceberg.FileMetadata.deleteFileBuilder(self.java.spec())
        vectors = self.java.operations().current().formatVersion() > 2
        builder = builder.ofEqualityDeletes(self._ints(1)) if equal else builder.ofPositionDeletes()
        if of is not None:
            builder = builder.withReferencedDataFile(of)
        if vectors and not equal:
            builder = builder.withContentOffset(4).withContentSizeInBytes(10)
        suffix = "puffin" if vectors and not equal else "parquet"
        builder = builder.withPath(f"{self.path()}.{suffix}").withFileSizeInBytes(1000).withRecordCount(rows)
        self.java.newRowDelta().addDeletes(self._placed(builder, partition).build()).commit()

    def _placed(self, builder: Any, partition: str) -> Any:
        return builder.withPartitionPath(partition.replace("=null", "=__HIVE_DEFAULT_PARTITION__"))

    def _ints(self, *numbers: int) -> Any:
        array = self.jvm.java.lang.reflect.Array.newInstance(self.jvm.java.lang.Integer.TYPE, len(numbers))
        for at, number in enumerate(numbers):
            self.jvm.java.lang.reflect.Array.setInt(array, at, number)
        return array

    def planned(self, options: Mapping[str, str]) -> Iterator[tuple[frozenset[int], tuple[int, int, int]]]:
        """Yield the groups of the real planner: the keys of their files, and the planner's numbers for the new ones."""
        self.java.refresh()
        planner = self.jvm.org.apache.iceberg.actions.BinPackRewriteFilePlanner(self.java)
        given = self.jvm.java.util.HashMap()
        for key, value in options.items():
            given.put(key, value)
        planner.init(given)
        groups = planner.plan().groups().iterator()
        while groups.hasNext():
            group = groups.next()
            paths = (str(file.location()) for file in group.rewrittenFiles())
            yield (
                frozenset(map(key_of, paths)),
                (group.maxOutputFileSize(), group.inputSplitSize(), group.expectedOutputFiles()),
            )

    def seen(self) -> tuple[TableMetadata, list[LiveFile]]:
        """Return the table as Lakewarden reads it."""
        storage = LocalStorage()
        metadata = read_table(str(self.java.operations().current().metadataFileLocation()), storage)
        snapshot = metadata.current_snapshot
        assert snapshot is not None
        digests = [
            ManifestDigest(files_of([one], metadata, storage), spec=one.spec) for one in manifests_of(snapshot, storage)
        ]
        return metadata, [file for digest in digests for file in digest.live()]


def made(lake: Lake, *, version: int = 2) -> Made:
    """Make a table that is partitioned by `p`. pyiceberg makes it, and writes no version 3."""
    table, spark = lake.trips(), lake.spark
    spark._jvm.org.apache.spark.sql.SparkSession.setActiveSession(spark._jsparkSession)
    java = spark._jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(
        spark._jsparkSession,
        table.sql,
    )
    return Made(java=java, jvm=spark._jvm)


@pytest.mark.parametrize("version", [2, 3])
def test_a_planner_rewrites_what_we_predict(lake: Lake, version: int) -> None:
    """The same files are in the same groups. There are sizes around every limit, deletes of every kind and age, a
    partition without a value, and files of an old spec.
    """
    chance = Random(version)
    table = made(lake, version=version)
    compared = _compared(table)
    for step in range(8):
        partition = f"p={chance.choice(['0', '1', '2', 'null'])}"
        paths = table.append(partition, *chance.choices(SIZES, k=chance.randint(1, 4)))
        if chance.random() < 0.7:
            table.delete(partition, of=chance.choice(paths), rows=chance.choice([5, 10, 30, 100]))
        if chance.random() < 0.4:
            table.delete(partition, equal=True)
        if version == 2 and chance.random() < 0.4:
            table.delete(partition)
        if step == 5:
            compared += _compared(table)
            table.java.updateSpec().addField("v").commit()
            table.append("p=null/v=null", MIB, 600 * MIB)
            table.append("p=0/v=x", *([MIB] * 5))
            break
    compared += _compared(table)

    assert compared[0] == 0
    assert all(groups > 0 for groups in compared[1:])


def _compared(table: Made) -> list[int]:
    """Compare the groups under all options. Return their number."""
    if table.java.currentSnapshot() is None:
        return [0]
    metadata, found = table.seen()
    counted = []
    for options in OPTIONS:
        rules = thresholds(options, metadata.properties)
        predicted = Counter(
            (
                frozenset(group.keys),
                (largest_output(rules), split_size(group.bytes, rules), expected_files(group.bytes, rules)),
            )
            for group in file_groups(found, metadata, rules)
        )
        assert Counter(table.planned(planner_options(rules))) == predicted, options
        counted.append(sum(predicted.values()))
    return counted


def test_groups_are_bounded_as_the_planner_bounds_them(lake: Lake) -> None:
    """The files of each group depend on which reader is faster. The number of groups and their sizes do not."""
    table = made(lake)
    for _ in range(3):
        table.append("p=0", *([10 * MIB] * 7))
        table.append("p=1", *([10 * MIB] * 4))
    metadata, found = table.seen()
    for options in (
        RewriteOptions(max_files=6),
        RewriteOptions(max_files=10, min_input_files=2),
        RewriteOptions(max_file_group_size=50 * MIB),
        RewriteOptions(max_file_group_size=49 * MIB, min_input_files=4),
        RewriteOptions(max_file_group_size=MIB, min_input_files=1, max_file_size=600 * MIB),
    ):
        for everything in (False, True):
            rules = thresholds(options, metadata.properties, everything=everything)
            where = {file.key: file.partition for file in found}
            real = Counter((len(group), where[next(iter(group))]) for group, _ in table.planned(planner_options(rules)))
            told = Counter((one.files, *one.partitions) for one in file_groups(found, metadata, rules))
            assert real == told, options


def test_the_tables_own_target_is_the_planners(lake: Lake) -> None:
    """It counts if the policy sets none."""
    table = made(lake)
    table.append("p=0", *([10 * MIB] * 3))
    table.java.updateProperties().set("write.target-file-size-bytes", str(12 * MIB)).commit()
    metadata, found = table.seen()
    own = dict(planner_options(thresholds(RewriteOptions(), metadata.properties)))
    for key in ("target-file-size-bytes", "min-file-size-bytes", "max-file-size-bytes"):
        del own[key]

    assert file_groups(found, metadata, thresholds(RewriteOptions(), metadata.properties)) == ()
    assert list(table.planned(own)) == []
