"""Partition commit of Paimon tables: `_SUCCESS` as Paimon's own action writes it, beside writers and compactions."""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakewarden.executors.contract import Ended, Failed, Granted, NothingToDo, Refused, Succeeded
from lakewarden.planners.model.instant import Service, Step
from tests.support.daemon.daemon_process import DaemonProcess
from tests.support.daemon.held_runs import killed_at
from tests.support.paimon.paimon_orders import PaimonOrders

if TYPE_CHECKING:
    from tests.integration.paimon.conftest import Lake
    from tests.support.pool.driver import Driver

pytestmark = pytest.mark.spark

AT_ONCE: dict[str, Any] = {"idle_time": "0s", "time_interval": "1d"}


@pytest.fixture
def table(lake: Lake) -> PaimonOrders:
    """Write two days of long ago, one of the future, and a partition without a time."""
    made = lake()
    for dt in ("2020-01-01", "2020-01-02", "2999-01-01", "no time"):
        made.write([(number, "v", dt) for number in range(5)])
    return made


def marked(table: PaimonOrders) -> dict[str, dict[str, int]]:
    files = table.folder.glob("*/_SUCCESS")
    return {file.parent.name.removeprefix("dt="): json.loads(file.read_text()) for file in files}


def by_paimon(table: PaimonOrders, dt: str) -> tuple[int, int]:
    """Return the times of a marker as Paimon's own class reads them."""
    paimon = table.paimon
    io, path = paimon.fs.local.LocalFileIO(), paimon.fs.Path(str(table.folder / f"dt={dt}" / "_SUCCESS"))
    found = paimon.partition.file.SuccessFile.safelyFromPath(io, path)
    return int(found.creationTime()), int(found.modificationTime())


@pytest.mark.core
def test_partitions_that_are_done_are_marked_as_paimon_marks_them(driver: Driver, table: PaimonOrders) -> None:
    """Paimon's own class reads the marker, and its own action renews it. No snapshot is made."""
    outcome = driver.carry_out(table, Service.PARTITION_COMMIT, **AT_ONCE)
    assert isinstance(outcome, Succeeded)
    assert (outcome.figures["partitions_committed"], outcome.figures["partitions_left"]) == (2, 0)
    assert set(marked(table)) == {"2020-01-01", "2020-01-02"}
    created, modified = by_paimon(table, "2020-01-01")
    assert created == modified > 0
    io, path = table.paimon.fs.local.LocalFileIO(), table.paimon.fs.Path(str(table.folder))
    table.paimon.partition.actions.SuccessFileMarkDoneAction(io, path).markDone("dt=2020-01-01/")
    assert by_paimon(table, "2020-01-01")[0] == created
    assert len(table.snapshots()) == 4
    assert table.read() == sorted(table.expected)
    assert isinstance(driver.carry_out(table, Service.PARTITION_COMMIT, **AT_ONCE), NothingToDo)


def test_late_rows_mark_a_partition_again_and_a_compaction_does_not(driver: Driver, table: PaimonOrders) -> None:
    """The time of the creation stays, and that of the change moves."""
    assert isinstance(driver.carry_out(table, Service.PARTITION_COMMIT, **AT_ONCE), Succeeded)
    before = marked(table)
    for _ in range(2):
        table.write([(1, "x", "2999-01-01")])
    assert isinstance(driver.carry_out(table, Service.COMPACTION), Succeeded)
    assert isinstance(driver.carry_out(table, Service.PARTITION_COMMIT, **AT_ONCE), NothingToDo)
    table.write([(1, "late", "2020-01-01")])
    assert isinstance(driver.carry_out(table, Service.PARTITION_COMMIT, **AT_ONCE), Succeeded)
    after = marked(table)
    assert after["2020-01-02"] == before["2020-01-02"]
    assert after["2020-01-01"]["creationTime"] == before["2020-01-01"]["creationTime"]
    assert after["2020-01-01"]["modificationTime"] > before["2020-01-01"]["modificationTime"]


def test_late_rows_after_a_rollback_mark_a_partition_again(driver: Driver, table: PaimonOrders) -> None:
    """Their snapshots have numbers that the marker has seen."""
    assert isinstance(driver.carry_out(table, Service.PARTITION_COMMIT, **AT_ONCE), Succeeded)
    before, newest = marked(table), table.snapshots()[-1]["id"]
    table.roll_back(newest - 2)
    for number in range(2):
        table.write([(number, "late", "2020-01-01")])
    assert table.snapshots()[-1]["id"] == newest
    assert isinstance(driver.carry_out(table, Service.PARTITION_COMMIT, **AT_ONCE), Succeeded)
    assert marked(table)["2020-01-01"]["modificationTime"] > before["2020-01-01"]["modificationTime"]


