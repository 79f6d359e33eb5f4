"""The acts of operators and writers. Any thread asks for one, and the control thread carries it out."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Concatenate, ParamSpec, TypeVar

import structlog

from lakewarden.planners.model.decision import Blocked, Decision, DoesNotApply, NotDue, WouldRun
from lakewarden.planners.model.errors import LakewardenError, PermanentError, TemporaryError, UnknownError
from lakewarden.planners.model.instant import RunId, Service
from lakewarden.planners.model.table import Table, TableId
from lakewarden.planners.model.view import TableView
from lakewarden.planners.settings import format_duration
from lakewarden.service.control.command_queue import Command, CommandQueue
from lakewarden.service.events import Listener
from lakewarden.service.model.access import LOCAL, ActKind, Caller, Role
from lakewarden.service.model.run import Run
from lakewarden.service.ownership.table_shares import TableShares
from lakewarden.service.scheduling.run_manager import RunManager
from lakewarden.service.scheduling.run_requests import Requests
from lakewarden.service.state.barriers import BarrierAsked, BarrierGranted
from lakewarden.service.state.daemon_state import DaemonState

log = structlog.get_logger(__name__)

_Table = TypeVar("_Table", TableId, TableId | None)
_Answer = TypeVar("_Answer")
_P = ParamSpec("_P")


@dataclass(frozen=True, kw_only=True, slots=True)
class RunGiven:
    """The answer to a request for a run. `new` says whether the request made the run."""

    run: Run
    new: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class DryRun:
    """What a request for a run would meet: the decision on it, and the run that is active and would be its answer. The
    decision is made as for that request: it skips the trigger and the window.
    """

    decision: Decision
    active: Run | None
    view: TableView


RunAnswer = RunGiven | Blocked | NotDue | WouldRun | DoesNotApply
"""The run, new or already active, or why there is none."""


def _on_control_thread(
    act: Callable[Concatenate[Commands, _Table, _P], _Answer],
) -> Callable[Concatenate[Commands, _Table, _P], Future[_Answer]]:
    """Let any thread call an act on a table, or on all: the control thread carries it out, and the future has what it
    returns or raises. Afterwards the table is decided on again.
    """

    @functools.wraps(act)
    def put(self: Commands, table: _Table, /, *args: _P.args, **kwargs: _P.kwargs) -> Future[_Answer]:
        answer: Future[_Answer] = Future()
        carry_out = functools.partial(act, self, table, *args, **kwargs)
        return self.put(Command(table=table, begin=lambda: _give(answer, carry_out), changes=True, answer=answer))

    return put


class Commands:
    """Each act is a method. Any thread may call it, and it returns at once.

    An act that is not carried out raises in its future: TemporaryError if this replica does not own the table any
    more, or if the store does not answer. A caller that no longer waits cancels the future: then the act is left out
    if it has not begun.
    """

    def __init__(
        self,
        *,
        queue: CommandQueue,
        state: DaemonState,
        shares: TableShares,
        requests: Requests,
        runs: RunManager,
        listener: Listener,
    ) -> None:
        self._queue = queue
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
        self._listener = listener
        self._unread: list[tuple[Future[Any], Callable[[], object]]] = []

    # -- runs

    def request_run(
        self,
        table: TableId,
        service: Service,
        *,
        by: str,
        caller: Caller = LOCAL,
        rewrite_all: bool = False,
    ) -> Future[RunAnswer]:
        """Request a run of a service that has a policy on the registered table. It skips the trigger, but no block.

        With `rewrite_all` it is the first run of a rewrite of all files that the table has now.

        The future raises TemporaryError or PermanentError if the table cannot be read.
        """

        def ask(mark: int) -> RunAnswer | None:
            registered = self._with_policy(table, service)
            active = self._active_runs.of(table).get(service)
            if active is not None and not rewrite_all:
                return RunGiven(run=active, new=False)
            observation = self._observations.since(registered, mark)
            if observation is None:
                return None
            view = observation.view
            if rewrite_all:
                answer = self._requests.ask_for_all(registered, service, view, active, by=by)
            else:
                answer = self._requests.ask(registered, service, view, active, by=by)
            if not isinstance(answer, Run):
                return answer
            what = f"{answer.id}: a rewrite of all files" if rewrite_all else answer.id
            try:
                self._audit_log.note(caller, ActKind.RUN_REQUESTED, by=by, table=table, service=service, after=what)
            except TemporaryError as error:
                raise UnknownError(
                    f"run {answer.id} was requested, and the audit log does not have it: {error}"
                ) from error
            return RunGiven(run=answer, new=active is None)

        return self._when_read(table, ask)

    def dry_run(self, table: TableId, service: Service) -> Future[DryRun]:
        """Return what a request for a run would meet now. The table is looked at, and nothing changes.

        The future raises as that of `request_run`.
        """

        def ask(mark: int) -> DryRun | None:
            registered = self._with_policy(table, service)
            observation = self._observations.since(registered, mark)
            if observation is None:
                return None
            active = self._active_runs.of(table).get(service)
            decision = self._requests.would(registered, service, observation.view, active)
            return DryRun(decision=decision, active=active, view=observation.view)

        return self._when_read(table, ask)

    @_on_control_thread
    def end_rewrite(self, table: TableId, service: Service, *, caller: Caller = LOCAL) -> bool:
        """Withdraw a rewrite of all files. A run of it that is active may finish. The answer is False if there is
        none.
        """
        if not self._rewrites.has(table, service):
            return False
        self._audit_log.note(caller, ActKind.REWRITE_WITHDRAWN, table=table, service=service)
        return self._rewrites.end(table, service)

    @_on_control_thread
    def cancel(self, table: TableId, run: RunId, *, caller: Caller = LOCAL) -> Run | None:
        """Stop an active run of a table. The answer is the run, which may still be ending, or None if it is not active.

        The future raises PermanentError if the run has begun to commit, or if it is not known whether it has.
        """
        active = self._active_runs.get(run)
        if active is None or active.table != table:
            return None
        self._runs.check_cancellable(active)
        before = f"{active.id} was {active.state}"
        self._audit_log.note(caller, ActKind.RUN_CANCELLED, table=table, service=active.service, before=before)
        return self._runs.cancel(active, by=caller.name)

    # -- what may run

    @_on_control_thread
    def pause(self, table: TableId | None, *, reason: str, caller: Caller = LOCAL) -> None:
        """Start nothing more on a table, or on all if `table` is None. A commit that is under way may finish."""
        before = self._service_states.set_back(table)
        self._audit_log.note(caller, ActKind.PAUSED, table=table, before=before, after=reason)
        self._service_states.pause(table, reason)

    @_on_control_thread
    def resume(self, table: TableId | None, *, caller: Caller = LOCAL) -> None:
        """End a pause. If a table is given, its services leave quarantine too."""
        self._audit_log.note(caller, ActKind.RESUMED, table=table, before=self._service_states.set_back(table))
        self._service_states.resume(table)
        if table is not None:
            self._approvals.forget(table)
            self._proofs.resume(table)

    @_on_control_thread
    def release(self, table: TableId, service: Service, *, caller: Caller = LOCAL) -> bool:
        """Release a service of a table from quarantine and backoff. The answer is False if it is in neither."""
        before = self._service_states.held_back(table, service)
        if before is None:
            return False
        self._audit_log.note(caller, ActKind.RELEASED, table=table, service=service, before=before)
        self._service_states.release(table, service)
        return True

    @_on_control_thread
    def approve(self, table: TableId, service: Service, *, by: str, caller: Caller = LOCAL) -> bool:
        """Approve one deletion beyond the budget of the table. The answer is False if no deletion waits."""
        waiting = self._approvals.shown(table, service)
        if waiting is None:
            return False
        self._audit_log.note(
            caller,
            ActKind.DELETION_APPROVED,
            by=by,
            table=table,
            service=service,
            before=f"waits for an approval: {waiting}",
            after="approved",
        )
        deletion = self._approvals.give(table, service, by=by)
        if deletion is not None:
            self._listener.approved(table, service, deletion, by)
        return deletion is not None

    def hold_cleans(
        self, table: TableId, *, hold: timedelta, wait: timedelta, caller: Caller = LOCAL
    ) -> Future[BarrierGranted]:
        """Wait until no clean of the table is executing, at most for `wait`. Then start none for `hold`.

        A hold that no row tells of is not given. The future raises TemporaryError if the wait runs out.
        """
        request = BarrierAsked(table=table, caller=caller, hold=hold, wait=wait)
        terms = f"cleans held for {format_duration(hold)}, requested within {format_duration(wait)}"

        def begin() -> None:
            try:
                self._audit_log.note(caller, ActKind.BARRIER_ASKED, table=table, after=terms)
            except LakewardenError as error:
                request.answer.set_exception(error)
                return
            self._barriers.ask(request)

        return self.put(Command(table=table, begin=begin, answer=request.answer))

    @_on_control_thread
    def release_cleans(self, table: TableId, *, hold: str | None = None, caller: Caller = LOCAL) -> int:
        """End a hold on the cleans of the table, or all that the caller may end: its own, and as an operator all.

        The answer is how many were ended. The future raises PermanentError if the hold belongs to another caller.
        """
        holds = [given for given in self._barriers.holds(table) if hold in (None, given.id)]
        own = [given for given in holds if caller.may(Role.OPERATOR) or given.owner == caller.name]
        if hold is not None and holds and not own:
            raise PermanentError(f"hold {hold} belongs to {holds[0].owner}: its owner or an operator ends it")
        for given in own:
            before = f"the hold {given.id} of {given.owner} until {given.until:%Y-%m-%dT%H:%M:%SZ}"
            self._audit_log.note(caller, ActKind.BARRIER_LIFTED, table=table, before=before)
        self._barriers.lift(table, {given.id for given in own})
        return len(own)

    # -- the control thread

    def put(self, command: Command) -> Future[Any]:
        """Hand a command to the control thread, and return its answer."""
        self._queue.put(command)
        return command.answer

    def carry_out(self, command: Command) -> Iterable[TableId]:
        """Begin a command, and return the tables to decide on again. Only the control thread calls it.

        If the caller no longer waits for the answer, the command is ignored.
        """
        if not command.answer.set_running_or_notify_cancel():
            return ()
        if command.table is not None and not self._shares.owns(command.table):
            command.answer.set_exception(TemporaryError(f"this replica no longer owns table {command.table}"))
            return ()
        command.begin()
        if not command.changes:
            return ()
        tables: Collection[TableId] = self._tables if command.table is None else (command.table,)
        return tables

    def answer_waiting(self) -> None:
        """Answer the requests for runs, and for dry runs, of tables that have been read since. Only the control thread
        calls it.
        """
        self._unread = [(answer, ask) for answer, ask in self._unread if not _give(answer, ask, may_wait=True)]

    def _when_read(self, table: TableId, ask: Callable[[int], _Answer | None]) -> Future[_Answer]:
        """Answer as soon as the table has been read after now. `ask` gets the mark of now, and returns None before."""
        answer: Future[_Answer] = Future()

        def begin() -> None:
            self._unread.append((answer, functools.partial(ask, self._observations.mark())))
            self.answer_waiting()

        return self.put(Command(table=table, begin=begin, answer=answer))

    def _with_policy(self, table: TableId, service: Service) -> Table:
        """Return a table. Raises PermanentError if there is none, or if it has no policy for the service."""
        registered = self._tables.get(table)
        if registered is None:
            raise PermanentError(f"table {table} is no longer registered")
        if service not in registered.policies:
            raise PermanentError(f"table {table} has no policy for {service}: add `services: {{{service}: {{}}}}`")
        return registered


def _give(answer: Future[_Answer], carry_out: Callable[[], _Answer], *, may_wait: bool = False) -> bool:
    """Give an answer. With `may_wait`, None is no answer yet: then this is False."""
    try:
        result = carry_out()
        if may_wait and result is None:
            return False
        answer.set_result(result)
    except LakewardenError as error:
        answer.set_exception(error)
    except Exception as bug:  # it must not end the daemon
        log.exception("command_failed")
        answer.set_exception(UnknownError.unforeseen(bug))
    return True
