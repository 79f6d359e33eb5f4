"""A strike is told to processes that run, its victim is recognised, and who is held is let go."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from faults.arms import Arms
from faults.deck import Strike, Victim
from lakewarden.executors.faultpoints import VARIABLE, FaultPoints, Point, from_environment
from lakewarden.executors.witness import Witness
from lakewarden.planners.model.instant import Service

STRIKE = Strike(
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
    """And whoever comes when nothing is armed goes on."""
    arms = Arms(tmp_path)
    points = from_environment({VARIABLE: arms.variables[VARIABLE]})
    pass_point(points).join(timeout=5)
    arms.arm(STRIKE)
    held = pass_point(points)
    while not (tmp_path / "told-3").exists():
        time.sleep(0.001)
    arms.disarm()
    assert held.is_alive()
    arms.let_go()
    held.join(timeout=5)
    assert not held.is_alive()


def test_whom_the_witness_names_since_the_arming_is_who_stands_there(tmp_path: Path) -> None:
    """Not the one of an earlier round, and only when it says itself that it stands there."""
    arms = Arms(tmp_path)
    witness = Witness(file=arms.witness)
    witness.tell("fault", run="r1", service="clean", point="executed")
    arms.arm(STRIKE)
    assert arms.reached() is None
    witness.tell("begin", run="r1")
    witness.tell("fault", run="r2", service="clean", point="executed")
    assert arms.reached() is None
    (tmp_path / "told-3").write_text("1")
    reached = arms.reached()
    assert reached is not None
    assert reached.run == "r2"


def test_when_none_of_its_service_comes_any_will_do(tmp_path: Path) -> None:
    """The blow falls at the right point all the same."""
    arms = Arms(tmp_path)
    points = from_environment({VARIABLE: arms.variables[VARIABLE]})
    arms.arm(STRIKE)
    pass_point(points, "compaction").join(timeout=5)
    arms.widen(STRIKE)
    held = pass_point(points, "compaction")
    while not (tmp_path / "told-3").exists():
        time.sleep(0.001)
    arms.let_go()
    held.join(timeout=5)
    assert not held.is_alive()
