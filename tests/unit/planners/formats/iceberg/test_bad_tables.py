"""Iceberg tables with every kind of fault. Each table is Blocked with its own reason, continues when it is repaired,
and harms no other table.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lakewarden.planners.formats.iceberg.catalogs.settings import JdbcCatalog
from lakewarden.planners.formats.iceberg.format import IcebergFormat
from lakewarden.planners.formats.iceberg.options.service_options import CompactionOptions
from lakewarden.planners.formats.iceberg.options.table_options import IcebergTableOptions
from lakewarden.planners.model.instant import Instant, Service, Step
from lakewarden.planners.model.table import Policy, Table, TableId
from lakewarden.planners.model.view import TableView
from lakewarden.planners.ports import Observation, Storage
from lakewarden.planners.triggers import NumCommits
from tests.support.daemon.daemon_harness import DaemonHarness, HarnessClock
from tests.support.doubles.fake import FakeFormat
from tests.support.iceberg.iceberg_table import IcebergTable

BAD, GOOD = TableId("bad"), TableId("good")


class EitherFormat(FakeFormat):
    """Reads the bad table as Iceberg does, and the good one as the fake pool can service it."""

    def __init__(self, location: str, catalog: JdbcCatalog | None) -> None:
        self._iceberg = IcebergFormat()
        self._location = location
        self._catalog = catalog

    def token(self, table: Table, storage: Storage) -> str:
        if table.id == BAD:
            return self._iceberg.token(self._bad(table), storage)
        return super().token(table, storage)

    def observe(self, table: Table, storage: Storage, previous: Observation | None, *, now: datetime) -> Observation:
        if table.id == BAD:
            return self._iceberg.observe(self._bad(table), storage, previous, now=now)
        return super().observe(table, storage, previous, now=now)

    def endangered(self, view: TableView, service: Service, *, step: Step, instant: str | None) -> tuple[Instant, ...]:
        if view.kind == "FAKE":
            return super().endangered(view, service, step=step, instant=instant)
        return self._iceberg.endangered(view, service, step=step, instant=instant)

    def _bad(self, table: Table) -> Table:
        compaction = Policy(trigger=NumCommits(at_least=3), options=CompactionOptions())
        return replace(
            table,
            format="iceberg",
            location=self._location,
            catalog=self._catalog,
            options=IcebergTableOptions(),
            policies={Service.COMPACTION: compaction},
        )


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A way to break an Iceberg table, the reason that is then reported, and the repair."""

    says: str
    make: Callable[[IcebergTable], None]
    mend: Callable[[IcebergTable], None]


def damaged(part: Callable[[IcebergTable], Path], content: bytes | None) -> dict[str, Callable[[IcebergTable], None]]:
    """Replace a file by other content, or remove it (None). The repair restores it."""
    aside: dict[Path, bytes] = {}

    def make(table: IcebergTable) -> None:
        file = part(table)
        aside[file] = file.read_bytes()
        if content is None:
            file.unlink()
        else:
            file.write_bytes(content)

    def mend(_table: IcebergTable) -> None:
        for file, was in aside.items():
            file.write_bytes(was)

    return {"make": make, "mend": mend}


def moved(part: str) -> dict[str, Callable[[IcebergTable], None]]:
    """Move a part of the table's folder away, or all of it if none is named. The repair moves it back."""

    def make(table: IcebergTable) -> None:
        (table.folder / part).rename(table.folder.parent / "away")

    def mend(table: IcebergTable) -> None:
        (table.folder.parent / "away").rename(table.folder / part)

    return {"make": make, "mend": mend}


def rewritten(**changes: Any) -> dict[str, Callable[[IcebergTable], None]]:
    """Change the newest metadata file in place."""

    def make(table: IcebergTable) -> None:
        table.metadata_file.write_text(json.dumps({**json.loads(table.metadata_file.read_text()), **changes}))

    def mend(table: IcebergTable) -> None:
        table.save()

    return {"make": make, "mend": mend}


def newest(kind: str) -> Callable[[IcebergTable], Path]:
    """Return a function that finds a file of the current snapshot: its manifest list, or its newest manifest."""

    def find(table: IcebergTable) -> Path:
        assert table.current is not None
        snapshot = table.snapshots[table.current]
        return Path(snapshot.line["manifest-list"]) if kind == "list" else snapshot.manifests[-1].path

    return find


def of_type(kind: str) -> dict[str, Any]:
    columns = [{"id": 1, "name": "id", "required": False, "type": kind}, {"id": 2, "name": "p", "type": "int"}]
    return {"schemas": [{"type": "struct", "schema-id": 0, "fields": columns}]}


