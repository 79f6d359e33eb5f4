"""Events of object stores name the folders above an object, one of which may be a table."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.planners.formats.directory.writers import hints_of
from lakewarden.planners.hooks import At, MalformedHookError

RECORD = {
    "eventName": "ObjectCreated:CompleteMultipartUpload",
    "s3": {"bucket": {"name": "lake"}, "object": {"key": "landing/clicks/dt%3D2026-03-01/a+b/part-0", "size": 7}},
}
PLACES = [
    "s3://lake/landing/clicks/dt=2026-03-01/a b",
    "s3://lake/landing/clicks/dt=2026-03-01",
    "s3://lake/landing/clicks",
    "s3://lake/landing",
    "s3://lake",
]


def told(event: Any) -> list[str]:
    return [hint.location for hint in hints_of(json.dumps(event).encode()) if isinstance(hint, At)]


def test_a_notification_of_s3_names_every_folder_above_the_object() -> None:
    """Plain, and wrapped by SNS. Keys are URL-encoded, with a plus for a space."""
    assert told({"Records": [RECORD, RECORD]}) == PLACES
    assert told({"Type": "Notification", "Message": json.dumps({"Records": [RECORD]})}) == PLACES


def test_an_event_names_the_folder_that_has_changed() -> None:
    """From each folder that may be a table."""
    hints = hints_of(json.dumps({"Records": [RECORD]}).encode())
    assert [hint.folder for hint in hints if isinstance(hint, At)] == [
        "",
        "a b",
        "dt=2026-03-01/a b",
        "clicks/dt=2026-03-01/a b",
        "landing/clicks/dt=2026-03-01/a b",
    ]


def test_an_event_of_eventbridge_has_a_plain_key() -> None:
    """A plus is a plus there."""
    detail = {"bucket": {"name": "lake"}, "object": {"key": "clicks/a+b/part-0"}}
    assert told({"source": "aws.s3", "detail": detail}) == ["s3://lake/clicks/a+b", "s3://lake/clicks", "s3://lake"]


def test_google_cloud_storage_sends_a_bucket_and_a_name() -> None:
    """As JSON, or as the data of a CloudEvent in structured mode."""
    data = {"kind": "storage#object", "bucket": "lake", "name": "clicks/part-0"}
    assert told(data) == ["gs://lake/clicks", "gs://lake"]
    assert told({"specversion": "1.0", "type": "google.cloud.storage.object.v1.finalized", "data": data}) == [
        "gs://lake/clicks",
        "gs://lake",
    ]


def test_a_test_of_the_connection_is_no_error() -> None:
    """S3 and SNS send one when they are set up."""
    assert told({"Service": "Amazon S3", "Event": "s3:TestEvent"}) == []
    assert told({"Type": "SubscriptionConfirmation", "Token": "x"}) == []


@pytest.mark.parametrize("event", [{}, {"Records": []}, {"Records": [{"s3": {}}]}, {"bucket": 1, "name": "x"}])
def test_another_body_is_malformed(event: Any) -> None:
    """The sender learns what was expected."""
    with pytest.raises(MalformedHookError, match="Records"):
        hints_of(json.dumps(event).encode())


def test_an_event_that_is_cut_off_is_malformed() -> None:
    """Its end may name other objects."""
    with pytest.raises(MalformedHookError, match="too long"):
        hints_of(json.dumps({"Records": [RECORD]}).encode(), whole=False)


@given(st.recursive(st.none() | st.text() | st.integers(), lambda one: st.lists(one) | st.dictionaries(st.text(), one)))
def test_no_body_ends_the_daemon(event: Any) -> None:
    """A hook is a hint of a client that can reach the port."""
    try:
        hints_of(json.dumps(event).encode())
    except MalformedHookError:
        return
