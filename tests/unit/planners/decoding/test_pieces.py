"""An Avro record too large to be held: in pieces it is the same record, in bounded memory, or a DamagedError."""

from __future__ import annotations

import copy
import io
import tracemalloc
from collections.abc import Callable, Iterator, Mapping
from functools import reduce
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.planners.decoding import window as decoding
from lakewarden.planners.decoding.chunks import avro_chunks
from lakewarden.planners.decoding.damage import DamagedError
from tests.support.hostile import hostile_avro

FILE = {
    "type": "record",
    "name": "org.hudi.File",
    "fields": [{"name": "path", "type": ["null", "string"]}, {"name": "bootstrap", "type": "boolean"}],
}
STAT = {
    "type": "record",
    "name": "Stat",
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "logs", "type": {"type": "array", "items": "string"}},
        {"name": "file", "type": "org.hudi.File"},
        {"name": "writes", "type": ["long", "null"]},
    ],
}
SCHEMA = {
    "type": "record",
    "name": "Plan",
    "namespace": "a.b",
    "fields": [
        {"name": "earliest", "type": ["null", "string"]},
        {"name": "files", "type": ["null", {"type": "map", "values": {"type": "array", "items": FILE}}]},
        {"name": "version", "type": "int"},
        {"name": "stats", "type": {"type": "array", "items": STAT}},
        {"name": "extra", "type": {"type": "map", "values": "string"}},
    ],
}
TEXT = st.text(max_size=40)
FILES = st.fixed_dictionaries({"path": st.none() | TEXT, "bootstrap": st.booleans()})
STATS = st.fixed_dictionaries(
    {"id": TEXT, "logs": st.lists(TEXT, max_size=8), "file": FILES, "writes": st.none() | st.integers(0, 2**40)}
)
RECORDS = st.fixed_dictionaries(
    {
        "earliest": st.none() | TEXT,
        "files": st.none() | st.dictionaries(TEXT, st.lists(FILES, max_size=6), max_size=6),
        "version": st.integers(-5, 5),
        "stats": st.lists(STATS, max_size=8),
        "extra": st.dictionaries(TEXT, TEXT, max_size=6),
    }
)


def container(record: Mapping[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.writer(out, fastavro.parse_schema(copy.deepcopy(SCHEMA)), [record], sync_interval=1)
    return out.getvalue()


def part_of(content: bytes) -> Callable[[int, int], bytes]:
    return lambda begin, size: content[begin : begin + size]


@pytest.fixture
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "WINDOW", 48)


@pytest.fixture
def _cut_items(monkeypatch: pytest.MonkeyPatch, _small: None) -> None:
    monkeypatch.setattr(decoding, "ITEM", 0)


def together(one: Any, other: Any) -> Any:
    """Return two pieces as one, if no item of a list was cut."""
    match one, other:
        case dict(), dict():
            shared = {key: together(one[key], other[key]) for key in one.keys() & other.keys()}
            return {**one, **other, **shared}
        case list(), list():
            return one + other
        case _:
            assert one == other
            return one


@pytest.mark.usefixtures("_small")
@given(record=RECORDS)
def test_the_pieces_together_are_the_record(record: dict[str, Any]) -> None:
    """Nothing is lost, nothing is there twice, and the order stays. The test compares by fastavro's own encoding."""
    found = [copy.deepcopy(dict(chunk)) for chunk in avro_chunks(part_of(container(record)))]
    assert reduce(together, found) == record


@pytest.mark.usefixtures("_cut_items")
@given(record=RECORDS)
def test_an_item_that_is_cut_says_in_each_piece_who_it_is(record: dict[str, Any]) -> None:
    """Its texts and numbers are repeated in each piece, so that the content of its lists can be assigned to it."""
    logs: list[tuple[str, str]] = []
    for chunk in avro_chunks(part_of(container(record))):
        logs += [(stat["id"], log) for stat in chunk.get("stats") or () for log in stat.get("logs") or ()]
    assert logs == [(stat["id"], log) for stat in record["stats"] for log in stat["logs"]]


def test_a_small_record_is_one_piece() -> None:
    """Most records are. They cost the same as before."""
    record = {"earliest": "1", "files": {"p": [{"path": "a", "bootstrap": False}]}, "version": 1, "stats": []}
    assert [*avro_chunks(part_of(container({**record, "extra": {}})))] == [{**record, "extra": {}}]


@pytest.mark.long
def test_a_record_of_any_size_takes_the_memory_of_a_window() -> None:
    """Its size is the file's: 24 MiB of names would be 60 MB of objects."""
    file = {"path": "s3://bucket/table/p/" + "f" * 180, "bootstrap": False}
    content = container({"earliest": "1", "files": {"p": [file] * 120_000}, "version": 1, "stats": [], "extra": {}})
    assert len(content) > 2**24
    tracemalloc.start()
    try:
        files = sum(len(chunk.get("files", {}).get("p", ())) for chunk in avro_chunks(part_of(content)))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert files == 120_000
    assert peak < 8 * 2**20


def hostile() -> Iterator[Any]:
    for make in (
        hostile_avro.of_empty_records,
        hostile_avro.of_nulls,
        hostile_avro.of_negative_counts,
        hostile_avro.of_a_long_string,
        hostile_avro.of_doubled_names,
        hostile_avro.of_a_schema_that_is_none,
        hostile_avro.of_an_unknown_codec,
        hostile_avro.cut_off,
    ):
        yield pytest.param(make(), id=make.__name__)
    yield pytest.param(hostile_avro.of_itself(5000), id="of_itself")
    yield pytest.param(hostile_avro.of_a_deep_schema(500), id="of_a_deep_schema")
    yield pytest.param(hostile_avro.of_zeros(2**30), id="of_zeros")


@pytest.mark.parametrize("content", [*hostile()])
def test_what_costs_more_than_it_weighs_is_refused(content: bytes) -> None:
    """The refused files are those that a record decoded whole refuses, within the same memory."""
    tracemalloc.start()
    try:
        with pytest.raises(DamagedError):
            list(avro_chunks(part_of(content)))
        assert tracemalloc.get_traced_memory()[1] < 64 * 2**20
    finally:
        tracemalloc.stop()


@pytest.mark.usefixtures("_small")
@given(record=RECORDS, data=st.data())
def test_what_is_cut_off_anywhere_is_damaged(record: dict[str, Any], data: st.DataObject) -> None:
    """The file is still being written, or was not written to its end."""
    content = container(record)
    cut = data.draw(st.integers(0, len(content) - 1))
    with pytest.raises(DamagedError):
        list(avro_chunks(part_of(content[:cut])))


@pytest.mark.usefixtures("_small")
@given(record=RECORDS, place=st.integers(0, 10_000), byte=st.integers(0, 255))
def test_what_is_damaged_is_read_or_refused(record: dict[str, Any], place: int, byte: int) -> None:
    """Reading it raises no other error, and ends."""
    content = bytearray(container(record))
    content[place % len(content)] = byte
    try:
        list(avro_chunks(part_of(bytes(content))))
    except DamagedError:
        return
