"""A rewrite is cancelled, or a part of it fails. Its uncommitted files are deleted, and its committed part is
reported.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakewarden.executors.contract import Ended, Failed, FailureKind, Granted, Succeeded, Yielded
from lakewarden.planners.model.instant import Service, Step
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.support.iceberg.trips import Trips
    from tests.support.pool.driver import Driver

pytestmark = pytest.mark.spark


@contextlib.contextmanager
def _replaced(file: Path) -> Iterator[Path]:
    """Put the file aside, so that another one can take its place. Restore it at the end."""
    aside = file.with_name(f".{file.name}.aside")
    file.rename(aside)
    try:
        yield file
    finally:
        aside.replace(file)


@contextlib.contextmanager
def _never_read(file: Path) -> Iterator[None]:
    """Let every reader of the file wait until the context is left."""
    with _replaced(file):
        os.mkfifo(file)
        try:
            yield
        finally:
            with contextlib.suppress(OSError):  # no reader waits any more
                os.close(os.open(file, os.O_WRONLY | os.O_NONBLOCK))


def _finished(trips: Trips, names: set[str]) -> set[str]:
    """Return those of the names whose files have the end of a Parquet file."""
    found = [path for path in trips.data_folder().rglob("*.parquet") if path.name in names]
    return {path.name for path in found if path.exists() and path.read_bytes()[-4:] == b"PAR1"}


def test_a_cancelled_rewrite_ends_and_leaves_nothing(driver: Driver, trips: Trips) -> None:
    """One group is written, and the job of the other hangs. Both are given up, and the files of the first are
    deleted. A task that is killed while it makes its file may leave an unfinished one, which is an orphan.
    """
    before = trips.files_on_disk()
    run = driver.submit(trips, Service.COMPACTION)
    driver.advance(run, to=Step.EXECUTE)
    with _never_read(trips.data_file_of(0)):
        driver.pool.answer(run, Step.EXECUTE, Granted())
        eventually(lambda: _finished(trips, trips.files_on_disk() - before) != set())
        time.sleep(1)  # the driver hears of its task
        driver.pool.cancel(run, "the table is paused")
        outcome = driver.next(run, Ended).outcome

    assert outcome == Yielded(reason="the table is paused")
    eventually(lambda: _finished(trips, trips.files_on_disk() - before) == set())
    assert before <= trips.files_on_disk()
    assert trips.signed_by(run) == []
    assert isinstance(driver.carry_out(trips, Service.COMPACTION), Succeeded)
    assert trips.found() == trips.expected


@pytest.mark.parametrize("partial_progress", [False, True])
def test_a_group_that_cannot_be_read_makes_no_run_a_success(
    driver: Driver, trips: Trips, *, partial_progress: bool
) -> None:
    """Without partial progress nothing is committed, and no file is left behind. With it the other group is committed
    as a part of the run. The run fails all the same, and says how much it did.
    """
    before = trips.files_on_disk()
    with _replaced(trips.data_file_of(0)) as broken:
        broken.write_bytes(b"this is no Parquet file")
        run = driver.submit(trips, Service.COMPACTION, partial_progress=partial_progress)
        outcome = driver.finish(run)

    assert isinstance(outcome, Failed)
    assert outcome.kind is FailureKind.TEMPORARY
    if partial_progress:
        assert "1 of 2 file groups" in outcome.reason
        assert "files_rewritten 6" in outcome.reason
        assert [one["lakewarden.part"] for one in trips.signed_by(run)] == ["more"]
    else:
        assert trips.signed_by(run) == []
        assert trips.files_on_disk() == before
    assert trips.found() == trips.expected
