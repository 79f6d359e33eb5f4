"""An exchange is whole at every moment for a reader, whatever act of it was the last before a kill."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from lakewarden.executors.points import Point
from lakewarden.executors.programs.directory.exchanging import record as records
from lakewarden.executors.programs.directory.exchanging.building import Exchange, build, publish
from lakewarden.executors.programs.directory.exchanging.ending import end_exchange
from lakewarden.executors.programs.directory.exchanging.record import held
from lakewarden.executors.programs.directory.exchanging.renames import entries, exchange, move
from lakewarden.planners.model.errors import PermanentError, YieldError

OLD = {"part-0": "a", "part-1": "b", "part-2": "c"}
KEPT = {"part-large": "large"}


class Killed(BaseException):
    """The process ends here."""


def partition(table: Path, *, marked: bool = False) -> Path:
    place = table / "dt=1"
    place.mkdir(parents=True)
    for name, content in (OLD | KEPT).items():
        (place / name).write_text(content)
    if marked:
        (place / "_SUCCESS").touch()
        os.utime(place / "_SUCCESS", ns=(2**62, 2**62))
    return place


def staged(table: Path, *, marker: str | None = None, sign: str = "x") -> Exchange:
    home = table / "_lakewarden" / sign
    (home / "out").mkdir(parents=True)
    made = home / "out" / f"part-lakewarden-{sign}"
    made.write_text("abc")
    one = Exchange(home=str(home), table=str(table), partition="dt=1", run="run", old=entries(str(table / "dt=1")))
    build(one, [made], replaced=OLD.keys(), marker=marker)
    return one


def rows(place: Path) -> list[str]:
    """Return what a reader finds: the letters of all files that it sees."""
    return sorted("".join(file.read_text() for file in place.iterdir() if not file.name.startswith(("_", "."))))


ROWS = sorted("abclarge")


def test_the_new_files_take_the_place_of_the_old_ones_and_nothing_else_moves(tmp_path: Path) -> None:
    """A file that is not rewritten is the same file, and the marker is newer than all."""
    place = partition(tmp_path, marked=True)
    place.chmod(0o2775)
    kept, mode = (place / "part-large").stat().st_ino, place.stat().st_mode
    assert publish(staged(tmp_path, marker="_SUCCESS"), lambda _: None)
    assert {file.name for file in place.iterdir()} == {"part-lakewarden-x", "part-large", "_SUCCESS"}
    assert (place / "part-large").stat().st_ino == kept
    assert place.stat().st_mode == mode
    assert rows(place) == ROWS
    assert (place / "_SUCCESS").stat().st_mtime_ns > max(
        file.stat().st_mtime_ns for file in place.iterdir() if file.name != "_SUCCESS"
    )
    assert list((tmp_path / "_lakewarden").iterdir()) == []


def calls_of_the_system(after: int) -> Callable[[FrameType, str, Any], Any]:
    """Return a profiler that ends the process before the call of the system with this number."""
    names = {"unlink", "rmdir", "link", "mkdir", "replace", "rename", "fsync", "exchange", "move", "write", "chmod"}
    seen = 0

    def tell(frame: FrameType, event: str, what: Any) -> None:
        nonlocal seen
        if event == "c_call" and what.__name__ in names | {"renameat2"}:
            seen += 1
            if seen == after:
                sys.setprofile(None)
                raise Killed

    return tell


def killed_before(number: int, act: Callable[[], object]) -> bool:
    """Do an act up to a call of the system. Return whether it was ended there."""
    sys.setprofile(calls_of_the_system(number))
    try:
        act()
    except Killed:
        return True
    finally:
        sys.setprofile(None)
    return False


def test_a_kill_before_any_call_of_the_system_leaves_all_rows_and_the_next_run_ends_it(tmp_path: Path) -> None:
    """Each number of calls is tried, and in each state a reader sees each row once. A second kill changes nothing."""
    for number in range(1, 200):
        table = tmp_path / str(number)
        place = partition(table)
        one = staged(table)
        ended = killed_before(number, lambda one=one: publish(one, lambda _: None))  # type: ignore[misc]
        assert rows(place) == ROWS
        home = table / "_lakewarden" / "x"
        for again in range(1, 100):
            if not home.exists() or not killed_before(again, lambda: end_exchange(str(table), str(home))):  # noqa: B023
                break
            assert rows(place) == ROWS
        assert not home.exists()
        assert rows(place) == ROWS
        names = {file.name for file in place.iterdir()}
        assert names in ({"part-lakewarden-x", "part-large"}, {*OLD, *KEPT})
        if not ended:
            assert "part-lakewarden-x" in names
            assert number > 15
            return
    pytest.fail("the act has no end")


@pytest.mark.parametrize("point", [Point.PROPOSED, Point.EXCHANGED, Point.PUBLISHED, Point.DELETING])
def test_what_a_writer_adds_at_any_moment_of_an_exchange_is_in_the_partition_afterwards(
    tmp_path: Path, point: Point
) -> None:
    """Into the folder that it has open, or by the path."""
    place = partition(tmp_path)
    folder = os.open(place, os.O_RDONLY | os.O_DIRECTORY)

    def write(at: Point) -> None:
        if at is point and not (place / "part-late").exists():
            os.close(os.open("part-open", os.O_CREAT | os.O_WRONLY, dir_fd=folder))
            (place / "part-late").write_text("z")

    assert publish(staged(tmp_path), write)
    os.close(folder)
    assert rows(place) == sorted([*ROWS, "z"])
    assert {"part-open", "part-late", "part-lakewarden-x"} <= {file.name for file in place.iterdir()}


@pytest.mark.parametrize("act", ["removes", "changes", "overwrites"])
def test_an_old_file_that_is_touched_in_the_last_moment_takes_the_exchange_back(tmp_path: Path, act: str) -> None:
    """The writer has the last word, although its folder had already been exchanged."""
    place = partition(tmp_path)

    def touch(at: Point) -> None:
        if at is Point.PROPOSED:
            match act:
                case "removes":
                    (place / "part-0").unlink()
                case "changes":
                    with (place / "part-0").open("a") as file:
                        file.write("y")
                case _:
                    for name in OLD:
                        (place / name).unlink()
                    (place / "part-new").write_text("n")

    expected = {"removes": "bclarge", "changes": "aybclarge", "overwrites": "nlarge"}[act]
    assert not publish(staged(tmp_path), touch)
    assert rows(place) == sorted(expected)
    assert list((tmp_path / "_lakewarden").iterdir()) == []


def test_late_data_with_a_name_that_is_taken_ends_with_a_message_and_all_files(tmp_path: Path) -> None:
    """No file replaces another one."""
    place = partition(tmp_path)
    folder = os.open(place, os.O_RDONLY | os.O_DIRECTORY)

    def write(at: Point) -> None:
        if at is Point.EXCHANGED:
            for where in ({"dir_fd": folder}, {}):
                name = "part-late" if where else str(place / "part-late")
                os.close(os.open(name, os.O_CREAT | os.O_WRONLY, **where))

    one = staged(tmp_path)
    with pytest.raises(PermanentError, match="have the same name"):
        publish(one, write)
    os.close(folder)
    assert (Path(one.staged) / "part-late").exists()
    assert (place / "part-late").exists()
    assert rows(place) == ROWS


def test_a_partition_that_is_dropped_after_the_exchange_stays_dropped(tmp_path: Path) -> None:
    """Its old files are deleted, as the drop would have done."""
    place = partition(tmp_path)

    def drop(at: Point) -> None:
        if at is Point.EXCHANGED:
            shutil.rmtree(place)

    assert publish(staged(tmp_path), drop)
    assert not place.exists()
    assert list((tmp_path / "_lakewarden").iterdir()) == []


@pytest.mark.parametrize(
    ("key", "written"),
    [
        ("partition", "../other"),
        ("partition", "dt=1/.."),
        ("partition", "/etc"),
        ("partition", ""),
        ("partition", "_lakewarden/x"),
        ("old", {"../other/part-0": ["1", 1, 1]}),
        ("new", {"..": ["1", 1, 1]}),
    ],
)
def test_a_journal_that_names_another_place_ends_nothing(tmp_path: Path, key: str, written: Any) -> None:
    """It lies in the directory, where others may write. What it names is exchanged and deleted."""
    table = tmp_path / "table"
    table.mkdir()
    other = partition(tmp_path / "other")
    place, one = partition(table), staged(table)

    def kill(at: Point) -> None:
        if at is Point.EXCHANGED:
            raise Killed

    with pytest.raises(Killed):
        publish(one, kill)
    journal = Path(one.home, records.NAME)
    said = json.loads(journal.read_text())
    entry = next(iter(said["old"].values()))
    said[key] = written if isinstance(written, str) else dict.fromkeys(written, entry)
    for content in (json.dumps(said), '{"run": "x"'):
        journal.write_text(content)
        with pytest.raises(PermanentError, match="cannot be read"):
            end_exchange(str(table), one.home)
    assert rows(place) == rows(other) == ROWS


def test_two_exchanges_of_one_directory_do_not_meet(tmp_path: Path) -> None:
    with held(str(tmp_path)), pytest.raises(YieldError), held(str(tmp_path)):
        pass
    with held(str(tmp_path)):
        pass


def test_the_renames_are_those_of_the_kernel(tmp_path: Path) -> None:
    """Nothing is replaced by a move, and both folders of an exchange stay."""
    for name in "ab":
        (tmp_path / name).mkdir()
        (tmp_path / name / name).touch()
    exchange(str(tmp_path / "a"), str(tmp_path / "b"))
    assert (tmp_path / "a" / "b").exists()
    with pytest.raises(FileNotFoundError):
        exchange(str(tmp_path / "a"), str(tmp_path / "missing"))
    (tmp_path / "one").touch()
    (tmp_path / "two").touch()
    with pytest.raises(FileExistsError):
        move(str(tmp_path / "one"), str(tmp_path / "two"))
    move(str(tmp_path / "one"), str(tmp_path / "three"))
    assert not (tmp_path / "one").exists()


@pytest.fixture(autouse=True)
def no_profiler() -> Iterator[None]:
    """Leave no profiler behind."""
    yield
    sys.setprofile(None)
