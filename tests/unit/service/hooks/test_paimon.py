"""The report of a Flink job that a partition of a Paimon table is done: which table it is about."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.planners.formats.paimon.writers import hints_of
from lakewarden.planners.hooks import At, MalformedHookError


@pytest.mark.parametrize(
    ("path", "location"),
    [("s3://wh/db.db/t", "s3://wh/db.db/t"), ("file:/wh/db.db/t", "/wh/db.db/t"), ("/wh/db.db/t/", "/wh/db.db/t")],
)
def test_a_table_is_known_by_its_one_spelling(path: str, location: str) -> None:
    """The four members are those of Paimon 1.3.1. The parameters may be null."""
    body = {"params": None, "table": "db.t", "path": path, "partition": "dt=2026-01-01/hr=01/"}
    assert hints_of(json.dumps(body).encode()) == (At(location=location),)


@given(st.binary(max_size=200) | st.recursive(st.none() | st.text() | st.integers(), st.lists).map(json.dumps))
def test_whatever_is_no_report_is_malformed(body: bytes | str) -> None:
    """Nothing a stranger posts is more than a malformed hook."""
    with pytest.raises(MalformedHookError):
        hints_of(body.encode() if isinstance(body, str) else body)
