"""Spark rewrites Parquet and ORC files of many types without a change that another reader sees, or they are refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from py4j.java_gateway import get_field, set_field
from pyarrow import orc
from pyarrow import parquet as pq

from lakewarden.executors.contract import Assignment, Granted, NothingToDo, Outcome, Succeeded
from lakewarden.executors.programs.directory.compaction import Compaction
from lakewarden.executors.worker.runs import carry_out
from lakewarden.executors.worker.session import Session
from lakewarden.planners.model.instant import RunId, Service
from lakewarden.planners.model.table import TableId
from lakewarden.planners.storage import LocalStorage

pytestmark = pytest.mark.spark

AT = datetime(2026, 3, 1, 12, 30, 15, 123000, tzinfo=UTC)
Write = Callable[[pa.Table, Path], None]


@pytest.fixture
def session(writers_session: Session) -> Session:
    """Return the one session of this process."""
    return writers_session


def run(session: Session, location: Path, **service: Any) -> Outcome:
    assignment = Assignment(
        run=RunId("run"),
        epoch=1,
        table=TableId("trips"),
        format="directory",
        location=str(location),
        service=Service.COMPACTION,
        table_options={"restore_horizon": "0s", "quiet_for": "0s", "quiet_intervals": 0},
        service_options=service,
    )
    with session.for_run(RunId("run")) as spark:
        return carry_out(Compaction(), spark, assignment, LocalStorage(), lambda step, plan: Granted())


def parquet(**options: Any) -> Write:
    def write(table: pa.Table, file: Path) -> None:
        pq.write_table(table, file, store_schema=False, **options)

    return write


def rows_of(number: int) -> pa.Table:
    """Return rows of many types, with missing values and nested ones."""
    return pa.table(
        {
            "id": pa.array([number * 10 + one for one in range(10)], pa.int64()),
            "small": pa.array([one if one % 3 else None for one in range(10)], pa.int8()),
            "Was `it`.so": pa.array([f"ünï {number}" if one % 2 else None for one in range(10)]),
            "price": pa.array([Decimal("12345678901234567.89")] * 10, pa.decimal128(38, 2)),
            "ratio": pa.array([float("nan"), -0.0, 0.0, 1.5, None] * 2),
            "yes": pa.array([True, False] * 5),
            "raw": pa.array([b"\x00\xff"] * 10),
            "day": pa.array([date(2026, 3, 1)] * 10),
            "tags": pa.array([["a", None], [], None, ["b"], ["c"]] * 2, pa.list_(pa.string())),
            "who": pa.array([{"name": "x", "age": one} for one in range(10)]),
        }
    )


WITH_ID = pa.field("element", pa.int64(), metadata={"PARQUET:field_id": "7"})


def with_time(unit: str, zone: str | None) -> pa.Table:
    return pa.table({"id": [1, 2], "at": pa.array([AT.replace(tzinfo=None), None], pa.timestamp(unit, zone))})


def made(folder: Path, tables: Sequence[pa.Table], write: Write) -> Path:
    place = folder / "dt=2026-03-01" / "hr=0 [7]*"
    place.mkdir(parents=True)
    for number, table in enumerate(tables):
        write(table, place / f"part-{number}")
    return place


def read(place: Path, reader: Callable[[str], pa.Table]) -> list[str]:
    """Return the rows as text, in an order: a NaN is no value that equals itself."""
    files = sorted(file for file in place.iterdir() if not file.name.startswith(("_", ".")))
    return sorted(str(row) for file in files for row in reader(str(file)).to_pylist())


@pytest.mark.parametrize(
    ("codec", "store_schema"), [("snappy", False), ("zstd", False), ("none", False), ("snappy", True)]
)
def test_parquet_files_of_many_types_become_one(
    session: Session, tmp_path: Path, codec: str, store_schema: bool
) -> None:
    """Names, types, values and the codec stay, for a reader that is not Spark. Arrow's schema may be in the footers."""
    write = partial(pq.write_table, compression=codec, store_schema=store_schema)
    place = made(tmp_path, [rows_of(number) for number in range(6)], write)
    schema, before = pq.read_schema(place / "part-0"), read(place, lambda file: pq.ParquetFile(file).read())
    outcome = run(session, tmp_path)
    assert isinstance(outcome, Succeeded), outcome
    [one] = place.iterdir()
    assert read(place, lambda file: pq.ParquetFile(file).read()) == before
    assert pq.read_schema(one).remove_metadata().equals(schema.remove_metadata())
    written = pq.read_metadata(one).row_group(0).column(0).compression
    assert written.lower() == ("uncompressed" if codec == "none" else codec)
    assert not (tmp_path / "_lakewarden").exists()


