"""The limits of a port for its clients: connections, bytes, requests and time."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from lakewarden.planners.settings import Duration, Settings, Size, Within

HEAD_BYTES = 16 * 2**10
"""The limit for the request line and the headers of a request together, in bytes."""

HEADERS = 100
URL_BYTES = 8 * 2**10

BODY_BYTES = 8 * 2**20
"""The limit for a body, in bytes. A commit callback has some hundred bytes for each file that was written. Only its
beginning is kept.
"""

BURST_SECONDS = 10
"""How many seconds of its rate a sender that was silent may send at once."""


Timeout = Annotated[Duration, Within("100ms", "10m")]
"""How long the server waits for a client."""


class LimitSettings(Settings):
    """The limits of a port for its clients. A sender is an IPv4 address, or an IPv6 /64. A proxy is one sender."""

    connections: Annotated[int, Within(8, 60_000)] = 512
    """Connections at a time. If there is no room, the server closes the connection that it has waited for longest, of
    the sender with the most connections. If the process may not open so many files, the limit is lower.
    """

    connections_by_sender: Annotated[int, Within(1, 60_000)] = 128
    """Connections of one sender at a time."""

    requests_by_sender: Annotated[int, Within(1, 1_000_000)] = 300
    """Requests of one sender in a second, on average over ten seconds. Beyond it the answer is 429."""

    bodies: Annotated[Size, Within("1MiB", "64GiB")] = Field(default="64MiB", validate_default=True)
    """Bytes that all requests, and all answers that are not read, may occupy together. Beyond it the largest one is
    refused.
    """

    first_byte: Timeout = Field(default="5s", validate_default=True)
    """A connection that sends nothing for this long is closed."""

    head: Timeout = Field(default="10s", validate_default=True)
    """If the request line and the headers take longer, the request is refused."""

    body: Timeout = Field(default="30s", validate_default=True)
    """If the body takes longer, the request is refused."""

    idle: Timeout = Field(default="15s", validate_default=True)
    """A connection without a further request for this long is closed."""

    unread: Timeout = Field(default="30s", validate_default=True)
    """An answer that its client does not read for this long is given up."""


MANAGEMENT_LIMITS = LimitSettings(connections=64, connections_by_sender=48)
"""Probes and scrapes come from few senders, and their rate has no limit."""
