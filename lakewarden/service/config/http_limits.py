"""What clients may have of a port: connections, bytes, requests and time."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from lakewarden.planners.settings import Duration, Settings, Size, Within

HEAD_BYTES = 16 * 2**10
"""The request line and the headers of a request, together."""

HEADERS = 100
URL_BYTES = 8 * 2**10

BODY_BYTES = 8 * 2**20
"""A commit callback has some hundred bytes for each file that was written: only its beginning is kept."""

BURST_SECONDS = 10
"""A sender that was silent for as long may send all that it has saved up at once."""


Patience = Annotated[Duration, Within("100ms", "10m")]
"""How long a client is waited for."""


class LimitSettings(Settings):
    """What clients may have of a port. A sender is an address, of IPv6 its /64; a proxy is one sender."""

    connections: Annotated[int, Within(8, 60_000)] = 512
    """Connections at a time. Where there is no room, the one that has kept us waiting for the longest is closed, of the
    sender that has most. It is lowered where the process may not open as many files."""

    connections_by_sender: Annotated[int, Within(1, 60_000)] = 128
    """Connections of one sender at a time."""

    requests_by_sender: Annotated[int, Within(1, 1_000_000)] = 300
    """Requests of one sender in a second, on average over ten seconds; beyond it the answer is 429."""

    bodies: Annotated[Size, Within("1MiB", "64GiB")] = Field(default="64MiB", validate_default=True)
    """Bytes that all requests and all answers that are not read may occupy together. Beyond it the largest one is
    refused."""

    first_byte: Patience = Field(default="5s", validate_default=True)
    """A connection that says nothing for this long is closed."""

    head: Patience = Field(default="10s", validate_default=True)
    """A request line with its headers is there by then, or refused."""

    body: Patience = Field(default="30s", validate_default=True)
    """A body is there by then, or refused."""

    idle: Patience = Field(default="15s", validate_default=True)
    """A connection without a further request for this long is closed."""

    unread: Patience = Field(default="30s", validate_default=True)
    """An answer that its client does not take for this long is given up."""


MANAGEMENT_LIMITS = LimitSettings(connections=64, connections_by_sender=48)
"""Probes and scrapes come from few, and are never told to come later."""
