"""Completed writes that an operator rolls back while a rewrite is under way (`CALL rollback_to_instant`). Hudi allows
it, and would commit what the rewrite has read.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from lakewarden.executors.contract import Ended, Granted, Lost, Outcome, Succeeded, Yielded
from lakewarden.planners.model.instant import Service, Step
from tests.integration.executors.deleting_orders import Deleting
from tests.integration.executors.test_hudi_clustering import AT_ONCE, ONE_FILE_FOR_EACH_BATCH
from tests.integration.executors.test_hudi_log_compaction import TWO_BLOCKS
from tests.integration.executors.test_hudi_returning_keys import OLD
from tests.integration.iceberg.deletions import suffering
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.support.hudi.orders import Orders
    from tests.support.pool.driver import Driver

pytestmark = pytest.mark.spark


@dataclasses.dataclass
class _Undone(Deleting):
    """A table of which the last write is rolled back."""

    def undo_the_last_write(self) -> None:
        """Roll it back as `CALL rollback_to_instant` does."""
        client = self._hudi.client.SparkRDDWriteClient(*self._opened)
        assert client.rollback(str(self._last.requestedTime()))
        client.close()

    def begin_to_undo_the_last_write(self) -> None:
        """Do the first step of it: the plan of the rollback."""
        engine, config = self._opened
        table = self._hudi.table.HoodieSparkTable.create(config, engine)
        time = str(table.getMetaClient().createNewInstantTime(bool(0)))
        table.scheduleRollback(engine, time, self._last, bool(0), bool(0), bool(0))

    @property
    def _hudi(self) -> Any:
        return self.spark.sparkContext._jvm.org.apache.hudi

    @property
    def _opened(self) -> tuple[Any, Any]:
        properties = self.spark.sparkContext._jvm.java.util.Properties()
        for key, value in self._options().items():
            properties.setProperty(key, value)
        builder = self._hudi.config.HoodieWriteConfig.newBuilder()
        engine = self._hudi.client.common.HoodieSparkEngineContext(self.spark.sparkContext._jsc)
        return engine, builder.withPath(self.address).withProps(properties).build()

    @property
    def _last(self) -> Any:
        engine, config = self._opened
        timeline = self._hudi.table.HoodieSparkTable.create(config, engine).getActiveTimeline()
        return timeline.getDeltaCommitTimeline().filterCompletedInstants().lastInstant().get()


@pytest.fixture
def table(orders: Orders) -> _Undone:
    """Return a table with updates in its log files."""
    table = _Undone.of(orders)
    assert isinstance(table, _Undone)
    table.write(keys=3)
    return table


def _committing(driver: Driver, table: _Undone, service: Service, options: Mapping[str, Any]) -> Outcome:
    """Undo the last write when the run asks for its commit, and return how the run ends."""
    run = driver.submit(table, service, **options)
    driver.advance(run, to=Step.COMMIT)
    table.undo_the_last_write()
    driver.pool.answer(run, Step.COMMIT, Granted())
    return driver.next(run, Ended).outcome


def _remember(table: _Undone) -> dict[str, str]:
    """Delete an order, insert one and update one in a single write, which is about to be undone."""
    before = dict(table.expected)
    table.add("p0", "o3", "o30")
    return before


@pytest.mark.parametrize("conf", [{}, OLD], ids=["v9", "v6"])
def test_rows_of_a_write_that_was_rolled_back_do_not_return_by_a_compaction(
    driver: Driver, table: _Undone, tmp_path: Path, conf: Mapping[str, str]
) -> None:
    """The compaction has read them already. Its plan is withdrawn, because a writer that compacts would fail by it."""
    table = dataclasses.replace(table, path=tmp_path / "undone", conf=conf, expected={}, versions=0)
    table.write()
    table.write(keys=3)
    before = _remember(table)

    outcome = _committing(driver, table, Service.COMPACTION, {})

    assert isinstance(outcome, Yielded)
    assert "was rolled back since plan" in outcome.reason
    table.expected = before
    table.check_rows()
    assert table.plans_of(Service.COMPACTION) == set()
    assert isinstance(driver.carry_out(table, Service.COMPACTION), Succeeded)
    table.check_rows()
    table.write(keys=3)
    table.check_rows()


@pytest.mark.faults
@pytest.mark.parametrize("passed", [1, 2], ids=["before its files go", "after they went"])
@pytest.mark.parametrize("conf", [{}, OLD], ids=["v9", "v6"])
def test_a_kill_before_the_plan_of_an_undone_write_is_withdrawn_loses_no_row(
    driver: Driver, table: _Undone, tmp_path: Path, worker_faults: Path, conf: Mapping[str, str], passed: int
) -> None:
    """The plan stays, and the next run withdraws it."""
    table = dataclasses.replace(table, path=tmp_path / "undone", conf=conf, expected={}, versions=0)
    table.write()
    table.write(keys=3)
    before, told = _remember(table), tmp_path / "told"
    worker_faults.write_text(
        json.dumps([{"point": "withdrawing", "act": "hold", "service": "compaction", "told": str(told), "hit": passed}])
    )
    try:
        run = driver.submit(table, Service.COMPACTION)
        driver.advance(run, to=Step.COMMIT)
        table.undo_the_last_write()
        driver.pool.answer(run, Step.COMMIT, Granted())
        eventually(told.exists)
        worker = psutil.Process(driver.pool._owner[run].process.pid)
        for process in [*worker.children(recursive=True), worker]:
            process.kill()
        driver.next(run, Lost)
    finally:
        worker_faults.unlink()
        told.unlink(missing_ok=True)
    driver.until_ready()
    table.expected = before
    table.check_rows()

    plan = next(iter(table.plans_of(Service.COMPACTION)))
    if isinstance(driver.carry_out(table, Service.COMPACTION, instant=plan), Yielded):
        assert table.plans_of(Service.COMPACTION) == set()
        assert isinstance(driver.carry_out(table, Service.COMPACTION), Succeeded)
    table.check_rows()


@pytest.mark.core
def test_a_delete_that_was_rolled_back_before_the_execution_of_a_compaction_is_undone(
    driver: Driver, table: _Undone
) -> None:
    """The files that the plan names are gone."""
    before = dict(table.expected)
    table.delete("o0")
    run = driver.submit(table, Service.COMPACTION)
    driver.advance(run, to=Step.EXECUTE)
    table.undo_the_last_write()
    driver.pool.answer(run, Step.EXECUTE, Granted())

    assert isinstance(driver.next(run, Ended).outcome, Yielded)

    assert table.plans_of(Service.COMPACTION) == set()
    assert isinstance(driver.carry_out(table, Service.COMPACTION), Succeeded)
    table.expected = before
    table.check_rows()


def test_a_rollback_that_has_begun_keeps_the_commit_of_a_compaction_back(driver: Driver, table: _Undone) -> None:
    """It is planned, and has deleted nothing yet."""
    table.delete("o0")
    run = driver.submit(table, Service.COMPACTION)
    driver.advance(run, to=Step.COMMIT)
    table.begin_to_undo_the_last_write()
    driver.pool.answer(run, Step.COMMIT, Granted())

    outcome = driver.next(run, Ended).outcome

    assert isinstance(outcome, Yielded)
    assert "is being rolled back since plan" in outcome.reason
    table.check_rows()


def test_a_delete_that_was_rolled_back_does_not_return_by_a_log_compaction(driver: Driver, table: _Undone) -> None:
    """It would drop the row in the new log file."""
    table.write(keys=3)
    before = dict(table.expected)
    table.delete("o0")

    outcome = _committing(driver, table, Service.LOG_COMPACTION, TWO_BLOCKS)

    assert isinstance(outcome, Yielded)
    table.expected = before
    table.check_rows()
    assert isinstance(driver.carry_out(table, Service.COMPACTION), Succeeded)
    table.check_rows()


def test_rows_of_a_write_that_was_rolled_back_do_not_return_by_a_clustering(
    driver: Driver, table: _Undone, worker_faults: Path
) -> None:
    """Its new files are written, and nothing is committed."""
    table.conf = {**table.conf, **ONE_FILE_FOR_EACH_BATCH}
    table.add("p0", "o30")
    before = dict(table.expected)
    table.add("p0", "o33")
    with suffering(worker_faults, "written", "hold", service="clustering") as stands:
        run = driver.submit(table, Service.CLUSTERING, **AT_ONCE)
        driver.advance(run, to=Step.COMMIT)
        driver.pool.answer(run, Step.COMMIT, Granted())
        eventually(stands.exists)
        table.undo_the_last_write()

    outcome = driver.next(run, Ended).outcome

    assert isinstance(outcome, Yielded)
    assert "was rolled back since plan" in outcome.reason
    table.expected = before
    table.check_rows()
    assert isinstance(driver.carry_out(table, Service.CLUSTERING, **AT_ONCE), Succeeded)
    table.check_rows()
