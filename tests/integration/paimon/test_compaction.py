"""Compaction of Paimon tables by the core API, each step by its permit, beside writers of the table."""

from __future__ import annotations

import json
import random
import shutil
from typing import TYPE_CHECKING

import duckdb
import pytest

from lakewarden.executors.contract import Asked, Ended, Failed, Granted, NothingToDo, Refused, Succeeded, Yielded
from lakewarden.planners.model.instant import Service, Step
from tests.support.paimon.paimon_orders import PaimonOrders, rows
from tests.support.paimon.paimon_proofs import kept_between_permit_and_commit
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from tests.integration.paimon.conftest import Lake
    from tests.support.pool.driver import Driver

pytestmark = pytest.mark.spark

KINDS = {
    "fixed": (True, {"bucket": "2"}),
    "deletion vectors": (True, {"bucket": "1", "deletion-vectors.enabled": "true"}),
    "first row": (True, {"bucket": "1", "merge-engine": "first-row"}),
    "partial update": (True, {"bucket": "1", "merge-engine": "partial-update"}),
    "changelog by lookup": (True, {"bucket": "1", "changelog-producer": "lookup"}),
    "changelog by full compaction": (True, {"bucket": "1", "changelog-producer": "full-compaction"}),
    "append": (False, {}),
    "append in buckets": (False, {"bucket": "2", "bucket-key": "id"}),
    "orc": (True, {"bucket": "1", "file.format": "orc"}),
    "avro": (True, {"bucket": "1", "file.format": "avro"}),
    "avro in dynamic buckets": (True, {"bucket": "-1", "file.format": "avro"}),
    "append orc": (False, {"file.format": "orc"}),
    "append avro": (False, {"file.format": "avro"}),
}


@pytest.mark.core
def test_files_are_written_first_and_seen_by_no_reader_until_the_snapshot_that_names_the_run(
    driver: Driver, orders: PaimonOrders
) -> None:
    """The plan writes nothing. The execution writes files that no snapshot names. The commit is one new snapshot."""
    before, known = orders.files(), orders.read()
    run = driver.submit(orders, Service.COMPACTION)
    plan = driver.advance(run, to=Step.EXECUTE)
    assert plan is not None
    assert (plan.instant, plan.file_groups) == (None, 4)
    assert orders.files() == before
    driver.pool.answer(run, Step.EXECUTE, Granted())
    driver.advance(run, to=Step.COMMIT)
    assert len(orders.data_files() - before) == 4
    assert len(orders.snapshots()) == 6

    driver.pool.answer(run, Step.COMMIT, Granted())
    outcome = driver.next(run, Ended).outcome

    assert isinstance(outcome, Succeeded)
    [snapshot] = orders.signed_by(run)
    assert (snapshot["id"], snapshot["commitKind"]) == (7, "COMPACT")
    assert {key: outcome.figures[key] for key in ("snapshot", "buckets", "files_rewritten", "files_added")} == {
        "snapshot": 7,
        "buckets": 4,
        "files_rewritten": 24,
        "files_added": 4,
    }
    assert len(orders.live_files()) == 4
    assert orders.read() == known == sorted(orders.expected)


@pytest.mark.parametrize("kind", list(KINDS))
def test_the_rows_of_every_kind_of_table_are_the_same_afterwards(driver: Driver, lake: Lake, kind: str) -> None:
    """Also those that readers do not see before a compaction, and the rows that are written and compacted after it."""
    keyed, options = KINDS[kind]
    table = lake(keyed=keyed, options=options)
    for number in range(6):
        table.write(rows(number * 10, f"v{number}"))
    assert isinstance(driver.carry_out(table, Service.COMPACTION), Succeeded)
    compacted = len(table.live_files())
    for number in range(6):
        table.write(rows(1000 + number, f"late{number}", count=1))
    assert isinstance(driver.carry_out(table, Service.COMPACTION), Succeeded)

    firsts: dict[tuple[int, str], str] = {}
    for id_, text, dt in [*(r for n in range(6) for r in rows(n * 10, f"v{n}")), *rows(1000, "late", 0)]:
        firsts.setdefault((id_, dt), text)
    late = [(1000 + n, f"late{n}", dt) for n in range(6) for dt in "ab"]
    expected = [(id_, text, dt) for (id_, dt), text in firsts.items()] + late
    assert table.read() == (sorted(expected) if kind == "first row" else sorted(table.expected))
    assert compacted <= 4
    assert len(table.live_files()) <= 8


