"""The trial on Iceberg: an appender and a MERGE/DELETE writer on one table of a catalog in SQLite."""

from __future__ import annotations

import functools
import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pyiceberg.table import Table

from faults.checking.evidence import read_intervals
from faults.checking.history import History, StoredRun
from faults.formats.iceberg.evidence import (
    DELETING,
    MetadataSeen,
    files_needed,
    files_there,
    local,
    plans_beside,
    rows_changed,
    timeline_found,
)
from faults.formats.trial import LiveWriter, Pending, Wait
from faults.injection.schedule import NUMBERED, Targets
from lakewarden.demo.daemon import DaemonProcess
from lakewarden.demo.environment import Environment
from lakewarden.demo.formats.iceberg.reader import open_named
from lakewarden.demo.writers.orders import Batch, Row, merged, read_record
from lakewarden.executors.points import Point
from lakewarden.executors.worker import bundles
from lakewarden.planners.model.instant import Service
from live.iceberg.blame import lost_to_another_writer
from live.iceberg.catalog_demo import IDENTIFIER, TABLE_OPTIONS, CatalogDemo, driver, python_catalog
from live.iceberg.orphan_files import leave
from live.iceberg.travel import rows_of, travel

POLICIES: Mapping[str, Any] = {
    "compaction": {"trigger": {"num_commits": 5}, "options": {"min_input_files": 2, "delete_file_threshold": 1}},
    # late orders arrive for a while after a day's last change
    "clustering": {
        "trigger": {"num_commits": 8},
        "options": {"untouched_for": "20s", "sort_order": "order_id", "min_input_files": 1},
    },
    "clean": {"trigger": {"num_commits": 5}, "options": {"max_snapshot_age": "45s", "min_snapshots_to_keep": 5}},
    "orphans": {"trigger": {"time_elapsed": "15s"}, "options": {"unknown_for": "8s"}},
    "archive": {"trigger": {"num_commits": 10}, "options": {"small_manifests": 6}},
    "table_stats": {"trigger": {"num_commits": 15}},
}
"""Every service of the format, as often as it can beside writers."""

_REWRITING = (Service.COMPACTION, Service.CLUSTERING)

TARGETS = Targets(
    services=(
        *(Service.COMPACTION,) * 4,
        *(Service.CLEAN,) * 3,
        *(Service.ORPHANS,) * 2,
        *(Service.CLUSTERING,) * 2,
        *(Service.ARCHIVE,) * 2,
        *(Service.TABLE_STATS,) * 2,
    ),
    points=(*NUMBERED, *(Point.PROPOSED,) * 2, Point.EXPIRING, Point.EXPIRED, Point.DELETING),
    passed_by={
        Point.STORED: (Service.ORPHANS, Service.CLEAN),  # the others have no plan beside the table
        Point.PROPOSED: _REWRITING,
        Point.EXPIRING: (Service.CLEAN,),
        Point.EXPIRED: (Service.CLEAN,),
        Point.DELETING: (Service.ORPHANS, Service.CLEAN),
    },
)

_DAY_SECONDS = 15
_MERGE_EVERY_SECONDS = 3
_APPEND_EVERY_SECONDS = 1
_APPENDER = "lakewarden.demo.formats.iceberg.appender"
_EXCLUSIVE = frozenset(DELETING)
_SIGNED = frozenset({"compaction", "clustering", "archive", "table_stats"})


