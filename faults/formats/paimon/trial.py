"""The trial on Paimon: a writer with the commits of a streaming job, on a table with a primary key."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from faults.checking.evidence import read_intervals
from faults.checking.history import History, StoredRun
from faults.formats.paimon.evidence import files_needed, rows_changed, timeline_found
from faults.formats.trial import LiveWriter, Pending, Wait
from faults.injection.schedule import NUMBERED, Targets
from lakewarden.demo.daemon import DaemonProcess
from lakewarden.demo.environment import Environment
from lakewarden.demo.writers.orders import Batch, merged, read_record
from lakewarden.executors.points import Point
from lakewarden.executors.worker import bundles
from lakewarden.planners.model.instant import Service
from lakewarden.planners.registry import FORMATS
from live.paimon.history import SnapshotsSeen
from live.paimon.lost_files import LostFiles
from live.paimon.plain_reader import PlainReader
from live.paimon.policies import TABLE_OPTIONS, policies
from live.paimon.suite import EveryService
from live.paimon.travel import travel

TARGETS = Targets(
    services=(Service.COMPACTION, Service.CLEAN, Service.ORPHANS, Service.TTL, Service.PARTITION_COMMIT),
    points=(
        *(point for point in NUMBERED if point is not Point.STORED),
        *(Point.PROPOSED,) * 2,
        Point.EXPIRING,
        Point.EXPIRED,
        *(Point.DELETING,) * 2,
    ),
    passed_by={
        Point.PROPOSED: (Service.COMPACTION, Service.TTL),
        Point.EXPIRING: (Service.CLEAN,),
        Point.EXPIRED: (Service.CLEAN,),
        Point.DELETING: (Service.ORPHANS, Service.CLEAN),
    },
)
"""No service has an instant before its commit. So none passes the point `stored`."""

_WRITES_EVERY_SECONDS = 0.7
_LOOKS_EVERY_SECONDS = 0.5

_SNAPSHOTS_KEPT = 30
"""So many are written in a quarter of a minute. The trial must see each snapshot before it expires."""


def _policies() -> Mapping[str, Any]:
    found = policies(FORMATS[EveryService.format].services)
    found[Service.CLEAN.value]["options"]["min_snapshots_to_keep"] = _SNAPSHOTS_KEPT
    return found


class PaimonTrial:
    """Fulfils `FormatTrial`. It remembers the snapshots that it has seen, because snapshots expire."""

    format_demo = EveryService()
    policies: Mapping[str, Any] = _policies()
    targets = TARGETS
    most_writers = 1

    def __init__(self) -> None:
        self._seen: SnapshotsSeen | None = None
        self._lost: LostFiles | None = None
        self._looking = threading.Lock()
        self._watcher: threading.Thread | None = None
        self._ended = threading.Event()

    def fetch(self) -> None:
        """Download Paimon's bundle."""
        bundles.fetch((self.format_demo.format,))

    def table_entry(self, environment: Environment, _wait: Wait) -> Mapping[str, Any]:
        """Return the table's entry: by its folder."""
        place = str(environment.table)
        return {"format": self.format_demo.format, "path": place, "poll": "1s", "options": dict(TABLE_OPTIONS)}

    def start_writers(
        self, environment: Environment, daemon: DaemonProcess, *, seed: int, writers: int
    ) -> Iterator[LiveWriter]:
        """Start the writer, which makes the table. From then on a thread looks for snapshots, also while the trial
        waits.
        """
        self._watcher = threading.Thread(target=self._watch, args=(environment,), daemon=True)
        self._watcher.start()
        told = ("--seed", str(seed), "--every", str(_WRITES_EVERY_SECONDS))
        yield LiveWriter(
            name="stream",
            process=environment.start_writer(daemon=daemon, arguments=told),
            record=environment.record,
        )

    def counts_against_us(self, failed: Batch) -> bool:
        """There is no other writer to which it could have lost."""
        return True

    def pending(self, environment: Environment) -> Collection[Pending]:
        """Return nothing: a compaction leaves no plan in the table."""
        self._look(environment)
        return ()

    def make_work(self, environment: Environment) -> None:
        """Leave files for orphans. For the other services the writer leaves work enough."""
        self._look(environment)
        self._lost = self._lost or LostFiles(environment.table)
        self._lost.look()

    def left_over(self, environment: Environment) -> Sequence[str]:
        """Return nothing."""
        return ()

    def gather(
        self, environment: Environment, *, records: Mapping[str, Path], runs: Sequence[StoredRun], witness: Path
    ) -> History:
        """Return the history of the table. `records` are by the writers' names."""
        written = merged(map(read_record, records.values()))
        self._ended.set()
        if self._watcher is not None:
            self._watcher.join()
        seen, reader = self._look(environment), PlainReader(environment.table)
        if missing := seen.missing():
            raise ValueError(f"the snapshots {missing[:5]} expired before they were seen: whose they were is not known")
        newest = max(reader.snapshots().items())[1]
        return History(
            expected=written.expected_rows(),
            found=self.format_demo.read(environment.directory).rows,
            twice=reader.rows(newest).twice,
            needed=files_needed(reader),
            files=reader.files_there(),
            timeline=timeline_found(seen),
            intervals=read_intervals(witness),
            runs=runs,
            journeys=travel(reader, seen, written),
            changed=rows_changed(reader, seen),
            failures=[batch for batch in written.failures() if self.counts_against_us(batch)],
            exclusive=frozenset(),
            signed=frozenset({Service.COMPACTION.value, Service.TTL.value}),
        )

    def _look(self, environment: Environment) -> SnapshotsSeen:
        with self._looking:
            self._seen = self._seen or SnapshotsSeen(environment.table)
            self._seen.look()
            return self._seen

    def _watch(self, environment: Environment) -> None:
        while not self._ended.wait(_LOOKS_EVERY_SECONDS):
            self._look(environment)
