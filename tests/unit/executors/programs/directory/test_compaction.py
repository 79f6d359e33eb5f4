"""Compaction rewrites the small files of what is inactive beyond the horizon, and nothing else. Text needs no Spark."""

from __future__ import annotations

import os
import shutil
import struct
import threading
import zlib
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pytest

from lakewarden.executors.contract import (
    GOES_ON,
    Failed,
    NothingToDo,
    Outcome,
    Yielded,
)
from lakewarden.executors.programs.directory.compaction import Compaction, opened
from lakewarden.executors.programs.directory.exchanging.record import TIMEOUT, held
from lakewarden.planners.formats.directory.format import DirectoryFormat
from lakewarden.planners.formats.directory.options import CompactionOptions
from lakewarden.planners.model.clock import ManualClock
from lakewarden.planners.model.instant import Service, Step
from lakewarden.planners.model.table import Table
from lakewarden.planners.ports import Storage
from lakewarden.planners.storage import LocalStorage
from tests.support.directory.directories import age, directory_table, put
from tests.support.directory.directory_runs import DirectoryRun, figures, table_with

NOW = datetime.now(UTC)
OLD = NOW - timedelta(days=8)
HOUR = "dt=2026-03-01/hr=07"


def run(
    location: Path,
    *,
    storage: Storage | None = None,
    before: Callable[[Step], None] = lambda _: None,
    refuse: Step | None = None,
    table: dict[str, Any] | None = None,
    now: datetime = NOW,
    timeout: timedelta = TIMEOUT,
    **service: Any,
) -> Outcome:
    """Carry out one run, with what happens before each step."""
    one = DirectoryRun(
        service=Service.COMPACTION,
        location=location,
        table={"restore_horizon": "7d", **(table or {})},
        options={"files": "csv", **service},
        before=before,
        refuse=refuse,
    )
    return one.carried_out(Compaction(opened=partial(opened, timeout=timeout), clock=ManualClock(now)), storage)


def made(folder: Path, partition: str = HOUR, *, files: int = 6, at: datetime = OLD) -> Path:
    for number in range(files):
        put(folder / partition / f"part-0-{number}", at, f"{number},click\n".encode())
    return folder / partition


def values(folder: Path) -> list[tuple[Any, ...]]:
    """Return what an independent reader finds."""
    query = f"select a, b from read_csv('{folder}/**/part-*', header=false, columns={{'a': 'int', 'b': 'varchar'}})"
    return duckdb.connect().execute(f"{query} order by a").fetchall()


def names(folder: Path) -> set[str]:
    return {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()}


def stays(folder: Path, why: str, **options: Any) -> None:
    """Assert that a run leaves everything as it is, and says why."""
    before = names(folder)
    outcome = run(folder, **options)
    assert isinstance(outcome, NothingToDo)
    assert why in outcome.reason
    assert names(folder) == before


def test_small_files_become_one_with_the_same_lines(tmp_path: Path) -> None:
    """The files have no extension, and neither has the new one. Nothing is left beside."""
    place = made(tmp_path)
    before = values(tmp_path)
    told = figures(run(tmp_path))
    expected = {"partitions_compacted": 1, "files_rewritten": 6, "files_added": 1, "bytes_rewritten": 48}
    assert told.items() >= expected.items()
    assert values(tmp_path) == before
    [one] = place.iterdir()
    assert one.name.startswith("part-lakewarden-")
    assert one.suffix == ""
    assert not (tmp_path / "_lakewarden").exists()
    assert isinstance(run(tmp_path), NothingToDo)


