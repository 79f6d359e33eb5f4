"""What a run would do, before it does it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from lakewarden.planners.model.instant import PlanSize, Service, State
from lakewarden.planners.model.view import Backlog
from lakewarden.service.model.run import Run, RunState
from lakewarden.service.rules.forecast import Basis, Forecast, Past, forecast, totals
from tests.support.values import NOW, a_run, a_view, an_instant

REWRITE = Backlog(commits=3, files=40, bytes=4000, file_groups=4, writes=5)


def past(seconds: float, *, size: int | None = None, cores: float | None = None, **figures: Any) -> Run:
    """Return a run that took so long, rewrote so many bytes and occupied cores for so long."""
    said = {"commit_seconds": 0.1, "bytes_rewritten": size, "core_seconds": cores, **figures}
    known = {name: value for name, value in said.items() if value is not None}
    return a_run(state=RunState.SUCCEEDED, started_at=NOW, ended_at=NOW + timedelta(seconds=seconds), figures=known)


def said(service: Service = Service.COMPACTION, backlog: Backlog = REWRITE, **runs: Any) -> Forecast:
    """Return the forecast for a table with this backlog."""
    found = forecast(service, a_view(backlogs={service: backlog}), Past(**runs))
    assert found is not None
    return found


def test_the_tables_own_runs_count_before_those_of_others() -> None:
    """Time and cores grow with the bytes. The forecast says which runs it goes by."""
    own, other = past(10, size=1000, cores=20), past(500, size=1000, cores=1000)
    found = said(own=[own, own], likes=[other])
    assert (found.files, found.bytes, found.writes) == (40, 4000, 5)
    assert (found.length, found.core_seconds) == (timedelta(seconds=40), 80)
    assert (found.runs, found.basis) == (2, Basis.OWN)
    assert said(likes=[other]).basis is Basis.LIKES


def test_without_a_past_the_time_is_not_known_and_the_work_is() -> None:
    """Nothing is made up: neither time nor cores."""
    found = said()
    assert (found.files, found.length, found.core_seconds, found.basis) == (40, None, None, Basis.NONE)


def test_a_pending_plan_is_forecast_by_its_own_size() -> None:
    """The run takes up the plan, and not the backlog."""
    plan = an_instant(
        time="7", state=State.REQUESTED, stands_for=Service.COMPACTION, plan=PlanSize(file_groups=2, bytes=600)
    )
    view = a_view(plan, backlogs={Service.COMPACTION: REWRITE})
    found = forecast(Service.COMPACTION, view, Past(own=[past(1, size=100)]), instant="7")
    assert found is not None
    assert (found.bytes, found.writes, found.length) == (600, 2, timedelta(seconds=6))


def test_bytes_are_compared_as_plans_state_them() -> None:
    """A plan of Hudi states its log files alone. A compaction reads the base files, too."""
    found = said(backlog=replace(REWRITE, plan_bytes=200), own=[past(10, size=100, cores=5)])
    assert (found.bytes, found.length, found.core_seconds) == (4000, timedelta(seconds=20), 10)


def test_what_a_deletion_takes_is_by_the_table_or_else_by_its_own_past() -> None:
    """Other tables say how long it takes, and never how many files go."""
    counted = said(Service.CLEAN, Backlog(versions=7, deletes=30, deletes_bytes=900), own=[past(2, files_deleted=1)])
    assert (counted.versions, counted.deletes, counted.deletes_bytes) == (7, 30, 900)
    listed = said(Service.TTL, Backlog(files=12, bytes=80))
    assert (listed.deletes, listed.deletes_bytes, listed.files) == (12, 80, None)
    unknown = Backlog(commits=4)
    assert said(Service.ORPHANS, unknown, own=[past(2, files_deleted=9)]).deletes == 9
    assert said(Service.ORPHANS, unknown, likes=[past(2, files_deleted=9)]).deletes is None


def test_a_table_without_work_has_no_forecast() -> None:
    """There is nothing to say about a service without a backlog."""
    assert forecast(Service.COMPACTION, a_view(), Past(own=[past(1)])) is None
    idle = a_view(backlogs={Service.COMPACTION: Backlog(file_groups=0)})
    assert forecast(Service.COMPACTION, idle, Past(own=[past(1)])) is None


_FORECASTS = st.builds(
    Forecast,
    files=st.none() | st.integers(0, 10**9),
    deletes=st.none() | st.integers(0, 10**9),
    length=st.none() | st.timedeltas(timedelta(), timedelta(days=300)),
)


@given(st.lists(_FORECASTS, max_size=20))
def test_a_total_is_the_sum_of_what_is_known(found: list[Forecast]) -> None:
    """It says of how many tables the time is not known."""
    total = totals({Service.CLEAN: found, Service.TTL: []})
    assert Service.TTL not in total
    if not found:
        assert total == {}
        return
    one = total[Service.CLEAN]
    assert one.tables == len(found)
    assert one.files == sum(it.files or 0 for it in found)
    assert one.deletes == sum(it.deletes or 0 for it in found)
    assert one.unknown == sum(it.length is None for it in found)
    more = totals({Service.CLEAN: [*found, replace(found[0], length=None)]})[Service.CLEAN]
    assert (more.length, more.unknown) == (one.length, one.unknown + 1)
