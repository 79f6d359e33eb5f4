"""The report of `lakewarden inspect` as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text

from lakewarden.planners.model.instant import Service, State
from lakewarden.planners.model.printable import printable
from lakewarden.planners.model.view import TableView
from lakewarden.service.reporting.inspect_report import PLANNED, own_blockers, pending_plans, small_files
from lakewarden.service.reporting.quantities import size, span

if TYPE_CHECKING:
    pass

_NEWEST = 10

_LONGEST_NAME = 200

_COLOUR = {State.REQUESTED: "yellow", State.INFLIGHT: "cyan", State.COMPLETED: "green"}


def rendered(view: TableView, now: datetime) -> RenderableType:
    """Return the report as text."""
    parts: list[RenderableType] = [_title(view), _indented(_timeline(view, now)), _indented(_services(view, now))]
    for service, notes in view.notes.items():
        parts += [Text(service.value, style="bold"), *(_indented(Text(note)) for note in notes), Text("")]
    if view.readers:
        parts += [Text("readers", style="bold"), _indented(_readers(view))]
    if view.writers.in_flight:
        parts += [Text("writes in flight", style="bold"), _indented(_writes(view, now))]
    if view.writers.failures:
        parts += [Text("writes that failed", style="bold yellow"), _indented(_failures(view, now))]
    if found := own_blockers(view):
        parts += [Text("services would be blocked", style="bold yellow")]
        parts += [_indented(_reason(h.reason, h.remedy)) for h in found]
    for heading, style, texts in (
        ("warnings", "bold yellow", view.warnings),
        ("could not be read", "bold red", view.faults),
    ):
        if texts:
            parts += [Text(heading, style=style), *(_indented(Text(text)) for text in texts)]
    return Group(*parts)


def _indented(part: RenderableType) -> Padding:
    return Padding(part, (0, 0, 0, 2))


def _title(view: TableView) -> Text:
    title = Text(printable(view.name, most=_LONGEST_NAME), style="bold")
    title.append(f"  {view.kind}, table version {view.version}\n", style="not bold")
    return title.append(f"  {view.identity.location}\n", style="not bold dim")


def _timeline(view: TableView, now: datetime) -> RenderableType:
    instants = view.timeline.instants
    if not instants:
        return Text("the timeline is empty\n", style="dim")
    grid = Grid(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for heading in ("instant", "action", "state", "requested", "took"):
        grid.add_column(heading)
    for i in instants[-_NEWEST:]:
        took = "" if i.completed_at is None else span((i.completed_at - i.requested_at).total_seconds())
        state = Text(i.state.name.lower(), style=_COLOUR[i.state])
        grid.add_row(Text(i.time), Text(i.action), state, f"{span((now - i.requested_at).total_seconds())} ago", took)
    hidden = len(instants) - _NEWEST
    return Group(grid, Text(f"and {hidden} older\n" if hidden > 0 else "", style="dim"))


def _services(view: TableView, now: datetime) -> RenderableType:
    grid = Grid(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for heading in ("service", "commits since", "pending", "oldest", "file groups", "bytes"):
        grid.add_column(heading, justify="left" if heading in ("service", "oldest") else "right")
    for service in PLANNED:
        plans = view.timeline.pending(service)
        backlog = view.backlogs.get(service)
        if backlog is None and not plans:
            continue
        known = pending_plans(plans)
        grid.add_row(
            service.value,
            "" if backlog is None else str(backlog.commits),
            Text(str(len(plans)), style="yellow" if plans else "dim"),
            f"{span((now - plans[0].requested_at).total_seconds())} ago" if plans else "",
            "" if not plans or known["file_groups"] is None else str(known["file_groups"]),
            "" if not plans or known["bytes"] is None else size(known["bytes"]),
        )
    return Group(grid, *_files(view, now), Text(""))


def _files(view: TableView, now: datetime) -> Iterator[Text]:
    """Yield the facts about the files of the table, and about the tables inside it."""
    full = view.backlogs.get(Service.COMPACTION)
    if full is not None and full.log_files is not None and full.log_bytes is not None:
        yield Text(f"the fullest file group: {full.log_files} log files, {size(full.log_bytes)}")
    small = small_files(view)
    if small is not None:
        yield Text(f"small base files: {small}")
    for inner in view.inner:
        since = inner.since
        last = "never compacted" if since is None else f"compacted {span((now - since).total_seconds())} ago"
        said = Text(f"{inner.name}: {inner.commits} commits, {last}")
        pinned = inner.pinned_by
        yield said if pinned is None else said.append(f", its compaction is prevented by {pinned}", style="yellow")


def _failures(view: TableView, now: datetime) -> RenderableType:
    lines = [
        Text(f"{failure.instant}  {failure.reason}, {span((now - failure.at).total_seconds())} ago at the latest")
        for failure in view.writers.failures[-_NEWEST:]
    ]
    return Group(*lines, Text(""))


def _readers(view: TableView) -> RenderableType:
    lines = [
        Text(f"{one.name}  {one.at or one.unreadable or 'at no position'}, {one.behind} commits behind")
        for one in view.readers
    ]
    return Group(*lines, Text(""))


def _writes(view: TableView, now: datetime) -> RenderableType:
    lines = []
    for write in view.writers.in_flight:
        begun = f"{write.time}  begun {span((now - write.requested_at).total_seconds())} ago, "
        lines.append(Text(begun).append(_guard(write.guarded_until, now)))
    return Group(*lines, Text(""))


def _guard(until: datetime | None, now: datetime) -> Text:
    if until is None:
        return Text("no heartbeat", style="yellow")
    left = (until - now).total_seconds()
    if left > 0:
        return Text(f"its heartbeat is valid for another {span(left)}", style="green")
    return Text(f"its heartbeat ran out {span(-left)} ago", style="red")


def _reason(reason: str, remedy: str) -> Text:
    return Text(f"{reason}\n").append(remedy + "\n", style="dim")
