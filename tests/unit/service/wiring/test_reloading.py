"""Other settings for a daemon that runs: no run is touched, and a bad file changes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from lakewarden.executors.contract import Pool
from lakewarden.executors.profile import SparkProfile
from lakewarden.planners.model.clock import SystemClock
from lakewarden.planners.model.instant import Service, Step
from lakewarden.planners.model.table import Mode, Table, TableId
from lakewarden.planners.storage import Storages
from lakewarden.service.config.daemon import at_start
from lakewarden.service.config.document import read_document
from lakewarden.service.config.loading import Config, load
from lakewarden.service.config.registering import base_of
from lakewarden.service.model.configuring import ReloadOutcome
from lakewarden.service.model.found import Source
from lakewarden.service.wiring.in_force import Tables, TablesInForce
from lakewarden.service.wiring.registering import Reloader
from tests.support.daemon.daemon_harness import DaemonHarness
from tests.support.doubles.fake import FakeTable
from tests.support.doubles.formats import TEST_FORMATS

TRIPS = TableId("trips")


@pytest.fixture
def harness(tmp_path: Path) -> DaemonHarness:
    """Return a daemon with one table that is listed."""
    return DaemonHarness(tmp_path)


def registered(harness: DaemonHarness) -> Mapping[TableId, Table]:
    """Return the tables that the API shows."""
    return {status.table.id: status.table for status in harness.status.tables()}


def reason(harness: DaemonHarness) -> str:
    """Return the reason of the last decision on a compaction, if there is one."""
    status = harness.status.table(TRIPS)
    decision = None if status is None else status.decisions.get(Service.COMPACTION)
    return "" if decision is None else decision.reason


def test_new_settings_wait_for_the_end_of_a_run(harness: DaemonHarness) -> None:
    """The run ends as it began, no other one begins meanwhile, and then the new settings are in force."""
    for _ in range(3):
        harness.lake.write()
    harness.until_executing(Step.EXECUTE)
    before = registered(harness)[TRIPS]
    harness.offer([replace(before, mode=Mode.OBSERVE, contact="sales")], [], {})
    harness.for_a_while()
    assert registered(harness)[TRIPS] == before

    for _ in range(3):
        harness.lake.write()
    harness.held_pool.release()
    harness.until(lambda: registered(harness)[TRIPS].mode is Mode.OBSERVE)

    assert len(harness.completed(Service.COMPACTION)) == 1
    assert registered(harness)[TRIPS].contact == "sales"
    harness.for_a_while()
    assert "only observed" in reason(harness)


def test_new_settings_of_an_idle_table_are_in_force_at_once(harness: DaemonHarness) -> None:
    """The table is read anew, and goes on with them."""
    table = registered(harness)[TRIPS]
    harness.for_a_while()
    harness.offer([replace(table, mode=Mode.PLAN)], [], {})
    harness.turn()
    for _ in range(3):
        harness.lake.write()

    harness.until(lambda: Service.COMPACTION in harness.status.tables()[0].would_run)
    harness.offer([table], [], {})
    harness.until(lambda: harness.completed(Service.COMPACTION) != [])


def test_tables_come_and_go_with_the_file(harness: DaemonHarness, tmp_path: Path) -> None:
    """A new table is served. One that is gone is released, after its run."""
    other = FakeTable.create(tmp_path / "other", clock=harness.clock)
    harness.lakes[TableId("other")] = other
    trips = registered(harness)[TRIPS]
    harness.offer([replace(trips, id=TableId("other"), location=str(other.folder))], [], {})
    harness.turn()
    for _ in range(3):
        other.write()

    harness.until(lambda: harness.completed(Service.COMPACTION, TableId("other")) != [])
    assert set(registered(harness)) == {TableId("other")}


class Reloaded:
    """A file, what reads it again, and what it hands over."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "lakewarden.yaml"
        self.write("api: {port: 9000}", "tables: [{path: /x, format: fake}]")
        self.offered: list[Sequence[TableId]] = []
        self.pools: list[Sequence[TableId]] = []
        self.told: list[bool] = []
        values = read_document(self.file).values or {}
        config = load(self.file, formats=TEST_FORMATS)
        self.reloader = Reloader(
            self.file,
            started_with=at_start(values),
            formats=TEST_FORMATS,
            clock=SystemClock(),
            in_force=TablesInForce(
                Tables(config=config, base=base_of(config, values, self.file)),
                storages=Storages(),
                served={},
                pools_of=self._pools_of,
                offer=self._offer,
            ),
            told=self._tell,
        )

    def write(self, *lines: str) -> None:
        """Write the file."""
        self.file.write_text("\n".join(lines))

    def _pools_of(self, tables: Sequence[Table], _spark: Mapping[str, SparkProfile]) -> dict[str, Pool]:
        self.pools.append([table.id for table in tables])
        return {}

    def _offer(self, tables: Sequence[Table], _sources: Sequence[Source] | None, _pools: Mapping[str, Pool]) -> None:
        self.offered.append([table.id for table in tables])

    def _tell(self, outcome: ReloadOutcome, config: Config | None) -> None:
        assert outcome.accepted == (config is not None)
        self.told.append(outcome.accepted)


