"""`lakewarden top`: the fleet of a daemon in a terminal, live."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from lakewarden.cli.runs import ACTIVE
from lakewarden.cli.tables import state_of
from lakewarden.cli.terminal.showing import Column, Kind, console, listed
from lakewarden.cli.terminal.watching import patient
from lakewarden.client import Client
from lakewarden.planners.model.printable import printable

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


def _frame(client: Client, known: Mapping[str, Any], width: int) -> RenderableType:
    from rich.console import Group  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    fleet = known["fleet"]
    parts: list[RenderableType] = [
        Text(printable(f"{client.url}  {datetime.now(UTC):%H:%M:%S} UTC"), style="bold"),
        Text(
            f"{fleet['tables']} tables, {fleet['failing']} failing, {fleet['blocked']} blocked, "
            f"{fleet['paused']} paused, {fleet['approvals']} wait for an approval; "
            f"{fleet['running_runs']} runs, {fleet['queued_runs']} queued"
        ),
    ]
    sections = (
        ("Runs", known["runs"], _RUNS),
        ("Failing", known["failing"], _TABLES),
        ("Blocked", known["blocked"], _TABLES),
        ("Waits for an approval", known["approvals"], _APPROVALS),
    )
    for title, items, columns in sections:
        parts += _section(title, items, columns, width)
    return Group(*parts)


def _section(
    title: str, items: Sequence[Mapping[str, Any]], columns: Sequence[Column], width: int
) -> Sequence[RenderableType]:
    from rich.text import Text  # noqa: PLC0415

    return [Text(f"\n{title}", style="bold"), listed(items, columns, width=width)] if items else []
