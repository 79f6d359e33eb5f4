"""The orders of several shops: always with own keys, with own days unless they are shared, and now and then a deletion
of an old order.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.demo.writers.orders import Row, day_by_count
from live.hudi.several.shops import WARM_DAYS, sales


def batches(shop: str, *, shared: bool, seed: int = 1, many: int = 40) -> list[tuple[Row, ...]]:
    return list(islice(sales(shop, seed=seed, day_of=day_by_count, shared=shared), many))


@given(seed=st.integers(), shared=st.booleans())
def test_only_what_lives_is_changed_or_deleted_and_what_was_deleted_returns(seed: int, shared: bool) -> None:
    """Otherwise the right rows would not follow from the record."""
    living: dict[str, Row] = {}
    known, returned = set[str](), 0
    for number, rows in enumerate(batches("a", shared=shared, seed=seed), start=1):
        assert len({row.key for row in rows}) == len(rows)
        for row in rows:
            assert row.value == number
            assert row.key in living or (not row.deleted and (row.key in known or f"-a-{number:05}-" in row.key))
            returned += row.key in known - living.keys()
            known.add(row.key)
            living.pop(row.key, None)
            if not row.deleted:
                living[row.key] = row
    assert returned > 20


@pytest.mark.parametrize("shared", [True, False])
def test_two_shops_never_have_the_same_order_and_share_days_only_where_they_are_to(shared: bool) -> None:
    """The record of one writer says nothing about another's rows."""
    a, b = ([row for rows in batches(shop, shared=shared) for row in rows] for shop in "ab")

    assert not {row.key for row in a} & {row.key for row in b}
    assert bool({row.partition for row in a} & {row.partition for row in b}) is shared


def test_orders_of_days_that_are_cold_are_deleted_now_and_then_and_never_changed() -> None:
    """Clustering takes cold days, and a delete is the change that meets it there."""
    days: Mapping[str, int] = {}
    cold = []
    for number, rows in enumerate(batches("a", shared=True), start=1):
        today = day_by_count(number)
        days = {**days, **{row.key: today for row in rows if row.key not in days}}
        cold += [row for row in rows if days[row.key] <= today - WARM_DAYS]

    assert len(cold) == 9
    assert all(row.deleted for row in cold)
