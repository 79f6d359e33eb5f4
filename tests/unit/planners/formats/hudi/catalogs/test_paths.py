"""Hudi tables are found by the pattern of their paths, within bounds, and never within one another."""

from __future__ import annotations

import glob
import os
import string
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from lakewarden.planners.formats.hudi import HUDI
from lakewarden.planners.formats.hudi.catalogs import PathsCatalog
from lakewarden.planners.model.errors import PermanentError, TemporaryError
from lakewarden.planners.ports import MOST_ENTRIES, FileEntry, Listing
from lakewarden.planners.storage import LocalStorage
from tests.unit.planners.formats.hudi.test_fixtures import NAMES, unpacked

VISIBLE = ["hudi_top", "sales.eu.hudi_returns", "sales.hudi_orders", "web.hudi_clicks"]
"""The tables of the lake with names that say so, outside of hidden folders and partitions."""


class Counted(LocalStorage):
    """A local disk that records its requests, and has a folder that may fail."""

    def __init__(self, *, broken: str = "", error: type[Exception] = TemporaryError) -> None:
        self.asked: list[str] = []
        self.broken = broken
        self.error = error

    def listing(self, location: str, *, most: int = MOST_ENTRIES) -> Sequence[FileEntry]:
        self.asked.append(location)
        if self.broken and location.endswith(self.broken):
            raise self.error(f"{location} cannot be read")
        return super().listing(location, most=most)

    def version(self, location: str) -> str:
        self.asked.append(location)
        return super().version(location)


def table(folder: Path) -> Path:
    """Make what looks like a Hudi table from outside, with a partition and a table's folder within."""
    (folder / ".hoodie").mkdir(parents=True)
    (folder / ".hoodie" / "hoodie.properties").write_text("hoodie.table.name=t\n")
    (folder / "day=1").mkdir()
    return folder


def found(pattern: Path | str, storage: LocalStorage | None = None, **more: object) -> Listing:
    catalog = PathsCatalog.model_validate({"type": "paths", "path": str(pattern), **more})
    return HUDI.tables_in("lake", catalog, storage or LocalStorage())


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """Return a folder with tables of three teams, and other content."""
    lake = tmp_path / "lake"
    for name in ("sales/hudi_orders", "sales/eu/hudi_returns", "web/hudi_clicks", "web/parts", "hudi_top"):
        table(lake / name)
    (lake / "web" / "readme.txt").write_text("hello")
    table(lake / "_trash" / "hudi_old")
    table(lake / ".staging" / "hudi_next")
    table(lake / "raw" / "day=7" / "hudi_odd")
    return lake


def test_tables_of_every_version_are_found_and_named_by_their_path(tmp_path: Path) -> None:
    """Real tables of Hudi 0.15, 1.0 and 1.1 fit the wildcards of the pattern."""
    for name in NAMES:
        unpacked(name, tmp_path / "lake" / "trips" / name)

    listing = found(tmp_path / "lake" / "*" / "*_v?")

    assert sorted(listing.tables) == [f"trips.{name}" for name in NAMES]
    assert listing.locations == {f"trips.{name}": str(tmp_path / "lake" / "trips" / name) for name in NAMES}
    assert not listing.unlisted
    assert not listing.refused


@pytest.mark.parametrize(
    ("pattern", "tables"),
    [
        ("*/hudi_*", ["sales.hudi_orders", "web.hudi_clicks"]),
        ("**/hudi_*", VISIBLE),
        ("**/", [*VISIBLE, "web.parts"]),
        ("sales/**/hudi_*", ["eu.hudi_returns", "hudi_orders"]),
        ("web/hudi_clicks", ["hudi_clicks"]),
        ("_*/*", ["_trash.hudi_old"]),
        (".staging/*", ["hudi_next"]),
        ("raw/*/*", ["day=7.hudi_odd"]),
        ("*/nothing_*", []),
    ],
)
def test_a_pattern_says_which_folders_may_be_tables(lake: Path, pattern: str, tables: list[str]) -> None:
    """`**` stands for any number of folders, but neither for hidden ones nor for partitions."""
    assert sorted(found(f"{lake}/{pattern}").tables) == tables


def test_nothing_below_a_table_is_looked_at(lake: Path) -> None:
    """A table may have a hundred thousand partitions. Its metadata table is no table of its own."""
    table(lake / "web" / "hudi_clicks" / "inner")
    table(lake / "web" / "hudi_clicks" / ".hoodie" / "metadata")
    storage = Counted()

    assert sorted(found(f"{lake}/**", storage).tables) == sorted(found(f"{lake}/**/*").tables)

    inside = [place for place in storage.asked if f"{lake}/web/hudi_clicks/" in place]
    assert inside == [f"{lake}/web/hudi_clicks/.hoodie/hoodie.properties"]


def test_a_table_that_does_not_fit_is_not_gone_into_either(lake: Path) -> None:
    """The content of its folder is its own, whatever the pattern says."""
    table(lake / "web" / "parts" / "hudi_inner")

    assert sorted(found(f"{lake}/**/hudi_*").tables) == VISIBLE


def test_excluded_folders_are_not_looked_into(lake: Path) -> None:
    """A lake has folders of millions of files that are no tables."""
    storage = Counted()

    assert sorted(found(f"{lake}/**", storage, exclude=[f"{lake}/sales", f"{lake}/*/parts"]).tables) == [
        "hudi_top",
        "web.hudi_clicks",
    ]
    assert not [place for place in storage.asked if f"{lake}/sales" in place]


