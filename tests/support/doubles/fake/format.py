"""The fake format as a TableFormat. It reads a folder of JSON files through Storage, and returns a TableView."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from lakewarden.planners.formats.by_path import NamedByPath
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.model.instant import Instant, Service, Step
from lakewarden.planners.model.table import Table
from lakewarden.planners.model.view import Blocker, TableIdentity, TableView, WriterActivity
from lakewarden.planners.ports import (
    FLINK,
    SPARK,
    Contradiction,
    Observation,
    Sign,
    Storage,
    WriterEngine,
    WriterOption,
)
from lakewarden.planners.settings import Settings
from tests.support.doubles.fake.layout import (
    HEARTBEATS,
    TIMELINE,
)
from tests.support.doubles.fake.options import (
    FakeArchiveOptions,
    FakeCleanOptions,
    FakeClusteringOptions,
    FakeCompactionOptions,
    FakeTableOptions,
)
from tests.support.doubles.fake.reading import (
    FakeReading,
    backlog_of,
    failures_of,
    keep_until,
    listing_of,
    properties_of,
    timeline_of,
    writes_of,
)


class FakeFormat(NamedByPath):
    """A format with one service of each kind that the daemon knows.

        compaction    executed and committed in separate steps
        clustering    execute and commit joined; makes writers fail
        clean         execute and commit joined; deletes
        archive       execute and commit joined; not on the timeline

    A table without a lock (`locked: false`) has a blocker, as real tables do.
    """

    name = "fake"
    table_options: type[Settings] = FakeTableOptions
    services: Mapping[Service, type[Settings]] = {
        Service.COMPACTION: FakeCompactionOptions,
        Service.CLUSTERING: FakeClusteringOptions,
        Service.CLEAN: FakeCleanOptions,
        Service.ARCHIVE: FakeArchiveOptions,
    }
    writer_engines: tuple[WriterEngine, ...] = SPARK, FLINK
    first_services: tuple[Service, ...] = ()
    sign: Sign | None = None

    def contradictions(self, table: Table) -> Sequence[Contradiction]:
        """Return nothing. All options of a fake table may be combined."""
        return ()

    def shared_name(self, catalog: str, settings: Any, identifier: str) -> str:
        """Return the name that a table would have in a catalog. There are no catalogs of fake tables."""
        return f"catalog://{catalog}/{identifier}"

    def writer_options(
        self, table: Table, *, engine: WriterEngine, hook_url: str, lock_held: timedelta | None = None
    ) -> Sequence[WriterOption]:
        """Return the options with the hook of a fake writer and with the services that it leaves to Lakewarden.

        Raises PermanentError if the table names no lock.
        """
        if isinstance(table.options, FakeTableOptions) and not table.options.locked:
            raise PermanentError(f"table {table.id} names no lock: set options: {{locked: true}}")
        services = [
            WriterOption(key=f"fake.{service}", value="false", why=f"{service} is Lakewarden's")
            for service in table.policies
        ]
        return (WriterOption(key="fake.hook", value=hook_url, why="Lakewarden hears of each commit"), *services)

    def token(self, table: Table, storage: Storage) -> str:
        """Return the stamps of the table's folder and of its timeline."""
        try:
            return f"{storage.stamp(table.location)}/{storage.stamp(f'{table.location}/{TIMELINE}')}"
        except FileNotFoundError as error:
            raise PermanentError(f"{table.location} holds no fake table: it has no {TIMELINE} folder") from error

    def observe(self, table: Table, storage: Storage, previous: Observation | None, *, now: datetime) -> Observation:
        """Return the view of the table. As for a Hudi table, it may be kept until a heartbeat runs out, or not at all.
        Raises PermanentError if there is no fake table, and TemporaryError if its properties are half-written.
        """
        token = self.token(table, storage)
        properties = properties_of(table.location, storage)
        reading = FakeReading(
            storage=storage,
            folder=f"{table.location}/{TIMELINE}",
            remembered={} if previous is None or previous.memo is None else previous.memo,
        )
        beats = {e.name: e.modified for e in listing_of(f"{table.location}/{HEARTBEATS}", storage)}
        timeline = timeline_of(reading, beats)
        options = table.options if isinstance(table.options, FakeTableOptions) else FakeTableOptions()
        view = TableView(
            identity=TableIdentity(location=table.location, created=properties["created"]),
            name=properties["name"],
            kind="FAKE",
            version="1",
            observed_at=now,
            timeline=timeline,
            writers=WriterActivity(
                in_flight=timeline.writes_in_flight(),
                last_commit_at=max((i.completed_at for i in writes_of(timeline) if i.completed_at), default=None),
                failures=failures_of(timeline, now),
            ),
            backlogs={service: backlog_of(timeline, service) for service in self.services},
            blockers=() if options.locked else (_UNLOCKED,),
            faults=tuple(reading.faults),
            rewrites_all={Service.COMPACTION: str(len(writes_of(timeline)))},
        )
        return Observation(
            token=token, view=view, memo=reading.kept, keep_until=keep_until(view, reading.folder, storage, now)
        )

    def endangered(self, view: TableView, service: Service, *, step: Step, instant: str | None) -> tuple[Instant, ...]:
        """Return the writes in flight that a compaction or a clustering would hurt. The rule is that of Hudi."""
        writes = view.writers.in_flight
        match service, step:
            case (Service.COMPACTION, Step.PLAN) | (Service.CLUSTERING, _):
                return writes
            case Service.COMPACTION, Step.COMMIT:
                return tuple(write for write in writes if instant is None or write.time < instant)
            case _:
                return ()

    def awaited(self, view: TableView, service: Service, *, step: Step, instant: str | None) -> str | None:
        """Return None. A fake write does not compare itself with the services."""
        return None


FAKE = FakeFormat()

_UNLOCKED = Blocker(
    code="lock_missing", reason="no lock keeps us and the table's writers apart", remedy="set options: {locked: true}"
)
