"""Approvals: exactly what was shown, at most as large, and once."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from lakewarden.executors.contract import Plan
from lakewarden.planners.model.clock import ManualClock
from lakewarden.planners.model.instant import Service, State, Step, Timeline
from lakewarden.planners.model.table import DeletionBudget, Policy, Table, TableId
from lakewarden.planners.model.view import KeptMore, TableIdentity, TableView
from lakewarden.planners.triggers import NumCommits
from lakewarden.service.model.rows import RewriteRow
from lakewarden.service.model.run import RunState
from lakewarden.service.state.approvals import Approvals, Rewrites, in_words
from tests.support.daemon.daemon_harness import HarnessClock
from tests.support.doubles.fake import FAKE
from tests.support.store.memory_store import MemoryStore
from tests.support.values import IDENTITY, NOW, a_run, a_view, an_instant

TABLE = Table(id=TableId("trips"), format="fake", location="/lake/trips", budget=DeletionBudget(files=1, partitions=1))
RUN = a_run(service=Service.TTL)
VIEW = a_view()
SHOWN = Plan(instant=None, files_to_delete=5, partitions_to_delete=2)


def approved(clock: ManualClock | None = None) -> Approvals:
    """Return approvals in which what was shown is approved."""
    approvals = Approvals(store=MemoryStore(), clock=clock or ManualClock())
    approvals.ask(TABLE, RUN, SHOWN, VIEW)
    assert approvals.missing(TABLE, RUN, SHOWN, VIEW) is not None
    assert approvals.give(TABLE.id, Service.TTL, by="ada") is not None
    return approvals


@pytest.mark.parametrize(
    ("files", "partitions", "allowed"), [(5, 2, True), (4, 2, True), (6, 2, False), (5, 3, False), (0, 0, True)]
)
def test_an_approval_covers_at_most_what_was_shown(files: int, partitions: int, allowed: bool) -> None:
    """A plan that has grown since is shown anew."""
    plan = Plan(instant=None, files_to_delete=files, partitions_to_delete=partitions)

    assert (approved().missing(TABLE, RUN, plan, VIEW) is None) is allowed


@pytest.mark.parametrize("files", [5, 1])
def test_an_approval_of_a_plan_without_an_instant_is_used_up_by_the_first_deletion(files: int) -> None:
    """Also by a smaller one, which needed none: what is left weeks later is another deletion."""
    approvals = approved()

    approvals.spend(TABLE, RUN, Plan(instant=None, files_to_delete=files))

    assert approvals.missing(TABLE, RUN, SHOWN, VIEW) is not None


def test_an_approval_of_a_plan_without_an_instant_ends_after_a_day() -> None:
    """The table has changed since. Its operator looks again."""
    clock = ManualClock()
    approvals = approved(clock)
    clock.advance(timedelta(hours=23))
    assert approvals.missing(TABLE, RUN, SHOWN, VIEW) is None
    clock.advance(timedelta(hours=1))
    assert approvals.missing(TABLE, RUN, SHOWN, VIEW) is not None


WITHDRAWN = Plan(
    instant="00000030",
    files_to_delete=5,
    bytes_to_delete=2048,
    versions_to_delete=3,
    ends_with_run=True,
    retained="00000020",
)


def planned_anew(instant: str = "00000040", retained: str | None = "00000020", files: int = 5) -> Plan:
    """Return a later plan after the first one was withdrawn."""
    return replace(WITHDRAWN, instant=instant, retained=retained, files_to_delete=files)


@pytest.mark.parametrize(
    ("plan", "allowed"),
    [
        (planned_anew(), True),
        (planned_anew(retained="00000010"), True),
        (planned_anew(retained="00000021"), False),
        (planned_anew(retained=None), False),
        (planned_anew(files=6), False),
    ],
)
def test_an_approval_of_a_withdrawn_plan_covers_no_commit_that_was_to_be_kept(plan: Plan, allowed: bool) -> None:
    """The plan is made anew, from the commit that was shown."""
    approvals = Approvals(store=MemoryStore(), clock=ManualClock())
    approvals.ask(TABLE, RUN, WITHDRAWN, VIEW)
    assert approvals.waiting(TABLE, RUN.service, VIEW) is not None
    assert approvals.shown(TABLE.id, RUN.service) == (
        "5 files (2.0 KiB) for good; 3 versions of the table go; everything from commit 00000020 on stays"
    )
    assert approvals.retained(RUN) is None
    approvals.give(TABLE.id, RUN.service, by="ada")

    assert approvals.retained(RUN) == "00000020"
    assert approvals.is_due(TABLE, RUN.service, VIEW)
    assert (approvals.missing(TABLE, RUN, plan, VIEW) is None) is allowed


def test_an_approval_of_a_withdrawn_plan_ends_with_the_plan_that_was_begun() -> None:
    """If it was interrupted, it goes on without another question, at any time. The next plan is shown again."""
    clock = ManualClock()
    approvals = Approvals(store=MemoryStore(), clock=clock)
    approvals.ask(TABLE, RUN, WITHDRAWN, VIEW)
    approvals.give(TABLE.id, RUN.service, by="ada")

    approvals.spend(TABLE, RUN, planned_anew())
    clock.advance(timedelta(days=2))

    begun = Plan(instant="00000040", files_to_delete=5)
    assert approvals.missing(TABLE, RUN, begun, VIEW) is None
    assert not approvals.is_due(TABLE, RUN.service, VIEW)
    assert approvals.missing(TABLE, RUN, planned_anew("00000050"), VIEW) is not None
    assert approvals.retained(RUN) is None


def test_an_approval_ends_with_a_run_that_found_nothing_to_delete() -> None:
    """Else its service would run again at every poll of the day."""
    approvals = approved()
    assert approvals.is_due(TABLE, RUN.service, VIEW)
    approvals.end(RUN)
    assert not approvals.is_due(TABLE, RUN.service, VIEW)
    approvals.ask(TABLE, RUN, SHOWN, VIEW)
    approvals.end(RUN)
    assert approvals.waiting(TABLE, RUN.service, VIEW) is not None


def test_a_question_ends_when_another_client_has_cleaned_since() -> None:
    """Its figures are those of another table by now."""
    clock = ManualClock()
    approvals = Approvals(store=MemoryStore(), clock=clock)
    approvals.ask(TABLE, RUN, WITHDRAWN, VIEW)
    by_a_writer = an_instant(time="00000035", stands_for=RUN.service, requested_at=clock.now() + timedelta(minutes=1))

    assert approvals.waiting(TABLE, RUN.service, a_view(by_a_writer)) is None


@pytest.mark.parametrize("state", [State.REQUESTED, State.INFLIGHT])
@pytest.mark.parametrize("author", ["r0", None])
def test_a_question_rests_while_a_plan_is_pending_that_was_to_end_with_its_run(
    author: str | None, state: State
) -> None:
    """The run was killed before it withdrew the plan. The next one takes the plan up, is refused and withdraws it."""
    approvals = Approvals(store=MemoryStore(), clock=ManualClock())
    approvals.ask(TABLE, RUN, WITHDRAWN, VIEW)
    left = an_instant(time="00000030", stands_for=RUN.service, state=state, author=author)

    rests = approvals.waiting(TABLE, RUN.service, a_view(left)) is None

    assert rests is (author is not None and state is State.REQUESTED)


CLEANED = replace(TABLE, budget=DeletionBudget(asks_shorter=True))
CLEAN = a_run(service=Service.CLEAN)
FEW = Plan(instant="00000030", files_to_delete=3)
PENDING = an_instant(time="00000030", action="clean", stands_for=Service.CLEAN, state=State.REQUESTED)


def kept(instant: str | None) -> TableView:
    """Return a table with writers that kept more, by their newest clean or by a property."""
    return a_view(kept_more={Service.CLEAN: KeptMore(says="the policy keeps less", instant=instant)})


@pytest.mark.parametrize("instant", ["00000020", None])
def test_a_clean_that_keeps_less_than_the_writers_kept_waits_for_an_approval(instant: str | None) -> None:
    """The sentence says what they kept. The setting that allows it ends the wait."""
    approvals = Approvals(store=MemoryStore(), clock=ManualClock())
    view = replace(kept(instant), timeline=Timeline(instants=(PENDING,)))
    assert approvals.missing(TABLE, CLEAN, Plan(instant=None, files_to_delete=1), view) is None
    assert approvals.missing(CLEANED, CLEAN, FEW, view) == "would delete 3 files, and the policy keeps less"
    approvals.ask(CLEANED, CLEAN, FEW, view)
    waiting = approvals.waiting(CLEANED, Service.CLEAN, view)
    assert waiting is not None
    assert waiting.reason == "would delete 3 files, and the policy keeps less"
    assert approvals.waiting(replace(CLEANED, budget=DeletionBudget()), Service.CLEAN, view) is None
    approvals.give(TABLE.id, Service.CLEAN, by="ada")
    assert approvals.missing(CLEANED, CLEAN, FEW, view) is None


def test_what_a_clean_of_ours_kept_is_no_reason_to_ask() -> None:
    """The policy became shorter since. An operator has changed it."""
    store = MemoryStore()
    store.request(a_run("r0", service=Service.CLEAN, instant="00000020", state=RunState.SUCCEEDED))
    approvals = Approvals(store=store, clock=ManualClock())
    assert approvals.missing(CLEANED, CLEAN, FEW, kept("00000020")) is None
    assert approvals.missing(CLEANED, CLEAN, FEW, kept("00000019")) is not None


def test_a_property_is_asked_about_until_a_clean_was_permitted() -> None:
    """The property stays, and the answer does, too."""
    store = MemoryStore()
    store.request(
        a_run(
            "r0",
            service=Service.CLEAN,
            state=RunState.SUCCEEDED,
            step=Step.COMMIT,
            ended_at=NOW,
            figures={"files_deleted": 3},
        )
    )
    assert CLEAN.identity == str(IDENTITY)
    assert Approvals(store=store, clock=ManualClock()).missing(CLEANED, CLEAN, FEW, kept(None)) is None


# Requests for a rewrite of all files, as they are kept.

TRIPS = Table(
    id=TableId("trips"),
    format=FAKE.name,
    location="/lake/trips",
    policies={Service.COMPACTION: Policy(trigger=NumCommits(at_least=5))},
)


def test_a_request_is_kept_with_its_first_mark_until_it_ends() -> None:
    """A later request does not move the mark: the files that were rewritten since would be rewritten again."""
    store = MemoryStore()
    rewrites = Rewrites(store=store, clock=HarnessClock())
    first = rewrites.asked(TRIPS, Service.COMPACTION, VIEW, "1", by="ada")
    rewrites.begin(first)

    assert rewrites.asked(TRIPS, Service.COMPACTION, VIEW, "2", by="bob") == first
    assert Rewrites(store=store, clock=HarnessClock()).under_way(TRIPS, VIEW) == {Service.COMPACTION: first}
    assert in_words(first).startswith("a rewrite of all files was requested by ada at ")

    assert rewrites.end(TRIPS.id, Service.COMPACTION)
    assert not rewrites.end(TRIPS.id, Service.COMPACTION)
    assert store.rows(RewriteRow) == []


def test_a_request_for_a_table_that_was_made_again_does_not_count() -> None:
    """The files of the new table were not meant. A new request replaces the old one."""
    rewrites = Rewrites(store=MemoryStore(), clock=HarnessClock())
    rewrites.begin(rewrites.asked(TRIPS, Service.COMPACTION, VIEW, "1", by="ada"))
    another = replace(VIEW, identity=TableIdentity(location=VIEW.identity.location, created="again"))

    assert rewrites.of(TRIPS, Service.COMPACTION, another) is None
    assert rewrites.asked(TRIPS, Service.COMPACTION, another, "7", by="bob").mark == "7"
