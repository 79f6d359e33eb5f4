"""Fault points: named places at which a test can make the daemon or a session worker die, freeze, dawdle or fail.

    K0 claimed ─ K1 planned ─ K2 stored ─ K3 executing ─ K4 executed
    ─ K5 permitted ─ K6 committed ─ K7 settled ─ K8 notified

Where a commit is made of several acts, there are points between them, which only some programs pass.

They are named in the product's own code, so that a kill hits exactly the moment that a rule is about.
Without the environment variable LAKEWARDEN_FAULTS, which only tests set, passing one costs a comparison. The variable
holds the faults as JSON, or names a file of such JSON: that is read anew at every point, so that faults can be told to
processes that are running.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, assert_never

import structlog

from lakewarden.executors.witness import WITNESS
from lakewarden.planners.model.errors import TemporaryError

VARIABLE = "LAKEWARDEN_FAULTS"

log = structlog.get_logger(__name__)


class Point(StrEnum):
    """Where a run can be interrupted, in the order in which it passes them. The daemon passes those without a mark,
    the worker those marked (w).
    """

    CLAIMED = "claimed"
    """K0: the lease is taken, and no worker has heard of the run."""
    PLANNED = "planned"
    """K1 (w): the plan is on the timeline, and the daemon does not know its instant."""
    LOOKING = "looking"
    """(w), before K1: the plan is on the timeline, the table's lock is held, and no look at the writers came since."""
    WITHDRAWING = "withdrawing"
    """(w): a write is in the plan's way, the table's lock is held, and the plan is on the timeline still."""
    WRITTEN = "written"
    """(w), between K5 and K6: a clustering has written its files, and committed none."""
    STORED = "stored"
    """K2: the instant is in the store, and nothing is executed."""
    EXECUTING = "executing"
    """K3 (w): leave to execute was given, and the step begins."""
    EXECUTED = "executed"
    """K4 (w): what was executed is written, and not committed."""
    PERMITTED = "permitted"
    """K5: leave to commit is in the store, and the worker has not heard it."""
    COMMITTED = "committed"
    """K6 (w): the instant is completed, and the daemon has not heard it."""
    SETTLED = "settled"
    """K7: the timeline was read, and the ending is not in the store."""
    NOTIFIED = "notified"
    """K8: the ending is in the store, and nobody was told."""
    SAVED = "saved"
    """(w), between K5 and K6: a savepoint is complete, the table's lock is held, and none that expired is removed."""
    DROPPED = "dropped"
    """(w), between K5 and K6: a catalog lists no deleted partition any more, and nothing says that it was told."""
    PROPOSED = "proposed"
    """(w), between K5 and K6: a rewrite's snapshot is written and was looked at, and the table does not know it."""
    EXPIRING = "expiring"
    """(w), between K5 and K6: the table was looked at for the last time before it gives snapshots up."""
    EXPIRED = "expired"
    """(w), between K5 and K6: the table has given snapshots up, and none of their files is deleted."""
    DELETING = "deleting"
    """(w), between K5 and K6: some of the files that were listed are deleted; passed once for each batch."""

    REBUILDING = "rebuilding"
    """(w), between K5 and K6: the metadata table is about to leave the table's properties, has left them, is deleted,
    and is made anew: passed each time."""


class Act(StrEnum):
    """What happens at a fault point."""

    CRASH = "crash"
    """kill -9 of the process that passes it."""
    FREEZE = "freeze"
    """SIGSTOP of the process that passes it."""
    DELAY = "delay"
    """`seconds` pass."""
    FAIL = "fail"
    """The step fails with a TemporaryError."""
    HOLD = "hold"
    """The process says in the file `told` that it stands here (its process id), and goes on when that file is gone:
    whoever waits for it may then kill what it likes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Fault:
    """What happens at the `hit`th passing of a point by runs of `service` (None: of any), counted in one process."""

    point: Point
    act: Act
    hit: int = 1
    service: str | None = None
    seconds: float = 1.0
    told: str | None = None


@dataclass(kw_only=True)
class FaultPoints:
    """The faults that one process is to suffer: `faults`, and those that `file` holds at that moment."""

    faults: Sequence[Fault] = ()
    file: Path | None = None
    _passed: dict[Fault, int] = field(default_factory=dict)
    _counting: threading.Lock = field(default_factory=threading.Lock)

    def reach(self, point: Point, *, run: str, service: str) -> None:
        """Pass a point. Raises TemporaryError where the fault is to fail."""
        for fault in self.faults if self.file is None else (*self.faults, *_read(self.file)):
            if fault.point is point and fault.service in (None, service) and self._hit(fault):
                log.warning("fault_point", point=point, act=fault.act, run=run, service=service)
                WITNESS.tell("fault", point=point, act=fault.act, run=run, service=service)
                _suffer(fault)

    def _hit(self, fault: Fault) -> bool:
        with self._counting:
            self._passed[fault] = passed = self._passed.get(fault, 0) + 1
            return passed == fault.hit


def _suffer(fault: Fault) -> None:
    match fault.act:
        case Act.CRASH:
            os.kill(os.getpid(), signal.SIGKILL)
        case Act.FREEZE:
            os.kill(os.getpid(), signal.SIGSTOP)
        case Act.DELAY:
            time.sleep(fault.seconds)
        case Act.FAIL:
            raise TemporaryError(f"the fault point {fault.point} failed, as it was told to")
        case Act.HOLD:
            _hold(Path(fault.told or "fault-point"))
        case _:
            assert_never(fault.act)


def _hold(told: Path) -> None:
    half = told.with_name(f".{told.name}.{os.getpid()}")
    half.write_text(str(os.getpid()))
    half.rename(told)  # whoever waits for it finds it whole
    while told.exists():
        time.sleep(0.01)


def from_environment(environment: Mapping[str, str] | None = None) -> FaultPoints:
    """Return the faults that the environment asks for: a JSON list of `Fault`s, or the file that holds one."""
    text = (os.environ if environment is None else environment).get(VARIABLE)
    if not text:
        return FaultPoints()
    if text.lstrip().startswith("["):
        return FaultPoints(faults=_parsed(text))
    return FaultPoints(file=Path(text))


def _read(file: Path) -> Sequence[Fault]:
    try:
        return _parsed(file.read_text())
    except FileNotFoundError:
        return ()


def _parsed(text: str) -> Sequence[Fault]:
    found: Sequence[Mapping[str, Any]] = json.loads(text)
    return [Fault(**{**each, "point": Point(each["point"]), "act": Act(each["act"])}) for each in found]


FAULTS = from_environment()
"""What this process is to suffer."""
