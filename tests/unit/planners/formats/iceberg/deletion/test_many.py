"""Very many files are held outside of memory. None is lost, and none is taken for another."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.executors.programs.iceberg.steps.deleting import NotWholeError, files_in, lines_of
from lakewarden.planners.formats.iceberg.deletion.candidates import Digests, Spool
from lakewarden.planners.formats.iceberg.deletion.reachable import DeletableFile, FileKind
from lakewarden.planners.storage import LocalStorage
from tests.support.values import NOW

ANY_PATH = st.text(min_size=1) | st.text(alphabet="ab/\n\0\udcff", min_size=1)


@given(st.lists(st.tuples(ANY_PATH, st.integers(-(10**15), 10**15))))
def test_what_is_laid_on_disk_comes_back_in_its_order(files: list[tuple[str, int]]) -> None:
    """This holds for repeated reading and for any characters in a path. Times are kept to the microsecond."""
    spool = Spool()
    for path, microseconds in files:
        spool.add(path, NOW + timedelta(microseconds=microseconds))
    for _ in range(2):
        assert [(path, (at - NOW) // timedelta(microseconds=1)) for path, at in spool] == files
    assert len(spool) == len(files)


def test_many_files_are_read_in_pieces_and_by_several_at_once() -> None:
    """The readers have separate positions."""
    spool = Spool()
    for number in range(20_000):
        spool.add(f"data/p={number % 7}/{number:08d}.parquet", NOW)
    first = iter(spool)
    assert [next(first).path for _ in range(3)] == [path for path, _ in list(spool)[:3]]
    assert sum(1 for _ in first) == 19_997


@given(st.lists(st.tuples(st.booleans(), ANY_PATH), max_size=60))
def test_digests_are_a_set(acts: list[tuple[bool, str]]) -> None:
    """After all digests were added, they are removed and asked for in any order."""
    added = {path for is_added, path in acts if is_added}
    digests = Digests(len(added))
    for path in added:
        digests.add(path)
    for is_added, path in acts:
        if not is_added:
            assert digests.strike(path) == (path in added)
            added.discard(path)
    assert len(digests) == len(added)
    assert all((path in digests) == (path in added) for _, path in acts)


def test_more_than_was_said_is_refused() -> None:
    """The search in a full table would not end."""
    digests = Digests(2)
    for number in range(12):
        digests.add(str(number))
    with pytest.raises(ValueError, match="more paths"):
        digests.add("one more")


@given(st.lists(st.tuples(st.sampled_from(FileKind), ANY_PATH)), st.integers(0, 200))
def test_a_list_is_read_whole_or_not_at_all(
    tmp_path_factory: pytest.TempPathFactory, named: list[tuple[FileKind, str]], cut: int
) -> None:
    """A list of a killed writer may be cut off anywhere."""
    path = tmp_path_factory.mktemp("list") / "list"
    files, written = [DeletableFile(*one) for one in named], Counter[FileKind]()
    content = b"".join(lines_of(files, written))
    assert written == Counter(kind for kind, _ in named)
    path.write_bytes(content)
    assert list(files_in(str(path), LocalStorage())) == files
    path.write_bytes(content[: max(0, len(content) - 1 - cut)])
    with pytest.raises(NotWholeError):
        list(files_in(str(path), LocalStorage()))


def test_a_list_that_is_not_there_is_no_list(tmp_path: Path) -> None:
    """It was removed."""
    with pytest.raises(NotWholeError, match="not there"):
        list(files_in(str(tmp_path / "list"), LocalStorage()))
