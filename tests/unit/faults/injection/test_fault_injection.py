"""A fault reaches running processes, the run that reaches it is recognised, and a held run is released."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from faults.injection.fault_injection import FaultInjection
from faults.injection.schedule import ScheduledFault, Victim
from lakewarden.executors.points import Point
from lakewarden.planners.model.instant import Service
from tests.support.doubles.fault_points import VARIABLE, FaultPoints, from_environment
from tests.support.doubles.witness import Witness

FAULT = ScheduledFault(
    number=3,
    service=Service.CLEAN,
    point=Point.EXECUTED,
    victim=Victim.JVM,
    by_itself=False,
    frozen_seconds=2,
    patient=True,
)


def pass_point(points: FaultPoints, service: str = "clean") -> threading.Thread:
    thread = threading.Thread(target=points.reach, args=(Point.EXECUTED,), kwargs={"run": "r9", "service": service})
    thread.start()
    return thread


def test_who_reaches_the_point_is_held_until_it_is_let_go(tmp_path: Path) -> None:
    """Without a fault every run continues."""
    injection = FaultInjection(tmp_path)
    points = from_environment({VARIABLE: injection.variables[VARIABLE]})
    pass_point(points).join(timeout=5)
    injection.inject(FAULT)
    held = pass_point(points)
    while not (tmp_path / "told-3").exists():
        time.sleep(0.001)
    injection.withdraw()
    assert held.is_alive()
    injection.let_go()
    held.join(timeout=5)
    assert not held.is_alive()


def test_whom_the_witness_names_since_the_arming_is_who_stands_there(tmp_path: Path) -> None:
    """A run of an earlier round does not count. A run counts only after it says itself that it is held."""
    injection = FaultInjection(tmp_path)
    witness = Witness(file=injection.witness)
    witness.tell("fault", run="r1", service="clean", point="executed")
    injection.inject(FAULT)
    assert injection.reached() is None
    witness.tell("begin", run="r1")
    witness.tell("fault", run="r2", service="clean", point="executed")
    assert injection.reached() is None
    (tmp_path / "told-3").write_text("1")
    reached = injection.reached()
    assert reached is not None
    assert reached.run == "r2"


def test_when_none_of_its_service_comes_any_will_do(tmp_path: Path) -> None:
    """The fault still happens at the right point."""
    injection = FaultInjection(tmp_path)
    points = from_environment({VARIABLE: injection.variables[VARIABLE]})
    injection.inject(FAULT)
    pass_point(points, "compaction").join(timeout=5)
    injection.widen(FAULT)
    held = pass_point(points, "compaction")
    while not (tmp_path / "told-3").exists():
        time.sleep(0.001)
    injection.let_go()
    held.join(timeout=5)
    assert not held.is_alive()