@pytest.mark.parametrize(
    ("unit", "zone", "options"),
    [
        ("us", "UTC", {}),
        ("ms", "UTC", {}),
        ("us", None, {}),
    ],
)
def test_times_keep_the_type_in_which_they_were_written(
    session: Session, tmp_path: Path, unit: str, zone: str | None, options: dict[str, Any]
) -> None:
    """Whole numbers, in their unit. INT96 has a test of its own."""
    place = made(tmp_path, [with_time(unit, zone)] * 5, parquet(**options))
    before, told = read(place, lambda file: pq.ParquetFile(file).read()), str(pq.read_metadata(place / "part-0").schema)
    outcome = run(session, tmp_path)
    assert isinstance(outcome, Succeeded), outcome
    assert read(place, lambda file: pq.ParquetFile(file).read()) == before
    [one] = place.iterdir()
    column = pq.read_metadata(one).schema.column(1)
    assert column.physical_type.lower() in told


@pytest.mark.parametrize(
    ("tables", "write", "why"),
    [
        ([with_time("ns", None)] * 5, parquet(version="2.6"), "Spark"),
        ([pa.table({"a": pa.array([1], pa.uint32())})] * 5, parquet(), "Spark writes other columns"),
        ([pa.table({"a": pa.array(["x"]).dictionary_encode()})] * 5, pq.write_table, "Arrow alone"),
        ([pa.table({"a": pa.array(["x"], pa.large_string())})] * 5, pq.write_table, "Arrow alone"),
        (
            [pa.table([[1]], pa.schema([pa.field("a", pa.int64(), metadata={"unit": "s"})]))] * 5,
            pq.write_table,
            "Arrow",
        ),
        ([pa.table([[1]], pa.schema([("a", pa.int64())], {"pandas": "{}"}))] * 5, pq.write_table, "pandas"),
        (
            [pa.table([[[1]]], pa.schema([pa.field("a", pa.list_(WITH_ID))]))] * 5,
            parquet(),
            "field ids",
        ),
        ([with_time("us", None)] * 5, parquet(use_deprecated_int96_timestamps=True), "INT96 of 'parquet-cpp"),
        ([pa.table({"a": [1]})] * 4 + [pa.table({"a": ["x"]})] * 2, parquet(), "other columns"),
        ([pa.table({"a": [1]})] * 4 + [pa.table({"a": [1], "b": [2]})], parquet(), "other columns"),
    ],
    ids=[
        "nanoseconds",
        "unsigned",
        "dictionary",
        "large-string",
        "metadata-of-a-column",
        "pandas",
        "field-ids",
        "int96-of-another-writer",
        "types-differ",
        "columns-differ",
    ],
)
def test_what_spark_would_change_is_refused(
    session: Session, tmp_path: Path, tables: Sequence[pa.Table], write: Write, why: str
) -> None:
    """The files are the same as before, and nothing lies beside them."""
    place = made(tmp_path, tables, write)
    before = {file.name: file.read_bytes() for file in place.iterdir()}
    outcome = run(session, tmp_path)
    assert isinstance(outcome, NothingToDo), outcome
    assert why in outcome.reason
    assert {file.name: file.read_bytes() for file in place.iterdir()} == before
    assert not (tmp_path / "_lakewarden").exists()


def int96(spark: Any, file: Path, times: Sequence[tuple[int, int]]) -> None:
    """Write times as Flink and Hive do: Julian days with the nanoseconds of the day, through the library in Java."""
    jvm = spark._jvm
    parquet = jvm.org.apache.parquet
    schema = parquet.schema.MessageTypeParser.parseMessageType("message rows { required int96 at; }")
    path = jvm.org.apache.hadoop.fs.Path(f"file://{file}")
    simple = parquet.example.data.simple
    writer = parquet.hadoop.example.ExampleParquetWriter.builder(path).withType(schema).build()
    for day, nanoseconds in times:
        row = simple.SimpleGroupFactory(schema).newGroup()
        row.add("at", simple.NanoTime(day, nanoseconds).toBinary())
        writer.write(row)
    writer.close()
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)


TODAY, IN_2500 = 2461373, 2634167


