"""Buckets that are resized beside a live writer, which writes while the plan is pending, during its execution, and
after it.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest

from lakewarden.executors.contract import (
    Assignment,
    Ended,
    Failed,
    Granted,
    Lost,
    Outcome,
    Refused,
    Succeeded,
    Yielded,
)
from lakewarden.executors.programs.hudi.client.write_client import HudiClient
from lakewarden.executors.programs.hudi.clustering import Clustering
from lakewarden.executors.worker.runs import steps_of
from lakewarden.planners.formats.hudi.options.table_options import HudiTableOptions
from lakewarden.planners.model.instant import RunId, Service, Step
from lakewarden.planners.model.table import TableId
from lakewarden.planners.ports import MOST_ENTRIES, FileEntry
from lakewarden.planners.storage import LocalStorage
from tests.integration.executors.shared_orders import GIVES_WAY, MAKES_ROOM, SharedOrders
from tests.integration.executors.test_hudi_buckets import CONSISTENT, DECLARED
from tests.support.hudi.orders import Orders
from tests.support.pool.driver import Driver
from tests.support.waiting import eventually

pytestmark = pytest.mark.spark

SPLIT: dict[str, Any] = {"untouched_for": "0s", "target_file_max_bytes": "1KiB", "small_file_limit": "1B"}
KEYS = [f"k{n}" for n in range(60)]


class Hashed(SharedOrders):
    """Sixty orders in two buckets, which are too large."""

    @property
    def assigned(self) -> Any:
        """Return what an assignment says of the table."""
        options = {"lock": dict(self.lock), "bucket_index": DECLARED}
        return {"format": "hudi", "location": self.location, "table_options": options}

    @property
    def pending(self) -> str:
        """The time of the plan on the timeline."""
        [plan] = self.timeline("*.clustering.requested")
        return plan.partition(".")[0]

    def check_on(self, driver: Driver) -> None:
        """Fail if a row is wrong now, after one more write to the new buckets, or after their compaction."""
        assert self.read_by_spark() == self.expected
        self.add("p0", *KEYS[::2])
        assert self.read_by_spark() == self.expected
        assert isinstance(driver.carry_out(self, Service.COMPACTION), Succeeded)
        self.check_rows()


@dataclasses.dataclass
class ActsOnce(LocalStorage):
    """A disk that runs an act at the first listing at which `when` is true."""

    when: Callable[[], bool]
    act: Callable[[], object]
    done: bool = False

    def listing(self, location: str, *, most: int = MOST_ENTRIES) -> Sequence[FileEntry]:
        if not self.done and self.when():
            self.done = True
            self.act()
        return super().listing(location, most=most)


@pytest.fixture
def table(written_orders: Orders, tmp_path: Path) -> Hashed:
    """Write every order twice: log files alone."""
    lock = {**written_orders.lock, "lock_key": str(tmp_path).strip("/").replace("/", ".")}
    conf = {**CONSISTENT, **GIVES_WAY}
    table = Hashed(path=tmp_path / "orders", lock=lock, spark=written_orders.spark, conf=conf)
    table.add("p0", *KEYS)
    table.add("p0", *KEYS)
    return table


def _here(table: Hashed, storage: LocalStorage) -> Outcome:
    """Execute a run in the writers' own JVM, on this storage."""
    assignment = Assignment(
        run=RunId("run-here"),
        epoch=1,
        table=TableId("sales.orders"),
        service=Service.CLUSTERING,
        service_options=SPLIT,
        **table.assigned,
    )
    run_steps = steps_of(Clustering(), table.spark, assignment, storage)
    next(run_steps)
    while True:
        try:
            run_steps.send(Granted())
        except StopIteration as end:
            outcome: Outcome = end.value
            return outcome


def test_what_is_written_while_a_plan_to_resize_waits_is_in_the_new_buckets(driver: Driver, table: Hashed) -> None:
    """The writer continues, and the plan is executed. A withdrawn plan would leave files of no commit behind, which an
    archive beyond it makes part of the table.
    """
    run = driver.submit(table, Service.CLUSTERING, **SPLIT)
    driver.advance(run, to=Step.COMMIT)
    table.add("p0", *KEYS)
    assert table.read_by_spark() == table.expected

    driver.pool.answer(run, Step.COMMIT, Granted())
    assert isinstance(driver.finish(run), Succeeded)

    table.check_on(driver)