def test_duckdb_finds_each_row_once_in_the_files_of_a_full_compaction(driver: Driver, orders: PaimonOrders) -> None:
    """A reader that knows nothing of Paimon."""
    assert isinstance(driver.carry_out(orders, Service.COMPACTION), Succeeded)
    names = [next(str(one) for one in orders.folder.rglob(name)) for name in orders.live_files()]
    found = duckdb.execute("select id, v, dt from read_parquet(?) order by all", [names]).fetchall()
    assert found == sorted(orders.expected)


def test_a_write_between_execute_and_commit_is_kept(driver: Driver, orders: PaimonOrders) -> None:
    """The commit follows it, and takes none of its files."""
    kept_between_permit_and_commit(driver, orders, Service.COMPACTION)


def test_rows_that_were_rolled_back_before_the_commit_do_not_return(driver: Driver, orders: PaimonOrders) -> None:
    """The compaction has read them. Paimon refuses the commit: the level-0 files are part of no snapshot any more."""
    before, newest = orders.read(), orders.snapshots()[-1]["id"]
    orders.write([(1, "undone", "a"), (77, "undone", "a")])
    run = driver.submit(orders, Service.COMPACTION)
    driver.advance(run, to=Step.COMMIT)
    orders.roll_back(newest)
    driver.pool.answer(run, Step.COMMIT, Granted())

    assert isinstance(driver.next(run, Ended).outcome, Yielded)

    assert orders.read() == before
    assert isinstance(driver.carry_out(orders, Service.COMPACTION), Succeeded)
    assert orders.read() == before


def test_a_snapshot_whose_number_was_taken_is_made_anew(
    driver: Driver, orders: PaimonOrders, worker_faults: Path, tmp_path: Path
) -> None:
    """A writer commits after the last look. Its snapshot stays, and ours follows it."""
    standing = tmp_path / "stands-here"
    fault = {"point": "proposed", "act": "hold", "service": "compaction", "told": str(standing)}
    worker_faults.write_text(json.dumps([fault]))
    run = driver.submit(orders, Service.COMPACTION)
    driver.advance(run, to=Step.COMMIT)
    driver.pool.answer(run, Step.COMMIT, Granted())
    eventually(standing.exists)
    orders.write(rows(3, "meanwhile"))
    worker_faults.unlink()
    standing.unlink()
    assert isinstance(driver.next(run, Ended).outcome, Succeeded)
    assert [one["commitKind"] for one in orders.snapshots()[-2:]] == ["APPEND", "COMPACT"]
    assert orders.read() == sorted(orders.expected)


def test_a_refused_commit_leaves_the_table_as_it_was(driver: Driver, orders: PaimonOrders) -> None:
    """The files that were written are deleted again."""
    before = orders.files()
    run = driver.submit(orders, Service.COMPACTION)
    driver.advance(run, to=Step.COMMIT)
    driver.pool.answer(run, Step.COMMIT, Refused(reason="not now"))
    assert isinstance(driver.next(run, Ended).outcome, Yielded)
    assert orders.files() == before
    assert orders.read() == sorted(orders.expected)


def test_an_abort_deletes_no_file_that_only_moves_to_another_level(driver: Driver, lake: Lake) -> None:
    """Such a file is in the table before and after the compaction. Paimon's own abort deletes it."""
    table = lake()
    table.write(rows(0, "once"))
    before = table.files()
    run = driver.submit(table, Service.COMPACTION)
    driver.advance(run, to=Step.COMMIT)
    driver.pool.answer(run, Step.COMMIT, Refused(reason="not now"))
    driver.next(run, Ended)
    assert table.files() == before
    assert table.read() == sorted(table.expected)


