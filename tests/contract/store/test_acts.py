"""The audit log in every kind of store."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import TableId
from lakewarden.service.model.access import Act, ActKind
from lakewarden.service.store.sql.store import Store

NOW = datetime(2026, 1, 1, 12, 30, 15, 123456, tzinfo=UTC)
ORDERS = TableId("sales.orders")
APPROVED = Act(
    at=NOW,
    who="alice",
    key="3969e427",
    kind=ActKind.DELETION_APPROVED,
    table=ORDERS,
    service=Service.CLEAN,
    before="waits: 12 files",
    after="approved",
)
PAUSED = Act(at=NOW, who="bob", key=None, kind=ActKind.PAUSED, after="half \ud800 a \x00 character")


def test_acts_come_back_the_newest_first(store: Store) -> None:
    """With all that was noted, under numbers that rise."""
    for act in (APPROVED, replace(PAUSED, after="a migration"), replace(APPROVED, who="carol")):
        store.note_act(act)

    newest, middle, oldest = store.acts()
    assert [replace(act, number=0) for act in (oldest, middle, newest)] == [
        APPROVED,
        replace(PAUSED, after="a migration"),
        replace(APPROVED, who="carol"),
    ]
    assert oldest.number < middle.number < newest.number
    assert store.acts(limit=2) == [newest, middle]
    assert store.acts(before=middle.number) == [oldest]
    assert store.acts(table=ORDERS) == [newest, oldest]
    assert store.acts(table=TableId("nothing")) == []


def test_any_text_of_a_person_is_kept(store: Store) -> None:
    """An act with a strange reason is not lost."""
    store.note_act(PAUSED)
    [act] = store.acts()
    assert "character" in (act.after or "")


def test_old_acts_are_deleted_some_at_a_time_and_no_number_comes_again(store: Store) -> None:
    """Housekeeping waits for nothing long. The history of runs has no part in it."""
    for days in range(5):
        store.note_act(replace(PAUSED, after="x", at=NOW + timedelta(days=days)))
    last = store.acts(limit=1)[0].number
    list(store.forget(registered={}, at=NOW + timedelta(days=9999), keep=timedelta(hours=1)))
    assert len(store.acts()) == 5

    assert store.forget_acts(before=NOW + timedelta(days=3), most=2) == 2
    assert store.forget_acts(before=NOW + timedelta(days=3), most=2) == 1
    assert [act.at for act in store.acts()] == [NOW + timedelta(days=4), NOW + timedelta(days=3)]
    assert store.forget_acts(before=NOW + timedelta(days=9), most=200) == 2

    store.note_act(PAUSED)
    assert store.acts()[0].number > last
