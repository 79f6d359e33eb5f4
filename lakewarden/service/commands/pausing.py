"""`lakewarden tables pause`: what becomes of the runs that are under way."""

from __future__ import annotations

from typing import TextIO

from lakewarden.client import Client
from lakewarden.planners.model.printable import printable
from lakewarden.service.model.run import RunState

_MOST_NAMED = 20
_UNDER_WAY = {
    RunState.QUEUED: "it has not begun. If its turn comes during the pause, it ends and has done nothing",
    RunState.RUNNING: "its present step ends, and its next step is refused. Its plan is taken up after the pause",
    RunState.COMMITTING: "it commits, because its commit was permitted already",
    RunState.UNKNOWN: "its worker is gone. The timeline of the table will show how it ended",
}


def print_paused(client: Client, table: str | None, *, out: TextIO) -> None:
    """Print that a table is paused, or every table, and what becomes of each run under way."""
    print(
        printable(f"{table or 'every table'} is paused: 'lakewarden tables resume {table or '--all'}' ends it"),
        file=out,
    )
    runs = client.runs(table=table, state=[state.value for state in _UNDER_WAY], limit=_MOST_NAMED)
    for run in runs["items"]:
        becomes = _UNDER_WAY[RunState(run["state"])]
        print(printable(f"run {run['id']} ({run['service']} of {run['table']}): {becomes}"), file=out)
    if runs["next"] is not None:
        print("'lakewarden runs list --active' shows the other runs", file=out)
    if any(run["state"] != RunState.COMMITTING for run in runs["items"]):
        print("'lakewarden runs cancel RUN' ends one of them for good", file=out)
