"""Which store a configuration means."""

from __future__ import annotations

from pathlib import Path

from lakewarden.planners.model.errors import PermanentError
from lakewarden.service.store.port import Store
from lakewarden.service.store.settings import DatabaseSettings
from lakewarden.service.store.sql.sqlite import open_sqlite


def open_store(settings: DatabaseSettings, *, data_dir: Path) -> Store:
    """Open the PostgreSQL database that is named, or else a SQLite file in `data_dir`, making or upgrading the schema.

    Raises PermanentError where it cannot be used before a person has acted, TemporaryError where it cannot be reached.
    """
    if settings.url is None:
        return open_sqlite(data_dir / "lakewarden.db")
    try:
        from lakewarden.service.store.sql.postgres import open_postgres  # noqa: PLC0415 - its driver is an extra
    except ImportError as missing:
        raise PermanentError(
            f"database.url needs PostgreSQL's driver: pip install 'lakewarden[postgres]' ({missing})"
        ) from missing
    return open_postgres(settings)
