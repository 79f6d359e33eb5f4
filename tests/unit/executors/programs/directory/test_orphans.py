"""Orphans are parts that no job can come back to. Nothing else is deleted."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from lakewarden.executors.contract import (
    GOES_ON,
    Failed,
    NothingToDo,
    Outcome,
    Plan,
    Succeeded,
)
from lakewarden.executors.programs.directory.orphans import Orphans
from lakewarden.planners.formats.directory.format import DirectoryFormat
from lakewarden.planners.formats.directory.options import OrphansOptions
from lakewarden.planners.model.clock import ManualClock
from lakewarden.planners.model.instant import Service, Step
from lakewarden.planners.model.table import Table
from lakewarden.planners.storage import LocalStorage
from tests.support.directory.directories import age, put
from tests.support.directory.directory_runs import DirectoryRun, figures, table_with
from tests.support.directory.watched_client import watched_storage
from tests.support.object_stores.s3_server import BUCKET, S3Server

NOW = datetime(2026, 3, 20, 12, tzinfo=UTC)
OLD = NOW - timedelta(days=8)
YOUNG = NOW - timedelta(days=6)
PART = "dt=2026-03-01/.part-a-0-1.inprogress.77"


def run(
    location: Path, *, before: Callable[[Step], None] = lambda _: None, horizon: str | None = "7d", **service: Any
) -> tuple[Outcome, list[Plan]]:
    """Carry out one run; return its outcome, and what it wanted to delete."""
    one = DirectoryRun(
        service=Service.ORPHANS,
        location=location,
        table={"restore_horizon": horizon},
        options=service,
        before=before,
    )
    return one.carried_out(Orphans(clock=ManualClock(NOW))), one.asked


def table_of(folder: Path) -> Table:
    return table_with(folder, Service.ORPHANS, OrphansOptions(), restore_horizon="7d")


def made(folder: Path, *names: str, at: datetime = OLD) -> Path:
    put(folder / "dt=2026-03-01" / "part-0", OLD)
    for name in names:
        put(folder / name, at)
        for above in (folder / name).parents:
            if above != folder and above.is_relative_to(folder):
                age(above, at)
    return folder


def names(folder: Path) -> set[str]:
    return {str(one.relative_to(folder)) for one in folder.rglob("*") if one.is_file()}


def test_parts_and_folders_of_parts_of_dead_jobs_are_deleted(tmp_path: Path) -> None:
    """Of Flink, Spark and Hive. The data stays, and the partition is active no more."""
    left = (
        PART,
        "dt=2026-03-01/_part-a_tmp_0123-4567-89ab",
        "_temporary/0/task_1/part-1",
        ".spark-staging-7/dt=1/part-1",
        "dt=2026-03-01/.hive-staging_hive_2026/-ext-1/0",
        ".staging_1/part",
    )
    made(tmp_path, *left)
    size = sum((tmp_path / one).stat().st_size for one in left)
    seen = DirectoryFormat().observe(table_of(tmp_path), LocalStorage(), None, now=NOW).view
    assert seen.backlogs[Service.ORPHANS].files == 6
    assert "2 active" in seen.notes[Service.PARTITION_COMMIT][0]
    outcome, [plan] = run(tmp_path)
    assert (plan.files_to_delete, plan.files_in_table, plan.bytes_to_delete) == (6, 6, size)
    assert isinstance(outcome, Succeeded), outcome
    assert (outcome.figures["files_deleted"], outcome.figures["folders_deleted"]) == (6, 4)
    assert outcome.figures["bytes_deleted"] == size
    assert names(tmp_path) == {"dt=2026-03-01/part-0"}
    after = DirectoryFormat().observe(table_of(tmp_path), LocalStorage(), None, now=datetime.now(UTC)).view
    assert Service.ORPHANS not in after.backlogs


@pytest.mark.parametrize(
    "name",
    [
        "dt=2026-03-01/.uncompacted-part-1",
        "dt=2026-03-01/_mine",
        "_audit/part-1",
        "dt=2026-03-01/part-1.tmp",
        "dt=2026-03-01/.hidden",
    ],
)
def test_a_name_that_no_known_writer_gives_is_never_deleted(tmp_path: Path, name: str) -> None:
    """Flink's uncompacted files hold rows that are in no other file."""
    made(tmp_path, name)
    before = names(tmp_path)
    outcome, _ = run(tmp_path)
    assert isinstance(outcome, NothingToDo)
    assert outcome.again is not None
    assert names(tmp_path) == before


