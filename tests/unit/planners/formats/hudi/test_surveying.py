"""The survey of a Hudi table counts file slices as Hudi does."""

from __future__ import annotations

import os
from datetime import UTC, timedelta
from pathlib import Path

import pytest

from lakewarden.planners.formats.hudi.surveying import SURVEYOR
from lakewarden.planners.model.clock import ManualClock
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Table, TableId
from lakewarden.planners.storage import LocalStorage
from lakewarden.planners.surveying.contents import Contents
from tests.support.hudi.hudi_table import HudiTable, base_file, commit_content, log_file

VERSIONS = pytest.mark.parametrize("version", [6, 8, 9])


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def made(folder: Path, clock: ManualClock, version: int, kind: str = "MERGE_ON_READ") -> HudiTable:
    (folder / "p").mkdir(parents=True)
    return HudiTable(folder, version=version, clock=clock, zone=UTC, kind=kind)


def put(table: HudiTable, name: str, size: int) -> None:
    """Write a data file as old as the clock."""
    file = table.folder / "p" / name
    file.write_bytes(b"x" * size)
    now = table.clock.now().timestamp()
    os.utime(file, (now, now))


def base(table: HudiTable, group: str, *, size: int = 1000) -> str:
    """Commit a base file of a file group."""
    time = table.begin_write("commit")
    table.commit_write(time, "commit", commit_content({"p": [base_file(group, time, size=size)]}))
    put(table, f"{group}_0-1-2_{time}.parquet", size)
    return time


def log(table: HudiTable, group: str, slice_: str, *, size: int = 100) -> str:
    """Commit a log file of a file group."""
    time = table.begin_write()
    named = slice_ if table.version < 8 else time
    table.commit_write(time, content=commit_content({"p": [log_file(group, named, size=size)]}))
    put(table, f".{group}_{named}.log.1_0-1-2{time[-6:]}", size)
    return time


def contents_of(table: HudiTable) -> Contents:
    registered = Table(id=TableId("t"), format="hudi", location=str(table.folder), policies=SURVEYOR.policies)
    return SURVEYOR.survey(registered, LocalStorage(), now=table.clock.now()).contents


@VERSIONS
def test_the_newest_slice_is_live_and_the_others_are_old(tmp_path: Path, clock: ManualClock, version: int) -> None:
    """Log files belong to the newest base file, or to an older one, by the rule of the table's layout."""
    table = made(tmp_path / "t", clock, version)
    first = base(table, "a")
    log(table, "a", first)
    second = base(table, "a", size=2000)
    log(table, "a", second, size=300)
    log(table, "a", second, size=400)
    base(table, "b", size=50)
    found = contents_of(table)
    assert found.live == (2, 2050)
    assert found.deltas == (2, 700)
    assert found.old == (2, 1100)
    assert found.unknown == (0, 0)
    assert found.versions == 6
    assert found.rewrites[Service.COMPACTION] == (3, 2700, 1)


@VERSIONS
def test_a_copy_on_write_table_has_no_compaction(tmp_path: Path, clock: ManualClock, version: int) -> None:
    """Its small files are for clustering: those of one partition become one."""
    table = made(tmp_path / "t", clock, version, kind="COPY_ON_WRITE")
    for group in "abc":
        base(table, group, size=10)
    found = contents_of(table)
    assert Service.COMPACTION not in found.rewrites
    assert found.small == (3, 30)
    assert found.rewrites[Service.CLUSTERING] == (3, 30, 1)


@VERSIONS
def test_a_clean_is_said_to_delete_what_its_retention_lets_go(tmp_path: Path, clock: ManualClock, version: int) -> None:
    """Ten commits stay readable. A version goes if the next one is older than the first of them."""
    table = made(tmp_path / "t", clock, version, kind="COPY_ON_WRITE")
    for _ in range(14):
        base(table, "a", size=7)
    found = contents_of(table)
    assert found.old == (13, 13 * 7)
    assert found.deletes[Service.CLEAN] == (3, 3 * 7)


@VERSIONS
def test_files_of_a_write_that_failed_are_orphans_when_they_are_old(
    tmp_path: Path, clock: ManualClock, version: int
) -> None:
    """A file may be of a write in flight that the listing of the timeline did not show yet. So it counts after a
    day. A file of a pending write never counts.
    """
    table = made(tmp_path / "t", clock, version, kind="COPY_ON_WRITE")
    base(table, "a")
    lost = table.next_time()
    put(table, f"b_0-1-2_{lost}.parquet", 11)
    pending = table.begin_write("commit")
    put(table, f"c_0-1-2_{pending}.parquet", 13)
    assert contents_of(table).unknown == (0, 0)
    clock.advance(timedelta(days=2))
    found = contents_of(table)
    assert found.unknown == (1, 11)
    assert found.live == (1, 1000)


@VERSIONS
def test_a_replaced_file_group_is_old(tmp_path: Path, clock: ManualClock, version: int) -> None:
    """A clustering or an overwrite takes it out of the table. Its files stay until a clean."""
    table = made(tmp_path / "t", clock, version, kind="COPY_ON_WRITE")
    base(table, "a", size=5)
    time = table.begin_write("replacecommit")
    content = commit_content({"p": [base_file("b", time, size=6)]}, replaced={"p": ["a"]})
    table.commit_write(time, "replacecommit", content)
    put(table, f"b_0-1-2_{time}.parquet", 6)
    found = contents_of(table)
    assert (found.live, found.old) == ((1, 6), (1, 5))


@VERSIONS
def test_a_savepoint_is_told(tmp_path: Path, clock: ManualClock, version: int) -> None:
    """A clean keeps its files, and the figure does not know which."""
    table = made(tmp_path / "t", clock, version)
    table.savepoint(base(table, "a"))
    assert any("savepoints" in note for note in contents_of(table).notes)


def test_a_table_without_its_files_says_so(tmp_path: Path, clock: ManualClock) -> None:
    """A copy of the metadata alone looks empty, and is not reported as an empty table."""
    table = made(tmp_path / "t", clock, 9)
    time = table.begin_write()
    table.commit_write(time, content=commit_content({"p": [base_file("a", time)]}))
    assert contents_of(table).notes == ("it has commits, and no data file is in its folder",)
