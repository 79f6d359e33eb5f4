"""The rows of a catalog in a database, and what is raised if they cannot be read."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa

from lakewarden.planners.databases.rows import CatalogRows, RowErrors
from lakewarden.planners.formats.paimon.catalogs.settings import JdbcCatalog
from lakewarden.planners.model.errors import PermanentError, TemporaryError

ALL = sa.text("SELECT name FROM things WHERE kind = :kind ORDER BY name")


class FormatsOwnError(TemporaryError):
    """What a format raises if there is no answer."""


def rows_of(file: Path) -> CatalogRows:
    settings = JdbcCatalog(type="jdbc", uri=f"jdbc:sqlite:{file}", warehouse="/lake")
    return CatalogRows(
        "lake", settings, table="things", errors=RowErrors(correct="look at it", unanswered=FormatsOwnError)
    )


def test_the_rows_that_a_statement_finds_are_told(tmp_path: Path) -> None:
    """Each by the names of its columns, as they are at that moment."""
    file = tmp_path / "catalog.db"
    with closing(sqlite3.connect(file)) as database:
        database.execute("CREATE TABLE things (kind TEXT, name TEXT)")
        database.execute("INSERT INTO things VALUES ('a', 'one'), ('b', 'two'), ('a', 'three')")
        database.commit()
    assert rows_of(file).select(ALL, kind="a") == [{"name": "one"}, {"name": "three"}]


def test_what_cannot_be_read_is_for_a_person_or_the_formats_own_error(tmp_path: Path) -> None:
    """The message names the catalog and the table, with the remedy of the format. Only a database without an answer may
    have one later.
    """
    sqlite3.connect(tmp_path / "empty.db").close()
    (tmp_path / "damaged.db").write_bytes(b"no database at all, but long enough for its header" * 100)
    with pytest.raises(PermanentError, match=r"catalog lake has no table things: look at it"):
        rows_of(tmp_path / "empty.db").select(ALL, kind="a")
    with pytest.raises(PermanentError, match="is damaged: restore it from a backup"):
        rows_of(tmp_path / "damaged.db").select(ALL, kind="a")
    with pytest.raises(FormatsOwnError, match="the catalog lake does not answer"):
        rows_of(tmp_path / "none" / "catalog.db").select(ALL, kind="a")
