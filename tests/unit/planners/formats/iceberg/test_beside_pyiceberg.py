"""Tables that pyiceberg wrote are found in its catalog, and read as pyiceberg itself reads them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table as Written
from pyiceberg.transforms import parse_transform
from pyiceberg.typedef import Record
from pyiceberg.types import (
    BooleanType,
    DateType,
    DecimalType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
)

from lakewarden.planners.formats.iceberg import ICEBERG
from lakewarden.planners.formats.iceberg.catalogs.settings import JdbcCatalog
from lakewarden.planners.formats.iceberg.metadata.digests import key_of
from lakewarden.planners.formats.iceberg.metadata.files import files_of, manifests_of, read_table
from lakewarden.planners.formats.iceberg.metadata.metadata import PartitionField as Field
from lakewarden.planners.formats.iceberg.metadata.partitions import partition_path
from lakewarden.planners.model.instant import InstantKind, Service
from lakewarden.planners.model.table import Table
from lakewarden.planners.ports import Observation
from lakewarden.planners.storage import Storages
from tests.support.iceberg.iceberg_look import files_in, registered

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "name", StringType(), required=False),
    NestedField(3, "day", DateType(), required=False),
    NestedField(4, "at", TimestampType(), required=False),
    NestedField(5, "price", DecimalType(9, 2), required=False),
    NestedField(6, "sold", BooleanType(), required=False),
    NestedField(7, "shop", IntegerType(), required=False),
)
ROWS: list[dict[str, Any]] = [
    {"id": 1, "name": "a b/c=ü?", "day": date(1969, 12, 31), "sold": True},
    {"id": 2, "name": "", "day": date(2026, 2, 3), "price": Decimal("12.50")},
    {"id": 3, "name": None, "day": None, "sold": False, "shop": -7},
]
COLUMNS = ("file_path", "content", "file_size_in_bytes", "record_count")


class Lake:
    """A catalog in sqlite, with a warehouse beside it."""

    def __init__(self, folder: Path) -> None:
        self.uri = f"{folder}/catalog.db"
        self.catalog = SqlCatalog("lake", uri=f"sqlite:///{self.uri}", warehouse=f"file://{folder}/wh")
        self.catalog.create_namespace("shop")

    def create(self, *fields: tuple[int, str], version: int = 2) -> Written:
        """Create `shop.sales`, partitioned by columns (their ids) and transforms."""
        spec = PartitionSpec(
            *(
                PartitionField(source_id=source, field_id=1000 + at, transform=parse_transform(text), name=f"part_{at}")
                for at, (source, text) in enumerate(fields)
            )
        )
        properties = {"format-version": str(version)}
        return self.catalog.create_table("shop.sales", SCHEMA, partition_spec=spec, properties=properties)

    def table(self) -> Table:
        """Return the table as it is registered: by its name in the catalog."""
        catalog = JdbcCatalog(type="jdbc", uri=f"jdbc:sqlite:{self.uri}", warehouse="/nowhere")
        return replace(registered("catalog://lake/shop.sales", Service.COMPACTION), catalog=catalog)

    def look(self, previous: Observation | None = None) -> Observation:
        """Observe it as the daemon does."""
        table = self.table()
        return ICEBERG.observe(table, Storages().of(table.location), previous, now=datetime.now(UTC))


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    lake = Lake(tmp_path)
    yield lake
    lake.catalog.engine.dispose()


def rows(*given: Mapping[str, Any]) -> pa.Table:
    """Return rows as pyiceberg takes them."""
    return pa.Table.from_pylist([dict(row) for row in given], schema=SCHEMA.as_arrow())


def theirs(written: Written) -> list[tuple[int, int, int, int]]:
    """Return the live files by pyiceberg."""
    found = written.inspect.files()
    told = zip(*(found[column].to_pylist() for column in COLUMNS), strict=True)
    return sorted((key_of(path), content, size, records) for path, content, size, records in told)


def ours(observation: Observation) -> list[tuple[int, int, int, int]]:
    """Return the live files by Lakewarden."""
    return sorted((file.key, int(file.content), file.size, file.records) for file in files_in(observation))


@pytest.mark.parametrize("version", [1, 2])
def test_files_are_those_that_pyiceberg_plans_to_read(lake: Lake, version: int) -> None:
    """The history has appends, deletes by rewriting, an overwrite, another spec and a rollback. It is observed in
    between, or only at the end.
    """
    written = lake.create((2, "identity"), version=version)
    seen = lake.look()
    steps: list[Callable[[], object]] = [
        lambda: written.append(rows(*ROWS)),
        lambda: written.append(rows(*ROWS, {"id": 4, "name": "z"})),
        lambda: written.delete("id == 1"),
        lambda: written.overwrite(rows({"id": 9, "name": "z"}), overwrite_filter="id == 4"),
        lambda: written.update_spec().add_field("day", "identity", "of_day").rename_field("part_0", "by_name").commit(),
        lambda: written.append(rows(*ROWS)),
        lambda: written.manage_snapshots().create_branch(written.metadata.snapshots[1].snapshot_id, "audit").commit(),
        lambda: written.manage_snapshots().rollback_to_snapshot(written.metadata.snapshots[1].snapshot_id).commit(),
    ]
    for step in steps:
        step()
        written.refresh()
        seen = lake.look(seen)
        assert ours(seen) == theirs(written) == ours(lake.look())
        assert seen.view.faults == ()
    planned = {key_of(task.file.file_path) for task in written.scan().plan_files()}
    assert planned == {file.key for file in files_in(seen)}


@pytest.mark.parametrize("columns", [(2,), (3, 7), (5, 6), ()], ids=str)
def test_a_partition_is_called_as_its_folder_is(lake: Lake, columns: tuple[int, ...]) -> None:
    """This holds for every type, and for values that a folder's name must escape."""
    written = lake.create(*((column, "identity") for column in columns))
    written.append(rows(*ROWS))
    storage = Storages().of("/")
    metadata = read_table(written.metadata_location, storage)
    assert metadata.current_snapshot is not None
    for file in files_of(manifests_of(metadata.current_snapshot, storage), metadata, storage):
        assert file.partition == file.path.partition("/data/")[2].rpartition("/")[0]


