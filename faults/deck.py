"""What happens in each round, dealt from the seed: which service, at which point, what is struck there, and how."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from lakewarden.executors.faultpoints import Point
from lakewarden.planners.model.instant import Service

_Card = TypeVar("_Card")


class Victim(StrEnum):
    """What is struck. What is frozen is thawed after some seconds."""

    DAEMON = "daemon"
    JVM = "jvm"
    WORKER = "worker"
    BOTH = "daemon and jvm"
    FROZEN_DAEMON = "daemon frozen"
    FROZEN_JVM = "jvm frozen"
    FROZEN_WORKER = "worker frozen"
    FROZEN_ALL = "all frozen"
    """As a machine that is paused."""
    DAEMON_BESIDE_FROZEN_WORKER = "daemon, its worker frozen"
    """The worst: nobody is left to end the JVM, which goes on."""

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


BY_DAEMON = frozenset({Point.CLAIMED, Point.STORED, Point.PERMITTED, Point.SETTLED, Point.NOTIFIED})
BY_WORKER = frozenset({Point.PLANNED, Point.LOOKING, Point.EXECUTING, Point.EXECUTED, Point.COMMITTED})
POINTS = tuple(point for point in Point if point in BY_DAEMON | BY_WORKER)
"""The points that runs on a Hudi table pass by themselves. A plan is withdrawn only where a write gets in its way,
which nobody can deal.
"""

_SERVICES = (
    *(Service.COMPACTION,) * 4,
    *(Service.CLEAN,) * 3,
    *(Service.LOG_COMPACTION,) * 2,
    *(Service.CLUSTERING,) * 2,
    Service.ARCHIVE,
)
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
_FROZEN_SECONDS = (2.0, 6.0, 25.0)
"""The last is longer than a worker may live without being told to, and longer than it may be silent."""

_PATIENT = (True, True, True, True, False)


@dataclass(frozen=True, kw_only=True, slots=True)
class Strike:
    """One round. `by_itself`: the victim kills itself at the point; else it is held there and killed. `patient`: the
    next round waits until this one is recovered from.
    """

    number: int
    service: Service
    point: Point
    victim: Victim
    by_itself: bool
    frozen_seconds: float
    patient: bool


def deal(seed: int) -> Iterator[Strike]:
    """Yield strikes for ever. A deck is dealt to its end before it is shuffled anew, so that nothing is left out."""
    dice = random.Random(seed)
    services, points, victims = dealt(dice, _SERVICES), dealt(dice, POINTS), dealt(dice, _VICTIMS)
    freezes, patience, ways = dealt(dice, _FROZEN_SECONDS), dealt(dice, _PATIENT), dealt(dice, (True, False))
    number = 0
    while True:
        number += 1
        point, service, victim, by_itself = next(points), next(services), next(victims), next(ways)
        if service is Service.ARCHIVE and point is Point.STORED:
            service = Service.COMPACTION  # an archive has no instant to be stored
        if point is Point.LOOKING:
            service = Service.CLUSTERING  # others make their plans without the table's lock
        yield Strike(
            number=number,
            service=service,
            point=point,
            victim=victim,
            by_itself=by_itself and point in victim.seen_by,
            frozen_seconds=next(freezes),
            patient=next(patience),
        )


def dealt(dice: random.Random, deck: Sequence[_Card]) -> Iterator[_Card]:
    """Yield the cards of a deck for ever, shuffled anew whenever all are dealt."""
    while True:
        yield from dice.sample(deck, len(deck))
