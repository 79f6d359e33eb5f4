"""The store as one file, and back."""

from __future__ import annotations

import io
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.model.table import TableId
from lakewarden.service.commands.backing_up import back_up, restore
from lakewarden.service.ownership.data_folder import DataFolder
from lakewarden.service.store.opening import open_store
from lakewarden.service.store.settings import DatabaseSettings
from lakewarden.service.store.sql.store import Store
from tests.support.values import NOW


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Return a configuration with a store in which every table is paused."""
    file = tmp_path / "lakewarden.yaml"
    file.write_text("daemon: {data_dir: data}\n")
    (tmp_path / "data").mkdir()
    with closing(_store(tmp_path)) as store:
        store.pause(None, reason="before", at=NOW)
    return file


def _store(folder: Path) -> Store:
    return open_store(DatabaseSettings(), data_dir=folder / "data")


def _pauses(folder: Path) -> dict[TableId | None, str]:
    with closing(_store(folder)) as store:
        return dict(store.pauses())


def test_a_backup_of_a_store_in_use_is_what_it_was_at_that_moment(config: Path, tmp_path: Path) -> None:
    """Another connection is open, and what it has written is still in the log. What it writes later is not in the copy.
    Only the owner may read the file: it has the hashes of keys.
    """
    out, backup = io.StringIO(), tmp_path / "copy.db"
    with closing(_store(tmp_path)) as store:
        store.pause(None, reason="in the log", at=NOW)
        assert back_up(backup, config=config, out=out) == 0
        store.pause(None, reason="later", at=NOW)
    assert "0 runs, schema" in out.getvalue()
    assert backup.stat().st_mode & 0o777 == 0o600
    assert _pauses(tmp_path) == {None: "later"}

    assert restore(backup, config=config, out=out) == 0

    assert _pauses(tmp_path) == {None: "in the log"}
    [kept] = (tmp_path / "data").glob("lakewarden.db.before-*")
    with closing(sqlite3.connect(kept)) as before:
        assert before.execute("SELECT reason FROM pauses").fetchall() == [("later",)]
    assert [one.name for one in tmp_path.iterdir() if "copy" in one.name] == ["copy.db"]


def test_no_file_is_replaced_by_a_backup(config: Path, tmp_path: Path) -> None:
    """It might be the last good one."""
    (tmp_path / "copy.db").write_text("the last good one")

    with pytest.raises(PermanentError, match="already exists"):
        back_up(tmp_path / "copy.db", config=config, out=io.StringIO())

    assert (tmp_path / "copy.db").read_text() == "the last good one"


def test_nothing_is_restored_under_a_daemon(config: Path, tmp_path: Path) -> None:
    """It would go on in the file that was replaced. The lock of its folder says that it runs."""
    back_up(tmp_path / "copy.db", config=config, out=io.StringIO())
    folder = DataFolder(tmp_path / "data")
    try:
        with pytest.raises(PermanentError, match="belongs to a running daemon"):
            restore(tmp_path / "copy.db", config=config, out=io.StringIO())
    finally:
        folder.release()

    assert _pauses(tmp_path) == {None: "before"}


def _newer(file: Path) -> None:
    with closing(sqlite3.connect(file)) as store:
        store.execute("UPDATE alembic_version SET version_num = '9999'")
        store.commit()


def _damaged(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[4096:40960] = b"\xff" * (40960 - 4096)
    file.write_bytes(content)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (_newer, "written by a newer Lakewarden"),
        (_damaged, "damaged|not a store"),
        (lambda file: file.write_text("no database"), "not a store"),
        (lambda file: file.write_bytes(b""), "not a store"),
        (Path.unlink, "there is no store"),
    ],
    ids=["newer", "damaged", "no database", "empty", "gone"],
)
def test_a_backup_that_is_not_whole_leaves_the_store_as_it_is(
    config: Path, tmp_path: Path, spoil: object, said: str
) -> None:
    """It is proved before anything is changed."""
    backup = tmp_path / "copy.db"
    back_up(backup, config=config, out=io.StringIO())
    assert callable(spoil)
    spoil(backup)

    with pytest.raises(PermanentError, match=said):
        restore(backup, config=config, out=io.StringIO())

    assert _pauses(tmp_path) == {None: "before"}
    assert [one.name for one in (tmp_path / "data").iterdir() if "before" in one.name or "restoring" in one.name] == []


def test_a_damaged_store_is_replaced_by_its_backup(config: Path, tmp_path: Path) -> None:
    """That is when one is needed. The damaged one is kept, with its log, for those who look into it."""
    back_up(tmp_path / "copy.db", config=config, out=io.StringIO())
    _damaged(tmp_path / "data" / "lakewarden.db")
    (tmp_path / "data" / "lakewarden.db-wal").write_bytes(b"a log that belongs to the old one")

    assert restore(tmp_path / "copy.db", config=config, out=io.StringIO()) == 0

    assert _pauses(tmp_path) == {None: "before"}
