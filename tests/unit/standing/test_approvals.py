"""Approvals: exactly what was shown, at most as large, and once."""

from __future__ import annotations

import pytest

from lakewarden.executors.contract import Plan
from lakewarden.planners.model.clock import ManualClock
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import DeletionBudget, Table, TableId
from lakewarden.service.state.approvals import Approvals
from lakewarden.service.store.memory import MemoryStore
from tests.support.values import a_run

TABLE = Table(id=TableId("trips"), format="fake", location="/lake/trips", budget=DeletionBudget(files=1, partitions=1))
RUN = a_run(service=Service.TTL)
SHOWN = Plan(instant=None, files_to_delete=5, partitions_to_delete=2)


def approved() -> Approvals:
    """Return approvals in which what was shown is approved."""
    approvals = Approvals(store=MemoryStore(), clock=ManualClock())
    approvals.ask(TABLE, RUN, SHOWN)
    assert approvals.missing(TABLE, RUN, SHOWN) is not None
    assert approvals.give(TABLE.id, Service.TTL, by="ada") is not None
    return approvals


@pytest.mark.parametrize(
    ("files", "partitions", "allowed"), [(5, 2, True), (4, 2, True), (6, 2, False), (5, 3, False), (0, 0, True)]
)
def test_an_approval_covers_at_most_what_was_shown(files: int, partitions: int, allowed: bool) -> None:
    """A plan that has grown since is shown anew."""
    plan = Plan(instant=None, files_to_delete=files, partitions_to_delete=partitions)

    assert (approved().missing(TABLE, RUN, plan) is None) is allowed


def test_an_approval_of_a_plan_without_an_instant_is_used_up_by_the_deletion_that_needed_it() -> None:
    """And not by a smaller one, which needed none."""
    approvals = approved()

    approvals.spend(TABLE, RUN, Plan(instant=None, files_to_delete=1))
    assert approvals.missing(TABLE, RUN, SHOWN) is None

    approvals.spend(TABLE, RUN, SHOWN)
    assert approvals.missing(TABLE, RUN, SHOWN) is not None