def test_partitions_that_are_rewritten_side_by_side_keep_their_own_types_and_the_name_of_the_run(
    session: Session, tmp_path: Path
) -> None:
    """How Spark writes times is a setting of a session, so each partition has its own. Whoever cancels the run finds
    all Spark jobs by its name: two for each partition.
    """
    units = ("us", "ms", "us", "ms")
    places = [tmp_path / f"dt={number}" / "hr=07" for number in range(len(units))]
    for place, unit in zip(places, units, strict=True):
        place.mkdir(parents=True)
        for number in range(6):
            pq.write_table(with_time(unit, "UTC"), place / f"part-{number}", store_schema=False)
    schemas = [pq.read_schema(place / "part-0") for place in places]
    before = len(session._root.sparkContext._jsc.sc().statusTracker().getJobIdsForTag("run"))

    outcome = run(session, tmp_path)

    assert isinstance(outcome, Succeeded), outcome
    assert outcome.figures["partitions_compacted"] == len(units)
    assert [pq.read_schema(next(place.glob("part-*"))) for place in places] == schemas
    assert [len(read(place, lambda file: pq.ParquetFile(file).read())) for place in places] == [12] * len(units)
    jobs = len(session._root.sparkContext._jsc.sc().statusTracker().getJobIdsForTag("run")) - before
    assert jobs >= 2 * len(units)


@pytest.mark.parametrize("nanosecond", [0, 1])
def test_int96_stays_int96_unless_spark_would_cut_a_time(session: Session, tmp_path: Path, nanosecond: int) -> None:
    """It has nanoseconds, and years beyond those of other times in nanoseconds."""
    place = tmp_path / "dt=2026-03-01"
    place.mkdir()
    times = [(TODAY, 3_000), (IN_2500, 86_399_999_999_000), (TODAY, 7_000 + nanosecond)]
    with session.for_run(RunId("run")) as spark:
        for number in range(5):
            int96(spark, place / f"part-{number}", times)

    def exact(file: str) -> pa.Table:
        return pq.ParquetFile(file, coerce_int96_timestamp_unit="us").read()

    before = read(place, exact)
    outcome = run(session, tmp_path)
    assert read(place, exact) == before
    if nanosecond:
        assert isinstance(outcome, NothingToDo)
        assert "finer than microseconds" in outcome.reason
        return
    assert isinstance(outcome, Succeeded), outcome
    [one] = place.iterdir()
    assert pq.read_metadata(one).schema.column(0).physical_type == "INT96"


def orc_by_java(spark: Any, file: Path, schema: str, **metadata: str) -> None:
    """Write one row of one text with the library in Java. Further columns hold nothing."""
    jvm = spark._jvm
    files = jvm.org.apache.orc.OrcFile
    told = jvm.org.apache.orc.TypeDescription.fromString(schema)
    options = files.writerOptions(jvm.org.apache.hadoop.conf.Configuration()).setSchema(told)
    writer = files.createWriter(jvm.org.apache.hadoop.fs.Path(f"file://{file}"), options)
    for key, value in metadata.items():
        writer.addUserMetadata(key, jvm.java.nio.charset.StandardCharsets.UTF_8.encode(value))
    batch = told.createRowBatch()
    for missing in get_field(batch, "cols")[1:]:
        set_field(missing, "noNulls", False)
        get_field(missing, "isNull")[0] = True
    get_field(batch, "cols")[0].setVal(0, b"a")
    set_field(batch, "size", 1)
    writer.addRowBatch(batch)
    writer.close()
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)


@pytest.mark.parametrize(
    ("schema", "metadata", "why"),
    [
        ("struct<a:char(10)>", {}, "'a: char(10)' becomes 'a: string'"),
        ("struct<a:varchar(7)>", {}, "'a: varchar(7)' becomes 'a: string'"),
        ("struct<a:string>", {"owner": "me"}, "carries 'owner'"),
        ("struct<a:string,b:array<uniontype<int,string>>>", {}, "column 'b' is or holds a uniontype"),
        ("struct<a:string,b:timestamp with local time zone>", {}, "'b' is or holds a timestamp with local time zone"),
    ],
)
def test_what_spark_does_not_keep_of_an_orc_file_is_refused(
    session: Session, tmp_path: Path, schema: str, metadata: dict[str, str], why: str
) -> None:
    """Arrow does not tell it either."""
    place = tmp_path / "dt=2026-03-01"
    place.mkdir()
    with session.for_run(RunId("run")) as spark:
        for number in range(5):
            orc_by_java(spark, place / f"part-{number}", schema, **metadata)
    outcome = run(session, tmp_path)
    assert isinstance(outcome, NothingToDo), outcome
    assert why in outcome.reason
    assert len(list(place.iterdir())) == 5


def test_nanoseconds_in_an_orc_file_are_refused(session: Session, tmp_path: Path) -> None:
    """Spark reads microseconds."""
    fine = pa.table({"at": pa.array([1_700_000_000_123_456_789], pa.timestamp("ns"))})
    place = made(tmp_path, [fine] * 5, lambda table, file: orc.write_table(table, str(file)))
    outcome = run(session, tmp_path)
    assert isinstance(outcome, NothingToDo), outcome
    assert "finer than microseconds" in outcome.reason
    assert len(list(place.iterdir())) == 5


