"""The states of services: how endings and people keep a service from running, and how it comes back."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.planners.decide import Backoff, Idle, ServiceState
from lakewarden.planners.model.clock import ManualClock
from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Mode, Table, TableId
from lakewarden.planners.model.view import Backlog
from lakewarden.service.model.rows import ServiceStateRow
from lakewarden.service.model.run import RunState
from lakewarden.service.rules.settle import Consequence, Settlement
from lakewarden.service.state.service_states import LONGEST_REST, STRIKES, Retries, ServiceStates
from lakewarden.service.store.sql.notes import Row
from tests.support.store.memory_store import MemoryStore
from tests.support.values import NOW, a_view, an_instant

TRIPS = Table(id=TableId("trips"), format="fake", location="/lake/trips", mode=Mode.ACT)
ORDERS = Table(id=TableId("orders"), format="fake", location="/lake/orders", mode=Mode.ACT)
VIEW = a_view(an_instant(time="00000010"), backlogs={Service.COMPACTION: Backlog(commits=4)})
FRESH = ServiceState(mode=Mode.ACT, table=TRIPS.id)


class Scene:
    """Service states with a clock and a random generator of their own."""

    def __init__(self, *, seed: int = 0, store: MemoryStore | None = None) -> None:
        self.clock = ManualClock(NOW)
        self.store = store or MemoryStore()
        self.service_states = ServiceStates(store=self.store, clock=self.clock, rng=random.Random(seed))

    def of(self, table: Table = TRIPS, service: Service = Service.COMPACTION) -> ServiceState:
        """Return the state of a service that has no active run."""
        return self.service_states.of(table, service, active=None, ours=frozenset())

    def ended(
        self, consequence: Consequence, *, delay: timedelta = timedelta(seconds=5), why: str = "it broke"
    ) -> None:
        """Let a compaction of trips end."""
        settlement = Settlement(state=RunState.FAILED, outcome=why, consequence=consequence, delay=delay)
        self.service_states.ended(TRIPS.id, Service.COMPACTION, settlement, VIEW)

    def rest(self) -> timedelta:
        """Return how long compaction of trips still rests."""
        backoff = self.of().backoff
        return timedelta(0) if backoff is None else backoff.until - self.clock.now()


# -- rests


@given(seed=st.integers(), delay=st.timedeltas(timedelta(seconds=1), timedelta(hours=2)), tries=st.integers(1, 60))
def test_rests_grow_up_to_a_bound(seed: int, delay: timedelta, tries: int) -> None:
    """Each is twice the one before, jittered by a fifth, and none much longer than half an hour or what was asked."""
    scene = Scene(seed=seed)
    longest = max(LONGEST_REST, delay)

    for earlier in range(tries):
        scene.ended(Consequence.REST, delay=delay)
        nominal = min(delay * 2 ** min(earlier, 12), longest)
        assert nominal * 0.799 <= scene.rest() <= nominal * 1.201


def test_rests_are_jittered() -> None:
    """Two daemons, or two tables, do not come back at the same moment."""
    rests = set()
    for seed in range(20):
        scene = Scene(seed=seed)
        scene.ended(Consequence.REST)
        rests.add(scene.rest())

    assert len(rests) > 10


def test_steps_back_in_a_row_are_counted_until_a_success() -> None:
    """What gives way to a writer again and again stands still, and a person has to hear of it."""
    scene = Scene()
    for _ in range(7):
        scene.ended(Consequence.REST, why="a write is in flight")
    assert scene.service_states.retries(TRIPS.id) == {
        Service.COMPACTION: Retries(times=7, reason="a write is in flight")
    }

    assert scene.of().quarantined is None, "a run may yield to writers as often as it must"
    scene.ended(Consequence.NONE)
    assert scene.service_states.retries(TRIPS.id) == {}


def test_a_success_ends_every_rest() -> None:
    """The next trouble counts as a first one."""
    scene = Scene()
    for _ in range(4):
        scene.ended(Consequence.STRIKE)

    scene.ended(Consequence.NONE)

    assert scene.of() == FRESH
    assert scene.store.rows(ServiceStateRow) == []
    scene.ended(Consequence.STRIKE)
    assert scene.rest() <= timedelta(seconds=6)


# -- quarantine


def test_so_many_strikes_in_a_row_mean_quarantine() -> None:
    """The reason tells how many, and what the last one was; one fewer does not."""
    scene = Scene()
    for _ in range(STRIKES - 1):
        scene.ended(Consequence.STRIKE)
    assert scene.of().quarantined is None

    scene.ended(Consequence.STRIKE, why="no base file")

    assert scene.of().quarantined == f"{STRIKES} failures in a row, the last one: no base file"


def test_what_happens_to_one_service_concerns_no_other() -> None:
    """Neither the table's other services nor other tables."""
    scene = Scene()

    scene.ended(Consequence.QUARANTINE, why="the plan overlaps")

    assert scene.of().quarantined == "the plan overlaps"
    assert scene.of(TRIPS, Service.CLEAN) == FRESH
    assert scene.of(ORDERS) == replace(FRESH, table=ORDERS.id)