FAILURES = {
    "dropped": Failure(says="there is no Iceberg table at", **moved("")),
    "no metadata": Failure(says="it has no folder metadata", **moved("metadata")),
    "a half-written metadata file": Failure(
        says="is not a metadata file of an Iceberg table", **damaged(lambda table: table.metadata_file, b'{"format-ver')
    ),
    "a lost manifest list": Failure(says="which the table names, is not there", **damaged(newest("list"), None)),
    "a damaged manifest list": Failure(says="cannot be read", **damaged(newest("list"), b"Obj\x01ha")),
    "a lost manifest": Failure(says="which the table names, is not there", **damaged(newest("manifest"), None)),
    "a damaged manifest": Failure(says="cannot be read", **damaged(newest("manifest"), b"\x00")),
    "a later format": Failure(says="format version 4 is unknown", **rewritten(**{"format-version": 4})),
    "columns of version 3 that Spark has no type for": Failure(
        says="columns of type timestamp_ns", **rewritten(**{"format-version": 3}, **of_type("timestamp_ns"))
    ),
    "an encrypted table": Failure(
        says="encrypted", **rewritten(**{"format-version": 3, "properties": {"encryption.key-id": "k"}})
    ),
    "an encrypted table whose property is gone": Failure(
        says="encrypted (encryption-keys)",
        **rewritten(**{"format-version": 3, "encryption-keys": [{"key-id": "1", "encrypted-key-metadata": "MQ=="}]}),
    ),
    "the copy of another table": Failure(says="/elsewhere", **rewritten(location="/elsewhere")),
}  # fmt: skip


ADVICE = (
    "restore it",
    "there is no Iceberg table",
    "register it as",
    "remove it from the configuration",
    "does not answer",
    "has no table",
    "is not absolute",
    "see catalog_name",
)
"""The advice that must be there if the reason does not contain one."""


def made_harness(folder: Path, catalog: JdbcCatalog | None = None) -> tuple[DaemonHarness, IcebergTable]:
    """Make a daemon for an Iceberg table with one commit, and a good table beside it."""
    location = "catalog://lake/sales.trips" if catalog is not None else str(folder / "iceberg" / "trips")
    clock = HarnessClock()
    harness = DaemonHarness(folder, names=[BAD, GOOD], clock=clock, formats={"fake": EitherFormat(location, catalog)})
    table = IcebergTable(folder / "iceberg" / "trips", clock=harness.clock)
    table.append()
    return harness, table


def last_decision(harness: DaemonHarness) -> tuple[str, str, str]:
    """Return the decision on the bad table's compaction, its reason, and its remedy."""
    found = harness.store.decisions(BAD)[-1] if harness.store.decisions(BAD) else None
    return ("", "", "") if found is None else (found.decision, found.reason, found.remedy or "")


def assert_harms_nobody(harness: DaemonHarness, says: str, mend: Callable[[], None]) -> None:
    """Assert that the bad table is Blocked with its reason while the good one is serviced, and that it continues once
    it is repaired.
    """
    harness.commands.mark_dirty(BAD)
    harness.write(3, GOOD)
    harness.until(lambda: harness.lakes[GOOD].log_files == 0, within=timedelta(seconds=15))
    decision, reason, remedy = last_decision(harness)
    assert decision == "Blocked"
    assert says in reason
    assert remedy or any(advice in reason for advice in ADVICE), f"{reason} does not say what to do"
    assert harness.runs(table=BAD) == []

    mend()
    harness.commands.mark_dirty(BAD)
    harness.until(lambda: last_decision(harness)[0] == "NotDue")
    assert harness.runs(table=BAD) == []


@pytest.mark.parametrize("way", FAILURES)
def test_a_table_in_trouble_is_blocked_with_its_reason_harms_no_other_and_comes_back(tmp_path: Path, way: str) -> None:
    """The reason names the fault. Nothing runs on the table, and the others are serviced meanwhile."""
    harness, table = made_harness(tmp_path)
    FAILURES[way].make(table)

    assert_harms_nobody(harness, FAILURES[way].says, lambda: FAILURES[way].mend(table))


def test_a_catalogs_table_that_is_named_by_its_folder_is_told_how_to_be_named(tmp_path: Path) -> None:
    """Only the catalog knows its newest version."""
    harness, table = made_harness(tmp_path)
    file = table.metadata_file
    as_catalogs_write = table.metadata / "00002-9c12d441-03fe-4693-9a96-a0705ddf69c1.metadata.json"
    file.rename(as_catalogs_write)
    for other in (*table.metadata.glob("v*.metadata.json"), table.metadata / "version-hint.text"):
        other.unlink()

    def mend() -> None:
        as_catalogs_write.rename(file)

    assert_harms_nobody(harness, "register it as catalog://<name>/<namespace>.<table>", mend)


