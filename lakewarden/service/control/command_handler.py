"""The command handler answers the commands of operators and writers, on the control thread."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from typing import TypeVar, assert_never

import structlog

from lakewarden.planners.model.errors import LakewardenError, PermanentError, TemporaryError, UnknownError
from lakewarden.planners.model.table import TableId
from lakewarden.planners.settings import format_duration
from lakewarden.service.control.commands import (
    AdoptionAsked,
    Approved,
    BarrierLifted,
    Command,
    DryRunAsked,
    PauseAsked,
    QuarantineAsked,
    RewriteEnded,
    RunAsked,
    RunCancelled,
)
from lakewarden.service.control.run_requests import RunRequests
from lakewarden.service.events.listener import Listener
from lakewarden.service.model.access import Role
from lakewarden.service.model.acts import ActKind
from lakewarden.service.model.rows import AdoptionRow
from lakewarden.service.model.run import Run
from lakewarden.service.ownership.table_shares import TableShares
from lakewarden.service.scheduling.requests import Requests
from lakewarden.service.scheduling.run_manager import RunManager
from lakewarden.service.state.barriers import BarrierAsked
from lakewarden.service.state.daemon_state import DaemonState

log = structlog.get_logger(__name__)

_Answer = TypeVar("_Answer")


class CommandHandler:
    """Handles one command after the other. Only the control thread calls it.

    A request for a run waits until its table has been read.
    """

    def __init__(
        self,
        *,
        state: DaemonState,
        shares: TableShares,
        requests: Requests,
        runs: RunManager,
        listener: Listener,
    ) -> None:
        self._tables = state.tables
        self._shares = shares
        self._observations = state.observations
        self._requests = requests
        self._runs = runs
        self._active_runs = state.active_runs
        self._service_states = state.service_states
        self._approvals = state.approvals
        self._rewrites = state.rewrites
        self._proofs = state.proofs
        self._barriers = state.barriers
        self._audit_log = state.audit_log
        self._adoptions = state.adoptions
        self._listener = listener
        self._run_requests = RunRequests(state=state, requests=requests)

    def serve(self, command: Command) -> Iterable[TableId]:
        """Answer a command, at once or (a barrier) later. Return the tables to decide on again.

        If the caller no longer waits for the answer, the command is ignored.
        """
        if not command.answer.set_running_or_notify_cancel():
            return ()
        if command.table is not None and not self._shares.owns(command.table):
            command.answer.set_exception(TemporaryError(f"this replica does not own table {command.table} any more"))
            return ()
        match command:
            case RunAsked() | DryRunAsked():
                self._run_requests.put(command)
            case BarrierAsked():
                self._hold(command)
            case BarrierLifted():
                _answer(command.answer, lambda: self._lift(command))
            case AdoptionAsked():
                _answer(command.answer, lambda: self._adopt(command))
            case _:
                return self._change(command)
        return ()

    def _change(
        self, command: PauseAsked | Approved | RewriteEnded | RunCancelled | QuarantineAsked
    ) -> Iterable[TableId]:
        """Answer a command that can change decisions."""
        match command:
            case PauseAsked():
                _answer(command.answer, lambda: self._pause(command))
                return self._tables if command.table is None else (command.table,)
            case Approved():
                _answer(command.answer, lambda: self._approve(command))
            case RewriteEnded():
                _answer(command.answer, lambda: self._end_rewrite(command))
            case RunCancelled():
                _answer(command.answer, lambda: self._cancel(command))
            case QuarantineAsked():
                _answer(command.answer, lambda: self._quarantine(command))
            case _:
                assert_never(command)
        return (command.table,)

    def answer_waiting(self) -> None:
        """Answer the requests for runs of tables that have been read since."""
        self._run_requests.answer_waiting()

    def _end_rewrite(self, ended: RewriteEnded) -> bool:
        if not self._rewrites.has(ended.table, ended.service):
            return False
        self._audit_log.note(ended.caller, ActKind.REWRITE_WITHDRAWN, table=ended.table, service=ended.service)
        return self._rewrites.end(ended.table, ended.service)

    def _pause(self, asked: PauseAsked) -> None:
        kind = ActKind.RESUMED if asked.reason is None else ActKind.PAUSED
        before = self._service_states.set_back(asked.table)
        self._audit_log.note(asked.caller, kind, table=asked.table, before=before, after=asked.reason)
        if asked.reason is not None:
            self._service_states.pause(asked.table, asked.reason)
            return
        self._service_states.resume(asked.table)
        if asked.table is not None:
            self._approvals.forget(asked.table)
            self._proofs.resume(asked.table)

    def _hold(self, asked: BarrierAsked) -> None:
        """Note a request for a hold, and take it. A hold that no row tells of is not given."""
        said = f"cleans wait for {format_duration(asked.hold)}, asked for within {format_duration(asked.wait)}"
        try:
            self._audit_log.note(asked.caller, ActKind.BARRIER_ASKED, table=asked.table, after=said)
        except LakewardenError as error:
            asked.answer.set_exception(error)
            return
        self._barriers.ask(asked)

    def _lift(self, lifted: BarrierLifted) -> int:
        holds = [hold for hold in self._barriers.holds(lifted.table) if lifted.hold in (None, hold.id)]
        mine = [hold for hold in holds if lifted.caller.may(Role.OPERATOR) or hold.owner == lifted.caller.name]
        if lifted.hold is not None and holds and not mine:
            raise PermanentError(f"hold {lifted.hold} belongs to {holds[0].owner}: its owner or an operator ends it")
        for hold in mine:
            said = f"the hold {hold.id} of {hold.owner} until {hold.until:%Y-%m-%dT%H:%M:%SZ}"
            self._audit_log.note(lifted.caller, ActKind.BARRIER_LIFTED, table=lifted.table, before=said)
        self._barriers.lift(lifted.table, {hold.id for hold in mine})
        return len(mine)

    def _adopt(self, asked: AdoptionAsked) -> Sequence[AdoptionRow]:
        """Begin or end adoptions. The phase of each goes on by itself (`control/adopting.py`)."""
        for table in (*asked.waves, *asked.left):
            before = self._adoptions.of(table)
            kind = ActKind.ADOPTED if table in asked.waves else ActKind.GIVEN_BACK
            after = f"wave {asked.waves[table]}" if table in asked.waves else None
            self._audit_log.note(
                asked.caller, kind, table=table, before=None if before is None else before.phase, after=after
            )
        self._adoptions.begin(asked.waves, by=asked.caller.name)
        self._adoptions.leave(asked.left, by=asked.caller.name)
        found = (self._adoptions.of(table) for table in (*asked.waves, *asked.left))
        return [row for row in found if row is not None]

    def _cancel(self, cancelled: RunCancelled) -> Run | None:
        run = self._active_runs.get(cancelled.run)
        if run is None or run.table != cancelled.table:
            return None
        self._runs.check_cancellable(run)
        self._audit_log.note(
            cancelled.caller,
            ActKind.RUN_CANCELLED,
            table=run.table,
            service=run.service,
            before=f"{run.id} was {run.state}",
        )
        return self._runs.cancel(run, by=cancelled.caller.name)

    def _quarantine(self, asked: QuarantineAsked) -> bool:
        before = self._service_states.held_back(asked.table, asked.service)
        if asked.reason is None and before is None:
            return False
        kind = ActKind.RELEASED if asked.reason is None else ActKind.QUARANTINED
        self._audit_log.note(
            asked.caller, kind, table=asked.table, service=asked.service, before=before, after=asked.reason
        )
        if asked.reason is None:
            self._service_states.release(asked.table, asked.service)
        else:
            self._service_states.quarantine(asked.table, asked.service, asked.reason)
        return True

    def _approve(self, approved: Approved) -> bool:
        shown = self._approvals.shown(approved.table, approved.service)
        if shown is None:
            return False
        self._audit_log.note(
            approved.caller,
            ActKind.DELETION_APPROVED,
            by=approved.by,
            table=approved.table,
            service=approved.service,
            before=f"waits for an approval: {shown}",
            after="approved",
        )
        deletion = self._approvals.give(approved.table, approved.service, by=approved.by)
        if deletion is not None:
            self._listener.approved(approved.table, approved.service, deletion, approved.by)
        return deletion is not None


def _answer(answer: Future[_Answer], fulfil: Callable[[], _Answer]) -> None:
    try:
        answer.set_result(fulfil())
    except LakewardenError as error:
        answer.set_exception(error)
    except Exception as bug:  # it must not end the daemon
        log.exception("command_failed")
        answer.set_exception(UnknownError.unforeseen(bug))
