"""The witness: what the workers did to which instant, and when. The workers write it to a file that outlives them.

The processes of `tests.support.doubles` write it if the environment variable LAKEWARDEN_WITNESS names the file. From
this file an independent checker (`faults/checking/checker.py`) proves that no two owners ever executed one plan at the
same time.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lakewarden.executors.contract import Assignment, Plan
from lakewarden.planners.model.clock import Clock, SystemClock
from lakewarden.planners.model.instant import Step

VARIABLE = "LAKEWARDEN_WITNESS"


@dataclass(frozen=True, kw_only=True, slots=True)
class Witness:
    """Appends one JSON object per line, each by one write, because many processes may share the file."""

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
        """Note when a step of a run begins and ends, also if it fails. If a kill ends the step, its end is missing."""
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


def from_environment(environment: Mapping[str, str] = os.environ) -> Witness:
    """Return the witness that the environment asks for. Without the variable it writes nothing."""
    path = environment.get(VARIABLE)
    return Witness(file=Path(path) if path else None)
