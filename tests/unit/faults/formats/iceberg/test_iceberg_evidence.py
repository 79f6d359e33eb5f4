"""The gathered evidence equals the content of real tables, which pyiceberg writes."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.table import Table

from faults.formats.iceberg.evidence import (
    MetadataSeen,
    PlansFound,
    Signed,
    files_needed,
    files_there,
    local,
    plans_beside,
    rows_changed,
    timeline_found,
)
from faults.formats.iceberg.trial import IcebergTrial
from faults.formats.trial import Pending
from lakewarden.demo.environment import Environment
from lakewarden.planners.model.instant import Service
from live.iceberg.travel import rows_of

ROWS = pa.schema([("order_id", pa.string()), ("region", pa.string()), ("version", pa.int32())])
OURS = {"lakewarden.run-id": "r1", "lakewarden.service": "compaction"}


def rows(*keys: str) -> pa.Table:
    columns = [list(keys), ["north"] * len(keys), [1] * len(keys)]
    return pa.Table.from_arrays([pa.array(c, f.type) for c, f in zip(columns, ROWS, strict=True)], schema=ROWS)


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    """Return a catalog in SQLite."""
    made = load_catalog("lake", type="sql", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
    made.create_namespace("shop")
    return made


@pytest.fixture
def table(catalog: Catalog, tmp_path: Path) -> Table:
    """Return a table with three appends. The second one has expired. The log is short."""
    made = catalog.create_table(
        "shop.orders", ROWS, location=str(tmp_path / "orders"), properties={"write.metadata.previous-versions-max": "2"}
    )
    made.append(rows("a"))
    made.append(rows("b"), snapshot_properties=OURS)
    second = made.current_snapshot()
    assert second is not None
    made.append(rows("c"))
    made.maintenance.expire_snapshots().by_id(second.snapshot_id).commit()
    return made


def newest(table: Table) -> Path:
    return local(table.metadata_location)


def test_metadata_that_was_deleted_since_is_remembered(table: Table, tmp_path: Path) -> None:
    """Each commit may delete an old version. An expired snapshot of ours is found in the version that had it."""
    seen = MetadataSeen()
    seen.look(tmp_path / "orders")
    table.append(rows("d"))
    for file in (tmp_path / "orders" / "metadata").glob("0000[0-3]*.metadata.json"):
        file.unlink()
    seen.look(tmp_path / "orders")
    [signed] = seen.committed(newest(table)).values()
    assert signed == Signed(service="compaction", run="r1")


def test_a_version_that_was_never_seen_is_no_proof(table: Table, tmp_path: Path) -> None:
    """It may have had instants of ours."""
    for file in (tmp_path / "orders" / "metadata").glob("00002*.metadata.json"):
        file.unlink()
    seen = MetadataSeen()
    seen.look(tmp_path / "orders")
    with pytest.raises(ValueError, match="was deleted before it was seen"):
        seen.committed(newest(table))


def test_metadata_that_was_never_committed_is_left_out(table: Table, tmp_path: Path) -> None:
    """A killed run leaves such a file. No later version names it."""
    raw = json.loads(newest(table).read_text())
    raw["snapshots"].append({"snapshot-id": 99, "summary": OURS})
    newest(table).with_name("00099-lost.metadata.json").write_text(json.dumps(raw))
    newest(table).with_name("00098-torn.metadata.json").write_text('{"snapshots": [')
    seen = MetadataSeen()
    seen.look(tmp_path / "orders")
    assert "99" not in seen.committed(newest(table))


def test_a_part_of_a_commit_counts_only_with_its_last_one(tmp_path: Path) -> None:
    """With partial progress a run has failed if its last part is missing. Statistics name their run in the file."""
    (tmp_path / "metadata").mkdir()
    file = tmp_path / "metadata" / "1.metadata.json"
    ours, others = "4-1700000000000-lakewarden-r9.stats", "4-abc.stats"
    parts = [
        {"snapshot-id": 1, "summary": {**OURS, "lakewarden.part": "more"}},
        {"snapshot-id": 2, "summary": {**OURS, "lakewarden.run-id": "r2"}},
    ]
    statistics = [{"statistics-path": f"/t/metadata/{name}"} for name in (ours, others)]
    file.write_text(json.dumps({"snapshots": parts, "statistics": statistics}))
    seen = MetadataSeen()
    seen.look(tmp_path)
    assert seen.committed(file) == {
        "2": Signed(service="compaction", run="r2"),
        ours: Signed(service="table_stats", run="r9"),
    }


def test_deletions_are_in_the_timeline() -> None:
    """A deletion that has left the file of plans counts as archived."""
    signed = {"2": Signed(service="compaction", run="r2")}
    plans = {"clean": PlansFound(completed=["3-clean"]), "orphans": PlansFound(pending="5-orphans")}
    timeline = timeline_found(signed, plans, seen={"1-clean": "clean", "3-clean": "clean"})
    assert timeline.completed == {"2": "compaction", "3-clean": "clean"}
    assert timeline.authors == {"2": "r2"}
    assert timeline.pending == {"5-orphans.orphans"}
    assert set(timeline.archived) == {"1-clean"}


@pytest.mark.parametrize("pattern", ["data/**/*.parquet", "metadata/*-m0.avro", "metadata/snap-*.avro"])
def test_a_file_that_a_snapshot_needs_and_that_is_gone_is_missed(table: Table, tmp_path: Path, pattern: str) -> None:
    """Data files, manifests and manifest lists are needed. So is each version of the metadata in the log."""
    needed = set[str]().union(*files_needed(newest(table)).values())
    assert needed <= files_there(tmp_path / "orders")
    lost = next(path for path in sorted((tmp_path / "orders").glob(pattern)) if str(path) in needed)
    lost.unlink()
    needed = set[str]().union(*files_needed(newest(table)).values())
    assert needed - files_there(tmp_path / "orders") == {str(lost)}


def test_a_snapshot_of_ours_with_other_rows_than_its_parent_is_told(table: Table) -> None:
    """Snapshots of writers change rows. Ours must not."""
    assert rows_changed(table, rows_of(table)) == {}
    table.append(rows(), snapshot_properties=OURS)
    assert rows_changed(table, rows_of(table)) == {}
    table.append(rows("d", "e"), snapshot_properties=OURS)
    wrong = table.current_snapshot()
    assert wrong is not None
    assert rows_changed(table, rows_of(table)) == {str(wrong.snapshot_id): 2}


def test_a_plan_that_is_being_written_is_read_from_its_other_file(tmp_path: Path) -> None:
    """One of the two files is always whole. If neither is, the plan counts as pending."""
    (tmp_path / "metadata").mkdir()
    first, second = (tmp_path / "metadata" / f"lakewarden-clean{name}.json" for name in ("", ".next"))
    assert plans_beside(tmp_path, "clean") == PlansFound()
    first.write_text('{"pending": nu')
    assert plans_beside(tmp_path, "clean").pending == "an unreadable plan of clean"
    second.write_text(json.dumps({"pending": {"instant": "7-clean"}, "completed": [{"instant": "6-clean"}]}))
    assert plans_beside(tmp_path, "clean") == PlansFound(pending="7-clean", completed=("6-clean",))


def test_the_trial_leaves_orphans_as_soon_as_the_last_ones_are_gone(tmp_path: Path) -> None:
    """Those that are still there are left over. Completed plans are remembered after they have left the file."""
    trial = IcebergTrial()
    with Environment(tmp_path, trial.format_demo) as environment:
        trial.make_work(environment)
        assert trial.left_over(environment) == []
        (environment.table / "metadata").mkdir(parents=True)
        trial.make_work(environment)
        first = set(environment.table.rglob("*.parquet"))
        trial.make_work(environment)
        assert set(environment.table.rglob("*.parquet")) == first
        assert len(trial.left_over(environment)) == len(first) == 3
        for file in first:
            file.unlink()
        trial.make_work(environment)
        assert not first & set(environment.table.rglob("*.parquet"))
        plan = {"pending": {"instant": "7-orphans"}, "completed": []}
        (environment.table / "metadata" / "lakewarden-orphans.json").write_text(json.dumps(plan))
        assert trial.pending(environment) == {Pending("7-orphans", Service.ORPHANS)}
