"""The requests for runs, and for dry runs, of operators. Each waits until its table has been read."""

from __future__ import annotations

import functools
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

import structlog

from lakewarden.planners.model.decision import Blocked, DoesNotApply, NotDue, WouldRun
from lakewarden.planners.model.errors import LakewardenError, PermanentError, TemporaryError, UnknownError
from lakewarden.planners.model.table import Table
from lakewarden.service.control.commands import DryRun, DryRunAsked, RunAsked, RunGiven
from lakewarden.service.model.acts import ActKind
from lakewarden.service.model.run import Run
from lakewarden.service.scheduling.requests import Requests
from lakewarden.service.state.daemon_state import DaemonState

log = structlog.get_logger(__name__)

_Answer = TypeVar("_Answer")


class RunRequests:
    """Answers one request after the other. Only the control thread calls it."""

    def __init__(self, *, state: DaemonState, requests: Requests) -> None:
        self._tables = state.tables
        self._observations = state.observations
        self._active_runs = state.active_runs
        self._audit_log = state.audit_log
        self._requests = requests
        self._waiting: list[tuple[RunAsked | DryRunAsked, int]] = []

    def put(self, asked: RunAsked | DryRunAsked) -> None:
        """Take a request. It is answered at once, if its table can be read at once."""
        self._waiting.append((asked, self._observations.mark()))
        self.answer_waiting()

    def answer_waiting(self) -> None:
        """Answer the requests for runs, and for dry runs, of tables that have been read since."""
        waiting, self._waiting = self._waiting, []
        for asked, mark in waiting:
            if isinstance(asked, DryRunAsked):
                there = self._answered(asked.answer, functools.partial(self._dry_run, asked, mark))
            else:
                there = self._answered(asked.answer, functools.partial(self._run, asked, mark))
            if not there:
                self._waiting.append((asked, mark))

    @staticmethod
    def _answered(answer: Future[_Answer], ask: Callable[[], _Answer | None]) -> bool:
        """Give an answer that is there. False while the table is being read."""
        try:
            found = ask()
        except LakewardenError as error:
            answer.set_exception(error)
            return True
        except Exception as bug:  # it must not end the daemon
            log.exception("request_failed")
            answer.set_exception(UnknownError.unforeseen(bug))
            return True
        if found is not None:
            answer.set_result(found)
        return found is not None

    def _policy(self, asked: RunAsked | DryRunAsked) -> Table:
        """Return the table of a request. Raises PermanentError if there is none, or if it has no such policy."""
        table = self._tables.get(asked.table)
        if table is None:
            raise PermanentError(f"table {asked.table} is registered no longer")
        if asked.service not in table.policies:
            raise PermanentError(f"table {table.id} has no policy for {asked.service}: give it one")
        return table

    def _dry_run(self, asked: DryRunAsked, mark: int) -> DryRun | None:
        """Return what a request for the run would meet. Return None while the table is being read."""
        table = self._policy(asked)
        observation = self._observations.since(table, mark)
        if observation is None:
            return None
        active = self._active_runs.of(table.id).get(asked.service)
        decision = self._requests.would(table, asked.service, observation.view, active)
        return DryRun(decision=decision, active=active, view=observation.view)

    def _run(self, asked: RunAsked, mark: int) -> RunGiven | Blocked | NotDue | WouldRun | DoesNotApply | None:
        """Return the run, or why there is none. Return None while the table is being read."""
        table = self._policy(asked)
        active = self._active_runs.of(table.id).get(asked.service)
        if active is not None and not asked.rewrite_all:
            return RunGiven(run=active, new=False)
        observation = self._observations.since(table, mark)
        if observation is None:
            return None
        if asked.rewrite_all:
            answer = self._requests.ask_for_all(
                table, asked.service, observation.view, active, by=asked.by, dry_run=asked.dry_run
            )
        else:
            answer = self._requests.ask(table, asked.service, observation.view, active, by=asked.by)
        if isinstance(answer, Blocked | NotDue | WouldRun | DoesNotApply):
            return answer
        try:
            self._audit_log.note(
                asked.caller,
                ActKind.RUN_REQUESTED,
                by=asked.by,
                table=table.id,
                service=asked.service,
                after=_in_words(asked, answer),
            )
        except TemporaryError as error:
            raise UnknownError(f"run {answer.id} was requested, and the audit log does not have it: {error}") from error
        return RunGiven(run=answer, new=active is None)


def _in_words(asked: RunAsked, run: Run) -> str:
    if not asked.rewrite_all:
        return run.id
    return f"{run.id}: the dry run of a rewrite of all files" if asked.dry_run else f"{run.id}: a rewrite of all files"
