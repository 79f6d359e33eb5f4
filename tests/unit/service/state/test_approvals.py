"""Approvals: exactly what was shown, at most as large, and once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lakewarden.executors.contract import Plan
from lakewarden.planners.model.clock import ManualClock
from lakewarden.planners.model.instant import Service, State
from lakewarden.planners.model.step import Step
from lakewarden.planners.model.table import DeletionBudget, Table, TableId
from lakewarden.planners.model.timeline import Timeline
from lakewarden.planners.model.view import KeptMore, TableView
from lakewarden.service.model.run import RunState
from lakewarden.service.state.approvals import Approvals
from lakewarden.service.store.memory import MemoryStore
from tests.support.values import IDENTITY, NOW, a_run, a_view, an_instant

TABLE = Table(id=TableId("trips"), format="fake", location="/lake/trips", budget=DeletionBudget(files=1, partitions=1))
RUN = a_run(service=Service.TTL)
VIEW = a_view()
SHOWN = Plan(instant=None, files_to_delete=5, partitions_to_delete=2)


def approved() -> Approvals:
    """Return approvals in which what was shown is approved."""
    approvals = Approvals(store=MemoryStore(), clock=ManualClock())
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


def test_an_approval_of_a_plan_without_an_instant_is_used_up_by_the_deletion_that_needed_it() -> None:
    """And not by a smaller one, which needed none."""
    approvals = approved()

    approvals.spend(TABLE, RUN, Plan(instant=None, files_to_delete=1))
    assert approvals.missing(TABLE, RUN, SHOWN, VIEW) is None

    approvals.spend(TABLE, RUN, SHOWN)
    assert approvals.missing(TABLE, RUN, SHOWN, VIEW) is not None


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
