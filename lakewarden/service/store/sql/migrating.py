"""The schema: a new store is created in one transaction, and an older one is upgraded step by step. Each step is one
transaction, so an interrupted upgrade can go on.
"""

from __future__ import annotations

import sqlite3
import uuid

import alembic.command
import alembic.config
import sqlalchemy as sa
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory

from lakewarden.planners.model.errors import PermanentError
from lakewarden.service.store.sql import schema

_ONE_AT_A_TIME = int.from_bytes(b"lakeward")
"""The key of the advisory lock of PostgreSQL for changes of the schema."""


def migrate(engine: sa.Engine, *, name: str, elsewhere: str) -> None:
    """Create the schema, or upgrade it to the version of this code. If several replicas start, one does it, and the
    others wait.

    Raises PermanentError if the schema is newer than this code. The error names the store, and what to do `elsewhere`.
    """
    config = _config()
    script = ScriptDirectory.from_config(config)
    while True:
        with engine.execution_options(writing=True).begin() as connection:
            _wait_for_the_others(connection)
            current = MigrationContext.configure(connection).get_current_revision()
            if current == script.get_current_head():
                return
            if current is not None:
                check_known(current, name=name, elsewhere=f"{elsewhere}, or restore its last backup")
            config.attributes["connection"] = connection
            try:
                if current is None:
                    _create(connection)
                    alembic.command.stamp(config, "head")
                else:
                    alembic.command.upgrade(config, "+1")
            except sa.exc.DBAPIError as error:
                if not _of_another_program(error):
                    raise
                raise PermanentError(
                    f"the store {name} has tables of another program, or was changed by one ({error.orig}): {elsewhere}"
                ) from error


def check_known(schema: str, *, name: str, elsewhere: str) -> None:
    """Raise PermanentError if a schema is newer than this code."""
    steps = ScriptDirectory.from_config(_config()).walk_revisions()
    if schema not in {step.revision for step in steps}:
        raise PermanentError(
            f"the store {name} was written by a newer Lakewarden (schema {schema}): run that version, or {elsewhere}"
        )


def _create(connection: sa.Connection) -> None:
    """Create all tables, and the identity of the store."""
    schema.metadata.create_all(connection, checkfirst=False)
    connection.execute(sa.insert(schema.store).values(identity=uuid.uuid4().hex))
    if connection.dialect.name == "postgresql":
        connection.execute(sa.text("CREATE SEQUENCE run_numbers OWNED BY runs.number"))


def _config() -> alembic.config.Config:
    config = alembic.config.Config()
    config.set_main_option("script_location", "lakewarden.service.store.sql:migrations")
    config.set_main_option("path_separator", "os")
    return config


def _wait_for_the_others(connection: sa.Connection) -> None:
    """Lock the schema until the transaction ends. On SQLite, BEGIN IMMEDIATE has locked it already."""
    if connection.dialect.name == "postgresql":
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_ONE_AT_A_TIME)))


def _of_another_program(error: sa.exc.DBAPIError) -> bool:
    """Whether it met a table or a column that it did not expect."""
    if isinstance(error.orig, sqlite3.Error):
        return getattr(error.orig, "sqlite_errorcode", None) == sqlite3.SQLITE_ERROR
    return str(getattr(error.orig, "sqlstate", None)).startswith(("42P", "427"))  # undefined or duplicate objects
