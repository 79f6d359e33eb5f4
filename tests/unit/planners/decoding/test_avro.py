"""An Avro container from outside is read as its records, or a DamagedError is raised, in bounded time and memory."""

from __future__ import annotations

import io
import json
import time
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.planners.decoding.avro import opened
from lakewarden.planners.decoding.damage import DamagedError
from tests.support.hostile import hostile_avro

SYNC = b"0123456789abcdef"


def long(number: int) -> bytes:
    """Return a number as Avro writes it."""
    left = (number << 1) ^ (number >> 63)
    written = bytearray()
    while left > 0x7F:
        written.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes((*written, left))


def text(value: bytes) -> bytes:
    return long(len(value)) + value


def container(schema: Any, *blocks: tuple[int, bytes], codec: str = "null") -> bytes:
    """Return a container of these blocks. Each block has the number of records that it claims, and its stored
    content.
    """
    written = schema if isinstance(schema, bytes) else json.dumps(schema).encode()
    about = long(2) + text(b"avro.schema") + text(written) + text(b"avro.codec") + text(codec.encode()) + long(0)
    return b"Obj\x01" + about + SYNC + b"".join(long(n) + text(block) + SYNC for n, block in blocks)


def record(name: str, *fields: Any) -> dict[str, Any]:
    return {
        "type": "record",
        "name": name,
        "fields": [{"name": f"f{at}", "type": one} for at, one in enumerate(fields)],
    }


def by_fastavro(schema: Any, records: list[Any], **options: Any) -> bytes:
    written = io.BytesIO()
    fastavro.writer(written, fastavro.parse_schema(schema), records, **options)
    return written.getvalue()


@contextmanager
def cheaply(*, seconds: float = 60, mebibytes: int = 64) -> Iterator[None]:
    """Assert that a call takes no more than so much time of a core, and so much memory."""
    tracemalloc.start()
    begun = time.process_time()
    try:
        yield
        assert time.process_time() - begun < seconds
        assert tracemalloc.get_traced_memory()[1] < mebibytes * 2**20
    finally:
        tracemalloc.stop()


def deflated(content: bytes) -> bytes:
    return zlib.compress(content, 9)[2:-4]


def in_a_chain(levels: int, *, times: int = 1) -> dict[str, Any]:
    """Return a schema of records in records. Each record holds the next one `times`, and no part of the schema repeats
    it.
    """
    inner: Any = record("r0", "long")
    for level in range(1, levels):
        inner = record(f"r{level}", inner, *[f"r{level - 1}"] * (times - 1))
    return dict(inner)


RECURSIVE = record("node", "long", ["null", "node"])


@cache
def zeros() -> bytes:
    """Return a megabyte that inflates to a gibibyte. After a full flush the same bytes mean the same again."""
    packer = zlib.compressobj(wbits=-15)
    beginning = packer.compress(long(2**30)) + packer.flush(zlib.Z_FULL_FLUSH)
    mebibyte = packer.compress(b"\0" * 2**20) + packer.flush(zlib.Z_FULL_FLUSH)
    return beginning + 1024 * mebibyte + packer.flush()


@cache
def blocks() -> bytes:
    return deflated(text(b"\0" * 8 * 2**20))


