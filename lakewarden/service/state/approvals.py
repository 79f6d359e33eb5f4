"""Approvals: deletions beyond a table's budget, from the moment they were shown until a person let them through.

They live in the store, so that neither the question nor its answer is lost at a restart.
"""

from __future__ import annotations

from dataclasses import replace

from lakewarden.executors.contract import Plan
from lakewarden.planners.model.clock import Clock
from lakewarden.planners.model.decision import Blocked
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Table, TableId
from lakewarden.planners.model.view import TableView
from lakewarden.service.model.rows import ApprovalRow
from lakewarden.service.model.run import Run
from lakewarden.service.rules.budget import excess
from lakewarden.service.store.port import Store


class Approvals:
    """Keeps at most one question for each service of a table. Only the control thread touches it."""

    def __init__(self, *, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._rows: dict[tuple[TableId, Service], ApprovalRow] = {}
        self.refresh()

    def refresh(self) -> None:
        """Read anew what other replicas have asked, and people have answered. Raises TemporaryError."""
        self._rows = {(row.table, row.service): row for row in self._store.approvals()}

    def missing(self, table: Table, run: Run, plan: Plan) -> str | None:
        """Return what the plan would delete beyond the budget, if nobody has approved that."""
        over = excess(plan, table.budget)
        row = self._rows.get((table.id, run.service))
        return None if row is not None and _covers(row, run, plan) else over

    def ask(self, table: Table, run: Run, plan: Plan) -> None:
        """Show a plan to people: from now on its service waits for one of them."""
        self._keep(
            ApprovalRow(
                table=table.id,
                service=run.service,
                identity=run.identity,
                instant=plan.instant,
                files=plan.files_to_delete or 0,
                files_in_table=plan.files_in_table,
                partitions=plan.partitions_to_delete or 0,
                asked_at=self._clock.now(),
            )
        )

    def waiting(self, table: Table, service: Service, view: TableView) -> Blocked | None:
        """Return the block of a service whose deletion waits for a person.

        It ends by itself where the budget has become large enough, the plan is gone, or the table is another one.
        """
        row = self._rows.get((table.id, service))
        if row is None or row.approved_by is not None or row.identity != str(view.identity):
            return None
        pending = {instant.time for instant in view.timeline.pending(service)}
        over = excess(_shown(row), table.budget)
        if over is None or (row.instant is not None and row.instant not in pending):
            return None
        return Blocked(reason=over, remedy=f"approve it: POST /v1/tables/{table.id}/services/{service}/approval")

    def open(self, table: Table, view: TableView) -> tuple[Service, ...]:
        """Return the table's services whose deletions wait for a person. May be called from any thread."""
        return tuple(service for service in table.policies if self.waiting(table, service, view) is not None)

    def give(self, table: TableId, service: Service, *, by: str) -> Plan | None:
        """Approve what waits, and return what was shown; None where nothing waits."""
        row = self._rows.get((table, service))
        if row is None or row.approved_by is not None:
            return None
        self._keep(replace(row, approved_by=by, approved_at=self._clock.now()))
        return _shown(row)

    def spend(self, table: Table, run: Run, plan: Plan) -> None:
        """Use an approval up: a deletion that it allows is under way.

        An approval of an instant ends with it: finishing what was begun and cut off needs no second one.
        """
        key = (table.id, run.service)
        if plan.instant is None and key in self._rows and excess(plan, table.budget) is not None:
            self._forget(*key)

    def forget(self, table: TableId) -> None:
        """Forget what was asked and approved for a table: what is still too much will be asked again."""
        for key in [key for key in self._rows if key[0] == table]:
            self._forget(*key)

    def _keep(self, row: ApprovalRow) -> None:
        self._store.keep_approval(row)
        self._rows[row.table, row.service] = row

    def _forget(self, table: TableId, service: Service) -> None:
        self._store.forget_approval(table, service)
        del self._rows[table, service]


def _shown(row: ApprovalRow) -> Plan:
    return Plan(
        instant=row.instant,
        files_to_delete=row.files,
        files_in_table=row.files_in_table,
        partitions_to_delete=row.partitions,
    )


def _covers(row: ApprovalRow, run: Run, plan: Plan) -> bool:
    """Whether a row approves the plan: the same instant of the same table, and at most the numbers that were shown."""
    return (
        row.approved_by is not None
        and (row.identity, row.instant) == (run.identity, plan.instant)
        and (plan.files_to_delete or 0) <= row.files
        and (plan.partitions_to_delete or 0) <= row.partitions
    )
