"""Barriers: a foreign writer waits for our cleans as our commits do, and holds new ones back, within bounds."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.model.instant import Service, Step
from lakewarden.service.model.run import RunState
from lakewarden.service.state.barriers import HELD_BACK, BarrierGranted
from tests.support.daemon.daemon_harness import COMPACT_AND_CLEAN, TRIPS, DaemonHarness, prepare

SECOND = timedelta(seconds=1)
CLEAN = {Service.CLEAN: COMPACT_AND_CLEAN[Service.CLEAN]}
CLEAN_AFTER_COMMIT = (Service.CLEAN, Step.COMMIT)


def make_harness(folder: Path, **parts: object) -> DaemonHarness:
    """Make a daemon whose table is due for a clean."""
    harness = DaemonHarness(folder, policies=CLEAN, **parts)  # type: ignore[arg-type]
    prepare(harness.lake)
    return harness


def test_where_no_clean_executes_a_writer_is_answered_at_once(tmp_path: Path) -> None:
    """With the time until which it may rely on that; no clean starts before."""
    harness = make_harness(tmp_path)
    asked_at = harness.clock.now()

    held = harness.answered(harness.status.commands.hold_cleans(TRIPS, hold=20 * SECOND, wait=SECOND))

    assert held == BarrierGranted(id=held.id, waited=timedelta(0), until=asked_at + 20 * SECOND)
    while harness.clock.now() < held.until:
        assert harness.states(Service.CLEAN) in ([], [RunState.QUEUED])
        harness.turn()
    harness.until(lambda: harness.states(Service.CLEAN) == [RunState.SUCCEEDED])


def test_a_clean_that_executes_is_waited_for(tmp_path: Path) -> None:
    """The answer comes when it has ended, and says how long that took."""
    harness = make_harness(tmp_path)
    harness.until_executing(Step.COMMIT, Service.CLEAN)
    future = harness.status.commands.hold_cleans(TRIPS, hold=10 * SECOND, wait=60 * SECOND)
    harness.for_a_while(5 * SECOND)
    assert not future.done()

    harness.held_pool.release()
    harness.until(future.done, within=SECOND)

    assert 5 * SECOND <= future.result().waited <= 6 * SECOND


def test_a_clean_that_has_not_begun_to_delete_is_held_at_its_commit(tmp_path: Path) -> None:
    """It stands at its question until the hold has run out."""
    harness = make_harness(tmp_path)
    harness.until_executing(Step.EXECUTE, Service.CLEAN)
    future = harness.status.commands.hold_cleans(TRIPS, hold=10 * SECOND, wait=SECOND)
    harness.held_pool.release()
    held = harness.answered(future)
    harness.until(lambda: harness.at(Step.COMMIT, Service.CLEAN))

    while harness.clock.now() < held.until - SECOND:
        harness.turn()
        assert list(harness.status.waiting().values()) == ["a writer's barrier holds cleans back"]

    harness.until(lambda: harness.states(Service.CLEAN) == [RunState.SUCCEEDED], within=5 * SECOND)


def test_a_wait_that_runs_out_is_an_error_and_holds_nothing(tmp_path: Path) -> None:
    """The writer knows that a clean is executing still, and decides for itself."""
    harness = make_harness(tmp_path)
    harness.until_executing(Step.COMMIT, Service.CLEAN)
    future = harness.status.commands.hold_cleans(TRIPS, hold=10 * SECOND, wait=5 * SECOND)

    harness.until(future.done, within=6 * SECOND)

    with pytest.raises(TemporaryError, match="is COMMITTING: not ended within 0:00:05"):
        future.result()
    assert not harness.daemon._barriers.closed(TRIPS)


def test_a_clean_of_a_killed_daemon_is_waited_for_too(tmp_path: Path) -> None:
    """Its worker may still be deleting until it must be gone."""
    harness = make_harness(tmp_path)
    harness.until_executing(Step.COMMIT, Service.CLEAN)
    harness.compose()

    future = harness.status.commands.hold_cleans(TRIPS, hold=10 * SECOND, wait=60 * SECOND)
    harness.for_a_while(5 * SECOND)
    assert not future.done()

    harness.until(future.done)
    assert future.result().waited > 5 * SECOND


def test_a_hold_can_be_released_early(tmp_path: Path) -> None:
    """A writer that has committed lets the cleans go on."""
    harness = make_harness(tmp_path)
    harness.answered(harness.status.commands.hold_cleans(TRIPS, hold=60 * SECOND, wait=SECOND))
    harness.for_a_while(10 * SECOND)
    assert harness.states(Service.CLEAN) == [RunState.QUEUED]

    harness.answered(harness.status.commands.release_cleans(TRIPS))

    harness.until(lambda: harness.states(Service.CLEAN) == [RunState.SUCCEEDED], within=5 * SECOND)


def test_a_hold_of_nothing_is_a_mere_wait(tmp_path: Path) -> None:
    """Cleans go on at once."""
    harness = make_harness(tmp_path)
    harness.answered(harness.status.commands.hold_cleans(TRIPS, hold=timedelta(0), wait=SECOND))

    harness.until(lambda: harness.states(Service.CLEAN) == [RunState.SUCCEEDED], within=15 * SECOND)


def test_writers_that_hold_again_and_again_starve_no_clean(tmp_path: Path) -> None:
    """A clean that was held back for long enough goes first; no promise given before is broken by that."""
    harness = make_harness(tmp_path)
    promised, refused = harness.clock.now(), 0
    began = harness.clock.now()
    futures = []
    while RunState.SUCCEEDED not in harness.states(Service.CLEAN):
        futures.append(harness.status.commands.hold_cleans(TRIPS, hold=10 * SECOND, wait=timedelta(0)))
        harness.turn()
        for future in futures:
            if future.done() and future.exception() is None:
                promised = max(promised, future.result().until)
            refused += future.done() and future.exception() is not None
        futures = [future for future in futures if not future.done()]
        if RunState.COMMITTING in harness.states(Service.CLEAN):
            assert harness.clock.now() >= promised
        assert harness.clock.now() - began < HELD_BACK + timedelta(minutes=1)
        harness.clock.advance(SECOND)
    assert harness.clock.now() - began >= HELD_BACK
    assert refused


@pytest.mark.parametrize("slots", [1, 2, 4])
def test_a_barrier_a_compaction_and_a_clean_never_wait_for_each_other(tmp_path: Path, slots: int) -> None:
    """A compaction that waits for a clean that waits for a writer: all come to their end, in every pool."""
    harness = DaemonHarness(tmp_path, policies=COMPACT_AND_CLEAN, slots=slots)
    prepare(harness.lake)
    for number in range(60):
        if number % 20 < 10:
            harness.status.commands.hold_cleans(TRIPS, hold=3 * SECOND, wait=SECOND)
        harness.turn()

    harness.until(
        lambda: RunState.SUCCEEDED in harness.states() and RunState.SUCCEEDED in harness.states(Service.CLEAN),
        within=harness.limits.max_wait_to_commit,
    )


@pytest.mark.timeout(30)
def test_a_daemon_that_stops_answers_whoever_waits(tmp_path: Path) -> None:
    """Nobody hangs on a daemon that is gone."""
    harness = make_harness(tmp_path, drain=timedelta(0))
    harness.until_executing(Step.COMMIT, Service.CLEAN)
    future = harness.status.commands.hold_cleans(TRIPS, hold=10 * SECOND, wait=60 * SECOND)
    harness.turn()
    harness.daemon.stop()
    harness.daemon.run()

    assert future.done()
