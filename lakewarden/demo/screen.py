"""The display of the demo: a live picture in a terminal, plain lines anywhere else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table as Grid
from rich.text import Text

from lakewarden.demo.snapshot import DemoState
from lakewarden.planners.model.printable import printable
from lakewarden.service.http.schemas import RunBody, ServiceBody

_RUNS_SHOWN = 7
_WIDEST = {"run": 10, "service": 10, "instant": 17, "state": 10, "seconds": 7}
_COLOUR = {
    "QUEUED": "yellow",
    "RUNNING": "cyan",
    "COMMITTING": "cyan bold",
    "UNKNOWN": "magenta",
    "SUCCEEDED": "green",
    "FAILED": "red",
    "CANCELLED": "dim",
    "YIELDED": "dim",
    "Due": "cyan",
    "NotDue": "dim",
    "WouldRun": "cyan",
    "Blocked": "yellow",
    "DoesNotApply": "dim",
}


class Screen(Protocol):
    """A display of the demo's states."""

    def show(self, state: DemoState) -> None:
        """Show the state."""
        ...


@contextmanager
def screen_on(console: Console) -> Iterator[Screen]:
    """Yield the screen that fits the console."""
    if not console.is_terminal:
        yield PlainScreen(console)
        return
    with Live(console=console, auto_refresh=False) as live:
        yield LiveScreen(live)


class LiveScreen:
    """A picture that is drawn again for every state."""

    def __init__(self, live: Live) -> None:
        self._live = live

    def show(self, state: DemoState) -> None:
        """Draw the state."""
        self._live.update(picture(state), refresh=True)


class PlainScreen:
    """A line for every change: another phase, another state of a run, a decision, every fifth commit."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._phase = ""
        self._page: str | None = None
        self._runs: dict[str, str] = {}
        self._blocks: dict[str, str] = {}
        self._commits = 0

    def show(self, state: DemoState) -> None:
        """Print what has changed since the last state."""
        lines = [
            *self._new_phase(state),
            *self._new_page(state),
            *self._new_commits(state),
            *self._new_runs(state),
            *self._new_blocks(state),
        ]
        for line in lines:
            self._console.print(printable(line), markup=False, soft_wrap=True)

    def _new_phase(self, state: DemoState) -> Iterator[str]:
        phase = state.phase.split(":")[0]
        if phase != self._phase:
            self._phase = phase
            yield phase

    def _new_page(self, state: DemoState) -> Iterator[str]:
        if state.page != self._page:
            self._page = state.page
            yield f"  in a browser: {state.page}"

    def _new_commits(self, state: DemoState) -> Iterator[str]:
        if state.commits // 5 != self._commits // 5:
            self._commits = state.commits
            yield f"  table: {_counts(state)}; writer: {_writer(state)}; reader: {_reader(state)}"

    def _new_runs(self, state: DemoState) -> Iterator[str]:
        for run in reversed(state.runs):
            if self._runs.get(run.id) != run.state:
                self._runs[run.id] = run.state
                yield f"  {run.service} {run.instant or ''} {run.state.lower()}: {_why(run)}"

    def _new_blocks(self, state: DemoState) -> Iterator[str]:
        if state.table is None or state.table.observed_at is None:
            return  # the writer has not created the table yet
        for name, service in state.table.services.items():
            decision = service.decision
            blocked = decision.reason if decision and decision.decision == "Blocked" else ""
            if self._blocks.get(name, "") != blocked:
                self._blocks[name] = blocked
                if blocked:
                    yield f"  {name} is blocked: {blocked}"


def picture(state: DemoState) -> RenderableType:
    """Return the whole state, drawn."""
    return Group(_title(state), "", _health(state), "", _services(state), "", _runs(state))


def _title(state: DemoState) -> RenderableType:
    title = Text("lakewarden demo  ", style="bold").append(state.phase, style="cyan not bold")
    if state.table:
        kind = f"{state.table.kind or 'not there yet'}, table version {state.table.version or '?'}"
        title.append(f"\n{state.table.path}  {kind}", style="dim not bold")
    if state.page:
        title.append(f"\nin a browser: {state.page}", style="not bold")
    return title


def _health(state: DemoState) -> RenderableType:
    grid = _grid()
    grid.add_row("table", _table(state))
    grid.add_row("writer", Text(_writer(state), style="red" if state.failed_commits else ""))
    grid.add_row("reader", Text(_reader(state), style="red" if state.failed_queries else ""))
    return grid


def _services(state: DemoState) -> RenderableType:
    grid = _grid("service", "commits since", "pending", "decided", "why")
    for name, service in state.table.services.items() if state.table else ():
        since = "" if service.commits_since is None else str(service.commits_since)
        grid.add_row(name, since, str(service.pending), *_decided(service))
    return grid


def _decided(service: ServiceBody) -> tuple[Text, Text]:
    if service.decision is None:
        return Text(""), Text("")
    decided = service.decision.decision
    return Text(decided, style=_COLOUR.get(decided, "")), Text(printable(service.decision.reason))


def _runs(state: DemoState) -> RenderableType:
    grid = _grid("run", "instant", "state", "seconds", "why")
    for run in state.runs[:_RUNS_SHOWN]:
        took = "" if run.run_seconds is None else f"{run.run_seconds:.1f}"
        grid.add_row(
            run.service,
            run.instant or "",
            Text(run.state, style=_COLOUR.get(run.state, "")),
            took,
            Text(printable(_why(run))),
        )
    for _ in range(_RUNS_SHOWN - len(state.runs)):
        grid.add_row("", "", "", "", "")
    return grid


def _why(run: RunBody) -> str:
    if run.waits_for:
        return f"waits: {run.waits_for}"
    return run.outcome or run.reason


def _table(state: DemoState) -> str:
    writers = state.table.writers if state.table else None
    in_flight = len(writers.in_flight) if writers else 0
    return ", ".join(filter(None, [_counts(state), f"{in_flight} writes in flight" if in_flight else ""]))


def _counts(state: DemoState) -> str:
    return ", ".join(f"{gauge.now} (peak {gauge.peak}) {gauge.words}" for gauge in state.counts.values())


def _writer(state: DemoState) -> str:
    answered = state.record.acknowledged()
    last = answered[-1] if answered else None
    took = f", the last took {(last.answered - last.begun).total_seconds():.1f} s" if last and last.answered else ""
    heard = f", {state.hooks} hooks taken" if state.hooks else ""
    return f"{state.commits} commits, {state.failed_commits} failed{took}{heard}"


def _reader(state: DemoState) -> str:
    last = state.queries[-1] if state.queries else None
    newest = f", the last found {last.rows} rows in {last.seconds * 1000:.0f} ms" if last else ""
    return f"{len(state.queries)} queries, {state.failed_queries} failed{newest}"


def _grid(*headings: str) -> Grid:
    headings = headings or ("", "")
    grid = Grid(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0), show_header=any(headings))
    for heading in headings[:-1]:
        grid.add_column(heading, no_wrap=True, min_width=_WIDEST.get(heading, len(heading)))
    grid.add_column(headings[-1], no_wrap=True, overflow="ellipsis")  # the words are cut first
    return grid
