"""Hudi's commit callback: which table it is about."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.planners.formats.hudi.writers.writer_options import hints_of
from lakewarden.planners.hooks import At, MalformedHookError

CALLBACKS = Path(__file__).parents[3] / "fixtures" / "hudi" / "callbacks"


@pytest.mark.parametrize(
    ("base_path", "location"),
    [
        ("file:///lake/trips", "/lake/trips"),
        ("file:/lake/trips/", "/lake/trips"),
        ("/lake/trips", "/lake/trips"),
        ("s3a://bucket/trips", "s3://bucket/trips"),
        ("hdfs://name:8020/trips", "hdfs://name:8020/trips"),
    ],
)
def test_a_table_is_known_by_its_one_spelling(base_path: str, location: str) -> None:
    """Writers spell addresses as their file system does; tables are registered under one spelling."""
    assert hints_of(json.dumps({"basePath": base_path}).encode()) == (At(location=location),)


@pytest.mark.parametrize("release", ["0.15.0", "1.1.1", "1.2.0"])
def test_what_real_writers_have_sent_names_their_table(release: str) -> None:
    """Bodies as they came from a writer of each release; only the folder's name was changed."""
    assert hints_of((CALLBACKS / f"{release}.json").read_bytes()) == (At(location="/data/lake/orders"),)


def test_fields_of_later_versions_are_passed_over() -> None:
    """Only the address is read, so a new field of a newer writer changes nothing."""
    message = {"basePath": "/lake/trips", "commitTime": None, "callbackVersion": {"major": 9}}

    assert hints_of(json.dumps(message).encode()) == (At(location="/lake/trips"),)


@given(st.binary(max_size=200) | st.recursive(st.none() | st.text() | st.integers(), st.lists).map(json.dumps))
def test_whatever_is_no_callback_is_malformed(body: bytes | str) -> None:
    """Nothing a stranger posts is more than a malformed hook."""
    with pytest.raises(MalformedHookError):
        hints_of(body.encode() if isinstance(body, str) else body)


@given(st.text())
def test_any_address_is_a_location_or_malformed(base_path: str) -> None:
    """An address that is none does not come through as an error of ours."""
    try:
        assert hints_of(json.dumps({"basePath": base_path}).encode())
    except MalformedHookError as refused:
        assert str(refused)  # noqa: PT017 - either ending is right
