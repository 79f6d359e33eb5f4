"""JSON from outside is read as its value, or a DamagedError is raised, in bounded time and memory."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lakewarden.planners.decoding import json_stream
from lakewarden.planners.decoding.damage import DamagedError
from lakewarden.planners.decoding.inflating import CutOffError, gunzipped, unpacked
from lakewarden.planners.decoding.json_stream import (
    ArrayContent,
    JsonObject,
    OtherContentError,
    count,
    counted,
    from_json,
    long,
    moment,
)

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


# A large JSON object is read member by member, and its arrays item by item, wherever its text is cut.


_VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
_OBJECTS = st.dictionaries(st.text(max_size=5), _VALUES, max_size=4)
_FORMS = st.sampled_from([{}, {"separators": (",", ":")}, {"indent": 2}, {"ensure_ascii": False}])


def cut(text: bytes, size: int) -> Iterator[bytes]:
    """Yield a text in pieces of so many bytes."""
    return (text[at : at + size] for at in range(0, len(text), size))


def taken(text: bytes, size: int) -> dict[str, Any]:
    """Return the content of an object. Its arrays are read item by item."""
    parsed = JsonObject(cut(text, size))
    found: dict[str, Any] = {}
    for key in parsed.members():
        found[key] = list(parsed.items()) if key.startswith("array") else parsed.value()
    return found


_FEW = settings(max_examples=50, deadline=None)


@_FEW
@given(plain=_OBJECTS, items=st.lists(_VALUES, max_size=4), form=_FORMS, size=st.integers(1, 40))
def test_an_object_is_read_as_the_standard_library_reads_it(
    plain: dict[str, Any], items: list[Any], form: dict[str, Any], size: int
) -> None:
    """This holds however the text is written, and however it is cut."""
    told = {f"v{key}": value for key, value in plain.items()} | {"array": items}
    assert taken(json.dumps(told, **form).encode(), size) == json.loads(json.dumps(told))


@given(text=st.text('[]{},:"\\u0d8c1-ntrue \n', max_size=30), size=st.integers(1, 9))
def test_what_is_no_object_is_refused_in_our_words(text: str, size: int) -> None:
    """Text is refused if the standard library does not read it either, or if it is no object."""
    try:
        found = json.loads(text)
        json.dumps(found, ensure_ascii=False).encode()
    except ValueError:
        found = None
    try:
        assert taken(text.encode(), size) == found
    except DamagedError:
        assert not isinstance(found, dict)


@_FEW
@given(
    old=st.lists(_VALUES, min_size=1, max_size=4),
    new=st.lists(_VALUES, max_size=3),
    form=_FORMS,
    size=st.integers(1, 50),
)
def test_of_an_array_that_has_grown_only_the_new_items_are_read(
    old: list[Any], new: list[Any], form: dict[str, Any], size: int
) -> None:
    """An indented text has other characters between two items than after the last one. Such an array is read again."""
    known = content_of(old, form, size)
    parsed = JsonObject(cut(json.dumps({"more": 1, "array": old + new}, **form).encode(), size))
    found = []
    try:
        for key in parsed.members():
            if key == "array":
                found = list(parsed.items(known=known))
            else:
                parsed.value()
    except OtherContentError:
        assert new
        assert "indent" in form
        return
    assert found == json.loads(json.dumps(new))
    assert parsed.content == content_of(old + new, form, size)


@_FEW
@given(old=st.lists(_VALUES, min_size=1, max_size=3), other=st.lists(_VALUES, max_size=3), size=st.integers(1, 50))
def test_an_array_with_another_begin_is_told(old: list[Any], other: list[Any], size: int) -> None:
    """The array is not taken for the known one."""
    known, text = content_of(old, {}, size), json.dumps(other)
    if text[1:-1] == json.dumps(old)[1:-1] or text.startswith(json.dumps(old)[:-1] + ","):
        return
    parsed = JsonObject(cut(json.dumps({"array": other}).encode(), size))
    next(parsed.members())
    with pytest.raises(OtherContentError):
        next(parsed.items(known=known))


def content_of(items: list[Any], form: dict[str, Any], size: int) -> ArrayContent:
    """Return what is remembered of an array."""
    parsed = JsonObject(cut(json.dumps({"array": items}, **form).encode(), size))
    for _ in parsed.members():
        list(parsed.items())
    assert parsed.content is not None
    return parsed.content


@pytest.mark.parametrize(
    "text",
    [
        b'{"a": "\\ud800"}',
        b'{"a": NaN}',
        b'{"a": ' + b"[" * 100_000,
        b'{"a": [' + b"[]," * 3_000_000 + b"[]]}",
        b'{"a": 1} {}',
        b'{"a": 1,}',
        b"\xff\xfe",
    ],
    ids=["surrogate", "constant", "depth", "many", "two", "comma", "bytes"],
)
def test_a_crafted_stream_is_refused(text: bytes) -> None:
    """Before it takes all memory."""
    with pytest.raises(DamagedError):
        taken(text, 2**22)


def test_a_value_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is held beyond the limit for one value."""
    monkeypatch.setattr(json_stream, "_LONGEST", 1000)
    with pytest.raises(DamagedError, match="more than 1000"):
        taken(b'{"a": "' + b"x" * 2000 + b'"}', 100)


# Numbers from outside, at the point where they become facts.

ANYTHING = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(2**64), 2**64)
    | st.floats()
    | st.text()
    | st.from_regex(r"-?[0-9]{1,25}", fullmatch=True)
    | st.lists(st.integers())
)


@given(value=ANYTHING)
@example(value=10**400)
@example(value=-(10**5000))
@example(value=float("inf"))
@example(value=float("nan"))
@example(value="9" * 5000)
@example(value="--1")
@example(value="-")
@example(value="²")
def test_a_number_is_one_of_64_bits_or_a_short_error(value: Any) -> None:
    """A number that a metric, a database or a calendar cannot hold goes no further, whatever a file says."""
    for kind, least in ((long, -(2**63)), (count, 0)):
        found = said(kind, value)
        assert len(found) < 200 if isinstance(found, str) else least <= found < 2**63
    at = said(moment, value)
    assert len(at) < 200 if isinstance(at, str) else at + timedelta(days=365_000) > datetime(1970, 1, 1, tzinfo=UTC)


def said(make: Callable[[Any], Any], value: Any) -> Any:
    """Return the number, or the error for a wrong value."""
    try:
        return make(value)
    except ValueError as wrong:
        return str(wrong)


@pytest.mark.parametrize(("value", "number"), [(7, 7), ("7", 7), (7.9, 7), (2**63 - 1, 2**63 - 1), ("0", 0)])
def test_whole_numbers_are_counts_however_they_are_written(value: Any, number: int) -> None:
    """Summaries write them as text, and metrics of plans as floats."""
    assert count(value) == number


@pytest.mark.parametrize(
    ("text", "number"),
    [("0", 0), ("17", 17), (str(2**63 - 1), 2**63 - 1), (str(2**63), None), ("9" * 400, None), ("²", None),
     ("-1", None), ("", None), (" 1", None), ("soon", None)],
)  # fmt: skip
def test_a_count_in_digits_is_a_count_and_no_other_text_is(text: str, number: int | None) -> None:
    """The largest long stands for "never"."""
    assert counted(text) == number
