"""What a run of a service would do now, before it does it: by the backlog of the table, and by earlier runs. It is
shown to people, and decides nothing. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from statistics import median

from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.view import Backlog, TableView
from lakewarden.planners.services import SERVICES
from lakewarden.service.model.run import Run, RunState

# When a run will probably end, by the earlier runs of its service on its table. It is shown to people, and decides
# nothing.

PAST_RUNS = 20
"""So many earlier runs are looked at, the newest ones."""

_LONGEST_SECONDS = 10.0 * 365 * 24 * 3600


@dataclass(frozen=True, kw_only=True, slots=True)
class RunEstimate:
    """How long a run will probably take, from its start. `runs` is how many earlier runs say so.

    `by_size`: they were compared by the bytes that they rewrote. Otherwise by their duration alone. `core_seconds` is
    how long its tasks will occupy cores. None if no earlier run says it.
    """

    length: timedelta
    runs: int
    by_size: bool
    core_seconds: float | None = None


def estimate(past: Sequence[Run], *, planned_bytes: int | None) -> RunEstimate | None:
    """Return the estimate for a run that rewrites so many bytes (None: it is not known), or None without earlier runs.

    The median is taken, because a run that waited long for writers says little. A run that found nothing to do says
    nothing.
    """
    lengths = [(length, _bytes(run), _cores(run)) for run in past if (length := _length(run)) is not None]
    if not lengths:
        return None
    rates = [(length.total_seconds() / size, size, cores) for length, size, cores in lengths if size]
    if planned_bytes and rates:
        seconds = min(median(rate for rate, _, _ in rates) * planned_bytes, _LONGEST_SECONDS)
        used = [cores / size for _, size, cores in rates if cores is not None]
        return RunEstimate(
            length=timedelta(seconds=seconds),
            runs=len(rates),
            by_size=True,
            core_seconds=min(median(used) * planned_bytes, _LONGEST_SECONDS) if used else None,
        )
    used = [cores for _, _, cores in lengths if cores is not None]
    return RunEstimate(
        length=timedelta(seconds=median(length.total_seconds() for length, _, _ in lengths)),
        runs=len(lengths),
        by_size=False,
        core_seconds=median(used) if used else None,
    )


def _length(run: Run) -> timedelta | None:
    committed = "commit_seconds" in run.figures
    if run.state is not RunState.SUCCEEDED or not committed:
        return None
    return None if run.started_at is None or run.ended_at is None else run.ended_at - run.started_at


def _bytes(run: Run) -> int | None:
    figure = run.figures.get("bytes_rewritten")
    return int(figure) if isinstance(figure, int | float) and figure > 0 else None


def _cores(run: Run) -> float | None:
    figure = run.figures.get("core_seconds")
    return float(figure) if isinstance(figure, int | float) and figure >= 0 else None


class Basis(StrEnum):
    """The runs that a forecast of time and cores is made from."""

    OWN = "own"
    """Earlier runs of the service on the table."""
    LIKES = "likes"
    """Earlier runs of the service on other tables of the same format."""
    NONE = "none"


@dataclass(frozen=True, kw_only=True, slots=True)
class Past:
    """Earlier runs of a service that succeeded: on the table (`own`), and on other tables of its format (`likes`)."""

    own: Sequence[Run] = ()
    likes: Sequence[Run] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Forecast:
    """What would be read, written and deleted if a service ran until it has nothing more to do. None: not known.

    `files` and `bytes` are read. They become `writes` files with about the same bytes. `deletes` files with
    `deletes_bytes` go, and with them `versions` commits or snapshots. `length` and `core_seconds` are by `runs` earlier
    runs of the `basis`.
    """

    files: int | None = None
    bytes: int | None = None
    writes: int | None = None
    deletes: int | None = None
    deletes_bytes: int | None = None
    versions: int | None = None
    length: timedelta | None = None
    core_seconds: float | None = None
    runs: int = 0
    basis: Basis = Basis.NONE


def forecast(service: Service, view: TableView, past: Past, *, instant: str | None = None) -> Forecast | None:
    """Return what a run of the service would do. None if the table has nothing for it. `instant` is the pending plan
    that the run would take up.
    """
    work = _work(service, view, instant)
    if work is None:
        return None
    run_estimate, runs, basis = _past(past, _stated(service, view, work))
    if run_estimate is None:
        return work
    deletes = work.deletes
    if deletes is None and SERVICES[service].deletes and basis is Basis.OWN:
        deletes = _deleted(runs)
    return Forecast(
        files=work.files,
        bytes=work.bytes,
        writes=work.writes,
        deletes=deletes,
        deletes_bytes=work.deletes_bytes,
        versions=work.versions,
        length=run_estimate.length,
        core_seconds=run_estimate.core_seconds,
        runs=run_estimate.runs,
        basis=basis,
    )


def _work(service: Service, view: TableView, instant: str | None) -> Forecast | None:
    """Return the numbers that the table itself shows."""
    plan = next((entry.plan for entry in view.timeline.pending(service) if entry.time == instant), None)
    if plan is not None:
        return Forecast(bytes=plan.bytes, writes=plan.file_groups)
    backlog = view.backlogs.get(service)
    if backlog is None or not _has_work(backlog):
        return None
    return _deletion(backlog) if SERVICES[service].deletes else _rewrite(backlog)


def _stated(service: Service, view: TableView, work: Forecast) -> int | None:
    """Return the bytes that a plan would state. Earlier runs are compared by those."""
    backlog = view.backlogs.get(service)
    if work.files is None or backlog is None or backlog.plan_bytes is None:
        return work.bytes
    return backlog.plan_bytes


def _has_work(backlog: Backlog) -> bool:
    counted = (backlog.commits, backlog.files, backlog.small_files, backlog.deletes, backlog.versions)
    return any(counted) or backlog.unfinished is not None


def _deletion(backlog: Backlog) -> Forecast:
    has_deletes = backlog.deletes is not None
    return Forecast(
        deletes=backlog.deletes if has_deletes else backlog.files,
        deletes_bytes=backlog.deletes_bytes if has_deletes else backlog.bytes,
        versions=backlog.versions,
    )


def _rewrite(backlog: Backlog) -> Forecast:
    files = backlog.small_files if backlog.files is None else backlog.files
    return Forecast(files=files, bytes=backlog.bytes, writes=backlog.writes or backlog.file_groups)


def _past(past: Past, planned_bytes: int | None) -> tuple[RunEstimate | None, Sequence[Run], Basis]:
    for runs, basis in ((past.own, Basis.OWN), (past.likes, Basis.LIKES)):
        run_estimate = estimate(runs, planned_bytes=planned_bytes)
        if run_estimate is not None:
            return run_estimate, runs, basis
    return None, (), Basis.NONE


def _deleted(runs: Iterable[Run]) -> int | None:
    figures = [run.figures.get("files_deleted") for run in runs]
    counts = [figure for figure in figures if isinstance(figure, int)]
    return round(median(counts)) if counts else None


@dataclass(frozen=True, kw_only=True, slots=True)
class Total:
    """The forecasts of a service on several tables together. `unknown` of them have no past, so the time and the cores
    of those are left out.
    """

    tables: int
    files: int
    bytes: int
    writes: int
    deletes: int
    deletes_bytes: int
    versions: int
    length: timedelta
    core_seconds: float
    unknown: int


def totals(forecasts: Mapping[Service, Sequence[Forecast]]) -> Mapping[Service, Total]:
    """Return the totals by service. What is not known counts as nothing."""
    return {service: _total(group) for service, group in forecasts.items() if group}


def _total(forecasts: Sequence[Forecast]) -> Total:
    return Total(
        tables=len(forecasts),
        files=sum(forecast.files or 0 for forecast in forecasts),
        bytes=sum(forecast.bytes or 0 for forecast in forecasts),
        writes=sum(forecast.writes or 0 for forecast in forecasts),
        deletes=sum(forecast.deletes or 0 for forecast in forecasts),
        deletes_bytes=sum(forecast.deletes_bytes or 0 for forecast in forecasts),
        versions=sum(forecast.versions or 0 for forecast in forecasts),
        length=sum((forecast.length for forecast in forecasts if forecast.length is not None), timedelta()),
        core_seconds=round(sum(forecast.core_seconds or 0.0 for forecast in forecasts), 1),
        unknown=sum(forecast.length is None for forecast in forecasts),
    )
