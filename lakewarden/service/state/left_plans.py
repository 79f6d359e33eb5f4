"""Foreign executors: somebody else completes a plan of ours that no run of ours was at."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import TableId
from lakewarden.planners.model.view import TableView
from lakewarden.service.model.run import Run


class LeftPlans:
    """Remembers, from one decision on a table to the next, the plans of ours that nobody was carrying out.

    It forgets them at a restart, and where another replica attends the table: what is completed then is not noticed.
    """

    def __init__(self) -> None:
        self._left: dict[TableId, dict[str, Service]] = {}

    def completed_by_others(self, table: TableId, view: TableView) -> Mapping[Service, str]:
        """Return the services of which a plan that was left has been completed since, each with its instant."""
        left = self._left.get(table, {})
        completed = {instant.time for instant in view.timeline.instants if not instant.pending}
        return {service: time for time, service in left.items() if time in completed}

    def remember(
        self, table: TableId, view: TableView, ours: Mapping[Service, Collection[str]], runs: Collection[Run]
    ) -> None:
        """Take down the pending plans of `ours` that none of `runs`, the table's active ones, is about."""
        carried = {run.instant for run in runs}
        planners = {run.id for run in runs}
        self._left[table] = {
            plan.time: service
            for service, times in ours.items()
            for plan in view.timeline.pending(service)
            if plan.time in times and plan.time not in carried and plan.author not in planners
        }

    def forget(self, table: TableId) -> None:
        """Forget a table's plans: somebody else may carry them out from now on, rightly."""
        self._left.pop(table, None)

    def taken_up(self, run: Run) -> None:
        """Know that a run of ours is about to carry a plan out."""
        if run.instant is not None:
            self._left.get(run.table, {}).pop(run.instant, None)
