"""Barriers: a foreign writer waits for our cleans as our commits do, and holds new ones back, within bounds."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from lakewarden.executors.contract import Step
from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import TableId
from lakewarden.service.model.run import RunState
from lakewarden.service.state.barriers import HELD_BACK, Held
from tests.support.road import COMPACT_AND_CLEAN, TRIPS, Road, prepare

SECOND = timedelta(seconds=1)
CLEAN = {Service.CLEAN: COMPACT_AND_CLEAN[Service.CLEAN]}
CLEAN_AFTER_COMMIT = (Service.CLEAN, Step.COMMIT)


def a_road(folder: Path, **parts: object) -> Road:
    """Make a road whose table is due for a clean."""
    road = Road(folder, policies=CLEAN, **parts)  # type: ignore[arg-type]
    prepare(road.lake)
    return road


def test_where_no_clean_executes_a_writer_is_answered_at_once(tmp_path: Path) -> None:
    """With the time until which it may rely on that; no clean starts before."""
    road = a_road(tmp_path)
    asked_at = road.clock.now()

    held = road.answered(road.status.hold_cleans(TRIPS, hold=20 * SECOND, wait=SECOND))

    assert held == Held(waited=timedelta(0), until=asked_at + 20 * SECOND)
    while road.clock.now() < held.until:
        assert road.states(Service.CLEAN) in ([], [RunState.QUEUED])
        road.turn()
    road.until(lambda: road.states(Service.CLEAN) == [RunState.SUCCEEDED])


def test_a_clean_that_executes_is_waited_for(tmp_path: Path) -> None:
    """The answer comes when it has ended, and says how long that took."""
    road = a_road(tmp_path)
    road.until_executing(Step.COMMIT, Service.CLEAN)
    future = road.status.hold_cleans(TRIPS, hold=10 * SECOND, wait=60 * SECOND)
    road.for_a_while(5 * SECOND)
    assert not future.done()

    road.held_pool.release()
    road.until(future.done, within=SECOND)

    assert 5 * SECOND <= future.result().waited <= 6 * SECOND


def test_a_clean_that_has_not_begun_to_delete_is_held_at_its_commit(tmp_path: Path) -> None:
    """It stands at its question until the hold has run out."""
    road = a_road(tmp_path)
    road.until_executing(Step.EXECUTE, Service.CLEAN)
    future = road.status.hold_cleans(TRIPS, hold=10 * SECOND, wait=SECOND)
    road.held_pool.release()
    held = road.answered(future)
    road.until(lambda: road.at(Step.COMMIT, Service.CLEAN))

    while road.clock.now() < held.until - SECOND:
        road.turn()
        assert list(road.status.waiting().values()) == ["a writer's barrier holds cleans back"]

    road.until(lambda: road.states(Service.CLEAN) == [RunState.SUCCEEDED], within=5 * SECOND)


def test_a_wait_that_runs_out_is_an_error_and_holds_nothing(tmp_path: Path) -> None:
    """The writer knows that a clean is executing still, and decides for itself."""
    road = a_road(tmp_path)
    road.until_executing(Step.COMMIT, Service.CLEAN)
    future = road.status.hold_cleans(TRIPS, hold=10 * SECOND, wait=5 * SECOND)

    road.until(future.done, within=6 * SECOND)

    with pytest.raises(TemporaryError, match="is COMMITTING: not ended within 0:00:05"):
        future.result()
    assert not road.daemon._barriers.closed(TRIPS)


def test_a_clean_of_a_killed_daemon_is_waited_for_too(tmp_path: Path) -> None:
    """Its worker may still be deleting until it must be gone."""
    road = a_road(tmp_path)
    road.until_executing(Step.COMMIT, Service.CLEAN)
    road.compose()

    future = road.status.hold_cleans(TRIPS, hold=10 * SECOND, wait=60 * SECOND)
    road.for_a_while(5 * SECOND)
    assert not future.done()

    road.until(future.done)
    assert future.result().waited > 5 * SECOND


def test_a_hold_can_be_released_early(tmp_path: Path) -> None:
    """A writer that has committed lets the cleans go on."""
    road = a_road(tmp_path)
    road.answered(road.status.hold_cleans(TRIPS, hold=60 * SECOND, wait=SECOND))
    road.for_a_while(10 * SECOND)
    assert road.states(Service.CLEAN) == [RunState.QUEUED]

    road.answered(road.status.release_cleans(TRIPS))

    road.until(lambda: road.states(Service.CLEAN) == [RunState.SUCCEEDED], within=5 * SECOND)


def test_a_hold_of_nothing_is_a_mere_wait(tmp_path: Path) -> None:
    """Cleans go on at once."""
    road = a_road(tmp_path)
    road.answered(road.status.hold_cleans(TRIPS, hold=timedelta(0), wait=SECOND))

    road.until(lambda: road.states(Service.CLEAN) == [RunState.SUCCEEDED], within=15 * SECOND)


def test_a_barrier_is_its_tables_own(tmp_path: Path) -> None:
    """Other tables are cleaned meanwhile."""
    other = TableId("orders")
    road = Road(tmp_path, names=["trips", "orders"], policies=CLEAN)
    for lake in road.lakes.values():
        prepare(lake)
    held = road.answered(road.status.hold_cleans(TRIPS, hold=60 * SECOND, wait=SECOND))

    road.until(lambda: road.states(Service.CLEAN, other) == [RunState.SUCCEEDED])

    assert road.clock.now() < held.until
    assert road.states(Service.CLEAN, TRIPS) in ([], [RunState.QUEUED])


def test_writers_that_hold_again_and_again_starve_no_clean(tmp_path: Path) -> None:
    """A clean that was held back for long enough goes first; no promise given before is broken by that."""
    road = a_road(tmp_path)
    promised, refused = road.clock.now(), 0
    began = road.clock.now()
    futures = []
    while RunState.SUCCEEDED not in road.states(Service.CLEAN):
        futures.append(road.status.hold_cleans(TRIPS, hold=10 * SECOND, wait=timedelta(0)))
        road.turn()
        for future in futures:
            if future.done() and future.exception() is None:
                promised = max(promised, future.result().until)
            refused += future.done() and future.exception() is not None
        futures = [future for future in futures if not future.done()]
        if RunState.COMMITTING in road.states(Service.CLEAN):
            assert road.clock.now() >= promised
        assert road.clock.now() - began < HELD_BACK + timedelta(minutes=1)
        road.clock.advance(SECOND)
    assert road.clock.now() - began >= HELD_BACK
    assert refused


@pytest.mark.parametrize("slots", [1, 2, 4])
def test_a_barrier_a_compaction_and_a_clean_never_wait_for_each_other(tmp_path: Path, slots: int) -> None:
    """A compaction that waits for a clean that waits for a writer: all come to their end, in every pool."""
    road = Road(tmp_path, policies=COMPACT_AND_CLEAN, slots=slots)
    prepare(road.lake)
    for number in range(60):
        if number % 20 < 10:
            road.status.hold_cleans(TRIPS, hold=3 * SECOND, wait=SECOND)
        road.turn()

    road.until(
        lambda: RunState.SUCCEEDED in road.states() and RunState.SUCCEEDED in road.states(Service.CLEAN),
        within=road.limits.commit_patience,
    )


@pytest.mark.timeout(30)
def test_a_daemon_that_stops_answers_whoever_waits(tmp_path: Path) -> None:
    """Nobody hangs on a daemon that is gone."""
    road = a_road(tmp_path, drain=timedelta(0))
    road.until_executing(Step.COMMIT, Service.CLEAN)
    future = road.status.hold_cleans(TRIPS, hold=10 * SECOND, wait=60 * SECOND)
    road.turn()
    road.daemon.stop()
    road.daemon.run()

    assert future.done()
