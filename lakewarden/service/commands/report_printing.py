"""`lakewarden report` prints: text for a terminal, JSON for programs, and one page of HTML that loads nothing."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from html import escape
from typing import Any, TextIO

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.segment import Segment
from rich.table import Table as Grid
from rich.text import Text

from lakewarden.planners.model.decision import Blocked, remedy_of
from lakewarden.planners.model.errors import LakewardenError
from lakewarden.planners.model.printable import counted, printable, printable_values, size
from lakewarden.service.commands.places import UnreadLine
from lakewarden.service.commands.report import LakeReport, ReportOptions, ServiceLine, TableLine, report_of
from lakewarden.service.rules.forecast import Forecast, Total

_FAILED = 2
_WIDE = 180
"""So many columns have the tables in a file or a pipe. No line is broken there, and none is padded."""

_MOST_UNREAD = 20
_MOST_STEPS = 10
_NAME = 60


def print_report(options: ReportOptions, *, out: TextIO, err: TextIO) -> int:
    """Print the report and return the exit code.

    It is 0 if there is a table that could be read, and 2 otherwise: then one line on `err` says why. A table that
    cannot be read is a line of the report.
    """
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
        text = ScreenPart(text_of(report, most=options.most))
        if out.isatty():
            Console(file=out, highlight=False).print(text)
        else:
            wide = Console(file=io.StringIO(), highlight=False, width=_WIDE)
            with wide.capture() as captured:
                wide.print(text, no_wrap=True, overflow="ignore", crop=False)
            print("\n".join(line.rstrip() for line in captured.get().splitlines()), file=out)
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
        "tables": [_table(table) for table in report.tables],
        "unread": [asdict(line) for line in report.unread],
    }
    return json.dumps(printable_values(document), indent=2)


def _table(line: TableLine) -> dict[str, Any]:
    services = [
        {
            "service": service_line.service,
            "decision": type(service_line.decision).__name__,
            "code": service_line.decision.code,
            "reason": service_line.decision.reason,
            "remedy": remedy_of(service_line.decision),
            "is_due": service_line.is_due,
            "files_fewer": service_line.fewer,
            **_figures(service_line.work),
        }
        for service_line in line.services
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
    parts: list[RenderableType] = [*(Text(line) for line in summary(report)), *_steps(report), Text("")]
    if report.tables:
        parts += [Padding(_grid(SERVICE_HEADS, service_rows(report)), (0, 0, 0, 2)), Text("")]
        parts += [
            Padding(
                _grid(TABLE_HEADS, ([printable(line.called, most=_NAME), *table_cells(line)] for line in lines)),
                (0, 0, 0, 2),
            )
        ]
        hidden = len(report.tables) - len(lines)
        parts += [Text(f"  and {hidden} with less to gain: --limit 0 shows all", style="dim")] if hidden else []
        parts += _remarks(lines)
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


def summary(report: LakeReport) -> Iterator[str]:
    """Yield what a report says in a few sentences."""
    due = sum(any(not line.is_blocked for line in table.due()) for table in report.tables)
    blocked = sum(any(line.is_blocked for line in table.services) for table in report.tables)
    yield (
        f"{counted(len(report.tables), 'table')} read, {len(report.unread)} could not be read. With the defaults of a "
        f"daemon a service is due on {due} of them, and blocked on {blocked}."
    )
    sums = report.totals.values()
    if not any(part.files or part.deletes for part in sums):
        yield "No service has work on them."
        return
    read = _amount(sum(part.files for part in sums), sum(part.bytes for part in sums))
    deleted = _amount(sum(part.deletes for part in sums), sum(part.deletes_bytes for part in sums))
    yield (
        f"Once nothing blocks them, the services that have work would read {read}, and delete {deleted}. The tables "
        f"would have {counted(sum(table.fewer for table in report.tables), 'file')} less."
    )


SERVICE_HEADS = ("service", "due", "not due", "blocked", "reads", "into files", "deletes")
_LEFT = ("service", "table", "due (blocked)")
TABLE_HEADS = ("table", "format", "commits", "small", "fewer files", "frees", "due (blocked)")


def service_rows(report: LakeReport) -> Iterator[Sequence[str]]:
    """Yield the cells of each service."""
    for service, counts in report.services.items():
        total = report.totals.get(service)
        yield (
            str(service),
            str(counts["due"]),
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
        f"writes {counted(work.writes, 'file')}" if work.writes else "",
        f"deletes {_short(work.deletes, work.deletes_bytes)}" if work.deletes else "",
        f"{counted(work.versions, 'version')} deleted" if work.versions else "",
    ]
    return "; ".join(fact for fact in facts if fact)


def _amount(files: int, content: int) -> str:
    return f"{counted(files, 'file')} ({size(content)})"


def _short(files: int | None, content: int | None) -> str:
    """Return an amount in a column: `12, 1.5 MiB`."""
    return ", ".join(part for part in (str(files) if files else "", size(content) if content else "") if part)


def _grid(heads: Sequence[str], rows: Iterator[Sequence[str]]) -> Grid:
    grid = Grid(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for heading in heads:
        grid.add_column(heading, justify="left" if heading in _LEFT else "right", overflow="fold")
    for row in rows:
        grid.add_row(*map(Text, row))
    return grid


def _steps(report: LakeReport) -> list[Text]:
    steps = report.first_steps()
    if not steps:
        return []
    lines = [Text(""), Text("do first: these block services (in brackets below)", style="bold")]
    for block, tables in steps[:_MOST_STEPS]:
        lines.append(Text(f"  on {counted(tables, 'table')}: {printable(block.reason, most=500)}"))
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


_STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #888; --warn: #b07300; }
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 76rem; padding: 0 1rem; }
h1 { font-size: 1.6rem; margin-bottom: .2rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
table { border-collapse: collapse; width: 100%; }
th, td { padding: .3rem .6rem; text-align: right; vertical-align: top; }
th { color: var(--soft); font-weight: 600; } tr { border-bottom: 1px solid var(--line); }
th:first-child, td:first-child { text-align: left; overflow-wrap: anywhere; }
.soft { color: var(--soft); } .warn { color: var(--warn); }
details summary { cursor: pointer; }
"""
_MOST_STEPS_OF_A_PAGE = 50
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""The page allows itself nothing but its own style, whatever the name of a table holds."""


def page_of(report: LakeReport) -> str:
    """Return the page."""
    return "\n".join(_page(report))


def _page(report: LakeReport) -> Iterator[str]:
    yield "<!doctype html>"
    yield '<html lang="en"><head><meta charset="utf-8">'
    yield f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<title>The state of a lake</title><style>{_STYLE}</style></head><body>"
    yield "<h1>The state of a lake</h1>"
    yield f'<p class="soft">{_safe(", ".join(report.places))}, read by Lakewarden at {_safe(report.at)}</p>'
    yield from (f"<p>{_safe(line)}</p>" for line in summary(report))
    yield from _page_steps(report)
    if report.tables:
        yield "<h2>What each service would do</h2>"
        yield _head(*SERVICE_HEADS)
        yield from (_row(*row) for row in service_rows(report))
        yield "</tbody></table>"
        yield "<h2>Tables, worst first</h2>"
        yield _head(*TABLE_HEADS)
        for table in report.tables:
            cells = "".join(f"<td>{_safe(cell)}</td>" for cell in table_cells(table))
            yield f"<tr><td>{_details(table)}</td>{cells}</tr>"
        yield "</tbody></table>"
    yield from _unread(report.unread)
    yield '<p class="soft">Services are judged with the default settings of a daemon. Nothing was changed.</p>'
    yield "</body></html>\n"


def _details(line: TableLine) -> str:
    items = [f"<li>{_service(service)}</li>" for service in line.services]
    items += [f'<li class="warn">{_safe(remark)}</li>' for remark in line.remarks]
    where = f'<p class="soft">{_safe(line.location)}</p>'
    return f"<details><summary>{_safe(line.called)}</summary>{where}<ul>{''.join(items)}</ul></details>"


def _service(line: ServiceLine) -> str:
    text = f"<b>{_safe(line.service)}</b> {line.says}: {_safe(line.decision.reason)}"
    if work := work_in_words(line.work):
        text += f". A run {_safe(work)}"
    if isinstance(line.decision, Blocked) and line.decision.remedy:
        text += f'. <span class="warn">{_safe(line.decision.remedy)}</span>'
    return text


def _page_steps(report: LakeReport) -> Iterator[str]:
    steps = report.first_steps()
    if not steps:
        return
    yield "<h2>Do first: these block services</h2><ul>"
    for block, tables in steps[:_MOST_STEPS_OF_A_PAGE]:
        remedy = f'<br><span class="soft">{_safe(block.remedy.splitlines()[0])}</span>' if block.remedy else ""
        yield f"<li>on {counted(tables, 'table')}: {_safe(block.reason)}{remedy}</li>"
    yield "</ul>"


def _unread(lines: tuple[UnreadLine, ...]) -> Iterator[str]:
    if not lines:
        return
    yield "<h2>Could not be read</h2>"
    yield "<table><tbody>"
    for line in lines:
        yield f'<tr><td>{_safe(line.location)}</td><td style="text-align:left">{_safe(line.reason)}</td></tr>'
    yield "</tbody></table>"


def _head(*headings: str) -> str:
    return f"<table><thead><tr>{''.join(f'<th>{heading}</th>' for heading in headings)}</tr></thead><tbody>"


def _row(*cells: str) -> str:
    return f"<tr>{''.join(f'<td>{_safe(cell)}</td>' for cell in cells)}</tr>"


def _safe(text: str) -> str:
    """Return a text from outside as text of a page."""
    return escape(printable(text))
