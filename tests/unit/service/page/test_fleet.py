"""What all tables are together: their conditions, and what needs a person."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from lakewarden.planners.model.decision import Blocked, Decision, NotDue
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Mode, Table, TableId
from lakewarden.service.control.table_statuses import TableStatus
from lakewarden.service.model.rows import ApprovalRow
from lakewarden.service.model.run import RunState
from lakewarden.service.page.facts import SORTS, Condition, FactsOfTables, Need, facts_of, fleet, needs, sums_by_service
from tests.support.values import NOW, a_run

APPROVAL = ApprovalRow(
    table=TableId("a"),
    service=Service.CLEAN,
    identity="one",
    instant=None,
    files=30,
    files_in_table=None,
    partitions=0,
    asked_at=NOW,
)


def _status(
    name: str,
    *,
    decisions: Mapping[Service, Decision] | None = None,
    failure: str | None = None,
    paused: str | None = None,
    approvals: Collection[Service] = (),
    mode: Mode = Mode.ACT,
) -> TableStatus:
    table = Table(
        id=TableId(name),
        format="fake",
        location=f"/{name}",
        mode=mode,
        poll=timedelta(1),
        options=None,
        policies={},
    )
    waiting = {service: replace(APPROVAL, table=table.id, service=service) for service in approvals}
    return TableStatus(table=table, decisions=decisions or {}, failure=failure, paused=paused, approvals=waiting)


def _needs(*statuses: TableStatus) -> Sequence[Need]:
    return needs([facts_of(status) for status in statuses])


def _blocked(reason: str) -> dict[Service, Decision]:
    return {Service.CLEAN: Blocked(reason=reason, remedy="look")}


def test_reasons_that_differ_in_their_numbers_are_one_need() -> None:
    """Hundreds of tables with one cause are one line, with the first few tables and their number."""
    found = _needs(*[_status(f"t{n}", decisions=_blocked(f"{n} of 10 commits are missing")) for n in range(5)])

    assert [(need.kind, need.remedy, len(need.tables), need.examples) for need in found] == [
        ("clean is blocked", "look", 5, (TableId("t0"), TableId("t1"), TableId("t2")))
    ]


def test_a_waiting_approval_comes_first_then_what_concerns_the_most_tables() -> None:
    """Each kind of need is named. A service is blocked because it waits, and is not named twice. What is not due needs
    nobody.
    """
    found = _needs(
        _status("a", failure="the bucket does not answer"),
        _status("b", decisions=_blocked("x")),
        _status("c", decisions=_blocked("x")),
        _status("d", approvals=(Service.CLEAN,), decisions=_blocked("would delete too much")),
        _status("e", decisions={Service.CLEAN: NotDue(reason="1 of 10 commits")}),
    )
    assert [need.kind for need in found] == ["waiting for approval", "clean is blocked", "cannot be observed"]


_STATUSES = st.lists(
    st.builds(
        _status,
        st.text(min_size=1, max_size=4),
        decisions=st.sampled_from([{}, _blocked("x"), {Service.CLEAN: NotDue(reason="no")}]),
        failure=st.sampled_from([None, "away"]),
        paused=st.sampled_from([None, "a migration"]),
        approvals=st.sampled_from([(), (Service.CLEAN,)]),
    ),
    max_size=20,
)


@given(_STATUSES)
def test_each_table_is_in_one_condition_and_in_every_order(statuses: list[TableStatus]) -> None:
    """The conditions add up to all tables. No order loses one, and the worst come first."""
    facts = [facts_of(status) for status in statuses]
    whole = fleet(facts)

    assert sum(whole.conditions.values()) == whole.tables == len(statuses)
    assert all(len(sorted(facts, key=order)) == len(facts) for order in SORTS.values())
    assert [one.condition for one in sorted(facts, key=SORTS["worst"])] == sorted(
        (one.condition for one in facts), reverse=True
    )
    assert all(
        one.condition is Condition.FAILING for one, status in zip(facts, statuses, strict=True) if status.failure
    )


def test_a_paused_table_is_paused_and_not_blocked() -> None:
    """Its services are blocked by the pause. That is one line for all of them."""
    paused = [_status(f"t{n}", paused="a migration", decisions=_blocked("paused: a migration")) for n in range(3)]

    assert [(need.kind, need.reason, len(need.tables)) for need in _needs(*paused)] == [("paused", "a migration", 3)]
    assert {facts_of(one).condition for one in paused} == {Condition.PAUSED}


def test_a_table_that_is_only_observed_needs_nobody() -> None:
    """Its mode says that no service is wanted. A new user begins with thousands of them."""
    observed = _status("a", mode=Mode.OBSERVE, decisions=_blocked("the table is only observed"))

    assert not _needs(observed)
    assert facts_of(observed).condition is Condition.NOT_OBSERVED


@given(_STATUSES, _STATUSES)
def test_facts_are_kept_for_a_status_and_never_for_a_table(before: list[TableStatus], now: list[TableStatus]) -> None:
    """A table whose status is another object has new facts. One that has gone is forgotten."""
    remembered = FactsOfTables()
    first = {one.table.id: one for one in before}.values()
    second = {one.table.id: one for one in now}.values()

    kept = remembered.of(first)
    assert all(one is again for one, again in zip(kept, remembered.of(first), strict=True))
    assert remembered.of(second) == [facts_of(status) for status in second]
    assert remembered.of(first) == [facts_of(status) for status in first]


def test_what_the_runs_of_a_service_did_is_added_up() -> None:
    """A figure that no run of the service has is not zero. A run that failed did nothing."""
    done, failed = RunState.SUCCEEDED, RunState.FAILED
    runs = [
        a_run(state=done, figures={"files_rewritten": 9, "files_added": 3, "bytes_rewritten": 1000}),
        a_run(state=done, figures={"files_rewritten": 6, "files_added": 1, "bytes_rewritten": 500}),
        a_run(state=failed, figures={"files_rewritten": 100}),
        a_run(state=done, service=Service.CLEAN, figures={"files_deleted": 4}),
    ]
    compaction, clean = sums_by_service(runs)

    assert (compaction.runs, compaction.files_rewritten, compaction.files_added) == (2, 15, 4)
    assert (compaction.bytes_rewritten, compaction.files_deleted) == (1500, None)
    assert (clean.service, clean.files_deleted, clean.bytes_deleted) == (Service.CLEAN, 4, None)
