"""`lakewarden report`: finds tables, observes and judges them as a daemon does, and prints the worst first. It changes
nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

from lakewarden.planners.model.decision import Blocked, Decision, DoesNotApply, WouldRun
from lakewarden.planners.model.errors import LakewardenError, PermanentError
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Table
from lakewarden.planners.model.view import TableView
from lakewarden.planners.ports import KeepsCommits
from lakewarden.planners.registry import FORMATS
from lakewarden.planners.storage import Storages
from lakewarden.planners.storage.locations import is_in_catalog
from lakewarden.service.commands.observing import as_served, decisions_on, observed
from lakewarden.service.commands.places import SearchSettings, UnreadLine, tables_of
from lakewarden.service.config.loading import load
from lakewarden.service.config.policies import first_policies
from lakewarden.service.rules.forecast import Forecast, Past, Total, forecast, totals


@dataclass(frozen=True, kw_only=True, slots=True)
class ReportOptions:
    """What is asked for. `config` says how stores and catalogs are reached. `html` is the file of the page."""

    places: Sequence[str]
    exclude: Sequence[str] = ()
    config: Path | None = None
    format_name: str | None = None
    html: Path | None = None
    as_json: bool = False
    most: int = 20


@dataclass(frozen=True, kw_only=True, slots=True)
class ServiceLine:
    """One service of one table: the decision on it, and what a run would do now. Nothing is known of earlier runs.
    `is_due`: it has something to do now, also if it is blocked.
    """

    service: Service
    decision: Decision
    is_due: bool = False
    work: Forecast = field(default_factory=Forecast)

    @property
    def is_blocked(self) -> bool:
        """Whether something has to be done before it can run."""
        return isinstance(self.decision, Blocked)

    @property
    def fewer(self) -> int:
        """Return how many files fewer there are after it, as far as it is known."""
        joined = 0 if self.work.files is None or self.work.writes is None else self.work.files - self.work.writes
        return max(0, joined) + (self.work.deletes or 0)

    @property
    def says(self) -> str:
        """Return the kind of decision in a word."""
        return "blocked" if self.is_blocked else "due" if self.is_due else "not due"


@dataclass(frozen=True, kw_only=True, slots=True)
class TableLine:
    """One table. `small_files` are those that a service would join. None if no service counts them. `commits` are
    those on its timeline. `remarks` are its warnings, and the parts of its metadata that cannot be read.
    """

    location: str
    name: str
    format: str
    kind: str = ""
    version: str = ""
    last_commit_at: str | None = None
    commits: int = 0
    small_files: int | None = None
    services: tuple[ServiceLine, ...] = ()
    remarks: tuple[str, ...] = ()

    def due(self) -> Iterator[ServiceLine]:
        """Yield the services with something to do, those included that are blocked until something is done."""
        yield from (service for service in self.services if service.is_due)

    @property
    def called(self) -> str:
        """Return a short name: the last two names of its location. The names of many tables are equal."""
        return "/".join(self.location.rstrip("/").split("/")[-2:])

    @property
    def fewer(self) -> int:
        """Return how many files fewer there are after the services that are due."""
        return sum(line.fewer for line in self.due())

    @property
    def frees(self) -> int:
        """Return how many bytes the services that are due would delete."""
        return sum(line.work.deletes_bytes or 0 for line in self.due())

    @property
    def due_words(self) -> str:
        """Return the services that are due or blocked. Those that are blocked are in brackets."""
        due = [
            f"({line.service})" if line.is_blocked else str(line.service)
            for line in self.services
            if line.is_due or line.is_blocked
        ]
        return ", ".join(due) or "nothing"

    @property
    def badness(self) -> tuple[int, int, int, int, str]:
        """Return what the tables are ordered by: the files that may go, the bytes, the services that are due, and those
        that are blocked.
        """
        due, blocked = sum(1 for _ in self.due()), sum(line.is_blocked for line in self.services)
        return (-self.fewer, -self.frees, -due, -blocked, self.location)


@dataclass(frozen=True, kw_only=True, slots=True)
class LakeReport:
    """The whole report. The worst table comes first."""

    at: str
    places: tuple[str, ...]
    tables: tuple[TableLine, ...] = ()
    unread: tuple[UnreadLine, ...] = ()

    @property
    def totals(self) -> Mapping[Service, Total]:
        """Return what each service would do on all tables on which it is due."""
        work: dict[Service, list[Forecast]] = {}
        for table in self.tables:
            for line in table.due():
                work.setdefault(line.service, []).append(line.work)
        return totals(work)

    @property
    def services(self) -> Mapping[Service, Counter[str]]:
        """Return on how many tables each service is due, not due, and blocked."""
        counts: dict[Service, Counter[str]] = {}
        for table in self.tables:
            for line in table.services:
                counts.setdefault(line.service, Counter())[line.says] += 1
        return counts

    def first_steps(self) -> Sequence[tuple[Blocked, int]]:
        """Return what blocks services, with the number of tables, the most frequent first."""
        blocks: dict[tuple[str, str | None], Blocked] = {}
        tables = Counter[tuple[str, str | None]]()
        for table in self.tables:
            of_table = {
                (service.decision.reason, service.decision.remedy): service.decision
                for service in table.services
                if isinstance(service.decision, Blocked)
            }
            blocks |= of_table
            tables.update(of_table.keys())
        return [(blocks[key], number) for key, number in tables.most_common()]


def line_of(table: Table, view: TableView, *, now: datetime) -> TableLine:
    """Return the line of a table. A service that has no meaning on the table is left out. Pure."""
    at = view.writers.last_commit_at
    unblocked = replace(view, blockers=tuple(blocker for blocker in view.blockers if blocker.moot))
    due = {service for service, one in decisions_on(table, unblocked, now=now).items() if isinstance(one, WouldRun)}
    counts = [backlog.small_files for backlog in view.backlogs.values() if backlog.small_files is not None]
    return TableLine(
        location=table.location,
        name=view.name,
        format=table.format,
        kind=view.kind,
        version=view.version,
        last_commit_at=None if at is None else at.isoformat(),
        commits=sum(1 for instant in view.timeline.instants if not instant.pending),
        small_files=max(counts, default=None),
        services=tuple(
            ServiceLine(
                service=service,
                decision=decision,
                is_due=service in due,
                work=forecast(service, view, Past()) or Forecast(),
            )
            for service, decision in decisions_on(table, view, now=now).items()
            if not isinstance(decision, DoesNotApply)
        ),
        remarks=(*view.faults, *view.warnings),
    )


def report_of(options: ReportOptions, *, err: TextIO) -> LakeReport:
    """Return the report. Raises PermanentError if no argument names a table, and what reading a place raises if it is
    the only one.
    """
    config = None if options.config is None else load(options.config)
    settings = SearchSettings(
        storages=Storages() if config is None else Storages(config.settings.storage, roots=config.roots),
        catalogs={} if config is None else config.catalogs,
        exclude=options.exclude,
        format_name=options.format_name,
    )
    now = datetime.now(UTC)
    tables, unread = _search(options.places, settings)
    if not tables and not unread:
        raise PermanentError(f"there is no table below {', '.join(options.places)}")
    lines: list[TableLine] = []
    served = [as_served(table, config) for table in tables]
    for number, (table, view) in enumerate(observed(served, config), 1):
        if isinstance(view, str):
            unread.append(UnreadLine(location=table.location, format=table.format, reason=view))
        else:
            lines.append(line_of(table, view, now=now))
        if err.isatty():
            end = "" if number < len(tables) else "\n"
            print(f"\r{number} of {len(tables)} tables", end=end, file=err, flush=True)
    return LakeReport(
        at=now.isoformat(timespec="seconds"),
        places=tuple(options.places),
        tables=tuple(sorted(lines, key=lambda line: line.badness)),
        unread=tuple(unread),
    )


def _search(places: Sequence[str], settings: SearchSettings) -> tuple[list[Table], list[UnreadLine]]:
    """Return the tables, each once, and what could not be searched. If nothing could, the first error is raised."""
    tables: dict[str, Table] = {}
    unread: list[UnreadLine] = []
    for place in places:
        try:
            for entry in tables_of(place, settings):
                if isinstance(entry, UnreadLine):
                    unread.append(entry)
                else:
                    tables.setdefault(entry.location, entry)
        except LakewardenError as error:
            if len(places) == 1:
                raise
            unread.append(UnreadLine(location=place, format=None, reason=str(error)))
    return list(tables.values()), unread


# What the cleans of a lake kept, for a first configuration.

_AT_ONCE = 8
_MOST_READ = 2000
"""So many tables are read. The first configuration of a larger lake says nothing of the others."""

_MOST_FAILURES = 8
"""After so many tables that could not be read, no other is read: each could wait for a store that is not reached."""


def kept_by_cleans(tables: Sequence[Table]) -> Mapping[str, int]:
    """Return by location how many commits the newest clean of a table kept, if it kept more than the default would.

    A table that cannot be read says nothing. The daemon will ask before its first clean.
    """
    able = [
        table
        for table in tables
        if isinstance(FORMATS[table.format], KeepsCommits) and not is_in_catalog(table.location)
    ]
    read = able[:_MOST_READ]
    storages, failed = Storages(), list[str]()
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        kept = list(threads.map(lambda table: _kept(table, storages, failed), read))
    return {table.location: commits for table, commits in zip(read, kept, strict=True) if commits is not None}


def _kept(table: Table, storages: Storages, failed: list[str]) -> int | None:
    """Return what the newest clean of a table kept. `failed` are the locations that could not be read so far."""
    if len(failed) >= _MOST_FAILURES:
        return None
    table_format = FORMATS[table.format]
    judged = replace(table, policies={Service.CLEAN: first_policies(table_format)[Service.CLEAN]})
    try:
        view = table_format.observe(judged, storages.of(table.location), None, now=datetime.now(UTC)).view
    except (LakewardenError, OSError, ValueError):
        failed.append(table.location)
        return None
    kept = view.kept_more.get(Service.CLEAN)
    return None if kept is None else kept.commits
