"""Two daemons that share no store and are pointed at one table by mistake: only one of them acts."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lakewarden.planners.model.decision import Blocked
from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.step import Step
from lakewarden.planners.model.table import Mode, TableId
from lakewarden.planners.ports import ConditionalWrites, NoConditionsError, Versioned
from lakewarden.planners.storage import Storages
from lakewarden.planners.storage.conditions import LocalConditions
from lakewarden.service.model.run import RunState
from lakewarden.service.ownership.claim_file import Claim
from lakewarden.service.state.readers.threads import CallersThread
from tests.support.daemon.daemon_harness import TRIPS, DaemonHarness
from tests.unit.service.ownership.conftest import Daemons

MINUTE = timedelta(minutes=1)


def _is_blocked(harness: DaemonHarness) -> bool:
    status = harness.status.table(TRIPS)
    decision = None if status is None else status.decisions.get(Service.COMPACTION)
    return isinstance(decision, Blocked) and decision.reason.startswith("claimed by another daemon")


def _held(daemons: Daemons) -> DaemonHarness:
    """Let the first daemon execute a compaction, and return a second one that has met its claim."""
    daemons.first.write(3)
    daemons.first.held_pool.hold(Service.COMPACTION, Step.EXECUTE)
    daemons.until(lambda: bool(daemons.first.held_pool.under_way))
    second = daemons.another()
    second.write(3)
    daemons.until(lambda: _is_blocked(second))
    return second


def test_of_two_daemons_on_one_table_one_acts(daemons: Daemons) -> None:
    """The other says whose claim holds it back, and what to do; not one of its steps is granted."""
    second = _held(daemons)
    daemons.for_a_while(10 * MINUTE)
    assert second.states() == [RunState.CANCELLED]
    assert not [line for line in second.recorded.lines if "Granted" in line]
    decision = second.decision(Service.COMPACTION)
    assert isinstance(decision, Blocked)
    assert "since 2026-01-01 00:00:00 UTC" in decision.reason
    assert str(daemons.claim) in (decision.remedy or "")
    status = second.status.table(TRIPS)
    assert status is not None
    assert status.claimed == decision


def test_a_daemon_that_ends_in_good_order_leaves_its_tables_to_others_at_once(daemons: Daemons) -> None:
    """It deletes its claim, and the block of the other ends by itself."""
    second = _held(daemons)
    daemons.first.held_pool.release()
    daemons.until(lambda: daemons.first.states() == [RunState.SUCCEEDED])
    daemons.kill(daemons.first)
    daemons.first.stop()
    second.write(3)
    assert not daemons.claim.exists()
    assert daemons.until(lambda: second.states()[-1] is RunState.SUCCEEDED) < MINUTE


def test_a_dead_daemons_claim_is_taken_over_after_its_silence_and_not_before(daemons: Daemons) -> None:
    """Two minutes where a run was under way: the heirs themselves must have seen it unchanged for so long."""
    second = _held(daemons)
    daemons.kill(daemons.first)
    daemons.for_a_while(timedelta(seconds=100))
    assert _is_blocked(second)
    took = daemons.until(lambda: not _is_blocked(second), within=2 * MINUTE)
    assert took > timedelta(seconds=5)
    found = Claim.of(daemons.claim.read_bytes())
    assert found is not None
    assert found.holder == second.store.identity()


def test_an_idle_claim_stands_for_twenty_minutes(daemons: Daemons) -> None:
    """It is renewed every five, and a table without a run need not be taken over soon."""
    daemons.first.write(3)
    daemons.until(lambda: daemons.first.states() == [RunState.SUCCEEDED])
    daemons.for_a_while(timedelta(seconds=10))
    counter = json.loads(daemons.claim.read_text())["counter"]
    daemons.for_a_while(6 * MINUTE)
    found = json.loads(daemons.claim.read_text())
    assert (found["counter"], found["silent_after_seconds"]) == (counter + 1, 1200)

    daemons.kill(daemons.first)
    second = daemons.another()
    second.write(3)
    daemons.for_a_while(19 * MINUTE)
    assert _is_blocked(second)
    daemons.until(lambda: second.states()[-1] is RunState.SUCCEEDED, within=3 * MINUTE)


def test_a_clock_that_jumps_takes_over_nothing(daemons: Daemons) -> None:
    """Silence is measured on a clock of one's own that never jumps, and from what was seen oneself."""
    second = _held(daemons)
    daemons.clock.jump(timedelta(hours=1))
    daemons.for_a_while(MINUTE)
    assert second.status.table(TRIPS).claimed is not None  # type: ignore[union-attr]


