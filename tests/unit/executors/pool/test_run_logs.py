"""The logs of runs on a disk."""

from __future__ import annotations

import os
import resource
import shutil
import tempfile
import threading
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from lakewarden.executors.contract import PoolEvent
from lakewarden.executors.pool.listening import LogLine, RunLogs
from lakewarden.executors.pool.session_pool import WorkerPool
from lakewarden.executors.profile import SparkProfile
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.model.instant import RunId
from lakewarden.service.ownership.data_folder import DataFolder

RUN = RunId("0193-run")
KIB = 1024


def _logs(folder: Path, *, each: int = 16 * KIB, total: int = 1024 * KIB) -> RunLogs:
    return RunLogs(folder / "run-logs", each=each, total=total)


def _line(message: str) -> LogLine:
    return LogLine(at="2026-01-01T00:00:00Z", source="jvm", level="warn", message=message, fields={"table": "trips"})


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def test_lines_come_back_in_their_order_by_page(tmp_path: Path) -> None:
    """Each with its number. A reader goes on after the last one that it knows."""
    logs = _logs(tmp_path)
    assert logs.lines(RUN, limit=10) is None
    logs.add(RUN, [_line("one"), _line("two")])
    logs.add(RunId("another"), [_line("elsewhere")])
    logs.add(RUN, [_line("three")])
    found = logs.lines(RUN, limit=2)
    assert found is not None
    assert [(one.number, one.message, one.source, one.fields) for one in found] == [
        (1, "one", "jvm", {"table": "trips"}),
        (2, "two", "jvm", {"table": "trips"}),
    ]
    assert [one.message for one in logs.lines(RUN, after=2, limit=2) or ()] == ["three"]
    assert logs.lines(RUN, after=3, limit=2) == []


def test_a_long_log_keeps_its_beginning_and_its_end(tmp_path: Path) -> None:
    """The last lines say why a run failed, and the first ones what it was asked for."""
    logs = _logs(tmp_path)
    for number in range(5000):
        logs.add(RUN, [_line(f"line {number}")])
    numbers = [one.number for one in logs.lines(RUN, limit=10_000) or ()]
    assert numbers[0] == 1
    assert numbers[-1] == 5000
    assert numbers != list(range(1, 5001))
    assert numbers == sorted(set(numbers))
    assert _size(tmp_path) <= 17 * KIB


@given(batches=st.lists(st.lists(st.integers(0, 3000), max_size=8), max_size=20))
def test_no_log_is_larger_than_its_bound_and_one_line(tmp_path_factory: object, batches: list[list[int]]) -> None:
    """However long the lines are. The last line is always there."""
    folder = tmp_path_factory.mktemp("logs")  # type: ignore[attr-defined]
    logs = _logs(folder)
    for batch in batches:
        logs.add(RUN, [_line("x" * length) for length in batch])
    written = sum(map(len, batches))
    found = logs.lines(RUN, limit=10_000) or ()
    assert [one.number for one in found][-1:] == ([written] if written else [])
    assert _size(folder) <= 16 * KIB + 3 * 4 * KIB


def test_another_daemon_on_the_same_disk_goes_on_with_the_numbers(tmp_path: Path) -> None:
    """After a crash the last lines are readable. A line that was half written is left out."""
    _logs(tmp_path).add(RUN, [_line("one"), _line("two")])
    [file] = [one for one in tmp_path.rglob("*") if one.is_file()]
    with file.open("ab") as torn:
        torn.write(b'{"number":3,"mess\n')
    again = _logs(tmp_path)
    assert [one.message for one in again.lines(RUN, limit=10) or ()] == ["one", "two"]
    again.add(RUN, [_line("after")])
    assert [(one.number, one.message) for one in again.lines(RUN, limit=10) or ()][-1] == (3, "after")


def test_old_logs_and_too_many_bytes_are_deleted_from_the_oldest(tmp_path: Path) -> None:
    """All logs together stay within their bound."""
    logs = _logs(tmp_path)
    now = datetime.now(UTC)
    for days in range(8):
        run = RunId(f"run-{days}")
        logs.add(run, [_line("x" * 7000)])
        for file in (one for one in tmp_path.rglob(f"{run}.*")):
            moment = (now - timedelta(days=days)).timestamp()
            os.utime(file, (moment, moment))
    logs = _logs(tmp_path, total=40 * KIB)
    assert logs.prune(now - timedelta(days=6, hours=1)) == 3
    left = [days for days in range(8) if logs.lines(RunId(f"run-{days}"), limit=1) is not None]
    assert left == [0, 1, 2, 3, 4]
    assert logs.prune() == 0


def test_no_name_of_a_run_leads_out_of_the_folder(tmp_path: Path) -> None:
    """Names of runs come from requests."""
    logs = _logs(tmp_path)
    (tmp_path / "secret.head").write_text('{"number":1,"message":"secret"}\n')
    for name in ("../secret", "..", ".", "", "a/b", "x" * 300, "a\0b", "/etc/passwd"):
        logs.add(RunId(name), [_line("x")])
        assert logs.lines(RunId(name), limit=1) is None
    assert [file.name for file in tmp_path.rglob("*")] == ["secret.head"]


def test_a_disk_that_refuses_costs_lines_and_nothing_else(tmp_path: Path) -> None:
    """A run goes on without its log."""
    (tmp_path / "run-logs").write_text("no folder")
    logs = _logs(tmp_path)
    logs.add(RUN, [_line("x")])
    assert logs.lines(RUN, limit=1) is None
    assert logs.prune() == 0


def test_folders_may_vanish_while_old_logs_are_deleted(tmp_path: Path) -> None:
    """A daemon that ends removes them. The thread that looks for old logs does not fail."""
    logs = _logs(tmp_path)
    over = threading.Event()

    def come_and_go() -> None:
        while not over.is_set():
            for number in range(200):
                (tmp_path / "run-logs" / f"{number:03d}").mkdir(parents=True, exist_ok=True)
            shutil.rmtree(tmp_path / "run-logs")

    thread = threading.Thread(target=come_and_go)
    thread.start()
    try:
        assert {logs.prune() for _ in range(300)} == {0}
    finally:
        over.set()
        thread.join()


@given(st.lists(st.integers(0, 40 * KIB), max_size=40), st.integers(1, 30))
def test_the_last_lines_are_those_of_the_whole_log(sizes: list[int], limit: int) -> None:
    """However long lines are, none is left out between two that are shown, and the last one is always there."""
    with tempfile.TemporaryDirectory() as folder:
        logs = _logs(Path(folder), each=256 * KIB)
        for size in sizes:
            logs.add(RUN, [_line("x" * min(size, 15_000))] * (1 + size % 3))
        every, last = logs.lines(RUN, limit=10_000), logs.last(RUN, limit=limit)
        if every is None:
            assert last is None
        else:
            assert last
            assert len(last) <= limit
            assert list(last) == list(every)[-len(last) :]


@pytest.mark.long
def test_the_end_of_a_long_log_costs_no_more_than_that_of_a_short_one(tmp_path: Path) -> None:
    """A page asks for it again and again while a run goes on, and the whole log may have megabytes."""
    logs = _logs(tmp_path, each=64 * 1024 * KIB, total=512 * 1024 * KIB)
    logs.add(RUN, [_line("x" * 10_000)] * 3000)
    tracemalloc.start()
    try:
        last = logs.last(RUN, limit=200)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert last is not None
    assert last[-1].number == 3000
    assert most < 1024 * KIB


# A disk is full or cannot be written. The error names the disk, and no table is blamed.


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
