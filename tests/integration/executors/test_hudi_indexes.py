"""Real metadata tables: our commits keep up the indexes that a table has, as it has them, and no others."""

from __future__ import annotations

import dataclasses
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from lakewarden.executors.contract import Ended, Failed, FailureKind, Granted, NothingToDo, Succeeded, Yielded
from lakewarden.executors.programs.hudi.client.write_client import HudiClient
from lakewarden.planners.formats.hudi import HUDI
from lakewarden.planners.formats.hudi.metadata.properties import parse_properties
from lakewarden.planners.formats.hudi.options.service_options import IndexingOptions
from lakewarden.planners.formats.hudi.options.table_options import HudiTableOptions
from lakewarden.planners.model.instant import Service, Step
from lakewarden.planners.model.table import Policy, Table, TableId
from lakewarden.planners.ports import SPARK
from lakewarden.planners.triggers import NumCommits
from tests.support.hudi.orders import Orders
from tests.support.pool.driver import Driver
from tests.support.waiting import eventually

pytestmark = pytest.mark.spark

AT_ONCE: dict[str, Any] = {"untouched_for": "0s"}
SMALL_FILES = {"hoodie.datasource.write.table.type": "COPY_ON_WRITE", "hoodie.parquet.small.file.limit": "0"}
RECORD_INDEX_OF_EACH_PARTITION = {
    "hoodie.metadata.record.level.index.enable": "true",
    "hoodie.index.type": "RECORD_LEVEL_INDEX",
}
STATS_OF_NOTES = {
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.index.column.stats.column.list": "note",
}


class Indexed(Orders):
    """Orders with access to the content of their metadata table."""

    def put(self, *keys: int) -> None:
        """Upsert the orders of these numbers."""
        self.versions += 1
        rows = [(f"o{n}", f"v{self.versions}-{n}", self.versions, f"p{n % 3}") for n in keys]
        self._save(rows)
        self.expected.update({key: note for key, note, _, _ in rows})

    def entries(self, kind: int, *columns: str) -> list[Any]:
        """Return what Spark SQL finds in the metadata table: its records of one type."""
        records = self.spark.read.format("hudi").load(f"{self.address}/.hoodie/metadata")
        return list(records.filter(f"type = {kind}").select(*columns).collect())

    def properties(self) -> Mapping[str, str]:
        return parse_properties((self.path / ".hoodie" / "hoodie.properties").read_bytes())

    def stats(self) -> dict[str, tuple[str, str]]:
        """Return what the metadata table says of the notes in each file, and fail if it says more."""
        found = {}
        for row in self.entries(3, "ColumnStatsMetadata.*"):
            if not row.isDeleted and not row.columnName.startswith("_hoodie_"):
                assert row.columnName == "note"
                least, most = (next(one.value for one in ends if one) for ends in (row.minValue, row.maxValue))
                found[row.fileName] = (least, most)
        return found

    def stats_in_files(self) -> dict[str, tuple[str, str]]:
        """Return the same from the files themselves."""
        files = [*self.path.glob("p*/*.parquet")]
        notes = {file.name: pyarrow.parquet.read_table(file, columns=["note"])["note"].to_pylist() for file in files}
        return {name: (min(values), max(values)) for name, values in notes.items()}

    def rows_with_and_without_skipping(self, which: str) -> dict[str, str]:
        """Return the rows that Spark SQL finds, with and without the help of the metadata table."""
        helped, alone = ({"hoodie.metadata.enable": on, "hoodie.enable.data.skipping": on} for on in ("true", "false"))
        read = self.spark.read.format("hudi")
        found = [
            {row.order_id: row.note for row in read.options(**how).load(self.address).filter(which).collect()}
            for how in (helped, alone)
        ]
        assert found[0] == found[1]
        return found[0]

    def client(self, **service: str) -> HudiClient:
        """Return another client, in the writer's own JVM."""
        options = HudiTableOptions.model_validate({"lock": dict(self.lock)})
        return HudiClient(self.spark, str(self.path), options, service, indexes={**self.indexes(), **service})

    def names(self, *names: str) -> Any:
        """Return a Java list."""
        found = self.spark._jvm.java.util.ArrayList()
        for name in names:
            found.add(name)
        return found


