"""A server that answers what we ask of ZooKeeper, about one node that keeps its counts: without a JVM."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_LENGTH = struct.Struct("!i")


class ZookeeperNode:
    """One node, of any name, and the children that came and went below it."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._connections: list[socket.socket] = []
        self.made = 0
        self.children = 0
        self.there = True
        self.asked = 0

    @property
    def address(self) -> str:
        """`host:port`."""
        host, port = self._listener.getsockname()
        return f"{host}:{port}"

    def taken(self) -> None:
        """Let a client take the lock, and let it go."""
        self.made += 1

    def hang_up(self) -> None:
        """End every session, as a server does that is idle for long."""
        for connection in self._connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def serve(self) -> None:
        """Take connections until the listener is closed."""
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self._connections.append(connection)
                threading.Thread(target=self._talk, args=(connection,), daemon=True).start()

    def _talk(self, connection: socket.socket) -> None:
        with connection, suppress(OSError, struct.error):
            self._read(connection)
            self._send(connection, struct.pack("!iiqi16s?", 0, 30_000, 1, 16, bytes(16), False))
            while True:
                request = self._read(connection)
                xid, operation = struct.unpack_from("!ii", request)
                self.asked += operation == 3
                error = -101 if operation == 3 and not self.there else 0
                answer = struct.pack("!iqi", xid, 1, error)
                path = request[8:] if operation == 9 else b""
                self._send(connection, answer + path + (self._stat() if operation == 3 and self.there else b""))

    def _stat(self) -> bytes:
        shown = 2 * self.made - self.children
        return struct.pack("!qqqqiiiqiiq", 5, 5, 1_700_000_000_000, 0, 0, shown, 0, 0, 0, self.children, 9)

    def _read(self, connection: socket.socket) -> bytes:
        (length,) = _LENGTH.unpack(connection.recv(4, socket.MSG_WAITALL))
        return connection.recv(length, socket.MSG_WAITALL)

    def _send(self, connection: socket.socket, content: bytes) -> None:
        connection.sendall(_LENGTH.pack(len(content)) + content)


@contextmanager
def zookeeper_node() -> Iterator[ZookeeperNode]:
    """Serve a node for as long as the bracket is open."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        node = ZookeeperNode(listener)
        threading.Thread(target=node.serve, daemon=True).start()
        yield node
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
