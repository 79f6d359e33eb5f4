"""The bound on the series of tables: which tables have series of their own, and what the others are together. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain

from prometheus_client.core import GaugeMetricFamily, Metric

from lakewarden.planners.model.printable import printable
from lakewarden.planners.model.table import TableId
from lakewarden.service.reporting.metrics import families as of
from lakewarden.service.reporting.metrics.families import FAMILIES, OTHER, Family, Key
from lakewarden.service.reporting.metrics.table_figures import Figures

Rank = tuple[float, ...]
"""How much a table needs an operator. A larger rank goes first."""


_SIGNS = {
    of.POLL_FAILING: 1.0,
    of.APPROVALS: 1.0,
    of.BLOCKED: 1.0,
    of.LOCK_PROVED: -1.0,
}
"""What an operator has to act on. A lock that was disproved has the value -1."""


def rank_of(seen: Figures, stored_figures: Figures) -> Rank:
    """Return first what an operator has to act on, then how long the oldest plan is pending, then the backlog in bytes,
    then the commits since the services ran.
    """
    waiting, first, size, commits = 0.0, float("inf"), 0.0, 0.0
    for figures in (stored_figures, seen):
        for (family, _), value in figures.pairs():
            waiting += max(0.0, _SIGNS.get(family, 0.0) * value)
            if family is of.FIRST_PENDING:
                first = min(first, value)
            elif family is of.BACKLOG_BYTES:
                size += value
            elif family is of.COMMITS_SINCE:
                commits += value
    return (waiting, -first, size, commits)


def choose(ranks: Mapping[TableId, Rank], *, limit: int, before: Collection[TableId] = ()) -> frozenset[TableId]:
    """Return the tables with series of their own: all of them, or the `limit` with the largest ranks.

    The tables of the last choice (`before`) keep their series while they are near the limit. Otherwise the series of
    tables with nearly equal ranks would come and go.
    """
    if len(ranks) <= limit:
        return frozenset(ranks)
    order = sorted(ranks, key=lambda table: (tuple(-part for part in ranks[table]), table))
    sure, near = order[: limit - limit // 4], order[limit - limit // 4 : limit + limit // 4]
    stay = [table for table in near if table in before]
    rest = [table for table in near if table not in before]
    return frozenset([*sure, *stay, *rest][:limit])


def folded(tables: Iterable[Figures]) -> dict[Key, float]:
    """Return the figures of several tables as those of one."""
    alike: dict[tuple[Key, ...], list[tuple[float, ...]]] = {}
    for figures in tables:
        alike.setdefault(figures.keys, []).append(figures.values)
    columns: dict[Key, list[Iterable[float]]] = {}
    for keys, rows in alike.items():
        for key, column in zip(keys, zip(*rows, strict=True), strict=True):
            columns.setdefault(_of_others(key), []).append(column)
    return {key: key[0].fold.of(chain.from_iterable(parts)) for key, parts in columns.items()}


def _of_others(key: Key) -> Key:
    """Return the key for several tables. The names of readers are as many as the tables, so they are one, too."""
    family, _ = key
    return (family, (OTHER,)) if family.labels == ("reader",) else key


def measured(tables: Mapping[TableId, Sequence[Figures]], *, own: Collection[TableId]) -> Iterable[Metric]:
    """Return every metric of single tables. The tables in `own` have series of their own.

    No key is in two of the figures of one table.
    """
    metrics = {
        family: GaugeMetricFamily(family.name, family.meaning, labels=("table", *family.labels)) for family in FAMILIES
    }
    for table, parts in tables.items():
        if table in own:
            _add(metrics, printable(table), (pair for figures in parts for pair in figures.pairs()))
    others = [figures for table, parts in tables.items() if table not in own for figures in parts]
    _add(metrics, OTHER, folded(others).items())
    return metrics.values()


def _add(metrics: Mapping[Family, GaugeMetricFamily], table: str, figures: Iterable[tuple[Key, float]]) -> None:
    for (family, labels), value in figures:
        metrics[family].add_metric([table, *labels], value)
