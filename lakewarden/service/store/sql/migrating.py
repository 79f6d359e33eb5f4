"""The schema, made and upgraded step by step: each step is one transaction, so that an interrupted upgrade goes on."""

from __future__ import annotations

import alembic.command
import alembic.config
import sqlalchemy as sa
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory

from lakewarden.planners.model.errors import PermanentError

_ONE_AT_A_TIME = int.from_bytes(b"lakeward")
"""The key of PostgreSQL's advisory lock under which the schema is changed."""


def migrate(engine: sa.Engine, *, name: str, elsewhere: str) -> None:
    """Bring the schema up to what this code knows. Of several replicas that start, one does it and the others wait.

    Raises PermanentError where the schema is a newer one: it names the store, and what to do `elsewhere`.
    """
    config = alembic.config.Config()
    config.set_main_option("script_location", "lakewarden.service.store.sql:migrations")
    config.set_main_option("path_separator", "os")
    script = ScriptDirectory.from_config(config)
    known = {step.revision for step in script.walk_revisions()}
    while True:
        with engine.execution_options(writing=True).begin() as connection:
            _wait_for_the_others(connection)
            current = MigrationContext.configure(connection).get_current_revision()
            if current == script.get_current_head():
                return
            if current is not None and current not in known:
                raise PermanentError(
                    f"the store {name} was written by a newer Lakewarden (schema {current}): run that version, or "
                    f"{elsewhere}"
                )
            config.attributes["connection"] = connection
            alembic.command.upgrade(config, "+1")


def _wait_for_the_others(connection: sa.Connection) -> None:
    """Hold the schema until the transaction ends; on SQLite, BEGIN IMMEDIATE has done so already."""
    if connection.dialect.name == "postgresql":
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_ONE_AT_A_TIME)))