def test_a_bad_file_keeps_the_last_good_one(tmp_path: Path) -> None:
    """It is said with its lines, for as long as the file is bad."""
    reloaded = Reloaded(tmp_path)
    reloaded.write("tables:", "- {path: /x, format: fake, pol: 1s}")
    refused = reloaded.reloader.reload()

    assert (refused.accepted, reloaded.offered) == (False, [])
    assert refused.problems[0].startswith(f"{reloaded.file}:2: tables[0].pol: there is no such key")
    assert reloaded.reloader.refusal()[1] == refused.problems[0]

    reloaded.write("tables: [{path: /x, format: fake}, {path: /y, format: fake}]")
    assert reloaded.reloader.reload().accepted
    assert reloaded.offered == [["x", "y"]]
    assert not reloaded.reloader.refusal()
    assert reloaded.told == [False, True]


def test_a_file_that_is_half_written_lets_no_table_go(tmp_path: Path) -> None:
    """An empty file is refused. What a good file no longer lists is named."""
    reloaded = Reloaded(tmp_path)
    reloaded.write("tables: [{path: /x, format: fake}, {path: /y, format: fake}]")
    assert reloaded.reloader.reload().gone == ()
    reloaded.write("")
    refused = reloaded.reloader.reload()
    assert (refused.accepted, refused.gone, reloaded.offered) == (False, (), [["x", "y"]])
    assert "is empty" in refused.problems[0]

    reloaded.write("tables: [{path: /y, format: fake}]")
    assert reloaded.reloader.reload().gone == ("x",)


def test_what_is_read_at_the_start_only_is_said_by_name(tmp_path: Path) -> None:
    """The tables are in force, and the new port is not."""
    reloaded = Reloaded(tmp_path)
    reloaded.write("api: {port: 9001}", "log: {level: debug}", "tables: [{path: /y, format: fake}]")
    outcome = reloaded.reloader.reload()

    assert outcome.needs_restart == ("api.port", "log")
    assert reloaded.offered == [["y"]]


def test_a_table_cannot_have_what_was_not_there_at_the_start(tmp_path: Path) -> None:
    """A new profile of workers is read at the start, so a table that names it is refused."""
    reloaded = Reloaded(tmp_path)
    reloaded.write("spark: {default: {}, big: {memory: 4g}}", "tables: [{path: /y, format: fake, spark: big}]")
    outcome = reloaded.reloader.reload()

    assert not outcome.accepted
    assert "there is no spark profile 'big'; there is default" in outcome.problems[0]
    assert outcome.needs_restart == ("spark",) or "api" in outcome.needs_restart


def test_the_first_table_in_act_gets_its_workers(tmp_path: Path) -> None:
    """A rollout goes from observe to act without a restart."""
    reloaded = Reloaded(tmp_path)
    reloaded.write("api: {port: 9000}", "tables: [{path: /y, format: hudi, mode: act, services: {clean: }}]")

    assert reloaded.reloader.reload().accepted
    assert reloaded.pools == [["y"]]
