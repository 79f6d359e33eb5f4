"""Hudi's archive on real Spark: old instants are archived, and none that is still needed on the timeline."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import psutil
import pytest

from lakewarden.executors.contract import Failed, Granted, Lost, NothingToDo, Refused, Succeeded
from lakewarden.executors.programs.hudi.client.write_client import HudiClient
from lakewarden.planners.formats.hudi.options.table_options import HudiTableOptions
from lakewarden.planners.model.instant import Service, Step

if TYPE_CHECKING:
    from tests.support.hudi.orders import Orders
    from tests.support.pool.driver import Driver

pytestmark = pytest.mark.spark

KEEP: dict[str, Any] = {"keep_min_commits": 2, "keep_max_commits": 3}
OFTEN = {"hoodie.metadata.compact.max.delta.commits": "1"}
CHECKPOINT = {
    "hoodie.datasource.write.commitmeta.key.prefix": "_hudi",
    "_hudi_streaming_sink_checkpoint": '{"orders-query":"41"}',
}


@pytest.fixture(scope="module")
def long_table(written_orders: Orders, tmp_path_factory: pytest.TempPathFactory) -> Orders:
    """Write seven commits with a metadata table that keeps up. The fourth holds a query's checkpoint."""
    path = tmp_path_factory.mktemp("long") / "orders"
    shutil.copytree(written_orders.path, path)
    table = dataclasses.replace(written_orders, path=path, expected=dict(written_orders.expected))
    for conf in ({**OFTEN, **CHECKPOINT}, OFTEN, OFTEN, OFTEN):
        table.conf = conf
        table.write(keys=6)
    return table


@pytest.fixture
def long_orders(long_table: Orders, tmp_path: Path) -> Orders:
    """Copy the table of seven commits."""
    shutil.copytree(long_table.path, tmp_path / "orders")
    return dataclasses.replace(long_table, path=tmp_path / "orders", expected=dict(long_table.expected))


def _commits(orders: Orders) -> list[str]:
    return [name.split("_")[0] for name in orders.timeline("*.deltacommit")]


def _history(orders: Orders) -> list[Path]:
    return list((orders.path / ".hoodie" / "timeline" / "history").glob("*.parquet"))


@pytest.mark.core
def test_an_archive_moves_old_instants_and_keeps_a_querys_last_checkpoint(driver: Driver, long_orders: Orders) -> None:
    """The plan counts them and moves none. The commit with a query's newest checkpoint stays, and all after it. The
    table reads as before, and its properties are unchanged.
    """
    properties = long_orders.path / ".hoodie" / "hoodie.properties"
    before = (properties.read_bytes(), properties.stat().st_mtime_ns)
    commits = _commits(long_orders)
    run = driver.submit(long_orders, Service.ARCHIVE, **KEEP)
    plan = driver.advance(run, to=Step.COMMIT)
    assert plan is not None
    assert (plan.instant, plan.instants, plan.files_to_delete) == (None, 3, None)
    assert _commits(long_orders) == commits

    driver.pool.answer(run, Step.COMMIT, Granted())
    outcome = driver.finish(run)

    assert isinstance(outcome, Succeeded)
    assert outcome.figures["instants_archived"] == 3
    assert _commits(long_orders) == commits[3:]
    assert _history(long_orders)
    assert long_orders.found() == long_orders.expected
    assert (properties.read_bytes(), properties.stat().st_mtime_ns) == before

    held = driver.carry_out(long_orders, Service.ARCHIVE, **KEEP)
    assert isinstance(held, NothingToDo)
    assert f"commit {commits[3]} holds the last checkpoint of query orders-query" in held.reason


@pytest.mark.parametrize("below", [".hoodie/timeline", ".hoodie/metadata/.hoodie/timeline"])
def test_a_manifest_whose_writing_broke_off_fails_no_archive(driver: Driver, long_orders: Orders, below: str) -> None:
    """A process was killed before it renamed the file. Hudi would archive, and then fail by the name."""
    history = long_orders.path / below / "history"
    history.mkdir(exist_ok=True)
    half = history / f"manifest_114.{uuid4()}"
    half.write_text("{}")
    outcome = driver.carry_out(long_orders, Service.ARCHIVE, **KEEP)
    assert isinstance(outcome, Succeeded), outcome
    assert outcome.figures["instants_archived"] == 3
    assert not half.exists()
    assert long_orders.found() == long_orders.expected


