"""Orphans of Paimon tables: what nothing names goes, and what a writer, a tag, a branch or a changelog needs stays."""

from __future__ import annotations

import os
import shutil
import time
import uuid
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakewarden.executors.contract import Ended, Failed, Granted, Lost, NothingToDo, Succeeded, Yielded
from lakewarden.planners.model.instant import Service, Step
from tests.integration.paimon.test_clean import AT_ONCE as TOLD
from tests.integration.paimon.test_clean import KINDS, NEWEST
from tests.support.core import first_in_the_core
from tests.support.paimon.paimon_orders import PaimonOrders, rows

if TYPE_CHECKING:
    from tests.integration.paimon.conftest import Lake
    from tests.support.pool.driver import Driver

pytestmark = pytest.mark.spark

AT_ONCE: dict[str, Any] = {"unknown_for": "0s", "older_than": "3d"}


def age(table: PaimonOrders, *, days: float = 10, but: Collection[str] = ()) -> None:
    """Let every file of the table be that old."""
    at = time.time() - days * 86_400
    for path in table.folder.rglob("*"):
        if path.is_file() and str(path.relative_to(table.folder)) not in but:
            os.utime(path, (at, at))


def lose(table: PaimonOrders, pattern: str = "dt=a/bucket-*/data-*") -> str:
    """Leave a copy of a file under a new name of Paimon's, as a killed writer does, and return its path."""
    [one, *_] = sorted(table.folder.glob(pattern))
    head = one.name[: -len(f"{uuid.UUID(int=0)}-0{one.suffix}")] if one.suffix else one.name.rpartition("-")[0][:-36]
    lost = one.with_name(f"{head}{uuid.uuid4()}-0{one.suffix}")
    shutil.copy(one, lost)
    return str(lost.relative_to(table.folder))


def ours(table: PaimonOrders) -> set[str]:
    """Return the files that Lakewarden keeps beside the table."""
    return {one for one in table.files() if one.startswith("_lakewarden/")}


@pytest.mark.parametrize("kind", first_in_the_core(KINDS))
def test_what_nothing_names_goes_and_each_row_is_there(driver: Driver, lake: Lake, kind: str) -> None:
    """For every kind of table, after compactions and a clean, with a tag and a branch."""
    keyed, options = KINDS[kind]
    table = lake(keyed=keyed, options=options, told=TOLD)
    for number in range(6):
        table.write(rows(number * 10, f"v{number}"))
    table.tag("first", 1)
    table.branch("audit", "first")
    tagged = table.read(scan__tag_name="first")
    assert isinstance(driver.carry_out(table, Service.COMPACTION), Succeeded)
    assert isinstance(driver.carry_out(table, Service.CLEAN, **NEWEST), Succeeded)
    table.write(rows(1, "last"))
    known, read = table.files(), table.read()
    lost = {lose(table), lose(table, "manifest/manifest-[0-9a-f]*"), lose(table, "manifest/manifest-list-*")}
    if (table.folder / "index").exists():
        lost.add(lose(table, "index/index-*"))
    (table.folder / "dt=a" / "bucket-0" / "notes.parquet").write_text("of another program")
    age(table)
    young = lose(table)
    outcome = driver.carry_out(table, Service.ORPHANS, **AT_ONCE)
    assert isinstance(outcome, Succeeded)
    assert outcome.figures["files_deleted"] == len(lost)
    assert table.files() - ours(table) == known | {young, "dt=a/bucket-0/notes.parquet"}
    assert table.read() == read
    assert table.read(scan__tag_name="first") == table.read_branch("audit") == tagged
    assert isinstance(driver.carry_out(table, Service.ORPHANS, **AT_ONCE), NothingToDo)
    for number in range(6):
        table.write(rows(number, "after"))
    assert isinstance(driver.carry_out(table, Service.COMPACTION), Succeeded)


@pytest.fixture
def losing(orders: PaimonOrders) -> PaimonOrders:
    """Return a table of six snapshots with three lost files, all of it old."""
    orders.told = TOLD
    for _ in range(3):
        lose(orders)
    age(orders)
    return orders


