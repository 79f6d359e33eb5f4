"""A session worker with some more programs, which do to its JVM what a bad table does."""

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

WORKS = Service.LOG_COMPACTION
"""Executing ends one short Spark task after another, for six seconds; committing does nothing, and does not end."""


class _InJava:
    """A program that never ends."""

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


class _Works(_InJava):
    """Planning warms the session up, executing are twelve tasks of a second each, and committing never ends."""

    @contextlib.contextmanager
    def open(self, session: Any, assignment: Assignment, storage: Storage) -> Iterator[Steps]:
        self._spark = session
        with super().open(session, assignment, storage) as steps:
            yield steps

    def plan(self) -> Plan:
        self._sleep(tasks=1)
        return Plan(instant=None)

    def execute(self, plan: Plan) -> None:
        self._sleep(tasks=12)

    def commit(self, plan: Plan) -> NoReturn:
        self._java.jvm.java.lang.Thread.sleep(3_600_000)
        raise AssertionError("somebody woke it")

    def _sleep(self, *, tasks: int) -> None:
        slept = self._spark.range(0, tasks, 1, tasks).selectExpr("java_method('java.lang.Thread', 'sleep', 1000L)")
        slept.write.format("noop").mode("overwrite").save()


class _ExhaustsTheHeap(_InJava):
    def plan(self) -> NoReturn:
        held = []
        while True:
            held.append(self._java.new_array(self._java.jvm.long, 5_000_000))


if __name__ == "__main__":
    from lakewarden.executors.contract import FormatPrograms
    from lakewarden.executors.worker.main import main
    from tests.support.doubles.fake.programs import FAKE_PROGRAMS

    failing = {SLEEPS: _Sleeps, EXHAUSTS_THE_HEAP: _ExhaustsTheHeap, WORKS: _Works}
    main(int(sys.argv[1]), programs={"fake": FormatPrograms(programs={**FAKE_PROGRAMS.programs, **failing})})
