"""Requests of the client to a daemon, and what it makes of answers that no daemon gives."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from lakewarden.client import Client, StrangeError
from lakewarden.client.bodies import RunBody, TablePage
from lakewarden.client.transport import misfit
from tests.support.daemon.answers import run_body, table_body
from tests.support.serving import Handler, serving


@contextmanager
def _server(status: int, heard: list[str], **headers: str) -> Iterator[str]:
    class Answers(Handler):
        def do_GET(self) -> None:
            heard.append(self.headers.get("Authorization", ""))
            self.answer(status, headers=headers)

    with serving(Answers) as port:
        yield f"http://127.0.0.1:{port}"


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_no_redirect_is_followed_because_another_host_would_get_the_key(status: int) -> None:
    """A daemon redirects nothing, so the address is that of another program."""
    heard: list[str] = []
    with (
        _server(200, heard) as other,
        _server(status, [], Location=f"{other}/x") as url,
        pytest.raises(StrangeError, match="is no Lakewarden daemon"),
    ):
        Client(url, key="lwk_secret").tables()

    assert heard == []


@pytest.mark.parametrize(
    "url",
    ["http://[::1", "ftp://host", "http://", "http://host:port", "http://host:99999", "http://a\nb", "http://a b", ""],
)
def test_an_address_that_no_daemon_can_have_is_refused(url: str) -> None:
    """Before a request is made, and in one line."""
    with pytest.raises(ValueError, match=r"address of (the|a) daemon") as refused:
        Client(url)
    assert len(str(refused.value).splitlines()) == 1


def test_a_password_in_an_address_is_refused_and_not_repeated() -> None:
    """Nothing sends it, and a log would keep it."""
    with pytest.raises(ValueError, match="--key-file") as refused:
        Client("http://warden:hunter2@127.0.0.1:8080")
    assert "hunter2" not in str(refused.value)


# An answer of another version is told from one that can be used.


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
