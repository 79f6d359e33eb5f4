"""The series of tables: those of each table that has its own, and those of the others together. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from prometheus_client.core import GaugeMetricFamily, Metric

from lakewarden.planners.model.printable import printable
from lakewarden.planners.model.table import TableId
from lakewarden.service.reporting.metrics.families import FAMILIES, OTHER, Family, Key
from lakewarden.service.reporting.metrics.table_figures import Figures
from lakewarden.service.reporting.metrics.table_limit import folded


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
