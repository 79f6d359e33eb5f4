"""Paimon tables that Paimon's own core writes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.paimon.paimon_orders import PaimonOrders, rows

Lake = Callable[..., PaimonOrders]


@pytest.fixture
def lake(spark: Any, tmp_path: Path) -> Lake:
    """Return a function that makes an empty table."""
    names = iter(range(100))

    def make(**other: Any) -> PaimonOrders:
        return PaimonOrders(warehouse=tmp_path / "warehouse", spark=spark, name=f"orders{next(names)}", **other)

    return make


@pytest.fixture
def orders(lake: Lake) -> PaimonOrders:
    """Write a table with six sorted runs in each of four buckets."""
    table = lake()
    for number in range(6):
        table.write(rows(number, f"v{number}"))
    return table