def test_files_that_a_sync_job_has_brought_back_are_not_compacted_a_second_time(tmp_path: Path) -> None:
    """A job that compares names, sizes and times copies them anew, with the times that they had. A file whose rows are
    new is told from them by a touch, as the reason says.
    """
    place, later = tmp_path / HOUR, NOW + timedelta(days=8)

    def synchronise() -> None:
        for number in range(6):
            put(place / f"part-0-{number}", OLD, f'{{"a": {number}}}\n'.encode())

    synchronise()
    figures(run(tmp_path, files="json"))
    synchronise()
    before = names(tmp_path)
    assert isinstance(run(tmp_path, files="json", now=later), NothingToDo)
    assert names(tmp_path) == before
    table = table_with(tmp_path, Service.COMPACTION, CompactionOptions(), restore_horizon="7d")
    [note] = DirectoryFormat().observe(table, LocalStorage(), None, now=later).view.notes[Service.COMPACTION]
    assert note.startswith(f"{HOUR} is not compacted: part-0-0 is older than the file of a compaction beside it")

    for file in place.glob("part-0-*"):
        file.touch()
    assert figures(run(tmp_path, files="json", now=later + timedelta(days=1)))["files_rewritten"] == 7


@pytest.mark.parametrize(
    ("marked", "state"),
    [(OLD + timedelta(minutes=1), "(1 committed)"), (OLD - timedelta(hours=1), "(1 to be committed)")],
)
def test_a_partition_is_as_committed_as_before(tmp_path: Path, marked: datetime, state: str) -> None:
    """A marker that is newer than the data is newer than the new files. One of before late data vouches for nothing."""
    place = made(tmp_path)
    put(place / "_SUCCESS", marked, b"")
    age(place, max(OLD, marked))
    figures(run(tmp_path))
    soon = NOW + timedelta(minutes=9)
    view = DirectoryFormat().observe(directory_table(tmp_path), LocalStorage(), None, now=soon).view
    assert state in view.notes[Service.PARTITION_COMMIT][0]
    newest = max(file.stat().st_mtime_ns for file in place.glob("part-*"))
    assert ((place / "_SUCCESS").stat().st_mtime_ns > newest) == (marked > OLD)


@pytest.mark.parametrize(
    ("name", "at"),
    [
        (".part-9.inprogress.77", OLD),
        ("_unknown", OLD),
        ("part-0-9", NOW - timedelta(days=6)),
        ("_metadata", OLD),
    ],
)
def test_a_partition_that_may_be_needed_as_it_is_stays_as_it_is(tmp_path: Path, name: str, at: datetime) -> None:
    """A part in progress, a hidden name, a file within the horizon, a list of files."""
    place = made(tmp_path)
    put(place / name, at)
    age(place, OLD)
    stays(tmp_path, "no partition")


@pytest.mark.parametrize("step", [Step.EXECUTE, Step.COMMIT])
def test_what_changes_after_the_plan_makes_the_run_yield(tmp_path: Path, step: Step) -> None:
    place = made(tmp_path)

    def late(at: Step) -> None:
        if at is step:
            put(place / "part-0-late", OLD, b"99,late\n")

    outcome = run(tmp_path, before=late)
    if step is Step.COMMIT:
        assert isinstance(outcome, NothingToDo)
        assert outcome.again is not None
        assert names(place) == {*(f"part-0-{number}" for number in range(6)), "part-0-late"}
    assert values(tmp_path)[-1] == (99, "late")
    assert not (tmp_path / "_lakewarden").exists()


def test_a_refused_permit_leaves_everything_as_it_is(tmp_path: Path) -> None:
    made(tmp_path)
    before = names(tmp_path)
    assert isinstance(run(tmp_path, refuse=Step.COMMIT), Yielded)
    assert names(tmp_path) == before


def test_large_files_stay_the_files_that_they_are(tmp_path: Path) -> None:
    place = made(tmp_path)
    put(place / "part-large", OLD, b"7,large\n" * 100)
    number = (place / "part-large").stat().st_ino
    assert figures(run(tmp_path, small_file_limit="100B"))["files_rewritten"] == 6
    assert (place / "part-large").stat().st_ino == number
    assert len(values(tmp_path)) == 106