def missing(table: PaimonOrders, before: set[str]) -> set[str]:
    return before - table.files()


def test_a_file_must_be_unknown_in_two_runs_that_lie_apart(driver: Driver, losing: PaimonOrders) -> None:
    """The first run only remembers it. Without its memory it begins anew."""
    before, wait = losing.files(), {**AT_ONCE, "unknown_for": "2s"}
    first = driver.carry_out(losing, Service.ORPHANS, **wait)
    assert isinstance(first, NothingToDo)
    assert "3 unknown files" in first.reason
    time.sleep(2.1)
    (losing.folder / "_lakewarden" / "orphans.seen").unlink()
    assert isinstance(driver.carry_out(losing, Service.ORPHANS, **wait), NothingToDo)
    assert missing(losing, before) == set()
    time.sleep(2.1)
    outcome = driver.carry_out(losing, Service.ORPHANS, **wait)
    assert isinstance(outcome, Succeeded)
    assert len(missing(losing, before)) == outcome.figures["files_deleted"] == 3


def test_nothing_goes_that_a_restored_job_may_commit(driver: Driver, losing: PaimonOrders) -> None:
    """By default for a week, whatever the options of the service are. Nor what was seen within an outage alone."""
    before = losing.files()
    age(losing, days=6.9)
    for told in ({"longest_outage": "0s"}, {"flink_restores": "0s", "longest_outage": "30d"}):
        losing.told = told
        assert isinstance(driver.carry_out(losing, Service.ORPHANS, **AT_ONCE), NothingToDo)
    losing.told = {}
    age(losing, days=8)
    assert isinstance(driver.carry_out(losing, Service.ORPHANS, **AT_ONCE), NothingToDo)
    assert missing(losing, before) == set()


@pytest.mark.parametrize("change", ["write", "tag", "branch", "rollback"])
def test_what_is_named_since_the_listing_is_kept(driver: Driver, losing: PaimonOrders, change: str) -> None:
    """A commit, a tag, a branch and a rollback between the plan and the deletion are honoured. All that the old
    snapshots name was known before.
    """
    losing.tag("known", 2)
    run = driver.submit(losing, Service.ORPHANS, **AT_ONCE)
    plan = driver.advance(run, to=Step.COMMIT)
    assert plan is not None
    assert plan.files_to_delete == 3
    before = losing.files()
    match change:
        case "write":
            losing.write(rows(7, "between"))
            age(losing, but=before)  # as old as what a job has written before it stopped
        case "tag":
            losing.tag("kept", 3)
        case "branch":
            losing.branch("kept", "known")
        case _:
            losing.roll_back(5)
            losing.write(rows(7, "between"))
            age(losing, but=before)
    before, read = losing.files(), losing.read()
    driver.pool.answer(run, Step.COMMIT, Granted())
    outcome = driver.next(run, Ended).outcome
    assert isinstance(outcome, Succeeded)
    assert len(missing(losing, before)) == outcome.figures["files_deleted"] == 3
    assert losing.read() == read


def test_a_file_that_is_committed_after_it_was_planned_is_kept(driver: Driver, lake: Lake) -> None:
    """A job that was stopped for longer than its owner says commits what it has written before."""
    table = lake(told=TOLD)
    table.write(rows(0, "first"))
    prepared = table.prepare(rows(5, "late"))
    age(table)
    run = driver.submit(table, Service.ORPHANS, **AT_ONCE)
    plan = driver.advance(run, to=Step.COMMIT)
    assert plan is not None
    assert plan.files_to_delete
    prepared.commit()
    read = table.read()
    assert len(read) > 40
    driver.pool.answer(run, Step.COMMIT, Granted())
    outcome = driver.next(run, Ended).outcome
    assert isinstance(outcome, Succeeded)
    assert outcome.figures["files_deleted"] == 0
    assert table.read() == read


