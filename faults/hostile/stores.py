"""Object stores that hang, answer slowly or break off, and one that works, all in front of one S3 server."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.polling.quiet_tables import write_quiet_table
from tests.support.object_stores.fault_proxy import FaultProxy, Spoiling, StoreFault
from tests.support.object_stores.s3_server import BUCKET, S3Server

_TIMEOUT = "10s"
_ANYTHING = re.compile("")
_FAULTS: Mapping[str, StoreFault] = {
    "slow": StoreFault.SLOW_BODY,
    "cut": StoreFault.TRUNCATED_BODY,
    "reset": StoreFault.RESET,
}


class BlackHole:
    """A port that accepts every connection, and never answers."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self._held: list[socket.socket] = []
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._hold, name="black-hole", daemon=True).start()

    def close(self) -> None:
        """Close the port and every connection."""
        self._listener.close()
        for one in self._held:
            one.close()

    def _hold(self) -> None:
        with suppress(OSError):
            while True:
                self._held.append(self._listener.accept()[0])


@dataclass(frozen=True, kw_only=True)
class Stores:
    """The stores' settings, and the tables that lie in them. `good` are the tables in the store that works."""

    settings: Sequence[Mapping[str, Any]] = ()
    good: Sequence[Mapping[str, Any]] = ()
    hanging: Sequence[Mapping[str, Any]] = field(default_factory=list)


@contextmanager
def bad_stores(folder: Path, *, tables: int, poll: str) -> Iterator[Stores]:
    """Provide the stores for as long as the context is open, with so many tables in each bad one."""
    folder.mkdir()
    with ExitStack() as ends:
        server = S3Server(folder)
        ends.callback(server.stop)
        server.start()
        write_quiet_table(folder / "table")
        hole = BlackHole()
        ends.callback(hole.close)
        ports = {"silent": hole.port}
        for name, fault in _FAULTS.items():
            server.files().mkdir(name)
            proxy = ends.enter_context(FaultProxy(upstream=server.port).running())
            proxy.spoiling = Spoiling(fault=fault, requests=_ANYTHING, keys=_ANYTHING)
            ports[name] = proxy.port
        for number in range(2):
            server.upload(folder / "table", f"t{number}")
        yield Stores(
            settings=[_setting(server, BUCKET, server.port), *(_setting(server, *one) for one in ports.items())],
            good=[_entry("stored", BUCKET, number, poll) for number in range(2)],
            hanging=[_entry("hanging", name, number, poll) for name in ports for number in range(tables)],
        )


def _setting(server: S3Server, bucket: str, port: int) -> Mapping[str, Any]:
    said = server.store(prefix=f"s3://{bucket}", endpoint=f"http://127.0.0.1:{port}", timeout=_TIMEOUT)
    keys = {key: {"file": str(secret.file)} for key in ("access_key", "secret_key") if (secret := getattr(said, key))}
    return {
        "prefix": f"s3://{bucket}",
        "endpoint": f"http://127.0.0.1:{port}",
        "path_style": True,
        "timeout": _TIMEOUT,
        **keys,
    }


def _entry(kind: str, bucket: str, number: int, poll: str) -> Mapping[str, Any]:
    return {
        "id": f"{kind}.{bucket}-{number}",
        "format": "hudi",
        "path": f"s3://{bucket}/t{number}",
        "mode": "observe",
        "poll": poll,
    }
