"""The session pool as the daemon sees it: worker processes, their supervision, and what they tell. Free of Spark."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import assert_never

import structlog

from lakewarden.executors.contract import (
    Asked,
    Assignment,
    Blame,
    Ended,
    Granted,
    Lost,
    PoolEvent,
    Refused,
    Room,
    RoomChanged,
    Started,
    Step,
)
from lakewarden.executors.pool.leftovers import Marks
from lakewarden.executors.pool.process import WorkerProcess
from lakewarden.executors.pool.supervision import Backoff, Fault, Watch, Wear, allowance
from lakewarden.executors.pool.worker_log import keep_within
from lakewarden.executors.profile import SparkProfile
from lakewarden.executors.protocol import (
    Answer,
    Beat,
    Begin,
    Cancel,
    FromDaemon,
    LiveUntil,
    ProtocolError,
    Ready,
    Stop,
)
from lakewarden.planners.model.clock import Clock, SystemClock
from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.model.instant import RunId
from lakewarden.planners.storage.settings import StoreSettings

log = structlog.get_logger(__name__)

_LOOK_EVERY_SECONDS = 0.2
_OUT_OF_TIME = "it was not told in time that it may live on"
_UTF_8 = ("UTF-8", "UTF8")
_OTHER_NAMES = (
    "its JVM takes the names of files for {}, and would find none with a letter beyond ASCII: install the locale "
    "C.UTF-8 on this machine, and set no sun.jnu.encoding in the profile's conf"
)


@dataclass(kw_only=True, slots=True, eq=False)
class _Worker:
    """One life of one worker. Guarded by the pool's lock, except for `process`."""

    name: str
    log: Path
    process: WorkerProcess
    watch: Watch
    wear: Wear  # since it is ready
    slots: int = 0  # none until it is ready
    runs: set[RunId] = field(default_factory=set)
    fault: Fault | None = None  # why we killed it
    ours: bool = False  # whether that was for a reason of our own
    until: float | None = None  # the moment it was last told to live until
    retiring: bool = False  # it takes no new run, and is asked to stop when it has none
    stopping: bool = False

    @property
    def free(self) -> int:
        return 0 if self.retiring or self.fault else self.slots - len(self.runs)

    def blame(self, run: RunId) -> Blame:
        """Return whose fault it is that the worker is dead, as far as a run is concerned that was in it."""
        if self.ours:
            return Blame.NOT_ITS
        if self.fault is not None and self.fault.culprits:
            return Blame.ITS_OWN if run in self.fault.culprits else Blame.NOT_ITS
        return Blame.ITS_OWN if self.runs == {run} else Blame.ANYBODYS

    def is_out_of_time(self, now: float) -> bool:
        """Whether the moment has passed until which it may live: it ends by itself, if it has not ended yet."""
        return self.until is not None and now >= self.until


