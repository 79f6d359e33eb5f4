"""Clean of Paimon tables: what expires, what stays, and what a reader, a restored job, a tag and a branch find then."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

from lakewarden.executors.contract import Ended, Failed, Granted, NothingToDo, Succeeded, Yielded
from lakewarden.planners.model.instant import Service, Step
from tests.support.core import first_in_the_core
from tests.support.paimon.paimon_orders import PaimonOrders, rows
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from tests.integration.paimon.conftest import Lake
    from tests.support.pool.driver import Driver

pytestmark = pytest.mark.spark

AT_ONCE: dict[str, Any] = {"longest_outage": "0s", "flink_restores": "0s", "keep_last_flink_commit": False}
NEWEST: dict[str, Any] = {"max_snapshot_age": "0s", "min_snapshots_to_keep": 1}

KINDS = {
    "fixed": (True, {"bucket": "2"}),
    "deletion vectors": (True, {"bucket": "1", "deletion-vectors.enabled": "true"}),
    "changelog by lookup": (True, {"bucket": "1", "changelog-producer": "lookup"}),
    "changelog of the input": (True, {"bucket": "1", "changelog-producer": "input"}),
    "append": (False, {}),
}


@pytest.fixture
def compacted(driver: Driver, lake: Lake) -> PaimonOrders:
    """Return a table of eight snapshots: six writes, a compaction and a write."""
    table = lake(told=AT_ONCE)
    for number in range(6):
        table.write(rows(number, f"v{number}"))
    assert isinstance(driver.carry_out(table, Service.COMPACTION), Succeeded)
    table.write(rows(3, "last"))
    return table


def numbers(table: PaimonOrders) -> list[int]:
    return [one["id"] for one in table.snapshots()]


@pytest.mark.parametrize("kind", first_in_the_core(KINDS))
def test_the_files_that_only_old_snapshots_have_are_deleted_and_each_row_is_there(
    driver: Driver, lake: Lake, kind: str
) -> None:
    """For every kind of table. Nothing is left that the newest snapshot does not need, and it can be written to."""
    keyed, options = KINDS[kind]
    table = lake(keyed=keyed, options=options, told=AT_ONCE)
    for number in range(6):
        table.write(rows(number * 10, f"v{number}"))
    assert isinstance(driver.carry_out(table, Service.COMPACTION), Succeeded)
    compacted, before = table.read(), table.data_files()
    outcome = driver.carry_out(table, Service.CLEAN, **NEWEST)
    assert isinstance(outcome, Succeeded)
    assert numbers(table) == [7]
    assert outcome.figures["snapshots_expired"] == 6
    assert outcome.figures["files_deleted"] == len(before) - len(table.data_files()) > 0
    assert {one.rpartition("/")[2] for one in table.data_files() if "changelog-" not in one} == set(table.live_files())
    assert table.read() == compacted == sorted(table.expected)
    for number in range(6):
        table.write(rows(number, f"after{number}"))
    assert isinstance(driver.carry_out(table, Service.COMPACTION), Succeeded)
    assert table.read() == sorted(table.expected)


def test_a_table_with_a_stale_hint_is_read_and_written_to_after_a_clean(
    driver: Driver, compacted: PaimonOrders
) -> None:
    """Paimon believes the hint if there is no snapshot of the next number, which a clean takes away: the hint goes."""
    hint = compacted.folder / "snapshot" / "LATEST"
    hint.write_text("4")
    assert isinstance(driver.carry_out(compacted, Service.CLEAN, **NEWEST), Succeeded)
    assert (numbers(compacted), hint.exists()) == ([8], False)
    assert compacted.read() == sorted(compacted.expected)
    compacted.write(rows(60, "after"))
    assert compacted.read() == sorted(compacted.expected)


def test_paimons_own_expiry_would_have_deleted_the_same_files(driver: Driver, lake: Lake) -> None:
    """Of two tables with the same history, as far as neither a branch nor a second tag is there."""
    tables = [lake(told=AT_ONCE) for _ in range(2)]
    for table in tables:
        for number in range(6):
            table.write(rows(number, f"v{number}"))
        assert isinstance(driver.carry_out(table, Service.COMPACTION), Succeeded)
        table.write(rows(3, "last"))
    ours, theirs = tables
    assert isinstance(driver.carry_out(ours, Service.CLEAN, **NEWEST), Succeeded)
    theirs.expire_itself()
    assert numbers(ours) == numbers(theirs) == [8]
    kinds = [sorted(name.rpartition("/")[2].split("-")[0] for name in table.files()) for table in tables]
    assert kinds[0] == kinds[1]


def test_a_tag_and_a_branch_are_read_as_before(driver: Driver, lake: Lake) -> None:
    """Their snapshots expire, and their files stay. Paimon's own expiry looks at no branch."""
    table = lake(told=AT_ONCE)
    table.write(rows(0, "tagged"))
    table.tag("first")
    tagged = table.read()
    table.write(rows(5, "branched"))
    table.tag("second")
    table.branch("audit", "second")
    table.delete_tag("second")
    branched = table.read()
    table.write(rows(0, "later"))
    assert isinstance(driver.carry_out(table, Service.COMPACTION), Succeeded)
    assert isinstance(driver.carry_out(table, Service.CLEAN, **NEWEST), Succeeded)
    assert numbers(table) == [4]
    assert table.read(scan__tag_name="first") == tagged
    assert table.read_branch("audit") == branched
    assert table.read() == sorted(table.expected)


