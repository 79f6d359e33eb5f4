"""One run of ours through the real decision, the real permits and the real program, in a thread as in a worker."""

from __future__ import annotations

import itertools
import queue
import threading
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from pydantic import TypeAdapter

from fuzz.rows.contract import FuzzedTable
from lakewarden.executors import points
from lakewarden.executors.contract import Assignment, Failed, FailureKind, Granted, Outcome, Plan, Refused, Wait
from lakewarden.executors.points import Point, Watcher
from lakewarden.executors.programs.registry import PROGRAMS
from lakewarden.executors.worker.runs import carry_out
from lakewarden.executors.worker.session import Session
from lakewarden.planners.decide import ServiceState, decide
from lakewarden.planners.model.clock import SystemClock
from lakewarden.planners.model.decision import Decision, Due
from lakewarden.planners.model.instant import RunId, Service, Step
from lakewarden.planners.model.table import Mode, Policy, Scheduling, Table, TableId
from lakewarden.planners.registry import FORMATS
from lakewarden.planners.storage import storage_for
from lakewarden.planners.triggers import NumCommits
from lakewarden.service.model.run import Run, RunState
from lakewarden.service.rules.permits import Limits, PermitContext, PermitRequest, judge

_HANGS = 300.0
_LONG_ENOUGH = timedelta(hours=1)
"""How long every question has waited: what would wait further is refused, or granted, as the daemon does at last."""
_NAMES = itertools.count(1)


class Keeper:
    """Our side of one table: it decides and grants as the daemon does."""

    def __init__(self, format_: str, table: FuzzedTable, session: Session) -> None:
        self._format, self._table, self._session = FORMATS[format_], table, session
        self._storage = storage_for(table.location)
        self._clock = SystemClock()

    def decide(self, service: Service, options: Mapping[str, Any]) -> Decision:
        """Decide as if an operator had asked for the service, whatever its trigger says."""
        table = self._registered(service, options)
        view = self._format.observe(table, self._storage, None, now=self._clock.now()).view
        return decide(
            service=service,
            view=view,
            policy=table.policies[service],
            service_state=ServiceState(mode=Mode.ACT),
            now=self._clock.now(),
            asked=True,
        )

    def begin(
        self,
        service: Service,
        options: Mapping[str, Any],
        due: Due,
        *,
        point: Point | None = None,
    ) -> HeldRun:
        """Begin a run. It waits for its first permit, and stands still at a point, too."""
        table = self._registered(service, options)
        assignment = Assignment(
            run=RunId(f"fuzz-{next(_NAMES)}"),
            epoch=1,
            table=table.id,
            format=table.format,
            location=table.location,
            service=service,
            instant=due.instant,
            catalog=self._table.catalog,
            table_options=table.options.model_dump(mode="json"),
            service_options=table.policies[service].options.model_dump(mode="json"),
        )
        held = HeldRun(assignment, self._session, lambda step, plan: self._permit(table, assignment, step, plan))
        if point is not None:
            points.watch_by(_Stands(assignment.run, point, held))
        return held

    def _registered(self, service: Service, options: Mapping[str, Any]) -> Table:
        policies = {
            one: Policy(
                trigger=NumCommits(at_least=1),
                options=settings.model_validate(options if one is service else {}),
                schedule=Scheduling.BOTH,
                grace=timedelta(0),
            )
            for one, settings in self._format.services.items()
            if one is service
        }
        catalog = self._table.catalog
        return Table(
            id=TableId("fuzz.rows"),
            format=self._format.name,
            location=self._table.location,
            catalog=None if catalog is None else TypeAdapter(self._format.catalog_settings).validate_python(catalog),
            mode=Mode.ACT,
            options=self._format.table_options.model_validate(self._table.options),
            policies=policies,
        )

    def _permit(self, table: Table, assignment: Assignment, step: Step, plan: Plan | None) -> Granted | Refused:
        now, instant = self._clock.now(), assignment.instant if plan is None else plan.instant
        view = self._format.observe(table, self._storage, None, now=now).view
        run = Run(
            id=assignment.run,
            table=table.id,
            identity=str(view.identity),
            service=assignment.service,
            state=RunState.RUNNING,
            reason="fuzz",
            requested_by="fuzz",
            created_at=now,
            instant=instant,
        )
        context = PermitContext(
            view=view,
            endangered=self._format.endangered(view, run.service, step=step, instant=instant),
            awaited=self._format.awaited(view, run.service, step=step, instant=instant),
            neighbours=(),
            lease_held=True,
            held=None,
            now=now,
            limits=Limits(),
        )
        permit = judge(PermitRequest(run=run, step=step, plan=plan, waited=_LONG_ENOUGH), context)
        return Refused(reason=permit.reason) if isinstance(permit, Wait) else permit


class _Stands(Watcher):
    """Lets one run stand still where it first passes a point."""

    def __init__(self, run: str, point: Point, held: HeldRun) -> None:
        self._run, self._point, self._held = run, point, held

    def reach(self, point: Point, *, run: str, service: str) -> None:
        """Stand still."""
        if (run, point) == (self._run, self._point):
            points.watch_by(Watcher())
            self._held.stand()


class HeldRun:
    """A run that stands still at each of its questions until it is told to go on."""

    def __init__(
        self, assignment: Assignment, session: Session, permit: Callable[[Step, Plan | None], Granted | Refused]
    ) -> None:
        self.service = assignment.service
        self.step: Step | None = None
        """The step that it asks for, or stands still in; None once it has ended."""
        self.stands = False
        """Whether it stands still at a point."""
        self.outcome: Outcome | None = None
        self._assignment, self._session, self._permit = assignment, session, permit
        self._said: queue.SimpleQueue[tuple[Step, Plan | None] | Outcome | None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[Granted | Refused] = queue.SimpleQueue()
        self._plan: Plan | None = None
        threading.Thread(target=self._carry_out, name=assignment.run, daemon=True).start()
        self._hear()

    def go_on(self, refusal: str | None = None) -> None:
        """Let it take the step that it asks for, if the daemon would grant it now. Returns at its next question, or at
        its end.
        """
        assert self.step is not None, "it has ended"
        free = refusal is None and not self.stands
        self._answers.put(self._permit(self.step, self._plan) if free else Refused(reason=refusal or "it stands"))
        self._hear()

    def stand(self) -> None:
        """Stand still until it is told to go on. To be called in its own thread."""
        self._said.put(None)
        self._answers.get()

    def _hear(self) -> None:
        said = self._said.get(timeout=_HANGS)
        self.stands = said is None
        if said is None:
            return
        if isinstance(said, tuple):
            self.step, self._plan = said
        else:
            self.step, self.outcome = None, said

    def _ask(self, step: Step, plan: Plan | None) -> Granted | Refused:
        self._said.put((step, plan))
        return self._answers.get()

    def _carry_out(self) -> None:
        run = self._assignment
        try:
            program = PROGRAMS[run.format].programs[run.service]()
            with self._session.for_run(run.run) as spark:
                outcome = carry_out(program, spark, run, storage_for(run.location), self._ask)
        except Exception as error:  # noqa: BLE001 - the edge of a thread
            what = f"{type(error).__name__}: {error}"
            outcome = Failed(kind=FailureKind.UNKNOWN, reason=what, step=self.step or Step.PLAN)
        self._said.put(outcome)
