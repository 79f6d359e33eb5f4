"""The trial on plain directories: one or two jobs that append files, a reader that polls all the time, and what dead
jobs leave.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from faults.checking.evidence import read_intervals
from faults.checking.history import History, StoredRun, TimelineFound
from faults.formats.directory.evidence import journals, not_done
from faults.formats.trial import LiveWriter, Pending, Wait
from faults.injection.schedule import NUMBERED, Targets
from lakewarden.demo.daemon import DaemonProcess
from lakewarden.demo.environment import Environment
from lakewarden.demo.formats.directory.demo import TABLE_OPTIONS, DirectoryDemo
from lakewarden.demo.reader import read_queries
from lakewarden.demo.writers.orders import Batch, merged, read_record
from lakewarden.executors.points import Point
from lakewarden.planners.model.instant import Service
from live.directory.leftovers import Leftovers
from live.directory.policies import POLICIES
from live.directory.rows import rows_of
from live.journey import Journey

_ACTS = (Service.COMPACTION, Service.TTL)
"""The services with a journal."""

TARGETS = Targets(
    services=(
        *(Service.COMPACTION,) * 4,
        *(Service.TTL,) * 3,
        *(Service.PARTITION_COMMIT,) * 2,
        Service.ORPHANS,
    ),
    points=(
        *(point for point in NUMBERED if point is not Point.STORED),  # no plan of a directory has an instant
        *(Point.PROPOSED,) * 2,
        *(Point.EXCHANGED,) * 2,
        *(Point.PUBLISHED,) * 2,
        Point.DELETING,
    ),
    passed_by={
        Point.PROPOSED: _ACTS,
        Point.EXCHANGED: _ACTS,
        Point.PUBLISHED: _ACTS,
        Point.DELETING: (*_ACTS, Service.ORPHANS),
    },
)

_WRITER = "lakewarden.demo.formats.directory.writer"


class DirectoryTrial:
    """Fulfils `FormatTrial`."""

    format_demo = DirectoryDemo()
    policies = POLICIES
    targets = TARGETS
    most_writers = 2

    def __init__(self) -> None:
        self._leftovers = Leftovers()

    def fetch(self) -> None:
        """Do nothing: Spark reads the files by itself."""

    def table_entry(self, environment: Environment, _wait: Wait) -> Mapping[str, Any]:
        """Return the table's entry: by its folder."""
        path = str(environment.table)
        return {"format": "directory", "path": path, "poll": "1s", "options": dict(TABLE_OPTIONS)}

    def start_writers(
        self, environment: Environment, daemon: DaemonProcess, *, seed: int, writers: int
    ) -> Iterator[LiveWriter]:
        """Start the writers, which have keys of their own and write into the same partitions. Then start the reader."""
        first = environment.start_writer(daemon=daemon, arguments=("--seed", "1"))
        yield LiveWriter(name="first", process=first, record=environment.record)
        if writers > 1:
            told = ("--path", str(environment.table), "--seed", "2")
            second = environment.start_another_writer("second", _WRITER, *told)
            yield LiveWriter(name="second", process=second, record=environment.records[-1])
        environment.start_reader()

    def counts_against_us(self, failed: Batch) -> bool:
        """Whether the failure counts: each does, for the writers share no file."""
        return True

    def pending(self, environment: Environment) -> Collection[Pending]:
        """Return the acts that are not ended, by their journals."""
        return {
            Pending(name, Service.TTL if deletes else Service.COMPACTION)
            for name, deletes in journals(environment.table)
        }

    def make_work(self, environment: Environment) -> None:
        """Leave an expired partition, as soon as the last one is gone."""
        self._leftovers.leave(environment.table)

    def left_over(self, environment: Environment) -> Sequence[str]:
        """Return the partitions in which a service has work."""
        return [*self._leftovers.lying(), *not_done(environment.table)]

    def gather(
        self, environment: Environment, *, records: Mapping[str, Path], runs: Sequence[StoredRun], witness: Path
    ) -> History:
        """Return the history of the directory. A query of the reader counts as a journey."""
        written = merged(map(read_record, records.values()))
        found, twice = rows_of(environment.table)
        return History(
            expected=written.expected_rows(),
            found=found,
            twice=twice,
            timeline=TimelineFound(pending={name for name, _ in journals(environment.table)}),
            intervals=read_intervals(witness),
            runs=runs,
            journeys=[
                Journey(instant=str(number), operation="query", failure=query.failure)
                for number, query in enumerate(read_queries(environment.queries), start=1)
            ],
            failures=written.failures(),
            exclusive=(),
        )
