"""The display of the demo: lines, in a terminal and anywhere else. The page of the table has the picture."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console

from lakewarden.demo.snapshot import DemoState
from lakewarden.planners.model.printable import printable
from lakewarden.service.http.schemas import RunBody


class Screen:
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


def _why(run: RunBody) -> str:
    if run.waits_for:
        return f"waits: {run.waits_for}"
    return run.outcome or run.reason


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