@contextmanager
def writing(table: Indexed) -> Iterator[list[int]]:
    """Let a writer write, again and again, while the bracket is open. It fails if a write has failed.

    Hudi makes an empty `hoodie.properties` before it fills it, for each index that is complete. A write that opens the
    table in that moment ends before it has begun (docs/hudi.md), and is begun again.
    """
    over, written = threading.Event(), list[int]()
    failures: list[BaseException] = []

    def write() -> None:
        while not over.is_set() and not failures:
            try:
                table.put(*range(len(written) % 7, 24))
                written.append(table.versions)
            except Exception as failure:  # noqa: BLE001 - whatever it is, the test fails by it
                if "TableNotFoundException: Hoodie table not found in path Table does not exist" not in str(failure):
                    failures.append(failure)
            over.wait(0.5)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield written
    finally:
        over.set()
        writer.join()
    assert not failures, "\n".join(map(str, failures))


def told(**options: Any) -> dict[str, str]:
    """Return what the writers of a table with this policy of indexing are told, and others are not."""
    lock = HudiTableOptions.model_validate({"writers": "none"})
    policy = Policy(trigger=NumCommits(at_least=1), options=IndexingOptions.model_validate(options))
    found = []
    for policies in ({}, {Service.INDEXING: policy}):
        table = Table(id=TableId("orders"), format="hudi", location="/orders", options=lock, policies=policies)
        printed = HUDI.writer_options(table, engine=SPARK, hook_url="")
        found.append({option.key: option.value for option in printed})
    return dict(found[1].items() - found[0].items())


@pytest.fixture
def table_of(written_orders: Orders, tmp_path: Path) -> Callable[[Mapping[str, str]], Indexed]:
    """Return a maker of new tables, whose writer has these options."""

    def make(conf: Mapping[str, str]) -> Indexed:
        lock = {**written_orders.lock, "lock_key": str(tmp_path).strip("/").replace("/", ".")}
        return Indexed(path=tmp_path / "orders", lock=lock, spark=written_orders.spark, conf=conf)

    return make


def test_below_version_8_a_build_waits_for_a_plan_and_names_it(
    driver: Driver, table_of: Callable[[Mapping[str, str]], Indexed]
) -> None:
    """Hudi builds nothing beside it, and only logs that."""
    table = table_of({"hoodie.write.table.version": "6", "hoodie.write.auto.upgrade": "false"})
    table.put(*range(9))
    table.put(*range(9))
    with closing(table.client(**{"hoodie.compact.inline.max.delta.commits": "1"})) as writer:
        waiting = writer.schedule("COMPACT", extra_metadata={})

    outcome = driver.carry_out(table, Service.INDEXING, build=["bloom_filters"])

    assert isinstance(outcome, Yielded), outcome
    assert f"compaction {waiting} is pending" in outcome.reason
    assert isinstance(driver.carry_out(table, Service.COMPACTION, instant=waiting), Succeeded)
    assert isinstance(driver.carry_out(table, Service.INDEXING, build=["bloom_filters"]), Succeeded)
    assert "bloom_filters" in table.properties()["hoodie.table.metadata.partitions"]


def test_a_record_index_of_each_partition_keeps_its_layout(
    driver: Driver, table_of: Callable[[Mapping[str, str]], Indexed]
) -> None:
    """A clustering moves every row. With the layout of a global index, 12 of 24 rows were in the index twice."""
    table = table_of({**SMALL_FILES, **RECORD_INDEX_OF_EACH_PARTITION})
    table.put(*range(12))
    table.put(*range(12, 24))

    outcome = driver.carry_out(table, Service.CLUSTERING, **AT_ONCE)

    assert isinstance(outcome, Succeeded), outcome
    assert Counter(row.key for row in table.entries(5, "key")) == Counter({f"o{n}": 1 for n in range(24)})
    table.put(*range(24))
    assert table.found() == table.expected


def test_stats_stay_those_of_the_writers_columns(
    driver: Driver, table_of: Callable[[Mapping[str, str]], Indexed]
) -> None:
    """A compaction adds stats of its files, in the columns that the table names. By our defaults it added others. If
    partition stats were dropped it does nothing, because Hudi's client would build them again.
    """
    table = table_of(STATS_OF_NOTES)
    table.put(*range(12))
    table.put(*range(12))
    before = set(table.entries(3, "ColumnStatsMetadata.columnName"))
    properties = table.properties()

    outcome = driver.carry_out(table, Service.COMPACTION)

    assert isinstance(outcome, Succeeded), outcome
    of_files = table.entries(3, "ColumnStatsMetadata.columnName", "ColumnStatsMetadata.fileName")
    assert {(row.columnName,) for row in of_files} == before
    assert {row.fileName for row in of_files} >= {path.name for path in table.path.glob("p*/*.parquet")}
    assert table.properties() == properties

    table.put(*range(12))
    client = table.client()
    client.java.dropIndex(table.names("partition_stats"))
    client.close()
    properties = table.properties()

    outcome = driver.carry_out(table, Service.COMPACTION)

    assert isinstance(outcome, Failed)
    assert outcome.kind is FailureKind.TEMPORARY
    assert "column stats without partition stats" in outcome.reason
    assert table.properties() == properties


