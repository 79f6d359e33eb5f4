"""The whole store on a database."""

from __future__ import annotations

from lakewarden.service.store.sql.forgetting import SqlForgetting
from lakewarden.service.store.sql.notes import SqlNotes
from lakewarden.service.store.sql.replicas import SqlReplicas
from lakewarden.service.store.sql.runs import SqlRuns


class SqlStore(SqlRuns, SqlReplicas, SqlNotes, SqlForgetting):
    """Implements the store's contract with SQL that SQLite and PostgreSQL both speak."""
