"""The witness: what the workers did to which instant, and when, told by themselves in a file that outlives them.

Tests set the environment variable LAKEWARDEN_WITNESS to the path of the file; without it nothing is told. From what it
holds an independent checker proves that no plan was ever executed by two owners at one time (`faults/checker.py`).
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from lakewarden.executors.contract import Assignment, Plan, Step
from lakewarden.planners.model.clock import Clock, SystemClock

VARIABLE = "LAKEWARDEN_WITNESS"


@dataclass(frozen=True, kw_only=True, slots=True)
class Witness:
    """Appends one JSON object per line, each by one write: many processes may share the file."""

    file: Path | None = None
    clock: Clock = field(default_factory=SystemClock)

    def tell(self, what: str, **facts: object) -> None:
        """Note that something has happened now, in this process. Raises OSError if it cannot be written."""
        if self.file is None:
            return
        line = json.dumps({"what": what, "at": self.clock.monotonic(), "pid": os.getpid(), **facts}) + "\n"
        with self.file.open("ab", buffering=0) as file:
            file.write(line.encode())

    @contextlib.contextmanager
    def sees(self, step: Step, plan: Plan, assignment: Assignment) -> Iterator[None]:
        """Tell when a step of a run begins and ends, however it ends. One that a kill cuts off has no end."""
        facts = {
            "run": assignment.run,
            "epoch": assignment.epoch,
            "table": assignment.table,
            "service": assignment.service,
            "instant": plan.instant,
            "step": step,
        }
        self.tell("begin", **facts)
        try:
            yield
        finally:
            self.tell("end", **facts)


def from_environment() -> Witness:
    """Return the witness that the environment asks for; one that tells nothing without it."""
    path = os.environ.get(VARIABLE)
    return Witness(file=Path(path) if path else None)


WITNESS = from_environment()
"""What this process tells."""
