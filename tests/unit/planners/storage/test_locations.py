"""A table has one address, for every spelling of its location."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from fsspec.implementations.memory import MemoryFileSystem
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.planners.formats.iceberg.metadata.parsing import Spelling, address_of
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.storage import Storages, canonical_location, hadoop_location
from lakewarden.planners.storage.inside import Home, NoPlaceError, place_of
from lakewarden.planners.storage.locations import (
    as_hadoop_reads,
    by_key,
    by_place,
    is_below,
    is_local,
    outside,
    spelled_location,
)
from lakewarden.planners.storage.remote import FsspecStorage

PARTS = st.lists(st.from_regex(r"\A[a-z0-9_=-]{1,8}\Z"), min_size=1, max_size=4)
SLASHES = st.sampled_from(["/", "//", "///"])


@given(parts=PARTS, slash=SLASHES, end=st.sampled_from(["", "/", "//"]))
def test_a_local_path_is_known_under_its_uri_too(parts: list[str], slash: str, end: str) -> None:
    """Hooks send `file:///x`, operators write `/x/`: it is one table."""
    path = "/no-such-root/" + "/".join(parts)
    spelled = "/no-such-root/" + slash.join(parts) + end
    for start in ("", "file:", "file://", "file://localhost", "FILE:"):
        assert canonical_location(start + spelled) == path


@given(parts=PARTS, slash=SLASHES, scheme=st.sampled_from(["s3", "s3a", "s3n", "S3A"]))
def test_the_schemes_of_one_store_are_one(parts: list[str], slash: str, scheme: str) -> None:
    """Hadoop writes s3a, others write s3."""
    assert canonical_location(f"{scheme}://bucket/{slash.join(parts)}/") == "s3://bucket/" + "/".join(parts)


@given(parts=PARTS, scheme=st.sampled_from(["s3", "gs", "hdfs", "memory"]))
def test_a_canonical_location_stays_as_it_is(parts: list[str], scheme: str) -> None:
    """Canonicalising twice changes nothing."""
    once = canonical_location(f"{scheme}://host/" + "//".join(parts))
    assert canonical_location(once) == once


def test_a_name_in_a_catalog_stays_exactly_as_it_is_spelled() -> None:
    """It is no path: a catalog distinguishes `Orders` from `orders`, and Hadoop never reads it."""
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
    """A writer's hdfs:///x and an operator's hdfs://nn:8020/x are one table, with one lease."""
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
    """The name node is not guessed. The error says where to configure it."""
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
     "s3://../bucket/x", "s3://./x", "s3://..", "s3://b%2fother/x", "s3://b\\..\\other/x", "s3://b\n/x", "hdfs://nn:/x",
     "hdfs://nn:x/y", "s3://b/\udc80", "abfss://c:secret@account/x", "abfss://a@b@c/x",
     "catalog://lake/sales..orders", "catalog://lake/.orders", "catalog:lake/sales.orders", "catalog://u:p@lake/sales.orders"],
)  # fmt: skip
def test_what_is_no_tables_address_is_refused(text: str) -> None:
    """Credentials, queries, wildcards, chains and climbing paths are refused."""
    with pytest.raises(PermanentError):
        canonical_location(text)


@given(
    start=st.sampled_from(["s3://", "S3A://", "s3:", "file://", "hdfs://", "catalog://", "abfss://c:", "https://"]),
    user=st.from_regex(r"\A[A-Z0-9@]{0,8}:?\Z"),
    secret=st.from_regex(r"\A[a-z0-9+/@]{0,3}hunter2[a-z0-9+/]{0,3}\Z"),
    end=st.sampled_from(
        ["/x", "/../x", "/*", "/x?y", "/x#y", "::/x", "/\0", "/\udc80", "/sales/orders", "", "/" + "x" * 5000]
    ),
)
def test_a_refusal_does_not_repeat_credentials(start: str, user: str, secret: str, end: str) -> None:
    """The message goes to logs. A secret may hold slashes and signs, and anything else may be wrong beside it.

    An `@` behind a slash may belong to a key: `s3://hunter2/@bucket/x` is an address without credentials.
    """
    said = None
    try:
        canonical_location(f"{start}{user}{secret}@bucket{end}")
    except PermanentError as refusal:
        said = str(refusal)
    assert "/" in secret if said is None else "hunter2" not in said


@pytest.mark.parametrize(
    "text",
    ["/a" * 4_000_000, "/" + "a" * 256, "/" + "ä" * 128, "/\ud800", "s3://b/\ud800", "s3://b/" + "a" * 5000,
     "file:" + "%2F" * 4_000_000, "/../" * 2_000_000, "x:" * 4_000_000],
)  # fmt: skip
def test_what_no_system_would_take_is_refused_at_once(text: str) -> None:
    """Resolving the links of a path of megabytes takes hours. Half a character is no character."""
    begun = time.process_time()

    with pytest.raises(PermanentError) as refused:
        canonical_location(text)

    assert time.process_time() - begun < 30
    assert len(str(refused.value)) < 1000
    str(refused.value).encode()


