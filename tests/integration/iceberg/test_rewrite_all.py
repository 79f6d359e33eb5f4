"""A rewrite of all files on real Spark: bounded runs beside live writers, until no file of the beginning is left."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest
from pyiceberg.exceptions import CommitFailedException

from lakewarden.cli import main
from lakewarden.executors.contract import Ended, Granted, NothingToDo, Outcome, Succeeded, Yielded
from lakewarden.planners.model.instant import Service, Step
from tests.support.catalogs.sqlite_driver import sqlite_driver
from tests.support.daemon.daemon_process import TABLE, DaemonProcess
from tests.support.doubles import fault_points
from tests.support.iceberg.iceberg_upserts import UpsertJob, rows_by_the_spec

if TYPE_CHECKING:
    from tests.support.iceberg.trips import Trips
    from tests.support.pool.driver import Driver

pytestmark = pytest.mark.spark

SMALL = {"max_files": 4, "max_file_group_size": "1KiB"}
"""Each file is a group, and a run takes four of them."""

COMPACTION = f"/v1/tables/{TABLE}/services/compaction"


def mark(trips: Trips) -> str:
    """Return the mark of the table as it is now, as pyiceberg sees it."""
    now = trips.read().current_snapshot()
    assert now is not None
    return f"{now.sequence_number}-{now.snapshot_id}"


def paths(trips: Trips) -> set[str]:
    """Return the data files of the current snapshot."""
    return {str(path) for path in trips.read().inspect.data_files()["file_path"].to_pylist()}


def rewritten(driver: Driver, trips: Trips, of: str, between: Callable[[], None], **options: Any) -> list[Outcome]:
    """Carry out runs of a rewrite of all files until one finds nothing that is left. Call `between` after each."""
    found: list[Outcome] = []
    while not found or not isinstance(found[-1], NothingToDo):
        assert len(found) < 20, found
        found.append(driver.finish(driver.submit(trips, Service.COMPACTION, rewrite_all=of, **options)))
        between()
    return found


def test_every_file_of_the_beginning_is_rewritten_once_and_no_later_file(driver: Driver, trips: Trips) -> None:
    """An ordinary compaction has nothing left to do. Each run takes one file, and a writer commits between the runs."""
    assert isinstance(driver.carry_out(trips, Service.COMPACTION), Succeeded)
    assert isinstance(driver.carry_out(trips, Service.COMPACTION), NothingToDo)
    before, of = paths(trips), mark(trips)

    outcomes = rewritten(driver, trips, of, trips.append, max_files=1)

    assert [one.figures["files_left"] for one in outcomes if isinstance(one, Succeeded)] == [1, 0]
    assert isinstance(outcomes[-1], NothingToDo)
    assert outcomes[-1].again is None
    assert before.isdisjoint(paths(trips))
    assert trips.data_files() == 2 + 2 * len(outcomes)
    assert trips.found() == trips.expected


def test_a_partition_that_a_writer_changes_is_waited_for(driver: Driver, trips: Trips) -> None:
    """The guards of every rewrite hold: a delete that comes while files are written makes the run yield, and its
    files are deleted. Later runs finish the rewrite, and the deletes are applied.
    """
    time.sleep(1.2)  # quiet_for
    before, of = paths(trips), mark(trips)
    run = driver.submit(trips, Service.COMPACTION, rewrite_all=of)
    driver.advance(run, to=Step.COMMIT)
    trips.delete(0, 2)
    driver.pool.answer(run, Step.COMMIT, Granted())
    assert isinstance(driver.next(run, Ended).outcome, Yielded)
    assert before == paths(trips)

    time.sleep(1.2)
    outcomes = rewritten(driver, trips, of, lambda: time.sleep(1.2))

    assert isinstance(outcomes[-1], NothingToDo)
    assert before.isdisjoint(paths(trips))
    assert trips.found() == trips.expected


def test_no_deleted_row_comes_back_and_the_file_that_had_to_stay_comes_last(
    driver: Driver, trips: Trips, tmp_path: Path
) -> None:
    """Between the plan and the commit of each run, a job deletes and inserts by equality. The first run leaves one
    file out, which the next one takes.
    """
    spark = trips.lake.spark
    spark._jvm.org.apache.spark.sql.SparkSession.setActiveSession(spark._jsparkSession)
    java = spark._jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, trips.sql)
    job = UpsertJob(jvm=spark._jvm, java=java, folder=tmp_path)
    job.upsert((3, 1, "b"))
    expected = {**trips.expected, 3: "b"}
    before, of = paths(trips), mark(trips)

    lefts = []
    for number in range(3):
        run = driver.submit(trips, Service.COMPACTION, rewrite_all=of)
        asked = driver.question_or_end(run)
        while not isinstance(asked, Ended):
            if asked.step is Step.COMMIT:
                job.delete((number, number % 2, ""))
                job.insert((1000 + number, 0, "new"))
                del expected[number]
                expected[1000 + number] = "new"
            driver.pool.answer(run, asked.step, Granted())
            asked = driver.question_or_end(run)
        lefts.append(asked.outcome.figures["files_left"] if isinstance(asked.outcome, Succeeded) else asked.outcome)

    assert lefts[:2] == [1, 0]
    assert isinstance(lefts[2], NothingToDo)
    assert before.isdisjoint(paths(trips))
    rows = rows_by_the_spec(trips.read())
    assert len(rows) == len(expected)
    assert {id_: value for id_, _, value in rows} == expected


@contextmanager
def _appending(trips: Trips) -> Iterator[None]:
    """Let a writer append until the context is left. It commits again if another client was faster."""
    over = threading.Event()

    def append() -> None:
        while not over.wait(2):  # a commit of ours takes longer than half a second on a busy machine
            try:
                trips.append()
            except CommitFailedException:
                continue

    thread = threading.Thread(target=append)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _by_duckdb(trips: Trips) -> Mapping[int, str]:
    """Return the rows as duckdb finds them in the files that pyiceberg names. None is there twice."""
    assert len(trips.read().inspect.delete_files()) == 0
    files = [path.removeprefix("file://") for path in paths(trips)]
    rows = duckdb.execute("select id, v from read_parquet($files)", {"files": files}).fetchall()
    assert len(dict(rows)) == len(rows), "a row was found twice"
    return dict(rows)


def test_it_goes_on_after_its_jvm_and_its_daemon_were_killed(
    trips: Trips,
    daemon_of: Callable[..., DaemonProcess],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Asked for by the command line, beside a live writer. The JVM is killed after the first run has written its
    files, and the daemon after a later run has committed. The new daemon finishes the rewrite by itself.
    """
    services = {"compaction": {"trigger": {"num_commits": 1000}, "options": SMALL}}
    conf = {"spark.driver.extraClassPath": str(sqlite_driver())}
    daemon = daemon_of(trips, services, formats=["iceberg"], conf=conf)
    faults, standing = tmp_path / "faults.json", tmp_path / "stands-here"
    monkeypatch.setenv(fault_points.VARIABLE, str(faults))
    before = paths(trips)

    def held_at(point: str) -> None:
        fault = f'[{{"point": "{point}", "act": "hold", "service": "compaction", "told": "{standing}"}}]'
        faults.with_suffix(".half").write_text(fault)
        faults.with_suffix(".half").rename(faults)

    def stands() -> None:
        daemon.until(standing.exists)
        faults.unlink()
        standing.unlink()

    held_at("executed")
    daemon.start()
    daemon.until(lambda: (daemon.get("/v1/tables") or {"items": []})["items"])
    with _appending(trips):
        assert main(["trigger", TABLE, "compaction", "--rewrite-all", "--url", daemon.url]) == 0
        asked = capsys.readouterr().out
        stands()
        held_at("committed")
        daemon.kill_worker_jvm()
        stands()
        daemon.kill()
        daemon.start()
        daemon.until(lambda: daemon.get(f"/v1/tables/{TABLE}/explain") is not None)
        daemon.until(lambda: _last_outcome(daemon).startswith("nothing to do: no file is left"))

    runs = [run for run in daemon.runs("compaction") if run["state"] == "SUCCEEDED"]
    assert "a rewrite of all files was requested by api" in asked
    assert all(run["rewrite_all"] for run in daemon.runs("compaction"))
    assert len(runs) >= 4, "twelve files in runs of at most four, and one that finds nothing"
    assert before.isdisjoint(paths(trips))
    assert trips.found() == trips.expected
    assert _by_duckdb(trips) == trips.expected
    assert daemon.stop() == 0


def _last_outcome(daemon: DaemonProcess) -> str:
    ended = [run for run in daemon.runs("compaction") if run["ended_at"] is not None]
    return ended[0]["outcome"] if ended else ""
