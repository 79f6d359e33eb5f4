"""What lies in a table's own folder, by names and by the disk. The spelling of a path does not count."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakewarden.planners.storage.inside import Home, NoPlaceError, place_of

NAMES = st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=8).filter(
    lambda name: name not in (".", "..")
)
SEGMENTS = st.sampled_from(["..", ".", "", "t", "t2", "p", ".hoodie", "%2e%2e", "a:b", "x y", "ü", "..%2F", "T"])
BEGINNINGS = st.sampled_from(
    ["", "/", "//", "file:", "file:/", "file://", "file:///", "file://localhost/", "file://elsewhere/", "FILE:/", "s3://b/",
     "s3a://b/", "s3a://c/", "s3:/b/", "hdfs://b/", "local:/"]
)  # fmt: skip


@pytest.mark.parametrize(
    ("location", "path"),
    [
        ("/wh/t", "/wh/t/p/f"),
        ("/wh/t", "file:/wh/t/p/f"),
        ("/wh/t", "file:///wh/t/p/f"),
        ("/wh/t", "file://localhost/wh/t/p/f"),
        ("/wh/t", "/wh//t/./p/f/"),
        ("/wh/t", "file:/wh/t/day=2026-01-01 10%3A00/größe=1/f"),
        ("/wh/t", "/wh/t/..hidden/f.."),
        ("s3://b/wh/t", "s3a://b/wh/t/p/f"),
        ("s3://b/wh/t", "s3n://b/wh//t/p/f"),
        ("s3://b/wh/t", "/wh/t/p/f"),
        ("hdfs://nn/wh/t", "hdfs://NN:8020/wh/t/p/f"),
        ("abfss://c@a.dfs.core.windows.net/t", "abfs://c@A.dfs.core.windows.net/t/f"),
        ("gs://b", "gs://b/f"),
    ],
)
def test_a_tables_own_file_is_its_own_however_it_is_spelled(location: str, path: str) -> None:
    """If it were refused, the table would get no services, and the backlog would grow."""
    assert Home(location, private=[".hoodie"]).why_outside(path) is None


@pytest.mark.parametrize(
    ("location", "path", "why"),
    [
        ("/wh/t", "/wh/t2/p/f", "outside"),
        ("/wh/t", "/wh/f", "outside"),
        ("/wh/t", "/WH/T/p/f", "outside"),
        ("/wh/t", "file:/wh/t", "itself"),
        ("/wh/t", "/wh/t/", "itself"),
        ("/wh/t", "/wh/t/.", "itself"),
        ("/wh/t", "/wh/t/../t2/p", "climbs"),
        ("/wh/t", "/wh/t/p/../f", "climbs"),
        ("/wh/t", "p/f", "not absolute"),
        ("/wh/t", "file:p/f", "not absolute"),
        ("/wh/t", "//wh/t/p/f", "host"),
        ("/wh/t", "file://wh/t/p/f", "another host"),
        ("/wh/t", "s3a://b/wh/t/p/f", "another store"),
        ("/wh/t", "/wh/t/.hoodie/hoodie.properties", "no data"),
        ("/wh/t", "/wh/t/.HOODIE/x", "no data"),
        ("/wh/t", "/wh/t/.hoodie", "no data"),
        ("/wh/t", "", "not a path"),
        ("/wh/t", "/wh/t/\0", "not a path"),
        ("/wh/t", "/wh/t/" + "p/" * 5000, "not a path"),
        ("s3://b/wh/t", "s3a://c/wh/t/p/f", "another store"),
        ("s3://b/wh/t", "s3a://b/wh/t%2Fp/f", "outside"),
        ("s3://b/wh/t", "s3a://b/wh/T/f", "outside"),
        ("s3://b/wh/t", "file:/wh/t/p/f", "another store"),
        ("s3://b/wh/t", "s3a:/wh/t/p/f", "no bucket"),
        ("s3://b/wh/t", "s3a://key:secret@b/wh/t/p/f", "another store"),
        ("hdfs://nn/wh/t", "hdfs://nn:9000/wh/t/p/f", "another store"),
    ],
)
def test_what_is_not_the_tables_is_told_from_it_with_the_reason(location: str, path: str, why: str) -> None:
    """The folder itself may not be deleted either, like everything beside it."""
    assert why in str(Home(location, private=[".hoodie"]).why_outside(path))


def test_an_empty_name_is_a_name_where_keys_are_taken_as_they_are() -> None:
    """Hadoop's clients drop it, those of object stores do not: there it is another key."""
    home = Home("s3://b//wh/t/", by_key=True)
    assert home.why_outside("s3a://b//wh/t/p/f") is None
    assert home.why_outside("s3a://b/wh/t/p/f") == "lies outside the table"
    assert home.why_outside("s3a://b//wh//t/p/f") == "lies outside the table"
    assert home.why_outside("s3a://b//wh/t/../u/f") == "climbs with '..'"
    assert home.why_outside("s3a://b//wh/t/") == "is the table's folder itself"