def test_a_table_of_another_format_in_a_folder_of_parts_is_kept(tmp_path: Path) -> None:
    """Whatever its owner has called the folder. Parts beside it go."""
    table = ("_temporary/t/_delta_log/00000000000000000000.json", "_temporary/t/part-0.parquet")
    made(tmp_path, *table, PART)
    assert isinstance(run(tmp_path)[0], Succeeded)
    assert names(tmp_path) == {"dt=2026-03-01/part-0", *table}


def test_what_a_restored_job_may_look_for_is_kept(tmp_path: Path) -> None:
    """Neither a part within the horizon, nor a folder with one young file deep in it."""
    made(tmp_path, PART, at=YOUNG)
    made(tmp_path, "_temporary/0/part-1")
    assert isinstance(run(tmp_path, horizon=None)[0], Failed)  # the owner has to name it
    put(tmp_path / "_temporary/1/part-2", YOUNG)
    for folder in ("_temporary/1", "_temporary"):
        age(tmp_path / folder, OLD)
    before = names(tmp_path)
    assert isinstance(run(tmp_path)[0], NothingToDo)
    assert names(tmp_path) == before


def test_an_open_part_of_a_job_without_a_horizon_is_kept_for_a_day(tmp_path: Path) -> None:
    """A live job may not touch its part for a checkpoint."""
    made(tmp_path, PART, at=NOW - timedelta(hours=23))
    assert isinstance(run(tmp_path, horizon="0s")[0], NothingToDo)
    assert isinstance(run(tmp_path, horizon="0s", unchanged_for="22h")[0], Succeeded)


def test_a_part_that_changes_after_the_plan_is_kept(tmp_path: Path) -> None:
    """A job was restored after all."""
    made(tmp_path, PART)

    def write(step: Step) -> None:
        if step is Step.COMMIT:
            put(tmp_path / PART, NOW, b"more\n")

    assert isinstance(run(tmp_path, before=write)[0], NothingToDo)
    assert PART in names(tmp_path)


def test_a_link_is_neither_followed_nor_deleted(tmp_path: Path) -> None:
    """It may lead out of the table."""
    outside = tmp_path / "elsewhere"
    put(outside / "part-1", OLD)
    table = made(tmp_path / "trips", PART)
    (table / "_temporary").symlink_to(outside)
    (table / "dt=2026-03-01" / ".x.inprogress.1").symlink_to(outside / "part-1")
    run(table)
    assert (outside / "part-1").exists()
    assert (table / "_temporary").is_symlink()
    assert (table / "dt=2026-03-01" / ".x.inprogress.1").is_symlink()


def test_one_run_deletes_so_many_and_goes_on(tmp_path: Path) -> None:
    made(tmp_path, *(f"dt=2026-03-01/.part-{number}.inprogress.7" for number in range(3)))
    outcome, _ = run(tmp_path, max_files=2)
    assert isinstance(outcome, Succeeded)
    assert (outcome.figures["files_deleted"], outcome.figures[GOES_ON]) == (2, 1)


# Orphans of a directory on S3: the small objects beside Flink's uploads, and folders of parts. Nothing else goes.

LATER = datetime.now(UTC) + timedelta(days=8)
"""The objects of a store have the time at which they were written. So the daemon's clock is ahead."""

TAIL = f"dt=2026-03-01/_part-0-0_tmp_{uuid4()}"
STAGED = ("dt=2026-03-01/_temporary/0/task_1/part-0", "dt=2026-03-01/.spark-staging-7/dt=1/part-0")


class KilledError(BaseException):
    """The process is gone."""