# -- idle


def test_a_service_without_work_remembers_what_it_looked_at() -> None:
    """The newest write and the backlog at that time: only more than that is news."""
    scene = Scene()
    scene.ended(Consequence.REST)

    scene.ended(Consequence.IDLE)

    assert scene.of() == ServiceState(
        mode=Mode.ACT, table=TRIPS.id, idle=Idle(after="1 until 00000010", commits=4, at=NOW)
    )


def test_an_idle_service_whose_table_could_not_be_read_remembers_nothing() -> None:
    """It is simply asked again."""
    scene = Scene()
    settlement = Settlement(state=RunState.SUCCEEDED, outcome="nothing to do", consequence=Consequence.IDLE)

    scene.service_states.ended(TRIPS.id, Service.COMPACTION, settlement, None)

    assert scene.of() == FRESH


def test_a_service_that_has_nothing_to_do_yet_has_no_retries() -> None:
    """It waits exactly until it said, and nothing that was held against it is left."""
    scene = Scene()
    scene.ended(Consequence.REST)
    later = Settlement(
        state=RunState.SUCCEEDED, outcome="nothing to do", consequence=Consequence.LATER, delay=timedelta(hours=2)
    )

    scene.service_states.ended(TRIPS.id, Service.COMPACTION, later, None)

    assert scene.of().backoff == Backoff(until=NOW + timedelta(hours=2), reason="nothing to do", failed=False)
    assert not scene.service_states.retries(TRIPS.id)


# -- pauses


def test_a_table_is_paused_by_itself_or_with_everything() -> None:
    """Its own reason is told first; the global one holds every table."""
    scene = Scene()

    scene.service_states.pause(None, "maintenance")
    assert scene.of().paused == "maintenance"
    assert scene.of(ORDERS).paused == "maintenance"

    scene.service_states.pause(TRIPS.id, "migration")
    assert scene.of().paused == "migration"

    scene.service_states.resume(None)
    assert scene.of().paused == "migration"
    assert scene.of(ORDERS).paused is None


def test_a_pause_without_words_is_a_pause() -> None:
    """An empty reason holds like any other."""
    scene = Scene()

    scene.service_states.pause(TRIPS.id, "")

    assert scene.of().paused is not None


# -- what survives the daemon


@pytest.mark.parametrize(
    "consequence", [Consequence.REST, Consequence.STRIKE, Consequence.QUARANTINE, Consequence.IDLE]
)
def test_what_follows_from_endings_outlives_the_daemon(consequence: Consequence) -> None:
    """Rests, strikes, quarantine and idleness are in the store, and another daemon on it goes by them."""
    scene = Scene()
    scene.ended(consequence, why="no base file")

    assert scene.of() != FRESH
    assert Scene(store=scene.store).of() == scene.of()


