"""Runs of the programs of directories, without a daemon."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lakewarden.executors.contract import Assignment, Granted, Outcome, Plan, Program, Refused, Succeeded
from lakewarden.executors.worker.runs import carry_out
from lakewarden.planners.formats.directory.options import DirectoryTableOptions
from lakewarden.planners.model.instant import RunId, Service, Step
from lakewarden.planners.model.table import Policy, Table, TableId
from lakewarden.planners.ports import Storage
from lakewarden.planners.settings import Settings
from lakewarden.planners.storage import LocalStorage
from lakewarden.planners.triggers import NumCommits


@dataclass(frozen=True, kw_only=True)
class DirectoryRun:
    """One run of a service on a directory. `before` is called before each step, and `refuse` is a step without its
    permit. `asked` are the plans that were shown for the permit to commit.
    """

    service: Service
    location: str | Path
    table: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    before: Callable[[Step], None] = lambda _: None
    refuse: Step | None = None
    asked: list[Plan] = field(default_factory=list)

    def carried_out(self, program: Program, storage: Storage | None = None) -> Outcome:
        """Carry the run out; return how it ended."""
        assignment = Assignment(
            run=RunId("run"),
            epoch=1,
            table=TableId("trips"),
            format="directory",
            location=str(self.location),
            service=self.service,
            table_options=self.table,
            service_options=self.options,
        )
        return carry_out(program, None, assignment, storage or LocalStorage(), self._ask)

    def _ask(self, step: Step, plan: Plan | None) -> Granted | Refused:
        self.before(step)
        if step is Step.COMMIT and plan is not None:
            self.asked.append(plan)
        return Refused(reason="not now") if step is self.refuse else Granted()


def figures(outcome: Outcome) -> dict[str, Any]:
    """Return the figures of a run that succeeded, without the times that it took."""
    assert isinstance(outcome, Succeeded), outcome
    return {name: value for name, value in outcome.figures.items() if not name.endswith("_seconds")}


def table_with(location: str | Path, service: Service, options: Settings, **table: Any) -> Table:
    """Return a directory with a policy for one service."""
    return Table(
        id=TableId("trips"),
        format="directory",
        location=str(location),
        options=DirectoryTableOptions.model_validate(table),
        policies={service: Policy(trigger=NumCommits(at_least=1), options=options)},
    )
