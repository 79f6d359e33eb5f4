"""A fault reaches running processes, the run that reaches it is recognised, and a held run is released."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from faults.formats.hudi.trial import TARGETS as HUDI
from faults.formats.iceberg.trial import TARGETS as ICEBERG
from faults.injection.deaths import Deaths
from faults.injection.fault_injection import FaultInjection
from faults.injection.schedule import BY_DAEMON, BY_WORKER, CLUSTER_VICTIMS, ScheduledFault, Targets, Victim, faults_of
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


@pytest.mark.parametrize("service", ["clean", "compaction"])
def test_who_reaches_the_point_is_held_until_it_is_let_go(tmp_path: Path, service: str) -> None:
    """Without a fault every run continues. When none of its service comes, any will do."""
    injection = FaultInjection(tmp_path)
    points = from_environment({VARIABLE: injection.variables[VARIABLE]})
    pass_point(points).join(timeout=5)
    injection.inject(FAULT)
    if service != FAULT.service:
        pass_point(points, service).join(timeout=5)
        injection.widen(FAULT)
    held = pass_point(points, service)
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


# The schedule follows from the seed alone, and leaves nothing out.


def on_hudi(seed: int) -> Iterator[ScheduledFault]:
    return faults_of(seed, HUDI)


def test_the_same_seed_deals_the_same_rounds() -> None:
    """So a violation can be reproduced."""
    assert list(islice(on_hudi(7), 50)) == list(islice(on_hudi(7), 50))
    assert list(islice(on_hudi(7), 50)) != list(islice(on_hudi(8), 50))


@pytest.mark.parametrize("on_cluster", [False, True])
@pytest.mark.parametrize("targets", [HUDI, ICEBERG], ids=["hudi", "iceberg"])
def test_in_thirty_rounds_every_point_service_and_victim_occurs(targets: Targets, on_cluster: bool) -> None:
    """Each list is used up before it is shuffled again. A cluster is hit only where there is one."""
    faults = list(islice(faults_of(1, targets, on_cluster=on_cluster), 30))
    assert {fault.point for fault in faults} == set(targets.points)
    assert {fault.victim for fault in faults} == set(Victim) - (set() if on_cluster else set(CLUSTER_VICTIMS))
    assert {fault.service for fault in faults} == set(targets.services)
    assert {fault.patient for fault in faults} == {True, False}


def test_a_point_is_waited_for_only_in_a_service_that_passes_it() -> None:
    """Only a clustering holds the lock between its plan and its look, on a table of today's version. An archive stores
    no instant.
    """
    faults = list(islice(on_hudi(1), 500))
    looking = [fault for fault in faults if fault.point is Point.LOOKING]
    assert len(looking) == 50
    assert {fault.service for fault in looking} == {Service.CLUSTERING}
    assert not [fault for fault in faults if fault.service is Service.ARCHIVE and fault.point is Point.STORED]


def test_only_who_passes_a_point_kills_itself_there() -> None:
    """The daemon cannot kill itself at a point of its worker. A process that is to be frozen never kills itself."""
    for fault in islice(on_hudi(1), 500):
        if fault.by_itself:
            passes = {Victim.DAEMON: BY_DAEMON, Victim.WORKER: BY_WORKER}[fault.victim]
            assert fault.point in passes


def test_a_point_that_some_services_pass_is_waited_for_in_one_of_them() -> None:
    """A service that passes the point stays. Another one is replaced."""
    assert ICEBERG.passing(Service.CLUSTERING, Point.PROPOSED) is Service.CLUSTERING
    assert ICEBERG.passing(Service.CLEAN, Point.PROPOSED) is Service.COMPACTION
    assert ICEBERG.passing(Service.ARCHIVE, Point.PLANNED) is Service.ARCHIVE


# The death of a JVM is recorded soon, with a time at which it was certainly alive.


def deaths_told(file: Path) -> list[dict[str, Any]]:
    return [told for line in file.read_text().splitlines() if (told := json.loads(line))["what"] == "dead"]


def test_a_jvm_that_is_killed_was_alive_until_just_before(tmp_path: Path) -> None:
    """A zombie counts as dead. A living JVM is not recorded."""
    file = tmp_path / "witness"
    witness = Witness(file=file)
    command = [sys.executable, "-c", "import time; time.sleep(60)"]
    jvms = [subprocess.Popen(command) for _ in range(2)]
    try:
        with Deaths(file) as deaths:
            for jvm in jvms:
                witness.tell("session", jvm=jvm.pid)
            time.sleep(0.3)
            assert deaths.watching
            killed_at = witness.clock.monotonic()
            jvms[0].kill()
            while not deaths_told(file):
                time.sleep(0.01)
        [told] = deaths_told(file)
        assert told["jvm"] == jvms[0].pid
        assert killed_at - 1 < told["alive_at"] <= told["at"]
        assert told["alive_at"] <= killed_at + 0.1
    finally:
        for jvm in jvms:
            jvm.kill()
            jvm.wait()


def test_a_jvm_that_was_gone_before_the_first_look_was_alive_when_it_reported_itself(tmp_path: Path) -> None:
    """No later time is known."""
    file = tmp_path / "witness"
    jvm = subprocess.Popen([sys.executable, "-c", ""])
    jvm.wait()
    Witness(file=file).tell("session", jvm=jvm.pid)
    born = json.loads(file.read_text())["at"]
    with Deaths(file):
        pass
    [told] = deaths_told(file)
    assert told["alive_at"] == born
