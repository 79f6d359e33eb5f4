"""Requests for a rewrite of all files, as they are kept."""

from __future__ import annotations

from dataclasses import replace

from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Policy, Table, TableId
from lakewarden.planners.model.view import TableIdentity
from lakewarden.planners.triggers import NumCommits
from lakewarden.service.state.approvals import Rewrites, in_words
from tests.support.daemon.daemon_harness import HarnessClock
from tests.support.doubles.fake import FAKE
from tests.support.store.memory_store import MemoryStore
from tests.support.values import a_view

TRIPS = Table(
    id=TableId("trips"),
    format=FAKE.name,
    location="/lake/trips",
    policies={Service.COMPACTION: Policy(trigger=NumCommits(at_least=5))},
)
VIEW = a_view()


def test_a_request_is_kept_with_its_first_mark_until_it_ends() -> None:
    """A later request does not move the mark: the files that were rewritten since would be rewritten again."""
    store = MemoryStore()
    rewrites = Rewrites(store=store, clock=HarnessClock())
    first = rewrites.asked(TRIPS, Service.COMPACTION, VIEW, "1", by="ada")
    rewrites.begin(first)

    assert rewrites.asked(TRIPS, Service.COMPACTION, VIEW, "2", by="bob") == first
    assert Rewrites(store=store, clock=HarnessClock()).under_way(TRIPS, VIEW) == {Service.COMPACTION: first}
    assert in_words(first).startswith("a rewrite of all files was asked for by ada at ")

    assert rewrites.end(TRIPS.id, Service.COMPACTION)
    assert not rewrites.end(TRIPS.id, Service.COMPACTION)
    assert store.rewrites() == []


def test_a_request_for_a_table_that_was_made_again_does_not_count() -> None:
    """The files of the new table were not meant. A new request replaces the old one."""
    rewrites = Rewrites(store=MemoryStore(), clock=HarnessClock())
    rewrites.begin(rewrites.asked(TRIPS, Service.COMPACTION, VIEW, "1", by="ada"))
    another = replace(VIEW, identity=TableIdentity(location=VIEW.identity.location, created="again"))

    assert rewrites.of(TRIPS, Service.COMPACTION, another) is None
    assert rewrites.asked(TRIPS, Service.COMPACTION, another, "7", by="bob").mark == "7"
