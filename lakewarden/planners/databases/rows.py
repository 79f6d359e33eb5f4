"""The rows of a catalog that is in a database. They are only read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, assert_never

import sqlalchemy as sa

from lakewarden.planners.databases.engines import JdbcDatabase, engine_of
from lakewarden.planners.databases.failures import Failure, failure_of
from lakewarden.planners.model.errors import LakewardenError, PermanentError, TemporaryError


@dataclass(frozen=True, kw_only=True, slots=True)
class RowErrors:
    """What a format raises: if all connections are in use, if the login is refused, and if there is no answer.

    `correct` says what to do if the database has no such table.
    """

    correct: str
    busy: Callable[[str], LakewardenError] = TemporaryError
    login_refused: Callable[[str], LakewardenError] = PermanentError
    unreachable: Callable[[str], LakewardenError] = TemporaryError


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
            raise self._errors.busy(
                f"the catalog {self._name} does not answer: its connections are in use"
            ) from crowded
        except sa.exc.DBAPIError as error:
            raise self._translated(error) from error

    def _translated(self, error: sa.exc.DBAPIError) -> LakewardenError:
        failure, text = failure_of(error)
        match failure:
            case Failure.NO_SUCH_TABLE:
                return PermanentError(
                    f"the database of the catalog {self._name} has no table {self._table}: {self._errors.correct}"
                )
            case Failure.REFUSED:
                where = f"catalogs.{self._name}"
                return self._errors.login_refused(
                    f"the catalog {self._name} refuses us: see {where}.user and {where}.password ({text})"
                )
            case Failure.DAMAGED:
                return PermanentError(
                    f"the database of the catalog {self._name} is damaged: restore it from a backup ({text})"
                )
            case Failure.NO_ANSWER:
                return self._errors.unreachable(f"the catalog {self._name} does not answer: {text}")
            case _:
                assert_never(failure)
