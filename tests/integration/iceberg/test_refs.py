"""Branches and tags that have an age, on real Spark: clean removes them as Iceberg does, and never one that moved."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import TypeAdapter
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import StaticTable

from lakewarden.executors.contract import Ended, Granted, Lost, NothingToDo, Outcome, Succeeded, Yielded
from lakewarden.planners.formats.iceberg.catalogs.settings import Catalog
from lakewarden.planners.formats.iceberg.catalogs.spark_catalogs import spark_conf
from lakewarden.planners.model.instant import Service, Step
from tests.integration.iceberg.deletions import AT_ONCE, EVERYTHING, Deletions, suffering
from tests.support.catalogs.iceberg_rest import iceberg_rest
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.support.iceberg.trips import Trips
    from tests.support.pool.driver import Driver

pytestmark = pytest.mark.spark

_SETTINGS: TypeAdapter[Any] = TypeAdapter(Catalog)
_ONE_MILLISECOND = 1


def with_aged_names(table: Deletions) -> None:
    """Give the table a branch with a commit of its own, a tag of that, a tag of main, all of them aged; and one without
    an age.
    """
    java, ids = table.java(), table.snapshots()
    java.manageSnapshots().createBranch("audit", ids[4]).createTag("of-main", ids[1]).createTag("kept", ids[2]).commit()
    java.newDelete().deleteFromRowFilter(java_false(table)).toBranch("audit").commit()
    java.manageSnapshots().createTag("of-audit", java.refs().get("audit").snapshotId()).commit()
    change = java.manageSnapshots()
    for name in ("audit", "of-main", "of-audit"):
        change = change.setMaxRefAgeMs(name, _ONE_MILLISECOND)
    change.commit()
    table.trips.append()


def java_false(table: Deletions) -> Any:
    """Return a filter that means no row: the commit is there all the same."""
    return table.trips.lake.spark._jvm.org.apache.iceberg.expressions.Expressions.equal("id", -1)


def names(table: Deletions) -> set[str]:
    """Return the names that the table has, as pyiceberg reads them."""
    return set(table.trips.read().refs())


def test_aged_names_go_with_the_snapshots_that_they_alone_kept_as_icebergs_own_action_does_it(
    driver: Driver, trips: Trips, tmp_path: Path
) -> None:
    """On the same table Iceberg's own action leaves the same names, the same snapshots and the same files."""
    table = Deletions(trips)
    with_aged_names(table)
    with table.put_back(tmp_path / "copy"):
        table.expire_by_icebergs_own_action(older_than=int(time.time() * 1000))
        left = names(table), table.snapshots(), table.on_disk()
    assert left[0] == {"main", "kept"}

    kept = driver.carry_out(table, Service.CLEAN, expire_refs=False, **EVERYTHING)
    assert isinstance(kept, Succeeded)
    assert kept.figures["refs_expired"] == 0
    assert names(table) == {"main", "kept", "audit", "of-main", "of-audit"}

    outcome = driver.carry_out(table, Service.CLEAN, **EVERYTHING)
    assert isinstance(outcome, Succeeded)
    assert outcome.figures["refs_expired"] == 3
    assert (names(table), table.snapshots()) == left[:2]
    assert {path for path in left[2] if path.endswith(".parquet")} == {
        path for path in table.on_disk() if path.endswith(".parquet")
    }
    assert table.on_disk() == table.known()
    assert trips.found() == trips.expected
    assert isinstance(driver.carry_out(table, Service.CLEAN, **EVERYTHING), NothingToDo)


def test_a_name_alone_may_expire(driver: Driver, trips: Trips) -> None:
    """Its snapshot stays for another's sake, and no file goes."""
    table = Deletions(trips)
    head = table.snapshots()[-1]
    assert isinstance(driver.carry_out(table, Service.CLEAN, **EVERYTHING), Succeeded)
    table.java().manageSnapshots().createTag("v1", head).setMaxRefAgeMs("v1", _ONE_MILLISECOND).commit()
    before = table.on_disk()
    outcome = driver.carry_out(table, Service.CLEAN, **EVERYTHING)
    assert isinstance(outcome, Succeeded)
    assert (outcome.figures["refs_expired"], outcome.figures["files_deleted"]) == (1, 0)
    assert names(table) == {"main"}
    assert (table.snapshots(), table.on_disk()) == ([head], before)


