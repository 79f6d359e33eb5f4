"""Opens the store of a configuration."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import structlog

from lakewarden.planners.model.clock import Clock, SystemClock
from lakewarden.planners.model.errors import PermanentError, TemporaryError, installing
from lakewarden.planners.settings import format_duration
from lakewarden.service.store.file_systems import network_file_system
from lakewarden.service.store.settings import DatabaseSettings
from lakewarden.service.store.sql.sqlite import open_sqlite
from lakewarden.service.store.sql.store import Store

log = structlog.get_logger(__name__)

_BETWEEN_SECONDS = 2.0
"""A database that is away at the start is asked again after so long."""


def file_of(data_dir: Path) -> Path:
    """Return the SQLite file of a data folder."""
    return data_dir / "lakewarden.db"


def open_store(settings: DatabaseSettings, *, data_dir: Path) -> Store:
    """Open the PostgreSQL database of the settings, or else a SQLite file in `data_dir`. Create or upgrade the schema.

    Raises PermanentError if an operator must act before it can be used, and TemporaryError if it cannot be reached.
    """
    if settings.url is None:
        if (kind := network_file_system(data_dir)) is not None:
            raise PermanentError(
                f"data_dir {data_dir} is on a network file system ({kind}), on which a SQLite store can be damaged: "
                "use a local disk or a block volume, or set database.url"
            )
        return open_sqlite(file_of(data_dir))
    try:
        from lakewarden.service.store.sql.postgres import open_postgres  # noqa: PLC0415 - its driver is an extra
    except ImportError as missing:
        raise PermanentError(
            f"database.url needs PostgreSQL's driver: {installing('postgres')} ({missing})"
        ) from missing
    return open_postgres(settings)


def open_patiently(
    settings: DatabaseSettings,
    *,
    data_dir: Path,
    clock: Clock | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> Store:
    """Open the store as `open_store` does. A database that is away is asked again until `database.wait` is over.

    Raises PermanentError at once if an operator must act, and TemporaryError if it is still away at the end.
    """
    clock = clock or SystemClock()
    end = clock.monotonic() + settings.wait.total_seconds()
    while True:
        try:
            return open_store(settings, data_dir=data_dir)
        except TemporaryError as away:
            left = end - clock.monotonic()
            if left <= 0:
                waited = f"waited for {format_duration(settings.wait)} (database.wait)"
                raise TemporaryError(f"{away}: {waited}", delay=away.delay) from away
            log.warning("waiting_for_store", error=str(away), seconds_left=round(left))
            sleep(min(_BETWEEN_SECONDS, left))
