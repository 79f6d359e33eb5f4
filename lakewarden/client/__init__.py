"""The client of the API, for Python: `Client(url, key=...)` has a method for each operation.

It is generated from docs/openapi.json, and needs the standard library only. docs/cli.md has an example.
"""

from lakewarden.client.operations import Operations as Client
from lakewarden.client.transport import (
    ClientError,
    ConflictError,
    DaemonAwayError,
    DaemonBusyError,
    InvalidError,
    NotAllowedError,
    NotFoundError,
    StrangeError,
)

__all__ = [
    "Client",
    "ClientError",
    "ConflictError",
    "DaemonAwayError",
    "DaemonBusyError",
    "InvalidError",
    "NotAllowedError",
    "NotFoundError",
    "StrangeError",
]
