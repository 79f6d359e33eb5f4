"""Which tables may stand beside each other."""

from __future__ import annotations

import pytest

from lakewarden.planners.model.table import Table, TableId
from lakewarden.service.rules.registering import TakenPlaces, beside


def table(id_: str, location: str) -> Table:
    return Table(id=TableId(id_), format="fake", location=location)


OTHERS = [table("orders", "s3://lake/sales/orders"), table("local", "/lake/local")]


@pytest.mark.parametrize(
    ("id_", "location", "said"),
    [
        ("new", "s3://lake/sales/orders", "is registered already, as orders"),
        ("orders", "s3://lake/other", "has the id orders already"),
        ("new", "s3://lake/sales/orders/part", "inside of orders"),
        ("new", "s3://lake/sales", "around orders"),
        ("new", "/lake", "around local"),
        ("new", "/lake/local/below/it", "inside of local"),
    ],
)
def test_a_place_that_is_taken_is_refused_with_its_owner(id_: str, location: str, said: str) -> None:
    """No table lies inside of another one, whose services could delete its files."""
    assert said in str(TakenPlaces(OTHERS).contradiction(table(id_, location)))


@pytest.mark.parametrize("location", ["s3://lake/sales/orders2", "s3://lake2/sales/orders", "/lake2/local"])
def test_names_are_compared_whole(location: str) -> None:
    """A place that begins with the same letters is another place."""
    assert TakenPlaces(OTHERS).contradiction(table("new", location)) is None


def test_the_same_table_contradicts_itself_not() -> None:
    """A registered table may get other settings."""
    assert TakenPlaces(OTHERS).contradiction(OTHERS[0]) is None


def test_others_count_more_and_each_that_is_left_out_says_why() -> None:
    """The first of two that contradict each other is served."""
    tables = [table("orders", "/x"), table("a", "/a"), table("b", "/a/b")]
    fit, left_out = beside(tables, others=OTHERS)
    assert [one.id for one in fit] == ["a"]
    assert "configuration file" in left_out["orders"]
    assert "inside of a" in left_out["b"]
