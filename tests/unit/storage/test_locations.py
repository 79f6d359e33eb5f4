"""A table has one address, however its name is spelled by those who call."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.storage import canonical_location, hadoop_location
from lakewarden.planners.storage.inside import Home, NoPlaceError, place_of
from lakewarden.planners.storage.locations import is_local, spelled_location

PARTS = st.lists(st.from_regex(r"\A[a-z0-9_=-]{1,8}\Z"), min_size=1, max_size=4)
SLASHES = st.sampled_from(["/", "//", "///"])


@given(parts=PARTS, slash=SLASHES, end=st.sampled_from(["", "/", "//"]))
def test_a_local_path_is_known_under_its_uri_too(parts: list[str], slash: str, end: str) -> None:
    """Hooks send `file:///x`, people write `/x/`: it is one table."""
    path = "/no-such-root/" + "/".join(parts)
    spelled = "/no-such-root/" + slash.join(parts) + end
    for start in ("", "file:", "file://", "file://localhost", "FILE:"):
        assert canonical_location(start + spelled) == path


@given(parts=PARTS, slash=SLASHES, scheme=st.sampled_from(["s3", "s3a", "s3n", "S3A"]))
def test_the_schemes_of_one_store_are_one(parts: list[str], slash: str, scheme: str) -> None:
    """Hadoop says s3a where others say s3."""
    assert canonical_location(f"{scheme}://bucket/{slash.join(parts)}/") == "s3://bucket/" + "/".join(parts)


@given(parts=PARTS, scheme=st.sampled_from(["s3", "gs", "hdfs", "memory"]))
def test_a_canonical_location_stays_as_it_is(parts: list[str], scheme: str) -> None:
    """To canonicalise twice changes nothing."""
    once = canonical_location(f"{scheme}://host/" + "//".join(parts))
    assert canonical_location(once) == once


def test_a_name_in_a_catalog_stays_exactly_as_it_is_spelled() -> None:
    """It is no path: a catalog tells `Orders` from `orders`, and Hadoop never sees it."""
    for name in ("catalog://lake/sales.Orders", "CATALOG://lake/sales.Orders"):
        assert canonical_location(name) == "catalog://lake/sales.Orders"
    assert canonical_location("catalog://Lake/sales.eu.orders") == "catalog://Lake/sales.eu.orders"
    assert hadoop_location("catalog://lake/sales.orders") == "catalog://lake/sales.orders"


def test_symbolic_links_lead_to_the_table_they_mean(tmp_path: Path) -> None:
    """Two names of one folder must not become two tables with two leases."""
    (tmp_path / "table").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "table")
    assert canonical_location(f"{tmp_path}/link") == canonical_location(f"file://{tmp_path}/x/../table")


def test_escapes_are_letters_as_hadoop_reads_them() -> None:
    """`new Path("file:///x%20y")` makes and reads a folder of that very name (run): `%20` is no space to a writer."""
    for spelled in ("file:///no-such-root/a%20b", "file:/no-such-root/a%20b", "/no-such-root/a%20b"):
        assert canonical_location(spelled) == "/no-such-root/a%20b"


def core_site(folder: Path, default: str) -> None:
    folder.mkdir()
    name = "<name> fs.defaultFS </name>"
    (folder / "core-site.xml").write_text(
        f"<?xml version='1.0'?><configuration><property>{name}<value>{default}</value></property></configuration>"
    )


@pytest.mark.parametrize("spelled", ["hdfs:///data/orders", "hdfs:/data/orders/", "HDFS:///data//orders"])
def test_an_address_without_a_host_is_on_the_machines_default_one(
    spelled: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer that says hdfs:///x and a person who says hdfs://nn:8020/x mean one table, and one lease."""
    core_site(tmp_path / "conf", "hdfs://nn.example:8020")
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path / "conf"))
    assert canonical_location(spelled) == canonical_location("hdfs://nn.example:8020/data/orders")
    home = Home("hdfs://nn.example/data/orders")
    assert home.why_outside("hdfs:/data/orders/a.parquet") is None
    assert home.why_outside("hdfs:///data/other/a.parquet") is not None


@pytest.mark.parametrize("default", ["file:///", "s3a://bucket", "viewfs://cluster", "${host}", ""])
def test_an_address_without_a_host_is_refused_where_hadoop_refuses_it(
    default: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody guesses a name node: the message says where it would stand."""
    monkeypatch.delenv("YARN_CONF_DIR", raising=False)
    core_site(tmp_path / "conf", default)
    for folder in (tmp_path / "conf", tmp_path / "nowhere"):
        monkeypatch.setenv("HADOOP_CONF_DIR", str(folder))
        with pytest.raises(PermanentError, match=r"fs\.defaultFS"):
            canonical_location("hdfs:///x")
        with pytest.raises(NoPlaceError):
            place_of("hdfs:///x", store="hdfs://nn.example")


@pytest.mark.parametrize(
    "text",
    ["", "relative/path", "file:relative", "file://host/x", "s3://", "s3:/bucket/x", "s3://key:secret@bucket/x",
     "s3://bucket/../other", "s3://bucket/x?versionId=1", "/data/*", "/data/[ab]", "s3://b/x#y",
     "simplecache::s3://b/x", "/data/\0x", "catalog://lake", "catalog://lake/orders", "catalog://lake/sales/orders",
     "catalog://lake/sales..orders", "catalog://lake/.orders", "catalog:lake/sales.orders", "catalog://u:p@lake/sales.orders"],
)  # fmt: skip
def test_what_is_no_tables_address_is_refused(text: str) -> None:
    """No credentials, queries, wildcards, chains or climbing paths."""
    with pytest.raises(PermanentError):
        canonical_location(text)


def test_a_refusal_does_not_repeat_credentials() -> None:
    """The message goes to logs."""
    with pytest.raises(PermanentError) as refused:
        canonical_location("s3://key:secret@bucket/x")
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    "text",
    ["/a" * 4_000_000, "/" + "a" * 256, "/" + "ä" * 128, "/\ud800", "s3://b/\ud800", "s3://b/" + "a" * 5000,
     "file:" + "%2F" * 4_000_000, "/../" * 2_000_000, "x:" * 4_000_000],
)  # fmt: skip
def test_what_no_system_would_take_is_refused_at_once(text: str) -> None:
    """To resolve the links of a path of megabytes takes hours; half a character is no character."""
    begun = time.process_time()

    with pytest.raises(PermanentError) as refused:
        canonical_location(text)

    assert time.process_time() - begun < 30
    assert len(str(refused.value)) < 1000
    str(refused.value).encode()


@given(st.text(max_size=60).map(lambda text: f"/no-such-root/{text}") | st.text(max_size=60))
def test_an_address_has_a_spelling_or_none(text: str) -> None:
    """Whatever is written: it is refused, or it is the same when it is spelled again, links resolved or not."""
    try:
        spelled = spelled_location(text)
    except PermanentError:
        return
    if ":" not in spelled.partition("/")[0] and "%" not in spelled:
        assert spelled_location(spelled) == spelled
    assert canonical_location(text) == (os.path.realpath(spelled) if is_local(spelled) else spelled)


def test_the_longest_path_is_resolved_in_a_moment() -> None:
    """Each of its two thousand names is looked up once."""
    begun = time.process_time()
    canonical_location("/a" * 2048)
    assert time.process_time() - begun < 30
