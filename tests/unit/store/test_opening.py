"""The configuration says which store it is."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from lakewarden.planners.model.errors import PermanentError
from lakewarden.service.store.opening import open_store
from lakewarden.service.store.settings import DatabaseSettings

POSTGRES = DatabaseSettings(url="postgresql://lakewarden@db.example.com/lakewarden")


def test_without_a_url_it_is_a_file_in_the_data_folder(tmp_path: Path) -> None:
    """A daemon that nobody gave a database needs none."""
    open_store(DatabaseSettings(), data_dir=tmp_path).close()

    assert (tmp_path / "lakewarden.db").exists()
    assert not DatabaseSettings().shared


def test_a_driver_that_is_missing_is_named_with_what_brings_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is an extra: most daemons need none. No file is made in its stead."""
    monkeypatch.setitem(sys.modules, "psycopg", None)
    monkeypatch.delitem(sys.modules, "lakewarden.service.store.sql.postgres", raising=False)

    with pytest.raises(PermanentError, match=r"database.url needs PostgreSQL's driver: pip install 'lakewarden\[post"):
        open_store(POSTGRES, data_dir=tmp_path)

    assert list(tmp_path.iterdir()) == []
    assert POSTGRES.shared