def test_a_line_without_an_end_is_a_line_of_its_own(tmp_path: Path) -> None:
    """The last line of a file and the first of the next stay two."""
    place = made(tmp_path)
    put(place / "part-0-3", OLD, b"3,open")
    figures(run(tmp_path))
    assert (3, "open") in values(tmp_path)
    assert len(values(tmp_path)) == 6


@pytest.mark.parametrize(
    ("content", "kind", "why"),
    [
        (b"a,b\n1,2\n", "csv", "header"),
        (b"\x1f\x8b\x08", "csv", "gzip"),
        (b"Obj\x01", "csv", "options.files says csv"),
        (b'[{"a": 1}]\n', "json", "not a JSON object"),
        (b"a,b\n", "auto", "options.files"),
        (b"PAR1 and no end", "auto", "has no end"),
        (b"\xef\xbb\xbf1\n", "json", "encoding"),
        (b'{"a": 1}\r{"a": 2}\r', "json", "carriage return"),
        (zlib.compress(b"1,a\n" * 9), "csv", "zlib"),
    ],
)
def test_files_that_may_be_something_else_are_refused_by_name(
    tmp_path: Path, content: bytes, kind: str, why: str
) -> None:
    """The reason is in the outcome, and nothing has changed."""
    place = made(tmp_path)
    for number in range(6):
        put(place / f"part-0-{number}", OLD, content)
    stays(tmp_path, why, files=kind)


@pytest.mark.parametrize("extension", [".deflate", ".br", ".gz", ".Z"])
def test_text_that_readers_take_for_compressed_is_refused(tmp_path: Path, extension: str) -> None:
    place = made(tmp_path)
    for file in list(place.iterdir()):
        file.rename(f"{file}.csv{extension}")
    age(place, OLD)
    stays(tmp_path, "extension of a compressed file")


def test_lines_that_end_with_a_carriage_return_keep_it(tmp_path: Path) -> None:
    """The last line of a file gets one, too. Lines that end in two ways stay in their files."""
    place = made(tmp_path)
    for number in range(6):
        put(place / f"part-0-{number}", OLD, f"{number},click\r\n{number},open".encode())
    before = values(tmp_path)
    figures(run(tmp_path))
    [one] = place.iterdir()
    assert one.read_bytes().count(b"\r\n") == one.read_bytes().count(b"\n") == 12
    assert values(tmp_path) == before

    other = made(tmp_path, "dt=2026-03-02/hr=07")
    put(other / "part-0-3", OLD, b"3,click\r\n")
    stays(tmp_path, "end in two ways")


@pytest.mark.parametrize("above", [".", "dt=2026-03-01"])
def test_files_in_a_list_above_the_partition_stay(tmp_path: Path, above: str) -> None:
    """As Dask and fastparquet write it: readers would look for the old files."""
    made(tmp_path)
    put(tmp_path / above / "_metadata", OLD)
    stays(tmp_path, "_metadata")


@pytest.mark.parametrize("others", [b"", b"id,v,w\n", b'"ID","V"\n'])
def test_headers_that_are_alike_are_headers(tmp_path: Path, others: bytes) -> None:
    """Two files have the same one, and the others have another one, or none."""
    place = made(tmp_path)
    for number in range(6):
        put(place / f"part-0-{number}", OLD, (b"id,v\n" if number < 2 else others) + f"{number},click\n".encode())
    stays(tmp_path, "looks like a header")


@pytest.mark.parametrize("log", ["_spark_metadata", f"{HOUR}/_spark_metadata", "dt=2026-03-01/_spark_metadata"])
def test_files_in_the_list_of_a_streaming_sink_stay(tmp_path: Path, log: str) -> None:
    made(tmp_path)
    put(tmp_path / log / "0", OLD)
    assert isinstance(run(tmp_path), NothingToDo)
    view = DirectoryFormat().observe(compacted_table(tmp_path), LocalStorage(), None, now=NOW).view
    assert "the _spark_metadata in it, or above it, lists its files by name" in view.at_rest[Service.COMPACTION].reason


