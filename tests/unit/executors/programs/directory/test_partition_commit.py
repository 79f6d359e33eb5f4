"""Partition commit writes a marker into what is inactive, and into nothing else."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakewarden.executors.contract import (
    GOES_ON,
    NothingToDo,
    Outcome,
)
from lakewarden.executors.programs.directory.partition_commit import PartitionCommit
from lakewarden.planners.formats.directory.format import DirectoryFormat
from lakewarden.planners.formats.directory.options import DirectoryTableOptions, PartitionCommitOptions
from lakewarden.planners.model.clock import ManualClock
from lakewarden.planners.model.instant import Service, Step
from lakewarden.planners.ports import Storage
from lakewarden.planners.storage import LocalStorage, Storages
from tests.support.directory.directories import age, directory_table, put
from tests.support.directory.directory_runs import DirectoryRun, figures
from tests.support.directory.flink_sink import FlinkSink
from tests.support.object_stores.s3_server import BUCKET, S3Server

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
DAY = "dt=2026-03-01"


def run(
    location: str,
    *,
    now: datetime = NOW,
    storage: Storage | None = None,
    before: Callable[[Step], None] = lambda step: None,
    table: dict[str, Any] | None = None,
    **service: Any,
) -> Outcome:
    """Carry out one run, with what happens before each step."""
    one = DirectoryRun(
        service=Service.PARTITION_COMMIT, location=location, table=table or {}, options=service, before=before
    )
    return one.carried_out(PartitionCommit(clock=ManualClock(now)), storage)


def made(folder: Path, *hours: int, at: datetime = NOW - 5 * HOUR) -> Path:
    for hour in hours:
        put(folder / DAY / f"hr={hour:02d}/part-1", at)
    return folder


def marked(folder: Path) -> set[str]:
    return {str(file.parent.relative_to(folder / DAY)) for file in folder.rglob("_SUCCESS")}


def test_an_inactive_partition_gets_an_empty_marker_and_nothing_else(tmp_path: Path) -> None:
    """Another reader finds the same rows as before."""
    folder = made(tmp_path / "trips", 7, 8)
    count = f"select count(*) from read_csv('{folder}/**/part-*', header=false, columns={{'a': 'varchar'}})"
    rows = duckdb.connect().execute(count).fetchall()
    assert figures(run(str(folder))) == {"partitions_committed": 2, "partitions_left": 0}
    assert {file.name for file in (folder / DAY / "hr=07").iterdir()} == {"part-1", "_SUCCESS"}
    assert (folder / DAY / "hr=07/_SUCCESS").read_bytes() == b""
    assert duckdb.connect().execute(count).fetchall() == rows == [(2,)]
    view = DirectoryFormat().observe(directory_table(folder), LocalStorage(), None, now=NOW).view
    assert "2 committed" in view.notes[Service.PARTITION_COMMIT][0]
    assert view.backlogs == {}
    assert isinstance(run(str(folder)), NothingToDo)


def test_late_data_commits_again(tmp_path: Path) -> None:
    folder = made(tmp_path / "trips", 7)
    partition = folder / DAY / "hr=07"
    put(partition / "_SUCCESS", NOW - 4 * HOUR, b"")
    put(partition / "part-2", NOW - 3 * HOUR)
    assert figures(run(str(folder))) == {"partitions_committed": 1, "partitions_left": 0}
    assert (partition / "_SUCCESS").stat().st_mtime > (NOW - 3 * HOUR).timestamp()


@pytest.mark.parametrize("step", [Step.EXECUTE, Step.COMMIT])
@pytest.mark.parametrize("name", ["part-2", ".part-2.inprogress.77", "_temporary"])
def test_a_partition_that_is_written_to_after_the_plan_is_left(tmp_path: Path, step: Step, name: str) -> None:
    """Each partition is looked at again right before its marker is written. The others are committed."""
    folder = made(tmp_path / "trips", 7, 8)

    def write(at: Step) -> None:
        if at is step:
            put(folder / DAY / "hr=08" / name, NOW)

    assert figures(run(str(folder), before=write)) == {"partitions_committed": 1, "partitions_left": 1}
    assert marked(folder) == {"hr=07"}


def test_a_job_that_begins_after_the_plan_holds_all_partitions_back(tmp_path: Path) -> None:
    """Spark's staging folder lies in the table's own, and may be for any partition."""
    folder = made(tmp_path / "trips", 7, 8)

    def begin(at: Step) -> None:
        if at is Step.COMMIT:
            (folder / "_temporary").mkdir()

    outcome = run(str(folder), before=begin)
    assert isinstance(outcome, NothingToDo)
    assert outcome.again == timedelta(minutes=1)
    assert marked(folder) == set()


def test_a_partition_that_is_dropped_after_the_plan_is_not_made_again(tmp_path: Path) -> None:
    folder = made(tmp_path / "trips", 7, 8)

    def drop(at: Step) -> None:
        if at is Step.COMMIT:
            (folder / DAY / "hr=08/part-1").unlink()
            (folder / DAY / "hr=08").rmdir()

    assert figures(run(str(folder), before=drop)) == {"partitions_committed": 1, "partitions_left": 1}
    assert not (folder / DAY / "hr=08").exists()


def test_no_marker_is_written_outside_of_the_table(tmp_path: Path) -> None:
    """A partition that is a link leads elsewhere."""
    folder = made(tmp_path / "trips", 7)
    put(tmp_path / "elsewhere/part-1", NOW - 5 * HOUR)
    (folder / DAY / "hr=08").symlink_to(tmp_path / "elsewhere")
    assert figures(run(str(folder))) == {"partitions_committed": 1, "partitions_left": 1}
    assert not (tmp_path / "elsewhere/_SUCCESS").exists()


def test_a_run_takes_so_many_partitions_and_goes_on(tmp_path: Path) -> None:
    folder = tmp_path / "trips"
    for hour in range(5):
        made(folder, hour, at=NOW - (9 - hour) * HOUR)
    assert figures(run(str(folder), max_partitions=2)) == {"partitions_committed": 2, "partitions_left": 0, GOES_ON: 1}
    assert marked(folder) == {"hr=00", "hr=01"}


def test_another_name_and_partition_time(tmp_path: Path) -> None:
    folder = made(tmp_path / "trips", 7, 8, 9)
    outcome = run(
        str(folder),
        trigger="partition-time",
        delay="1h",
        timestamp_pattern="$dt $hr:00:00",
        success_file_name="_DONE",
    )
    assert figures(outcome)["partitions_committed"] == 1
    assert (folder / DAY / "hr=07/_DONE").exists()


def test_with_nothing_to_do_the_run_says_when_to_look_again(tmp_path: Path) -> None:
    """Else the service would be due at once again where a look shows more than a view."""
    folder = made(tmp_path / "trips", 7, at=NOW - timedelta(seconds=20))
    outcome = run(str(folder))
    assert isinstance(outcome, NothingToDo)
    assert outcome.again == timedelta(seconds=40)


def test_a_partition_that_takes_no_marker_stops_no_other(tmp_path: Path) -> None:
    """A pipe has the name of its marker. A run that finds nothing else names the pipe, and is repeated."""
    folder = made(tmp_path / "trips", 7, 8)
    pipe = folder / DAY / "hr=07/_SUCCESS"
    os.mkfifo(pipe)
    for path in (pipe, pipe.parent):
        age(path, NOW - 6 * HOUR)
    assert figures(run(str(folder), max_partitions=1)) == {"partitions_committed": 1, "partitions_left": 1}
    assert (folder / DAY / "hr=08/_SUCCESS").is_file()
    outcome = run(str(folder))
    assert isinstance(outcome, NothingToDo)
    assert f"{pipe} is not a file" in outcome.reason
    assert outcome.again == timedelta(minutes=1)


def test_a_marker_that_leads_nowhere_is_no_success(tmp_path: Path) -> None:
    """A link has its name. Nothing is written where it leads, and the run is not repeated at once."""
    folder = made(tmp_path / "trips", 7)
    (folder / DAY / "hr=07/_SUCCESS").symlink_to(tmp_path / "nowhere")
    age(folder / DAY / "hr=07", NOW - 5 * HOUR)
    assert isinstance(run(str(folder)), NothingToDo)
    assert not (tmp_path / "nowhere").exists()


def test_markers_are_written_into_an_object_store(s3_server: S3Server) -> None:
    """One conditional PUT each. Its clock is the machine's, so files of today are waited for."""
    s3_server.start()
    location, files = f"s3://{BUCKET}/{uuid4().hex}", s3_server.files()
    for hour in (7, 8):
        files.pipe_file(f"{location}/{DAY}/hr={hour:02d}/part-1", b"row\n")
    files.pipe_file(f"{location}/{DAY}/hr=08/_part-2_tmp_77", b"tail")
    storage = Storages([s3_server.store()]).of(location)
    now = datetime.now(UTC)
    try:
        assert isinstance(run(location.replace("s3://", "s3a://"), now=now, storage=storage), NothingToDo)
        later = now + timedelta(minutes=2)
        assert figures(run(location, now=later, storage=storage)) == {"partitions_committed": 1, "partitions_left": 0}
        found = files.find(f"{location}/{DAY}")
        assert [path for path in found if path.endswith("_SUCCESS")] == [f"{location[5:]}/{DAY}/hr=07/_SUCCESS"]
        table = directory_table(location)
        form = DirectoryFormat()
        kept = form.observe(table, storage, None, now=later)
        assert kept.token == form.token(table, storage)
        files.pipe_file(f"{location}/{DAY}/hr=07/part-3", b"row\n")
        assert kept.token != form.token(table, storage)
        again = form.observe(table, storage, kept, now=later + timedelta(seconds=10))
        assert again.memo.folders == DirectoryFormat().observe(table, storage, None, now=later).memo.folders
        assert again.memo.folders[f"{DAY}/hr=07"].files == 2
    finally:
        files.rm(location, recursive=True)