@given(st.text(max_size=60).map(lambda text: f"/no-such-root/{text}") | st.text(max_size=60))
def test_an_address_has_a_spelling_or_none(text: str) -> None:
    """Any text is refused, or stays the same when it is spelled again, with links resolved or not."""
    try:
        spelled = spelled_location(text)
    except PermanentError:
        return
    if ":" not in spelled.partition("/")[0] and "%" not in spelled:
        assert spelled_location(spelled) == spelled
    assert canonical_location(text) == (os.path.realpath(spelled) if is_local(spelled) else spelled)


def test_the_longest_path_is_resolved_in_a_moment() -> None:
    """Each of its two thousand names is read once."""
    begun = time.process_time()
    canonical_location("/a" * 2048)
    assert time.process_time() - begun < 30


def test_dots_that_lead_out_of_a_link_are_refused(tmp_path: Path) -> None:
    """Hadoop's `Path` takes the name before `..` away: a writer would be at `lake/table`, and the disk elsewhere."""
    for folder in ("lake/table", "elsewhere/table", "elsewhere/inner"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "lake" / "link").symlink_to(tmp_path / "elsewhere" / "inner")

    with pytest.raises(PermanentError, match="out of a link"):
        canonical_location(f"{tmp_path}/lake/link/../table")

    assert canonical_location(f"{tmp_path}/lake/x/../table") == f"{tmp_path}/lake/table"


_NAMES = st.sampled_from(
    ["lake", "lake2", "Lake", "lak", "e", "..", "%2e%2e", "l\u0430ke", "\uff0e\uff0e", "lake.", " ", "table"]
)
_PLACES = st.builds(
    lambda start, slash, names: start + slash.join(names),
    st.sampled_from(["/", "file:///", "FILE:/", "s3://b/", "s3a://b/", "s3://B/", "hdfs://nn/", "hdfs://NN:8020/"]),
    st.sampled_from(["/", "//", "/./"]),
    st.lists(_NAMES, max_size=4),
)


def _parts(location: str) -> tuple[str, ...]:
    place = place_of(location, store="")
    return (place.store, *place.names)


@given(text=_PLACES, folder=_PLACES)
def test_below_a_folder_is_what_begins_with_all_of_its_names(text: str, folder: str) -> None:
    """Names are held whole, letter by letter. `by_place` tells the same places apart as the check of plans does."""
    try:
        location, above = canonical_location(text), canonical_location(folder)
    except PermanentError:
        assert ".." in text + folder
        return
    here, home = _parts(location), _parts(above)
    assert is_below(location, above) == (here[: len(home)] == home)
    assert (by_place(location) == by_place(above)) == (here == home)
    assert by_place(by_place(location)) == by_place(location)


_BESIDE = st.lists(st.sampled_from(["lake", "lake2", "sales", ".", "", "a b", "%2e%2e"]), max_size=5)
_PLACES = st.builds(
    lambda start, names: start + "/".join(names), st.sampled_from(["/", "s3://lake/", "s3a://lake2/"]), _BESIDE
)


@given(text=_PLACES, roots=st.lists(_PLACES, min_size=1, max_size=3))
def test_a_location_is_allowed_below_a_root_alone(text: str, roots: list[str]) -> None:
    """By whole names, however the two are spelled."""
    location, allowed = spelled_location(text), [spelled_location(root) for root in roots]

    def names(place: str) -> list[str]:
        return ["local" if is_local(place) else "store", *(name for name in place.split("/") if name)]

    below = any(names(location)[: len(names(root))] == names(root) for root in allowed)
    assert (outside(location, allowed) is None) == below
    assert outside(location, ()) is None
    assert outside("catalog://lake/sales.orders", allowed) is None


# Repeated slashes: an object store keeps each as part of the key, and Hadoop's clients join them.


SEGMENTS = st.lists(st.sampled_from(["", "a", "b"]), max_size=5)


@pytest.fixture
def store() -> MemoryFileSystem:
    """Return an empty store that takes keys letter by letter."""
    driver = MemoryFileSystem(skip_instance_cache=True)
    driver.store, driver.pseudo_dirs = {}, [""]
    return driver


def reading(driver: MemoryFileSystem) -> FsspecStorage:
    return FsspecStorage(lambda: driver)


