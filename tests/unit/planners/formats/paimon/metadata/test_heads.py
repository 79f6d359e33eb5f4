"""The newest snapshot is found, whatever the hint says."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakewarden.planners.formats.paimon.metadata.heads import Heads
from lakewarden.planners.storage import LocalStorage
from tests.support.paimon.paimon_table import PaimonTable


@pytest.fixture
def table(tmp_path: Path) -> PaimonTable:
    table = PaimonTable(tmp_path / "trips")
    for _ in range(5):
        table.append()
    return table


def newest(table: PaimonTable, heads: Heads | None = None) -> int | None:
    head = (heads or Heads()).of(str(table.folder), LocalStorage())
    return None if head is None else head.id


@pytest.mark.parametrize("hint", ["5", "3", "1", "9", "0", "-1", "x", "", " 5\n", "5" * 70, "99999999999999999999"])
def test_a_hint_may_say_anything(table: PaimonTable, hint: str) -> None:
    """A stale one is where the search begins, and any other is passed over."""
    (table.folder / "snapshot" / "LATEST").write_text(hint)
    assert newest(table) == 5


def test_a_hint_may_be_missing(table: PaimonTable) -> None:
    """As it is where the writer died before it wrote one."""
    (table.folder / "snapshot" / "LATEST").unlink()
    assert newest(table) == 5


def test_a_hint_to_the_remains_of_an_expiry_is_passed_over(table: PaimonTable) -> None:
    """What lies below a gap is no head, once the folder was listed."""
    table.snapshot_file(3).unlink()
    (table.folder / "snapshot" / "LATEST").write_text("4")
    assert newest(table) == 5


def test_many_commits_beyond_a_hint_are_not_asked_for_one_by_one(table: PaimonTable) -> None:
    """The folder is listed in their place."""
    for _ in range(60):
        table.append()
    (table.folder / "snapshot" / "LATEST").write_text("1")
    assert newest(table) == 65


def test_what_was_the_newest_is_asked_first_and_a_rollback_is_found(table: PaimonTable) -> None:
    """The memory of a daemon is a hint as well."""
    heads = Heads()
    assert newest(table, heads) == 5
    table.roll_back(2)
    assert newest(table, heads) == 2
    table.append()
    assert newest(table, heads) == 3


def test_a_table_without_a_snapshot_has_no_head(tmp_path: Path) -> None:
    """It has a schema, and so it is a table."""
    assert newest(PaimonTable(tmp_path / "new")) is None