def test_a_metadata_table_that_a_writer_makes_meanwhile_knows_of_our_commit(
    driver: Driver, table_of: Callable[[Mapping[str, str]], Indexed]
) -> None:
    """Its readers saw 3 of 21 rows when our switches were those of the moment at which the table was opened."""
    table = table_of({**SMALL_FILES, "hoodie.metadata.enable": "false"})
    table.put(*range(12))
    table.put(*range(12, 24))
    run = driver.submit(table, Service.CLUSTERING, partition_regex="p[01]", **AT_ONCE)
    driver.advance(run, to=Step.COMMIT)
    with_metadata_table = dataclasses.replace(table, conf=SMALL_FILES)
    with_metadata_table.put(2, 5, 98)  # in the partition that is not clustered

    driver.pool.answer(run, Step.COMMIT, Granted())
    outcome = driver.finish(run)

    assert isinstance(outcome, Succeeded), outcome
    assert table.found() == table.expected


def test_a_metadata_table_that_is_made_while_a_clustering_runs_knows_of_it(
    driver: Driver, table_of: Callable[[Mapping[str, str]], Indexed]
) -> None:
    """The joined step begins without a metadata table, and its commit looks for one under the table's lock."""
    table = table_of({**SMALL_FILES, "hoodie.metadata.enable": "false"})
    table.put(*range(12))
    table.put(*range(12, 24))
    run = driver.submit(table, Service.CLUSTERING, partition_regex="p[01]", **AT_ONCE)
    driver.advance(run, to=Step.COMMIT)
    client = table.client()
    driver.pool.answer(run, Step.COMMIT, Granted())
    eventually(lambda: table.timeline("*.clustering.inflight") != [])
    with client.locked():
        with_metadata_table = dataclasses.replace(
            table, conf=SMALL_FILES, lock={**table.lock, "lock_key": f"{table.lock['lock_key']}.other"}
        )
        with_metadata_table.put(2, 5, 98)
    outcome = driver.finish(run)
    client.close()

    assert isinstance(outcome, Succeeded), outcome
    assert table.found() == table.expected


def test_nothing_is_committed_beside_an_index_that_is_being_built(
    driver: Driver, table_of: Callable[[Mapping[str, str]], Indexed]
) -> None:
    """Our compaction steps back, and builds no index. Afterwards its files are in the index that the indexer built."""
    table = table_of({"hoodie.metadata.index.column.stats.enable": "false"})
    table.put(*range(12))
    table.put(*range(12))
    run = driver.submit(table, Service.COMPACTION)
    plan = driver.advance(run, to=Step.COMMIT)
    indexer = table.client(**{"hoodie.metadata.index.bloom.filter.enable": "true"})
    kinds = table.spark._jvm.org.apache.hudi.metadata.MetadataPartitionType
    indexing = str(indexer.java.scheduleIndexing(table.names(kinds.BLOOM_FILTERS), table.names()).get())

    driver.pool.answer(run, Step.COMMIT, Granted())
    ended = driver.next(run, Ended)

    assert isinstance(ended.outcome, Failed)
    assert ended.outcome.kind is FailureKind.TEMPORARY
    assert f"an index is being built (indexing {indexing})" in ended.outcome.reason
    assert not (table.path / ".hoodie" / "metadata" / "bloom_filters").exists()
    indexer.java.index(indexing)
    indexer.close()
    assert plan is not None
    outcome = driver.carry_out(table, Service.COMPACTION, instant=plan.instant)
    assert isinstance(outcome, Succeeded), outcome
    assert len(table.entries(4, "key")) == len(list(table.path.glob("p*/*.parquet")))
    assert table.found() == table.expected


