"""What the errors of databases mean for a catalog: a wrong address, a wrong login, a damaged file, or no answer."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
import sqlalchemy as sa

from lakewarden.planners.databases.failures import Failure, failure_of


def raised_by(file: Path) -> sa.exc.DBAPIError:
    with pytest.raises(sa.exc.DBAPIError) as raised, sa.create_engine(f"sqlite:///{file}").connect() as connection:
        connection.execute(sa.text("SELECT * FROM paimon_tables"))
    return raised.value


def test_a_missing_table_a_damaged_file_and_a_missing_folder_are_told_apart(tmp_path: Path) -> None:
    """Only the last one may be gone by the next request."""
    sqlite3.connect(tmp_path / "empty.db").close()
    (tmp_path / "damaged.db").write_bytes(b"no database at all" * 100)
    assert failure_of(raised_by(tmp_path / "empty.db"))[0] is Failure.NO_SUCH_TABLE
    assert failure_of(raised_by(tmp_path / "damaged.db"))[0] is Failure.DAMAGED
    assert failure_of(raised_by(tmp_path / "none" / "c.db"))[0] is Failure.NO_ANSWER
