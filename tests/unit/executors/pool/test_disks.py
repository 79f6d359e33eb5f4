"""A disk is full or cannot be written. The error names the disk, and no table is blamed."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from lakewarden.executors.contract import PoolEvent
from lakewarden.executors.pool.session_pool import WorkerPool
from lakewarden.executors.profile import SparkProfile
from lakewarden.executors.programs.hudi.client.errors import meaning
from lakewarden.planners.model.errors import PermanentError, TemporaryError, UnknownError
from lakewarden.planners.model.instant import Step
from lakewarden.service.ownership.data_folder import DataFolder

NO_SPACE = [
    "org.apache.spark.SparkException: Job aborted due to stage failure",
    "java.io.FileNotFoundException: /scratch/blockmgr/0a/part.parquet (No space left on device)",
]


@contextmanager
def nothing_can_be_written() -> Iterator[None]:
    """Let no file grow, as on a full disk."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
    try:
        with capture_logs():
            yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@pytest.mark.parametrize("step", [Step.PLAN, Step.EXECUTE])
def test_a_worker_without_space_is_temporary_trouble_that_says_so(step: Step) -> None:
    """It is not taken for a missing data file, for which an operator would have to examine the table. Five minutes
    later it is tried again.
    """
    found = meaning(NO_SPACE, step)
    assert isinstance(found, TemporaryError)
    assert "free some space" in str(found)


def test_a_commit_without_space_may_have_happened() -> None:
    """Only the timeline shows it."""
    assert isinstance(meaning(NO_SPACE, Step.COMMIT), UnknownError)


def test_a_data_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    """The error says why, and the daemon does not start."""
    (tmp_path / "file").touch()
    with pytest.raises(PermanentError, match=r"data_dir .*/file/data cannot be used: Not a directory"):
        DataFolder(tmp_path / "file" / "data")


def test_a_full_disk_under_the_data_folder_still_lets_one_daemon_have_it(tmp_path: Path) -> None:
    """The lock needs no space. Only the name of its holder does."""
    with nothing_can_be_written():
        held = DataFolder(tmp_path)
    with pytest.raises(PermanentError, match="belongs to a running daemon"):
        DataFolder(tmp_path)
    held.release()


def test_a_worker_whose_log_cannot_be_opened_is_tried_again_and_no_run_is_blamed(tmp_path: Path) -> None:
    """The pool has no room meanwhile, so no run is claimed. Closing the pool does not hang."""
    (tmp_path / "worker-1.log").mkdir()
    told: list[PoolEvent] = []
    pool = WorkerPool(SparkProfile(), directory=tmp_path)
    with capture_logs() as lines:
        pool.start(told.append)
        deadline = time.monotonic() + 20
        while not lines and time.monotonic() < deadline:
            time.sleep(0.01)
        capacity = pool.capacity()
        pool.close()
    assert (capacity.slots, capacity.free) == (0, 0)
    assert "session_worker_not_started" in [line["event"] for line in lines]
    assert told == []
