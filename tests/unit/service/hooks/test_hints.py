"""Which registered tables a hint is about."""

from __future__ import annotations

import pytest

from lakewarden.planners.hooks import At, Hint, Named
from lakewarden.planners.model.table import Table, TableId
from lakewarden.service.hooks import KnownTables

REGISTERED = KnownTables(
    Table(id=TableId(name), format="any", location=location)
    for name, location in {
        "trips": "/lake/trips",
        "orders": "catalog://lake/sales.orders",
        "orders-eu": "catalog://lake/sales.eu.orders",
        "orders-test": "catalog://test/sales.orders",
        "clicks": "hdfs://Lake/clicks",
    }.items()
)


@pytest.mark.parametrize(
    ("hint", "tables"),
    [
        (At(location="/lake/trips"), ["trips"]),
        (At(location="/lake/trips/more"), []),
        (At(location="hdfs://lake:8020/clicks"), ["clicks"]),
        (At(location="hdfs://lake:9000/clicks"), []),
        (At(location="hdfs://lake/Clicks"), []),
        (At(location="catalog://lake/sales.orders"), ["orders"]),
        (Named(identifier="sales.orders", catalog="lake"), ["orders"]),
        (Named(identifier="sales.orders", catalog="test"), ["orders-test"]),
        (Named(identifier="sales.orders", catalog="other"), []),
        (Named(identifier="sales.orders"), ["orders", "orders-test"]),
        (Named(identifier="sales.eu.orders"), ["orders-eu"]),
        (Named(identifier="orders"), []),
        (Named(identifier="/lake/trips"), []),
    ],
)
def test_a_hint_is_about_the_tables_of_its_place_or_name(hint: Hint, tables: list[str]) -> None:
    """A name without its catalog is about each table of that name: a look too many costs little."""
    assert list(REGISTERED.meant_by(hint)) == tables
