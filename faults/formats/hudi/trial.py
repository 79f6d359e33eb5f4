"""The trial on Hudi: writers of several releases on one merge-on-read table with a composed record key."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from faults.checking.evidence import read_intervals
from faults.checking.history import History, StoredRun
from faults.formats.hudi.evidence import files_needed, files_there, pending_on, read_timeline
from faults.formats.trial import LiveWriter, Pending, Wait
from faults.injection.schedule import Targets
from lakewarden.demo.daemon import DaemonProcess
from lakewarden.demo.environment import Environment
from lakewarden.demo.formats.hudi.demo import DEMO
from lakewarden.demo.formats.hudi.reader import read_snapshot
from lakewarden.demo.writers.orders import Batch, merged, read_record
from lakewarden.executors.points import Point
from lakewarden.executors.worker import bundles
from lakewarden.planners.model.instant import Service
from live.hudi.several.writer_specs import WRITER, bring_releases, writer_specs, written_by
from live.hudi.travel import travel

POLICIES: Mapping[str, Any] = {
    "compaction": {"trigger": {"num_commits": 3}},
    "log_compaction": {"trigger": {"num_commits": 2}, "options": {"log_blocks_threshold": 2}},
    "clustering": {
        "trigger": {"num_commits": 3},
        "options": {"untouched_for": "25s", "sort_columns": ["order_id"]},
    },
    # A clean's plan does not name its author. If its run is killed before it reported the plan, the plan waits for the
    # grace time.
    "clean": {"trigger": {"num_commits": 2}, "grace": "1m", "options": {"commits_retained": 6}},
    "archive": {"trigger": {"num_commits": 3}, "options": {"keep_min_commits": 10, "keep_max_commits": 13}},
}
"""Every service that runs by itself, as often as it can beside writers."""

_PLANNED = (Service.COMPACTION, Service.CLEAN, Service.LOG_COMPACTION, Service.CLUSTERING)

TARGETS = Targets(
    services=(
        *(Service.COMPACTION,) * 4,
        *(Service.CLEAN,) * 3,
        *(Service.LOG_COMPACTION,) * 2,
        *(Service.CLUSTERING,) * 2,
        Service.ARCHIVE,
    ),
    points=(
        Point.LEASED,
        Point.PLANNED,
        Point.LOOKING,
        Point.STORED,
        Point.EXECUTING,
        Point.EXECUTED,
        Point.PERMITTED,
        Point.COMMITTED,
        Point.SETTLED,
        Point.NOTIFIED,
    ),
    passed_by={
        Point.STORED: _PLANNED,  # an archive stores no instant
        Point.LOOKING: (Service.CLUSTERING,),  # the other services plan without the table's lock
    },
)
"""The points that runs on a Hudi table pass by themselves. A plan is withdrawn only if a write gets in its way, and
that cannot be planned.
"""

_ACTIONS = {service.value: service for service in Service} | {"logcompaction": Service.LOG_COMPACTION}
"""The service of a pending plan, by its action on the timeline."""

_TABLE_VERSION = 9
_EVERY_SECONDS = 2.5


class HudiTrial:
    """Fulfils `FormatTrial`."""

    format_demo = DEMO
    policies = POLICIES
    targets = TARGETS
    most_writers = 4

    def fetch(self) -> None:
        """Download Hudi's bundle, and those of the writers' releases."""
        bundles.fetch(("hudi",))
        bring_releases(_TABLE_VERSION)

    def table_entry(self, environment: Environment, wait: Wait) -> Mapping[str, Any]:
        """Start the lock service, and return the table's entry when it answers."""

        def start_zookeeper() -> str:
            zookeeper = environment.start_zookeeper()
            wait(zookeeper.ready, "ZooKeeper is not up")
            return zookeeper.address

        return self.format_demo.entry(environment.table, start_zookeeper)

    def start_writers(
        self, environment: Environment, daemon: DaemonProcess, *, seed: int, writers: int
    ) -> Iterator[LiveWriter]:
        """Start writers of several releases, each with days of its own."""
        environment.options.write_text(json.dumps(daemon.writer_options()), encoding="utf-8")
        for spec in writer_specs(writers, table_version=_TABLE_VERSION, conflicts=False):
            arguments = written_by(spec, table_version=_TABLE_VERSION, every=_EVERY_SECONDS, environment=environment)
            name = f"writer-{spec.shop}"
            process = environment.start_another_writer(name, WRITER, *arguments, "--seed", str(seed))
            yield LiveWriter(name=spec.shop, process=process, record=environment.records[-1])

    def counts_against_us(self, failed: Batch) -> bool:
        """Every failure counts, because each writer has days of its own."""
        return True

    def pending(self, environment: Environment) -> Collection[Pending]:
        """Return the pending instants of the timeline."""
        found = pending_on(environment.table)
        return {Pending(instant, _ACTIONS[action]) for instant, action in found if action in _ACTIONS}

    def make_work(self, environment: Environment) -> None:
        """Do nothing: the writers leave work for every service."""

    def left_over(self, environment: Environment) -> Sequence[str]:
        """Return nothing: plans are all that may be left."""
        return ()

    def gather(
        self, environment: Environment, *, records: Mapping[str, Path], runs: Sequence[StoredRun], witness: Path
    ) -> History:
        """Return the history of the table. `records` are by the writers' signatures."""
        by_writer = {writer: read_record(record) for writer, record in records.items()}
        written, table = merged(by_writer.values()), environment.table
        timeline, metadata = read_timeline(table)
        return History(
            expected=written.expected_rows(),
            found=read_snapshot(table).rows,
            needed=files_needed(table, metadata),
            files=files_there(table),
            timeline=timeline,
            intervals=read_intervals(witness),
            runs=runs,
            journeys=travel(table, by_writer),
            failures=written.failures(),
        )
