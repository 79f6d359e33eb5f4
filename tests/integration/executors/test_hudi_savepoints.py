"""Savepoints on a schedule, on real Spark: their files stay, savepoints of others stay, and ours are removed when they
expire.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastavro
import psutil
import pytest

from lakewarden.executors.contract import Granted, Lost, NothingToDo, Outcome, Succeeded, Yielded
from lakewarden.executors.programs.hudi.client.write_client import HudiClient
from lakewarden.planners.formats.hudi.metadata.savepoints import MARK, USER
from lakewarden.planners.formats.hudi.options.service_options import SavepointOptions
from lakewarden.planners.formats.hudi.options.table_options import HudiTableOptions
from lakewarden.planners.model.instant import Service, Step
from lakewarden.planners.model.table import Policy
from lakewarden.planners.triggers import NumCommits
from tests.support.hudi.hudi_daemon import hudi_daemon

if TYPE_CHECKING:
    from tests.support.hudi.orders import Orders
    from tests.support.pool.driver import Driver

pytestmark = pytest.mark.spark

ONE_VERSION: dict[str, Any] = {"policy": "KEEP_LATEST_FILE_VERSIONS", "file_versions_retained": 1}


@contextlib.contextmanager
def _a_persons_client(orders: Orders) -> Iterator[HudiClient]:
    options = HudiTableOptions.model_validate({"lock": dict(orders.lock)})
    client = HudiClient(orders.spark, str(orders.path), options, {}, indexes=orders.indexes())
    yield client
    client.close()


def _timeline(orders: Orders) -> Path:
    folder = orders.path / ".hoodie" / "timeline"
    return folder if folder.is_dir() else orders.path / ".hoodie"


def _commits(orders: Orders) -> list[str]:
    names = (path.name for kind in ("commit", "deltacommit") for path in _timeline(orders).glob(f"*.{kind}"))
    return sorted(name.partition(".")[0].partition("_")[0] for name in names)


def _savepoints(orders: Orders) -> Mapping[str, Mapping[str, Any]]:
    """Return the metadata of each completed savepoint, by its commit, read with fastavro."""
    found = {}
    for path in _timeline(orders).glob("*.savepoint"):
        with path.open("rb") as content:
            [record] = list[Any](fastavro.reader(content))
        found[path.name.partition(".")[0].partition("_")[0]] = record
    return found


def _held(orders: Orders, commit: str) -> set[str]:
    partitions = _savepoints(orders)[commit]["partitionMetadata"].values()
    return {name for held in partitions for name in held["savepointDataFile"]}


def _removed(outcome: Outcome) -> object:
    assert isinstance(outcome, Succeeded), outcome
    return outcome.figures["savepoints_removed"]


def _as_of(orders: Orders, commit: str) -> dict[str, str]:
    frame = orders.spark.read.format("hudi").option("as.of.instant", commit).load(orders.address)
    return {row.order_id: row.note for row in frame.select("order_id", "note").collect()}


def _of(orders: Orders, tmp_path: Path, kind: str, version: str) -> Orders:
    conf = {
        "hoodie.write.table.version": version,
        "hoodie.write.auto.upgrade": "false",
        "hoodie.datasource.write.table.type": kind,
    }
    table = dataclasses.replace(orders, path=tmp_path / "made", expected={}, conf=conf)
    for _ in range(2):
        table.write(keys=6)
    return table


@pytest.mark.parametrize(("kind", "version"), [("COPY_ON_WRITE", "6"), ("MERGE_ON_READ", "8"), ("MERGE_ON_READ", "9")])
def test_savepoints_are_taken_and_ours_go_when_there_are_too_many(
    driver: Driver, orders: Orders, tmp_path: Path, kind: str, version: str
) -> None:
    """The newest commit is saved, once. The second savepoint replaces the first. A person's is never removed. A saved
    commit can be read after a clean that keeps one version.
    """
    table = _of(orders, tmp_path, kind, version)
    with _a_persons_client(table) as client:
        client.java.savepoint(_commits(table)[0], "ann", "before a change")
    first = _commits(table)[-1]
    assert _removed(driver.carry_out(table, Service.SAVEPOINT)) == 0
    assert _savepoints(table)[first]["savepointedBy"] == USER
    again = driver.carry_out(table, Service.SAVEPOINT)
    assert isinstance(again, NothingToDo)
    assert f"commit {first}, the newest, has a savepoint" in again.reason

    table.write(keys=6)
    then, second = dict(table.expected), _commits(table)[-1]
    assert _removed(driver.carry_out(table, Service.SAVEPOINT, savepoints_retained=1)) == 1
    assert set(_savepoints(table)) == {_commits(table)[0], second}
    assert not list(_timeline(table).glob(f"{first}*savepoint*"))

    if kind == "MERGE_ON_READ":
        driver.carry_out(table, Service.COMPACTION)
    table.write(keys=6)
    if kind == "MERGE_ON_READ":
        driver.carry_out(table, Service.COMPACTION)
    assert isinstance(driver.carry_out(table, Service.CLEAN, **ONE_VERSION), Succeeded | NothingToDo)
    assert _held(table, second) <= table.data_files()
    assert _as_of(table, second) == then
    if version != "8":  # there hudi-rs reads no metadata table of Hudi 1.2 (docs/hudi.md)
        assert table.found() == table.expected


@pytest.mark.core
def test_a_pending_clean_and_a_savepoint_never_meet(driver: Driver, orders: Orders) -> None:
    """A clean that was planned before is waited for. A clean that is planned after leaves the saved files."""
    driver.carry_out(orders, Service.COMPACTION)
    orders.write(keys=6)
    clean = orders.leave_clean(driver, **ONE_VERSION)

    early = driver.carry_out(orders, Service.SAVEPOINT)
    assert isinstance(early, Yielded)
    assert f"clean {clean.instant} is pending" in early.reason
    assert not _savepoints(orders)

    assert isinstance(driver.carry_out(orders, Service.CLEAN, instant=clean.instant, **ONE_VERSION), Succeeded)
    then, saved = dict(orders.expected), _commits(orders)[-1]
    assert isinstance(driver.carry_out(orders, Service.SAVEPOINT), Succeeded)
    driver.carry_out(orders, Service.COMPACTION)
    orders.write(keys=6)
    driver.carry_out(orders, Service.COMPACTION)
    driver.carry_out(orders, Service.CLEAN, **ONE_VERSION)
    assert _held(orders, saved) <= orders.data_files()
    assert _as_of(orders, saved) == then


def test_what_is_saved_is_older_than_everything_in_flight(driver: Driver, orders: Orders) -> None:
    """Hudi's own savepoint of a commit that is younger than a pending compaction holds none of the files that the
    compaction merges. Here the commit before the plan is saved, with all that it shows.
    """
    then, before = dict(orders.expected), _commits(orders)[-1]
    plan = driver.leave_planned(orders, Service.COMPACTION)
    orders.write(keys=30)
    with _a_persons_client(orders) as client:
        client.java.savepoint(_commits(orders)[-1], "ann", "beside a compaction")
    assert not any(name.endswith(".parquet") for name in _held(orders, _commits(orders)[-1]))

    assert isinstance(driver.carry_out(orders, Service.SAVEPOINT), Succeeded)

    ours = [time for time, one in _savepoints(orders).items() if one["savepointedBy"] == USER]
    assert ours == [before]
    driver.carry_out(orders, Service.COMPACTION, instant=plan.instant)
    orders.write(keys=30)
    driver.carry_out(orders, Service.COMPACTION)
    driver.carry_out(orders, Service.CLEAN, **ONE_VERSION)
    assert _as_of(orders, before) == then


def test_what_a_dead_run_left_of_a_savepoint_is_taken_back(driver: Driver, orders: Orders) -> None:
    """A savepoint in flight that our mark names is removed, and the next one is taken. One without our mark belongs to
    others, and so does a restore: they are waited for.
    """
    newest = _commits(orders)[-1]
    left, mark = _timeline(orders) / f"{newest}.savepoint.inflight", orders.path / ".hoodie" / MARK
    for name in (left.name, f"{newest}9.restore.requested"):
        (_timeline(orders) / name).touch()
        outcome = driver.carry_out(orders, Service.SAVEPOINT)
        assert isinstance(outcome, Yielded)
        assert "is pending: savepoints wait for it" in outcome.reason
        (_timeline(orders) / name).unlink()
    assert not _savepoints(orders)

    left.touch()
    mark.parent.mkdir(exist_ok=True)
    mark.write_text(newest)
    assert isinstance(driver.carry_out(orders, Service.SAVEPOINT), Succeeded)
    assert set(_savepoints(orders)) == {newest}
    assert not mark.exists()


def test_a_daemon_takes_back_what_was_left_before_its_trigger_fires(driver: Driver, orders: Orders) -> None:
    """The unfinished savepoint holds back all other services. So a started daemon does not wait for the next day."""
    newest = _commits(orders)[-1]
    mark = orders.path / ".hoodie" / MARK
    (_timeline(orders) / f"{newest}.savepoint.inflight").touch()
    mark.parent.mkdir(exist_ok=True)
    mark.write_text(newest)
    policy = Policy(trigger=NumCommits(at_least=1000), options=SavepointOptions())
    with (
        driver.pool_lent() as pool,
        hudi_daemon(
            orders.path, lock=orders.lock, pool=pool, compacts_after=1, policies={Service.SAVEPOINT: policy}
        ) as daemon,
    ):
        daemon.succeeded(Service.SAVEPOINT, Service.COMPACTION)
    assert set(_savepoints(orders)) == {newest}
    assert not mark.exists()
    assert orders.found() == orders.expected


@pytest.mark.faults
def test_a_savepoint_that_was_killed_half_way_is_taken_by_the_next_run(driver: Driver, orders: Orders) -> None:
    """Kill -9 as soon as it is in flight: nothing stays that holds back other services, and it is taken once."""
    run = driver.submit(orders, Service.SAVEPOINT)
    driver.advance(run, to=Step.COMMIT)
    jvms = psutil.Process(driver.pool._owner[run].process.pid).children()
    driver.pool.answer(run, Step.COMMIT, Granted())
    while not list(_timeline(orders).glob("*.savepoint.inflight")):
        pass
    for jvm in jvms:
        jvm.kill()
    driver.next(run, Lost)
    assert (orders.path / ".hoodie" / MARK).exists()
    driver.until_ready()

    driver.carry_out(orders, Service.SAVEPOINT)

    assert set(_savepoints(orders)) == {_commits(orders)[-1]}
    assert not (orders.path / ".hoodie" / MARK).exists()
    assert isinstance(driver.carry_out(orders, Service.COMPACTION), Succeeded)
    assert orders.found() == orders.expected
