"""Tables are found below a path by the folders that their formats leave."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakewarden.planners.finding_tables import Found, signs, tables_below
from lakewarden.planners.model.errors import PermanentError, TemporaryError
from lakewarden.planners.ports import MOST_ENTRIES, FileEntry
from lakewarden.planners.storage import LocalStorage

MADE = {
    "hudi": ".hoodie/hoodie.properties",
    "iceberg": "metadata/v3.metadata.json",
    "paimon": "schema/schema-0",
}


def make(folder: Path, format_name: str) -> None:
    file = folder / MADE[format_name]
    file.parent.mkdir(parents=True)
    file.touch()


def below(text: str, *, exclude: tuple[str, ...] = (), most: int = 1000, storage: LocalStorage | None = None) -> Found:
    return tables_below(text, storage or LocalStorage(), signs(), exclude=exclude, most=most)


def names(found: Found, root: Path) -> dict[str, str]:
    return {location.removeprefix(f"{root}/"): format_name for location, format_name in found.tables.items()}


def test_each_format_is_recognised_at_any_depth(tmp_path: Path) -> None:
    """The folders between are searched, and those of a table are not. So a table inside of a table is not found."""
    make(tmp_path / "h", "hudi")
    make(tmp_path / "sales.db" / "i", "iceberg")
    make(tmp_path / "a" / "b" / "c" / "p", "paimon")
    make(tmp_path / "h" / "inner", "iceberg")
    (tmp_path / "plain" / "metadata").mkdir(parents=True)
    found = below(str(tmp_path))
    assert names(found, tmp_path) == {"h": "hudi", "sales.db/i": "iceberg", "a/b/c/p": "paimon"}
    assert not found.unlisted


def test_a_path_that_is_a_table_is_that_table(tmp_path: Path) -> None:
    """No wildcard is needed for one table."""
    make(tmp_path / "t", "paimon")
    assert names(below(str(tmp_path / "t")), tmp_path) == {"t": "paimon"}


def test_an_iceberg_table_of_a_catalog_is_recognised_too(tmp_path: Path) -> None:
    """Its metadata files have other names."""
    folder = tmp_path / "t" / "metadata"
    folder.mkdir(parents=True)
    (folder / "00002-0e059d4b-e5e8-41af-a763-76cbf3a3d0bc.metadata.json").touch()
    assert names(below(str(tmp_path)), tmp_path) == {"t": "iceberg"}


def test_a_pattern_and_its_exceptions_choose(tmp_path: Path) -> None:
    """A table that does not fit the pattern is not found, although its folder is looked at."""
    for name in ("sales/a", "sales/tmp_b", "hr/c"):
        make(tmp_path / name, "hudi")
    assert names(below(f"{tmp_path}/sales/*"), tmp_path).keys() == {"sales/a", "sales/tmp_b"}
    assert names(below(f"{tmp_path}/sales/*", exclude=(f"{tmp_path}/sales/tmp_*",)), tmp_path).keys() == {"sales/a"}
    assert names(below(f"{tmp_path}/*/c"), tmp_path).keys() == {"hr/c"}


def test_partitions_are_not_searched(tmp_path: Path) -> None:
    """A folder `day=1` holds data, not tables."""
    make(tmp_path / "plain" / "day=1" / "t", "hudi")
    assert not below(str(tmp_path)).tables


def test_a_folder_that_cannot_be_listed_stops_nothing(tmp_path: Path) -> None:
    """The other folders are searched, and the reason is told."""

    class Refuses(LocalStorage):
        def listing(self, location: str, *, most: int = MOST_ENTRIES) -> list[FileEntry]:
            if location.endswith("/closed"):
                raise TemporaryError("the store refuses it")
            return list(super().listing(location, most=most))

    make(tmp_path / "t", "hudi")
    (tmp_path / "closed").mkdir()
    found = below(str(tmp_path), storage=Refuses())
    assert names(found, tmp_path) == {"t": "hudi"}
    assert found.unlisted == {f"{tmp_path}/closed": "the store refuses it"}


def test_a_search_ends_at_its_bound_and_says_so(tmp_path: Path) -> None:
    """A lake of a million folders costs so many requests and no more."""
    for number in range(20):
        (tmp_path / f"d{number}").mkdir()
    found = below(str(tmp_path), most=5)
    assert "5 requests" in found.unlisted[str(tmp_path)]


@pytest.mark.parametrize("text", ["/nowhere/at/all", "/*", "/lake/[ab]"])
def test_a_path_that_means_nothing_is_refused(text: str) -> None:
    """The message says why, and there is no empty report."""
    with pytest.raises(PermanentError):
        below(text)


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    """It may lead in a circle, and its target has an address of its own."""
    make(tmp_path / "lake" / "t", "hudi")
    (tmp_path / "lake" / "again").symlink_to(tmp_path / "lake")
    assert names(below(str(tmp_path / "lake")), tmp_path) == {"lake/t": "hudi"}
