"""The rows of a catalog that is in a database. They are only read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from lakewarden.planners.databases.engines import JdbcDatabase, engine_of
from lakewarden.planners.model.errors import LakewardenError, PermanentError, TemporaryError

_REFUSALS = ("28", "3D", "3F", "42501")
"""PostgreSQL's error codes for a wrong user, password, database or schema, and for a missing right (appendix A of its
manual)."""

_REFUSED_AT_THE_DOOR = ("authentication failed", "no password supplied", "no pg_hba.conf entry", "does not exist")
"""The same errors before there is a connection. They have no code."""

_UNDEFINED_TABLE = "42P01"
_NO_SUCH_TABLE = ("no such table", "(1146,")
"""The same error of SQLite and MySQL."""

_DAMAGED = ("file is not a database", "malformed")


@dataclass(frozen=True, kw_only=True, slots=True)
class RowErrors:
    """What a format raises: if the login is refused, and if there is no answer. `correct` says what to do if the
    database has no such table.
    """

    correct: str
    login_refused: Callable[[str], LakewardenError] = PermanentError
    unanswered: Callable[[str], LakewardenError] = TemporaryError


class CatalogRows:
    """The rows of the `table` of one catalog. Any thread may use it."""

    def __init__(self, name: str, settings: JdbcDatabase, *, table: str, errors: RowErrors) -> None:
        """Prepare the engine without a connection. Raises PermanentError if the driver is not installed or the secret
        is missing.
        """
        self._name = name
        self._table = table
        self._errors = errors
        self._engine = engine_of(name, settings)

    def select(self, statement: sa.TextClause, **values: str) -> Sequence[Mapping[str, Any]]:
        """Return the rows that a statement finds. It takes one query.

        Raises PermanentError if the table is missing or the database is damaged, and what `errors` says.
        """
        try:
            with self._engine.connect() as connection:
                return [dict(row) for row in connection.execute(statement, values).mappings()]
        except sa.exc.TimeoutError as crowded:
            raise self._errors.unanswered(
                f"the catalog {self._name} does not answer: its connections are in use"
            ) from crowded
        except sa.exc.DBAPIError as error:
            raise self._translated(error) from error

    def _translated(self, error: sa.exc.DBAPIError) -> LakewardenError:
        text = " ".join(str(error.orig).split())
        code = str(getattr(error.orig, "sqlstate", None) or "")
        if code == _UNDEFINED_TABLE or any(words in text for words in _NO_SUCH_TABLE):
            return PermanentError(
                f"the database of the catalog {self._name} has no table {self._table}: {self._errors.correct}"
            )
        if code.startswith(_REFUSALS) or (not code and any(words in text for words in _REFUSED_AT_THE_DOOR)):
            where = f"catalogs.{self._name}"
            return self._errors.login_refused(
                f"the catalog {self._name} rejects our credentials: check {where}.user and {where}.password ({text})"
            )
        if any(words in text for words in _DAMAGED):
            return PermanentError(
                f"the database of the catalog {self._name} is damaged: restore it from a backup ({text})"
            )
        return self._errors.unanswered(f"the catalog {self._name} does not answer: {text}")
