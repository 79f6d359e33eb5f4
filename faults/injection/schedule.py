"""The schedule of faults, from the seed: which service, at which point, which processes, and how."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from lakewarden.executors.points import Point
from lakewarden.planners.model.instant import Service

_Item = TypeVar("_Item")


class Victim(StrEnum):
    """The processes that a fault hits. Frozen processes continue after some seconds."""

    DAEMON = "daemon"
    JVM = "jvm"
    WORKER = "worker"
    BOTH = "daemon and jvm"
    FROZEN_DAEMON = "daemon frozen"
    FROZEN_JVM = "jvm frozen"
    FROZEN_WORKER = "worker frozen"
    FROZEN_ALL = "all frozen"
    """Like a machine that is paused."""
    DAEMON_BESIDE_FROZEN_WORKER = "daemon, its worker frozen"
    """The worst case: no process is left to end the JVM, which continues."""
    EXECUTORS = "executors"
    FROZEN_EXECUTORS = "executors frozen"
    JVM_BESIDE_FROZEN_EXECUTORS = "jvm, its executors frozen"
    """They go on writing when they wake, for an application that has ended."""
    SPARK_WORKER = "spark worker"
    MASTER = "master"

    @property
    def of_cluster(self) -> bool:
        """Whether it is hit on the cluster."""
        return self in CLUSTER_VICTIMS

    @property
    def daemon_dies(self) -> bool:
        """Whether a new daemon is needed."""
        return self in (Victim.DAEMON, Victim.BOTH, Victim.DAEMON_BESIDE_FROZEN_WORKER)

    @property
    def seen_by(self) -> frozenset[Point]:
        """Return the points that the victim itself passes, at which it can be told to kill itself."""
        match self:
            case Victim.DAEMON:
                return BY_DAEMON
            case Victim.WORKER:
                return BY_WORKER
            case _:
                return frozenset()


BY_DAEMON = frozenset({Point.LEASED, Point.STORED, Point.PERMITTED, Point.SETTLED, Point.NOTIFIED})
BY_WORKER = frozenset(Point) - BY_DAEMON

NUMBERED = (
    Point.LEASED,
    Point.PLANNED,
    Point.STORED,
    Point.EXECUTING,
    Point.EXECUTED,
    Point.PERMITTED,
    Point.COMMITTED,
    Point.SETTLED,
    Point.NOTIFIED,
)
"""The points that every format has, K0 to K8."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Targets:
    """The services of a format, as often as they are hit, and the points of their runs. A point that is in `passed_by`
    is passed by runs of these services alone.
    """

    services: Sequence[Service]
    points: Sequence[Point]
    passed_by: Mapping[Point, Sequence[Service]]

    def passing(self, service: Service, point: Point) -> Service:
        """Return the service, or another one if its runs do not pass the point."""
        pass_it = self.passed_by.get(point, (service,))
        return service if service in pass_it else pass_it[0]


_VICTIMS = (
    *(Victim.DAEMON,) * 3,
    *(Victim.JVM,) * 2,
    *(Victim.WORKER,) * 2,
    *(Victim.BOTH,) * 2,
    Victim.FROZEN_DAEMON,
    Victim.FROZEN_JVM,
    Victim.FROZEN_WORKER,
    Victim.FROZEN_ALL,
    Victim.DAEMON_BESIDE_FROZEN_WORKER,
)
CLUSTER_VICTIMS = (
    Victim.EXECUTORS,
    Victim.FROZEN_EXECUTORS,
    Victim.JVM_BESIDE_FROZEN_EXECUTORS,
    Victim.SPARK_WORKER,
    Victim.MASTER,
)
"""What is hit only in a trial on a cluster."""

_FROZEN_SECONDS = (2.0, 6.0, 25.0)
"""The last value is longer than a worker may live without its daemon, and longer than it may be silent."""

_PATIENT = (True, True, True, True, False)


@dataclass(frozen=True, kw_only=True, slots=True)
class ScheduledFault:
    """One round. `by_itself`: the victim kills itself at the point. Else it is held there and killed. `patient`: the
    next round waits for the recovery from this one.
    """

    number: int
    service: Service
    point: Point
    victim: Victim
    by_itself: bool
    frozen_seconds: float
    patient: bool


def faults_of(seed: int, targets: Targets, *, on_cluster: bool = False) -> Iterator[ScheduledFault]:
    """Yield faults for ever. Each list is used up before it is shuffled again, so that nothing is left out."""
    rng = random.Random(seed)
    services, points = shuffled(rng, targets.services), shuffled(rng, targets.points)
    victims = shuffled(rng, (*_VICTIMS, *CLUSTER_VICTIMS * 2) if on_cluster else _VICTIMS)
    freezes, patient, ways = shuffled(rng, _FROZEN_SECONDS), shuffled(rng, _PATIENT), shuffled(rng, (True, False))
    number = 0
    while True:
        number += 1
        point, service, victim, by_itself = next(points), next(services), next(victims), next(ways)
        yield ScheduledFault(
            number=number,
            service=targets.passing(service, point),
            point=point,
            victim=victim,
            by_itself=by_itself and point in victim.seen_by,
            frozen_seconds=next(freezes),
            patient=next(patient),
        )


def shuffled(rng: random.Random, items: Sequence[_Item]) -> Iterator[_Item]:
    """Yield the items for ever, shuffled again each time that all were yielded."""
    while True:
        yield from rng.sample(items, len(items))
