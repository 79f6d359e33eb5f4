"""Two tables that turn out to lie in one folder: neither is served, and each names the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from lakewarden.planners.formats.iceberg import ICEBERG
from lakewarden.planners.formats.iceberg.catalogs.settings import JdbcCatalog
from lakewarden.planners.model.decision import Blocked, WouldRun
from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.model.instant import Service, Step
from lakewarden.planners.model.table import Mode, Policy, Table, TableId
from lakewarden.planners.ports import Observation, Storage
from lakewarden.planners.triggers import NumCommits
from lakewarden.service.model.run import RunState
from tests.support.daemon.daemon_harness import START, DaemonHarness, HarnessClock
from tests.support.doubles.fake import FAKE, FakeFormat, FakeTable

ONE, TWO = TableId("one"), TableId("two")
NAMES = {ONE: "catalog://lake/db.one", TWO: "catalog://lake/db.two"}


class InCatalogs(FakeFormat):
    """Fake tables that catalogs name. `folders` are the folders that they tell of a location. None: they are down."""

    def __init__(self, folders: dict[str, str | None]) -> None:
        self.folders = folders

    def token(self, table: Table, storage: Storage) -> str:
        """Return the token of the table in its folder."""
        return FAKE.token(self._placed(table), storage)

    def observe(self, table: Table, storage: Storage, previous: Observation | None, *, now: datetime) -> Observation:
        """Return the view of the table in its folder."""
        placed = self._placed(table)
        found = FAKE.observe(placed, storage, previous, now=now)
        identity = replace(found.view.identity, location=table.location)
        return replace(found, view=replace(found.view, identity=identity, folder=placed.location))

    def _placed(self, table: Table) -> Table:
        folder = self.folders[table.location]
        if folder is None:
            raise TemporaryError("the catalog lake does not answer")
        return replace(table, location=folder)


def twins(folder: Path, *, named: Mapping[TableId, str] = NAMES) -> tuple[DaemonHarness, dict[str, str | None]]:
    """Return a daemon with two tables in one folder, that is due for a compaction, and what the catalogs tell."""
    clock = HarnessClock()
    lake = FakeTable.create(folder / "lake", clock=clock)
    for _ in range(3):
        lake.write()
    folders: dict[str, str | None] = dict.fromkeys([*named.values(), str(lake.folder)], str(lake.folder))
    formats = {"fake": InCatalogs(folders)}
    lakes = dict.fromkeys(NAMES, lake)
    return DaemonHarness(folder, clock=clock, lakes=lakes, locations=named, formats=formats), folders


@pytest.mark.parametrize("named", [NAMES, {TWO: NAMES[TWO]}], ids=["two names", "a path and a name"])
def test_two_tables_in_one_folder_are_blocked_by_name_before_any_run(
    tmp_path: Path, named: Mapping[TableId, str]
) -> None:
    """The table that is looked at first was due. It waits for the first look at the other one."""
    harness, _ = twins(tmp_path, named=named)
    harness.for_a_while()

    for table, other in ((ONE, "two"), (TWO, "one")):
        decision = harness.decision(Service.COMPACTION, table)
        assert isinstance(decision, Blocked)
        assert decision.reason.startswith(f"its folder is also registered as {other}: one folder is one table")
        assert decision.remedy == "remove one of the two entries"
        assert decision.code == "registered_twice"
    assert "compaction plan Granted" not in harness.recorded.lines
    assert harness.lakes[ONE].log_files == 3
    asked = harness.answered(harness.status.commands.request_run(ONE, Service.COMPACTION, by="ada"))
    assert isinstance(asked, Blocked)


def test_a_catalog_that_is_down_holds_no_other_table_back_and_then_both_are_blocked(tmp_path: Path) -> None:
    """A run that was begun meanwhile gets no further step."""
    harness, folders = twins(tmp_path, named={TWO: NAMES[TWO]})
    told, folders[NAMES[TWO]] = folders[NAMES[TWO]], None
    harness.held_pool.hold(Service.COMPACTION, Step.PLAN)
    harness.until(lambda: (Service.COMPACTION, Step.PLAN) in harness.held_pool.under_way)
    folders[NAMES[TWO]] = told
    harness.until(lambda: isinstance(harness.decision(Service.COMPACTION, TWO), Blocked), within=timedelta(hours=1))
    harness.until(lambda: "registered as one" in harness.decision(Service.COMPACTION, TWO).reason)
    harness.held_pool.release()
    harness.until(lambda: not harness.store.active())

    (run,) = harness.runs()
    assert run.state is not RunState.SUCCEEDED
    assert "its folder is also registered as two" in (run.outcome or "")
    assert "compaction execute Granted" not in harness.recorded.lines


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[SqlCatalog]:
    found = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/wh")
    found.create_namespace("db")
    yield found
    found.engine.dispose()


def test_two_names_of_one_iceberg_table_are_blocked_also_through_a_link(tmp_path: Path, catalog: SqlCatalog) -> None:
    """The third table has a folder of its own, and would run."""
    rows = pa.table({"id": [1]})
    (tmp_path / "wh/db/a").mkdir(parents=True)
    (tmp_path / "wh/db/link").symlink_to(tmp_path / "wh/db/a")
    for name in ("a", "link", "alone"):
        made = catalog.create_table(f"db.{name}", rows.schema, location=f"file://{tmp_path}/wh/db/{name}")
        made.append(rows)
    catalog.register_table("db.alone_too", catalog.load_table("db.alone").metadata_location)
    named = {"a": "lake/db.a", "link": "lake2/db.link", "alone": "lake/db.alone", "alone too": "lake/db.alone_too"}
    settings = JdbcCatalog(
        type="jdbc", uri=f"jdbc:sqlite:{tmp_path}/catalog.db", warehouse="/nowhere", catalog_name="lake"
    )
    policies = {Service.CLEAN: Policy(trigger=NumCommits(at_least=1), options=ICEBERG.services[Service.CLEAN]())}
    tables = [
        Table(
            id=TableId(id_),
            format="iceberg",
            location=f"catalog://{name}",
            catalog=settings,
            mode=Mode.PLAN,
            policies=policies,
        )
        for id_, name in named.items()
    ]
    harness = DaemonHarness(tmp_path, lakes={}, tables=tables, formats={"iceberg": ICEBERG}, clock=HarnessClock(START))
    harness.for_a_while()

    told = {table.id: harness.decision(Service.CLEAN, table.id) for table in tables}
    assert {table: one.code for table, one in told.items()} == dict.fromkeys(named, "registered_twice")
    assert "also registered as link:" in told[TableId("a")].reason
    assert "also registered as alone too:" in told[TableId("alone")].reason
    harness.tables = tables[:3]
    harness.compose()
    harness.for_a_while()
    alone = harness.decision(Service.CLEAN, TableId("alone"))
    assert isinstance(alone, WouldRun) or alone.code != "registered_twice"
