"""The entry point of Alembic. The connection comes from `migrating`, which gives every step its own transaction."""

from __future__ import annotations

from alembic import context

from lakewarden.service.store.sql import schema

connection = context.config.attributes["connection"]
context.configure(connection=connection, target_metadata=schema.metadata, transactional_ddl=True)
with context.begin_transaction():
    context.run_migrations()