@dataclass
class World:
    """A writer like Flink's, two subtasks of it, and a service that runs at any moment."""

    folder: Path
    options: PartitionCommitOptions
    clock: ManualClock = field(default_factory=lambda: ManualClock(NOW))
    changed: dict[str, datetime] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.folder.mkdir()
        self.tasks = [FlinkSink(self.folder / "a", self.clock), FlinkSink(self.folder / "a", self.clock)]
        self.tasks[1]._count = 1000  # another subtask has names of its own

    def markers(self) -> dict[str, int]:
        files = (self.folder / "a").rglob("_SUCCESS")
        return {str(file.parent.relative_to(self.folder / "a")): file.stat().st_mtime_ns for file in files}

    def take(self, step: str, task: int, number: int) -> None:
        sink = self.tasks[task]
        match step:
            case "write":
                partition = f"dt=2026-03-01/hr={number:02d}"
                sink.write(partition)
                self.changed[partition] = self.clock.now()
            case "checkpoint":
                sink.checkpoint()
            case "complete":
                for partition in {str(part.final.parent.relative_to(sink.folder)) for part in sink.pending}:
                    self.changed[partition] = self.clock.now()
                sink.complete()
            case "wait":
                self.clock.advance(timedelta(seconds=number * 20 + 1))
            case _:
                self.commit()

    def commit(self) -> None:
        """Run the service. What it has marked must have been at rest by what the writer itself knows."""
        if not self.changed:
            return
        before, now = self.markers(), self.clock.now()
        run(str(self.folder / "a"), now=now, **self.options.model_dump(mode="json"))
        busy = self.tasks[0].busy() | self.tasks[1].busy()
        least = max(DirectoryTableOptions().quiet_for, self.options.delay)
        for partition, at in self.markers().items():
            if before.get(partition) != at:
                assert partition not in busy
                assert now - self.changed[partition] > least
                home = self.folder / "a" / partition
                age(home / "_SUCCESS", now)
                age(home, now)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from(["write", "write", "checkpoint", "complete", "wait", "wait", "commit"]),
            st.integers(0, 1),
            st.integers(0, 5),
        ),
        max_size=30,
    ),
    delay=st.sampled_from(["0s", "90s"]),
)
def test_a_writer_like_flinks_never_sees_a_marker_too_early(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int, int]], delay: str
) -> None:
    """Whatever the two do in whatever order. When the writer has ended, each partition is committed in the end."""
    world = World(tmp_path_factory.mktemp("lake") / "trips", PartitionCommitOptions(delay=delay))
    for step in steps:
        world.take(*step)
    for task in (0, 1):
        world.take("checkpoint", task, 0)
        world.take("complete", task, 0)
    world.clock.advance(timedelta(days=1))
    world.commit()
    newest = {partition: at.timestamp() for partition, at in world.changed.items()}
    assert world.markers().keys() == newest.keys()
    assert all(at / 1e9 > newest[partition] for partition, at in world.markers().items())
