"""JSON from outside is read as its value, or a DamagedError is raised, in bounded time and memory."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.planners.decoding.damage import DamagedError
from lakewarden.planners.decoding.inflating import CutOffError, gunzipped, unpacked
from lakewarden.planners.decoding.json_stream import from_json

HOSTILE: dict[str, Callable[[], bytes]] = {
    "a million levels": lambda: b"[" * 900_000 + b"]" * 900_000,
    "a hundred thousand objects in each other": lambda: b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "twenty million lists": lambda: b"[" + b"[]," * 20_000_000 + b"[]]",
    "a number of a million digits": lambda: b'{"a":' + b"9" * 1_000_000 + b"}",
    "no number": lambda: b'{"a":NaN}',
    "an endless number": lambda: b'{"a":-Infinity}',
    "half a pair, escaped": lambda: rb'{"name":"\ud800"}',
    "half a pair, plain": lambda: b'{"name":"\xed\xa0\x80"}',
    "another encoding": lambda: '{"a":1}'.encode("utf-16"),
    "nothing": lambda: b"",
}


@pytest.mark.parametrize("way", HOSTILE)
def test_a_crafted_text_is_refused(way: str) -> None:
    """Text that nests without end, takes gigabytes, or cannot be written again is refused with its name."""
    with pytest.raises(DamagedError):
        from_json(HOSTILE[way]())


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(value=VALUES, escaped=st.booleans())
def test_a_sound_text_is_read(value: Any, escaped: bool) -> None:
    """This includes text of all Unicode planes, written directly or as escaped pairs."""
    assert from_json(json.dumps(value, ensure_ascii=escaped).encode()) == value


@pytest.mark.long
def test_a_large_sound_text_is_read() -> None:
    """Metadata of 100,000 snapshots has two and a half million values."""
    snapshots = [
        {"snapshot-id": 2**60 + at, "summary": {f"total-of-{n}": str(at) for n in range(20)}} for at in range(100_000)
    ]
    assert from_json(json.dumps(snapshots, separators=(",", ":")).encode()) == snapshots


@given(content=st.binary(max_size=200))
def test_whatever_the_bytes_are_they_are_a_value_or_damaged(content: bytes) -> None:
    """Nothing else is raised."""
    with suppress(DamagedError):
        from_json(content)


def test_a_gzip_bomb_is_refused_before_it_is_inflated() -> None:
    """It has three members of zeros, and each of them alone is valid."""
    bomb = gzip.compress(b"\0" * 2**28)
    with pytest.raises(DamagedError, match="grows beyond"):
        list(gunzipped([bomb * 3], most=2**30))
    for cut in (bomb[:-9], b"\x1f\x8b", bomb[:20]):
        with pytest.raises(DamagedError):
            list(gunzipped([cut], most=2**30))


def test_a_zstd_bomb_is_refused_and_frames_are_read_one_after_the_other() -> None:
    """Content that ends too early is told from content that is damaged."""
    bomb = pa.compress(b"\0" * 2**27, codec="zstd", asbytes=True)
    with pytest.raises(DamagedError, match="grows beyond"):
        list(unpacked([bomb], most=2**30))
    one, two = (pa.compress(text, codec="zstd", asbytes=True) for text in (b"one", b"two"))
    assert b"".join(unpacked([one[:5], one[5:], two], most=100)) == b"onetwo"
    with pytest.raises(CutOffError):
        list(unpacked([one, two[:-1]], most=100))
    with pytest.raises(DamagedError) as error:
        list(unpacked([one, b"no frame"], most=100))
    assert not isinstance(error.value, CutOffError)


def test_members_of_gzip_are_read_one_after_the_other() -> None:
    """The test reads them as Java and Python write and read them."""
    assert b"".join(gunzipped([gzip.compress(b"one") + gzip.compress(b"two") + b"\0\0"], most=100)) == b"onetwo"
