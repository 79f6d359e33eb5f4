"""A command whose connection broke is sent again."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from lakewarden.client import Client, ConflictError, DaemonAwayError, StrangeError

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
