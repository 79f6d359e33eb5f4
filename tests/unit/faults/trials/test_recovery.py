"""A recovery is over when the struck run has ended and the instants that it left pending are pending no more."""

from __future__ import annotations

import pytest

from faults.trials.recovery import Recovery
from lakewarden.planners.model.instant import Service


@pytest.fixture
def recovery() -> Recovery:
    """Return one that began at second 10."""
    return Recovery(service=Service.COMPACTION, run="r1", pending={"5"}, injected_at=10.0)


def test_it_is_over_when_both_the_run_and_its_instant_are_done(recovery: Recovery) -> None:
    """Neither of them alone is enough. Later runs and instants do not count."""
    recovery.look(active={"r1"}, pending={"5"}, blocked="", at=11)
    recovery.look(active={"r2"}, pending={"5"}, blocked="", at=12)
    recovery.look(active={"r1"}, pending=set(), blocked="", at=13)
    assert not recovery.over
    recovery.look(active={"r2"}, pending={"6"}, blocked="", at=14)
    assert recovery.seconds == 4
    recovery.look(active={"r1"}, pending={"5"}, blocked="", at=15)
    assert recovery.seconds == 4


def test_what_the_time_went_into_is_told_apart(recovery: Recovery) -> None:
    """The parts are the wait for a heartbeat, the delay after a failure, and the rest."""
    guarded = "instant 5 is guarded by the heartbeat of its executor"
    recovery.look(active={"r1"}, pending={"5"}, blocked=guarded, at=10.5)
    recovery.look(active={"r1"}, pending={"5"}, blocked=guarded, at=11.0)
    recovery.look(active={"r1"}, pending={"5"}, blocked="backing off: a worker died", at=11.75)
    recovery.look(active={"r1"}, pending={"5"}, blocked="", at=12.75)
    assert (recovery.heartbeat, recovery.rest) == (1.0, 0.75)