def test_a_file_that_hudi_would_take_for_a_manifest_is_named_before_it_is_called(
    driver: Driver, long_orders: Orders
) -> None:
    """Nobody knows whose it is, so it stays. Nothing is archived."""
    history = long_orders.path / ".hoodie" / "timeline" / "history"
    history.mkdir(exist_ok=True)
    copy = history / "manifest_old"
    copy.write_text("{}")
    commits = _commits(long_orders)
    outcome = driver.carry_out(long_orders, Service.ARCHIVE, **KEEP)
    assert isinstance(outcome, Failed), outcome
    assert "manifest_old is not a manifest of the archived timeline" in str(outcome)
    assert _commits(long_orders) == commits
    assert copy.exists()


def test_an_archive_says_what_holds_everything(driver: Driver, long_orders: Orders) -> None:
    """A savepoint, and too few commits, are each named."""
    outcome = driver.carry_out(long_orders, Service.ARCHIVE, keep_min_commits=7, keep_max_commits=8)
    assert outcome == NothingToDo(reason="the timeline has 7 commits, and archiving begins above 8")

    options = HudiTableOptions.model_validate({"lock": dict(long_orders.lock)})
    client = HudiClient(long_orders.spark, str(long_orders.path), options, {}, indexes=long_orders.indexes())
    client.java.savepoint(_commits(long_orders)[0], "tester", "before a change")
    client.close()

    outcome = driver.carry_out(long_orders, Service.ARCHIVE, **KEEP)
    assert isinstance(outcome, NothingToDo)
    assert f"savepoint {_commits(long_orders)[0]}" in outcome.reason


@pytest.mark.faults
def test_an_archive_that_was_killed_half_way_is_finished_by_the_next(driver: Driver, long_orders: Orders) -> None:
    """Kill -9 as soon as it has written the archived timeline. The table can be read, and the next run finishes it."""
    commits = _commits(long_orders)
    run = driver.submit(long_orders, Service.ARCHIVE, **KEEP)
    driver.advance(run, to=Step.COMMIT)
    worker = psutil.Process(driver.pool._owner[run].process.pid)
    jvms = worker.children()
    driver.pool.answer(run, Step.COMMIT, Granted())
    while not _history(long_orders):
        pass
    for jvm in jvms:
        jvm.kill()
    driver.next(run, Lost)
    assert long_orders.found() == long_orders.expected
    driver.until_ready()

    driver.carry_out(long_orders, Service.ARCHIVE, **KEEP)

    assert _commits(long_orders) == commits[3:]
    assert long_orders.timeline(f"{commits[0]}*") == []
    assert long_orders.found() == long_orders.expected


def test_below_table_version_8_instants_are_archived_too(driver: Driver, orders: Orders, tmp_path: Path) -> None:
    """A copy-on-write table of version 6 without a metadata table has another archiver and the same rules."""
    conf = {
        "hoodie.write.table.version": "6",
        "hoodie.write.auto.upgrade": "false",
        "hoodie.metadata.enable": "false",
        "hoodie.datasource.write.table.type": "COPY_ON_WRITE",
    }
    old = dataclasses.replace(orders, path=tmp_path / "old", expected={}, conf=conf)
    for _ in range(4):
        old.write(keys=6)
    home = old.path / ".hoodie"
    commits = sorted(path.name for path in home.glob("*.commit"))

    run = driver.submit(old, Service.ARCHIVE, **KEEP)
    driver.advance(run, to=Step.COMMIT)
    driver.pool.answer(run, Step.COMMIT, Refused(reason="not now"))
    assert sorted(path.name for path in home.glob("*.commit")) == commits
    driver.finish(run)
    assert isinstance(driver.carry_out(old, Service.ARCHIVE, **KEEP), Succeeded)

    assert sorted(path.name for path in home.glob("*.commit")) == commits[2:]
    assert old.found() == old.expected
