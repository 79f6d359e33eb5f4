"""The whole store on a database."""

from __future__ import annotations

from lakewarden.service.store.sql.acts import SqlActs, SqlRegistrations
from lakewarden.service.store.sql.forgetting import SqlForgetting
from lakewarden.service.store.sql.history import SqlHistory
from lakewarden.service.store.sql.keys import SqlKeys
from lakewarden.service.store.sql.notes import SqlNotes
from lakewarden.service.store.sql.replicas import SqlReplicas
from lakewarden.service.store.sql.runs import SqlRuns


class SqlStore(SqlRuns, SqlReplicas, SqlNotes, SqlHistory, SqlKeys, SqlActs, SqlRegistrations, SqlForgetting):
    """Implements the contract of the store with SQL for both SQLite and PostgreSQL."""
