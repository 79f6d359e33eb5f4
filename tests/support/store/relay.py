"""A TCP port before a server that listens on a socket of the file system; it can fall silent."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


class Relay:
    """Hands on what comes in, in both directions, unless it is `silent`: then nothing comes back."""

    def __init__(self, upstream: Path, listener: socket.socket | None = None) -> None:
        self._upstream = upstream
        self._listener = listener or socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._speaks = threading.Event()
        self._speaks.set()

    def silence(self) -> None:
        """Let no answer through from now on."""
        self._speaks.clear()

    def speak(self) -> None:
        """Let everything through again, what was held back first."""
        self._speaks.set()

    def serve(self) -> None:
        """Serve until the port is closed."""
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.socket(socket.AF_UNIX)
                server.connect(str(self._upstream))
                for source, target, answers in ((client, server, False), (server, client, True)):
                    threading.Thread(target=self._hand_on, args=(source, target, answers), daemon=True).start()

    def close(self) -> None:
        """Close the port."""
        self._speaks.set()
        self._listener.close()

    def _hand_on(self, source: socket.socket, target: socket.socket, answers: bool) -> None:
        with suppress(OSError), source, target:
            while content := source.recv(65536):
                if answers:
                    self._speaks.wait()
                target.sendall(content)


@contextmanager
def relay_to(upstream: Path, *, listener: socket.socket | None = None) -> Iterator[Relay]:
    """Open a relay for as long as the bracket is open: on a port of its own, or on a socket that listens already."""
    relay = Relay(upstream, listener)
    threading.Thread(target=relay.serve, daemon=True).start()
    try:
        yield relay
    finally:
        relay.close()
