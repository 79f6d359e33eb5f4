"""The instruments in a process of a test: the faults, and the witness of its steps."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass

from lakewarden.executors import points
from lakewarden.executors.contract import Assignment, Plan
from lakewarden.executors.points import Point
from lakewarden.planners.model.instant import Step
from tests.support.doubles import fault_points, witness
from tests.support.doubles.fault_points import FaultPoints
from tests.support.doubles.witness import Witness


@dataclass(frozen=True, kw_only=True, slots=True)
class Instruments(points.Watcher):
    """The watcher of a process of a test."""

    faults: FaultPoints
    witness: Witness

    def reach(self, point: Point, *, run: str, service: str) -> None:
        """Cause the faults of the point. Raises TemporaryError if one is to fail."""
        self.faults.reach(point, run=run, service=service)

    def sees(self, step: Step, plan: Plan, assignment: Assignment) -> AbstractContextManager[None]:
        """Let the witness note the beginning and the end of the step."""
        return self.witness.sees(step, plan, assignment)

    def session_is_up(self, *, jvm: int) -> None:
        """Let the witness note the JVM."""
        self.witness.tell("session", jvm=jvm)


def install(environment: Mapping[str, str] = os.environ) -> None:
    """Install the instruments that the environment asks for in this process."""
    told = witness.from_environment(environment)
    points.watch_by(Instruments(faults=fault_points.from_environment(environment, witness=told), witness=told))
