"""What changes, shown while it changes: on a terminal in place, otherwise a line for each change."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import NoReturn, TypeVar

from lakewarden.cli.terminal.showing import Column, console, listed
from lakewarden.client.bodies import RunBody
from lakewarden.client.errors import DaemonAwayError, DaemonBusyError
from lakewarden.planners.model.printable import printable

_EVERY_SECONDS = 1.0
_PATIENCE = 30

_T = TypeVar("_T")


def watch_runs(ask: Callable[[], Sequence[RunBody]], columns: Sequence[Column]) -> NoReturn:
    """Show runs until Ctrl-C. Raises ClientError, also if no daemon answers for half a minute."""
    asked = patient(ask)
    if not sys.stdout.isatty():
        _changes(asked)
    from rich.live import Live  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    terminal = console()
    with Live(console=terminal, auto_refresh=False) as live:
        while True:
            runs = asked()
            shown = listed(runs, columns, width=terminal.width) if runs else Text("there is no such run")
            live.update(shown, refresh=True)
            time.sleep(_EVERY_SECONDS)


def watch_run(ask: Callable[[], RunBody], *, quiet: bool) -> RunBody:
    """Show a run until it has ended, and return it. Raises as `watch_runs` does."""
    asked = patient(ask)
    said = None
    while True:
        run = asked()
        if (line := _line(run)) != said and not quiet:
            print(line, flush=True)
            said = line
        if run["ended_at"] is not None:
            return run
        time.sleep(_EVERY_SECONDS)


def _changes(ask: Callable[[], Sequence[RunBody]]) -> NoReturn:
    said: dict[str, str] = {}
    while True:
        for run in reversed(ask()):
            if said.get(run["id"]) != (line := _line(run)):
                print(line, flush=True)
                said[run["id"]] = line
        time.sleep(_EVERY_SECONDS)


def _line(run: RunBody) -> str:
    step = f" ({run['step']})" if run["step"] and run["ended_at"] is None else ""
    why = run["outcome"] or run["waits_for"] or ""
    return printable(f"{run['id']}  {run['table']}  {run['service']}  {run['state']}{step}  {why}".rstrip())


def patient(ask: Callable[[], _T]) -> Callable[[], _T]:
    """Return a question that is asked again for half a minute if no daemon answers: it may be started again. The first
    question is not.
    """
    left = 0

    def asked() -> _T:
        nonlocal left
        while True:
            try:
                found = ask()
            except (DaemonAwayError, DaemonBusyError):
                left -= 1
                if left < 0:
                    raise
                time.sleep(_EVERY_SECONDS)
            else:
                left = _PATIENCE
                return found

    return asked