@pytest.mark.core
def test_an_index_is_built_and_dropped_beside_a_writer(
    driver: Driver, table_of: Callable[[Mapping[str, str]], Indexed]
) -> None:
    """Rows that are written meanwhile are in it. A writer with no options but ours finds its rows by it. Then it is
    dropped in the same way. No plan is left that another client would begin to build.
    """
    table = table_of(told(build=["record_index"]))
    table.put(*range(12))
    with writing(table) as written:
        outcome = driver.carry_out(table, Service.INDEXING, build=["record_index"])
    assert isinstance(outcome, Succeeded), outcome
    assert written
    assert not table.timeline("*.indexing*")
    assert Counter(row.key for row in table.entries(5, "key")) == Counter(dict.fromkeys(table.expected, 1))
    finds_by_it = {"hoodie.index.type": "GLOBAL_RECORD_LEVEL_INDEX"}
    dataclasses.replace(table, conf={**table.conf, **finds_by_it}).put(*range(27))
    assert table.found() == table.expected
    assert Counter(row.key for row in table.entries(5, "key")) == Counter(dict.fromkeys(table.expected, 1))

    outcome = driver.carry_out(table, Service.INDEXING, drop=["record_index"])

    assert isinstance(outcome, Succeeded), outcome
    assert table.properties()["hoodie.table.metadata.partitions"] == "files"
    assert not (table.path / ".hoodie" / "metadata" / "record_index").exists()
    assert table.found() == table.expected


def test_column_stats_are_built_beside_a_writer_and_are_right(
    driver: Driver, table_of: Callable[[Mapping[str, str]], Indexed]
) -> None:
    """Partition stats are built with them, because Hudi keeps up neither alone. They are of the requested columns and
    of every file, also of those written meanwhile. Queries that skip files by them find the same rows. A missing
    column, and a table that is too large, are reported before anything is done.
    """
    stats: dict[str, Any] = {"build": ["column_stats"], "columns": ["note"]}
    table = table_of({**SMALL_FILES, **told(**stats)})
    table.put(*range(24))
    for wrong, reason in ({"columns": ["note", "nota"]}, "nota"), ({"largest_table": "1MiB"}, "largest_table"):
        outcome = driver.carry_out(table, Service.INDEXING, **{**stats, **wrong})
        assert isinstance(outcome, Failed)
        assert reason in outcome.reason
    with writing(table) as written:
        outcome = driver.carry_out(table, Service.INDEXING, **stats)
    assert isinstance(outcome, Succeeded), outcome
    assert written
    assert table.properties()["hoodie.table.metadata.partitions"] == "column_stats,files,partition_stats"
    table.put(*range(3, 27))
    assert table.stats() == table.stats_in_files()
    assert table.rows_with_and_without_skipping("note >= 'v'") == table.expected
    assert table.found() == table.expected
    assert isinstance(driver.carry_out(table, Service.INDEXING, **stats), NothingToDo)


def test_a_plan_that_an_indexer_left_is_finished(
    driver: Driver, table_of: Callable[[Mapping[str, str]], Indexed]
) -> None:
    """Hudi's own indexer would do the same. A plan that was begun is not touched, because nothing shows whether its
    indexer is alive. Nor is a plan that a write has overtaken: Hudi would leave that write out.
    """
    table = table_of({"hoodie.metadata.index.column.stats.enable": "false"})
    table.put(*range(12))
    timeline = table.path / ".hoodie" / "timeline"

    def planned() -> str:
        indexer = table.client(**{"hoodie.metadata.index.bloom.filter.enable": "true"})
        kinds = table.spark._jvm.org.apache.hudi.metadata.MetadataPartitionType
        instant = str(indexer.java.scheduleIndexing(table.names(kinds.BLOOM_FILTERS), table.names()).get())
        indexer.close()
        return instant

    overtaken = planned()
    table.put(*range(3))
    outcome = driver.carry_out(table, Service.INDEXING, instant=overtaken)
    assert isinstance(outcome, Failed)
    assert "would leave out write" in outcome.reason
    (timeline / f"{overtaken}.indexing.requested").unlink()
    indexing = planned()
    begun = timeline / f"{indexing}.indexing.inflight"
    begun.touch()

    assert isinstance(driver.carry_out(table, Service.INDEXING, instant=indexing), Yielded)

    begun.unlink()
    outcome = driver.carry_out(table, Service.INDEXING, instant=indexing)
    assert isinstance(outcome, Succeeded), outcome
    assert len(table.entries(4, "key")) == len(list(table.path.glob("p*/*.parquet")))
    assert table.found() == table.expected