def test_of_two_compactions_of_one_bucket_the_second_yields_and_loses_nothing(
    driver: Driver, orders: PaimonOrders
) -> None:
    """Its files are deleted, and those of the first one stay."""
    before = orders.data_files()
    first, second = (driver.submit(orders, Service.COMPACTION) for _ in range(2))
    for run in (first, second):
        driver.advance(run, to=Step.COMMIT)
    driver.pool.answer(first, Step.COMMIT, Granted())
    assert isinstance(driver.next(first, Ended).outcome, Succeeded)
    driver.pool.answer(second, Step.COMMIT, Granted())
    outcome = driver.next(second, Ended).outcome
    assert isinstance(outcome, Yielded)
    assert "another program has changed files that were compacted" in outcome.reason
    assert orders.signed_by(second) == []
    assert {one.rpartition("/")[2] for one in orders.data_files() - before} == set(orders.live_files())
    assert orders.read() == sorted(orders.expected)


@pytest.mark.parametrize("change", ["a writer has compacted", "the owner has given it back"])
def test_a_commit_looks_again_and_yields_to_a_writer_that_compacts_by_now(
    driver: Driver, orders: PaimonOrders, change: str
) -> None:
    """The permit was given on an observation before."""
    run = driver.submit(orders, Service.COMPACTION)
    driver.advance(run, to=Step.COMMIT)
    if change == "a writer has compacted":
        orders.compact_itself()
    else:
        orders.alter("write-only", "false")
    driver.pool.answer(run, Step.COMMIT, Granted())
    outcome = driver.next(run, Ended).outcome
    assert isinstance(outcome, Yielded)
    assert "second compaction" in outcome.reason
    assert orders.signed_by(run) == []
    assert orders.read() == sorted(orders.expected)


def test_a_table_whose_writers_compact_is_refused_with_the_reason(driver: Driver, orders: PaimonOrders) -> None:
    """Whatever a daemon that was misled may have granted."""
    orders.alter("write-only", "false")
    outcome = driver.carry_out(orders, Service.COMPACTION)
    assert isinstance(outcome, Failed)
    assert "write-only is false" in outcome.reason


def test_a_compacted_table_has_nothing_to_do(driver: Driver, orders: PaimonOrders) -> None:
    """A run writes no snapshot for nothing."""
    assert isinstance(driver.carry_out(orders, Service.COMPACTION), Succeeded)
    assert isinstance(driver.carry_out(orders, Service.COMPACTION), NothingToDo)
    assert len(orders.snapshots()) == 7


def test_a_partition_keeps_its_number_of_buckets(driver: Driver, orders: PaimonOrders) -> None:
    """The option of the table holds for new partitions. A rescaling is the owner's act."""
    orders.alter("bucket", "4")
    assert isinstance(driver.carry_out(orders, Service.COMPACTION), Succeeded)
    assert len(orders.live_files()) == 4
    assert orders.read() == sorted(orders.expected)


def test_a_minor_compaction_merges_the_buckets_at_the_trigger(driver: Driver, orders: PaimonOrders) -> None:
    """And leaves the others to readers."""
    orders.write([(500, "x", "c")])
    orders.write([(500, "y", "c")])
    assert isinstance(driver.carry_out(orders, Service.COMPACTION, strategy="minor"), Succeeded)
    assert len([one for one in orders.live_files() if list((orders.folder / "dt=c").rglob(one))]) == 2
    assert len(orders.live_files()) < 12
    assert orders.read() == sorted(orders.expected)


@pytest.mark.parametrize(
    "options",
    [
        {"deletion-vectors.enabled": "true", "lookup-compact": "gentle"},
        {"changelog-producer": "lookup", "lookup-compact": "gentle"},
        {"changelog-producer": "full-compaction"},
    ],
    ids=str,
)
def test_a_minor_compaction_below_the_trigger_serves_the_readers_who_wait_for_it(
    driver: Driver, lake: Lake, options: dict[str, str]
) -> None:
    """They see each row, or the changelog of it."""
    table = lake(options={"bucket": "1", **options})
    table.write(rows(0, "v"))
    table.write(rows(10, "w"))
    assert isinstance(driver.carry_out(table, Service.COMPACTION, strategy="minor"), Succeeded)
    assert table.read() == sorted(table.expected)
    assert "changelogManifestList" in table.snapshots()[-1] or "deletion-vectors.enabled" in options