def test_a_restored_job_finds_its_last_commit(driver: Driver, lake: Lake) -> None:
    """By default for a week. Without it the job would commit its last checkpoint again."""
    table = lake(told={"longest_outage": "0s"})
    for identifier in range(1, 4):
        table.stream(rows(identifier, "job"), user="job", identifier=identifier)
    for number in range(3):
        table.write(rows(number, "batch"))
    assert isinstance(driver.carry_out(table, Service.CLEAN, **NEWEST), Succeeded)
    assert numbers(table) == [3, 4, 5, 6]
    assert table.filtered("job", 3, 4) == [4]


def test_a_consumer_reads_on(driver: Driver, compacted: PaimonOrders) -> None:
    """What it has not read stays."""
    compacted.consume("reader", 4)
    assert isinstance(driver.carry_out(compacted, Service.CLEAN, **NEWEST), Succeeded)
    assert numbers(compacted) == [4, 5, 6, 7, 8]
    outcome = driver.carry_out(compacted, Service.CLEAN, **NEWEST)
    assert isinstance(outcome, NothingToDo)
    assert "the consumer reader holds them" in outcome.reason


def test_nothing_expires_within_the_longest_outage(driver: Driver, compacted: PaimonOrders) -> None:
    """Whatever the options of the service are."""
    compacted.told = {}
    assert isinstance(driver.carry_out(compacted, Service.CLEAN, **NEWEST), NothingToDo)
    assert len(numbers(compacted)) == 8


@pytest.mark.parametrize("change", ["tag", "branch", "consumer", "rollback"])
def test_what_needs_a_snapshot_since_the_plan_stops_the_deletion(
    driver: Driver, compacted: PaimonOrders, worker_faults: Path, tmp_path: Path, change: str
) -> None:
    """The last look is right before each deletion. A consumer holds what it reads, and no more."""
    standing, before = tmp_path / "stands-here", compacted.files()
    fault = {"point": "expiring", "act": "hold", "service": "clean", "told": str(standing)}
    worker_faults.write_text(json.dumps([fault]))
    compacted.tag("known")
    third = compacted.read(scan__snapshot_id="3")
    run = driver.submit(compacted, Service.CLEAN, **NEWEST)
    driver.advance(run, to=Step.COMMIT)
    driver.pool.answer(run, Step.COMMIT, Granted())
    eventually(standing.exists)
    match change:
        case "tag":
            compacted.tag("kept", 3)
        case "branch":
            compacted.branch("kept", "known")
        case "consumer":
            compacted.consume("late", 3)
        case _:
            compacted.roll_back(7)
    worker_faults.unlink()
    standing.unlink()
    outcome = driver.next(run, Ended).outcome
    if change == "consumer":
        assert isinstance(outcome, Succeeded)
        assert numbers(compacted)[0] == 3
    else:
        assert isinstance(outcome, Yielded)
        assert {one for one in before - compacted.files() if one.startswith("dt=")} == set() or change == "rollback"
        assert numbers(compacted)[0] == 1
    assert compacted.read(scan__snapshot_id="3") == third
    assert change == "rollback" or compacted.read() == sorted(compacted.expected)


def test_a_table_that_was_given_back_is_not_cleaned(driver: Driver, compacted: PaimonOrders) -> None:
    """Its writers expire snapshots by the table's own options."""
    run = driver.submit(compacted, Service.CLEAN, **NEWEST)
    driver.advance(run, to=Step.COMMIT)
    compacted.alter("write-only", "false")
    driver.pool.answer(run, Step.COMMIT, Granted())
    outcome = driver.next(run, Ended).outcome
    assert isinstance(outcome, Yielded)
    assert "expire the snapshots themselves" in outcome.reason
    assert len(numbers(compacted)) == 8


def test_a_run_lets_no_more_expire_than_it_may_and_goes_on(driver: Driver, compacted: PaimonOrders) -> None:
    """The oldest first."""
    outcome = driver.carry_out(compacted, Service.CLEAN, **NEWEST, max_snapshots=3)
    assert isinstance(outcome, Succeeded)
    assert (numbers(compacted)[0], outcome.figures["goes_on"]) == (4, 1)
    assert compacted.read(scan__snapshot_id="4")
    assert isinstance(driver.carry_out(compacted, Service.CLEAN, **NEWEST), Succeeded)
    names = [str(next(compacted.folder.rglob(name))) for name in compacted.live_files()]
    assert {one.rpartition("/")[2] for one in compacted.data_files()} == {one.rpartition("/")[2] for one in names}
    assert duckdb.execute("select count(distinct (id, dt)) from read_parquet(?)", [names]).fetchone() == (50,)


def test_a_folder_that_is_a_link_lets_nothing_be_deleted(
    driver: Driver, compacted: PaimonOrders, tmp_path: Path
) -> None:
    """It may lead to the files of another table."""
    elsewhere = (compacted.folder / "manifest").rename(tmp_path / "elsewhere")
    (compacted.folder / "manifest").symlink_to(elsewhere)
    before = sorted(elsewhere.iterdir())
    outcome = driver.carry_out(compacted, Service.CLEAN, **NEWEST)
    assert isinstance(outcome, Failed)
    assert "is a link" in outcome.reason
    assert sorted(elsewhere.iterdir()) == before
