"""The exit codes of the command line. Scripts may rely on them."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

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


class Code(IntEnum):
    """How a command has ended."""

    DONE = 0
    NO = 1
    USAGE = 2
    REFUSED = 3
    NOT_FOUND = 4
    AWAY = 5
    CONFLICT = 6
    STRANGE = 7
    INTERRUPTED = 130


MEANINGS: Mapping[Code, str] = {
    Code.DONE: "done",
    Code.NO: "the answer is no: a check of doctor has failed, or the run that was waited for did not succeed",
    Code.USAGE: "an argument, a configuration or a value cannot be used",
    Code.REFUSED: "the key is missing, unknown, or does not have the role",
    Code.NOT_FOUND: "the daemon, the store or the configuration does not know this table, service, run or key",
    Code.AWAY: "no daemon answers, or it cannot answer now: trying again later may help",
    Code.CONFLICT: "it cannot be done now: the message says why",
    Code.STRANGE: "another program answers, a daemon of another version, or the daemon has an internal error",
    Code.INTERRUPTED: "interrupted with Ctrl-C",
}

_OF_ERRORS: Mapping[type[ClientError], Code] = {
    DaemonBusyError: Code.AWAY,
    ConflictError: Code.CONFLICT,
    InvalidError: Code.USAGE,
    NotFoundError: Code.NOT_FOUND,
    NotAllowedError: Code.REFUSED,
    StrangeError: Code.STRANGE,
    DaemonAwayError: Code.AWAY,
}

_REMEDIES: Mapping[type[ClientError], str] = {
    DaemonAwayError: ": start it with 'lakewarden serve', or pass its address with --url",
    StrangeError: ": pass the daemon's address with --url",
}


def code_of(error: ClientError) -> Code:
    """Return the exit code of an error of the client."""
    return _OF_ERRORS[type(error)]


def told(error: ClientError) -> str:
    """Return an error of the client with what to do on the command line."""
    if error.status == 401 and error.problem is not None:
        return f"{error.problem['detail']}: give an API key with --key-file, or in LAKEWARDEN_KEY"
    remedy = _REMEDIES.get(type(error), "") if error.problem is None else ""
    return f"{error}{remedy}"