@given(keys=st.sets(SEGMENTS.map(lambda names: "/".join(["memory://bucket", *names, "file"])), min_size=1, max_size=6))
def test_every_key_is_a_file_of_its_own(keys: set[str]) -> None:
    """Keys with different numbers of slashes have different content."""
    driver = MemoryFileSystem(skip_instance_cache=True)
    driver.store, driver.pseudo_dirs = {}, [""]
    for key in keys:
        driver.pipe_file(key, key.encode())
    storage = reading(driver)
    for key in keys:
        assert storage.read(by_key(key) or key) == key.encode()
        assert storage.read_part(by_key(key) or key, begin=0, size=1000) == key.encode()


def test_what_hadoop_has_written_is_found_where_it_is(store: MemoryFileSystem) -> None:
    """Its clients write `a//b` to `a/b`, and metadata names `a//b`."""
    store.pipe_file("memory://bucket/lake/trips/metadata/v1.json", b"{}")
    storage = reading(store)
    address = address_of("memory://bucket/lake//trips")
    assert address == "memory://bucket/lake//trips"
    assert storage.read(f"{address}/metadata/v1.json") == b"{}"
    assert [entry.name for entry in storage.listing(f"{address}/metadata")] == ["v1.json"]
    assert storage.version(f"{address}/metadata/v1.json")
    with pytest.raises(FileNotFoundError):
        storage.read(f"{address}/metadata/v2.json")


def test_two_tables_whose_folders_differ_by_a_slash_are_two(store: MemoryFileSystem) -> None:
    """The listing of one contains nothing of the other."""
    store.pipe_file("memory://bucket/lake/trips/data/one", b"1")
    store.pipe_file("memory://bucket/lake//trips/data/other", b"2")
    storage = reading(store)
    for location, name in (("memory://bucket/lake/trips", "one"), ("memory://bucket/lake//trips", "other")):
        assert [entry.name for entry in storage.listing(f"{address_of(location)}/data")] == [name]


@given(SEGMENTS)
def test_a_file_that_is_known_by_either_reading_is_known(names: list[str]) -> None:
    """Before a deletion both are compared in one spelling. So a mistake can only keep a file."""
    for scheme in ("s3", "s3a", "gs", "hdfs"):
        path = "/".join([f"{scheme}://bucket", *names, "file"])
        assert Spelling()(path) == Spelling()(as_hadoop_reads(path))


@pytest.mark.parametrize("address", ["/lake//trips", "file:///lake//trips", "hdfs://node:8020/lake//trips", "s3://b/t"])
def test_where_there_is_one_reading_nothing_else_is_asked(address: str) -> None:
    """Disks and HDFS have no empty names."""
    assert by_key(address) is None
    assert "//" not in address_of(address).partition("://")[2] or address.startswith("/")


# Which storage holds a location, and which locations are allowed.


NAMED = "catalog://lake/sales.orders"


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """Return a root with a file, beside a folder with a similar name."""
    for folder in ("lake", "lake2"):
        (tmp_path / folder / "t").mkdir(parents=True)
        (tmp_path / folder / "t" / "file").write_text(folder)
    (tmp_path / "lake" / "out").symlink_to(tmp_path / "lake2")
    (tmp_path / "lake" / "in").symlink_to(tmp_path / "lake" / "t")
    return Path(canonical_location(str(tmp_path / "lake")))


def test_a_file_below_a_root_is_read(lake: Path) -> None:
    """By its path, through a link that stays below, and as a file of a table in a catalog."""
    storages = Storages(roots=[str(lake), "s3://bucket/lake"])
    for path in ("t/file", "in/file"):
        assert storages.of(f"{lake}/{path}").read(f"{lake}/t/file") == b"lake"
        assert storages.of(NAMED).read(f"{lake}/{path}") == b"lake"


@pytest.mark.parametrize(
    "elsewhere", ["{lake}2/t", "{lake}/out/t", "{lake}/../lake2/t", "/etc", "s3://bucket/lake2", "s3://other/lake"]
)
def test_nothing_outside_of_the_roots_is_asked_for(lake: Path, elsewhere: str) -> None:
    """Neither a table nor a file that a catalog or the metadata of a table names. No store is reached."""
    location = elsewhere.format(lake=lake)
    storages = Storages(roots=[str(lake), "s3://bucket/lake"])
    with pytest.raises(PermanentError, match="lies outside of the roots"):
        storages.of(location)
    scattered = storages.of(NAMED)
    for ask in (
        lambda: scattered.read(f"{location}/file"),
        lambda: scattered.read_part(f"{location}/file", begin=0, size=1),
        lambda: scattered.listing(location),
        lambda: scattered.stamp(location),
        lambda: scattered.version(f"{location}/file"),
        lambda: scattered.present(location, ["file"]),
        lambda: [*scattered.entries(location)],
    ):
        with pytest.raises(PermanentError, match="lies outside of the roots"):
            ask()
