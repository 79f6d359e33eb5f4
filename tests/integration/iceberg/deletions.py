"""Tables with snapshots that are old at once, and their files on disk, as pyiceberg and the operating system
see them.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import re
import shutil
import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakewarden.planners.formats.iceberg.deletion.plans_beside import PlanBeside, plan_beside
from lakewarden.planners.model.instant import Service
from lakewarden.planners.storage import LocalStorage

if TYPE_CHECKING:
    from tests.support.iceberg.trips import Trips

AT_ONCE = {"longest_outage": "0s", "flink_restores": "0s"}
"""The settings of an owner who wants nothing kept."""

EVERYTHING: Mapping[str, Any] = {"max_snapshot_age": "0s", "min_snapshots_to_keep": 1}


_TIMES = itertools.count()


@dataclass
class Deletions:
    """A table with the options of a table with snapshots that may expire at once."""

    trips: Trips
    table_options: Mapping[str, Any] = field(default_factory=lambda: AT_ONCE)

    @property
    def assigned(self) -> Mapping[str, Any]:
        """The assignment of a run on the table."""
        return {**self.trips.assigned, "table_options": dict(self.table_options)}

    @property
    def folder(self) -> Path:
        """The table's folder."""
        return Path(re.sub(r"^file:/*", "/", self.trips.read().location()))

    def snapshots(self) -> list[int]:
        """Return the ids of the snapshots, the oldest first."""
        return [one.snapshot_id for one in sorted(self.trips.read().snapshots(), key=lambda s: s.sequence_number or 0)]

    def rows(self, snapshot: int) -> list[tuple[int, str]]:
        """Return the rows that pyiceberg reads in a snapshot."""
        found = self.trips.read().scan(snapshot_id=snapshot).to_arrow()
        return sorted(zip(found["id"].to_pylist(), found["v"].to_pylist(), strict=True))

    def on_disk(self) -> set[str]:
        """Return every data file, manifest and manifest list in the folder."""
        below = (path for path in self.folder.rglob("*") if path.is_file() and not path.name.startswith("."))
        return {str(path) for path in below if path.suffix in {".parquet", ".avro"}}

    def known(self) -> set[str]:
        """Return every file that a snapshot needs, as pyiceberg reads its metadata."""
        table, needed = self.trips.read(), set[str]()
        for snapshot in table.snapshots():
            needed.add(snapshot.manifest_list)
            for manifest in snapshot.manifests(table.io):
                needed.add(manifest.manifest_path)
                needed |= {entry.data_file.file_path for entry in manifest.fetch_manifest_entry(table.io)}
        return {re.sub(r"^file:/*", "/", path) for path in needed}

    def beside(self, service: Service) -> PlanBeside | None:
        """Return the plan beside the table."""
        return plan_beside(service, str(self.folder), LocalStorage(), uuid=str(self.trips.read().metadata.table_uuid))

    def lists(self) -> list[Path]:
        """Return the lists of files that are to be deleted."""
        return list((self.folder / "metadata").glob("lakewarden-*.files"))

    def roll_back(self, snapshot: int) -> None:
        """Roll back to a snapshot, as a writer would."""
        self.java().manageSnapshots().rollbackTo(snapshot).commit()

    def cherry_pick(self, snapshot: int) -> None:
        """Commit the changes of a snapshot again, as a writer would."""
        self.java().manageSnapshots().cherrypick(snapshot).commit()

    def rewrite(self) -> None:
        """Rewrite every data file, as Iceberg's Spark action does, and drop the deletes."""
        action = self._actions().rewriteDataFiles(self.java()).option("rewrite-all", "true")
        action.option("remove-dangling-deletes", "true").execute()

    def java(self) -> Any:
        """Load the table in the writers' JVM."""
        session, jvm = self._active_session()
        return jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(session, self.trips.sql)

    def expire_by_icebergs_own_action(self, *snapshots: int, older_than: int = 0) -> None:
        """Expire snapshots as Iceberg's Spark action does."""
        spark = self.trips.lake.spark
        jvm = spark.sparkContext._jvm
        jvm.org.apache.spark.sql.SparkSession.setActiveSession(spark._jsparkSession)
        action = jvm.org.apache.iceberg.spark.actions.SparkActions.get(spark._jsparkSession).expireSnapshots(
            self.java()
        )
        action = action.expireOlderThan(older_than).retainLast(1)
        for one in snapshots:
            action = action.expireSnapshotId(one)
        action.execute()

    def _actions(self) -> Any:
        session, jvm = self._active_session()
        return jvm.org.apache.iceberg.spark.actions.SparkActions.get(session)

    def _active_session(self) -> tuple[Any, Any]:
        """Return the writers' session, as the active one of this thread in the JVM, and the JVM."""
        spark = self.trips.lake.spark
        jvm = spark.sparkContext._jvm
        jvm.org.apache.spark.sql.SparkSession.setActiveSession(spark._jsparkSession)
        return spark._jsparkSession, jvm

    @contextlib.contextmanager
    def put_back(self, copy: Path) -> Iterator[None]:
        """Restore the table's folder and the catalog's row at the end of the context."""
        folder = self.folder
        folder.rename(copy)
        shutil.copytree(copy, folder)
        where = ("db", self.trips.name)
        catalog = self.trips.lake.folder / "catalog.db"
        columns = "metadata_location, previous_metadata_location"
        with contextlib.closing(sqlite3.connect(catalog, timeout=20)) as rows:
            sql = f"select {columns} from iceberg_tables where table_namespace = ? and table_name = ?"
            before = rows.execute(sql, where).fetchone()
        yield
        shutil.rmtree(folder)
        copy.rename(folder)
        with contextlib.closing(sqlite3.connect(catalog, timeout=20)) as rows, rows:
            sql = (
                "update iceberg_tables set metadata_location = ?, previous_metadata_location = ? "
                "where table_namespace = ? and table_name = ?"
            )
            rows.execute(sql, (*before, *where))


@contextlib.contextmanager
def suffering(faults: Path, point: str, act: str, **details: Any) -> Iterator[Path]:
    """Inject a fault into the shared pool's workers at a point meanwhile. Yields the file that shows that a run is held
    there.
    """
    told = faults.with_name(f"stands-here-{next(_TIMES)}")  # a worker has the same fault once
    faults.write_text(json.dumps([{"point": point, "act": act, "told": str(told), **details}]))
    try:
        yield told
    finally:
        faults.unlink()
        told.unlink(missing_ok=True)