def test_changelogs_that_outlive_their_snapshots_are_read_on(driver: Driver, lake: Lake) -> None:
    """Paimon's own expiry keeps them, and no snapshot names their files any more."""
    kept = {"changelog-producer": "input", "changelog.num-retained.min": "20", "changelog.num-retained.max": "30"}
    table = lake(options={"bucket": "1", **kept}, told=TOLD)
    for number in range(5):
        table.write(rows(number, f"v{number}"))
    table.expire_itself(changelogs=20)
    assert [one["id"] for one in table.snapshots()] == [5]
    assert len(list((table.folder / "changelog").glob("changelog-[0-9]*"))) == 4
    known = table.files()
    lost = lose(table, "dt=a/bucket-0/changelog-*")
    age(table)
    outcome = driver.carry_out(table, Service.ORPHANS, **AT_ONCE)
    assert isinstance(outcome, Succeeded)
    assert table.files() - ours(table) == known
    assert outcome.figures["files_deleted"] == 1
    assert lost not in table.files()


def test_a_run_deletes_no_more_than_it_may_and_goes_on(driver: Driver, losing: PaimonOrders) -> None:
    """The budget counts all of them."""
    run = driver.submit(losing, Service.ORPHANS, **AT_ONCE, max_files=2)
    plan = driver.advance(run, to=Step.COMMIT)
    assert plan is not None
    assert plan.files_to_delete == 3
    driver.pool.answer(run, Step.COMMIT, Granted())
    outcome = driver.next(run, Ended).outcome
    assert isinstance(outcome, Succeeded)
    assert (outcome.figures["files_deleted"], outcome.figures["goes_on"]) == (2, 1)
    outcome = driver.carry_out(losing, Service.ORPHANS, **AT_ONCE)
    assert isinstance(outcome, Succeeded)
    assert (outcome.figures["files_deleted"], outcome.figures.get("goes_on")) == (1, None)


def test_a_half_deleted_snapshot_lets_nothing_go_and_the_message_says_what_to_do(
    driver: Driver, losing: PaimonOrders
) -> None:
    """An expiry was killed. What its snapshot named is not known."""
    before = losing.files()
    (losing.folder / "manifest" / losing.snapshots()[0]["deltaManifestList"]).unlink()
    outcome = driver.carry_out(losing, Service.ORPHANS, **AT_ONCE)
    assert isinstance(outcome, (Failed, Lost))
    assert "let it run again" in str(outcome)
    assert isinstance(driver.carry_out(losing, Service.CLEAN, **NEWEST), Succeeded)
    assert isinstance(driver.carry_out(losing, Service.ORPHANS, **AT_ONCE), Succeeded)
    assert losing.read() == sorted(losing.expected)
    assert before - losing.files()


def test_a_table_that_gets_a_feature_meanwhile_loses_nothing(driver: Driver, losing: PaimonOrders) -> None:
    """A feature with which orphans leave a table alone may come at any time."""
    before = losing.files()
    run = driver.submit(losing, Service.ORPHANS, **AT_ONCE)
    driver.advance(run, to=Step.COMMIT)
    losing.alter("tag.callbacks", "org.example.Callback")
    driver.pool.answer(run, Step.COMMIT, Granted())
    outcome = driver.next(run, Ended).outcome
    assert isinstance(outcome, Yielded)
    assert "tag.callbacks" in outcome.reason
    assert missing(losing, before) == set()


def test_a_folder_of_a_partition_that_is_a_link_is_left_alone(
    driver: Driver, losing: PaimonOrders, tmp_path: Path
) -> None:
    """It may lead to the files of another table."""
    run = driver.submit(losing, Service.ORPHANS, **AT_ONCE)
    driver.advance(run, to=Step.COMMIT)
    elsewhere = (losing.folder / "dt=a").rename(tmp_path / "elsewhere")
    (losing.folder / "dt=a").symlink_to(elsewhere)
    before = sorted(elsewhere.rglob("*"))
    driver.pool.answer(run, Step.COMMIT, Granted())
    outcome = driver.next(run, Ended).outcome
    assert isinstance(outcome, Succeeded)
    assert outcome.figures["files_deleted"] == 0
    assert sorted(elsewhere.rglob("*")) == before