def test_a_minor_compaction_keeps_a_delete_that_a_row_follows(driver: Driver, lake: Lake) -> None:
    """Merged without the oldest run, both become a row that is added to the one that was deleted."""
    options = {"merge-engine": "aggregation", "fields.v.aggregate-function": "listagg"}
    table = lake(options={"bucket": "1", **options, "aggregation.remove-record-on-delete": "true"})
    table.write([(number, "old", "a") for number in range(1000)])
    assert isinstance(driver.carry_out(table, Service.COMPACTION), Succeeded)
    table.write([(1, "old", "a")], kind="DELETE")
    for text in "bcde":
        table.write([(1, text, "a")])
    known = table.read()
    assert (1, "b,c,d,e", "a") in known
    assert isinstance(driver.carry_out(table, Service.COMPACTION, strategy="minor"), Succeeded)
    assert table.read() == known


def test_a_lookup_of_many_rows_of_a_key_keeps_the_oldest(driver: Driver, lake: Lake) -> None:
    """Paimon 1.3.1 loses it if they are more than `lookup.merge-records-threshold`, 1024 by default (paimon#9279)."""
    options = {"merge-engine": "aggregation", "fields.v.aggregate-function": "listagg", "changelog-producer": "lookup"}
    table = lake(options={"bucket": "1", **options, "lookup.merge-records-threshold": "2"})
    table.write([(1, "a", "a")])
    assert isinstance(driver.carry_out(table, Service.COMPACTION), Succeeded)
    for text in "bcde":
        table.write([(1, text, "a")])
    assert isinstance(driver.carry_out(table, Service.COMPACTION), Succeeded)
    assert table.read() == [(1, "a,b,c,d,e", "a")]


def test_an_append_table_with_buckets_has_one_strategy(driver: Driver, lake: Lake) -> None:
    """Three small files are merged, as by a full compaction. A minor one of Paimon's would leave them."""
    table = lake(keyed=False, options={"bucket": "1", "bucket-key": "id"})
    for number in range(3):
        table.write([(number, "v", "a")])
    assert isinstance(driver.carry_out(table, Service.COMPACTION, strategy="minor"), Succeeded)
    assert len(table.live_files()) == 1
    assert table.read() == sorted(table.expected)


def test_a_partition_in_which_paimon_finds_no_small_file_stops_no_other(driver: Driver, lake: Lake) -> None:
    """Paimon 1.3.1 does not know the option by which they are small, and its scan ends with an exception."""
    table = lake(keyed=False, options={"compaction.small-file-ratio": "1.0"})
    chance = random.Random(1)
    for number in range(5):
        table.write([(number, chance.randbytes(4000).hex(), "a"), (number, "v", "b")])
    size = min(one.stat().st_size for one in (table.folder / "dt=a").rglob("data-*"))
    table.alter("target-file-size", f"{size * 10 // 8} b")
    assert isinstance(driver.carry_out(table, Service.COMPACTION), Succeeded)
    assert len(table.live_files()) < 10
    assert table.read() == sorted(table.expected)


def test_a_table_that_was_dropped_meanwhile_is_not_made_again(driver: Driver, orders: PaimonOrders) -> None:
    """No folder appears where it was."""
    run = driver.submit(orders, Service.COMPACTION)
    driver.advance(run, to=Step.COMMIT)
    shutil.rmtree(orders.folder)
    driver.pool.answer(run, Step.COMMIT, Granted())
    assert not isinstance(driver.next(run, Ended).outcome, Succeeded)
    assert not (orders.folder / "snapshot").exists()


def test_the_plan_is_bounded(driver: Driver, orders: PaimonOrders) -> None:
    """One bucket is taken whatever its size is."""
    run = driver.submit(orders, Service.COMPACTION, max_bytes="1B")
    plan = driver.advance(run, to=Step.EXECUTE)
    assert plan is not None
    assert plan.file_groups == 1
    driver.pool.answer(run, Step.EXECUTE, Refused(reason="not now"))
    assert not isinstance(driver.next(run, Ended).outcome, Asked)