_DAYS = {"year": 80, "month": 960, "day": 29_200}
_TRANSFORMED = st.one_of(
    *(st.tuples(st.just((3, name)), st.integers(-most, most)) for name, most in _DAYS.items()),
    st.tuples(st.just((4, "hour")), st.integers(-700_000, 700_000)),
    st.tuples(st.just((1, "bucket[16]")), st.integers(0, 15)),
    st.tuples(st.just((7, "truncate[10]")), st.integers(-100, 100).map(lambda tens: tens * 10)),
    st.tuples(st.just((2, "truncate[4]")), st.text(max_size=4)),
    st.tuples(st.just((2, "void")), st.none()),
)


@given(parts=st.lists(_TRANSFORMED, min_size=1, max_size=3))
def test_a_transformed_partition_is_called_as_pyiceberg_calls_it(parts: list[tuple[tuple[int, str], Any]]) -> None:
    """Years, months, days and hours since 1970 are shown as dates and times, also before 1970."""
    names = [f"a part/{at}" for at in range(len(parts))]
    theirs = PartitionSpec(
        *(
            PartitionField(source_id=source, field_id=1000 + at, transform=parse_transform(text), name=names[at])
            for at, ((source, text), _) in enumerate(parts)
        )
    )
    ours = tuple(Field(field_id=1000 + at, name=names[at], transform=text) for at, ((_, text), _) in enumerate(parts))
    values = [value for _, value in parts]
    told = partition_path(dict(zip(names, values, strict=True)), ours)
    assert told == theirs.partition_to_path(Record(*values), SCHEMA)


def test_counts_and_instants_are_those_of_the_catalogs_table(lake: Lake) -> None:
    """The table is known by its identifier, and every snapshot of its history is an instant."""
    written = lake.create()
    for _ in range(3):
        written.append(rows(*ROWS))
    written.delete("id == 1")
    seen = lake.look()
    assert seen.view.name == "shop.sales"
    assert str(seen.view.identity) == f"catalog://lake/shop.sales#{written.metadata.table_uuid}"
    assert [i.action for i in seen.view.timeline.instants] == written.inspect.snapshots()["operation"].to_pylist()
    assert {i.stands_for for i in seen.view.timeline.instants} == {InstantKind.WRITE}
    assert seen.token == ICEBERG.token(lake.table(), Storages().of("catalog://lake/shop.sales"))


def test_a_commit_moves_the_token(lake: Lake) -> None:
    """Nothing else changes it."""
    written = lake.create()
    tokens = [lake.look().token, lake.look().token]
    written.append(rows(*ROWS))
    assert tokens[0] == tokens[1] != lake.look().token
