"""The history in every kind of store: changes of decisions."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from lakewarden.planners.model.instant import RunId, Service
from lakewarden.planners.model.table import TableId
from lakewarden.service.model.rows import DecisionRow
from lakewarden.service.model.run import Run, RunState
from lakewarden.service.store.sql.store import Store

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
ORDERS, LINES = TableId("sales.orders"), TableId("sales.lines")


def _decision(
    decision: str, at: datetime, *, service: Service = Service.COMPACTION, table: TableId = ORDERS
) -> DecisionRow:
    return DecisionRow(
        table=table,
        service=service,
        decision=decision,
        reason=f"{decision} at {at:%H:%M}",
        remedy="raise the budget" if decision == "Blocked" else None,
        again_at=at + HOUR if decision == "NotDue" else None,
        decided_at=at,
    )


def _change(store: Store, *rows: DecisionRow) -> None:
    for row in rows:
        store.decided([row], changes=[row])


def _forgotten(store: Store, *, before: datetime, keep: int = 1000, most: int = 2) -> int:
    after, deleted = 0, 0
    while True:
        last, some = store.forget_decision_changes(before=before, keep=keep, after=after, most=most)
        deleted += some
        if last is None:
            return deleted
        after = last


def test_a_decision_without_a_change_is_kept_and_adds_nothing_to_the_history(store: Store) -> None:
    """The last decision is always the newest one. The history has changes alone."""
    first = _decision("NotDue", NOON)
    _change(store, first)
    same = replace(first, reason="NotDue with another number", decided_at=NOON + HOUR)
    store.decided([same])
    assert store.decisions(ORDERS) == [same]
    assert [change.decision for change in store.decision_changes(ORDERS)] == [first]


def test_changes_come_back_the_newest_first_by_page_and_by_service(store: Store) -> None:
    """With everything that was decided, under numbers that rise."""
    rows = [
        _decision("NotDue", NOON),
        _decision("Blocked", NOON, service=Service.CLEAN),
        _decision("Due", NOON + HOUR, table=LINES),
        _decision("Due", NOON + HOUR),
    ]
    _change(store, *rows)
    newest, middle, oldest = store.decision_changes(ORDERS)
    assert [one.decision for one in (oldest, middle, newest)] == [rows[0], rows[1], rows[3]]
    assert [one.until for one in (oldest, middle, newest)] == [NOON + HOUR, None, None]
    assert oldest.number < middle.number < newest.number
    assert store.decision_changes(ORDERS, limit=1) == [newest]
    assert store.decision_changes(ORDERS, before=newest.number) == [middle, oldest]
    assert store.decision_changes(ORDERS, service=Service.CLEAN) == [middle]


def test_the_decisions_of_a_past_moment_come_back_with_their_ends(store: Store) -> None:
    """The decision that held then, not the one before or after. A service without a decision then is left out."""
    _change(
        store,
        _decision("NotDue", NOON),
        _decision("Due", NOON + HOUR),
        _decision("NotDue", NOON + 3 * HOUR),
        _decision("Blocked", NOON + 2 * HOUR, service=Service.CLEAN),
        _decision("Due", NOON, table=LINES),
    )

    def at(moment: datetime) -> list[tuple[str, str, datetime | None]]:
        return [(one.decision.service, one.decision.decision, one.until) for one in store.decisions_at(ORDERS, moment)]

    assert at(NOON - timedelta(seconds=1)) == []
    assert at(NOON) == [("compaction", "NotDue", NOON + HOUR)]
    assert at(NOON + 2 * HOUR) == [("clean", "Blocked", None), ("compaction", "Due", NOON + 3 * HOUR)]
    assert at(NOON + 9 * HOUR) == [("clean", "Blocked", None), ("compaction", "NotDue", None)]


def test_old_changes_are_deleted_and_the_decision_that_held_at_the_horizon_stays(store: Store) -> None:
    """A decision that has held since long ago is still the answer for a later moment."""
    _change(store, *(_decision("Due" if hour % 2 else "NotDue", NOON + hour * HOUR) for hour in range(6)))
    _change(store, _decision("Blocked", NOON, service=Service.CLEAN))
    horizon = NOON + 3 * HOUR + timedelta(minutes=30)
    before = store.decisions_at(ORDERS, horizon)
    assert _forgotten(store, before=horizon) == 3
    assert store.decisions_at(ORDERS, horizon) == before
    assert _forgotten(store, before=NOON + 999 * HOUR) == 2
    assert [one.decision.decided_at for one in store.decision_changes(ORDERS)] == [NOON, NOON + 5 * HOUR]


def test_too_many_changes_are_deleted_from_the_oldest_and_none_that_holds(store: Store) -> None:
    """The store stays bounded however often a decision changes."""
    _change(store, _decision("Blocked", NOON, service=Service.CLEAN))
    _change(store, *(_decision("Due" if minute % 2 else "NotDue", NOON + minute * HOUR / 60) for minute in range(20)))
    assert _forgotten(store, before=NOON - HOUR, keep=5) == 15
    assert len(store.decision_changes(ORDERS)) == 6
    assert store.decision_changes(ORDERS)[-1].decision.decision == "Blocked"
    last = store.decision_changes(ORDERS)[0].number
    _change(store, _decision("Due", NOON + 5 * HOUR))
    assert store.decision_changes(ORDERS)[0].number > last


def test_the_runs_of_a_past_moment_are_those_that_had_not_ended(store: Store) -> None:
    """Requested then, or before, and ended after."""
    for number, service in enumerate((Service.COMPACTION, Service.CLEAN)):
        store.request(
            Run(
                id=RunId(f"run-{number}"),
                table=ORDERS,
                identity="here|orders",
                service=service,
                state=RunState.QUEUED,
                reason="due",
                requested_by="policy",
                created_at=NOON + number * HOUR,
            )
        )
    store.end(RunId("run-0"), epoch=0, state=RunState.CANCELLED, outcome="cancelled", at=NOON + 2 * HOUR)

    def at(moment: datetime) -> list[str]:
        return [run.id for run in store.runs_at(ORDERS, moment)]

    assert at(NOON - HOUR) == []
    assert at(NOON) == ["run-0"]
    assert at(NOON + HOUR) == ["run-0", "run-1"]
    assert at(NOON + 2 * HOUR) == ["run-1"]
    assert store.runs_at(LINES, NOON) == []


def test_the_history_of_a_table_that_nobody_registers_goes_with_its_decisions(store: Store) -> None:
    """What is left of a table is bounded in time."""
    _change(store, _decision("Due", NOON), _decision("Due", NOON, table=LINES))
    list(store.forget(registered={ORDERS: "here", LINES: "there"}, at=NOON, keep=HOUR))
    for hours in (12, 24, 36, 48, 60):
        list(store.forget(registered={LINES: "there"}, at=NOON + hours * HOUR, keep=HOUR))
    assert store.decision_changes(ORDERS) == []
    assert len(store.decision_changes(LINES)) == 1