def test_what_is_written_while_buckets_are_being_resized_is_in_the_new_ones(driver: Driver, table: Hashed) -> None:
    """A whole write happens between the rewrite and its commit."""

    def write() -> None:
        table.add("p0", *KEYS)
        assert table.read_by_spark() == table.expected

    written = ActsOnce(lambda: table.timeline("*.clustering.inflight") != [], write)
    assert isinstance(_here(table, written), Succeeded)
    assert written.done

    table.check_on(driver)


def test_a_write_that_has_found_a_plan_to_resize_does_not_lose_it(driver: Driver, table: Hashed) -> None:
    """It reads the plan when it writes, and failed if the plan was gone by then. The next run executes the plan."""
    run = driver.submit(table, Service.CLUSTERING, **SPLIT)
    driver.advance(run, to=Step.COMMIT)
    with table.held("p0", *KEYS) as write:
        driver.pool.answer(run, Step.COMMIT, Granted())
        assert isinstance(driver.finish(run), Yielded)
        assert write.end() is None
    assert table.read_by_spark() == table.expected

    assert isinstance(driver.carry_out(table, Service.CLUSTERING, instant=table.pending, **SPLIT), Succeeded)
    table.check_on(driver)


def test_a_plan_is_taken_back_where_a_write_went_to_the_old_buckets_alone(driver: Driver, table: Hashed) -> None:
    """The writer has another update strategy than the printed one. With the plan its rows would be gone."""
    run = driver.submit(table, Service.CLUSTERING, **SPLIT)
    driver.advance(run, to=Step.COMMIT)
    other = table.writing_with(MAKES_ROOM)
    other.add("p0", *KEYS)
    table.versions = other.versions

    driver.pool.answer(run, Step.COMMIT, Granted())
    outcome = driver.finish(run)

    assert isinstance(outcome, Failed)
    assert "went to a bucket" in outcome.reason
    assert table.timeline("*.clustering.*") == []
    table.check_on(driver)


def test_no_archive_goes_past_a_plan_that_a_person_has_removed(driver: Driver, table: Hashed) -> None:
    """The writers' files for it would be part of the table: 60 of 60 rows were there twice."""
    table.conf = {**table.conf, "hoodie.metadata.compact.max.delta.commits": "1"}
    run = driver.submit(table, Service.CLUSTERING, **SPLIT)
    driver.advance(run, to=Step.COMMIT)
    table.add("p0", *KEYS)
    driver.pool.answer(run, Step.COMMIT, Refused(reason="not now"))
    driver.next(run, Ended)
    options = HudiTableOptions.model_validate({"lock": dict(table.lock)})
    client = HudiClient(table.spark, table.location, options, {}, indexes=table.indexes())
    assert client.withdraw(table.pending)
    client.close()
    table.add("p0", *KEYS)
    assert isinstance(driver.carry_out(table, Service.COMPACTION), Succeeded)

    driver.carry_out(table, Service.ARCHIVE, keep_min_commits=2, keep_max_commits=3)

    table.check_rows()


@pytest.mark.faults
@pytest.mark.parametrize(
    ("point", "step"), [("written", Step.COMMIT), ("executed", Step.EXECUTE), ("committed", Step.COMMIT)]
)
def test_buckets_whose_resizing_was_killed_are_resized_by_the_next_run(
    driver: Driver, table: Hashed, worker_faults: Path, tmp_path: Path, point: str, step: Step
) -> None:
    """Kill -9 while the plan is pending, is executed, or has just been committed, with a write before the next run."""
    told = tmp_path / "told"
    worker_faults.write_text(json.dumps([{"point": point, "act": "hold", "service": "clustering", "told": str(told)}]))
    try:
        run = driver.submit(table, Service.CLUSTERING, **SPLIT)
        driver.advance(run, to=step)
        driver.pool.answer(run, step, Granted())
        eventually(told.exists)
        table.add("p0", *KEYS[::3])
        worker = psutil.Process(driver.pool._owner[run].process.pid)
        for process in [*worker.children(recursive=True), worker]:
            process.kill()
        driver.next(run, Lost)
    finally:
        worker_faults.unlink()
        told.unlink(missing_ok=True)
    table.add("p0", *KEYS[::2])
    assert table.read_by_spark() == table.expected
    driver.until_ready()

    if point != "committed":
        assert isinstance(driver.carry_out(table, Service.CLUSTERING, instant=table.pending, **SPLIT), Succeeded)
    table.check_on(driver)
