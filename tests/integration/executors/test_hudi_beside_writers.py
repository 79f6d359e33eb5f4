"""Services beside several writers, on real Spark: no step of ours fails a write."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import fastavro
import psutil
import pytest

from lakewarden.executors.contract import (
    Assignment,
    Ended,
    Granted,
    Lost,
    Outcome,
    Program,
    Refused,
    Succeeded,
    Yielded,
)
from lakewarden.executors.programs.hudi.clustering import Clustering
from lakewarden.executors.programs.hudi.compaction import Compaction
from lakewarden.executors.worker.runs import RunSteps, StepRequest, steps_of
from lakewarden.planners.model.instant import RunId, Service, Step
from lakewarden.planners.model.table import TableId
from lakewarden.planners.ports import MOST_ENTRIES, FileEntry
from lakewarden.planners.storage import LocalStorage
from tests.integration.executors.shared_orders import (
    CONFLICT,
    GIVES_WAY,
    MAKES_ROOM,
    REJECTED,
    WRITES_AT_ONCE,
    SharedOrders,
)
from tests.support.hudi.orders import Orders
from tests.support.pool.driver import Driver
from tests.support.waiting import eventually

pytestmark = pytest.mark.spark

AT_ONCE: dict[str, Any] = {"untouched_for": "0s"}


class SeenLate(LocalStorage):
    """A disk that does not list a write's first files while `unseen` says so."""

    def __init__(self, write: str, unseen: Callable[[], bool]) -> None:
        self._write = write
        self._unseen = unseen

    def listing(self, location: str, *, most: int = MOST_ENTRIES) -> Sequence[FileEntry]:
        entries = super().listing(location, most=most)
        return [one for one in entries if not one.name.startswith(self._write)] if self._unseen() else entries


@pytest.fixture(scope="session")
def written_shared_orders(written_orders: Orders, tmp_path_factory: pytest.TempPathFactory) -> SharedOrders:
    """Write three small files into each of three partitions."""
    path = tmp_path_factory.mktemp("shared-orders") / "orders"
    lock = {**written_orders.lock, "lock_key": "shared-orders"}
    table = SharedOrders(path=path, lock=lock, spark=written_orders.spark)
    table.add_batches("p0", "p1", "p2")
    return table


@pytest.fixture
def table(written_shared_orders: SharedOrders, tmp_path: Path) -> SharedOrders:
    """Copy it."""
    path = tmp_path / "orders"
    shutil.copytree(written_shared_orders.path, path)
    lock = {**written_shared_orders.lock, "lock_key": str(tmp_path).strip("/").replace("/", ".")}
    return dataclasses.replace(
        written_shared_orders, path=path, lock=lock, expected=dict(written_shared_orders.expected)
    )


def climbing(
    table: SharedOrders, storage: LocalStorage, program: Program, service: Service = Service.CLUSTERING, **options: Any
) -> RunSteps:
    """Begin a run in the writers' own JVM, with what it may see of the table."""
    assignment = Assignment(
        run=RunId("run-here"),
        epoch=1,
        table=TableId("sales.orders"),
        service=service,
        service_options=options,
        **table.assigned,
    )
    return steps_of(program, table.spark, assignment, storage)


def grant(run_steps: RunSteps) -> StepRequest | Outcome:
    """Grant the step that was asked for. Return the next permit request, or the run's outcome."""
    try:
        return run_steps.send(Granted())
    except StopIteration as end:
        outcome: Outcome = end.value
        return outcome


@pytest.mark.core
def test_a_write_that_was_not_seen_does_not_fail_by_the_plan(driver: Driver, table: SharedOrders) -> None:
    """It began before the plan and appears after it. The plan is withdrawn before the write checks its commit."""
    with table.held("p0", "p0-0") as write:
        late = SeenLate(write.time, lambda: table.timeline("*.clustering.requested") == [])
        run_steps = climbing(table, late, Clustering(), **AT_ONCE)
        next(run_steps)
        answer = grant(run_steps)

        assert write.end() is None
        assert isinstance(answer, Yielded)
    assert table.plans_of(Service.CLUSTERING) == set()
    table.check_rows()


def test_a_write_that_does_not_say_what_it_touches_is_not_failed_by_our_commit(
    driver: Driver, table: SharedOrders
) -> None:
    """It began while the plan was executed, and Hudi itself does not show it as in flight."""
    run = driver.submit(table, Service.CLUSTERING, **AT_ONCE)
    driver.advance(run, to=Step.COMMIT)
    with table.writing_with({**MAKES_ROOM, **GIVES_WAY}).held("p0", "p0-0") as write:
        driver.pool.answer(run, Step.COMMIT, Granted())
        outcome = driver.finish(run)

        assert write.end() is None
    assert isinstance(outcome, Yielded)
    table.check_rows()


