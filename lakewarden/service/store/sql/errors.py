"""The border to the databases: their errors become errors that are named by what the caller does next."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import sqlalchemy as sa

from lakewarden.planners.model.errors import LakewardenError, PermanentError, TemporaryError


class AwayError(TemporaryError):
    """The whole database did not answer, or could not be written. Another call would fail now, too."""


_TIMEOUT = timedelta(seconds=5)
_AT_ONCE = timedelta(seconds=1)

_SQLITE_TEMPORARY = {
    sqlite3.SQLITE_BUSY: "another process holds it locked",
    sqlite3.SQLITE_LOCKED: "another connection holds it locked",
    sqlite3.SQLITE_FULL: "its disk is full: free some space",
    sqlite3.SQLITE_READONLY: "it is read-only: let the daemon write the file and its folder",
    sqlite3.SQLITE_CANTOPEN: "its file cannot be opened",
    sqlite3.SQLITE_IOERR: "its disk reports an error",
    sqlite3.SQLITE_PROTOCOL: "its lock cannot be acquired",
    sqlite3.SQLITE_NOMEM: "there is no memory left",
    sqlite3.SQLITE_INTERRUPT: "it was interrupted",
}
_SQLITE_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)

_POSTGRES_TEMPORARY = {
    "08": "the connection broke",
    "25": "it cannot be written now",
    "40": "others wrote the same at the same time",
    "53": "it has run out of space, memory or connections",
    "55": "another transaction holds the lock",
    "57": "it was stopped, or took too long",
    "58": "its machine reports an error",
}
"""The classes of errors of PostgreSQL (the first two characters of an SQLSTATE) after which a retry may succeed."""

_POSTGRES_DAMAGE = ("XX001", "XX002")
_POSTGRES_REFUSALS = ("28", "3D", "3F", "42501")
_REFUSED_AT_THE_DOOR = ("authentication failed", "no password supplied", "no pg_hba.conf entry", "does not exist")
"""The messages of a server about a wrong name or password. A connection that was never made has no SQLSTATE."""


@contextmanager
def translated(store: str) -> Iterator[None]:
    """Raise errors of databases as TemporaryError, or as PermanentError if only an operator can help."""
    try:
        yield
    except sa.exc.TimeoutError as crowded:
        raise AwayError(f"the store {store} does not answer: every connection is in use", delay=_TIMEOUT) from crowded
    except sa.exc.DBAPIError as error:
        ours = _translation(error, store)
        if ours is None:  # a bug of this code, not an error of the database
            raise
        raise ours from error


def _translation(error: sa.exc.DBAPIError, store: str) -> LakewardenError | None:
    if isinstance(error.orig, sqlite3.Error):
        return _of_sqlite(error.orig, store)
    state = getattr(error.orig, "sqlstate", None)
    if state is None:
        return _of_connection(error, store)
    return _of_postgres(state, error.orig, store)


def _of_sqlite(error: sqlite3.Error, store: str) -> LakewardenError | None:
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_OK) & 0xFF  # the rest of the code says where it happened
    if code in _SQLITE_DAMAGE:
        return _damaged(error, store)
    if code in _SQLITE_TEMPORARY:
        return _away(_SQLITE_TEMPORARY[code], error, store)
    return None


def _of_postgres(state: str, error: BaseException | None, store: str) -> LakewardenError | None:
    if state in _POSTGRES_DAMAGE:
        return _damaged(error, store)
    if state.startswith(_POSTGRES_REFUSALS):
        return _refused(error, store)
    if state[:2] in _POSTGRES_TEMPORARY:
        delay = _AT_ONCE if state.startswith("40") else _TIMEOUT
        return _temporary(_POSTGRES_TEMPORARY[state[:2]], error, store, delay=delay)
    return None


def _of_connection(error: sa.exc.DBAPIError, store: str) -> LakewardenError | None:
    """Translate errors of the driver. Without a server there is no SQLSTATE."""
    if not isinstance(error, sa.exc.OperationalError | sa.exc.InterfaceError):
        return None
    if any(words in str(error.orig) for words in _REFUSED_AT_THE_DOOR):
        return _refused(error.orig, store)
    return _away("it cannot be reached", error.orig, store)


def _away(cause: str, error: BaseException | None, store: str) -> AwayError:
    return AwayError(str(_temporary(cause, error, store)), delay=_TIMEOUT)


def _temporary(cause: str, error: BaseException | None, store: str, *, delay: timedelta = _TIMEOUT) -> TemporaryError:
    return TemporaryError(f"the store {store} does not answer: {cause} ({_in_one_line(error)})", delay=delay)


def _refused(error: BaseException | None, store: str) -> PermanentError:
    return PermanentError(
        f"the store {store} refuses the connection: correct the database's url, user, password or rights "
        f"({_in_one_line(error)})"
    )


def _damaged(error: BaseException | None, store: str) -> PermanentError:
    return PermanentError(
        f"the store {store} is damaged: stop the daemon and replace it by its last backup ({_in_one_line(error)})"
    )


def _in_one_line(error: BaseException | None) -> str:
    return " ".join(str(error).split())