def test_files_of_a_bucketed_table_stay(tmp_path: Path) -> None:
    """A join of Spark knows each bucket by the name of its file."""
    place = made(tmp_path)
    put(place / "part-00000-6b0c1ba9-0b1f-4b5f-8f3a-1c2d3e4f5a6b_00003.c000", OLD, b"9,click\n")
    stays(tmp_path, "bucketed table of Spark")


def test_the_files_of_a_table_below_stay(tmp_path: Path) -> None:
    """Its readers look for them by name."""
    put(made(tmp_path).parent / "metadata/00000-a.metadata.json", OLD)
    made(tmp_path, "dt=2026-03-02/hr=01")
    assert figures(run(tmp_path))["partitions_compacted"] == 1
    assert len(names(tmp_path / HOUR)) == 6


def test_a_partition_that_is_a_link_is_left_alone(tmp_path: Path) -> None:
    """It lies outside the table, or is not the folder that a rename would move."""
    outside = made(tmp_path / "elsewhere")
    table = tmp_path / "trips"
    made(table, "dt=1/hr=1", files=1)
    (table / "dt=1" / "hr=2").symlink_to(outside)
    run(table)
    assert len(list(outside.iterdir())) == 6


def test_partitions_that_are_refused_leave_the_place_of_a_run_to_others(tmp_path: Path) -> None:
    """They come first, by their number of files."""
    for hour in range(3):
        place = made(tmp_path, f"dt=1/hr={hour}", files=8)
        for number in range(8):
            put(place / f"part-{number}", OLD, b"a,b\n1,2\n")
        age(place, OLD)
    good = made(tmp_path, "dt=1/hr=9", files=6)
    made(tmp_path, "dt=1/hr=8", files=5)
    told = figures(run(tmp_path, max_partitions=1))
    assert (told["files_rewritten"], told["partitions_refused"], told[GOES_ON]) == (6, 3, 1)
    assert len(names(good)) == 1


def test_access_control_lists_and_attributes_of_the_files_stay(tmp_path: Path) -> None:
    """The kernel keeps a list as an attribute. Here one lets the user 65534 read."""
    readable = struct.pack("<I", 2) + b"".join(
        struct.pack("<HHI", tag, rights, who)
        for tag, rights, who in (
            (1, 6, 2**32 - 1),
            (2, 4, 65534),
            (4, 4, 2**32 - 1),
            (16, 4, 2**32 - 1),
            (32, 0, 2**32 - 1),
        )
    )
    place = made(tmp_path)
    for file in place.iterdir():
        os.setxattr(file, "user.owner", b"me")
        os.setxattr(file, "system.posix_acl_access", readable)
    figures(run(tmp_path))
    [one] = place.iterdir()
    assert os.getxattr(one, "user.owner") == b"me"
    assert os.getxattr(one, "system.posix_acl_access") == readable


def test_files_with_different_attributes_stay(tmp_path: Path) -> None:
    place = made(tmp_path)
    os.setxattr(next(iter(place.iterdir())), "user.owner", b"me")
    stays(tmp_path, "different access control lists")


def test_a_csv_file_with_an_open_quote_hides_no_rows_of_other_files(tmp_path: Path) -> None:
    """A reader of records over several lines goes on to the next quotation mark."""
    place = made(tmp_path)
    put(place / "part-0-open", OLD, b'9,"open\n')
    age(place, OLD)
    stays(tmp_path, "odd number of quotation marks")