class IcebergTrial:
    """Fulfils `FormatTrial`. It remembers the deletions and the metadata that it has seen, because the table keeps only
    the newest.
    """

    format_demo = CatalogDemo()
    policies = POLICIES
    targets = TARGETS
    most_writers = 2

    def __init__(self) -> None:
        self._deletions: dict[str, str] = {}
        self._metadata = MetadataSeen()
        self._lost: list[Path] = []
        self._times_lost = 0

    def fetch(self) -> None:
        """Download Iceberg's bundle and the driver of the catalog's database."""
        bundles.fetch(("iceberg",))
        driver()

    def table_entry(self, environment: Environment, _wait: Wait) -> Mapping[str, Any]:
        """Return the table's entry: by its catalog."""
        path = f"catalog://{IDENTIFIER.replace('.', '/', 1)}"
        return {"format": "iceberg", "path": path, "poll": "1s", "options": dict(TABLE_OPTIONS)}

    def start_writers(
        self, environment: Environment, daemon: DaemonProcess, *, seed: int, writers: int
    ) -> Iterator[LiveWriter]:
        """Start the MERGE/DELETE writer, which creates the table, and then the appender. Both write into the same
        partitions, which move on with the clock.
        """
        common = ("--day", str(_DAY_SECONDS), "--seed", str(seed), "--every")
        merging = environment.start_writer(daemon=daemon, arguments=(*common, str(_MERGE_EVERY_SECONDS)))
        yield LiveWriter(name="merge", process=merging, record=environment.record)
        if writers > 1:
            catalog = json.dumps(python_catalog(environment.directory))
            told = ("--table", IDENTIFIER, "--catalog", catalog, *common, str(_APPEND_EVERY_SECONDS))
            appending = environment.start_another_writer("appender", _APPENDER, *told)
            yield LiveWriter(name="append", process=appending, record=environment.records[-1])

    def counts_against_us(self, failed: Batch) -> bool:
        """Whether the writer did not lose to the other writer."""
        return not lost_to_another_writer(failed)

    def pending(self, environment: Environment) -> Collection[Pending]:
        """Return the pending plans beside the table."""
        found = set()
        self._metadata.look(environment.table)
        for service in DELETING:
            plans = plans_beside(environment.table, service)
            self._deletions |= dict.fromkeys(plans.completed, service)
            if plans.pending is not None:
                found.add(Pending(plans.pending, Service(service)))
        return found

    def make_work(self, environment: Environment) -> None:
        """Leave some old files that no commit refers to, as soon as the last ones are gone."""
        if environment.table.exists() and not self._lying():
            self._times_lost += 1
            self._lost = leave(environment.table, number=self._times_lost)

    def left_over(self, environment: Environment) -> Sequence[str]:
        """Return the files that no commit refers to and that are still there."""
        return [f"the orphan {file.name} was not deleted" for file in self._lying()]

    def gather(
        self, environment: Environment, *, records: Mapping[str, Path], runs: Sequence[StoredRun], witness: Path
    ) -> History:
        """Return the history of the table. `records` are by the writers' names."""
        by_writer = {writer: read_record(record) for writer, record in records.items()}
        written, folder = merged(by_writer.values()), environment.table
        table = open_named(IDENTIFIER, python_catalog(environment.directory))()
        newest, rows_at = local(table.metadata_location), functools.cache(rows_of(table))
        plans = {service: plans_beside(folder, service) for service in DELETING}
        found, twice = _rows(table)
        self._metadata.look(folder)
        return History(
            expected=written.expected_rows(),
            found=found,
            twice=twice,
            needed=files_needed(newest),
            files=files_there(folder),
            timeline=timeline_found(self._metadata.committed(newest), plans, seen=self._deletions),
            intervals=read_intervals(witness),
            runs=runs,
            journeys=travel(table, list(by_writer.values()), rows_at),
            changed=rows_changed(table, rows_at),
            failures=[batch for batch in written.failures() if self.counts_against_us(batch)],
            exclusive=_EXCLUSIVE,
            signed=_SIGNED,
        )

    def _lying(self) -> list[Path]:
        return [file for file in self._lost if file.exists()]


def _rows(table: Table) -> tuple[Mapping[str, Row], Collection[str]]:
    """Return the rows that pyiceberg finds now, by key, and the keys that are in several rows."""
    arrow = table.scan(selected_fields=("order_id", "region", "version")).to_arrow()
    rows = [Row(key=row["order_id"], partition=row["region"], value=row["version"]) for row in arrow.to_pylist()]
    times = Counter(row.key for row in rows)
    return {row.key: row for row in rows}, {key for key, count in times.items() if count > 1}