class WorkerPool:
    """A pool of session workers that are child processes of the daemon: fulfils `contract.Pool`.

    Every worker has one keeper thread. It starts the worker, passes on what the worker says, and, when the worker's
    end of the channel closes, makes sure that worker and JVM are gone before it tells `Lost`. So all that is told
    of one run is told by one thread, in order. One more thread looks at every worker's watch and kills the faulty:
    the rest follows from the closed channel.
    """

    def __init__(
        self,
        profile: SparkProfile,
        *,
        directory: Path,
        storage: Sequence[StoreSettings] = (),
        clock: Clock | None = None,
    ) -> None:
        """Keep the workers' working directory and logs in `directory`, which is made when it does not exist.

        `storage` are the settings of every store that a table of the pool may be on.
        """
        self._profile = profile
        self._storage = storage
        self._directory = directory
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._workers: list[_Worker] = []
        self._owner: dict[RunId, _Worker] = {}
        self._until: float | None = None
        self._closing = threading.Event()
        self._threads: list[threading.Thread] = []
        self._tell: Callable[[PoolEvent], None]  # given to start
        self._mark: str  # of every process of ours, made by start

    def start(self, tell: Callable[[PoolEvent], None]) -> None:
        """Start the workers, after what an earlier daemon may have left of its own. RoomChanged is told when one is
        ready.
        """
        self._tell = tell
        self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._mark = Marks(self._directory).renew()
        keepers = [
            threading.Thread(target=self._keep, args=(f"worker-{n}",), name=f"pool-worker-{n}", daemon=True)
            for n in range(1, self._profile.workers + 1)
        ]
        self._threads = [*keepers, threading.Thread(target=self._supervise, name="pool-supervisor", daemon=True)]
        for thread in self._threads:
            thread.start()

    def room(self) -> Room:
        """Return the slots of all workers that are ready."""
        with self._lock:
            serving = [w for w in self._workers if not w.retiring and not w.fault]
            return Room(slots=sum(w.slots for w in serving), free=sum(w.free for w in serving))

    def submit(self, assignment: Assignment) -> None:
        """Give a run to the least busy worker. Raises TemporaryError where there is no free slot."""
        with self._lock:
            worker = max(self._workers, key=lambda w: w.free, default=None)
            if worker is None or worker.free <= 0:
                raise TemporaryError("no free slot in the session pool")
            worker.runs.add(assignment.run)
            worker.wear.run_taken()
            self._owner[assignment.run] = worker
        self._send(worker, assignment)

    def answer(self, run: RunId, step: Step, permit: Granted | Refused) -> None:
        """Answer a run's question. An answer for a run that is gone is ignored."""
        with self._lock:
            worker = self._owner.get(run)
            if worker is None:
                return
            if isinstance(permit, Granted) and permit.expires is not None:
                worker.watch.permitted(run, allowance(permit.expires, permit.at_most, now=self._clock.monotonic()))
        self._send(worker, Answer(run=run, step=step, permit=permit))

    def advanced_at(self, run: RunId) -> float | None:
        """Return when a Spark task of the run was last seen to end."""
        with self._lock:
            worker = self._owner.get(run)
            return None if worker is None else worker.watch.advanced_at(run)

    def cancel(self, run: RunId, reason: str) -> None:
        """Ask a run to stop; its worker is killed if the run has not ended within the profile's grace."""
        with self._lock:
            worker = self._owner.get(run)
            if worker is None:
                return
            worker.watch.cancelled(run, self._clock.monotonic())
        self._send(worker, Cancel(run=run, reason=reason))

    def extend(self, until: float) -> None:
        """Tell every worker, also one that starts later, until when it may live. One told too late is killed."""
        now = self._clock.monotonic()
        with self._lock:
            self._until = until
            late = [w for w in self._workers if w.is_out_of_time(now)]
            living = [w for w in self._workers if w not in late]
            for worker in living:
                worker.until = until
        for worker in late:
            self._end(worker, _OUT_OF_TIME, ours=True)
        for worker in living:
            self._send(worker, LiveUntil(moment=until))

    def evict(self, reason: str) -> None:
        """Kill every worker with its JVM and return when they are gone; their keepers start new ones."""
        with self._lock:
            workers = list(self._workers)
        for worker in workers:
            self._end(worker, reason, ours=True)
        for worker in workers:
            worker.process.wait_until_gone()

    def close(self) -> None:
        """Kill every worker with its JVM and return when they are gone."""
        self._closing.set()
        self.evict("the pool was closed")
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join()

    # ---- one keeper thread per worker

    def _keep(self, name: str) -> None:
        backoff = Backoff()
        for life in itertools.count(1):
            while self._is_out_of_time():  # a worker that were started now would end at once
                if self._closing.wait(_LOOK_EVERY_SECONDS):
                    return
            pause = self._live(f"{name}.{life}", self._directory / f"{name}.log", backoff)
            if self._closing.wait(pause.total_seconds()):
                return

    def _is_out_of_time(self) -> bool:
        with self._lock:
            return self._until is not None and self._clock.monotonic() >= self._until

    def _live(self, name: str, output: Path, backoff: Backoff) -> timedelta:
        """Follow one life of a worker from its start to its end; return how long to wait before the next."""
        try:
            worker = self._bring_up(name, log=output)
        except OSError as error:
            log.warning("a session worker could not be started", worker=name, reason=str(error))
            return backoff.after_death()
        self._listen(worker)
        with self._lock:  # it ends itself when a permit is over
            worker.fault = worker.fault or worker.watch.overdue(self._clock.monotonic())
        worker.process.wait_until_gone()
        worker.process.tidy_up()
        self._bury(worker)
        if worker.slots:
            backoff.worked()
        return timedelta(0) if worker.stopping or worker.ours else backoff.after_death()

    def _bring_up(self, name: str, *, log: Path) -> _Worker:
        scratch, now = log.with_suffix(".scratch"), self._clock.monotonic()
        worker = _Worker(
            name=name,
            log=log,
            process=WorkerProcess(directory=self._directory, log=log, scratch=scratch, mark=self._mark),
            watch=Watch(self._profile, started=now),
            wear=Wear(self._profile, started=now),
        )
        storage = tuple(store.model_dump(mode="json") for store in self._storage)
        self._send(
            worker, Begin(profile=self._profile.model_dump(mode="json"), storage=storage)
        )  # before anything else
        with self._lock:
            self._workers.append(worker)
            worker.until = self._until
        if worker.until is not None:
            self._send(worker, LiveUntil(moment=worker.until))
        if self._closing.is_set():  # closed between the last look and now
            self._end(worker, "the pool was closed", ours=True)
        return worker

    def _listen(self, worker: _Worker) -> None:
        """Pass on what the worker says until it is gone, or says what nobody understands."""
        try:
            for frame in worker.process.channel.received():
                match frame:
                    case Ready():
                        self._ready(worker, frame)
                    case Beat():
                        with self._lock:
                            worker.watch.proof_of_life(self._clock.monotonic())
                            worker.wear.weighed(frame.rss_bytes)
                            for run in worker.runs.intersection(frame.advanced):
                                worker.watch.advanced(run, self._clock.monotonic())
                    case Started():
                        self._tell(frame)
                    case Asked():
                        with self._lock:
                            worker.watch.step_ended(frame.run)
                        self._tell(frame)
                    case Ended():
                        self._ended(worker, frame)
                    case Begin() | Assignment() | Answer() | Cancel() | LiveUntil() | Stop():
                        raise ProtocolError(f"{type(frame).__name__} is for workers to hear, not to say")
                    case _:
                        assert_never(frame)
        except ProtocolError as broken:
            self._end(worker, f"it spoke nonsense: {broken}")

    def _ready(self, worker: _Worker, ready: Ready) -> None:
        if ready.file_names.upper() not in _UTF_8:
            self._end(worker, _OTHER_NAMES.format(ready.file_names))
            return
        with self._lock:
            worker.slots = ready.slots
            worker.wear = Wear(self._profile, started=self._clock.monotonic())
            worker.watch.proof_of_life(self._clock.monotonic())
        log.info("a session worker is ready", worker=worker.name, jvm_pid=ready.jvm_pid, **ready.versions)
        self._tell(RoomChanged(reason=f"{worker.name} is ready with {ready.slots} slots"))

    def _ended(self, worker: _Worker, ended: Ended) -> None:
        with self._lock:
            worker.watch.run_ended(ended.run)
            worker.runs.discard(ended.run)
            self._owner.pop(ended.run, None)
        self._tell(ended)
        self._retire_if_worn(worker)

    def _bury(self, worker: _Worker) -> None:
        """Tell of the end of a worker that is gone, and of every run it took with it."""
        with self._lock:
            self._workers.remove(worker)
            lost = sorted(worker.runs)
            for run in lost:
                del self._owner[run]
            if worker.is_out_of_time(self._clock.monotonic()):
                worker.fault, worker.ours = worker.fault or Fault(reason=_OUT_OF_TIME), True
        reason = worker.fault.reason if worker.fault else f"its process ended, {worker.log.name} says why"
        if not worker.stopping:
            log.warning("a session worker is gone", worker=worker.name, reason=reason, runs_lost=len(lost))
        for run in lost:
            told = f"session worker {worker.name} is gone: {reason}"
            self._tell(Lost(run=run, reason=told, blame=worker.blame(run)))
        self._tell(RoomChanged(reason=f"{worker.name} is gone: {reason}"))

    # ---- ending workers

    def _supervise(self) -> None:
        while not self._closing.wait(_LOOK_EVERY_SECONDS):
            now = self._clock.monotonic()
            with self._lock:
                workers = list(self._workers)
                faults = [(w, fault) for w in workers if (fault := w.watch.fault(now))]
            for worker, fault in faults:
                self._kill(worker, fault)
            for worker in workers:
                self._retire_if_worn(worker)
                keep_within(worker.log)

    def _retire_if_worn(self, worker: _Worker) -> None:
        """Give a worn worker no new runs, and ask it to stop when it has none: its keeper starts another one."""
        now = self._clock.monotonic()
        with self._lock:
            reason = worker.wear.reason(now) if worker.slots else None  # what is not ready yet is not worn
            begins = reason is not None and not worker.retiring
            worker.retiring = worker.retiring or begins
            stops = worker.retiring and not worker.runs and not worker.stopping
            if stops:
                worker.stopping = True
                worker.watch.asked_to_stop(now)
        if begins:
            log.info("a session worker is to be replaced", worker=worker.name, reason=reason)
        if stops:
            self._send(worker, Stop())

    def _end(self, worker: _Worker, reason: str, *, ours: bool = False) -> None:
        self._kill(worker, Fault(reason=reason), ours=ours)

    def _kill(self, worker: _Worker, fault: Fault, *, ours: bool = False) -> None:
        with self._lock:
            if worker.fault is None:  # else it is dying already, of what came first
                worker.fault, worker.ours = fault, ours
        worker.process.kill()

    def _send(self, worker: _Worker, frame: FromDaemon) -> None:
        try:
            worker.process.channel.send(frame)
        except BlockingIOError:  # and half a frame may be in the channel
            self._end(worker, "it does not hear what it is told")
        except OSError:
            log.debug("a session worker went away while it was spoken to", worker=worker.name)  # its keeper sees it
