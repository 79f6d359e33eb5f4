"""How often a node's children came and went, read from ZooKeeper itself: two requests on a session that kazoo keeps.

Only `sync` and `exists` are sent. Neither needs a permission on the node. `sync` comes first, because a follower may
lag behind a writer.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import ConnectionLoss, KazooException, NoNodeError, SessionExpiredError
from kazoo.handlers.threading import KazooTimeoutError

from lakewarden.planners.model.errors import TemporaryError

TIMEOUT_SECONDS = 0.5
"""How long a server may take to accept a connection, or to answer."""

RESTS = timedelta(seconds=10)
"""A server that did not answer is not waited for again for this long: every observation would wait for it."""

_SESSION_SECONDS = 10.0
_CONNECTS_AGAIN = {"max_tries": -1, "delay": 0.05, "max_delay": 5.0}
_QUIET = logging.getLogger("lakewarden.kazoo")
_QUIET.setLevel(logging.CRITICAL)  # that a server does not answer is said where it is asked


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
    """The servers of one `url`. The session is opened at the first request and kept. Any thread may use it."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._client = KazooClient(
            hosts=url,
            timeout=_SESSION_SECONDS,
            randomize_hosts=False,
            connection_retry=_CONNECTS_AGAIN,
            logger=_QUIET,
        )
        self._starting = threading.Lock()
        self._is_started = False
        self._connected = threading.Event()
        self._client.add_listener(self._hear)
        self._rests_until = float("-inf")

    def node(self, path: str) -> Node | None:
        """Return a node; None if there is none. Raises TemporaryError if no server answers."""
        self._start()
        try:
            return self._node(path)
        except (ConnectionLoss, SessionExpiredError):
            pass  # a server ends an idle session: kazoo opens another one, and what is asked meanwhile waits for it
        except KazooTimeoutError as error:
            raise self._silent() from error
        except KazooException as error:
            raise TemporaryError(f"ZooKeeper at {self._url} refuses access: {type(error).__name__}") from error
        try:
            return self._node(path)
        except (KazooException, KazooTimeoutError) as error:
            raise self._silent() from error

    def _start(self) -> None:
        with self._starting:
            if not self._is_started:
                self._client.start_async()
                self._is_started = True

    def _hear(self, state: str) -> None:
        if state == KazooState.CONNECTED:
            self._connected.set()
        else:
            self._connected.clear()

    def _node(self, path: str) -> Node | None:
        rests = time.monotonic() < self._rests_until
        if not self._connected.wait(0 if rests else TIMEOUT_SECONDS):
            raise self._silent()
        try:
            self._client.sync_async(path).get(timeout=TIMEOUT_SECONDS)
            stat: Any = self._client.exists_async(path).get(timeout=TIMEOUT_SECONDS)
        except NoNodeError:
            return None
        if stat is None:
            return None
        # The cversion that is shown is twice the children made, less those that are there (`DataNode.copyStat`).
        made = ((stat.cversion + stat.numChildren) % 2**32) // 2
        created = datetime.fromtimestamp(stat.ctime / 1000, tz=UTC)
        return Node(created=created, number=stat.czxid, made=made, children=stat.numChildren)

    def _silent(self) -> TemporaryError:
        now = time.monotonic()
        if now >= self._rests_until:
            self._rests_until = now + RESTS.total_seconds()
        return TemporaryError(f"ZooKeeper at {self._url} does not answer")
