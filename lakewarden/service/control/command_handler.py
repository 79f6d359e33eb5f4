"""The command handler: what people and writers ask of the daemon is answered here, on the control thread."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from typing import TypeVar, assert_never

from lakewarden.planners.model.decision import Blocked, NotDue
from lakewarden.planners.model.errors import LakewardenError, PermanentError, TemporaryError
from lakewarden.planners.model.table import Table, TableId
from lakewarden.service.control.commands import Approved, BarrierLifted, PauseAsked, RunAsked, RunGiven, Wish
from lakewarden.service.events.listener import Listener
from lakewarden.service.ownership.table_shares import TableShares
from lakewarden.service.scheduling.requests import Requests
from lakewarden.service.state.active_runs import ActiveRuns
from lakewarden.service.state.approvals import Approvals
from lakewarden.service.state.backoff import Backoffs
from lakewarden.service.state.barriers import BarrierAsked, Barriers
from lakewarden.service.state.lock_proofs import LockProofs
from lakewarden.service.state.observations import Observations

_Answer = TypeVar("_Answer")


class CommandHandler:
    """Serves one wish after the other. Only the control thread calls it.

    A run that is asked for waits until its table has been read.
    """

    def __init__(
        self,
        *,
        tables: Mapping[TableId, Table],
        shares: TableShares,
        watch: Observations,
        requests: Requests,
        book: ActiveRuns,
        standings: Backoffs,
        approvals: Approvals,
        proofs: LockProofs,
        barriers: Barriers,
        listener: Listener,
    ) -> None:
        self._tables = tables
        self._shares = shares
        self._watch = watch
        self._requests = requests
        self._book = book
        self._standings = standings
        self._approvals = approvals
        self._proofs = proofs
        self._barriers = barriers
        self._listener = listener
        self._waiting: list[tuple[RunAsked, int]] = []

    def serve(self, wish: Wish) -> Iterable[TableId]:
        """Answer a wish, at once or (a barrier) when its time has come; return the tables to decide on anew.

        One whose asker has gone away meanwhile is not fulfilled.
        """
        if not wish.answer.set_running_or_notify_cancel():
            return ()
        if wish.table is not None and not self._shares.attends(wish.table):
            wish.answer.set_exception(TemporaryError(f"this replica does not attend table {wish.table} any more"))
            return ()
        match wish:
            case RunAsked():
                self._waiting.append((wish, self._watch.mark()))
                self.attend()
                return ()
            case PauseAsked():
                _answer(wish.answer, lambda: self._pause(wish))
                return self._tables if wish.table is None else (wish.table,)
            case Approved():
                _answer(wish.answer, lambda: self._approve(wish))
                return (wish.table,)
            case BarrierAsked():
                self._barriers.ask(wish)
                return ()
            case BarrierLifted():
                _answer(wish.answer, lambda: self._barriers.lift(wish.table))
                return ()
            case _:
                assert_never(wish)

    def attend(self) -> None:
        """Answer those who ask for a run of a table that has been read by now."""
        waiting, self._waiting = self._waiting, []
        for asked, mark in waiting:
            try:
                answer = self._run(asked, mark)
            except LakewardenError as trouble:
                asked.answer.set_exception(trouble)
                continue
            if answer is None:
                self._waiting.append((asked, mark))
            else:
                asked.answer.set_result(answer)

    def _run(self, asked: RunAsked, mark: int) -> RunGiven | Blocked | NotDue | None:
        """Return the run, or why there is none; None while the table is being read."""
        table = self._tables.get(asked.table)
        if table is None:
            raise PermanentError(f"table {asked.table} is registered no longer")
        if asked.service not in table.policies:
            raise PermanentError(f"table {table.id} has no policy for {asked.service}: give it one")
        active = self._book.of(table.id).get(asked.service)
        if active is not None:
            return RunGiven(run=active, new=False)
        observation = self._watch.since(table, mark)
        if observation is None:
            return None
        answer = self._requests.ask(table, asked.service, observation.view, active, by=asked.by)
        if isinstance(answer, Blocked | NotDue):
            return answer
        self._book.take_in(answer)
        return RunGiven(run=answer, new=True)

    def _pause(self, asked: PauseAsked) -> None:
        if asked.reason is not None:
            self._standings.pause(asked.table, asked.reason)
            return
        self._standings.resume(asked.table)
        if asked.table is not None:
            self._approvals.forget(asked.table)
            self._proofs.resume(asked.table)

    def _approve(self, approved: Approved) -> bool:
        deletion = self._approvals.give(approved.table, approved.service, by=approved.by)
        if deletion is not None:
            self._listener.approved(approved.table, approved.service, deletion, approved.by)
        return deletion is not None


def _answer(answer: Future[_Answer], fulfil: Callable[[], _Answer]) -> None:
    try:
        answer.set_result(fulfil())
    except LakewardenError as trouble:
        answer.set_exception(trouble)