def test_a_restarted_daemon_is_still_itself(daemons: Daemons) -> None:
    """Its own claim, of an earlier life, holds it up for no moment."""
    daemons.first.write(3)
    daemons.until(lambda: daemons.first.states() == [RunState.SUCCEEDED])
    before = Claim.of(daemons.claim.read_bytes())
    daemons.first.compose()
    daemons.first.write(3)
    daemons.until(lambda: daemons.first.states() == [RunState.SUCCEEDED] * 2, within=timedelta(seconds=30))
    after = Claim.of(daemons.claim.read_bytes())
    assert before is not None
    assert after is not None
    assert before.holder == after.holder
    assert before.life != after.life


def test_a_claim_that_was_taken_over_ends_what_its_owner_had_under_way(daemons: Daemons) -> None:
    """A frozen daemon that goes on finds another's claim: its commit is refused."""
    second = _held(daemons)
    thaw = daemons.freeze(daemons.first)
    daemons.until(lambda: not _is_blocked(second), within=5 * MINUTE)
    daemons.until(lambda: second.states()[-1] is RunState.SUCCEEDED)
    thaw()
    daemons.until(lambda: daemons.first.status.table(TRIPS).claimed is not None)  # type: ignore[union-attr]
    daemons.first.held_pool.release()
    daemons.for_a_while(MINUTE)
    assert daemons.first.states()[0] is not RunState.SUCCEEDED
    assert second.states().count(RunState.SUCCEEDED) == len(second.completed(Service.COMPACTION))


def test_what_nobody_can_read_blocks_until_it_was_silent_for_the_longest(daemons: Daemons) -> None:
    """A claim of another form may be a newer release's: it is not guessed at."""
    daemons.claim.parent.mkdir()
    daemons.claim.write_text("{")
    daemons.first.write(3)
    daemons.for_a_while(18 * MINUTE)
    blocked = daemons.first.decision(Service.COMPACTION)
    assert isinstance(blocked, Blocked)
    assert "another form" in blocked.reason
    daemons.until(lambda: daemons.first.states()[-1] is RunState.SUCCEEDED, within=5 * MINUTE)


@pytest.mark.parametrize("mode", [Mode.OBSERVE, Mode.PLAN])
def test_who_only_looks_claims_nothing(tmp_path: Path, mode: Mode) -> None:
    """Any number of daemons may look at a table."""
    harness = DaemonHarness(tmp_path, mode=mode)
    harness.write(3)
    harness.for_a_while()
    assert not (harness.lake.folder / "claims").exists()


class Unwell(LocalConditions):
    """A storage that can be told to fail, or to hang on to what is there."""

    def __init__(self) -> None:
        self.error: Exception | None = None

    def versioned(self, location: str) -> Versioned | None:
        if self.error is not None:
            raise self.error
        return super().versioned(location)


class UnwellStorages(Storages):
    """Local storages whose conditional writes are `writes`."""

    def __init__(self, writes: ConditionalWrites | None) -> None:
        super().__init__()
        self._writes = writes

    def conditions(self, location: str) -> ConditionalWrites | None:
        return self._writes


