"""A session worker with two more programs, which do to its JVM what a bad table does."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

from lakewarden.executors.contract import Assignment, Plan, Steps
from lakewarden.planners.model.instant import Service
from lakewarden.planners.ports import Storage

COMMAND = (sys.executable, str(Path(__file__)))

SLEEPS = Service.ROLLBACK
"""Planning is a call into Java, on the driver, that does not return."""

EXHAUSTS_THE_HEAP = Service.TTL
"""Planning fills the heap."""


class _InJava:
    """A program whose planning never ends."""

    @contextlib.contextmanager
    def open(self, session: Any, assignment: Assignment, storage: Storage) -> Iterator[Steps]:
        self._java = session.sparkContext._gateway
        yield self

    def plan(self) -> Plan:
        raise NotImplementedError

    def execute(self, plan: Plan) -> None:
        raise AssertionError("planning has ended")

    def commit(self, plan: Plan) -> Mapping[str, int | float | str]:
        raise AssertionError("planning has ended")


class _Sleeps(_InJava):
    def plan(self) -> NoReturn:
        self._java.jvm.java.lang.Thread.sleep(3_600_000)
        raise AssertionError("somebody woke it")


class _ExhaustsTheHeap(_InJava):
    def plan(self) -> NoReturn:
        held = []
        while True:
            held.append(self._java.new_array(self._java.jvm.long, 5_000_000))


if __name__ == "__main__":
    from lakewarden.executors.programs import PROGRAMS
    from lakewarden.executors.worker.main import main

    PROGRAMS.update({("fake", SLEEPS): _Sleeps, ("fake", EXHAUSTS_THE_HEAP): _ExhaustsTheHeap})  # type: ignore[attr-defined] # it is a dict
    main(int(sys.argv[1]))
