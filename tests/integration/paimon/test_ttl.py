"""TTL of Paimon tables: what is dropped, and what a live writer and a restored job find then."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakewarden.executors.contract import Ended, Failed, Granted, NothingToDo, Succeeded, Yielded
from lakewarden.planners.model.instant import Service, Step
from tests.support.core import first_in_the_core
from tests.support.daemon.daemon_process import DaemonProcess
from tests.support.daemon.held_runs import killed_at
from tests.support.paimon.paimon_orders import PaimonOrders, Row
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.integration.paimon.conftest import Lake
    from tests.support.pool.driver import Driver

pytestmark = pytest.mark.spark

AT_ONCE: dict[str, Any] = {"longest_outage": "0s", "flink_restores": "0s", "keep_last_flink_commit": False}
OLD, OLDER, FUTURE = "2020-01-02", "2020-01-01", "2999-01-01"

KINDS = {
    "fixed": (True, {"bucket": "2"}),
    "deletion vectors": (True, {"bucket": "1", "deletion-vectors.enabled": "true"}),
    "first row": (True, {"bucket": "1", "merge-engine": "first-row"}),
    "changelog by lookup": (True, {"bucket": "1", "changelog-producer": "lookup"}),
    "dynamic buckets": (True, {"bucket": "-1"}),
    "avro": (True, {"bucket": "1", "file.format": "avro"}),
    "append": (False, {}),
    "append in buckets": (False, {"bucket": "2", "bucket-key": "id"}),
}


def orders(dt: str, begin: int = 0, text: str = "v", count: int = 20) -> list[Row]:
    return [(number, text, dt) for number in range(begin, begin + count)]


def of(rows: Iterable[Row], *dts: str) -> list[Row]:
    return sorted(row for row in rows if row[2] in dts)


@pytest.fixture
def table(lake: Lake) -> PaimonOrders:
    """Write two partitions that have expired, and one that has not, in four commits."""
    made = lake(told=AT_ONCE)
    fill(made)
    return made


def fill(table: PaimonOrders) -> None:
    for number in range(2):
        table.write([row for dt in (OLDER, OLD, FUTURE) for row in orders(dt, number * 10, f"v{number}")])


@contextmanager
def writing(table: PaimonOrders, user: str) -> Iterator[Callable[[list[Row], int], Any]]:
    """Keep one streaming writer open, as a job of Flink does. It returns what a checkpoint would commit."""
    writer = table.paimon.table.sink.StreamWriteBuilderImpl(table._table({})).withCommitUser(user).newWrite()
    writer.withIOManager(table.paimon.disk.IOManager.create(str(table.warehouse)))

    def checkpoint(rows: list[Row], identifier: int) -> Any:
        for row in rows:
            made = table.paimon.data.GenericRow(3)
            made.setField(0, row[0])
            for place in (1, 2):
                made.setField(place, table.paimon.data.BinaryString.fromString(row[place]))
            writer.write(made)
        return writer.prepareCommit(bool(1), identifier)

    yield checkpoint
    writer.close()


def commit(table: PaimonOrders, user: str, messages: Any, identifier: int) -> None:
    committing = table.paimon.table.sink.StreamWriteBuilderImpl(table._table({})).withCommitUser(user).newCommit()
    committing.commit(identifier, messages)
    committing.close()


@pytest.mark.parametrize("kind", first_in_the_core(KINDS))
def test_expired_partitions_are_dropped_by_one_snapshot_and_no_other_row_goes(
    driver: Driver, lake: Lake, kind: str
) -> None:
    """For every kind of table. No file is deleted: the clean does that. Until then the rows of before can be read."""
    keyed, options = KINDS[kind]
    table = lake(keyed=keyed, options=options, told=AT_ONCE)
    fill(table)
    assert isinstance(driver.carry_out(table, Service.COMPACTION), Succeeded if keyed else NothingToDo)
    known, files, live = table.read(), table.data_files(), len(table.live_files())
    run = driver.submit(table, Service.TTL, retain="30d")
    plan = driver.advance(run, to=Step.COMMIT)
    assert plan is not None
    assert (plan.partitions_to_delete, plan.files_in_table) == (2, live)
    assert plan.bytes_to_delete
    driver.pool.answer(run, Step.COMMIT, Granted())
    outcome = driver.next(run, Ended).outcome
    assert isinstance(outcome, Succeeded)
    assert outcome.figures["partitions_deleted"] == 2
    assert outcome.figures["files_deleted"] == plan.files_to_delete == live - len(table.live_files())
    [snapshot] = table.signed_by(run)
    assert (snapshot["commitKind"], snapshot["id"]) == ("OVERWRITE", outcome.figures["snapshot"])
    assert table.read() == of(known, FUTURE) != []
    assert table.data_files() == files
    assert table.read(scan__snapshot_id=str(snapshot["id"] - 1)) == known
    cleaned = driver.carry_out(table, Service.CLEAN, max_snapshot_age="0s", min_snapshots_to_keep=1)
    assert isinstance(cleaned, Succeeded)
    assert {one.partition("/")[0] for one in table.data_files()} == {f"dt={FUTURE}"}
    assert table.read() == of(known, FUTURE)
    assert isinstance(driver.carry_out(table, Service.TTL, retain="30d"), NothingToDo)


@pytest.mark.parametrize("kind", ["fixed", "append", "deletion vectors", "first row"])
def test_a_live_writer_goes_on_in_a_partition_that_was_dropped(driver: Driver, lake: Lake, kind: str) -> None:
    """Its writer was open before. Its late rows are there afterwards, and no others of the partition."""
    keyed, options = KINDS[kind]
    table = lake(keyed=keyed, options=options, told=AT_ONCE)
    fill(table)
    with writing(table, "job") as checkpoint:
        commit(table, "job", checkpoint(orders(OLD, 100, "before"), 1), 1)
        assert isinstance(driver.carry_out(table, Service.TTL, retain="30d"), Succeeded)
        late = [*orders(OLD, 5, "late", 10), *orders(FUTURE, 500, "new", 5)]
        commit(table, "job", checkpoint(late, 2), 2)
        commit(table, "job", checkpoint(orders(OLD, 300, "later", 1), 3), 3)
    expected = [*of(table.expected, FUTURE), *late, *orders(OLD, 300, "later", 1)]
    assert isinstance(driver.carry_out(table, Service.COMPACTION), Succeeded if keyed else NothingToDo)
    assert [row[:1] + row[2:] for row in table.read()] == sorted(row[:1] + row[2:] for row in set(expected))


def test_a_job_that_is_restored_from_a_checkpoint_commits_what_it_had_written(driver: Driver, lake: Lake) -> None:
    """Its files were written before the drop, and are committed after it. It finds its earlier commits, and repeats
    none.
    """
    table = lake(told={"longest_outage": "0s"})
    fill(table)
    with writing(table, "job") as checkpoint:
        commit(table, "job", checkpoint(orders(OLD, 100, "first"), 1), 1)
        pending = checkpoint(orders(OLD, 200, "pending"), 2)
    assert isinstance(driver.carry_out(table, Service.TTL, retain="30d"), Succeeded)
    assert table.filtered("job", 1, 2) == [2]
    commit(table, "job", pending, 2)
    assert table.read() == sorted([*of(table.expected, FUTURE), *orders(OLD, 200, "pending")])


def test_a_partition_into_which_rows_came_since_the_plan_stays_and_the_others_go(
    driver: Driver, table: PaimonOrders
) -> None:
    """Not one row of it is lost."""
    run = driver.submit(table, Service.TTL, retain="30d")
    driver.advance(run, to=Step.COMMIT)
    table.write(orders(OLD, 100, "late", 3))
    driver.pool.answer(run, Step.COMMIT, Granted())
    outcome = driver.next(run, Ended).outcome
    assert isinstance(outcome, Succeeded)
    assert outcome.figures["partitions_deleted"] == 1
    assert table.read() == of(table.expected, OLD, FUTURE)


def test_a_commit_at_the_last_moment_keeps_its_partition(
    driver: Driver, table: PaimonOrders, worker_faults: Path, tmp_path: Path
) -> None:
    """A writer commits after the last look. Its snapshot stays, and ours is made anew without its partition."""
    standing = tmp_path / "stands-here"
    fault = {"point": "proposed", "act": "hold", "service": "ttl", "told": str(standing)}
    worker_faults.write_text(json.dumps([fault]))
    run = driver.submit(table, Service.TTL, retain="30d")
    driver.advance(run, to=Step.COMMIT)
    driver.pool.answer(run, Step.COMMIT, Granted())
    eventually(standing.exists)
    table.write(orders(OLD, 100, "late", 3))
    worker_faults.unlink()
    standing.unlink()
    outcome = driver.next(run, Ended).outcome
    assert isinstance(outcome, Succeeded)
    assert [one["commitKind"] for one in table.snapshots()[-2:]] == ["APPEND", "OVERWRITE"]
    assert table.read() == of(table.expected, OLD, FUTURE)


def test_a_partition_into_which_rows_came_within_the_longest_outage_stays(driver: Driver, lake: Lake) -> None:
    """A day by default: a job that writes such rows may be restored."""
    table = lake()
    fill(table)
    outcome = driver.carry_out(table, Service.TTL, retain="30d")
    assert isinstance(outcome, NothingToDo)
    assert "longest_outage" in outcome.reason


def test_the_tables_own_options_hold_where_the_service_sets_none(driver: Driver, lake: Lake) -> None:
    """And without any nothing is dropped."""
    table = lake(told=AT_ONCE)
    fill(table)
    refused = driver.carry_out(table, Service.TTL)
    assert isinstance(refused, Failed)
    assert "partition.expiration-time" in refused.reason
    table.alter("partition.expiration-time", "30 d")
    assert isinstance(driver.carry_out(table, Service.TTL), Succeeded)
    assert table.read() == of(table.expected, FUTURE)


@pytest.mark.parametrize("change", ["write-only", "schema", "metastore"])
def test_a_table_that_was_changed_since_the_plan_keeps_its_partitions(
    driver: Driver, table: PaimonOrders, change: str
) -> None:
    """A writer that compacts would fail if its files were gone."""
    run = driver.submit(table, Service.TTL, retain="30d")
    driver.advance(run, to=Step.COMMIT)
    match change:
        case "write-only":
            table.alter("write-only", "false")
        case "metastore":
            table.alter("metastore.partitioned-table", "true")
        case _:
            table.alter("snapshot.num-retained.min", "3")
    driver.pool.answer(run, Step.COMMIT, Granted())
    assert isinstance(driver.next(run, Ended).outcome, Yielded)
    assert table.read() == sorted(table.expected)


def test_if_every_partition_has_changed_nothing_is_committed(driver: Driver, table: PaimonOrders) -> None:
    """The run is asked for again later."""
    run = driver.submit(table, Service.TTL, retain="30d")
    driver.advance(run, to=Step.COMMIT)
    table.write([*orders(OLD, 100, "late", 1), *orders(OLDER, 100, "late", 1)])
    driver.pool.answer(run, Step.COMMIT, Granted())
    assert isinstance(driver.next(run, Ended).outcome, Yielded | NothingToDo)
    assert table.signed_by(run) == []
    assert table.read() == sorted(table.expected)


def test_a_run_drops_no_more_than_it_may_and_goes_on(driver: Driver, table: PaimonOrders) -> None:
    """The oldest first."""
    outcome = driver.carry_out(table, Service.TTL, retain="30d", max_partitions=1)
    assert isinstance(outcome, Succeeded)
    assert outcome.figures["goes_on"] == 1
    assert table.read() == of(table.expected, OLD, FUTURE)


@pytest.mark.parametrize(
    ("point", "commits"),
    [("planned", [0, 1]), ("executing", [0, 1]), ("permitted", [0, 1]), ("proposed", [0, 1]), ("committed", [1])],
)
@pytest.mark.faults
def test_a_ttl_killed_at_a_point_is_settled_by_what_the_table_shows(
    table: PaimonOrders,
    daemon_of: Callable[..., DaemonProcess],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    point: str,
    commits: list[int],
) -> None:
    """For every point each partition is dropped once, and no other row goes."""
    services = {"ttl": {"trigger": {"num_commits": 1}, "options": {"retain": "30d"}}}
    start = functools.partial(daemon_of, table, services, formats=["paimon"])
    daemon = killed_at(point, "ttl", start, tmp_path, monkeypatch)

    def ended() -> bool:
        runs = daemon.runs("ttl")
        return bool(runs) and any(run["state"] == "SUCCEEDED" for run in runs)

    daemon.until(ended)
    runs = [run for run in reversed(daemon.runs("ttl")) if run["state"] in {"SUCCEEDED", "FAILED"}]
    assert [len(table.signed_by(run["id"])) for run in runs][: len(commits)] == commits
    assert table.read() == of(table.expected, FUTURE)
    assert daemon.stop() == 0
