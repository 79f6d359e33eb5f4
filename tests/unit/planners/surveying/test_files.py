"""The sums of a survey: joining small files, and a listing with a bound."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from lakewarden.planners.storage import LocalStorage
from lakewarden.planners.surveying.files import Joining, each_file, not_there

FILES = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 10**6)))


@given(FILES, st.integers(1, 10**6), st.integers(1, 6))
def test_joining_makes_fewer_files_and_none_too_large(files: list[tuple[str, int]], target: int, least: int) -> None:
    """A rewrite that is reported leaves fewer files than it reads. It reads no file twice, and none of them is so large
    that the new files would be larger than the target.
    """
    joining = Joining(target=target, least=least)
    for place, size in files:
        joining.add(place, size)
    rewrite = joining.rewrite()
    assert joining.all == (len(files), sum(size for _, size in files))
    assert rewrite.files <= len(files)
    assert rewrite.bytes <= sum(size for _, size in files)
    assert rewrite.after < rewrite.files or rewrite == (0, 0, 0)
    assert rewrite.bytes <= rewrite.after * target


def test_files_of_two_places_are_never_joined() -> None:
    """One small file in each of two partitions stays as it is."""
    joining = Joining(target=100)
    joining.add("a", 1)
    joining.add("b", 1)
    assert joining.rewrite() == (0, 0, 0)


def test_every_file_below_a_folder_is_given_once(tmp_path: Path) -> None:
    """Hidden folders count, and folders are no files."""
    for name in ("a", "b/c", "b/.d/e"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"12345")
    found: list[tuple[str, int]] = []
    left_out = each_file(str(tmp_path), LocalStorage(), lambda path, entry: found.append((path, entry.size)))
    assert left_out is None
    assert sorted(found) == [("a", 5), ("b/.d/e", 5), ("b/c", 5)]


def test_more_files_than_the_bound_are_said_and_not_read(tmp_path: Path) -> None:
    """The figures are too low then, and the report says it."""
    for number in range(5):
        (tmp_path / f"f{number}").touch()
    found: list[str] = []
    left_out = each_file(str(tmp_path), LocalStorage(), lambda path, _: found.append(path), most=3)
    assert left_out is not None
    assert len(found) == 3


def test_a_link_that_leads_back_ends(tmp_path: Path) -> None:
    """A folder that holds itself has a last level."""
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "f").touch()
    (tmp_path / "a" / "again").symlink_to(tmp_path)
    found: list[str] = []
    each_file(str(tmp_path), LocalStorage(), lambda path, _: found.append(path))
    assert "a/f" in found
    assert len(found) < 100


def test_a_folder_that_is_gone_has_no_files(tmp_path: Path) -> None:
    """A table may be dropped while it is read."""
    found: list[str] = []
    assert each_file(f"{tmp_path}/gone", LocalStorage(), lambda path, _: found.append(path)) is None
    assert not found


def test_data_files_outside_of_the_folder_are_said() -> None:
    """A note appears only if something is missing."""
    assert not_there(3, 3) is None
    assert "2 of its 3" in (not_there(3, 1) or "")