@pytest.mark.parametrize(
    ("conf", "fails_by"),
    [({}, REJECTED), (MAKES_ROOM, CONFLICT), ({**MAKES_ROOM, **GIVES_WAY}, None)],
    ids=["none", "allow", "allow and prefer"],
)
def test_what_writer_options_print_saves_a_write_that_meets_a_clustering(
    driver: Driver, table: SharedOrders, conf: dict[str, str], fails_by: str | None
) -> None:
    """With both options the clustering loses. Either alone does not help the write."""
    run = driver.submit(table, Service.CLUSTERING, **AT_ONCE)
    driver.advance(run, to=Step.COMMIT)
    writing = table.writing_with(conf)
    with writing.held("p0", "p0-0") as write:
        failed = write.end()
    table.expected = writing.expected
    driver.pool.answer(run, Step.COMMIT, Granted())
    outcome = driver.finish(run)

    assert (failed is None) == (fails_by is None)
    assert fails_by is None or fails_by in str(failed)
    assert isinstance(outcome, Yielded)
    table.check_rows()


def test_a_deletion_of_partitions_yields_to_the_writes_that_touch_them_alone(
    driver: Driver, table: SharedOrders
) -> None:
    """It does not yield to a write elsewhere. It yields to a write that names no partitions, until that has ended."""
    week_ago = time.time() - 8 * 86_400
    for file in (table.path / "p0").iterdir():
        os.utime(file, (week_ago, week_ago))
    with table.held("p1", "p1-0") as silent:
        assert isinstance(driver.carry_out(table, Service.TTL, days_retain=7), Yielded)
        [requested] = (table.path / ".hoodie" / "timeline").glob(f"{silent.time}.deltacommit.requested")
        assert isinstance(driver.carry_out(table, Service.TTL, days_retain=7, silent_writes_touch="warm"), Succeeded)
        assert requested.exists()
        assert silent.end() is None

    table.expected = {key: note for key, note in table.expected.items() if not key.startswith("p0")}
    table.check_rows()


def test_below_version_9_a_compaction_is_planned_around_the_writes_in_flight(
    driver: Driver, table: SharedOrders, tmp_path: Path
) -> None:
    """There its plan alone fails an earlier write. If such a write appears late, the plan is withdrawn. Partitions that
    a write names are left out, and taken the next time.
    """
    conf = {"hoodie.write.table.version": "6", "hoodie.write.auto.upgrade": "false"}
    old = dataclasses.replace(table, path=tmp_path / "old", conf=conf, expected={})
    home = old.path / ".hoodie"
    for _ in range(2):
        old.add("p0", "p0-0", "p0-1")
        old.add("p1", "p1-0", "p1-1")

    def planned() -> list[Path]:
        return list(home.glob("*.compaction.requested"))

    with old.held("p0", "p0-0") as write:
        run_steps = climbing(old, SeenLate(write.time, lambda: not planned()), Compaction(), Service.COMPACTION)
        next(run_steps)
        answer = grant(run_steps)
        assert write.end() is None
        assert isinstance(answer, Yielded)
    assert planned() == []

    profile = {"operationType": "UPSERT", "partitionToWriteStats": {"p0": [{"fileId": "a"}]}}
    in_flight = f"{write.time[:-3]}999.deltacommit"
    (home / f"{in_flight}.requested").touch()
    (home / f"{in_flight}.inflight").write_text(json.dumps(profile))
    run = driver.submit(old, Service.COMPACTION)
    driver.advance(run, to=Step.EXECUTE)
    [plan] = planned()
    with plan.open("rb") as content:
        records: Any = fastavro.reader(content)
        assert {one["partitionPath"] for record in records for one in record["operations"]} == {"p1"}
    driver.pool.answer(run, Step.EXECUTE, Refused(reason="not now"))
    driver.next(run, Ended)
    for state in ("requested", "inflight"):
        (home / f"{in_flight}.{state}").unlink()
    assert isinstance(driver.carry_out(old, Service.COMPACTION), Succeeded)
    old.check_rows()


@pytest.mark.faults
@pytest.mark.parametrize("point", ["looking", "withdrawing"])
def test_a_clustering_killed_between_its_plan_and_its_look_fails_no_writer(
    driver: Driver, table: SharedOrders, worker_faults: Path, tmp_path: Path, point: str
) -> None:
    """Kill -9 while it holds the table's lock: the write that waits for the lock commits, and so does the next run."""
    told = tmp_path / "told"
    worker_faults.write_text(json.dumps([{"point": point, "act": "hold", "service": "clustering", "told": str(told)}]))
    try:
        run = driver.submit(table, Service.CLUSTERING, **AT_ONCE)
        if point == "withdrawing":  # a write of before the plan cannot be there, so one that came after it has to do
            driver.advance(run, to=Step.COMMIT)
            writing = table.writing_with({**MAKES_ROOM, **GIVES_WAY})
        else:
            driver.question_or_end(run)
            writing = table
        with writing.held("p1", "p1-0") as write:
            driver.pool.answer(run, Step.COMMIT if point == "withdrawing" else Step.PLAN, Granted())
            write.gate.touch()
            eventually(told.exists)
            worker = psutil.Process(driver.pool._owner[run].process.pid)
            for process in [*worker.children(recursive=True), worker]:
                process.kill()
            assert write.end() is None
        driver.next(run, Lost)
    finally:
        worker_faults.unlink()
        told.unlink(missing_ok=True)
    driver.until_ready()
    table.expected = writing.expected
    table.check_rows()

    pending = next(iter(table.plans_of(Service.CLUSTERING)), None)
    outcome = driver.carry_out(table, Service.CLUSTERING, instant=pending, **AT_ONCE)
    if isinstance(outcome, Yielded):  # the plan was in the way, and is gone
        outcome = driver.carry_out(table, Service.CLUSTERING, **AT_ONCE)
    assert isinstance(outcome, Succeeded)
    table.check_rows()


