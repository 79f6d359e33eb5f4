"""One folder is one table, whatever names it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lakewarden.planners.model.decision import Blocked
from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.model.table import Table, TableId
from lakewarden.service.model.rows import FolderRow
from lakewarden.service.state.table_folders import TableFolders
from lakewarden.service.state.table_registry import TableRegistry
from lakewarden.service.store.sql.notes import Row
from tests.support.store.memory_store import MemoryStore
from tests.support.values import a_view

ONE = Table(id=TableId("one"), format="iceberg", location="catalog://lake/db.fk")
TWO = Table(id=TableId("two"), format="iceberg", location="catalog://lake2/db.fk")
BY_PATH = Table(id=TableId("by path"), format="iceberg", location="hdfs://nn:8020/lake/fk")
THERE = a_view(folder="hdfs://NN/lake/fk")
ELSEWHERE = a_view(folder="hdfs://nn/lake/other")


def known(*tables: Table, store: MemoryStore | None = None) -> TableFolders:
    """Return what one replica knows."""
    return TableFolders(store=store or MemoryStore(), tables=TableRegistry(tables))


def also(name: str) -> Blocked:
    """Return the block of a table with a folder that is registered as `name`, too."""
    return Blocked(
        reason=f"its folder is also registered as {name}: one folder is one table, and each entry would take the plans "
        "and the files of the other for its own",
        remedy="remove one of the two entries",
    )


def test_two_names_in_catalogs_of_one_folder_are_both_blocked_by_name() -> None:
    """Each reason names the other table."""
    folders = known(ONE, TWO)
    folders.seen(ONE, THERE)
    assert folders.blocked(ONE) is None
    folders.seen(TWO, THERE)

    assert (folders.blocked(ONE), folders.blocked(TWO)) == (also("two"), also("one"))


def test_a_path_and_a_name_of_one_folder_are_both_blocked() -> None:
    """The spelling of the host does not matter."""
    folders = known(BY_PATH, TWO)
    folders.seen(BY_PATH, a_view())
    folders.seen(TWO, THERE)

    assert (folders.blocked(BY_PATH), folders.blocked(TWO)) == (also("two"), also("by path"))


def test_tables_of_two_formats_in_one_folder_are_left_to_the_rule_of_the_formats() -> None:
    """The source of a copy is served, so the folder alone blocks nothing."""
    paimon = replace(TWO, format="paimon")
    folders = known(ONE, paimon)
    folders.seen(ONE, THERE)
    folders.seen(paimon, THERE)

    assert folders.blocked(ONE) is folders.blocked(paimon) is None


def test_a_table_that_has_moved_and_one_that_is_no_longer_registered_block_nothing() -> None:
    """The table that stays is named once, so that it is decided on again."""
    store = MemoryStore()
    tables = TableRegistry([ONE, TWO])
    folders = TableFolders(store=store, tables=tables)
    folders.seen(ONE, THERE)
    folders.seen(TWO, THERE)
    assert (sorted(folders.changed()), [*folders.changed()]) == ([ONE.id, TWO.id], [])
    folders.seen(TWO, ELSEWHERE)
    assert folders.blocked(ONE) is folders.blocked(TWO) is None
    assert sorted(folders.changed()) == [ONE.id, TWO.id]

    folders.seen(TWO, THERE)
    assert sorted(folders.changed()) == [ONE.id, TWO.id]
    tables.replace([ONE])
    assert folders.blocked(ONE) is None
    assert sorted(folders.changed()) == [ONE.id, TWO.id]
    tables.replace([ONE, replace(TWO, location="catalog://lake2/db.another")])
    assert folders.blocked(ONE) is None


def test_a_replica_knows_the_folders_that_another_one_has_seen() -> None:
    """The replica that looks second is told at once, and the first one when it reads the store again."""
    store = MemoryStore()
    first, second = known(ONE, TWO, store=store), known(ONE, TWO, store=store)
    first.seen(ONE, THERE)
    second.seen(TWO, THERE)
    assert second.blocked(TWO) == also("one")
    assert first.blocked(ONE) is None
    first.refresh()

    assert first.blocked(ONE) == also("two")
    assert known(ONE, TWO, store=store).blocked(ONE) == also("two")


class FullStore(MemoryStore):
    """A store that keeps nothing at first."""

    full = True

    def keep_row(self, row: Row) -> None:
        """Keep the row, or fail."""
        if self.full:
            raise TemporaryError("the disk is full")
        super().keep_row(row)


def test_a_folder_that_could_not_be_stored_is_stored_by_the_next_observation() -> None:
    """Nothing is decided before, because other replicas could not know it."""
    store = FullStore()
    folders = known(ONE, TWO, store=store)
    with pytest.raises(TemporaryError):
        folders.seen(ONE, THERE)
    assert folders.unseen([ONE.id]) == {"iceberg"}
    store.full = False
    folders.seen(ONE, THERE)

    assert [row.table for row in store.rows(FolderRow)] == [ONE.id]


def test_a_format_waits_for_the_first_look_at_each_of_its_tables_in_catalogs() -> None:
    """A look that failed counts: a catalog that is down holds no other table back. A folder that is stored counts."""
    store = MemoryStore()
    folders = known(ONE, TWO, BY_PATH, store=store)
    assert folders.unseen([ONE.id, TWO.id, BY_PATH.id]) == {"iceberg"}
    assert folders.unseen([BY_PATH.id]) == frozenset()
    folders.seen(ONE, THERE)
    assert folders.unseen([ONE.id, TWO.id]) == {"iceberg"}
    folders.missed(TWO.id)

    assert folders.unseen([ONE.id, TWO.id, TableId("gone")]) == frozenset()
    assert known(ONE, store=store).unseen([ONE.id]) == frozenset()