def test_rows_that_come_between_the_plan_and_the_marker_hold_it_back(driver: Driver, table: PaimonOrders) -> None:
    """The table is looked at again right before."""
    time.sleep(5)  # the idle time
    run = driver.submit(table, Service.PARTITION_COMMIT, idle_time="4s", time_interval="1d")
    driver.advance(run, to=Step.COMMIT)
    table.write([(1, "late", "2020-01-01")])
    driver.pool.answer(run, Step.COMMIT, Granted())
    driver.next(run, Ended)
    assert set(marked(table)) == {"2020-01-02"}


def test_a_refused_commit_marks_nothing(driver: Driver, table: PaimonOrders) -> None:
    """No file is left."""
    before = table.files()
    run = driver.submit(table, Service.PARTITION_COMMIT, **AT_ONCE)
    driver.advance(run, to=Step.COMMIT)
    driver.pool.answer(run, Step.COMMIT, Refused(reason="not now"))
    driver.next(run, Ended)
    assert table.files() == before


@pytest.mark.parametrize("options", [{"deletion-vectors.enabled": "true"}, {"merge-engine": "first-row"}])
def test_rows_that_readers_do_not_see_yet_hold_the_marker_back(
    driver: Driver, lake: Lake, options: dict[str, str]
) -> None:
    """Until a compaction has shown them."""
    table = lake(options={"bucket": "1", **options})
    table.write([(1, "v", "2020-01-01")])
    waiting = driver.carry_out(table, Service.PARTITION_COMMIT, **AT_ONCE)
    assert isinstance(waiting, NothingToDo)
    assert "readers do not see 1 files of level 0" in waiting.reason
    assert table.read() == []
    assert isinstance(driver.carry_out(table, Service.COMPACTION), Succeeded)
    assert isinstance(driver.carry_out(table, Service.PARTITION_COMMIT, **AT_ONCE), Succeeded)
    assert set(marked(table)) == {"2020-01-01"}
    assert table.read() == sorted(table.expected)


def test_a_link_in_the_place_of_a_marker_is_not_written_through(
    driver: Driver, table: PaimonOrders, tmp_path: Path
) -> None:
    """The other partition is marked all the same."""
    foreign = tmp_path / "foreign"
    foreign.write_text("theirs")
    (table.folder / "dt=2020-01-01" / "_SUCCESS").symlink_to(foreign)
    outcome = driver.carry_out(table, Service.PARTITION_COMMIT, **AT_ONCE)
    assert isinstance(outcome, Failed)
    assert "is not a file" in outcome.reason
    assert foreign.read_text() == "theirs"
    assert (table.folder / "dt=2020-01-02" / "_SUCCESS").exists()


def test_the_action_of_the_table_that_needs_a_metastore_is_refused_by_its_name(
    driver: Driver, table: PaimonOrders
) -> None:
    """The table's own jobs can do that."""
    table.alter("partition.mark-done-action", "success-file,done-partition")
    outcome = driver.carry_out(table, Service.PARTITION_COMMIT, **AT_ONCE)
    assert isinstance(outcome, Failed)
    assert "'done-partition'" in outcome.reason
    assert marked(table) == {}


@pytest.mark.parametrize("point", ["planned", "executing", "permitted", "committed"])
@pytest.mark.faults
def test_after_a_kill_at_a_point_each_partition_is_marked(
    table: PaimonOrders,
    daemon_of: Callable[..., DaemonProcess],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    point: str,
) -> None:
    """The table shows what is left to do."""
    start = functools.partial(daemon_of, table, {"partition_commit": {"options": AT_ONCE}}, formats=["paimon"])
    daemon = killed_at(point, "partition_commit", start, tmp_path, monkeypatch)
    daemon.until(lambda: set(marked(table)) == {"2020-01-01", "2020-01-02"})
    daemon.until(lambda: all(run["state"] in {"SUCCEEDED", "FAILED"} for run in daemon.runs("partition_commit")))
    assert table.read() == sorted(table.expected)
    assert list(table.folder.glob("*/.*.tmp")) == []
    assert daemon.stop() == 0
