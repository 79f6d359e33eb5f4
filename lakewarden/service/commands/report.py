"""`lakewarden report`: finds tables, observes and judges them as a daemon does, and prints the worst first. It changes
nothing.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.segment import Segment
from rich.table import Table as Grid
from rich.text import Text

from lakewarden.planners.model.decision import Blocked, Decision, DoesNotApply, WouldRun, remedy_of
from lakewarden.planners.model.errors import LakewardenError, PermanentError
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.printable import printable, printable_values
from lakewarden.planners.model.table import Table
from lakewarden.planners.model.view import TableView
from lakewarden.planners.storage import Storages
from lakewarden.service.commands.observing import as_served, decisions_on, observed
from lakewarden.service.commands.places import SearchSettings, UnreadLine, tables_of
from lakewarden.service.config.loading import load
from lakewarden.service.reporting.quantities import size
from lakewarden.service.rules.forecast import Forecast, Past, Total, forecast, totals

_FAILED = 2
_WIDE = 180
"""So many columns has the text in a file or a pipe."""

_MOST_UNREAD = 20
_MOST_STEPS = 10
_NAME = 60


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
    """One service of one table: the decision on it, and what a run would do now. Nothing is known of earlier runs."""

    service: Service
    decision: Decision
    work: Forecast = field(default_factory=Forecast)

    @property
    def is_blocked(self) -> bool:
        """Whether something has to be done before it can run."""
        return isinstance(self.decision, Blocked)

    @property
    def is_due(self) -> bool:
        """Whether it has something to do now, also if it is blocked."""
        return isinstance(self.decision, WouldRun | Blocked)

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
        """Yield the services that are due, those included that are blocked until something is done."""
        yield from (one for one in self.services if one.is_due)

    @property
    def called(self) -> str:
        """Return a short name: the last two names of its location. The names of many tables are equal."""
        return "/".join(self.location.rstrip("/").split("/")[-2:])

    @property
    def fewer(self) -> int:
        """Return how many files fewer there are after the services that are due."""
        return sum(one.fewer for one in self.due())

    @property
    def frees(self) -> int:
        """Return how many bytes the services that are due would delete."""
        return sum(one.work.deletes_bytes or 0 for one in self.due())

    @property
    def due_words(self) -> str:
        """Return the services that are due. Those that are blocked are in brackets."""
        due = [f"({one.service})" if one.is_blocked else str(one.service) for one in self.due()]
        return ", ".join(due) or "nothing"

    @property
    def badness(self) -> tuple[int, int, int, str]:
        """Return what the tables are ordered by: the files that may go, the bytes, the services that are due."""
        return (-self.fewer, -self.frees, -sum(1 for _ in self.due()), self.location)


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
        """Return what blocks services that are due, with the number of tables, the most frequent first."""
        blocks: dict[tuple[str, str | None], Blocked] = {}
        tables = Counter[tuple[str, str | None]]()
        for table in self.tables:
            of_table = {
                (one.decision.reason, one.decision.remedy): one.decision
                for one in table.services
                if isinstance(one.decision, Blocked)
            }
            blocks |= of_table
            tables.update(of_table.keys())
        return [(blocks[key], number) for key, number in tables.most_common()]

    def summary(self) -> Iterator[str]:
        """Yield what it says in a few sentences."""
        due = sum(any(True for _ in table.due()) for table in self.tables)
        yield (
            f"{len(self.tables)} tables were read and {len(self.unread)} could not be. On {due} of them a service is "
            "due with the defaults of a daemon."
        )
        sums = self.totals.values()
        read = _amount(sum(one.files for one in sums), sum(one.bytes for one in sums))
        deleted = _amount(sum(one.deletes for one in sums), sum(one.deletes_bytes for one in sums))
        yield (
            f"The services that are due would read {read}, and delete {deleted}. "
            f"After them there would be {sum(table.fewer for table in self.tables)} files fewer, as far as the tables "
            "tell it."
        )


def line_of(table: Table, view: TableView, *, now: datetime) -> TableLine:
    """Return the line of a table. A service that has no meaning on the table is left out. Pure."""
    at = view.writers.last_commit_at
    counts = [one.small_files for one in view.backlogs.values() if one.small_files is not None]
    return TableLine(
        location=table.location,
        name=view.name,
        format=table.format,
        kind=view.kind,
        version=view.version,
        last_commit_at=None if at is None else at.isoformat(),
        commits=sum(1 for one in view.timeline.instants if not one.pending),
        small_files=max(counts, default=None),
        services=tuple(
            ServiceLine(service=service, decision=decision, work=forecast(service, view, Past()) or Forecast())
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
    tables, unread = _found(options.places, settings)
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


def _found(places: Sequence[str], settings: SearchSettings) -> tuple[list[Table], list[UnreadLine]]:
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


def print_report(options: ReportOptions, *, out: TextIO, err: TextIO) -> int:
    """Print the report and return the exit code.

    It is 0 if there is a table that could be read, and 2 otherwise: then one line on `err` says why. A table that
    cannot be read is a line of the report.
    """
    from lakewarden.service.commands.report_page import page_of  # noqa: PLC0415 - it shows what this module makes

    try:
        report = report_of(options, err=err)
    except LakewardenError as error:
        _complain(err, str(error))
        return _FAILED
    if options.html is not None:
        try:
            options.html.write_text(page_of(report), encoding="utf-8")
        except OSError as error:
            _complain(err, f"{options.html} cannot be written: {error.strerror}")
            return _FAILED
    if options.as_json:
        print(document_of(report), file=out)
    else:
        width = None if out.isatty() else _WIDE
        Console(file=out, highlight=False, width=width).print(ScreenPart(text_of(report, most=options.most)))
        if options.html is not None:
            print(f"The page is in {printable(str(options.html))}", file=out)
    return 0 if report.tables else _FAILED


def _complain(err: TextIO, message: str) -> None:
    print("lakewarden report:", printable(" ".join(message.split())), file=err)


def document_of(report: LakeReport) -> str:
    """Return the report as JSON, for programs. Sizes are in bytes, times in RFC 3339. What is not known is null."""
    document = {
        "at": report.at,
        "places": list(report.places),
        "services": {
            service: {**counts, **(_figures(report.totals[service]) if service in report.totals else {})}
            for service, counts in report.services.items()
        },
        "tables": [_table(one) for one in report.tables],
        "unread": [asdict(one) for one in report.unread],
    }
    return json.dumps(printable_values(document), indent=2)


def _table(line: TableLine) -> dict[str, Any]:
    services = [
        {
            "service": one.service,
            "decision": type(one.decision).__name__,
            "code": one.decision.code,
            "reason": one.decision.reason,
            "remedy": remedy_of(one.decision),
            "is_due": one.is_due,
            "files_fewer": one.fewer,
            **_figures(one.work),
        }
        for one in line.services
    ]
    return {**asdict(line), "services": services, "files_fewer": line.fewer, "frees_bytes": line.frees}


def _figures(work: Forecast | Total) -> dict[str, Any]:
    return {
        "read_files": work.files,
        "read_bytes": work.bytes,
        "write_files": work.writes,
        "delete_files": work.deletes,
        "delete_bytes": work.deletes_bytes,
        "versions": work.versions,
    }


def text_of(report: LakeReport, *, most: int) -> RenderableType:
    """Return the report as text, with the worst `most` tables. 0 means all."""
    lines = report.tables[: most or None]
    parts: list[RenderableType] = [*(Text(line) for line in report.summary()), Text("")]
    if report.tables:
        parts += [Padding(_grid(SERVICE_HEADS, service_rows(report)), (0, 0, 0, 2)), Text("")]
        parts += [
            Padding(
                _grid(TABLE_HEADS, ([printable(one.called, most=_NAME), *table_cells(one)] for one in lines)),
                (0, 0, 0, 2),
            )
        ]
        hidden = len(report.tables) - len(lines)
        parts += [Text(f"  and {hidden} better ones: --limit 0 shows all", style="dim")] if hidden else []
        parts += _remarks(lines)
        parts += _steps(report)
    if report.unread:
        parts += [Text(""), Text("could not be read", style="bold red")]
        for unread in report.unread[:_MOST_UNREAD]:
            parts.append(Text(f"  {printable(unread.location, most=200)}: {printable(unread.reason, most=500)}"))
        more = len(report.unread) - _MOST_UNREAD
        parts += [Text(f"  and {more} more: --json has all", style="dim")] if more > 0 else []
    return Group(*parts)


@dataclass(frozen=True, slots=True)
class ScreenPart:
    """A part of the screen with texts from outside. They cannot move the cursor, or change the direction of writing."""

    part: RenderableType

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the pieces of the part, each with its style."""
        for segment in console.render(self.part, options):
            yield Segment(printable(segment.text, lines=True), segment.style, segment.control)


