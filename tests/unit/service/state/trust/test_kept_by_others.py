"""What the writers kept counts until Lakewarden has cleaned."""

from __future__ import annotations

from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Table, TableId
from lakewarden.planners.model.view import KeptMore
from lakewarden.service.state.trust import KeptByOthers
from tests.support.daemon.daemon_harness import HarnessClock
from tests.support.store.memory_store import MemoryStore
from tests.support.store.replicas import ME, take_ownership
from tests.support.values import a_run, a_view, an_instant

TRIPS = Table(id=TableId("trips"), format="fake", location="/lake/trips")
BY_A_CLEAN = KeptMore(says="the newest clean 7 kept 24", instant="7")
BY_A_PROPERTY = KeptMore(says="a property of the table says 24")


def a_store_with_a_clean(time: str) -> MemoryStore:
    """Return a store that knows a run of clean with this instant."""
    store = MemoryStore()
    run = store.request(a_run(service=Service.CLEAN))
    take_ownership(store)
    store.share(ME, locations=[TRIPS.location], busy=())
    run = store.take_lease(run.id, owner=ME, at=HarnessClock().now())
    store.progress(run.id, epoch=run.epoch or 0, instant=time)
    return store


def kept(store: MemoryStore, more: KeptMore) -> list[Service]:
    """Return the services that would keep less than the writers kept."""
    known = KeptByOthers(store=store)
    known.seen(TRIPS, a_view(an_instant(), kept_more={Service.CLEAN: more}))
    return list(known.of(TRIPS.id))


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
    known.seen(TRIPS, a_view(an_instant(), kept_more={Service.CLEAN: BY_A_CLEAN}))
    known.seen(TRIPS, a_view(an_instant()))
    assert not known.of(TRIPS.id)


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
    known.seen(TRIPS, view)
    assert not known.of(TRIPS.id)
    known.seen(TRIPS, view)
    known.seen(TRIPS, view)
    assert list(known.of(TRIPS.id)) == [Service.CLEAN]
    assert store.asked == 2