class Clicks:
    """A directory with data, and a client that shares nothing with Lakewarden."""

    def __init__(self, server: S3Server) -> None:
        server.start()
        self.server, self.files = server, server.files()
        self.location = f"s3://{BUCKET}/{uuid4().hex}"
        self.put("dt=2026-03-01/part-0-0", "a")
        self.put("dt=2026-03-02/part-0-0", "b")

    def put(self, *paths: str, content: str = "x") -> None:
        for path in paths if content == "x" else paths[:1]:
            self.files.pipe_file(f"{self.location}/{path}", content.encode())

    def names(self) -> set[str]:
        start = self.location.removeprefix("s3://")
        return {one.removeprefix(f"{start}/") for one in self.files.find(start)}

    def run(
        self,
        *,
        now: datetime = LATER,
        horizon: str | None = "7d",
        tell: Callable[[str], None] = lambda _: None,
        before: Callable[[Step], None] = lambda _: None,
        **options: Any,
    ) -> Outcome:
        one = DirectoryRun(
            service=Service.ORPHANS,
            location=self.location,
            table={"restore_horizon": horizon},
            options=options,
            before=before,
        )
        return one.carried_out(Orphans(clock=ManualClock(now)), watched_storage(self.server, tell))


@pytest.fixture
def clicks(s3_server: S3Server) -> Clicks:
    """Return a directory with two partitions and no part in progress."""
    return Clicks(s3_server)


def test_what_dead_jobs_have_left_is_deleted(clicks: Clicks) -> None:
    """Of Flink and Spark. The data stays, and what has another hidden name."""
    kept = clicks.names() | {"dt=2026-03-01/_unknown", "dt=2026-03-01/.uncompacted-part-1"}
    clicks.put("dt=2026-03-01/_unknown", "dt=2026-03-01/.uncompacted-part-1", TAIL, *STAGED)
    assert figures(clicks.run()) == {"files_deleted": 3, "bytes_deleted": 3}
    assert clicks.names() == kept
    assert isinstance(clicks.run(), NothingToDo)


def test_nothing_goes_that_a_restored_job_may_look_for(clicks: Clicks) -> None:
    """By the horizon of the table, without which nothing is deleted at all."""
    clicks.put(TAIL, *STAGED)
    before = clicks.names()
    assert isinstance(clicks.run(now=LATER - timedelta(days=2)), NothingToDo)
    assert isinstance(clicks.run(horizon=None), Failed)
    assert clicks.names() == before


def test_a_table_of_another_format_in_a_folder_of_parts_stays(clicks: Clicks) -> None:
    """Whatever its owner has called the folder."""
    clicks.put("_temporary/t/_delta_log/00000000000000000000.json", "_temporary/t/part-0.parquet", TAIL)
    before = clicks.names()
    clicks.run()
    assert clicks.names() == before - {TAIL}


def test_a_part_that_has_changed_since_it_was_found_stays(clicks: Clicks) -> None:
    """Its job lives."""
    clicks.put(TAIL, STAGED[0])

    def write_again(step: Step) -> None:
        if step is Step.COMMIT:
            clicks.put(TAIL, content="more")

    assert figures(clicks.run(before=write_again))["files_deleted"] == 1
    assert TAIL in clicks.names()


def test_a_run_that_is_killed_is_ended_by_the_next(clicks: Clicks) -> None:
    before = clicks.names()
    clicks.put(TAIL, *STAGED)

    def die(act: str) -> None:
        if act.startswith("after delete"):
            raise KilledError

    with pytest.raises(KilledError):
        clicks.run(tell=die)
    assert before <= clicks.names()
    clicks.run()
    assert clicks.names() == before


def test_a_run_deletes_no_more_than_it_may_and_goes_on(clicks: Clicks) -> None:
    """A folder of parts goes as a whole."""
    before = clicks.names()
    clicks.put(TAIL, *STAGED)
    assert figures(clicks.run(max_files=2)) == {"files_deleted": 2, "bytes_deleted": 2, GOES_ON: 1}
    assert figures(clicks.run(max_files=2))["files_deleted"] == 1
    assert clicks.names() == before


def test_on_s3_orphans_are_served_and_ttl_is_blocked(clicks: Clicks) -> None:
    """The view says so. A partition cannot be moved away in one act there."""
    clicks.put(TAIL)
    table = table_with(clicks.location, Service.ORPHANS, OrphansOptions(), restore_horizon="7d")
    view = DirectoryFormat().observe(table, watched_storage(clicks.server, lambda _: None), None, now=LATER).view
    assert view.backlogs[Service.ORPHANS].files == 1
    assert not any(one.concerns(Service.ORPHANS) for one in view.blockers)
    assert any(one.concerns(Service.TTL) for one in view.blockers)
