"""Of a long body the beginning will do."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.planners.formats.hudi.writers import writer_options
from lakewarden.planners.formats.iceberg.catalogs import reports as iceberg
from lakewarden.planners.hooks import At, MalformedHookError, Named, json_object

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(st.text(max_size=8), JSON, max_size=8), st.data(), st.booleans())
def test_what_is_read_of_a_beginning_is_what_the_whole_says(
    message: dict[str, object], data: st.DataObject, ascii_: bool
) -> None:
    """No member is read otherwise than it stands there, wherever the text breaks off."""
    body = json.dumps(message, ensure_ascii=ascii_).encode(errors="surrogatepass")
    cut = body[: data.draw(st.integers(0, len(body)))]
    try:
        members = json_object(cut, whole=False)
    except MalformedHookError:
        return
    assert members.items() <= message.items()


@pytest.mark.parametrize("kept", range(3, len('{"a":1.5e3')))
def test_a_number_that_breaks_off_anywhere_is_not_read(kept: int) -> None:
    """Half of a number is a number, too."""
    with pytest.raises(MalformedHookError):
        json_object(b'{"a":1.5e3}'[:kept], whole=False)


def test_the_table_stands_before_the_files() -> None:
    """Whatever the rest is."""
    body = json.dumps({"commitTime": "1", "tableName": "t", "basePath": "/lake/trips", "hoodieWriteStat": [{"a": 1}]})

    for end in (len(body), len(body) - 1, len(body) - 8):
        assert writer_options.hints_of(body[:end].encode(), whole=False) == (At(location="/lake/trips"),)
    report = iceberg.table_of("v1/namespaces/sales/tables/orders/metrics")
    assert report
    begun = b'{"report-type":"commit-report","table-name":"or'
    assert iceberg.hints_of(report, None, begun, whole=False) == (Named(identifier="sales.orders"),)


@pytest.mark.parametrize(
    "body",
    [b"[" * 65_536, b'{"a":' * 13_000, b'{"a":1,' * 9_000, b'{"' + b"x" * 65_000, b" " * 65_536, b'{"a":1' * 9, b""],
)
def test_a_beginning_without_the_table_is_malformed(body: bytes) -> None:
    """And costs next to nothing."""
    begun = time.process_time()

    with pytest.raises(MalformedHookError):
        writer_options.hints_of(body, whole=False)

    assert time.process_time() - begun < 30


@pytest.mark.parametrize(
    "path",
    [
        "v1/" * 2700,
        "v1/namespaces/" * 580,
        "v1/namespaces/a/tables/" * 350,
        "/" * 8000,
        "v1/namespaces/a/tables/b/metrics/" * 240,
    ],
)
def test_a_long_address_costs_next_to_nothing(path: str) -> None:
    """It is cut at its slashes, and read once."""
    begun = time.process_time()
    for _ in range(100):
        iceberg.table_of(path)

    assert time.process_time() - begun < 30
