"""What is dealt follows from the seed alone, and leaves nothing out."""

from __future__ import annotations

from itertools import islice

from faults.deck import BY_DAEMON, BY_WORKER, POINTS, Victim, deal
from lakewarden.executors.faultpoints import Point
from lakewarden.planners.model.instant import Service


def test_the_same_seed_deals_the_same_rounds() -> None:
    """A violation can be played again."""
    assert list(islice(deal(7), 50)) == list(islice(deal(7), 50))
    assert list(islice(deal(7), 50)) != list(islice(deal(8), 50))


def test_in_thirty_rounds_every_point_service_and_victim_occurs() -> None:
    """The decks are dealt to their ends."""
    strikes = list(islice(deal(1), 30))
    assert {strike.point for strike in strikes} == set(POINTS)
    assert {strike.victim for strike in strikes} == set(Victim)
    services = {Service.COMPACTION, Service.LOG_COMPACTION, Service.CLUSTERING, Service.CLEAN, Service.ARCHIVE}
    assert {strike.service for strike in strikes} == services
    assert {strike.patient for strike in strikes} == {True, False}


def test_only_who_passes_a_point_kills_itself_there() -> None:
    """The daemon cannot kill itself where its worker stands, and nobody who is to be frozen kills itself."""
    for strike in islice(deal(1), 500):
        if strike.by_itself:
            passes = {Victim.DAEMON: BY_DAEMON, Victim.WORKER: BY_WORKER}[strike.victim]
            assert strike.point in passes


def test_what_holds_the_lock_between_its_plan_and_its_look_is_struck_there() -> None:
    """Only a clustering does, beside a table of today's version."""
    looking = [strike for strike in islice(deal(1), 500) if strike.point is Point.LOOKING]
    assert len(looking) == 50
    assert {strike.service for strike in looking} == {Service.CLUSTERING}


def test_an_archive_is_never_waited_for_where_it_does_not_come() -> None:
    """It has no instant that could be stored."""
    strikes = islice(deal(1), 500)
    assert not [s for s in strikes if s.service is Service.ARCHIVE and s.point is Point.STORED]