@pytest.mark.parametrize("point", ["expiring", "expired"])
def test_a_clean_of_names_that_is_killed_is_finished_by_the_next_run(
    driver: Driver, trips: Trips, worker_faults: Path, point: str
) -> None:
    """Names and snapshots go in one commit: before it nothing has changed, after it the list tells what is left."""
    table = Deletions(trips)
    with_aged_names(table)
    with suffering(worker_faults, point, "crash", service="clean"):
        run = driver.submit(table, Service.CLEAN, **EVERYTHING)
        driver.advance(run, to=Step.COMMIT)
        driver.pool.answer(run, Step.COMMIT, Granted())
        driver.next(run, Lost)
    assert ("audit" in names(table)) is (point == "expiring")
    beside = table.beside(Service.CLEAN)
    assert beside is not None
    assert beside.pending is not None
    driver.until_ready()
    outcome = driver.carry_out(table, Service.CLEAN, instant=beside.pending.instant, **EVERYTHING)
    assert isinstance(outcome, Succeeded)
    assert names(table) == {"main", "kept"}
    assert table.on_disk() == table.known()
    assert trips.found() == trips.expected


@dataclass
class Named:
    """A table with six snapshots in a catalog of its own kind, as writers see it through a session of their JVM."""

    session: Any
    catalog: Mapping[str, Any]

    @property
    def assigned(self) -> Mapping[str, Any]:
        """What an assignment says of it."""
        location = "catalog://lake/sales.trips"
        return {"format": "iceberg", "location": location, "catalog": dict(self.catalog), "table_options": AT_ONCE}

    def java(self) -> Any:
        """Load it in the writers' JVM."""
        return self.session._jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(
            self.session._jsparkSession, "lake.sales.trips"
        )

    def snapshots(self) -> list[int]:
        """Return its snapshots, the oldest first."""
        return [int(one.snapshotId()) for one in self.java().snapshots()]

    def names(self) -> dict[str, int]:
        """Return for which snapshot each name stands."""
        refs = self.java().refs()
        return {str(name): int(refs.get(name).snapshotId()) for name in list(refs.keySet())}


def _jdbc(folder: Path, _: ExitStack) -> Mapping[str, Any]:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/warehouse")
    catalog.create_namespace("sales")
    catalog.engine.dispose()
    return {"type": "jdbc", "uri": f"jdbc:sqlite:{folder}/catalog.db", "warehouse": f"file://{folder}/warehouse"}


def _rest(folder: Path, life: ExitStack) -> Mapping[str, Any]:
    return {"type": "rest", "uri": life.enter_context(iceberg_rest(folder)).uri}


@pytest.fixture(params=[_jdbc, _rest], ids=lambda make: make.__name__.strip("_"))
def table(request: pytest.FixtureRequest, tmp_path: Path, spark: Any) -> Iterator[Named]:
    """Make a table."""
    make: Callable[[Path, ExitStack], Mapping[str, Any]] = request.param
    with ExitStack() as life:
        catalog = make(tmp_path, life)
        session = spark.newSession()
        for key, value in spark_conf("lake", _SETTINGS.validate_python(catalog)).items():
            session.conf.set(key, value)
        session.sql("CREATE TABLE lake.sales.trips (id BIGINT) USING iceberg")
        for id_ in range(6):
            session.sql(f"INSERT INTO lake.sales.trips VALUES ({id_})")
        yield Named(session, catalog)


def _while_it_commits(driver: Driver, table: Named, faults: Path, change: Callable[[], None]) -> Outcome:
    with suffering(faults, "expiring", "hold", service="clean") as stands:
        run = driver.submit(table, Service.CLEAN, **EVERYTHING)
        driver.advance(run, to=Step.COMMIT)
        driver.pool.answer(run, Step.COMMIT, Granted())
        eventually(stands.exists)
        change()
        stands.unlink()
        return driver.next(run, Ended).outcome


def test_main_that_goes_back_in_the_moment_of_our_commit_stays(
    driver: Driver, table: Named, worker_faults: Path
) -> None:
    """Iceberg's client requires nothing of main in a REST catalog. It was removed there together with its snapshot."""
    _, _, back, *_ = table.snapshots()

    def roll_back() -> None:
        table.java().manageSnapshots().rollbackTo(back).commit()

    outcome = _while_it_commits(driver, table, worker_faults, roll_back)

    assert table.names() == {"main": back}, outcome
    assert isinstance(outcome, Yielded)
    assert len(table.snapshots()) == 6
    assert sorted(row["id"] for row in table.session.table("lake.sales.trips").collect()) == [0, 1, 2]


