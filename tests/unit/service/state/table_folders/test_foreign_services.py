"""Services that other programs have completed are told from ours."""

from __future__ import annotations

from datetime import timedelta

from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.model.instant import RunId, Service, State
from lakewarden.planners.model.table import Policy, Table, TableId
from lakewarden.planners.model.view import KeptMore
from lakewarden.planners.triggers import NumCommits
from lakewarden.service.model.rows import WriterSignsRow
from lakewarden.service.rules.proof import ALONE_FOR
from lakewarden.service.state.table_folders import ForeignServices, KeptByOthers, WriterSigns
from tests.support.daemon.daemon_harness import HarnessClock
from tests.support.store.memory_store import MemoryStore
from tests.support.store.replicas import ME, take_ownership
from tests.support.values import a_run, a_view, an_instant

TRIPS = Table(
    id=TableId("trips"),
    format="fake",
    location="/lake/trips",
    policies={service: Policy(trigger=NumCommits(at_least=1)) for service in (Service.CLEAN, Service.COMPACTION)},
)


def test_a_service_without_our_name_is_of_another_program() -> None:
    """A service that is ours by its author, that is pending, that has no policy, or that is old, is none."""
    clock = HarnessClock()
    now = clock.now()
    known = ForeignServices(store=MemoryStore(), clock=clock)
    other = an_instant(time="1", stands_for=Service.CLEAN, completed_at=now)
    view = a_view(
        other,
        an_instant(time="2", stands_for=Service.CLEAN, completed_at=now, author=RunId("r1")),
        an_instant(time="3", stands_for=Service.COMPACTION, state=State.INFLIGHT, requested_at=now),
        an_instant(time="4", stands_for=Service.CLUSTERING, completed_at=now),
        an_instant(time="5", stands_for=Service.CLEAN, completed_at=now - ALONE_FOR - timedelta(seconds=1)),
        an_instant(time="6", completed_at=now),
    )
    known.seen(TRIPS, view)
    assert known.of(TRIPS.id) == (other,)

    known.seen(TRIPS, a_view())
    assert known.of(TRIPS.id) == ()


def test_a_plan_that_names_no_author_is_ours_if_the_store_has_it() -> None:
    """Hudi's clean names nobody. A run of an earlier life of the daemon is ours, too."""
    clock = HarnessClock()
    known = ForeignServices(store=a_store_with_a_clean("1"), clock=clock)
    known.seen(TRIPS, a_view(an_instant(time="1", stands_for=Service.CLEAN, completed_at=clock.now())))
    assert known.of(TRIPS.id) == ()


def test_the_first_hook_and_the_first_heartbeat_survive_a_restart() -> None:
    """A writer may commit once a day, and a restart must not ask for both again."""
    clock, store = HarnessClock(), MemoryStore()
    signs = WriterSigns(store=store, clock=clock)
    signs.heard(TRIPS.id)
    begun = an_instant(state=State.INFLIGHT, last_beat=clock.now())
    signs.seen(TRIPS, a_view(begun))
    first = signs.of(TRIPS.id)
    assert first == WriterSignsRow(table=TRIPS.id, hook_at=clock.now(), beat_at=clock.now())

    again = WriterSigns(store=store, clock=HarnessClock())
    again.heard(TRIPS.id)
    again.seen(TRIPS, a_view(begun))
    assert again.of(TRIPS.id) == first


def test_a_write_without_a_heartbeat_is_no_sign() -> None:
    """Also if the options of the table have given it a time by which a first beat is due."""
    clock = HarnessClock()
    signs = WriterSigns(store=MemoryStore(), clock=clock)
    signs.seen(TRIPS, a_view(an_instant(state=State.INFLIGHT, guarded_until=clock.now())))
    assert signs.of(TRIPS.id) == WriterSignsRow(table=TRIPS.id)


# What the writers kept counts until Lakewarden has cleaned.


UNSERVED = Table(id=TableId("trips"), format="fake", location="/lake/trips")
BY_A_CLEAN = KeptMore(says="the newest clean 7 kept 24", instant="7")
BY_A_PROPERTY = KeptMore(says="a property of the table says 24")


def a_store_with_a_clean(time: str) -> MemoryStore:
    """Return a store that knows a run of clean with this instant."""
    store = MemoryStore()
    run = store.request(a_run(service=Service.CLEAN))
    take_ownership(store)
    store.share(ME, locations=[UNSERVED.location], busy=())
    run = store.take_lease(run.id, owner=ME, at=HarnessClock().now())
    store.progress(run.id, epoch=run.epoch or 0, instant=time)
    return store


def kept(store: MemoryStore, more: KeptMore) -> list[Service]:
    """Return the services that would keep less than the writers kept."""
    known = KeptByOthers(store=store)
    known.seen(UNSERVED, a_view(an_instant(), kept_more={Service.CLEAN: more}))
    return list(known.of(UNSERVED.id))


def test_what_a_clean_of_a_writer_kept_counts() -> None:
    """So does a property of the table, as long as Lakewarden has never cleaned the table."""
    assert kept(MemoryStore(), BY_A_CLEAN) == [Service.CLEAN]
    assert kept(a_store_with_a_clean("6"), BY_A_CLEAN) == [Service.CLEAN]
    assert kept(MemoryStore(), BY_A_PROPERTY) == [Service.CLEAN]


def test_what_a_clean_of_ours_kept_does_not_count() -> None:
    """An operator who lowers the retention of a policy is asked for an approval, and the other services go on."""
    assert kept(a_store_with_a_clean("7"), BY_A_CLEAN) == []
    assert kept(a_store_with_a_clean("7"), BY_A_PROPERTY) == []


def test_a_policy_that_keeps_as_much_again_is_no_doubt() -> None:
    """The next observation ends it."""
    known = KeptByOthers(store=MemoryStore())
    known.seen(UNSERVED, a_view(an_instant(), kept_more={Service.CLEAN: BY_A_CLEAN}))
    known.seen(UNSERVED, a_view(an_instant()))
    assert not known.of(UNSERVED.id)


class TroubledStore(MemoryStore):
    """A store that does not answer about instants at first, and counts how often it was asked."""

    asked = 0

    def instants(self, *, identity: str, service: Service) -> frozenset[str]:
        """Return nothing, after a first failure."""
        self.asked += 1
        if self.asked == 1:
            raise TemporaryError("the store is away")
        return frozenset()


def test_a_store_that_is_away_is_asked_again_and_then_no_more() -> None:
    """Until it answers, nothing is held against the table. No run begins without the store, either."""
    store = TroubledStore()
    known = KeptByOthers(store=store)
    view = a_view(an_instant(), kept_more={Service.CLEAN: BY_A_CLEAN})
    known.seen(UNSERVED, view)
    assert not known.of(UNSERVED.id)
    known.seen(UNSERVED, view)
    known.seen(UNSERVED, view)
    assert list(known.of(UNSERVED.id)) == [Service.CLEAN]
    assert store.asked == 2
