"""Orphans of a directory on S3: the small objects beside Flink's uploads, and folders of parts. Nothing else goes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from lakewarden.executors.contract import GOES_ON, Failed, NothingToDo, Outcome
from lakewarden.executors.programs.directory.orphans import Orphans
from lakewarden.planners.formats.directory.format import DirectoryFormat
from lakewarden.planners.formats.directory.options import OrphansOptions
from lakewarden.planners.model.clock import ManualClock
from lakewarden.planners.model.instant import Service, Step
from tests.support.directory.directory_runs import DirectoryRun, figures, table_with
from tests.support.directory.watched_client import watched_storage
from tests.support.object_stores.s3_server import BUCKET, S3Server

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
    """What is left is found again."""
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
