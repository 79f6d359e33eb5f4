"""The bound on the series of tables: what is summed up stays the same, whatever the limit."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.core import Metric

from lakewarden.planners.model.table import TableId
from lakewarden.service.reporting.metrics.families import FAMILIES, OTHER, Family, Fold, Key
from lakewarden.service.reporting.metrics.table_figures import Figures
from lakewarden.service.reporting.metrics.table_limit import choose, measured

_BY_NAME: Mapping[str, Family] = {family.name: family for family in FAMILIES}
_KEYS = st.sampled_from(FAMILIES).flatmap(
    lambda family: st.tuples(
        st.just(family), st.tuples(*(st.sampled_from(("clean", "compaction", "export")) for _ in family.labels))
    )
)
_FIGURES = st.dictionaries(_KEYS, st.integers(min_value=-1, max_value=10**12), max_size=12).map(
    lambda known: Figures.of(known.items())
)
_TABLES = st.dictionaries(st.text("abcd", min_size=1, max_size=4).map(TableId), st.tuples(_FIGURES), max_size=12)
_RANKS = st.dictionaries(
    st.text("abcd", min_size=1, max_size=3).map(TableId),
    st.tuples(st.floats(-5, 5), st.sampled_from((float("-inf"), 0.0, 7.0))),
    max_size=30,
)


def _over_all_tables(metrics: list[Metric]) -> dict[Key, float]:
    """Return the values over all series, by the labels beside `table`. The names of readers are left out."""
    found: dict[Key, list[float]] = {}
    for metric in metrics:
        family = _BY_NAME[metric.name]
        for sample in metric.samples:
            labels = () if family.labels == ("reader",) else tuple(sample.labels[label] for label in family.labels)
            found.setdefault((family, labels), []).append(sample.value)
    return {key: key[0].fold.of(values) for key, values in found.items()}


@pytest.mark.long
@given(tables=_TABLES, data=st.data())
def test_what_all_tables_have_together_does_not_depend_on_the_limit(
    tables: dict[TableId, tuple[Figures]], data: st.DataObject
) -> None:
    """Sums, oldest times and longest ages over all series are the same with any choice of tables, also with none."""
    own = data.draw(st.sets(st.sampled_from(sorted(tables)))) if tables else set()
    each = _over_all_tables(list(measured(tables, own=tables.keys())))

    assert _over_all_tables(list(measured(tables, own=own))) == each


@pytest.mark.long
@given(tables=_TABLES)
def test_the_names_of_readers_do_not_make_series_of_other_tables(tables: dict[TableId, tuple[Figures]]) -> None:
    """`_other` has one series of readers for each metric, however many readers the tables declare."""
    metrics = measured(tables, own=())
    readers = [sample for metric in metrics for sample in metric.samples if "reader" in sample.labels]

    assert all(sample.labels == {"table": OTHER, "reader": OTHER} for sample in readers)
    assert len(readers) <= 2


@given(ranks=_RANKS, limit=st.integers(0, 12), data=st.data())
def test_the_tables_that_most_need_an_operator_have_series_of_their_own(
    ranks: dict[TableId, tuple[float, ...]], limit: int, data: st.DataObject
) -> None:
    """There are never more tables than the limit. Three quarters of the limit go to the largest ranks, and no chosen
    table is far behind one that was not chosen.
    """
    before = data.draw(st.sets(st.sampled_from(sorted(ranks)))) if ranks else set()
    chosen = choose(ranks, limit=limit, before=before)
    order = sorted(ranks, key=lambda table: (*(-part for part in ranks[table]), table))

    assert len(chosen) == min(limit, len(ranks))
    assert chosen >= set(order[: limit - limit // 4])
    assert chosen <= set(order[: limit + limit // 4])


@given(ranks=_RANKS, limit=st.integers(0, 12))
def test_a_choice_that_is_made_again_stays(ranks: dict[TableId, tuple[float, ...]], limit: int) -> None:
    """Series do not come and go while nothing changes."""
    chosen = choose(ranks, limit=limit)

    assert choose(ranks, limit=limit, before=chosen) == chosen


def test_only_counts_that_can_be_added_are_summed_up() -> None:
    """A time and an age of several tables are the oldest or the newest. Their sum says nothing."""
    assert [one.name for one in FAMILIES if one.fold is Fold.SUM and "seconds" in one.name] == []
