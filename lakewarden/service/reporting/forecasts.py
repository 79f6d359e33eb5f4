"""Forecasts of runs, for one table and for all: the views of the tables, and the earlier runs in the store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache

from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Table, TableId
from lakewarden.planners.model.view import TableView
from lakewarden.service.control.plane import ControlPlane
from lakewarden.service.control.table_statuses import TableStatus
from lakewarden.service.model.run import Run, RunState
from lakewarden.service.rules.forecast import PAST_RUNS, Forecast, Past, Total, forecast, totals

_LIKES = 500
"""So many runs of a service are looked at to find those on other tables of a format."""

_DONE = (RunState.SUCCEEDED,)


def of_table(plane: ControlPlane, status: TableStatus) -> Mapping[Service, Forecast]:
    """Return what runs of the services of a table would do now. A service without work is left out.

    Raises TemporaryError if the store does not answer.
    """
    if status.view is None:
        return {}
    forecasts, format_of = {}, _formats(plane)
    for service in status.table.policies:
        would = status.would_run.get(service)
        past = _past(plane, status.table, service, format_of)
        estimate = forecast(service, status.view, past, instant=None if would is None else would.instant)
        if estimate is not None:
            forecasts[service] = estimate
    return forecasts


def of_run(
    plane: ControlPlane, table: Table, service: Service, view: TableView, *, instant: str | None
) -> Forecast | None:
    """Return what one run of a service would do that takes up `instant`. None if the table has nothing for it.

    Raises TemporaryError if the store does not answer.
    """
    return forecast(service, view, _past(plane, table, service, _formats(plane)), instant=instant)


def of_all(plane: ControlPlane, statuses: Iterable[TableStatus]) -> Mapping[Service, Total]:
    """Return what the runs that the modes of these tables hold back would do, together, by service.

    Raises TemporaryError if the store does not answer.
    """
    waiting: dict[Service, list[TableStatus]] = {}
    for status in statuses:
        for service in status.would_run:
            waiting.setdefault(service, []).append(status)
    format_of = _formats(plane)
    return totals({service: _each(plane, service, waiting[service], format_of) for service in sorted(waiting)})


def _each(
    plane: ControlPlane,
    service: Service,
    statuses: Iterable[TableStatus],
    format_of: Callable[[TableId], str | None],
) -> Sequence[Forecast]:
    by_table: dict[TableId, list[Run]] = {}
    by_format: dict[str | None, list[Run]] = {}
    for run in plane.runs(service=service, states=_DONE, limit=_LIKES):
        by_table.setdefault(run.table, []).append(run)
        by_format.setdefault(format_of(run.table), []).append(run)
    forecasts = []
    for status in statuses:
        if status.view is None:
            continue
        past = Past(own=by_table.get(status.table.id, ())[:PAST_RUNS], likes=by_format.get(status.table.format, ()))
        estimate = forecast(service, status.view, past, instant=status.would_run[service].instant)
        forecasts.append(estimate or Forecast())
    return forecasts


def _past(plane: ControlPlane, table: Table, service: Service, format_of: Callable[[TableId], str | None]) -> Past:
    own = plane.runs(table=table.id, service=service, states=_DONE, limit=PAST_RUNS)
    return Past(own=own, likes=() if own else _of_format(plane, service, table.format, format_of))


def _of_format(
    plane: ControlPlane, service: Service, format_name: str, format_of: Callable[[TableId], str | None]
) -> Sequence[Run]:
    runs = plane.runs(service=service, states=_DONE, limit=_LIKES)
    return [run for run in runs if format_of(run.table) == format_name]


def _formats(plane: ControlPlane) -> Callable[[TableId], str | None]:
    """Return what tells the format of a table that is registered. The runs are those of few tables, so the thousands
    of others are not asked for.
    """

    @cache
    def format_of(table: TableId) -> str | None:
        status = plane.table(table)
        return None if status is None else status.table.format

    return format_of
