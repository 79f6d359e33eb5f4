"""How long files have been unknown to a table. A file is deleted only after that time, and never after one listing
alone.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.planners.formats import first_seen as module
from lakewarden.planners.formats.first_seen import FirstSeen, Life, content_of, first_seen
from lakewarden.planners.storage import LocalStorage
from tests.support.values import NOW

DAY, HOUR = timedelta(days=1), timedelta(hours=1)
LIFE = Life(uuid="one", location="file:/lake/trips")
WRITTEN = NOW - 30 * DAY


def after(*listings: tuple[timedelta, set[str]]) -> FirstSeen:
    """Return the remembered files after listings that showed these files as unknown, so long after NOW."""
    seen = FirstSeen()
    for later, files in listings:
        seen = seen.then(dict.fromkeys(files, WRITTEN).items(), at=NOW + later)
    return seen


def ripe(seen: FirstSeen, file: str, *, later: timedelta, duration: timedelta = DAY) -> bool:
    return seen.unknown_for(file, WRITTEN, at=NOW + later) >= duration


@given(
    st.lists(
        st.tuples(st.integers(1, 40), st.sets(st.sampled_from("abcdef"))),
        max_size=8,
    ),
    st.integers(0, 100),
)
def test_a_file_is_ripe_once_each_listing_since_so_long_has_shown_it(
    listings: list[tuple[int, set[str]]], hours: int
) -> None:
    """If a listing did not show a file as unknown, because the table knew it then, its time begins again."""
    seen, at, since = FirstSeen(), 0, dict[str, int]()
    for pause, files in listings:
        at += pause
        seen = seen.then(dict.fromkeys(files, WRITTEN).items(), at=NOW + at * HOUR)
        since = {file: since.get(file, at) for file in files}
    for file in "abcdef":
        expected = at - since.get(file, at) >= hours
        assert (seen.unknown_for(file, WRITTEN, at=NOW + at * HOUR) >= hours * HOUR) == expected


def test_what_is_written_down_is_read_again(tmp_path: Path) -> None:
    """Nothing is lost on the way."""
    seen = after((timedelta(0), {"a", "b"}), (HOUR, {"b", "ü\udcff"}))
    written(tmp_path, content_of(seen, life=LIFE))
    found = read(tmp_path)
    assert found == seen
    assert ripe(found, "b", later=DAY)
    assert not ripe(found, "ü\udcff", later=DAY)
    assert ripe(found, "ü\udcff", later=DAY + HOUR)


def written(folder: Path, content: bytes) -> None:
    (folder / "orphans.seen").write_bytes(content)


def read(folder: Path) -> FirstSeen:
    return first_seen(str(folder / "orphans.seen"), LocalStorage(), life=LIFE)


@pytest.mark.parametrize(
    "damage",
    [
        lambda whole: b"",
        lambda whole: whole[: len(whole) // 2],
        lambda whole: whole[: whole.rindex(b"\n")],
        lambda whole: whole.replace(b" 1", b" x", 1),
        lambda whole: whole.replace(b"one", b"two"),
        lambda whole: whole.replace(b"trips", b"moved"),
        lambda whole: whole.replace(b'"version": 1', b'"version": 2'),
        lambda whole: whole.replace(b" 1", b" 99999999999999999999", 1),
        lambda whole: b"[" * 100_000,
        lambda whole: b"\n".join([(lines := whole.split(b"\n"))[0], lines[2], lines[1], lines[3]]),
    ],
    ids=[
        "empty",
        "half",
        "without its end",
        "no number",
        "another table",
        "moved",
        "another version",
        "huge",
        "deep",
        "out of order",
    ],
)
def test_a_list_that_is_damaged_or_of_another_life_lets_nothing_go(
    tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    """If a table was created again in the same folder, its files have other uses under the same names."""
    whole = content_of(after((timedelta(0), {"a", "b"})), life=LIFE)
    assert damage(whole) != whole
    written(tmp_path, damage(whole))
    assert len(read(tmp_path)) == 0
    (tmp_path / "orphans.seen").unlink()
    assert len(read(tmp_path)) == 0


def test_a_file_that_was_written_anew_is_another_file() -> None:
    """Flink and Hadoop catalogs reuse names."""
    seen = after((timedelta(0), {"a"}))
    assert not seen.unknown_for("a", WRITTEN + HOUR, at=NOW + 2 * DAY)


def test_a_storage_whose_clock_goes_back_makes_nothing_ripe() -> None:
    """A file that was seen in the storage's future counts as seen now."""
    seen = after((timedelta(0), {"a"}), (-10 * DAY, {"a"}))
    assert not ripe(seen, "a", later=-10 * DAY)
    assert ripe(seen, "a", later=-9 * DAY)


def test_no_more_is_remembered_than_fits_and_the_longest_unknown_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """The others wait. They are remembered once the first ones are gone."""
    monkeypatch.setattr(module, "MOST", 2)
    seen = after((timedelta(0), {"old", "older"}), (HOUR, {"old", "older", "new"}))
    assert len(seen) == 2
    assert ripe(seen, "old", later=DAY)
    assert not ripe(seen, "new", later=2 * DAY)


def test_without_a_time_to_wait_one_run_is_enough() -> None:
    """The owner has configured it so."""
    assert ripe(FirstSeen(), "a", later=DAY, duration=timedelta(0))
