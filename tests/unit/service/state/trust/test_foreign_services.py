"""Services that other programs have completed are told from ours."""

from __future__ import annotations

from datetime import timedelta

from lakewarden.planners.model.instant import RunId, Service, State
from lakewarden.planners.model.table import Policy, Table, TableId
from lakewarden.planners.triggers import NumCommits
from lakewarden.service.model.rows import WriterSignsRow
from lakewarden.service.rules.proof import ALONE_FOR
from lakewarden.service.state.trust import ForeignServices, WriterSigns
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
    clock, store = HarnessClock(), MemoryStore()
    run = store.request(a_run(service=Service.CLEAN))
    take_ownership(store)
    store.share(ME, locations=[TRIPS.location], busy=())
    run = store.take_lease(run.id, owner=ME, at=clock.now())
    store.progress(run.id, epoch=run.epoch or 0, instant="1")
    known = ForeignServices(store=store, clock=clock)
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