@pytest.mark.parametrize("codec", ["lz4", "lz4_raw"])
def test_the_framing_of_lz4_stays(session: Session, tmp_path: Path, codec: str) -> None:
    """Hadoop's is an older one, which Arrow has no name for."""
    place = tmp_path / "dt=2026-03-01"
    with session.for_run(RunId("run")) as spark:
        rows = spark.range(100).repartition(5)
        rows.write.option("compression", codec).parquet(str(place))
    for extra in (*place.glob(".*"), *place.glob("_*")):
        extra.unlink()
    told = {pq.read_metadata(file).row_group(0).column(0).compression for file in place.iterdir()}
    outcome = run(session, tmp_path)
    assert isinstance(outcome, Succeeded), outcome
    [one] = place.iterdir()
    assert {pq.read_metadata(one).row_group(0).column(0).compression} == told


def test_a_damaged_page_is_refused_and_stops_no_other_partition(session: Session, tmp_path: Path) -> None:
    """The footer is whole, so only a look at the values finds it."""
    place = made(
        tmp_path, [rows_of(number) for number in range(6)], parquet(compression="snappy", use_dictionary=False)
    )
    broken = place / "part-3"
    content = bytearray(broken.read_bytes())
    content[10:400] = b"\xff" * 390
    broken.write_bytes(content)
    whole = tmp_path / "dt=2026-03-02"
    whole.mkdir()
    for number in range(6):
        parquet()(rows_of(number), whole / f"part-{number}")
    outcome = run(session, tmp_path)
    assert isinstance(outcome, Succeeded), outcome
    assert (outcome.figures["partitions_compacted"], outcome.figures["partitions_refused"]) == (1, 1)
    assert len(list(place.iterdir())) == 6
    assert len(list(whole.iterdir())) == 1


LONG_AGO = [date(1, 1, 1), date(1582, 10, 10), date(2026, 3, 1)]


def old_dates(folder: Path, **told: str) -> Path:
    """Return a partition with dates and times of long ago, in files with footers that tell their writer."""
    times = [datetime(day.year, day.month, day.day, 1, 2, 3, 4567, tzinfo=UTC) for day in LONG_AGO]
    rows = pa.table({"day": LONG_AGO, "at": pa.array(times, pa.timestamp("us", "UTC"))})

    def write(table: pa.Table, file: Path) -> None:
        with pq.ParquetWriter(file, table.schema, store_schema=False) as writer:
            writer.write_table(table)
            writer.add_key_value_metadata(told)

    return made(folder, [rows] * 6, write)


def test_dates_of_long_ago_stay_as_they_are(session: Session, tmp_path: Path) -> None:
    """A placeholder such as 0001-01-01 is in many tables. Spark 3 counts by the calendar of today, as pyarrow does."""
    place = old_dates(tmp_path, **{"org.apache.spark.version": "3.5.9"})
    before = read(place, lambda file: pq.ParquetFile(file).read())
    outcome = run(session, tmp_path)
    assert isinstance(outcome, Succeeded), outcome
    assert len(list(place.iterdir())) == 1
    assert read(place, lambda file: pq.ParquetFile(file).read()) == before


def test_dates_of_long_ago_in_an_unknown_calendar_are_refused(session: Session, tmp_path: Path) -> None:
    """The new files would say that Spark 3 wrote them, and readers might see other days."""
    old_dates(tmp_path)
    outcome = run(session, tmp_path)
    assert isinstance(outcome, NothingToDo), outcome
    assert "1582" in outcome.reason


def test_orc_files_become_one(session: Session, tmp_path: Path) -> None:
    """With an extension, which stays."""
    place = tmp_path / "dt=2026-03-01"
    place.mkdir()
    for number in range(6):
        rows = rows_of(number).drop_columns(["raw", "Was `it`.so"])
        orc.write_table(rows, str(place / f"part-{number}.orc"), compression="zlib")
    before = read(place, lambda file: orc.ORCFile(file).read())
    outcome = run(session, tmp_path)
    assert isinstance(outcome, Succeeded), outcome
    [one] = place.iterdir()
    assert one.suffix == ".orc"
    assert read(place, lambda file: orc.ORCFile(file).read()) == before


def test_many_files_become_as_many_as_the_target_says(session: Session, tmp_path: Path) -> None:
    """And the run after it finds nothing to do."""
    place = made(tmp_path, [rows_of(number) for number in range(40)], parquet())
    size = sum(file.stat().st_size for file in place.iterdir())
    target = {"target_file_size": f"{size // 3}B"}
    outcome = run(session, tmp_path, **target)
    assert isinstance(outcome, Succeeded), outcome
    assert outcome.figures["files_added"] in (1, 2, 3, 4)
    assert isinstance(run(session, tmp_path, **target), NothingToDo)
