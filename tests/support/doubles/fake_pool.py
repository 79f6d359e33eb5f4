"""A session pool without processes, threads or Spark. It carries out runs of the fake format step by step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from lakewarden.executors.contract import (
    Asked,
    Assignment,
    Blame,
    Capacity,
    CapacityChanged,
    Ended,
    Failed,
    FailureKind,
    Granted,
    Lost,
    PoolEvent,
    Program,
    Refused,
    RunProgress,
    StagesDone,
    Started,
)
from lakewarden.executors.worker.runs import RunSteps, StepRequest, steps_of
from lakewarden.planners.model.clock import Clock
from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.model.instant import RunId, Service, Step
from lakewarden.planners.storage import LocalStorage
from tests.support.doubles.fake.programs import FakeArchive, FakeClean, FakeClustering, FakeCompaction


@dataclass(kw_only=True, slots=True)
class _FakeRun:
    """A run that waits for a permit, and the step after which the run is to die."""

    run_steps: RunSteps
    request: StepRequest
    dies_after: Step | None = None


class FakePool:
    """Fulfils `contract.Pool` in the thread of the caller. `answer` takes the step and reports it before it returns.

    `kill` does what a dying worker does: the run is lost, and the table stays as the last step left it. `crash` is the
    death of a worker that all runs share. `executor` is the JVM that runs report, and `application` its application on
    a cluster.
    """

    def __init__(
        self,
        *,
        slots: int = 1,
        clock: Clock | None = None,
        executor: str | None = None,
        application: str | None = None,
    ) -> None:
        self._slots = slots
        self._clock = clock
        self._executor = executor
        self._application = application
        self._until: float | None = None
        self.needed = 0
        """How many runs wait for a slot, as `need` was told last."""
        self._advanced: dict[RunId, float] = {}
        self._tasks: dict[RunId, int] = {}
        self._programs: dict[Service, Program] = {
            Service.COMPACTION: FakeCompaction(clock=clock),
            Service.CLUSTERING: FakeClustering(clock=clock),
            Service.CLEAN: FakeClean(clock=clock),
            Service.ARCHIVE: FakeArchive(clock=clock),
        }
        self._runs: dict[RunId, _FakeRun] = {}
        self._tell: Callable[[PoolEvent], None]  # set by `start`

    def start(self, tell: Callable[[PoolEvent], None]) -> None:
        """Be ready at once."""
        self._tell = tell
        self._tell(CapacityChanged(reason=f"the fake pool is ready with {self._slots} slots"))

    def capacity(self) -> Capacity:
        """Return the slots."""
        return Capacity(slots=self._slots, free=self._slots - len(self._runs), in_use=len(self._runs))

    def need(self, runs: int) -> None:
        """Keep the number. A fake worker never rests."""
        self.needed = runs

    def submit(self, assignment: Assignment) -> None:
        """Take the run to its first request for a permit. Raises TemporaryError if there is no free slot."""
        self._end_what_is_out_of_time()
        if not self.capacity().free:
            raise TemporaryError("no free slot in the session pool")
        run_steps = steps_of(self._programs[assignment.service], None, assignment, LocalStorage(), clock=self._clock)
        self._runs[assignment.run] = running = _FakeRun(run_steps=run_steps, request=next(run_steps))
        self._tell(Started(run=assignment.run, executor=self._executor, application=self._application))
        self._tell(_asked(assignment.run, running))

    def answer(self, run: RunId, step: Step, permit: Granted | Refused) -> None:
        """Take the step, or abort the run if the permit is refused.

        If the run has ended, or the answer is for another step, the answer is ignored.
        """
        self._end_what_is_out_of_time()
        running = self._runs.get(run)
        if running is None or running.request.step is not step:
            return
        said: Asked | Ended
        try:
            running.request = running.run_steps.send(permit)
            said = _asked(run, running)
        except StopIteration as end:
            said = Ended(run=run, outcome=end.value)
        if running.dies_after is step:
            self.kill(run)
            return
        if isinstance(said, Ended):
            del self._runs[run]
        self._tell(said)

    def cancel(self, run: RunId, reason: str) -> None:
        """Refuse the permit that the run waits for."""
        if running := self._runs.get(run):
            self.answer(run, running.request.step, Refused(reason=reason))

    def advanced_at(self, run: RunId) -> float | None:
        """Return when `advance` was last called for the run."""
        return self._advanced.get(run)

    def progress(self) -> Mapping[RunId, RunProgress]:
        """Return the step that each run asks for, and the size of its plan. `advance` counts its tasks."""
        return {
            run: RunProgress(
                run=run,
                step=running.request.step,
                bytes=None if running.request.plan is None else running.request.plan.bytes,
                file_groups=None if running.request.plan is None else running.request.plan.file_groups,
                done=StagesDone(jobs=1, stages=1, tasks=self._tasks.get(run, 0), tasks_done=self._tasks.get(run, 0)),
            )
            for run, running in dict(self._runs).items()
        }

    def advance(self, run: RunId) -> None:
        """Note that a Spark task of the run has ended now."""
        self._tasks[run] = self._tasks.get(run, 0) + 1
        self._advanced[run] = self._clock.monotonic() if self._clock is not None else 0.0

    def kill(self, run: RunId, *, after: Step | None = None) -> None:
        """Kill the worker of the run: now, or after it has taken the step `after` and before it can report that."""
        if after is not None:
            self._runs[run].dies_after = after
            return
        self._lose(run, Lost(run=run, reason="the fake worker was killed"))

    def give_up(self, run: RunId, reason: str) -> None:
        """End a run with an unknown result of its last step."""
        step = self._runs.pop(run).request.step
        self._tell(Ended(run=run, outcome=Failed(kind=FailureKind.UNKNOWN, reason=reason, step=step)))

    def crash(self) -> None:
        """Kill a worker that holds all runs."""
        blame = Blame.ITS_OWN if len(self._runs) == 1 else Blame.UNKNOWN
        self._lose_all("the fake worker was killed", blame)

    def expire(self, run: RunId) -> None:
        """Let the permit of a run expire in a worker that all runs share."""
        for lost in list(self._runs):
            blame = Blame.ITS_OWN if lost == run else Blame.NOT_ITS
            self._lose(lost, Lost(run=lost, reason=f"the permit of run {run} has expired", blame=blame))

    def extend(self, until: float) -> None:
        """Keep the moment until which the workers may live. A later call finds the runs lost."""
        self._end_what_is_out_of_time()
        self._until = until

    def evict(self, reason: str) -> None:
        """End every run as lost, and report the free slots at once."""
        self._lose_all(reason, Blame.NOT_ITS)
        self._tell(CapacityChanged(reason=f"the fake pool has room again: {reason}"))

    def close(self) -> None:
        """End every run as lost."""
        self._slots = 0
        self._lose_all("the pool was closed", Blame.NOT_ITS)

    def _end_what_is_out_of_time(self) -> None:
        if self._clock is not None and self._until is not None and self._clock.monotonic() >= self._until:
            self._lose_all("the lease of the daemon was not renewed in time", Blame.NOT_ITS)

    def _lose_all(self, reason: str, blame: Blame) -> None:
        for run in list(self._runs):
            self._lose(run, Lost(run=run, reason=reason, blame=blame))

    def _lose(self, run: RunId, lost: Lost) -> None:
        self._runs.pop(
            run
        ).run_steps.close()  # ends the `with` block by GeneratorExit, which no program takes for an abort
        self._tell(lost)


def _asked(run: RunId, running: _FakeRun) -> Asked:
    return Asked(run=run, step=running.request.step, plan=running.request.plan)