def test_a_name_that_moves_in_the_moment_of_our_commit_stays(driver: Driver, table: Named, worker_faults: Path) -> None:
    """The commit requires that each name stands where it was looked at. A REST catalog would remove it anywhere."""
    _, old, new, *_ = table.snapshots()
    table.java().manageSnapshots().createTag("v1", old).setMaxRefAgeMs("v1", _ONE_MILLISECOND).commit()

    def move() -> None:
        table.java().manageSnapshots().replaceTag("v1", new).setMaxRefAgeMs("v1", 10**12).commit()

    outcome = _while_it_commits(driver, table, worker_faults, move)

    assert table.names()["v1"] == new, outcome
    assert new in table.snapshots()
    assert sorted(row["id"] for row in table.session.read.option("tag", "v1").table("lake.sales.trips").collect()) == [
        0,
        1,
        2,
    ]


def _tagged(table: Named, snapshot: int, *, name: str = "audited") -> None:
    table.java().manageSnapshots().createTag(name, snapshot).setMaxRefAgeMs(name, 10**12).commit()


def _rows(table: Named, name: str) -> list[int]:
    return sorted(row["id"] for row in table.session.read.option("tag", name).table("lake.sales.trips").collect())


def _files_are_all_there(table: Named) -> bool:
    """Whether pyiceberg reads every row of every snapshot."""
    metadata = StaticTable.from_metadata(str(table.java().operations().current().metadataFileLocation()))
    return all(metadata.scan(snapshot_id=one.snapshot_id).to_arrow().num_rows for one in metadata.snapshots())


@pytest.mark.parametrize("retries", ["4", "0"])
def test_a_name_that_is_made_of_an_expiring_snapshot_in_the_moment_of_our_commit_stays(
    driver: Driver, table: Named, worker_faults: Path, retries: str
) -> None:
    """Other catalogs refuse the commit, because the pointer has moved. A REST catalog has no requirement that a name is
    not there, and removes it with its snapshot. It is restored before any file is deleted, also if the table says that
    no commit is tried again.
    """
    table.session.sql(f"ALTER TABLE lake.sales.trips SET TBLPROPERTIES ('commit.retry.num-retries'='{retries}')")
    _, _, old, *_ = table.snapshots()
    head, before = table.snapshots()[-1], table.java().operations().current().lastSequenceNumber()

    outcome = _while_it_commits(driver, table, worker_faults, lambda: _tagged(table, old))

    assert table.names() == {"main": head, "audited": old}, outcome
    assert _rows(table, "audited") == [0, 1, 2]
    assert int(table.java().refs().get("audited").maxRefAgeMs()) == 10**12
    if table.catalog["type"] == "rest":
        assert isinstance(outcome, Succeeded), outcome
        assert outcome.figures["refs_restored"] == 1
        assert set(table.snapshots()) == {head, old}
        assert table.java().operations().current().lastSequenceNumber() == before + 1
    else:
        assert isinstance(outcome, Yielded)
    table.session.sql("INSERT INTO lake.sales.trips VALUES (6)")
    assert isinstance(driver.carry_out(table, Service.CLEAN, **EVERYTHING), Succeeded)
    assert (_rows(table, "audited"), _files_are_all_there(table)) == ([0, 1, 2], True)
    assert sorted(row["id"] for row in table.session.table("lake.sales.trips").collect()) == list(range(7))


def test_a_name_that_a_killed_clean_has_lost_is_restored_by_the_next_run(
    driver: Driver, table: Named, worker_faults: Path
) -> None:
    """The worker dies after the commit and before the name is restored."""
    _, _, old, *_ = table.snapshots()
    if table.catalog["type"] != "rest":
        pytest.skip("the pointer has moved, so nothing is committed")
    with suffering(worker_faults, "expiring", "hold", service="clean") as stands:
        run = driver.submit(table, Service.CLEAN, **EVERYTHING)
        plan = driver.advance(run, to=Step.COMMIT)
        driver.pool.answer(run, Step.COMMIT, Granted())
        eventually(stands.exists)
        _tagged(table, old)
        crash = {"point": "expired", "act": "crash", "service": "clean", "told": str(stands.with_name("dead"))}
        worker_faults.write_text(json.dumps([*json.loads(worker_faults.read_text()), crash]))
        stands.unlink()
        driver.next(run, Lost)
    assert "audited" not in table.names()

    driver.until_ready()
    outcome = driver.carry_out(table, Service.CLEAN, instant=None if plan is None else plan.instant, **EVERYTHING)

    assert isinstance(outcome, Succeeded), outcome
    assert outcome.figures["refs_restored"] == 1
    assert outcome.figures["metadata_files_deleted"]
    assert (_rows(table, "audited"), _files_are_all_there(table)) == ([0, 1, 2], True)
