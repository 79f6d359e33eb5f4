"""The schedule follows from the seed alone, and leaves nothing out."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import pytest

from faults.formats.hudi.trial import TARGETS as HUDI
from faults.formats.iceberg.trial import TARGETS as ICEBERG
from faults.injection.schedule import BY_DAEMON, BY_WORKER, CLUSTER_VICTIMS, ScheduledFault, Targets, Victim, faults_of
from lakewarden.executors.points import Point
from lakewarden.planners.model.instant import Service
from lakewarden.planners.registry import FORMATS


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


def test_every_service_of_an_iceberg_table_is_hit() -> None:
    """All of them run by themselves."""
    assert set(ICEBERG.services) == set(FORMATS["iceberg"].services)


def test_only_who_passes_a_point_kills_itself_there() -> None:
    """The daemon cannot kill itself at a point of its worker. A process that is to be frozen never kills itself."""
    for fault in islice(on_hudi(1), 500):
        if fault.by_itself:
            passes = {Victim.DAEMON: BY_DAEMON, Victim.WORKER: BY_WORKER}[fault.victim]
            assert fault.point in passes


def test_what_holds_the_lock_between_its_plan_and_its_look_is_struck_there() -> None:
    """On a table of today's version only a clustering does so."""
    looking = [fault for fault in islice(on_hudi(1), 500) if fault.point is Point.LOOKING]
    assert len(looking) == 50
    assert {fault.service for fault in looking} == {Service.CLUSTERING}


def test_an_archive_is_never_waited_for_where_it_does_not_come() -> None:
    """It stores no instant."""
    faults = islice(on_hudi(1), 500)
    assert not [s for s in faults if s.service is Service.ARCHIVE and s.point is Point.STORED]


def test_a_point_that_some_services_pass_is_waited_for_in_one_of_them() -> None:
    """A service that passes the point stays. Another one is replaced."""
    assert ICEBERG.passing(Service.CLUSTERING, Point.PROPOSED) is Service.CLUSTERING
    assert ICEBERG.passing(Service.CLEAN, Point.PROPOSED) is Service.COMPACTION
    assert ICEBERG.passing(Service.ARCHIVE, Point.PLANNED) is Service.ARCHIVE
