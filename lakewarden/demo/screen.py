"""The demo for the eye: a live picture in a terminal, plain lines anywhere else."""

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
    "Due": "cyan",
    "NotDue": "dim",
    "Blocked": "yellow",
}


class Screen(Protocol):
    """Where scenes are shown."""

    def show(self, scene: DemoState) -> None:
        """Show the scene."""
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
    """A picture that is painted anew for every scene."""

    def __init__(self, live: Live) -> None:
        self._live = live

    def show(self, scene: DemoState) -> None:
        """Paint the scene."""
        self._live.update(picture(scene), refresh=True)


class PlainScreen:
    """A line for whatever is new: another act, a run that has come further, a decision, every fifth commit."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._act = ""
        self._runs: dict[str, str] = {}
        self._blocks: dict[str, str] = {}
        self._commits = 0

    def show(self, scene: DemoState) -> None:
        """Print what has changed since the last scene."""
        lines = [*self._new_act(scene), *self._new_commits(scene), *self._new_runs(scene), *self._new_blocks(scene)]
        for line in lines:
            self._console.print(printable(line), markup=False, soft_wrap=True)

    def _new_act(self, scene: DemoState) -> Iterator[str]:
        act = scene.act.split(":")[0]
        if act != self._act:
            self._act = act
            yield act

    def _new_commits(self, scene: DemoState) -> Iterator[str]:
        if scene.commits // 5 != self._commits // 5:
            self._commits = scene.commits
            yield f"  table: {_counts(scene)}; writer: {_writer(scene)}; reader: {_reader(scene)}"

    def _new_runs(self, scene: DemoState) -> Iterator[str]:
        for run in reversed(scene.runs):
            if self._runs.get(run.id) != run.state:
                self._runs[run.id] = run.state
                yield f"  {run.service} {run.instant or ''} {run.state.lower()}: {_why(run)}"

    def _new_blocks(self, scene: DemoState) -> Iterator[str]:
        if scene.table is None or scene.table.observed_at is None:
            return  # the writer has not made the table yet
        for name, service in scene.table.services.items():
            decision = service.decision
            blocked = decision.reason if decision and decision.decision == "Blocked" else ""
            if self._blocks.get(name, "") != blocked:
                self._blocks[name] = blocked
                if blocked:
                    yield f"  {name} is blocked: {blocked}"


def picture(scene: DemoState) -> RenderableType:
    """Return the whole scene, drawn."""
    return Group(_title(scene), "", _health(scene), "", _services(scene), "", _runs(scene))


def _title(scene: DemoState) -> RenderableType:
    title = Text("lakewarden demo  ", style="bold").append(scene.act, style="cyan not bold")
    if scene.table:
        kind = f"{scene.table.kind or 'not there yet'}, table version {scene.table.version or '?'}"
        title.append(f"\n{scene.table.path}  {kind}", style="dim not bold")
    return title


def _health(scene: DemoState) -> RenderableType:
    grid = _grid()
    grid.add_row("table", _table(scene))
    grid.add_row("writer", Text(_writer(scene), style="red" if scene.failed_commits else ""))
    grid.add_row("reader", Text(_reader(scene), style="red" if scene.failed_queries else ""))
    return grid


def _services(scene: DemoState) -> RenderableType:
    grid = _grid("service", "commits since", "pending", "decided", "why")
    for name, service in scene.table.services.items() if scene.table else ():
        since = "" if service.commits_since is None else str(service.commits_since)
        grid.add_row(name, since, str(service.pending), *_decided(service))
    return grid


def _decided(service: ServiceBody) -> tuple[Text, Text]:
    if service.decision is None:
        return Text(""), Text("")
    decided = service.decision.decision
    return Text(decided, style=_COLOUR.get(decided, "")), Text(printable(service.decision.reason))


def _runs(scene: DemoState) -> RenderableType:
    grid = _grid("run", "instant", "state", "seconds", "why")
    for run in scene.runs[:_RUNS_SHOWN]:
        took = "" if run.run_seconds is None else f"{run.run_seconds:.1f}"
        grid.add_row(
            run.service,
            run.instant or "",
            Text(run.state, style=_COLOUR.get(run.state, "")),
            took,
            Text(printable(_why(run))),
        )
    for _ in range(_RUNS_SHOWN - len(scene.runs)):
        grid.add_row("", "", "", "", "")
    return grid


def _why(run: RunBody) -> str:
    if run.waits_for:
        return f"waits: {run.waits_for}"
    return run.outcome or run.reason


def _table(scene: DemoState) -> str:
    writers = scene.table.writers if scene.table else None
    in_flight = len(writers.in_flight) if writers else 0
    return ", ".join(filter(None, [_counts(scene), f"{in_flight} writes in flight" if in_flight else ""]))


def _counts(scene: DemoState) -> str:
    return ", ".join(f"{gauge.now} (peak {gauge.peak}) {gauge.words}" for gauge in scene.counts.values())


def _writer(scene: DemoState) -> str:
    answered = scene.record.acknowledged()
    last = answered[-1] if answered else None
    took = f", the last took {(last.answered - last.begun).total_seconds():.1f} s" if last and last.answered else ""
    heard = f", {scene.hooks} hooks heard" if scene.hooks else ""
    return f"{scene.commits} commits, {scene.failed_commits} failed{took}{heard}"


def _reader(scene: DemoState) -> str:
    last = scene.queries[-1] if scene.queries else None
    found = f", the last found {last.rows} rows in {last.seconds * 1000:.0f} ms" if last else ""
    return f"{len(scene.queries)} queries, {scene.failed_queries} failed{found}"


def _grid(*headings: str) -> Grid:
    headings = headings or ("", "")
    grid = Grid(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0), show_header=any(headings))
    for heading in headings[:-1]:
        grid.add_column(heading, no_wrap=True, min_width=_WIDEST.get(heading, len(heading)))
    grid.add_column(headings[-1], no_wrap=True, overflow="ellipsis")  # the words give way first
    return grid
