"""A daemon that runs as root beside writers of other users, and writers that stop while a run looks."""

from __future__ import annotations

import os
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lakewarden.executors.programs.directory.compaction import Compaction
from lakewarden.executors.programs.directory.orphans import Orphans
from lakewarden.executors.programs.directory.partition_commit import PartitionCommit
from lakewarden.planners.model.clock import ManualClock
from lakewarden.planners.model.instant import Service
from lakewarden.planners.storage import LocalStorage
from tests.support.directory.directories import age, put
from tests.support.directory.directory_runs import DirectoryRun, figures
from tests.support.directory.mere_user import mere_user

NOW = datetime(2026, 3, 10, 12, tzinfo=UTC)
OLD = NOW - timedelta(days=3)
_USER, _GROUP = (1234, 1235) if os.geteuid() == 0 else (os.geteuid(), os.getegid())
"""Only root can make files of another user."""


def _given(folder: Path) -> None:
    for path in (folder, *folder.rglob("*")):
        os.chown(path, _USER, _GROUP)


def _owner(file: Path) -> tuple[int, int]:
    return file.stat().st_uid, file.stat().st_gid


def _run(service: Service, program: Any, folder: Path, **options: Any) -> dict[str, Any]:
    one = DirectoryRun(service=service, location=folder, table={"restore_horizon": "1d"}, options=options)
    return figures(one.carried_out(program(clock=ManualClock(NOW)), LocalStorage()))


def test_a_marker_belongs_to_the_writer_and_not_to_root(tmp_path: Path) -> None:
    """Otherwise the writer fails when it writes its own marker: first the one that a commit writes, then the one that a
    compaction renews.
    """
    home = tmp_path / "clicks" / "dt=2026-03-01"
    for number in range(6):
        put(home / f"part-{number}", OLD, f"{number}\n".encode())
    _given(tmp_path / "clicks")
    _run(Service.PARTITION_COMMIT, PartitionCommit, tmp_path / "clicks")
    assert _owner(home / "_SUCCESS") == (_USER, _GROUP)
    age(home / "_SUCCESS", OLD + timedelta(minutes=1))
    age(home, OLD + timedelta(minutes=1))
    _run(Service.COMPACTION, Compaction, tmp_path / "clicks", files="csv")
    assert len(list(home.iterdir())) == 2
    assert {_owner(file) for file in home.iterdir()} == {(_USER, _GROUP)}


def _orphan(home: Path) -> Path:
    part = home / "_temporary" / "0" / "part-1"
    put(part, OLD)
    for folder in (home / "_temporary", home):
        age(folder, OLD)
    return part


def test_a_folder_of_parts_that_is_not_shown_to_us_stops_no_other(tmp_path: Path) -> None:
    """A killed job of another user has left it with a umask of 077."""
    table = tmp_path / "clicks"
    closed, open_ = _orphan(table / "dt=2026-03-01"), _orphan(table / "dt=2026-03-02")
    for home in (closed, open_):
        put(home.parents[2] / "part-0", OLD)
    closed.parents[1].chmod(0)
    try:
        with mere_user():
            assert _run(Service.ORPHANS, Orphans, table)["files_deleted"] == 1
    finally:
        closed.parents[1].chmod(0o755)
    assert closed.exists()
    assert not open_.exists()


def test_a_job_that_ends_while_its_parts_are_looked_at_stops_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It removes its folder of parts between the listing of the partition and the look into it."""
    table = tmp_path / "clicks"
    gone, left = _orphan(table / "dt=2026-03-01"), _orphan(table / "dt=2026-03-02")
    for home in (gone, left):
        put(home.parents[2] / "part-0", OLD)
    walk = os.walk

    def ended(place: str, **options: Any) -> Any:
        if place.endswith("dt=2026-03-01/_temporary"):
            shutil.rmtree(place, ignore_errors=True)
        return walk(place, **options)

    monkeypatch.setattr(os, "walk", ended)
    assert _run(Service.ORPHANS, Orphans, table)["files_deleted"] == 1
    assert not left.exists()
