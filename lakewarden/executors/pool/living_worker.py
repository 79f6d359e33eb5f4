"""One session worker, as its pool knows it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from lakewarden.executors.contract import Blame, WorkerEnd
from lakewarden.executors.pool.process import WorkerProcess
from lakewarden.executors.pool.supervision import KillReason, Watchdog, Wear
from lakewarden.executors.progress import RunProgress
from lakewarden.executors.protocol import Unable
from lakewarden.planners.model.instant import RunId


@dataclass(kw_only=True, slots=True, eq=False)
class LivingWorker:
    """One worker, from its start to its end. The lock of the pool guards it, except for `process`."""

    name: str
    log: Path
    process: WorkerProcess
    watchdog: Watchdog
    wear: Wear  # since it is ready
    slots: int = 0  # 0 until it is ready
    runs: set[RunId] = field(default_factory=set)
    sizes: dict[RunId, int] = field(default_factory=dict)  # the bytes of their plans, as far as they are known
    progress: dict[RunId, RunProgress] = field(default_factory=dict)  # of its runs, the newest
    fault: KillReason | None = None  # why the daemon killed it
    unable: Unable | None = None  # why it says that it can work no more
    ours: bool = False  # whether the daemon killed it for a reason that no run has caused
    until: float | None = None  # the moment until which it was last told to live
    kept: bool = True  # also when there is nothing to do
    retiring: bool = False  # it takes no new run, and is asked to stop when it has none
    resting: bool = False  # because there was nothing to do
    stopping: bool = False

    @property
    def takes_runs(self) -> bool:
        """Whether it may be given a run, if it has a slot."""
        return not self.retiring and self.fault is None and self.unable is None

    @property
    def free(self) -> int:
        """How many more runs it takes."""
        return self.slots - len(self.runs) if self.takes_runs else 0

    def room(self, plans_at_once: int | None) -> int | None:
        """Return the bytes of the largest plan that one more run may have, if the plans in it have at most so many
        together. None: any. An idle worker takes a plan of any size.
        """
        if plans_at_once is None or not self.runs:
            return None
        return max(0, plans_at_once - sum(self.sizes.values()))

    def takes(self, size: int | None, plans_at_once: int | None) -> bool:
        """Whether it takes a run with a plan of this size (None: not known) now."""
        room = self.room(plans_at_once)
        return self.free > 0 and (room is None or (size or 0) <= room)

    def blame(self, run: RunId) -> Blame:
        """Return whether a run that was in the worker is the cause of its death."""
        if self.ours or (self.unable is not None and self.unable.no_run_is_to_blame):
            return Blame.NOT_ITS
        if self.fault is not None and self.fault.culprits:
            return Blame.ITS_OWN if run in self.fault.culprits else Blame.NOT_ITS
        return Blame.ITS_OWN if self.runs == {run} else Blame.UNKNOWN

    @property
    def why_gone(self) -> str:
        """Why it ended, if it has, in words."""
        if self.fault is not None:
            return self.fault.reason
        return f"its process ended, {self.log.name} says why" if self.unable is None else self.unable.reason

    @property
    def end(self) -> WorkerEnd:
        """Why it ended, if it has."""
        if self.ours:
            return WorkerEnd.EVICTED
        if self.fault is not None:
            return WorkerEnd.KILLED
        if self.resting:
            return WorkerEnd.RESTED
        return WorkerEnd.REPLACED if self.stopping else WorkerEnd.DIED

    def is_out_of_time(self, now: float) -> bool:
        """Whether the moment is over until which the worker may live. Then it ends by itself."""
        return self.until is not None and now >= self.until