def test_a_write_that_gives_way_does_not_lose_to_a_log_compaction(driver: Driver, table: SharedOrders) -> None:
    """It compares itself with everything that was completed since it began. So nothing of its partitions is completed
    until it ends.
    """
    table = table.writing_with(GIVES_WAY)
    for _ in range(3):
        for region in ("p0", "p1", "p2"):
            table.add(region, f"{region}-0")
    run = driver.submit(table, Service.LOG_COMPACTION, log_blocks_threshold=2)
    driver.advance(run, to=Step.COMMIT)
    with table.held("p0", "p0-0") as write:
        driver.pool.answer(run, Step.COMMIT, Granted())
        time.sleep(1)
        assert write.end() is None
    assert isinstance(driver.finish(run), Succeeded)

    table.check_rows()


_OPTIONS: dict[Service, dict[str, Any]] = {
    Service.CLEAN: {"policy": "KEEP_LATEST_COMMITS", "commits_retained": 1},
    Service.COMPACTION: {},
    Service.LOG_COMPACTION: {"log_blocks_threshold": 2},
    Service.CLUSTERING: {**AT_ONCE, "silent_writes_touch": "warm"},
}


@pytest.mark.parametrize("service", [Service.CLUSTERING, Service.LOG_COMPACTION])
@pytest.mark.parametrize("to", [Step.EXECUTE, Step.COMMIT])
def test_a_plan_that_is_given_up_is_not_taken_from_a_write_that_has_found_it(
    driver: Driver, table: SharedOrders, service: Service, to: Step
) -> None:
    """A write reads the plans that it has listed later on, and fails if one is gone. So the plan is completed without a
    file, whether it was begun or not. We treat it as removed, and the next run makes its own.
    """
    for region in ("p0", "p2", "p0", "p2"):
        table.add(region, f"{region}-0")
    options = _OPTIONS[service]
    run = driver.submit(table, service, **options)
    driver.advance(run, to=to)
    [begun] = table.plans_of(service)
    with table.writing_with({**MAKES_ROOM, **GIVES_WAY}).held("p1", "new") as write:
        driver.pool.answer(run, to, Refused(reason="not now"))
        assert isinstance(driver.finish(run), Yielded)

        assert table.plans_of(service) == set()
        assert [name for name in table.timeline(f"{begun}.*.requested") if "rollback" not in name]
        assert write.end() is None
    table.check_rows()
    assert not any(f"_{begun}" in name for name in table.data_files())
    view = table.view()
    assert view.faults == ()
    assert view.timeline.last_completed(service) is None

    for region in ("p0", "p1", "p0"):
        table.add(region, f"{region}-0")
    assert isinstance(driver.carry_out(table, service, **options), Succeeded)
    table.add("p1", "p1-0")
    assert isinstance(driver.carry_out(table, Service.COMPACTION), Succeeded)
    table.check_rows()


@pytest.mark.parametrize("service", _OPTIONS)
def test_what_a_write_has_in_flight_in_the_metadata_table_stays_there(
    driver: Driver, table: SharedOrders, service: Service
) -> None:
    """A write of Hudi 1.1 or later begins its instant there long before it commits, and fails if it is gone. Our
    instant is in flight there only within our commit: an older writer would roll it back.
    """
    for _ in range(3):
        for region in ("p0", "p2"):
            table.add(region, f"{region}-0")
    if service is Service.CLEAN:
        assert isinstance(driver.carry_out(table, Service.COMPACTION), Succeeded)
        table.add("p1", "p1-0")
    run = driver.submit(table, service, **_OPTIONS[service])
    driver.advance(run, to=Step.COMMIT)
    assert table.in_flight_in_metadata() == set()
    with table.writing_with({**WRITES_AT_ONCE, **GIVES_WAY}).held("p1", "new") as write:
        eventually(lambda: table.in_flight_in_metadata() == {write.time})
        driver.pool.answer(run, Step.COMMIT, Granted())
        if service is Service.LOG_COMPACTION:  # it waits for a write that does not say where it writes
            time.sleep(1)
            assert write.end() is None
        assert isinstance(driver.finish(run), Succeeded)
        assert write.end() is None

    table.check_rows()
