"""What the errors of databases mean for a catalog that is in them."""

from __future__ import annotations

from enum import StrEnum

import sqlalchemy as sa

_REFUSALS = ("28", "3D", "3F", "42501")
"""PostgreSQL's error codes for a wrong user, password, database or schema, and for a missing right (appendix A of its
manual)."""

_REFUSED_AT_THE_DOOR = ("authentication failed", "no password supplied", "no pg_hba.conf entry", "does not exist")
"""The same errors before there is a connection. They have no code."""

_UNDEFINED_TABLE = "42P01"
_NO_SUCH_TABLE = ("no such table", "(1146,")
"""The same error of SQLite and MySQL."""

_DAMAGED = ("file is not a database", "malformed")


class Failure(StrEnum):
    """What is wrong: a table of the catalog is not there, the login is refused, the file is damaged, or there is no
    answer.
    """

    NO_SUCH_TABLE = "no_such_table"
    REFUSED = "refused"
    DAMAGED = "damaged"
    NO_ANSWER = "no_answer"


def failure_of(error: sa.exc.DBAPIError) -> tuple[Failure, str]:
    """Return what an error means, and its text in one line. Pure."""
    text = " ".join(str(error.orig).split())
    code = str(getattr(error.orig, "sqlstate", None) or "")
    if code == _UNDEFINED_TABLE or any(words in text for words in _NO_SUCH_TABLE):
        return Failure.NO_SUCH_TABLE, text
    if code.startswith(_REFUSALS) or (not code and any(words in text for words in _REFUSED_AT_THE_DOOR)):
        return Failure.REFUSED, text
    if any(words in text for words in _DAMAGED):
        return Failure.DAMAGED, text
    return Failure.NO_ANSWER, text
