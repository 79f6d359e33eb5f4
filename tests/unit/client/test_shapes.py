"""An answer of another version is told from one that can be used."""

from __future__ import annotations

import pytest

from lakewarden.client.bodies import RunBody, TablePage
from lakewarden.client.transport import misfit
from tests.support.daemon.answers import run_body, table_body


@pytest.mark.parametrize("field", ["id", "state", "figures", "ended_at"])
def test_a_missing_field_is_named(field: str) -> None:
    """An older daemon does not send it."""
    run = {name: value for name, value in run_body("r1", table="t").items() if name != field}
    assert misfit(run, RunBody) == f"the answer.{field} is missing"


def test_a_newer_daemon_may_say_more() -> None:
    """A field and a state that this client does not know are no error."""
    assert misfit({**run_body("r1", table="t"), "state": "RESTING", "mood": {"any": 1}}, RunBody) is None
    assert misfit({**run_body("r1", table="t"), "step": "dance"}, RunBody) is None


@pytest.mark.parametrize(
    ("page", "where"),
    [
        (None, "the answer is null"),
        ([], "the answer is a list"),
        ({"items": {}}, "the answer.items is an object"),
        ({"items": [table_body("t"), 1]}, "the answer.items[1] is a number"),
        ({"items": [table_body("t", poll_seconds="10")]}, "the answer.items[0].poll_seconds is a text"),
        ({"items": [table_body("t", poll_seconds=True)]}, "the answer.items[0].poll_seconds is a boolean"),
        ({"items": [table_body("t", labels={"a": 1})]}, "the answer.items[0].labels[...] is a number"),
        ({"items": [table_body("t", services={"clean": {"pending": 0}})]}, None),
    ],
)
def test_a_value_of_another_type_is_named_with_its_place(page: object, where: str | None) -> None:
    """At any depth."""
    found = misfit(page, TablePage)
    assert found is not None
    assert where is None or found == where
