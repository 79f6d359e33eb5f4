"""A command whose connection broke is sent again with the same key."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from lakewarden.client import Client, ConflictError, DaemonAwayError, StrangeError

DONE = b"HTTP/1.1 204 No Content\r\n\r\n"
BROKEN = b""
IN_FLIGHT, UNKNOWN = (
    b"HTTP/1.1 409 Conflict\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    for body in (
        b'{"type":"x","title":"x","status":409,"detail":"x","code":"conflict"}',
        b'{"type":"x","title":"x","status":409,"detail":"x","code":"outcome_unknown"}',
    )
)


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


def _keys(heard: Sequence[str]) -> list[str]:
    lines = [line.lower() for request in heard for line in request.splitlines()]
    return [line for line in lines if line.startswith("idempotency-key")]


@pytest.mark.parametrize("first", [BROKEN, IN_FLIGHT])
def test_a_command_is_sent_again_until_it_is_answered(first: bytes) -> None:
    """All attempts have one key, so the daemon acts once."""
    heard, pauses = list[str](), list[float]()
    with _program([first, first, DONE], heard) as url:
        Client(url, pause=pauses.append).pause()
    assert pauses == [0.5, 1.0]
    assert len(_keys(heard)) == 3
    assert len({*_keys(heard)}) == 1


def test_each_command_has_a_key_of_its_own() -> None:
    """Unless the program gives one, because it may be restarted itself."""
    heard = list[str]()
    with _program([DONE] * 4, heard) as url:
        client = Client(url)
        client.pause()
        client.pause()
        client.pause(idempotency_key="mine")
        client.resume(idempotency_key="mine")
    assert len({*_keys(heard)}) == 3
    assert _keys(heard)[2:] == ["idempotency-key: mine"] * 2


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


def test_a_command_whose_end_is_not_known_is_not_sent_again() -> None:
    """The daemon would refuse it again. A question is asked once, and has no key."""
    heard, pauses = list[str](), list[float]()
    with _program([UNKNOWN, BROKEN], heard) as url:
        client = Client(url, pause=pauses.append)
        with pytest.raises(ConflictError):
            client.pause()
        with pytest.raises(DaemonAwayError):
            client.replicas()
    assert pauses == []
    assert len(_keys(heard)) == 1


def test_a_program_of_another_protocol_is_no_daemon_that_is_away() -> None:
    """Trying again would not help: the address is wrong."""
    with (
        _program([b"SSH-2.0-OpenSSH_9.2\r\n"], []) as url,
        pytest.raises(StrangeError, match="does not speak HTTP"),
    ):
        Client(url).replicas()
