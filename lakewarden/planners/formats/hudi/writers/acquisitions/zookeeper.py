"""How often a node's children came and went, read from ZooKeeper itself: two requests on a connection that is kept.

Only `sync` and `exists` are sent, as ZooKeeper's own `zookeeper.jute` and `ZooDefs.OpCode` (3.4 to 3.9) write them.
Neither needs a permission on the node. `sync` comes first, because a follower may lag behind a writer.
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from lakewarden.planners.model.errors import TemporaryError

TIMEOUT_SECONDS = 0.5
"""How long a server may take to accept a connection, or to answer."""

RESTS = timedelta(seconds=10)
"""A server that did not answer is not asked again for this long: every observation would wait for it."""

_SESSION_MILLISECONDS = 30_000
_LARGEST_ANSWER = 4096
_NOT_READ_ONLY = False
_EXISTS, _SYNC = 3, 9
_NO_NODE = -101
_CONNECT = struct.Struct("!iqiqi16s?")
_HEADER = struct.Struct("!ii")
_REPLY = struct.Struct("!iqi")
_LENGTH = struct.Struct("!i")
_STAT = struct.Struct("!qqqqiiiqiiq")


@dataclass(frozen=True, kw_only=True, slots=True)
class Node:
    """A node: when it was made (on the server's clock), the number that tells it from another of the same name, how
    many children were made below it, and how many are there now.
    """

    created: datetime
    number: int
    made: int
    children: int


class Ensemble:
    """The servers of one `url`. Requests are made one at a time, on a connection that is kept. Any thread may
    use it.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._servers = [(host, int(port)) for host, _, port in (one.rpartition(":") for one in url.split(","))]
        self._one_at_a_time = threading.Lock()
        self._connection: _Connection | None = None
        self._error = ""
        self._rests_until = float("-inf")

    def node(self, path: str) -> Node | None:
        """Return a node; None if there is none. Raises TemporaryError if no server answers."""
        with self._one_at_a_time:
            if time.monotonic() < self._rests_until:
                raise TemporaryError(self._error)
            try:
                return self._asked(path)
            except OSError as error:
                self._error = f"ZooKeeper at {self._url} does not answer: {error}"
                self._rests_until = time.monotonic() + RESTS.total_seconds()
                raise TemporaryError(self._error) from error

    def _asked(self, path: str) -> Node | None:
        """Ask on the existing connection, and once more on a new one: a server ends an idle session."""
        if self._connection is not None:
            try:
                return self._connection.node(path)
            except OSError:
                self._part()
        self._connection = self._connect()
        try:
            return self._connection.node(path)
        except BaseException:
            self._part()
            raise

    def _part(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def _connect(self) -> _Connection:
        last = OSError("it has no servers")
        for host, port in self._servers:
            try:
                return _Connection(host, port)
            except OSError as error:
                last = error
        raise last


class _Connection:
    """A session with one server. Not thread-safe."""

    def __init__(self, host: str, port: int) -> None:
        self._socket = socket.create_connection((host, port), timeout=TIMEOUT_SECONDS)
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._send(_CONNECT.pack(0, 0, _SESSION_MILLISECONDS, 0, 16, bytes(16), _NOT_READ_ONLY))
            self._receive()
        except BaseException:
            self.close()
            raise
        self._xid = 0

    def node(self, path: str) -> Node | None:
        """Return a node; None if there is none. Raises OSError, and TemporaryError for any other answer."""
        text = path.encode()
        name = _LENGTH.pack(len(text)) + text
        self._ask(_SYNC, name)
        stat = self._ask(_EXISTS, name + b"\0")
        if stat is None:
            return None
        czxid, _, ctime, _, _, cversion, _, _, _, children, _ = _STAT.unpack_from(stat)
        # The cversion that is shown is twice the children made, less those that are there (`DataNode.copyStat`).
        made = ((cversion + children) % 2**32) // 2
        return Node(created=datetime.fromtimestamp(ctime / 1000, tz=UTC), number=czxid, made=made, children=children)

    def close(self) -> None:
        """Close the connection; the session ends by itself."""
        with suppress(OSError):
            self._socket.close()

    def _ask(self, operation: int, payload: bytes) -> bytes | None:
        self._xid += 1
        self._send(_HEADER.pack(self._xid, operation) + payload)
        answer = self._receive()
        xid, _, error = _REPLY.unpack_from(answer)
        if xid != self._xid:
            raise OSError(f"answer {xid} where {self._xid} was asked")
        if error == _NO_NODE:
            return None
        if error != 0:
            raise TemporaryError(f"ZooKeeper answers with its error {error}")
        return answer[_REPLY.size :]

    def _send(self, message: bytes) -> None:
        self._socket.sendall(_LENGTH.pack(len(message)) + message)

    def _receive(self) -> bytes:
        (length,) = _LENGTH.unpack(self._read(_LENGTH.size))
        if not 0 <= length <= _LARGEST_ANSWER:
            raise OSError(f"an answer of {length} bytes is none of ZooKeeper's")
        return self._read(length)

    def _read(self, size: int) -> bytes:
        content = b""
        while len(content) < size:
            part = self._socket.recv(size - len(content))
            if not part:
                raise OSError("the server closed the connection")
            content += part
        return content