HOSTILE: dict[str, tuple[Callable[[], bytes], str]] = {
    "a schema that holds itself, and deep data": (
        lambda: container(RECURSIVE, (1, b"\x00\x02" * 5000 + b"\x00\x00")), "recursive: node holds itself"
    ),
    "a schema that holds itself by way of another": (
        lambda: container(record("a", {"type": "array", "items": record("b", {"type": "map", "values": "a"})})),
        "recursive: a holds itself",
    ),
    "2^60 records without a byte": (lambda: container(record("empty"), (2**60, b"")), "records that take no bytes"),
    "2^60 nulls": (lambda: container("null", (2**60, b"")), "records that take no bytes"),
    "2^60 records in a few bytes": (lambda: container(record("r", "long"), (2**60, b"\x02\x04")), "counts 1152"),
    "less than no records": (lambda: container(record("r", "long"), (-5, b"\x02\x04")), "half-written or damaged"),
    "an array of 2^60 nulls": (
        lambda: container(record("r", {"type": "array", "items": "null"}), (1, long(2**60) + b"\x00")),
        "items that take no bytes",
    ),
    "an array of 2^60 empty records": (
        lambda: container(record("r", {"type": "array", "items": record("e")}), (1, long(2**60) + b"\x00")),
        "items that take no bytes",
    ),
    "an array of 2^60 numbers": (
        lambda: container(record("r", {"type": "array", "items": "long"}), (1, long(2**60) + b"\x00")),
        "half-written or damaged",
    ),
    "a map of 2^60 nulls": (
        lambda: container(record("r", {"type": "map", "values": "null"}), (1, long(-(2**60)) + b"\x00\x00")),
        "half-written or damaged",
    ),
    "a string of 2^60 bytes": (lambda: container(record("r", "string"), (1, long(2**60))), "half-written or damaged"),
    "two million records in an array of two megabytes": (
        lambda: container(
            record("r", {"type": "array", "items": record("i", "boolean")}),
            (1, long(4_000_000) + b"\x01" * 4_000_000 + b"\x00"),
        ),
        "too much memory",
    ),
    "many empty records in each byte": (
        lambda: container(record("r", "long", *[record(f"e{at}") for at in range(40)])), "values that take no bytes"
    ),
    "records in records, twice each": (
        lambda: container(
            record("top", "long", in_a_chain(40, times=2) | {"fields": []}, in_a_chain(60, times=2)),
            (1, b"\x02" * 100),
        ),
        "defines",
    ),
    "2^50 values for one record": (lambda: container(in_a_chain(50, times=2), (1, b"\x02" * 100)), "counts 1 records"),
    "a schema a hundred levels deep": (lambda: container(in_a_chain(100), (1, b"\x02")), "levels deep"),
    "arrays two hundred levels deep": (
        lambda: container(b'{"type":"array","items":' * 200 + b'"long"' + b"}" * 200), "levels deep"
    ),
    "a schema a million levels deep": (
        lambda: container(b'{"type":"array","items":' * 40_000 + b'"long"' + b"}" * 40_000), "nested too deeply"
    ),
    "a schema of two megabytes": (lambda: container(b'"' + b" " * 2**21 + b'"'), "schema has more than"),
    "a schema that is none": (lambda: container({"type": "nonsense"}), "schema is none"),
    "a schema of an unknown name": (lambda: container(record("r", "missing")), "schema is none"),
    "a fixed type of 2^62 bytes": (
        lambda: container(record("r", {"type": "fixed", "name": "f", "size": 2**62})), "fixed type of more than"
    ),
    "a gigabyte of zeros, deflated": (
        lambda: container(record("r", "string"), (1, zeros()), codec="deflate"), "grows beyond"
    ),
    "many gigabytes, deflated in many blocks": (
        lambda: container(record("r", "string"), *[(1, blocks()) for _ in range(200)], codec="deflate"), "grows beyond"
    ),
    "an unknown codec": (
        lambda: container(record("r", "string"), (1, b"x"), codec="lz\x1b[2J"), "codec 'lz\\x1b"
    ),
    "rubbish behind the last block": (
        lambda: container(record("r", "long"), (1, b"\x02")) + b"rubbish", "half-written or damaged"
    ),
    "records in records in records, each twice, without a byte": (hostile_avro.of_doubled_names, "take no bytes"),
    "an array of less than no nulls": (hostile_avro.of_negative_counts, "items that take no bytes"),
    "a header of a million entries": (
        lambda: b"Obj\x01" + long(2**40) + (text(b"k") + text(b"")) * 2000, "header has more than"
    ),
}  # fmt: skip


@pytest.mark.parametrize("way", HOSTILE)
def test_a_crafted_container_is_refused_quickly_and_cheaply(way: str) -> None:
    """Content that would crash a decoder, or take gigabytes, is refused with its name."""
    make, says = HOSTILE[way]
    content = make()
    with cheaply(mebibytes=200), pytest.raises(DamagedError) as refused:
        list(opened(content).records())
    assert says in str(refused.value)


