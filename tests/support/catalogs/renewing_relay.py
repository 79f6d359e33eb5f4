"""A relay before a REST catalog, which adds what that lacks and others have: an address for new credentials, and a life
of seconds for those that it hands out. They would be of use for longer, which no client is told.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import requests

from tests.support.serving import Handler, serving

_DELEGATION = {"X-Iceberg-Access-Delegation": "vended-credentials"}
_ENDS_AT = "s3.session-token-expires-at-ms"
_KEPT = ("Authorization", "Content-Type", "X-Iceberg-Access-Delegation")


class RenewingRelay:
    """The relay. `renewals` are the moments at which new credentials were asked for, in seconds since the epoch."""

    def __init__(self, uri: str, *, life: float) -> None:
        self.target = uri
        self.life = life
        self.port = 0
        self.renewals: list[float] = []

    @property
    def uri(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"


@contextmanager
def renewing(uri: str, *, life: float) -> Iterator[RenewingRelay]:
    """Start a relay to the catalog at `uri`, whose credentials live for so many seconds."""
    relay = RenewingRelay(uri, life=life)
    with serving(_handler(relay)) as relay.port:
        yield relay


def _handler(relay: RenewingRelay) -> type[Handler]:
    class Relaying(Handler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            path, _, _ = self.path.partition("?")
            if path.endswith("/credentials"):
                relay.renewals.append(time.time())
                told = self._asked("GET", path.removesuffix("/credentials"), _DELEGATION).json()
                self._answer(200, {"storage-credentials": self._ending(told["storage-credentials"])})
                return
            self._relayed("GET")

        def do_HEAD(self) -> None:
            self._relayed("HEAD")

        def do_POST(self) -> None:
            self._relayed("POST")

        def do_DELETE(self) -> None:
            self._relayed("DELETE")

        def _relayed(self, method: str) -> None:
            answer = self._asked(method, self.path, {})
            told = answer.json() if answer.content else None
            if isinstance(told, dict) and told.get("storage-credentials"):
                path = self.path.partition("?")[0].lstrip("/")
                told["config"]["client.refresh-credentials-endpoint"] = f"{path}/credentials"
                told["config"][_ENDS_AT] = self._end()
                self._ending(told["storage-credentials"])
            self._answer(answer.status_code, told)

        def _ending(self, credentials: list[dict[str, Any]]) -> list[dict[str, Any]]:
            for one in credentials:
                one["config"][_ENDS_AT] = self._end()
            return credentials

        def _end(self) -> str:
            return str(int((time.time() + relay.life) * 1000))

        def _asked(self, method: str, path: str, more: dict[str, str]) -> requests.Response:
            headers = {key: self.headers[key] for key in _KEPT if key in self.headers} | more
            return requests.request(method, relay.target + path, headers=headers, data=self.body(), timeout=30)

        def _answer(self, status: int, told: Any) -> None:
            content = b"" if told is None else json.dumps(told).encode()
            self.answer(status, content, {"Content-Type": "application/json"})

    return Relaying