def test_a_run_that_meets_a_short_one_goes_on_after_it(tmp_path: Path) -> None:
    """Orphans may run beside a compaction. If that gave up at each meeting, it would rest for longer each time."""
    made(tmp_path)
    outcomes = list[Outcome]()
    later = threading.Thread(target=lambda: outcomes.append(run(tmp_path, timeout=timedelta(minutes=5))))
    with held(str(tmp_path)):
        later.start()
        later.join(0.2)
        assert outcomes == []
        assert isinstance(run(tmp_path, timeout=timedelta()), Yielded)
    later.join()
    assert figures(outcomes[0])["partitions_compacted"] == 1


def test_a_run_that_was_killed_before_its_journal_is_tidied_by_the_next_one(tmp_path: Path) -> None:
    """The view says that there is something to do, whatever the trigger says."""
    made(tmp_path, files=2)
    left = tmp_path / "_lakewarden" / "x" / "new"
    left.mkdir(parents=True)
    (left / "part-lakewarden-x").touch()
    table = compacted_table(tmp_path)
    view = DirectoryFormat().observe(table, LocalStorage(), None, now=NOW).view
    assert "1 acts" in str(view.backlogs[Service.COMPACTION].unfinished)
    assert isinstance(run(tmp_path), NothingToDo)
    assert not (tmp_path / "_lakewarden").exists()
    assert Service.COMPACTION not in DirectoryFormat().observe(table, LocalStorage(), None, now=NOW).view.backlogs


def compacted_table(location: Path, **options: Any) -> Table:
    return table_with(location, Service.COMPACTION, CompactionOptions.model_validate(options), restore_horizon="7d")


def test_the_view_tells_how_many_partitions_wait_and_when(tmp_path: Path) -> None:
    """A partition within the horizon is due when it has passed."""
    made(tmp_path)
    made(tmp_path, "dt=2026-03-02/hr=01", at=NOW - timedelta(days=6))
    table = compacted_table(tmp_path)
    seen = DirectoryFormat().observe(table, LocalStorage(), None, now=NOW).view
    backlog = seen.backlogs[Service.COMPACTION]
    assert (backlog.commits, backlog.small_files, backlog.bytes) == (1, 6, 48)
    figures(run(tmp_path))
    rest = DirectoryFormat().observe(table, LocalStorage(), None, now=NOW).view.at_rest[Service.COMPACTION]
    assert "restore_horizon, 7d" in rest.reason
    assert rest.again_at is not None
    assert abs(rest.again_at - (NOW + timedelta(days=1))) < timedelta(seconds=1)


def test_without_a_horizon_the_configuration_is_refused(tmp_path: Path) -> None:
    missing = table_with(tmp_path, Service.COMPACTION, CompactionOptions())
    assert [found.key for found in DirectoryFormat().contradictions(missing)] == ["options.restore_horizon"]
    assert not DirectoryFormat().contradictions(compacted_table(tmp_path))


def test_a_directory_with_the_list_of_a_streaming_sink_is_blocked(tmp_path: Path) -> None:
    """Its readers look for files by their names."""
    made(tmp_path)
    folder = tmp_path / "sink/trips"
    made(folder)
    for place in (folder, folder.parent):
        put(place / "_spark_metadata/0", OLD)
        view = DirectoryFormat().observe(compacted_table(folder), LocalStorage(), None, now=NOW).view
        [blocker] = [one for one in view.blockers if one.concerns(Service.COMPACTION)]
        assert f"{place}/_spark_metadata" in blocker.reason
        shutil.rmtree(place / "_spark_metadata")


def test_files_in_the_directory_itself_are_not_exchanged(tmp_path: Path) -> None:
    """The folder of the directory cannot be moved into itself."""
    made(tmp_path, ".")
    stays(tmp_path, "no partition")


def test_an_error_of_the_disk_is_temporary(tmp_path: Path) -> None:
    """The next run finds everything as it was."""
    made(tmp_path)
    (tmp_path / "_lakewarden").touch()
    outcome = run(tmp_path)
    assert isinstance(outcome, Failed)
    assert len(list((tmp_path / HOUR).iterdir())) == 6
