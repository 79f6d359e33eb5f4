"""Which replica owns each table at each moment, by the store; and how long each table had none that lives."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Mapping
from urllib.parse import urlsplit

from tests.support.store.postgres import PostgresServer

_EVERY_SECONDS = 0.1
_OWNERS = """
    SELECT shares.location, replicas.id, replicas.url FROM shares JOIN replicas ON replicas.id = shares.replica
    WHERE replicas.ended_at IS NULL AND replicas.lease_until > now()
"""


class Attendance(threading.Thread):
    """Looks at the store all the time, until it is told to end."""

    def __init__(self, server: PostgresServer, database: str, locations: Collection[str]) -> None:
        super().__init__(name="attendance", daemon=True)
        self._server = server
        self._database = database
        self._over = threading.Event()
        self._changing = threading.Lock()
        self._dead: set[str] = set()
        self._owners: dict[str, str] = {}
        self._pods: dict[str, str] = {}
        self._since = dict.fromkeys(locations, time.monotonic())
        self._gaps = dict.fromkeys(locations, 0.0)

    @property
    def owners(self) -> Mapping[str, str]:
        """The pod that owns each table now, by the table's location."""
        with self._changing:
            return {location: self._pods[replica] for location, replica in self._owners.items()}

    def died(self, pod: str) -> Collection[str]:
        """Take note that the pod was just killed: its lease runs on, and it attends to nothing. Return its tables."""
        with self._changing:
            self._dead |= {replica for replica, its in self._pods.items() if its == pod}
            return [location for location, replica in self._owners.items() if replica in self._dead]

    def begin(self) -> None:
        """Measure from now on."""
        with self._changing:
            self._gaps = dict.fromkeys(self._gaps, 0.0)
            self._since = dict.fromkeys(self._since, time.monotonic())

    def longest_gap(self) -> float:
        """Return the longest time, in seconds, that any table was without a living owner. It may last until now."""
        with self._changing:
            return max([*self._gaps.values(), *(time.monotonic() - since for since in self._since.values())])

    def run(self) -> None:
        """Look until the end."""
        while not self._over.wait(_EVERY_SECONDS):
            rows = self._server.execute(self._database, _OWNERS)
            now = time.monotonic()
            with self._changing:
                self._pods |= {replica: (urlsplit(url).hostname or "").split(".")[0] for _, replica, url in rows}
                self._owners = {location: replica for location, replica, _ in rows if replica not in self._dead}
                for location in self._owners:
                    self._gaps[location] = max(self._gaps[location], now - self._since[location])
                    self._since[location] = now

    def end(self) -> None:
        """Look no more."""
        self._over.set()
        self.join(timeout=30)
