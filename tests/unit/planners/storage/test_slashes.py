"""Repeated slashes: an object store keeps each as part of the key, and Hadoop's clients join them."""

from __future__ import annotations

import pytest
from fsspec.implementations.memory import MemoryFileSystem
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.planners.formats.iceberg.metadata.parsing import Spelling, address_of
from lakewarden.planners.storage.locations import as_hadoop_reads, by_key
from lakewarden.planners.storage.remote import FsspecStorage

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
