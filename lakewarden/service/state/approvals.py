"""Approvals: deletions that need an operator, from the moment they are shown until an operator approves them.

They are in the store, so neither the request nor the approval is lost at a restart.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from lakewarden.executors.contract import Plan
from lakewarden.planners.model.clock import Clock
from lakewarden.planners.model.decision import Blocked
from lakewarden.planners.model.instant import Service, State, Step
from lakewarden.planners.model.table import Table, TableId
from lakewarden.planners.model.view import TableView
from lakewarden.service.model.rows import ApprovalRow, RewriteRow
from lakewarden.service.model.run import Run
from lakewarden.service.rules.permits import unapproved

if TYPE_CHECKING:
    from lakewarden.service.store.sql.store import Store

APPROVED_FOR = timedelta(days=1)
"""An approval of a deletion that is planned anew ends after this time, because the table has changed since."""

_LOOKED_AT = 500
"""So many runs of a service are looked at to find one that has deleted."""


class Approvals:
    """Keeps at most one request for each service of a table. Only the control thread uses it."""

    def __init__(self, *, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._rows: dict[tuple[TableId, Service], ApprovalRow] = {}
        self._deleting: set[tuple[str, Service]] = set()
        """The identities of tables from which a service was permitted to delete. That is never taken back."""
        self.refresh()

    def refresh(self) -> None:
        """Read what other replicas have requested and operators have approved. Raises TemporaryError."""
        self._rows = {(row.table, row.service): row for row in self._store.rows(ApprovalRow)}

    def missing(self, table: Table, run: Run, plan: Plan, view: TableView) -> str | None:
        """Return what of a plan needs an approval, or None if nothing does or it is approved."""
        row = self._rows.get((table.id, run.service))
        if row is not None and _covers(row, run, plan, self._clock.now()):
            return None
        first, shorter = self._is_first(table, run), self._shorter(table, run, view)
        return unapproved(plan, table.budget, first=first, shorter=shorter)

    def ask(self, table: Table, run: Run, plan: Plan, view: TableView) -> None:
        """Show a plan to operators. From now on its service waits for an approval."""
        self._keep(
            ApprovalRow(
                table=table.id,
                service=run.service,
                identity=run.identity,
                instant=None if plan.ends_with_run else plan.instant,
                files=plan.files_to_delete or 0,
                files_in_table=plan.files_in_table,
                partitions=plan.partitions_to_delete or 0,
                asked_at=self._clock.now(),
                first=self._is_first(table, run),
                shorter=self._shorter(table, run, view),
                retained=plan.retained if plan.ends_with_run else None,
                bytes=plan.bytes_to_delete,
                versions=plan.versions_to_delete,
            )
        )

    def retained(self, run: Run) -> str | None:
        """Return the commit from which on a run keeps everything by its approval. None if no approval says it."""
        row = self._rows.get((run.table, run.service))
        return row.retained if row is not None and _counts(row, run.identity, self._clock.now()) else None

    def is_due(self, table: Table, service: Service, view: TableView) -> bool:
        """Whether the service has an approved deletion to plan anew."""
        row = self._rows.get((table.id, service))
        return row is not None and row.instant is None and _counts(row, str(view.identity), self._clock.now())

    def end(self, run: Run) -> None:
        """Forget an approval after a run that found nothing to delete."""
        row = self._rows.get((run.table, run.service))
        if row is not None and row.instant is None and row.approved_by is not None:
            self._forget(run.table, run.service)

    def waiting(self, table: Table, service: Service, view: TableView) -> Blocked | None:
        """Return the block of a service with a deletion that waits for an operator, or None.

        The block ends by itself if the budget has become large enough, the plan is gone, another client has done the
        service's work since, or the table was created again. It ends, too, if a plan is pending that was to end with
        its run: that run was killed, and the next one withdraws the plan.
        """
        row = self._rows.get((table.id, service))
        if row is None or row.approved_by is not None or row.identity != str(view.identity):
            return None
        first, shorter = row.first and table.budget.asks_first, row.shorter if table.budget.asks_shorter else None
        over = unapproved(_plan_of(row), table.budget, first=first, shorter=shorter)
        if over is None or _is_past(row, view) or _was_left(row, view):
            return None
        return Blocked(
            code="approval_needed",
            reason=over,
            remedy=f"approve it, which cannot be undone: `lakewarden approvals approve {table.id} {service}`",
        )

    def open(self, table: Table, view: TableView) -> Mapping[Service, ApprovalRow]:
        """Return the deletions of the table that wait for an operator, by service. Any thread may call it."""
        if not self._rows:
            return {}
        rows = {service: self._rows.get((table.id, service)) for service in table.policies}
        waiting = (service for service in table.policies if self.waiting(table, service, view) is not None)
        return {service: row for service in waiting if (row := rows[service]) is not None}

    def tables(self) -> Collection[TableId]:
        """Return the tables with a deletion that waits, or was approved. Any thread may call it."""
        return {table for table, _ in list(self._rows)}

    def shown(self, table: TableId, service: Service) -> str | None:
        """Return the deletion that waits, in words. None if no deletion waits."""
        row = self._rows.get((table, service))
        if row is None or row.approved_by is not None:
            return None
        return row.deletes if row.instant is None else f"{row.deletes} (plan {row.instant})"

    def give(self, table: TableId, service: Service, *, by: str) -> Plan | None:
        """Approve the deletion that waits, and return what was shown. Return None if no deletion waits."""
        row = self._rows.get((table, service))
        if row is None or row.approved_by is not None:
            return None
        self._keep(replace(row, approved_by=by, approved_at=self._clock.now()))
        return _plan_of(row)

    def spend(self, table: Table, run: Run, plan: Plan) -> None:
        """Use an approval up, because a deletion of the service was permitted.

        From now on it counts for the plan's instant alone, and ends with it. So a deletion that was interrupted needs
        no second approval.
        """
        row = self._rows.get((table.id, run.service))
        if row is None or row.approved_by is None or row.instant is not None:
            return
        if plan.instant is None:
            self._forget(table.id, run.service)
        else:
            self._keep(replace(row, instant=plan.instant, retained=None))

    def forget(self, table: TableId) -> None:
        """Forget what was requested and approved for a table. A deletion that is still too large is requested again."""
        for key in [key for key in self._rows if key[0] == table]:
            self._forget(*key)

    def _is_first(self, table: Table, run: Run) -> bool:
        """Whether a run of clean is the first one that may delete from the table, as far as the store remembers."""
        if not table.budget.asks_first or run.service is not Service.CLEAN:
            return False
        return not self._has_deleted(table.id, run)

    def _shorter(self, table: Table, run: Run, view: TableView) -> str | None:
        """Return what was kept before and the policy does not keep, unless Lakewarden has cleaned since."""
        kept = view.kept_more.get(run.service)
        if kept is None or not table.budget.asks_shorter:
            return None
        if kept.instant is None:
            return None if self._has_deleted(table.id, run) else kept.says
        ours = self._store.instants(identity=run.identity, service=run.service)
        return None if kept.instant in ours else kept.says

    def _has_deleted(self, table: TableId, run: Run) -> bool:
        """Whether a run of the service was ever permitted to delete files of the table."""
        key = (run.identity, run.service)
        if key not in self._deleting:
            runs = self._store.runs(table=table, service=run.service, limit=_LOOKED_AT)
            if any(candidate.identity == run.identity and _deletes(candidate) for candidate in runs):
                self._deleting.add(key)
        return key in self._deleting

    def _keep(self, row: ApprovalRow) -> None:
        self._store.keep_row(row)
        self._rows[row.table, row.service] = row

    def _forget(self, table: TableId, service: Service) -> None:
        self._store.forget_row(ApprovalRow, table, service)
        del self._rows[table, service]


def _deletes(run: Run) -> bool:
    """Whether a run was permitted to delete files. The permit writes the number into its row."""
    return run.step is Step.COMMIT and any(run.figures.get(key) for key in ("files_to_delete", "files_deleted"))


def _plan_of(row: ApprovalRow) -> Plan:
    return Plan(
        instant=row.instant,
        files_to_delete=row.files,
        files_in_table=row.files_in_table,
        partitions_to_delete=row.partitions,
    )


def _covers(row: ApprovalRow, run: Run, plan: Plan, now: datetime) -> bool:
    """Whether a row approves the plan: the same instant of the same table if it was shown, at most the numbers that
    were shown, and nothing that was to be kept.
    """
    return (
        _counts(row, run.identity, now)
        and row.instant in (None, plan.instant)
        and (row.retained is None or (plan.retained is not None and plan.retained <= row.retained))
        and (plan.files_to_delete or 0) <= row.files
        and (plan.partitions_to_delete or 0) <= row.partitions
    )


def _counts(row: ApprovalRow, identity: str, now: datetime) -> bool:
    """Whether a row is an approval for the table with this identity, and has not ended."""
    if row.approved_at is None or row.identity != identity:
        return False
    return row.instant is not None or now < row.approved_at + APPROVED_FOR


def _was_left(row: ApprovalRow, view: TableView) -> bool:
    """Whether a plan of ours is pending that was shown as one that ends with its run, and was not begun."""
    plans = view.timeline.pending(row.service) if row.instant is None else ()
    return any(plan.author is not None and plan.state is State.REQUESTED for plan in plans)


def _is_past(row: ApprovalRow, view: TableView) -> bool:
    """Whether the deletion that was shown cannot happen any more: its plan is gone, or another client has done it."""
    if row.instant is not None:
        return all(instant.time != row.instant for instant in view.timeline.pending(row.service))
    last = view.timeline.last_completed(row.service)
    return last is not None and last.requested_at > row.asked_at


# Rewrites of all files: from the request of an operator until a plan finds no file that is left.
#
# They are in the store, so a request goes on after a restart. Many runs may be needed, because each one is bounded.


class Rewrites:
    """Keeps at most one request for each service of a table. Only the control thread changes it."""

    def __init__(self, *, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._rows: dict[tuple[TableId, Service], RewriteRow] = {}
        self.refresh()

    def refresh(self) -> None:
        """Read what other replicas have been asked for. Raises TemporaryError."""
        self._rows = {(row.table, row.service): row for row in self._store.rows(RewriteRow)}

    def of(self, table: Table, service: Service, view: TableView) -> RewriteRow | None:
        """Return the request for a service, or None. A request for a former table with this id does not count."""
        row = self._rows.get((table.id, service))
        return None if row is None or row.identity != str(view.identity) else row

    def asked(self, table: Table, service: Service, view: TableView, mark: str, *, by: str) -> RewriteRow:
        """Return the request under way, or one that would begin now."""
        return self.of(table, service, view) or RewriteRow(
            table=table.id,
            service=service,
            identity=str(view.identity),
            mark=mark,
            asked_by=by,
            asked_at=self._clock.now(),
        )

    def begin(self, row: RewriteRow) -> None:
        """Keep a request until it ends."""
        if self._rows.get((row.table, row.service)) != row:
            self._store.keep_row(row)
            self._rows[row.table, row.service] = row

    def has(self, table: TableId, service: Service) -> bool:
        """Whether there is a request, be it for a former table with this id."""
        return (table, service) in self._rows

    def end(self, table: TableId, service: Service) -> bool:
        """Forget a request. Return whether there was one."""
        if not self.has(table, service):
            return False
        self._store.forget_row(RewriteRow, table, service)
        del self._rows[table, service]
        return True

    def under_way(self, table: Table, view: TableView) -> dict[Service, RewriteRow]:
        """Return the requests for a table, by service. Any thread may call it."""
        if not self._rows:
            return {}
        rows = {service: self.of(table, service, view) for service in table.policies}
        return {service: row for service, row in rows.items() if row is not None}

    def tables(self) -> Collection[TableId]:
        """Return the tables with requests. Any thread may call it."""
        return {table for table, _ in list(self._rows)}


def in_words(row: RewriteRow) -> str:
    """Return that a rewrite was asked for, by which operator and when."""
    return f"a rewrite of all files was requested by {row.asked_by} at {row.asked_at:%Y-%m-%d %H:%M} UTC"
