"""The API keys in a store on a database."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime

import sqlalchemy as sa

from lakewarden.service.model.access import KeyRow, Role
from lakewarden.service.store.sql import schema
from lakewarden.service.store.sql.database import Database

_key = schema.api_keys.c


class SqlKeys(Database):
    """Keeps the hashes of API keys."""

    def keep_api_key(self, row: KeyRow) -> None:
        """Add an API key."""
        with self._write() as connection:
            connection.execute(sa.insert(schema.api_keys).values(asdict(row) | {"tables": list(row.tables)}))

    def revoke_api_key(self, key: str, *, at: datetime) -> bool:
        """Revoke an API key."""
        revoked = sa.update(schema.api_keys).where(_key.id == key, _key.revoked_at.is_(None)).values(revoked_at=at)
        with self._write() as connection:
            return connection.execute(revoked).rowcount > 0

    def api_keys(self) -> Sequence[KeyRow]:
        """Return every API key."""
        query = sa.select(schema.api_keys).order_by(_key.created_at, _key.id)
        with self._read() as connection:
            return [
                KeyRow(**{**row._mapping, "role": Role(row.role), "tables": tuple(row.tables)})  # noqa: SLF001
                for row in connection.execute(query)
            ]
