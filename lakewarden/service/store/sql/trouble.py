"""The border to the databases: what went wrong there becomes an error that says what the caller does next."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import sqlalchemy as sa

from lakewarden.planners.model.errors import LakewardenError, PermanentError, TemporaryError


class AwayError(TemporaryError):
    """The database as a whole did not answer, or could not be written: another call would fare no better now."""


_PATIENCE = timedelta(seconds=5)
_AT_ONCE = timedelta(seconds=1)

_SQLITE_TEMPORARY = {
    sqlite3.SQLITE_BUSY: "another process holds it locked",
    sqlite3.SQLITE_LOCKED: "another connection holds it locked",
    sqlite3.SQLITE_FULL: "its disk is full: free some space",
    sqlite3.SQLITE_READONLY: "it is read-only: let the daemon write the file and its folder",
    sqlite3.SQLITE_CANTOPEN: "its file cannot be opened",
    sqlite3.SQLITE_IOERR: "its disk reports an error",
    sqlite3.SQLITE_PROTOCOL: "its lock cannot be had",
    sqlite3.SQLITE_NOMEM: "there is no memory left",
    sqlite3.SQLITE_INTERRUPT: "it was interrupted",
}
_SQLITE_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)

_POSTGRES_TEMPORARY = {
    "08": "the connection broke",
    "25": "it cannot be written now",
    "40": "others wrote the same at the same time",
    "53": "it has run out of space, memory or connections",
    "55": "somebody else holds what we need locked",
    "57": "it was stopped, or took too long",
    "58": "its machine reports an error",
}
"""PostgreSQL's classes of errors, the first two signs of an SQLSTATE, after which trying again may succeed."""

_POSTGRES_DAMAGE = ("XX001", "XX002")
_POSTGRES_REFUSALS = ("28", "3D", "3F", "42501")
_REFUSED_AT_THE_DOOR = ("authentication failed", "no password supplied", "no pg_hba.conf entry", "does not exist")
"""What a server says of a wrong name or password: a connection that was never made has no SQLSTATE."""


@contextmanager
def translated(store: str) -> Iterator[None]:
    """Raise the databases' errors as ours: TemporaryError, or PermanentError where only a person can help."""
    try:
        yield
    except sa.exc.TimeoutError as crowded:
        raise AwayError(f"the store {store} does not answer: every connection is in use", delay=_PATIENCE) from crowded
    except sa.exc.DBAPIError as trouble:
        ours = _translation(trouble, store)
        if ours is None:  # a mistake of this code, not of the database
            raise
        raise ours from trouble


def _translation(trouble: sa.exc.DBAPIError, store: str) -> LakewardenError | None:
    if isinstance(trouble.orig, sqlite3.Error):
        return _of_sqlite(trouble.orig, store)
    state = getattr(trouble.orig, "sqlstate", None)
    if state is None:
        return _of_connection(trouble, store)
    return _of_postgres(state, trouble.orig, store)


def _of_sqlite(trouble: sqlite3.Error, store: str) -> LakewardenError | None:
    code = getattr(trouble, "sqlite_errorcode", sqlite3.SQLITE_OK) & 0xFF  # the rest of the code says where it happened
    if code in _SQLITE_DAMAGE:
        return _damaged(trouble, store)
    if code in _SQLITE_TEMPORARY:
        return _away(_SQLITE_TEMPORARY[code], trouble, store)
    return None


def _of_postgres(state: str, trouble: BaseException | None, store: str) -> LakewardenError | None:
    if state in _POSTGRES_DAMAGE:
        return _damaged(trouble, store)
    if state.startswith(_POSTGRES_REFUSALS):
        return _refused(trouble, store)
    if state[:2] in _POSTGRES_TEMPORARY:
        delay = _AT_ONCE if state.startswith("40") else _PATIENCE
        return _temporary(_POSTGRES_TEMPORARY[state[:2]], trouble, store, delay=delay)
    return None


def _of_connection(trouble: sa.exc.DBAPIError, store: str) -> LakewardenError | None:
    """Tell of errors that are the driver's own: the server was not there to give them a number."""
    if not isinstance(trouble, sa.exc.OperationalError | sa.exc.InterfaceError):
        return None
    if any(words in str(trouble.orig) for words in _REFUSED_AT_THE_DOOR):
        return _refused(trouble.orig, store)
    return _away("it cannot be reached", trouble.orig, store)


def _away(cause: str, trouble: BaseException | None, store: str) -> AwayError:
    return AwayError(str(_temporary(cause, trouble, store)), delay=_PATIENCE)


def _temporary(
    cause: str, trouble: BaseException | None, store: str, *, delay: timedelta = _PATIENCE
) -> TemporaryError:
    return TemporaryError(f"the store {store} does not answer: {cause} ({_in_one_line(trouble)})", delay=delay)


def _refused(trouble: BaseException | None, store: str) -> PermanentError:
    return PermanentError(
        f"the store {store} does not let us in: correct the database's url, user, password or rights "
        f"({_in_one_line(trouble)})"
    )


def _damaged(trouble: BaseException | None, store: str) -> PermanentError:
    return PermanentError(
        f"the store {store} is damaged: stop the daemon and put its last backup in its place ({_in_one_line(trouble)})"
    )


def _in_one_line(trouble: BaseException | None) -> str:
    return " ".join(str(trouble).split())
