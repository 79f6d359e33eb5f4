"""The locks of tables at rest, taken in ZooKeeper as often as their writers took them. A copied table has its commits,
and the lock of its seed. So each copy has a node of its own, which was there before the first commit.

The requests are those of ZooKeeper's `zookeeper.jute`: create (1) and delete (2).
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager

_CREATE, _DELETE = 1, 2
_EXISTS_ALREADY = -110
_PERSISTENT, _EPHEMERAL_SEQUENTIAL = 0, 3
_EVERYBODY = struct.pack("!ii", 1, 31) + b"\0\0\0\5world\0\0\0\6anyone"


class LockNodes:
    """One session with a ZooKeeper."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._asked = 0
        connection.sendall(_framed(struct.pack("!iqiqi", 0, 0, 30_000, 0, 16) + bytes(16) + b"\0"))
        self._read()

    def make(self, path: str) -> None:
        """Create a node with all that are above it."""
        names = path.strip("/").split("/")
        for depth in range(1, len(names) + 1):
            self._create("/" + "/".join(names[:depth]), _PERSISTENT)

    def take(self, path: str, times: int) -> None:
        """Take the lock and let it go, so many times."""
        for _ in range(times):
            child = self._create(f"{path}/lock-", _EPHEMERAL_SEQUENTIAL)
            self._ask(_DELETE, _text(child) + struct.pack("!i", -1))

    def _create(self, path: str, flags: int) -> str:
        body = _text(path) + struct.pack("!i", 0) + _EVERYBODY + struct.pack("!i", flags)
        answer = self._ask(_CREATE, body)
        return answer[4:].decode() if answer else path

    def _ask(self, operation: int, body: bytes) -> bytes:
        self._asked += 1
        self._connection.sendall(_framed(struct.pack("!ii", self._asked, operation) + body))
        answer = self._read()
        _, _, error = struct.unpack_from("!iqi", answer)
        if error not in (0, _EXISTS_ALREADY):
            raise OSError(f"ZooKeeper answers {error}")
        return answer[16:]

    def _read(self) -> bytes:
        (length,) = struct.unpack("!i", self._exactly(4))
        return self._exactly(length)

    def _exactly(self, size: int) -> bytes:
        content = b""
        while len(content) < size:
            part = self._connection.recv(size - len(content))
            if not part:
                raise OSError("ZooKeeper closed the connection")
            content += part
        return content


@contextmanager
def lock_nodes(port: int) -> Iterator[LockNodes]:
    """Open a session."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        yield LockNodes(connection)


def _text(value: str) -> bytes:
    return struct.pack("!i", len(value)) + value.encode()


def _framed(content: bytes) -> bytes:
    return struct.pack("!i", len(content)) + content
