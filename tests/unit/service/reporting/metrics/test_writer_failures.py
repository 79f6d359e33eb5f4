"""The counter of the writers' failures: it never falls, and has a bounded number of series."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lakewarden.planners.model.instant import RunId
from lakewarden.planners.model.table import Table, TableId
from lakewarden.planners.model.view import WriteFailure
from lakewarden.service.reporting.metrics.families import OTHER
from lakewarden.service.reporting.metrics.writer_failures import WriterFailures
from lakewarden.service.rules.writer_failures import Blamed
from tests.support.values import NOW

_TABLES = st.sets(st.text("abc", min_size=1, max_size=2), max_size=8)
_FAILURES = st.lists(st.tuples(st.text("abc", min_size=1, max_size=2), st.booleans()), max_size=30)


def _fail(counter: WriterFailures, table: str, *, near_us: bool) -> None:
    known = Table(id=TableId(table), format="fake", location=f"/lake/{table}")
    failure = WriteFailure(instant="1", at=NOW, reason="a test")
    counter.writer_failed(known, Blamed(failure=failure, run=RunId("r") if near_us else None))


def _series(counter: WriterFailures, tables: set[str]) -> dict[tuple[str, str], float]:
    (metric,) = counter.collected([TableId(table) for table in tables])
    return {(one.labels["table"], one.labels["near_us"]): one.value for one in metric.samples}


@given(tables=_TABLES, failures=_FAILURES, limit=st.integers(0, 6))
def test_every_failure_is_in_one_series_and_no_series_falls(
    tables: set[str], failures: list[tuple[str, bool]], limit: int
) -> None:
    """The sum over all series is the number of failures, whatever the limit. A rate never sees a counter fall."""
    counter = WriterFailures(limit=limit)
    before: dict[tuple[str, str], float] = {}
    for count, (table, near_us) in enumerate(failures, 1):
        _fail(counter, table, near_us=near_us)
        series = _series(counter, tables | {table for table, _ in failures})
        assert sum(series.values()) == count
        assert all(series.get(key, 0) >= value for key, value in before.items())
        before = series
    assert len({table for table, _ in before} - {OTHER}) <= limit


def test_a_table_takes_its_series_along_when_it_goes() -> None:
    """Tables come and go for years. The failures of the other tables stay."""
    counter = WriterFailures(limit=2)
    for table in ("a", "b", "c"):
        _fail(counter, table, near_us=False)
    assert _series(counter, {"a", "b", "c"}) == {
        ("a", "false"): 1,
        ("a", "true"): 0,
        ("b", "false"): 1,
        ("b", "true"): 0,
        (OTHER, "false"): 1,
        (OTHER, "true"): 0,
    }

    assert {key for key, value in _series(counter, {"b", "c"}).items() if value} == {("b", "false"), (OTHER, "false")}


def test_a_table_has_its_series_before_its_first_failure() -> None:
    """Otherwise a rate would miss the first failure."""
    series = _series(WriterFailures(limit=2), {"a", "b"})

    assert series == {(table, near_us): 0 for table in "ab" for near_us in ("true", "false")}