SERVICE_HEADS = ("service", "due on", "not due", "blocked", "reads", "into files", "deletes")
TABLE_HEADS = ("table", "format", "commits", "small", "fewer files", "frees", "due")


def service_rows(report: LakeReport) -> Iterator[Sequence[str]]:
    """Yield the cells of each service. A service that is blocked is due, too."""
    for service, counts in report.services.items():
        total = report.totals.get(service)
        yield (
            str(service),
            str(counts["due"] + counts["blocked"]),
            str(counts["not due"]),
            str(counts["blocked"]),
            "" if total is None else _short(total.files, total.bytes),
            "" if total is None or not total.writes else str(total.writes),
            "" if total is None else _short(total.deletes, total.deletes_bytes),
        )


def table_cells(line: TableLine) -> Sequence[str]:
    """Return the cells of a table, without its name."""
    return (
        f"{line.format} {line.version}".strip(),
        str(line.commits),
        "?" if line.small_files is None else str(line.small_files),
        str(line.fewer),
        size(line.frees),
        line.due_words,
    )


def work_in_words(work: Forecast) -> str:
    """Return what a run would do. It is empty if nothing is known."""
    facts = [
        f"reads {_short(work.files, work.bytes)}" if work.files or work.bytes else "",
        f"writes {work.writes} files" if work.writes else "",
        f"deletes {_short(work.deletes, work.deletes_bytes)}" if work.deletes else "",
        f"{work.versions} versions go" if work.versions else "",
    ]
    return "; ".join(one for one in facts if one)


