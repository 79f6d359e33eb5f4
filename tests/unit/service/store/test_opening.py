"""The configuration says which store it is."""

from __future__ import annotations

import os
import socket
import stat
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from lakewarden.planners.model.clock import ManualClock
from lakewarden.planners.model.errors import PermanentError, TemporaryError
from lakewarden.service.store.opening import open_patiently, open_store
from lakewarden.service.store.settings import DatabaseSettings

POSTGRES = DatabaseSettings(url="postgresql://lakewarden@db.example.com/lakewarden")


def test_without_a_url_it_is_a_file_in_the_data_folder(tmp_path: Path) -> None:
    """A daemon that nobody gave a database needs none."""
    open_store(DatabaseSettings(), data_dir=tmp_path).close()

    assert (tmp_path / "lakewarden.db").exists()
    assert not DatabaseSettings().shared


def test_the_file_and_its_log_are_for_their_owner_alone(tmp_path: Path) -> None:
    """It has the hashes of keys and the audit log. That holds whatever the mask of the user, and for an older file."""
    file, before = tmp_path / "lakewarden.db", os.umask(0o022)
    try:
        for _ in range(2):
            store = open_store(DatabaseSettings(), data_dir=tmp_path)
            modes = {one.name: stat.S_IMODE(one.stat().st_mode) for one in tmp_path.iterdir()}
            store.close()
            assert modes == dict.fromkeys(modes, 0o600)
            assert {"lakewarden.db", "lakewarden.db-wal"} <= set(modes)
            file.chmod(0o644)
    finally:
        os.umask(before)


def test_a_driver_that_is_missing_is_named_with_what_brings_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is an extra: most daemons need none. No file is made in its stead."""
    monkeypatch.setitem(sys.modules, "psycopg", None)
    for module in ("lakewarden.service.store.sql.postgres", "lakewarden.planners.postgres_connection"):
        monkeypatch.delitem(sys.modules, module, raising=False)

    with pytest.raises(PermanentError, match=r"database.url needs PostgreSQL's driver: pip install '\.\[post"):
        open_store(POSTGRES, data_dir=tmp_path)

    assert list(tmp_path.iterdir()) == []
    assert POSTGRES.shared


def test_a_database_that_is_away_at_the_start_is_waited_for_and_not_for_ever(tmp_path: Path) -> None:
    """A pod often starts before its database. After `database.wait` the daemon ends, and says that it waited."""
    with socket.socket() as reserved:  # nothing listens at its port
        reserved.bind(("127.0.0.1", 0))
        url = f"postgresql://lakewarden@127.0.0.1:{reserved.getsockname()[1]}/lakewarden"
        settings = DatabaseSettings.model_validate({"url": url, "wait": "10s"})
        clock = ManualClock()
        slept: list[float] = []

        def sleep(seconds: float) -> None:
            slept.append(seconds)
            clock.advance(timedelta(seconds=seconds))

        with pytest.raises(TemporaryError, match=r"waited for 10s \(database.wait\)"):
            open_patiently(settings, data_dir=tmp_path, clock=clock, sleep=sleep)

    assert slept == [2, 2, 2, 2, 2]


def test_what_only_an_operator_can_mend_is_not_waited_for(tmp_path: Path) -> None:
    """A file that is no database stays one."""
    (tmp_path / "lakewarden.db").write_bytes(b"no database, " * 100)

    with pytest.raises(PermanentError, match=r"lakewarden\.db"):
        open_patiently(DatabaseSettings(), data_dir=tmp_path, sleep=lambda _: pytest.fail("it waited"))
