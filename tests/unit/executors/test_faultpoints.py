"""A fault happens at its point, at its hit and to its service. No process without the setting has a fault."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from lakewarden.executors import points as cancellations
from lakewarden.executors.contract import Assignment, Plan
from lakewarden.executors.points import Point
from lakewarden.planners.model.clock import ManualClock
from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.model.instant import RunId, Service, Step
from lakewarden.planners.model.table import TableId
from tests.support.doubles.fault_points import VARIABLE, Fault, FaultEffect, FaultPoints, from_environment
from tests.support.doubles.witness import Witness


def test_a_fault_happens_at_its_hit_of_its_service_and_only_then() -> None:
    """Other services have no fault, and their passings do not count. Without a fault every point is passed."""
    points = FaultPoints(faults=[Fault(point=Point.PLANNED, act=FaultEffect.FAIL, service="clean", hit=2)])
    for point in Point:
        points.reach(point, run="r1", service="compaction")
    points.reach(Point.PLANNED, run="r2", service="clean")
    points.reach(Point.STORED, run="r2", service="clean")
    with pytest.raises(TemporaryError):
        points.reach(Point.PLANNED, run="r3", service="clean")
    points.reach(Point.PLANNED, run="r4", service="clean")


def test_the_variable_may_hold_the_faults() -> None:
    """The process has the faults that the test writes as JSON, and none without it."""
    from_environment({}).reach(Point.EXECUTED, run="r1", service="clean")
    points = from_environment({VARIABLE: json.dumps([{"point": "executed", "act": "fail", "service": "clean"}])})
    with pytest.raises(TemporaryError):
        points.reach(Point.EXECUTED, run="r1", service="clean")


def test_the_variable_may_name_a_file_whose_faults_are_told_to_processes_that_run(tmp_path: Path) -> None:
    """A fault that is written there later happens. A fault that was removed does not."""
    file = tmp_path / "faults.json"
    points = from_environment({VARIABLE: str(file)})
    points.reach(Point.PLANNED, run="r1", service="compaction")
    file.write_text(json.dumps([{"point": "planned", "act": "fail", "told": "1"}]))
    with pytest.raises(TemporaryError):
        points.reach(Point.PLANNED, run="r2", service="compaction")
    file.write_text(json.dumps([{"point": "planned", "act": "fail", "told": "2"}]))
    with pytest.raises(TemporaryError):
        points.reach(Point.PLANNED, run="r3", service="compaction")
    file.write_text("[]")
    points.reach(Point.PLANNED, run="r4", service="compaction")


def test_who_is_held_says_where_it_stands_until_it_is_let_go(tmp_path: Path) -> None:
    """The file holds the process id. The process continues when the file is gone."""
    told = tmp_path / "told"
    points = FaultPoints(faults=[Fault(point=Point.STORED, act=FaultEffect.HOLD, told=str(told))])
    held = threading.Thread(target=points.reach, args=(Point.STORED,), kwargs={"run": "r1", "service": "clean"})
    held.start()
    while not told.exists():
        time.sleep(0.001)
    assert int(told.read_text()) == os.getpid()
    assert held.is_alive()
    told.unlink()
    held.join(timeout=5)
    assert not held.is_alive()


@pytest.mark.parametrize("act", [FaultEffect.CRASH, FaultEffect.FREEZE])
def test_a_crash_kills_and_a_freeze_stops_the_process_that_passes(act: FaultEffect, tmp_path: Path) -> None:
    """The signals cannot be caught. Before that, the witness file has the run."""
    witness = tmp_path / "witness.jsonl"
    code = (
        "from lakewarden.executors import points; from tests.support.doubles.instruments import install; install(); "
        "points.reach(points.Point.SETTLED, run='r1', service='clean')"
    )
    faults = json.dumps([{"point": "settled", "act": act}])
    environment = {**os.environ, VARIABLE: faults, "LAKEWARDEN_WITNESS": str(witness)}
    process = subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.DEVNULL)
    try:
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        if act is FaultEffect.CRASH:
            assert os.WTERMSIG(status) == signal.SIGKILL
        else:
            assert os.WSTOPSIG(status) == signal.SIGSTOP
    finally:
        process.returncode = 0
        if act is FaultEffect.FREEZE:
            os.kill(process.pid, signal.SIGKILL)
            os.waitpid(process.pid, 0)
    [line] = witness.read_text().splitlines()
    told = json.loads(line)
    assert (told["what"], told["point"], told["run"], told["pid"]) == ("fault", "settled", "r1", process.pid)


def test_a_process_of_production_suffers_nothing_whatever_its_environment_says(tmp_path: Path) -> None:
    """Only a process that was started as a test reads the variables."""
    witness = tmp_path / "witness.jsonl"
    code = (
        "import sys; from lakewarden.executors import points; import lakewarden.service.wiring; "
        "points.reach(points.Point.SETTLED, run='r1', service='clean'); "
        "sys.exit(any(name.startswith('tests.support.doubles') for name in sys.modules))"
    )
    faults = json.dumps([{"point": "settled", "act": "crash"}])
    environment = {**os.environ, VARIABLE: faults, "LAKEWARDEN_WITNESS": str(witness)}

    assert subprocess.run([sys.executable, "-c", code], env=environment, check=False).returncode == 0
    assert not witness.exists()


# The witness records the beginning and the end of each step, if a test asks for it.


ASSIGNMENT = Assignment(
    run=RunId("r1"), epoch=3, table=TableId("orders"), format="hudi", location="/t", service=Service.COMPACTION
)


def test_a_step_is_told_at_its_beginning_and_at_its_end(tmp_path: Path) -> None:
    """With its run, its epoch and its instant. A step that fails has ended, too: only a kill cuts the end off."""
    witness = Witness(file=tmp_path / "witness", clock=ManualClock())
    with pytest.raises(ValueError, match="no"), witness.sees(Step.COMMIT, Plan(instant="5"), ASSIGNMENT):
        raise ValueError("no")
    begin, end = [json.loads(line) for line in (tmp_path / "witness").read_text().splitlines()]
    assert (begin["what"], begin["run"], begin["epoch"], begin["instant"]) == ("begin", "r1", 3, "5")
    assert (end["what"], end["run"], end["step"]) == ("end", "r1", "commit")


# Which runs were cancelled, for programs that do their work outside of Spark's jobs.


def test_a_run_is_wanted_until_it_is_cancelled_and_forgotten_at_its_end() -> None:
    """A later run of the same name would not be cancelled."""
    run, other = RunId("one"), RunId("other")
    cancellations.note(run)
    with pytest.raises(TemporaryError, match="cancelled"):
        cancellations.require_wanted(run)
    cancellations.require_wanted(other)
    cancellations.forget(run)
    cancellations.require_wanted(run)