def _amount(files: int, content: int) -> str:
    return f"{files} files ({size(content)})"


def _short(files: int | None, content: int | None) -> str:
    """Return an amount in a column: `12, 1.5 MiB`."""
    return ", ".join(one for one in (str(files) if files else "", size(content) if content else "") if one)


def _grid(heads: Sequence[str], rows: Iterator[Sequence[str]]) -> Grid:
    grid = Grid(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for heading in heads:
        grid.add_column(heading, justify="left" if heading in ("service", "table", "due") else "right", overflow="fold")
    for row in rows:
        grid.add_row(*map(Text, row))
    return grid


def _steps(report: LakeReport) -> list[Text]:
    steps = report.first_steps()
    if not steps:
        return []
    lines = [Text(""), Text("to be done before blocked services (in brackets) can run", style="bold")]
    for block, tables in steps[:_MOST_STEPS]:
        lines.append(Text(f"  on {tables} tables: {printable(block.reason, most=500)}"))
        lines += [Text(f"    {printable(line, most=500)}", style="dim") for line in (block.remedy or "").splitlines()]
    more = len(steps) - _MOST_STEPS
    return [*lines, Text(f"  and {more} other reasons: --json has all", style="dim")] if more > 0 else lines


def _remarks(tables: Sequence[TableLine]) -> list[Text]:
    lines = [
        Text(f"  {printable(table.called, most=_NAME)}: {printable(remark, most=500)}", style="yellow")
        for table in tables
        for remark in table.remarks
    ]
    return [Text(""), *lines] if lines else []