def test_runs_are_cancelled_when_their_claim_cannot_be_renewed(tmp_path: Path) -> None:
    """Half a minute after the last renewal: long before anybody else may take it over."""
    writes = Unwell()
    harness = DaemonHarness(tmp_path, storages=UnwellStorages(writes))
    harness.write(3)
    harness.until_executing(Step.EXECUTE)
    writes.error = TemporaryError("the store is away")
    cancelled: list[float] = []
    killed: list[float] = []
    begun = harness.clock.monotonic()
    harness.held_pool.cancel = lambda run, reason: cancelled.append(harness.clock.monotonic() - begun)  # type: ignore[method-assign]
    harness.held_pool.evict = lambda reason: killed.append(harness.clock.monotonic() - begun)  # type: ignore[method-assign]
    harness.for_a_while(timedelta(minutes=3))
    assert len(cancelled) == 1
    assert 15 <= cancelled[0] <= 35
    assert len(killed) == 1
    assert 65 <= killed[0] <= 85


class HangingThreads(CallersThread):
    """Threads of which those for some places never come back."""

    def __init__(self, hangs: Callable[[str], bool]) -> None:
        self.hangs = hangs
        self.hanging: list[str] = []

    def submit(self, act: Callable[[], Any], *, place: str) -> Future[Any]:
        if self.hangs(place):
            self.hanging.append(place)
            return Future()
        return super().submit(act, place=place)


def test_workers_that_do_not_die_hold_up_no_claim(tmp_path: Path) -> None:
    """A JVM waits in the kernel for a dead mount, in spite of SIGKILL. The claims of other tables are renewed."""
    writes = Unwell()
    threads = HangingThreads(lambda place: place.startswith("the workers of"))
    harness = DaemonHarness(tmp_path, names=("trips", "other"), storages=UnwellStorages(writes), threads=threads)
    harness.write(3)
    harness.until_executing(Step.EXECUTE)
    writes.error = TemporaryError("the store is away")
    harness.held_pool.cancel = lambda run, reason: None  # type: ignore[method-assign]
    harness.for_a_while(timedelta(minutes=2))
    assert threads.hanging == ["the workers of trips"]
    writes.error = None
    harness.held_pool.hold(Service.COMPACTION, Step.COMMIT)
    harness.write(3, TableId("other"))
    harness.until(lambda: bool(harness.runs(table=TableId("other"))))
    harness.for_a_while(timedelta(minutes=2))
    claim = json.loads((harness.lakes[TableId("other")].folder / "claims" / "claim.json").read_text())
    assert claim["counter"] > 5


def test_a_claim_that_hangs_is_waited_for_no_longer_than_writers_are(tmp_path: Path) -> None:
    """The mount takes reads and no writes. The run kept its slot for ever."""
    threads = HangingThreads(lambda _place: False)
    harness = DaemonHarness(tmp_path, threads=threads)
    harness.limits = replace(harness.limits, max_wait_to_commit=timedelta(seconds=40))
    harness.compose()
    harness.for_a_while()
    threads.hangs = lambda place: not place.startswith("the workers of")
    harness.write(3)
    harness.until(lambda: RunState.CANCELLED in harness.states(), within=timedelta(hours=1))
    assert "its storage does not answer" in str(harness.runs()[0].outcome)
    threads.hangs = lambda _place: False


def test_no_step_is_granted_while_the_claim_cannot_be_read(tmp_path: Path) -> None:
    """It is waited for, since the store may be back soon; and then the run steps back."""
    writes = Unwell()
    harness = DaemonHarness(tmp_path, storages=UnwellStorages(writes))
    writes.error = TemporaryError("the store is away")
    harness.write(3)
    harness.for_a_while()
    assert not [line for line in harness.recorded.lines if "Granted" in line]
    writes.error = None
    harness.until(lambda: harness.states() == [RunState.SUCCEEDED])


