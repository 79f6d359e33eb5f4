"""What may happen instead of an answer of a daemon.

ClientError
├─ DaemonAwayError    no daemon answers; trying again later may succeed
├─ DaemonBusyError    the daemon answers, and has no time or no owner of the table now; trying again later may succeed
├─ NotAllowedError    the key is missing, unknown, or does not have the role
├─ NotFoundError      there is no such table, service, run or hold
├─ ConflictError      it cannot be done now; the detail says why
├─ InvalidError       a value of the request is invalid
└─ StrangeError       another program answers, or a daemon of another version, or the daemon has an internal error
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lakewarden.client.bodies import ProblemBody


class ClientError(Exception):
    """The base of every error of the client. `problem` is the body of the error, if a daemon has sent one."""

    def __init__(self, message: str, *, status: int | None = None, problem: ProblemBody | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.problem = problem


class DaemonAwayError(ClientError):
    """No daemon answers. Trying again later may succeed. `broke`: the connection was there, and broke."""

    def __init__(self, message: str, *, broke: bool = False) -> None:
        super().__init__(message)
        self.broke = broke


class DaemonBusyError(ClientError):
    """The daemon cannot answer now (429, 503). Trying again later may succeed."""


class NotAllowedError(ClientError):
    """The key is missing or unknown (401), or does not have the role for this (403)."""


class NotFoundError(ClientError):
    """There is no such table, service, run or hold (404)."""


class ConflictError(ClientError):
    """It cannot be done now (409, 412)."""


class InvalidError(ClientError):
    """A value of the request is invalid, or too long (400, 413, 414, 422, 431)."""


class StrangeError(ClientError):
    """The answer is not that of a daemon of this version, or the daemon has an internal error (500)."""
