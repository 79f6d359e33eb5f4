"""Registered tables in every kind of store."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from lakewarden.planners.model.table import TableId
from lakewarden.service.model.access import Act, ActKind
from lakewarden.service.model.registrations import RegistrationRow
from lakewarden.service.store.sql.store import Store

NOW = datetime(2026, 1, 1, 12, 30, 15, 123456, tzinfo=UTC)
ORDERS = RegistrationRow(table=TableId("orders"), entry='{"path": "/lake/é"}', number=1, by="ada", at=NOW)
ACT = Act(at=NOW, who="ada", key=None, kind=ActKind.TABLE_REGISTERED, table=TableId("orders"), after="{}")


def test_a_registration_is_kept_with_its_act(store: Store) -> None:
    """All that was kept comes back, and the audit log has the act."""
    assert store.keep_registration(ORDERS, act=ACT)
    assert store.registrations() == [ORDERS]
    assert [replace(act, number=0) for act in store.acts()] == [ACT]


def test_a_change_that_does_not_know_the_last_one_is_not_kept(store: Store) -> None:
    """Two replicas cannot both register a table at one place: the second one reads what the first one kept."""
    store.keep_registration(ORDERS, act=ACT)
    assert not store.keep_registration(replace(ORDERS, table=TableId("other")), act=ACT)
    assert not store.keep_registration(replace(ORDERS, number=3), act=ACT)
    assert store.registrations() == [ORDERS]
    assert len(store.acts()) == 1


def test_a_replica_hears_of_what_was_changed_since(store: Store) -> None:
    """A table that was removed is among it, and can be registered again."""
    store.keep_registration(ORDERS, act=ACT)
    store.keep_registration(replace(ORDERS, table=TableId("b"), number=2), act=ACT)
    removed = replace(ORDERS, entry=None, number=3)
    store.keep_registration(removed, act=ACT)
    assert store.registrations(after=2) == [removed]

    again = replace(ORDERS, number=4)
    assert store.keep_registration(again, act=ACT)
    assert [row.number for row in store.registrations()] == [2, 4]


@pytest.mark.parametrize("days", [1, 9999])
def test_housekeeping_leaves_registrations_alone(store: Store, days: int) -> None:
    """A registered table that no daemon serves for a while is still registered."""
    store.keep_registration(ORDERS, act=ACT)
    list(store.forget(registered={}, at=NOW + timedelta(days=days), keep=timedelta(hours=1)))
    assert store.registrations() == [ORDERS]