@pytest.mark.long
@settings(max_examples=2000)
@given(beginning=BEGINNINGS, names=st.lists(SEGMENTS, max_size=7))
def test_nothing_that_the_disk_would_find_outside_ever_passes(
    tmp_path_factory: pytest.TempPathFactory, beginning: str, names: list[str]
) -> None:
    """For any spelling, a path that passes is below the table's folder by the operating system's own resolution. It
    also is by Hadoop's, which removes `..` before it reads the disk.
    """
    home = "/t" if beginning.startswith(("s3", "hdfs")) else str(tmp_path_factory.getbasetemp() / "t")
    location = f"s3://b{home}" if beginning.startswith("s3") else home
    path = f"{beginning}{home.strip('/')}/{'/'.join(names)}"
    if Home(location, private=[".hoodie"]).why_outside(path) is not None:
        return
    _, _, rest = path.rpartition("://") if "://" in path and "file" not in path.lower() else ("", "", path)
    plain = rest.partition("/")[2] if rest is not path else path.lower().partition("file:")[2] or path
    plain = plain.removeprefix("local:").replace("//localhost", "")
    by_the_disk = os.path.realpath("/" + plain.lstrip("/"))
    by_hadoop = os.path.normpath("/" + plain.lstrip("/"))
    inside = os.path.realpath(home).casefold() + "/"
    assert by_the_disk.casefold().startswith(inside)
    assert by_hadoop.casefold().startswith(inside)
    assert not by_the_disk.casefold().startswith(f"{inside}.hoodie/")


@given(names=st.lists(NAMES, min_size=1, max_size=4), other=NAMES)
def test_names_are_taken_letter_by_letter(names: list[str], other: str) -> None:
    """A path below the folder may have any name that a writer makes from a value. It does not match another name."""
    path = "s3a://b/wh/t/" + "/".join(names)
    assert Home("s3://b/wh/t").why_outside(path) is None
    if other != "t":
        assert Home(f"s3://b/wh/{other}").why_outside(path) is not None


@given(st.text(max_size=60))
def test_any_text_is_judged_without_an_error(text: str) -> None:
    """Plans are untrusted input."""
    Home("/wh/t").why_outside(text)
    Home("/wh/t").why_outside(text, whole_folder=True)
    Home("s3://b/wh/t").why_outside(text)


def test_a_table_that_is_reached_through_a_link_is_one_table(tmp_path: Path) -> None:
    """It is registered under the link's target, and its writers' plans name the link."""
    (tmp_path / "disk" / "t" / "p").mkdir(parents=True)
    (tmp_path / "wh").symlink_to(tmp_path / "disk")
    for location in (tmp_path / "disk" / "t", tmp_path / "wh" / "t"):
        for path in (tmp_path / "disk" / "t", tmp_path / "wh" / "t"):
            home = Home(str(location), private=[".hoodie"])
            assert home.why_outside(f"file:{path}/p/f") is None
            assert home.why_outside(f"file://{path}/gone/by/now/f") is None
            assert home.why_outside(str(path)) == "is the table's folder itself"
            assert "no data" in str(home.why_outside(f"{path}/.hoodie/x"))


def test_a_link_does_not_lead_out_of_the_table(tmp_path: Path) -> None:
    """Neither a partition nor a folder on the way may be a link. If a file is a link, the link is deleted, not its
    target.
    """
    table, other = tmp_path / "t", tmp_path / "other"
    (table / "p").mkdir(parents=True)
    (other / "q").mkdir(parents=True)
    (table / "out").symlink_to(other)
    (table / "p" / "f").symlink_to(other / "q")
    (table / "meta").symlink_to(table / ".hoodie")
    home = Home(str(table), private=[".hoodie"])
    assert home.why_outside(f"{table}/out/q/f") == "lies outside the table"
    assert home.why_outside(f"{table}/out", whole_folder=True) == "lies outside the table"
    assert home.why_outside(f"{table}/p/f") is None
    assert home.why_outside(f"{table}/p/f", whole_folder=True) == "lies outside the table"
    assert "no data" in str(home.why_outside(f"{table}/meta/x"))
    (table / "loop").symlink_to(table / "loop")
    assert home.why_outside(f"{table}/loop/x") is None  # its target does not exist


@pytest.mark.parametrize("path", ["x", "s3:/b", "s3://", "..", "/a/.."])
def test_a_path_that_leads_nowhere_for_certain_is_no_place(path: str) -> None:
    """The target is not guessed."""
    with pytest.raises(NoPlaceError):
        place_of(path, store="")