@pytest.mark.parametrize("writes", [None, Unwell()])
def test_a_store_without_conditional_writes_is_a_warning(tmp_path: Path, writes: Unwell | None) -> None:
    """The table is served, as far as one daemon goes, and people are told what does not hold."""
    if writes is not None:
        writes.error = NoConditionsError("the store takes no notice")
    harness = DaemonHarness(tmp_path, storages=UnwellStorages(writes))
    harness.write(3)
    harness.until(lambda: harness.states() == [RunState.SUCCEEDED])
    status = harness.status.table(TRIPS)
    assert status is not None
    assert [warning for warning in status.warnings if "no claim keeps a second daemon" in warning]


def test_a_claim_that_was_deleted_under_a_run_is_not_made_again_in_passing(daemons: Daemons) -> None:
    """The table may have been dropped: only a run that has just read it claims it, and this one ends."""
    _held(daemons)
    daemons.claim.unlink()
    daemons.for_a_while(timedelta(seconds=12))
    assert not daemons.claim.exists() or _holder(daemons) != daemons.first.store.identity()


def test_renewing_a_claim_does_not_change_the_tables_token(daemons: Daemons) -> None:
    """Else every renewal would cost everybody a look."""
    daemons.first.write(3)
    daemons.until(lambda: daemons.first.states() == [RunState.SUCCEEDED])
    daemons.for_a_while(timedelta(seconds=10))
    folder = daemons.first.lake.folder
    before = [path.stat().st_mtime_ns for path in (folder, folder / "timeline")]
    counter = json.loads(daemons.claim.read_text())["counter"]
    daemons.for_a_while(12 * MINUTE)
    assert json.loads(daemons.claim.read_text())["counter"] > counter
    assert [path.stat().st_mtime_ns for path in (folder, folder / "timeline")] == before


def _holder(daemons: Daemons) -> str:
    found = Claim.of(daemons.claim.read_bytes())
    assert found is not None
    return found.holder


class EarlierClock(LocalConditions):
    """A storage with a clock that is behind that of the daemon."""

    def __init__(self) -> None:
        self.now: Callable[[], datetime] = lambda: datetime.max.replace(tzinfo=UTC)
        self.behind = timedelta()

    def create(self, location: str, content: bytes) -> Versioned | None:
        return self._written(super().create(location, content))

    def replace(self, location: str, content: bytes, *, version: str) -> Versioned | None:
        return self._written(super().replace(location, content, version=version))

    def _written(self, made: Versioned | None) -> Versioned | None:
        return None if made is None else replace(made, modified=self.now() - self.behind)


def test_a_daemon_with_a_clock_that_is_ahead_commits_nothing(tmp_path: Path) -> None:
    """A commit with such a time would make the next commits of the writers fail. After the clock was set, it acts."""
    writes = EarlierClock()
    harness = DaemonHarness(tmp_path, storages=UnwellStorages(writes))
    writes.now, writes.behind = harness.clock.now, timedelta(seconds=45)
    harness.write(3)
    harness.for_a_while()
    assert not [line for line in harness.recorded.lines if "Granted" in line]
    decision = harness.decision(Service.COMPACTION)
    assert isinstance(decision, Blocked)
    assert decision.reason.startswith("this daemon's clock is 45s ahead of the clock of the table's storage")
    writes.behind = timedelta(seconds=20)
    harness.until(lambda: harness.states()[-1] is RunState.SUCCEEDED, within=10 * MINUTE)


def test_a_run_commits_nothing_after_the_clock_has_jumped_ahead(tmp_path: Path) -> None:
    """The claim of a table with a run is renewed every ten seconds."""
    writes = EarlierClock()
    harness = DaemonHarness(tmp_path, storages=UnwellStorages(writes))
    writes.now = harness.clock.now
    harness.write(3)
    harness.held_pool.hold(Service.COMPACTION, Step.EXECUTE)
    harness.until(lambda: bool(harness.held_pool.under_way))
    writes.behind = timedelta(seconds=45)
    harness.for_a_while(timedelta(seconds=15))
    harness.held_pool.release()
    harness.for_a_while(timedelta(seconds=15))
    assert harness.states() == [RunState.CANCELLED]
