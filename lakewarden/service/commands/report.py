"""`lakewarden report`: finds tables, observes and judges them as a daemon does, and prints the worst first. It changes
nothing.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

from lakewarden.planners.model.decision import Blocked, Decision, DoesNotApply, WouldRun
from lakewarden.planners.model.errors import LakewardenError, PermanentError
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.printable import printable
from lakewarden.planners.model.table import Table
from lakewarden.planners.model.view import TableView
from lakewarden.planners.ports import KeepsCommits, Listing, ReadsWriterDefaults, WriterDefaults
from lakewarden.planners.registry import FORMATS
from lakewarden.planners.storage import Storages
from lakewarden.planners.storage.locations import is_in_catalog
from lakewarden.service.commands.observing import as_served, decisions_on, observed
from lakewarden.service.commands.places import SearchSettings, UnreadLine, catalogs_at, kind_of, tables_of
from lakewarden.service.config.layers.templates import names_of
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


# What a lake tells of its writers, for a first configuration: the locks that they name, and what their cleans kept.

_TEMPLATES = ("{namespace}.{table}", "{namespace}/{table}", "{table}", "{path_hash}")
_MOST_REMARKS = 5


def options_in_catalogs(places: Iterable[str], *, err: TextIO) -> Mapping[str, WriterDefaults]:
    """Return by format the options that the properties of the tables in catalogs name, if all of them name the same.

    What differs from table to table only by its name is the same. If they name several, this is printed, and an
    operator has to choose. Raises PermanentError if a place is the address of no catalog that can be asked.
    """
    named: dict[str, Counter[str]] = {}
    remarks: dict[str, dict[str, None]] = {}
    for format_name, defaults in _named(places):
        remarks.setdefault(format_name, {}).update(dict.fromkeys(defaults.remarks))
        if defaults.options:
            named.setdefault(format_name, Counter())[json.dumps(defaults.options, sort_keys=True)] += 1
    for format_name, tally in named.items():
        if len(tally) > 1:
            print(_several(format_name, tally), file=err)
    return {
        name: WriterDefaults(
            options=json.loads(next(iter(named[name]))) if len(named.get(name, ())) == 1 else {},
            remarks=tuple(texts)[:_MOST_REMARKS],
        )
        for name, texts in remarks.items()
    }


def over(first: Mapping[str, WriterDefaults], then: Mapping[str, WriterDefaults]) -> Mapping[str, WriterDefaults]:
    """Return the options of `first`, and those of `then` for formats without any. All remarks stay."""
    none = WriterDefaults()
    return {
        name: WriterDefaults(
            options=first.get(name, none).options or then.get(name, none).options,
            remarks=(*first.get(name, none).remarks, *then.get(name, none).remarks),
        )
        for name in {**first, **then}
    }


def _several(format_name: str, tally: Counter[str]) -> str:
    sets = "; ".join(f"{tables} have {options}" for options, tables in tally.most_common(5))
    return printable(
        f"the {format_name} tables name {len(tally)} sets of options in their catalog, so none is written: {sets}"
    )


def _named(places: Iterable[str]) -> Iterator[tuple[str, WriterDefaults]]:
    """Yield the format and the options of each table with such properties."""
    storages = Storages()
    for catalog in (catalog for place in places if kind_of(place) is not None for catalog in catalogs_at(place)):
        if not isinstance(catalog.format, ReadsWriterDefaults):
            continue
        try:
            listing = catalog.format.tables_in(
                catalog.name, catalog.settings, storages.of(f"catalog://{catalog.name}/any")
            )
        except LakewardenError:
            continue  # `init` has said so when it searched the place
        for identifier, properties in listing.properties.items():
            defaults = catalog.format.options_of(properties)
            if defaults.options or defaults.remarks:
                options = _for_each(defaults.options, _names(identifier, listing))
                yield catalog.format.name, WriterDefaults(options=options, remarks=defaults.remarks)


def _names(identifier: str, listing: Listing) -> Mapping[str, str]:
    return names_of(identifier, listing.locations.get(identifier, ""), identifier)


def _for_each(value: Any, names: Mapping[str, str]) -> Any:
    """Return a value with templates in the place of the names of a table."""
    if isinstance(value, Mapping):
        return {key: _for_each(field, names) for key, field in value.items()}
    return next((TEMPLATE for TEMPLATE in _TEMPLATES if TEMPLATE.format(**names) == value), value)


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