MANIFEST_LIKE = {
    "type": "record", "name": "entry", "namespace": "some.space",
    "fields": [
        {"name": "status", "type": "int", "doc": "what it is", "field-id": 0},
        {"name": "id", "type": ["null", "long"], "default": None},
        {"name": "file", "type": {"type": "record", "name": "r2", "fields": [
            {"name": "path", "type": {"type": "string", "avro.java.string": "String"}},
            {"name": "partition", "type": {"type": "record", "name": "r102", "fields": []}},
            {"name": "sizes", "type": ["null", {"type": "array", "logicalType": "map", "items": {
                "type": "record", "name": "k117_v118", "fields": [
                    {"name": "key", "type": "int"}, {"name": "value", "type": "bytes"}]}}]},
            {"name": "kind", "type": {"type": "enum", "name": "kind", "symbols": ["A", "B"]}},
            {"name": "digest", "type": {"type": "fixed", "name": "digest", "size": 4}},
            {"name": "again", "type": ["null", "some.space.digest", "kind"]},
            {"name": "texts", "type": {"type": "map", "values": "double"}},
            {"name": "rough", "type": "float"}, {"name": "is", "type": "boolean"}]}},
    ],
}  # fmt: skip
ENTRIES = st.fixed_dictionaries(
    {
        "status": st.integers(-(2**31), 2**31 - 1),
        "id": st.none() | st.integers(-(2**63), 2**63 - 1),
        "file": st.fixed_dictionaries(
            {
                "path": st.text(),
                "partition": st.just({}),
                "sizes": st.none()
                | st.lists(st.fixed_dictionaries({"key": st.integers(0, 99), "value": st.binary(max_size=9)})),
                "kind": st.sampled_from(["A", "B"]),
                "digest": st.binary(min_size=4, max_size=4),
                "again": st.none() | st.binary(min_size=4, max_size=4),
                "texts": st.dictionaries(st.text(), st.floats(allow_nan=False)),
                "rough": st.floats(width=32, allow_nan=False),
                "is": st.booleans(),
            }
        ),
    }
)


@given(
    entries=st.lists(ENTRIES, max_size=20),
    codec=st.sampled_from(["null", "deflate", "bzip2", "xz"]),
    block=st.sampled_from([1, 100, 16_000]),
)
def test_a_sound_container_is_read_as_fastavro_reads_it(entries: list[Any], codec: str, block: int) -> None:
    """Any codec and any number of records in a block gives the same result."""
    content = by_fastavro(MANIFEST_LIKE, entries, codec=codec, sync_interval=block)
    assert list(opened(content).records()) == list(fastavro.reader(io.BytesIO(content))) == entries


@pytest.mark.parametrize("codec", ["snappy", "zstandard"])
def test_the_other_codecs_are_read_too(codec: str) -> None:
    """Snappy ends with a checksum; zstandard may not say how long it is."""
    plain = b"\x02" * 100_000
    if codec == "snappy":
        stored = pa.compress(plain, codec="snappy", asbytes=True) + zlib.crc32(plain).to_bytes(4, "big")
    else:
        stored = pa.compress(plain, codec="zstd", asbytes=True)
    content = container(record("r", "long"), (100_000, stored), codec=codec)
    assert sum(1 for _ in opened(content).records()) == 100_000
    with pytest.raises(DamagedError, match="grows beyond"):
        list(opened(content).records(most=1000))
    with pytest.raises(DamagedError):
        list(opened(container(record("r", "long"), (100_000, stored[:-9]), codec=codec)).records())


def test_a_large_record_is_read_although_it_is_weighed_first() -> None:
    """A plan of 60,000 files is valid. Its weight is measured before it is decoded."""
    schema = record("plan", {"type": "array", "items": record("file", ["null", "string"], ["null", "boolean"])})
    plan = {
        "f0": [{"f0": f"hdfs://warehouse/table/partition=7/{at:036d}.parquet", "f1": False} for at in range(60_000)]
    }
    assert opened(by_fastavro(schema, [plan])).record() == plan


@pytest.mark.parametrize("records", [0, 2])
def test_the_only_record_is_the_only_one(records: int) -> None:
    """Hudi writes one record, and then the file ends."""
    with pytest.raises(DamagedError):
        opened(container(record("r", "long"), (records, b"\x02" * records))).record()


@given(entries=st.lists(ENTRIES, min_size=1, max_size=5), data=st.data())
def test_damage_anywhere_is_read_or_said(entries: list[Any], data: st.DataObject) -> None:
    """If a few bytes are changed anywhere, the result is another record or a DamagedError. Nothing else is raised."""
    content = bytearray(by_fastavro(MANIFEST_LIKE, entries, codec=data.draw(st.sampled_from(["null", "deflate"]))))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content) - 1))
        content[at : at + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=3))
    with suppress(DamagedError):
        list(opened(bytes(content)).records())
