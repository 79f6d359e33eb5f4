"""Requests of the client to a daemon, and what it makes of answers that no daemon gives."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from lakewarden.client import Client, ConflictError, DaemonAwayError, StrangeError
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
        pytest.raises(StrangeError, match="is not a Lakewarden daemon"),
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


# A command whose connection broke is sent again.


DONE = b"HTTP/1.1 204 No Content\r\n\r\n"
BROKEN = b""
_CONFLICT = b'{"type":"x","title":"x","status":409,"detail":"x","code":"conflict"}'
REFUSED = b"HTTP/1.1 409 Conflict\r\nContent-Length: %d\r\n\r\n" % len(_CONFLICT) + _CONFLICT


@contextmanager
def _program(answers: Sequence[bytes], heard: list[str]) -> Iterator[str]:
    """Yield the address of a program that gives one answer to each connection, and then listens no more."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        for answer in answers:
            connection, _ = listener.accept()
            with connection:
                request = b""
                while b"\r\n\r\n" not in request:
                    request += connection.recv(65536)
                heard.append(request.decode())
                connection.sendall(answer)
        listener.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        thread.join(60)
        listener.close()


def test_a_command_is_sent_again_until_it_is_answered() -> None:
    """An act that is sent twice acts once."""
    heard, pauses = list[str](), list[float]()
    with _program([BROKEN, BROKEN, DONE], heard) as url:
        Client(url, pause=pauses.append).pause()
    assert pauses == [0.5, 1.0]
    assert len({request.splitlines()[0] for request in heard}) == 1


def test_a_daemon_that_does_not_come_back_is_waited_for_some_seconds() -> None:
    """It may be restarted, so an address where nothing listens any more is tried again."""
    heard, pauses = list[str](), list[float]()
    with _program([BROKEN], heard) as url, pytest.raises(DaemonAwayError):
        Client(url, pause=pauses.append).pause()
    assert pauses == [0.5, 1.0, 2.0, 4.0]


def test_where_no_daemon_listens_nothing_is_waited_for() -> None:
    """A command for a wrong address fails at once."""
    with socket.create_server(("127.0.0.1", 0)) as unused:
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
    pauses = list[float]()
    with pytest.raises(DaemonAwayError):
        Client(url, pause=pauses.append).pause()
    assert pauses == []


def test_what_was_refused_or_only_asks_is_not_sent_again() -> None:
    """A conflict is an answer. A question can be asked by the caller."""
    heard, pauses = list[str](), list[float]()
    with _program([REFUSED, BROKEN], heard) as url:
        client = Client(url, pause=pauses.append)
        with pytest.raises(ConflictError):
            client.pause()
        with pytest.raises(DaemonAwayError):
            client.replicas()
    assert pauses == []


def test_a_program_of_another_protocol_is_no_daemon_that_is_away() -> None:
    """Trying again would not help: the address is wrong."""
    with (
        _program([b"SSH-2.0-OpenSSH_9.2\r\n"], []) as url,
        pytest.raises(StrangeError, match="does not speak HTTP"),
    ):
        Client(url).replicas()