@dataclass(kw_only=True)
class Database:
    """A JDBC catalog in a file, and the row of one table."""

    file: Path
    name: str = "lake"
    kind: str | None = "TABLE"
    columns: tuple[str, ...] = field(
        default=("catalog_name", "table_namespace", "table_name", "metadata_location", "iceberg_type")
    )

    @property
    def settings(self) -> JdbcCatalog:
        return JdbcCatalog(type="jdbc", uri=f"jdbc:sqlite:{self.file}", warehouse="/nowhere", timeout="1s")

    def knows(self, metadata_file: Path | None) -> None:
        """Let the table's row name a metadata file; None removes the row."""
        with closing(sqlite3.connect(self.file)) as connection, connection:
            connection.execute(f"CREATE TABLE IF NOT EXISTS iceberg_tables ({', '.join(self.columns)})")
            connection.execute("DELETE FROM iceberg_tables")
            if metadata_file is not None:
                row = (self.name, "sales", "trips", str(metadata_file), self.kind)
                connection.execute("INSERT INTO iceberg_tables VALUES (?, ?, ?, ?, ?)", row)


def _away(database: Database, _table: IcebergTable) -> None:
    database.file.rename(database.file.with_suffix(".away"))


def _damaged(database: Database, _table: IcebergTable) -> None:
    database.file.write_bytes(b"this is no database" * 100)


def _dropped(database: Database, _table: IcebergTable) -> None:
    database.knows(None)


def _elsewhere(database: Database, table: IcebergTable) -> None:
    database.knows(table.metadata / "v99.metadata.json")


def _nonsense(database: Database, _table: IcebergTable) -> None:
    database.knows(Path("relative/v1.metadata.json"))


def _a_view(database: Database, table: IcebergTable) -> None:
    replace(database, kind="VIEW").knows(table.metadata_file)


def _another_name(database: Database, table: IcebergTable) -> None:
    replace(database, name="warehouse").knows(table.metadata_file)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (_away, "does not answer"),
        (_damaged, "is damaged"),
        (_dropped, "has no table sales.trips"),
        (_elsewhere, "which the table names, is not there"),
        (_nonsense, "is not absolute"),
        (_a_view, "is a view"),
        (_another_name, "see catalog_name"),
    ],
)
def test_a_catalog_in_trouble_blocks_its_tables_alone(
    tmp_path: Path, make: Callable[[Database, IcebergTable], None], says: str
) -> None:
    """The catalog is gone, damaged, does not know the table, or names a file that is no metadata."""
    database = Database(file=tmp_path / "catalog.db")
    harness, table = made_harness(tmp_path, database.settings)
    database.knows(table.metadata_file)
    make(database, table)

    def mend() -> None:
        away = database.file.with_suffix(".away")
        if away.exists():
            away.rename(database.file)
        elif says == "is damaged":
            database.file.unlink()
        database.knows(table.metadata_file)

    assert_harms_nobody(harness, says, mend)


def test_a_catalog_that_never_answers_holds_up_no_other_table(tmp_path: Path) -> None:
    """A writer died while it had locked the database. The observation ends at its time-out, and the good table is
    serviced all the time.
    """
    database = Database(file=tmp_path / "catalog.db")
    harness, table = made_harness(tmp_path, database.settings)
    database.knows(table.metadata_file)
    locking = sqlite3.connect(database.file, isolation_level=None)
    locking.execute("BEGIN EXCLUSIVE")

    assert_harms_nobody(harness, "the catalog lake does not answer", locking.close)


def test_a_table_that_was_dropped_and_made_again_is_served_as_the_new_one(tmp_path: Path) -> None:
    """Nothing of the old table counts. While there is no table, the reason says so."""
    harness, table = made_harness(tmp_path)
    table.append()
    harness.commands.mark_dirty(BAD)
    harness.until(lambda: "of 2 data files" in last_decision(harness)[1])

    shutil.rmtree(table.folder)
    harness.commands.mark_dirty(BAD)
    harness.until(lambda: "there is no Iceberg table at" in last_decision(harness)[1])

    again = IcebergTable(table.folder, clock=harness.clock)
    again.append()
    harness.commands.mark_dirty(BAD)
    harness.until(lambda: "of 1 data files" in last_decision(harness)[1])
    assert harness.runs(table=BAD) == []
