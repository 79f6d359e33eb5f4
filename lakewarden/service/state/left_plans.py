"""Foreign executors: another program completes a plan of ours that no run of ours carried out."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import TableId
from lakewarden.planners.model.view import TableView
from lakewarden.service.model.run import Run


class LeftPlans:
    """Remembers, from one decision on a table to the next, the plans of ours that no run carried out.

    It forgets them at a restart, and if another replica owns the table. A completion in that time is not noticed.
    """

    def __init__(self) -> None:
        self._left: dict[TableId, dict[str, Service]] = {}

    def completed_by_others(self, table: TableId, view: TableView) -> Mapping[Service, str]:
        """Return the services with a plan that was left and has been completed since, each with its instant."""
        left = self._left.get(table, {})
        completed = {instant.time for instant in view.timeline.instants if not instant.pending}
        return {service: time for time, service in left.items() if time in completed}

    def remember(
        self, table: TableId, view: TableView, ours: Mapping[Service, Collection[str]], runs: Collection[Run]
    ) -> None:
        """Note the pending plans of `ours` that none of `runs`, the active runs of the table, carries out."""
        carried = {run.instant for run in runs}
        planners = {run.id for run in runs}
        self._left[table] = {
            plan.time: service
            for service, times in ours.items()
            for plan in view.timeline.pending(service)
            if plan.time in times and plan.time not in carried and plan.author not in planners
        }

    def forget(self, table: TableId) -> None:
        """Forget the plans of a table. From now on another owner may rightly carry them out."""
        self._left.pop(table, None)

    def taken_up(self, run: Run) -> None:
        """Note that a run of ours is about to carry out a plan."""
        if run.instant is not None:
            self._left.get(run.table, {}).pop(run.instant, None)
