"""Which connections of a port are ended: by their number, their time and their bytes."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import timedelta

import pytest
from starlette.types import Message, Receive, Scope, Send

from lakewarden.service.http.connections import CONNECTION, Connection, Connections, PortLimits, WatchedRequests
from lakewarden.service.http.ports import MANAGEMENT_LIMITS, affordable

LIMITS = PortLimits(connections=8, bodies=2**20, patience=timedelta(seconds=10))
MIB = 2**20


class Transport(asyncio.WriteTransport):
    """A transport with an answer that the client has not read."""

    def __init__(self) -> None:
        super().__init__()
        self.unread_bytes, self.closing = 0, False

    def get_write_buffer_size(self) -> int:
        return self.unread_bytes

    def is_closing(self) -> bool:
        return self.closing

    def abort(self) -> None:
        self.unread_bytes, self.closing = 0, True


@pytest.fixture
def ended() -> Counter[str]:
    return Counter()


@pytest.fixture
def connections(ended: Counter[str]) -> Connections:
    return Connections(LIMITS, on_refusal=lambda kind, _client: ended.update([kind]))


def _opened(connections: Connections, since: float, at_work: int = 0, kept_bytes: int = 0) -> Transport:
    transport = Transport()
    connections.add(
        Connection(client="10.0.0.1", since=since, transport=transport, at_work=at_work, kept_bytes=kept_bytes)
    )
    return transport


def test_the_connection_that_has_waited_for_longest_makes_room(connections: Connections, ended: Counter[str]) -> None:
    """One that the server is at work for does not, however old it is."""
    at_work = _opened(connections, 0, at_work=1)
    waiting = [_opened(connections, since) for since in range(1, 8)]

    assert connections.has_room(9)
    assert [transport.closing for transport in (at_work, *waiting)] == [False, True, *[False] * 6]
    assert ended == {"made_room": 1}


def test_there_is_no_room_while_the_server_is_at_work_for_all(connections: Connections, ended: Counter[str]) -> None:
    """Further clients wait until one of them is answered."""
    working = [_opened(connections, 0, at_work=1) for _ in range(8)]
    assert not connections.has_room(1_000)

    working[0].closing = True
    assert connections.has_room(1_000)
    assert not ended


def test_a_client_that_is_waited_for_in_vain_is_ended(connections: Connections, ended: Counter[str]) -> None:
    """The server may take as long as it needs."""
    late, at_work, early = _opened(connections, 0), _opened(connections, 0, at_work=1), _opened(connections, 5)
    connections.sweep(11)

    assert [late.closing, at_work.closing, early.closing] == [True, False, False]
    assert ended == {"late": 1}


def test_the_connection_with_the_most_bytes_is_ended_beyond_the_bound(
    connections: Connections, ended: Counter[str]
) -> None:
    """Bodies and answers that are not read count together."""
    answered, body = _opened(connections, 1), _opened(connections, 1, at_work=1, kept_bytes=MIB // 2)
    answered.unread_bytes = MIB // 2
    connections.sweep(2)
    assert not ended

    answered.unread_bytes += 1
    connections.sweep(2)
    assert [answered.closing, body.closing] == [True, False]
    assert ended == {"bodies": 1}


def test_a_closed_connection_counts_until_its_answer_is_read(connections: Connections, ended: Counter[str]) -> None:
    """Its client may not read it at all. Then it is ended as late."""
    transport = _opened(connections, 0)
    transport.closing, transport.unread_bytes = True, 100
    connections.sweep(11)

    assert transport.unread_bytes == 0
    assert ended == {"late": 1}


def test_the_server_is_at_work_but_while_it_waits_for_a_body_or_for_the_reading_of_an_answer() -> None:
    """A slow client has no more time than a silent one."""
    connection = Connection(client="", since=0)
    seen: list[int] = []

    async def application(_scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(connection.at_work)
        await receive()
        seen.append(connection.at_work)
        await send({})
        seen.append(connection.at_work)

    async def receive() -> Message:
        seen.append(connection.at_work)
        return {}

    async def send(_message: Message) -> None:
        seen.append(connection.at_work)

    asyncio.run(WatchedRequests(application)({"type": "http", "state": {CONNECTION: connection}}, receive, send))

    assert (seen, connection.at_work) == ([1, 0, 1, 0, 1], 0)


# Connections never take the files of the rest of the daemon.


def test_connections_fit_into_what_may_be_opened() -> None:
    """With 1,024 files as by default; with fewer there are fewer, and always some."""
    for descriptors in (1024, 65_536):
        assert affordable(PortLimits(), descriptors=descriptors).connections == 512
    assert affordable(PortLimits(), descriptors=800).connections + MANAGEMENT_LIMITS.connections < 700
    assert affordable(PortLimits(), descriptors=256).connections == 8
