"""`lakewarden status` and `top`: the last day of a daemon in twenty lines at most, and its fleet live."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import typer

from lakewarden.cli.commands import DAEMON as SECTION
from lakewarden.cli.commands import command
from lakewarden.cli.options import AsJson, KeyFile, Url, client_of
from lakewarden.cli.runs import ACTIVE
from lakewarden.cli.tables import state_of
from lakewarden.cli.terminal import Column, Kind, console, listed, patient
from lakewarden.client import Client
from lakewarden.client.transport import DAEMON
from lakewarden.planners.model.printable import printable
from lakewarden.service.commands.printing import as_written
from lakewarden.service.reporting.quantities import size, span

_MOST_REASONS = 5
_MOST_SERVICES = 3
_MOST_APPROVALS = 1


def register(app: typer.Typer) -> None:
    """Register the word."""
    command(app, "status", section=SECTION)(status)


def status(url: Url = DAEMON, key_file: KeyFile = None, as_json: AsJson = False) -> None:
    """Show the last day: what ran, what is blocked and why, and what waits."""
    answer = client_of(url, key_file).fleet_status()
    if as_json:
        print(as_written(answer))
        return
    for line in lines(answer):
        print(printable(line))


def lines(answer: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines."""
    yield (
        f"{answer['tables']} tables, {answer['failing']} cannot be observed, {answer['paused']} paused, "
        f"{answer['active_runs']} runs active"
    )
    ran = [f"{one['runs']} {one['service']} {one['state'].lower()}" for one in answer["ran"]]
    more = "" if answer["runs_complete"] else ", and more"
    yield f"ran in the last day: {', '.join(ran) or 'nothing'}{more}"
    blocked = answer["blocked"]
    yield f"blocked services: {sum(one['services'] for one in blocked)}"
    for one in blocked[:_MOST_REASONS]:
        yield f"  {one['code']}: {one['services']} on {one['tables']} tables, first {one['table']}. {one['cure']}"
    if len(blocked) > _MOST_REASONS:
        yield f"  and {len(blocked) - _MOST_REASONS} other reasons: --json has all"
    if (held := next((one for one in blocked if one["code"] == "quarantined"), None)) is not None:
        yield f"in quarantine: {held['services']} services on {held['tables']} tables, first {held['table']}"
    would = answer["would_run"]
    yield f"would run in mode act: {sum(one['tables'] for one in would)} services"
    yield from map(_would_run, would[:_MOST_SERVICES])
    if left := would[_MOST_SERVICES:]:
        yield f"  and {sum(one['tables'] for one in left)} runs of {', '.join(one['service'] for one in left)}"
    approvals = answer["approvals"]
    yield f"approvals that wait: {len(approvals)}"
    for one in approvals[:_MOST_APPROVALS]:
        yield f"  {one['table']} {one['service']}: {one['files']} files"
    if others := answer["foreign_services"]:
        first = others[0]
        newest = f"{first['service']} {first['instant']}"
        yield f"other programs serve {len(others)} tables, first {first['table']}: {newest}"
    yield f"writes that failed: {answer['writer_failures']}, {answer['writer_failures_near_us']} of them met a run"


def _would_run(one: Mapping[str, Any]) -> str:
    facts = [f"reads {_files(one['read_files'], one['read_bytes'])}"] if one["read_files"] else []
    facts += [f"writes {one['write_files']} files"] if one["write_files"] else []
    facts += [f"deletes {_files(one['delete_files'], one['delete_bytes'])}"] if one["delete_files"] else []
    facts += [f"{one['versions']} versions go"] if one["versions"] else []
    with_past = one["tables"] - one["unknown"]
    facts += [f"about {span(one['seconds'])}, {one['core_seconds']:g} core-seconds"] if with_past else []
    facts += [f"no past for {one['unknown']} of them"] if one["unknown"] else []
    return f"  {one['service']} on {one['tables']} tables: {'; '.join(facts)}"


def _files(files: int, content: int) -> str:
    """Return so many files. Their size is left out where no table knows it."""
    return f"{files} files, {size(content)}" if content else f"{files} files"


if TYPE_CHECKING:
    from rich.console import RenderableType

_EVERY_SECONDS = 2.0
_FEW = 10

_RUNS = (
    Column("TABLE", "table"),
    Column("SERVICE", "service"),
    Column("STATE", "state", Kind.STATE),
    Column("STEP", "step"),
    Column("SINCE", lambda run: run["started_at"] or run["created_at"], Kind.AGO),
    Column("WAITS FOR", "waits_for"),
)
_TABLES = (Column("TABLE", "id"), Column("STATE", state_of, Kind.STATE))
_APPROVALS = (
    Column("TABLE", "table"),
    Column("SERVICE", "service"),
    Column("FILES", "files"),
    Column("ASKED", "asked_at", Kind.AGO),
)


def show_top(client: Client, *, once: bool) -> None:
    """Show the fleet, once or until Ctrl-C. Raises ClientError, also if no daemon answers for half a minute."""
    terminal = console()
    if not sys.stdout.isatty():
        terminal.width = 160  # a pipe has no width
    if once:
        terminal.print(_frame(client, _read(client), terminal.width))
        return
    from rich.live import Live  # noqa: PLC0415

    asked = patient(lambda: _read(client))
    with Live(console=terminal, auto_refresh=False, screen=True) as live:
        while True:
            live.update(_frame(client, asked(), terminal.width), refresh=True)
            time.sleep(_EVERY_SECONDS)


def _read(client: Client) -> Mapping[str, Any]:
    return {
        "fleet": client.fleet(by="service"),
        "runs": client.runs(state=list(ACTIVE), limit=2 * _FEW)["items"],
        "failing": client.tables(failing=True, limit=_FEW)["items"],
        "blocked": client.tables(blocked=True, failing=False, limit=_FEW)["items"],
        "approvals": client.approvals(waiting=True, limit=_FEW)["items"],
    }


def _frame(client: Client, state: Mapping[str, Any], width: int) -> RenderableType:
    from rich.console import Group  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    fleet = state["fleet"]
    parts: list[RenderableType] = [
        Text(printable(f"{client.url}  {datetime.now(UTC):%H:%M:%S} UTC"), style="bold"),
        Text(
            f"{fleet['tables']} tables, {fleet['failing']} failing, {fleet['blocked']} blocked, "
            f"{fleet['paused']} paused, {fleet['approvals']} wait for an approval; "
            f"{fleet['running_runs']} runs, {fleet['queued_runs']} queued"
        ),
    ]
    sections = (
        ("Runs", state["runs"], _RUNS),
        ("Failing", state["failing"], _TABLES),
        ("Blocked", state["blocked"], _TABLES),
        ("Waits for an approval", state["approvals"], _APPROVALS),
    )
    for title, items, columns in sections:
        parts += _section(title, items, columns, width)
    return Group(*parts)


def _section(
    title: str, items: Sequence[Mapping[str, Any]], columns: Sequence[Column], width: int
) -> Sequence[RenderableType]:
    from rich.text import Text  # noqa: PLC0415

    return [Text(f"\n{title}", style="bold"), listed(items, columns, width=width)] if items else []
