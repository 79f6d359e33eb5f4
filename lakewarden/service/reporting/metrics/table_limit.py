"""The bound on the series of tables: which tables have series of their own, and what the others are together. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from itertools import chain

from lakewarden.planners.model.table import TableId
from lakewarden.service.reporting.metrics.families import OTHER, Key
from lakewarden.service.reporting.metrics.table_figures import Figures

Rank = tuple[float, ...]
"""How much a table needs an operator. A larger rank goes first."""


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
