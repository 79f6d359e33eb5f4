"""The report as text for a terminal: the totals, the services, the worst tables, and what could not be read."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text

from lakewarden.planners.model.printable import printable
from lakewarden.planners.surveying.contents import Amount
from lakewarden.service.commands.report.lines import LakeReport, TableLine, Verdict
from lakewarden.service.commands.report.totals import LakeTotal, first_steps, total_of
from lakewarden.service.reporting.quantities import size, span

_MOST_UNREAD = 20
_MOST_STEPS = 10
_NAME = 60


def text_of(report: LakeReport, *, most: int) -> RenderableType:
    """Return the report as text, with the worst `most` tables. 0 means all."""
    total = total_of(report.tables)
    shown = report.tables[: most or None]
    parts: list[RenderableType] = [*(Text(line) for line in summary(total, len(report.unread))), Text("")]
    if report.tables:
        parts += [Padding(_services(total), (0, 0, 0, 2)), Text("")]
        parts += [Padding(_tables(shown), (0, 0, 0, 2))]
        hidden = len(report.tables) - len(shown)
        parts += [Text(f"  and {hidden} better ones: --limit 0 shows all", style="dim")] if hidden else []
        parts += _remarks(shown)
        parts += _steps(report)
    if report.unread:
        parts += [Text(""), Text("could not be read", style="bold red")]
        for one in report.unread[:_MOST_UNREAD]:
            parts.append(Text(f"  {printable(one.location, most=200)}: {printable(one.reason, most=500)}"))
        more = len(report.unread) - _MOST_UNREAD
        parts += [Text(f"  and {more} more: --json has all", style="dim")] if more > 0 else []
    return Group(*parts)


def summary(total: LakeTotal, unread: int) -> Iterator[str]:
    """Yield what the report says in a few sentences."""
    yield (
        f"{total.tables} tables were read and {unread} could not be. On {total.due_tables} of them a service is due "
        "with the policies of this report."
    )
    yield (
        f"Queries over all of them open {total.read_files} files. After the services that are due it would be "
        f"{total.read_files_after}."
    )
    yield (
        f"The stores keep {amount(total.kept)}. {amount(total.old)} of that are old versions, and "
        f"{amount(total.unknown)} belong to no version. {amount(total.deletes)} could be deleted now."
    )
    yield (
        f"This would read {size(total.reads.bytes)}, write at most as much, and cost about "
        f"{span(total.core_seconds)} of one core."
    )


def amount(found: Amount | None) -> str:
    """Return an amount: `12 files (1.5 MiB)`. It is `?` if it is not known."""
    return "?" if found is None else f"{found.files} files ({size(found.bytes)})"


def short(found: Amount | None) -> str:
    """Return an amount in a column: `12, 1.5 MiB`. It is `?` if it is not known."""
    if found is None:
        return "?"
    return f"{found.files}, {size(found.bytes)}" if found.files else "0"


def _files(found: Amount | None) -> str:
    return "?" if found is None else str(found.files)


def _grid(*headings: str) -> Grid:
    grid = Grid(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for place, heading in enumerate(headings):
        grid.add_column(heading, justify="right" if place else "left", overflow="fold")
    return grid


def _services(total: LakeTotal) -> Grid:
    grid = _grid("service", "due on", "not due", "blocked", "rewrites", "into files", "deletes", "core time")
    for one in total.services:
        grid.add_row(
            one.service,
            str(one.due),
            str(one.not_due),
            Text(str(one.blocked), style="yellow" if one.blocked else ""),
            short(one.reads),
            str(one.after) if one.reads.files else "",
            short(one.deletes),
            span(one.core_seconds) if one.core_seconds else "",
        )
    return grid


def _tables(lines: tuple[TableLine, ...]) -> Grid:
    grid = _grid("table", "format", "files", "small", "merge", "old", "orphans", "versions", "fewer", "frees", "due")
    for one in lines:
        grid.add_row(
            Text(printable(one.called, most=_NAME)),
            f"{one.format} {one.version}".strip(),
            str(one.live.files),
            str(one.small.files),
            str(one.deltas.files),
            _files(one.old),
            _files(one.unknown),
            str(one.versions),
            str(one.fewer),
            size(one.frees),
            Text(due_of(one)),
        )
    return grid


def due_of(line: TableLine) -> str:
    """Return the services that are due. Those that are blocked are in brackets."""
    due = [one.service if one.verdict is Verdict.DUE else f"({one.service})" for one in line.due()]
    return ", ".join(due) or "nothing"


def _steps(report: LakeReport) -> list[Text]:
    steps = first_steps(report.tables)
    if not steps:
        return []
    found = [Text(""), Text("to be done before blocked services (in brackets) can run", style="bold")]
    for step in steps[:_MOST_STEPS]:
        found.append(Text(f"  on {step.tables} tables: {printable(step.reason, most=500)}"))
        if step.remedy is not None:
            found += [Text(f"    {printable(line, most=500)}", style="dim") for line in step.remedy.splitlines()]
    more = len(steps) - _MOST_STEPS
    return [*found, Text(f"  and {more} other reasons: --json has all", style="dim")] if more > 0 else found


def _remarks(lines: tuple[TableLine, ...]) -> list[Text]:
    found = [
        Text(f"  {printable(line.called, most=_NAME)}: {printable(note, most=500)}", style="yellow")
        for line in lines
        for note in line.left_out
    ]
    return [Text(""), *found] if found else []