@pytest.mark.parametrize("error", [TemporaryError, PermanentError])
def test_a_folder_that_cannot_be_listed_hides_no_other(lake: Path, error: type[Exception]) -> None:
    """It is named, so that its known tables stay. All other tables are reported."""
    listing = found(f"{lake}/**", Counted(broken="/sales", error=error))

    assert sorted(listing.tables) == ["hudi_top", "web.hudi_clicks", "web.parts"]
    assert listing.unlisted == {"sales": f"{lake}/sales cannot be read"}


def test_a_place_that_is_not_there_or_empty_tells_nothing(tmp_path: Path) -> None:
    """A disk that is not mounted looks like this. No table was dropped."""
    with pytest.raises(PermanentError, match="there is no folder"):
        found(tmp_path / "lake" / "*")
    (tmp_path / "lake").mkdir()
    with pytest.raises(TemporaryError, match="holds nothing: is it mounted"):
        found(tmp_path / "lake" / "*")
    with pytest.raises(TemporaryError, match="cannot be read"):
        found(tmp_path / "lake" / "*", Counted(broken="/lake"))


def test_a_look_ends_with_its_last_request_and_then_forgets_nothing(lake: Path) -> None:
    """The rest is unknown, so the whole catalog is."""
    storage = Counted()
    listing = found(f"{lake}/**", storage, max_requests=6)

    assert len(storage.asked) <= 6
    assert list(listing.unlisted) == [""]
    assert "than 6 requests show" in listing.unlisted[""]


def test_a_look_goes_no_deeper_than_it_may(lake: Path) -> None:
    """The limit bounds `**`."""
    assert {*VISIBLE, "web.parts"} - {*found(f"{lake}/**", max_depth=2).tables} == {"sales.eu.hudi_returns"}


def test_links_are_not_followed_below_the_root(lake: Path) -> None:
    """They lead in circles and out of the lake. A table has one name, and is known by its location, so that hooks and
    lists mean the same ones.
    """
    (lake / "web" / "again").symlink_to(lake)
    (lake / "web" / "hudi_link").symlink_to(lake / "sales" / "hudi_orders")

    assert found(f"{lake}/**/hudi_*").locations.keys() == {*VISIBLE}

    (lake.parent / "link").symlink_to(lake)
    assert found(f"{lake.parent}/link/web/*").locations["hudi_clicks"] == f"{lake}/web/hudi_clicks"


def test_two_places_of_one_name_are_one_table_and_a_refusal(lake: Path) -> None:
    """Names are paths with dots, and a folder's name may contain a dot."""
    table(lake / "web.hudi_clicks")
    listing = found(f"{lake}/**")

    assert listing.locations["web.hudi_clicks"] == f"{lake}/web.hudi_clicks"
    assert listing.refused == {
        f"{lake}/web/hudi_clicks": f"the table at {lake}/web.hudi_clicks has the same name, web.hudi_clicks"
    }


def test_a_name_that_can_be_no_table_is_told_and_hides_no_other(lake: Path) -> None:
    """Hadoop reads addresses with wildcards and the like as something else."""
    table(lake / "web" / "hudi_[1]")
    listing = found(f"{lake}/web/hudi_*")

    assert listing.tables == ("hudi_clicks",)
    assert [why.partition(" holds ")[2] for why in listing.refused.values()] == [
        "a wildcard, which is not a table's address"
    ]


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("lake/*", "must begin with a place"),
        ("*/lake", "must begin with a place"),
        ("/*", "means the whole file system"),
        ("/**", "means the whole file system"),
        ("s3://*/lake", "must begin with a place"),
        ("s3://a:b@bucket/*", "holds credentials"),
        ("/lake/a**", r"has \*\* within a name"),
        ("/lake/*/../x", "climbs with '..'"),
        ("/lake/x[ab]", r"the wildcards are \*"),
        ("catalog://lake/a.b", "is a name in a catalog"),
    ],
)
def test_a_pattern_that_means_nothing_or_everything_is_refused(pattern: str, said: str) -> None:
    """It is refused when the configuration is read, before any storage is asked."""
    with pytest.raises(ValidationError, match=said):
        PathsCatalog.model_validate({"type": "paths", "path": pattern})


_NAMES = st.text(alphabet="ab.", min_size=1, max_size=2).filter(lambda name: name not in (".", ".."))
_PARTS = st.one_of(st.just("**"), st.text(alphabet="ab*?.", min_size=1, max_size=3).filter(lambda p: "**" not in p))


@settings(max_examples=60, deadline=None)
@given(
    folders=st.lists(st.lists(_NAMES, min_size=1, max_size=3), max_size=6),
    parts=st.lists(_PARTS.filter(lambda part: part not in (".", "..")), min_size=1, max_size=3),
)
def test_patterns_mean_what_pythons_own_mean(folders: list[list[str]], parts: list[str]) -> None:
    """Compared with `glob`: of folders with no table within another, exactly those that fit are found."""
    with tempfile.TemporaryDirectory() as place:
        root = Path(place).resolve()
        for names in folders:
            path = root.joinpath("r", *names)
            if not any((above / ".hoodie").exists() for above in (path, *path.parents)) and not path.exists():
                table(path)
        (root / "r").mkdir(exist_ok=True)
        (root / "r" / "z").mkdir()
        pattern = f"{root}/r/*/{'/'.join(parts)}"
        expected = {
            os.path.normpath(path)
            for path in glob.glob(pattern, recursive=True)  # noqa: PTH207 - Path's own ** means less
            if (Path(path) / ".hoodie" / "hoodie.properties").exists()
        }

        listing = found(pattern)

        assert {*listing.locations.values(), *listing.refused} == expected


@given(st.text(alphabet=string.printable, max_size=30))
def test_any_text_is_a_pattern_or_refused(text: str) -> None:
    """No text that an operator writes there makes the check of a configuration fail."""
    try:
        PathsCatalog.model_validate({"type": "paths", "path": text})
    except ValidationError:
        return
