"""A session pool without processes, threads or Spark: it carries out runs of the fake format, step by step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lakewarden.executors.contract import (
    Asked,
    Assignment,
    Blame,
    Ended,
    Granted,
    Lost,
    PoolEvent,
    Program,
    Refused,
    Room,
    RoomChanged,
    Started,
    Step,
)
from lakewarden.executors.programs.fake import FakeArchive, FakeClean, FakeClustering, FakeCompaction
from lakewarden.executors.worker.steps import Climb, Question, climb
from lakewarden.planners.model.clock import Clock
from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.model.instant import RunId, Service
from lakewarden.planners.storage import LocalStorage


@dataclass(kw_only=True, slots=True)
class _Standing:
    """A run that stands at a question, and the step after which it is to die."""

    ladder: Climb
    question: Question
    dies_after: Step | None = None


class FakePool:
    """Fulfils `contract.Pool` in the caller's thread: a step is taken inside `answer`, and told before it returns.

    `kill` does what a dying worker does: the run is lost, and the table is left as the last step left it. `crash` is
    the death of a worker that all runs share. `executor` is the JVM that runs say they are in.
    """

    def __init__(self, *, slots: int = 1, clock: Clock | None = None, executor: str | None = None) -> None:
        self._slots = slots
        self._clock = clock
        self._executor = executor
        self._until: float | None = None
        self._advanced: dict[RunId, float] = {}
        self._programs: dict[Service, Program] = {
            Service.COMPACTION: FakeCompaction(clock=clock),
            Service.CLUSTERING: FakeClustering(clock=clock),
            Service.CLEAN: FakeClean(clock=clock),
            Service.ARCHIVE: FakeArchive(clock=clock),
        }
        self._runs: dict[RunId, _Standing] = {}
        self._tell: Callable[[PoolEvent], None]  # given to start

    def start(self, tell: Callable[[PoolEvent], None]) -> None:
        """Be ready at once."""
        self._tell = tell
        self._tell(RoomChanged(reason=f"the fake pool is ready with {self._slots} slots"))

    def room(self) -> Room:
        """Return the slots."""
        return Room(slots=self._slots, free=self._slots - len(self._runs))

    def submit(self, assignment: Assignment) -> None:
        """Take the run to its first question. Raises TemporaryError where there is no free slot."""
        self._end_what_is_out_of_time()
        if not self.room().free:
            raise TemporaryError("no free slot in the session pool")
        ladder = climb(self._programs[assignment.service], None, assignment, LocalStorage(), clock=self._clock)
        self._runs[assignment.run] = standing = _Standing(ladder=ladder, question=next(ladder))
        self._tell(Started(run=assignment.run, executor=self._executor))
        self._tell(_asked(assignment.run, standing))

    def answer(self, run: RunId, step: Step, permit: Granted | Refused) -> None:
        """Take the step, or step back. An answer for a run that is gone, or to another question, is ignored."""
        self._end_what_is_out_of_time()
        standing = self._runs.get(run)
        if standing is None or standing.question.step is not step:
            return
        said: Asked | Ended
        try:
            standing.question = standing.ladder.send(permit)
            said = _asked(run, standing)
        except StopIteration as end:
            said = Ended(run=run, outcome=end.value)
        if standing.dies_after is step:
            self.kill(run)
            return
        if isinstance(said, Ended):
            del self._runs[run]
        self._tell(said)

    def cancel(self, run: RunId, reason: str) -> None:
        """Refuse the question the run stands at."""
        if standing := self._runs.get(run):
            self.answer(run, standing.question.step, Refused(reason=reason))

    def advanced_at(self, run: RunId) -> float | None:
        """Return when `advance` was last called for the run."""
        return self._advanced.get(run)

    def advance(self, run: RunId) -> None:
        """Let a Spark task of the run end now."""
        self._advanced[run] = self._clock.monotonic() if self._clock is not None else 0.0

    def kill(self, run: RunId, *, after: Step | None = None) -> None:
        """Let the run's worker die: now, or once it has taken the step `after` and before it can say so."""
        if after is not None:
            self._runs[run].dies_after = after
            return
        self._lose(run, Lost(run=run, reason="the fake worker was killed"))

    def crash(self) -> None:
        """Let a worker die in which all runs are."""
        blame = Blame.ITS_OWN if len(self._runs) == 1 else Blame.ANYBODYS
        self._lose_all("the fake worker was killed", blame)

    def expire(self, run: RunId) -> None:
        """Let the permit of a run's step be over in a worker that all runs share."""
        for lost in list(self._runs):
            blame = Blame.ITS_OWN if lost == run else Blame.NOT_ITS
            self._lose(lost, Lost(run=lost, reason=f"the permit of run {run} has expired", blame=blame))

    def extend(self, until: float) -> None:
        """Keep the moment: what is asked of the pool after it finds its runs lost."""
        self._end_what_is_out_of_time()
        self._until = until

    def evict(self, reason: str) -> None:
        """Lose every run, and have room again at once."""
        self._lose_all(reason, Blame.NOT_ITS)
        self._tell(RoomChanged(reason=f"the fake pool has room again: {reason}"))

    def close(self) -> None:
        """Lose every run."""
        self._slots = 0
        self._lose_all("the pool was closed", Blame.NOT_ITS)

    def _end_what_is_out_of_time(self) -> None:
        if self._clock is not None and self._until is not None and self._clock.monotonic() >= self._until:
            self._lose_all("nobody said in time that it may live on", Blame.NOT_ITS)

    def _lose_all(self, reason: str, blame: Blame) -> None:
        for run in list(self._runs):
            self._lose(run, Lost(run=run, reason=reason, blame=blame))

    def _lose(self, run: RunId, lost: Lost) -> None:
        self._runs.pop(run).ladder.close()  # leaves the bracket by GeneratorExit, which no program takes for an abort
        self._tell(lost)


def _asked(run: RunId, standing: _Standing) -> Asked:
    return Asked(run=run, step=standing.question.step, plan=standing.question.plan)
