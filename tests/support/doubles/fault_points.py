"""Faults at the points of a run (`executors/points.py`). There the daemon or a session worker dies, freezes or fails.

Only the processes of `tests.support.doubles` have them. The environment variable LAKEWARDEN_FAULTS holds the faults as
JSON, or names a file with such JSON. The file is read at every point again, so a test can give faults to processes that
are running.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, assert_never

import structlog

from lakewarden.executors.points import Point
from lakewarden.planners.model.errors import TemporaryError
from tests.support.doubles.witness import Witness

VARIABLE = "LAKEWARDEN_FAULTS"

log = structlog.get_logger(__name__)


class FaultEffect(StrEnum):
    """The event at a fault point."""

    CRASH = "crash"
    """kill -9 of the process that reaches the point."""
    FREEZE = "freeze"
    """SIGSTOP of the process that reaches the point."""
    DELAY = "delay"
    """The process waits for `seconds`."""
    FAIL = "fail"
    """The step fails with a TemporaryError."""
    STOP_SPARK = "stop_spark"
    """The SparkContext of the session worker stops, and its JVM lives. An error of Spark's scheduler does the same."""
    HOLD = "hold"
    """The process writes its process id to the file `told`, and continues when that file is gone. Until then a test can
    kill any process.
    """


@dataclass(frozen=True, kw_only=True, slots=True)
class Fault:
    """The event when runs of `service` reach a point for the `hit`th time, counted in one process.

    If `service` is None, the runs of every service count.
    """

    point: Point
    act: FaultEffect
    hit: int = 1
    service: str | None = None
    seconds: float = 1.0
    told: str | None = None


@dataclass(kw_only=True)
class FaultPoints:
    """The faults of one process: `faults`, and those that `file` holds at that moment.

    The `witness` notes each fault before it happens.
    """

    faults: Sequence[Fault] = ()
    file: Path | None = None
    witness: Witness = field(default_factory=Witness)
    _passed: dict[Fault, int] = field(default_factory=dict)
    _counting: threading.Lock = field(default_factory=threading.Lock)

    def reach(self, point: Point, *, run: str, service: str) -> None:
        """Reach a point. Raises TemporaryError if the fault is to fail."""
        for fault in self.faults if self.file is None else (*self.faults, *_read(self.file)):
            if fault.point is point and fault.service in (None, service) and self._hit(fault):
                log.warning("fault_point", point=point, act=fault.act, run=run, service=service)
                self.witness.tell("fault", point=point, act=fault.act, run=run, service=service)
                _suffer(fault)

    def _hit(self, fault: Fault) -> bool:
        with self._counting:
            self._passed[fault] = passed = self._passed.get(fault, 0) + 1
            return passed == fault.hit


def _suffer(fault: Fault) -> None:
    match fault.act:
        case FaultEffect.CRASH:
            os.kill(os.getpid(), signal.SIGKILL)
        case FaultEffect.FREEZE:
            os.kill(os.getpid(), signal.SIGSTOP)
        case FaultEffect.DELAY:
            time.sleep(fault.seconds)
        case FaultEffect.FAIL:
            raise TemporaryError(f"the fault point {fault.point} failed, as it was told to")
        case FaultEffect.STOP_SPARK:
            context: Any = sys.modules["pyspark"].SparkContext._active_spark_context
            context._jsc.sc().stop()
        case FaultEffect.HOLD:
            _hold(Path(fault.told or "fault-point"))
        case _:
            assert_never(fault.act)


def _hold(told: Path) -> None:
    half = told.with_name(f".{told.name}.{os.getpid()}")
    half.write_text(str(os.getpid()))
    half.rename(told)  # the reader of the file finds it complete
    while told.exists():
        time.sleep(0.01)


def from_environment(environment: Mapping[str, str] = os.environ, *, witness: Witness | None = None) -> FaultPoints:
    """Return the faults that the environment asks for: a JSON list of `Fault`s, or the file with such a list."""
    text, told = environment.get(VARIABLE), witness or Witness()
    if not text:
        return FaultPoints(witness=told)
    if text.lstrip().startswith("["):
        return FaultPoints(faults=_parsed(text), witness=told)
    return FaultPoints(file=Path(text), witness=told)


def _read(file: Path) -> Sequence[Fault]:
    try:
        return _parsed(file.read_text())
    except FileNotFoundError:
        return ()


def _parsed(text: str) -> Sequence[Fault]:
    found: Sequence[Mapping[str, Any]] = json.loads(text)
    return [Fault(**{**each, "point": Point(each["point"]), "act": FaultEffect(each["act"])}) for each in found]