def test_resuming_a_table_clears_what_another_replica_keeps_of_it() -> None:
    """A person may ask any replica: the one that owns the table hears of it at its next refresh."""
    owner = Scene()
    owner.ended(Consequence.QUARANTINE)
    asked = Scene(store=owner.store)

    asked.service_states.resume(TRIPS.id)
    owner.service_states.refresh()

    assert owner.of() == FRESH


def test_pauses_of_other_replicas_are_read_again() -> None:
    """Set and ended."""
    one = Scene()
    other = Scene(store=one.store)

    other.service_states.pause(None, "maintenance")
    one.service_states.refresh()
    assert one.of().paused == "maintenance"

    other.service_states.resume(None)
    one.service_states.refresh()
    assert one.of().paused is None


class CountingStore(MemoryStore):
    """Counts what is written of service states, and can be away."""

    def __init__(self) -> None:
        super().__init__()
        self.writes = 0
        self.away = False

    def keep_row(self, row: Row) -> None:
        self._count()
        super().keep_row(row)

    def forget_row(self, kind: type[Row], table: TableId, service: Service) -> None:
        self._count()
        super().forget_row(kind, table, service)

    def _count(self) -> None:
        if self.away:
            raise TemporaryError("the store is away")
        self.writes += 1


def test_only_changes_are_written() -> None:
    """A service that goes well again and again costs the store nothing."""
    store = CountingStore()
    scene = Scene(store=store)
    for _ in range(3):
        scene.ended(Consequence.NONE)
        scene.ended(Consequence.AGAIN)
    assert store.writes == 0

    scene.ended(Consequence.QUARANTINE)
    scene.ended(Consequence.QUARANTINE)
    assert store.writes == 1


def test_what_the_store_could_not_keep_holds_at_once_and_is_written_later() -> None:
    """The run has ended by then: its story must not wait for this."""
    store = CountingStore()
    scene = Scene(store=store)
    store.away = True
    scene.ended(Consequence.STRIKE)
    scene.ended(Consequence.QUARANTINE, why="the plan overlaps")
    assert scene.of().quarantined == "the plan overlaps"

    store.away = False
    scene.service_states.refresh()

    assert scene.of().quarantined == "the plan overlaps"
    assert Scene(store=store).of().quarantined == "the plan overlaps"


# -- suspects


def test_a_death_beside_others_makes_a_suspect_without_a_strike() -> None:
    """However often: only who dies alone is struck."""
    scene = Scene()
    for _ in range(2 * STRIKES):
        scene.ended(Consequence.SUSPECT, delay=timedelta(seconds=5))

    assert scene.service_states.last_runs().suspects == {(TRIPS.id, Service.COMPACTION)}
    assert scene.of().quarantined is None
    assert Scene(store=scene.store).service_states.last_runs().suspects == {(TRIPS.id, Service.COMPACTION)}


def test_a_suspect_that_is_struck_or_steps_back_stays_one() -> None:
    """It goes on running alone."""
    scene = Scene()
    scene.ended(Consequence.SUSPECT)
    scene.ended(Consequence.STRIKE)
    scene.ended(Consequence.REST)
    scene.ended(Consequence.AGAIN)

    assert scene.service_states.last_runs().suspects == {(TRIPS.id, Service.COMPACTION)}


@pytest.mark.parametrize("consequence", [Consequence.NONE, Consequence.IDLE])
def test_a_suspect_that_succeeds_is_cleared(consequence: Consequence) -> None:
    """Also one that finds nothing to do."""
    scene = Scene()
    scene.ended(Consequence.SUSPECT)

    scene.ended(consequence)

    assert scene.service_states.last_runs().suspects == set()


def test_what_we_ended_ourselves_changes_nothing() -> None:
    """Neither for the better nor for the worse."""
    scene = Scene()
    scene.ended(Consequence.STRIKE)
    before = scene.of()

    scene.ended(Consequence.AGAIN)

    assert scene.of() == before


def test_resuming_everything_leaves_quarantine_as_it_is() -> None:
    """A quarantined table needs a look of its own."""
    scene = Scene()
    scene.ended(Consequence.QUARANTINE)

    scene.service_states.resume(None)

    assert scene.of().quarantined is not None
