"""The session pool of the daemon: worker processes, their supervision, and their messages. Free of Spark."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import assert_never

import structlog

from lakewarden.executors.contract import (
    Asked,
    Assignment,
    Capacity,
    CapacityChanged,
    Ended,
    Granted,
    Lost,
    PoolEvent,
    Refused,
    RunProgress,
    Started,
    Succeeded,
    WorkerEnd,
)
from lakewarden.executors.edge import edge
from lakewarden.executors.pool.listening import Listening, RunLogs, WorkerLine
from lakewarden.executors.pool.process import COMMAND, LivingWorker, WorkerProcess, keep_within, renewed_mark
from lakewarden.executors.pool.supervision import (
    Allowance,
    KillReason,
    ProfileBreaker,
    RestartBackoff,
    Watchdog,
    Wear,
    WorkerNeed,
)
from lakewarden.executors.profile import SparkProfile
from lakewarden.executors.protocol import (
    Beat,
    Begin,
    Cancel,
    FromDaemon,
    LiveUntil,
    PermitAnswer,
    ProtocolError,
    Ready,
    Stop,
    Unable,
)
from lakewarden.planners.model.clock import Clock, SystemClock
from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.model.instant import RunId, Step
from lakewarden.planners.storage.settings import StoreSettings

log = structlog.get_logger(__name__)

_LOOK_EVERY_SECONDS = 0.2
_AFTER_A_BUG = timedelta(seconds=1)
_OUT_OF_TIME = "the daemon did not renew its lease in time"
_UTF_8 = ("UTF-8", "UTF8")
_OTHER_NAMES = (
    "its JVM reads file names as {}, and would find none with a letter beyond ASCII: install the locale "
    "C.UTF-8 on this machine, and set no sun.jnu.encoding in the profile's conf"
)


class WorkerPool:
    """A pool of session workers that are child processes of the daemon: fulfils `contract.Pool`.

    Every worker has one keeper thread. It starts the worker and passes on the worker's messages. When the worker closes
    its end of the channel, the keeper makes sure that worker and JVM are gone, and then sends `Lost`. So one thread
    sends all events of one run, in order. One more thread checks every worker's watchdog and kills the faulty ones. The
    closed channel does the rest.
    """

    def __init__(
        self,
        profile: SparkProfile,
        *,
        directory: Path,
        storage: Sequence[StoreSettings] = (),
        needs: Collection[str] = (),
        clock: Clock | None = None,
        command: Sequence[str] = COMMAND,
        restarted: Callable[[WorkerEnd], None] = lambda _: None,
        line: Callable[[WorkerLine], None] | None = None,
        logs: RunLogs | None = None,
    ) -> None:
        """Keep the workers' working directory and logs in `directory`, which is created if it does not exist.

        `storage` are the settings of every store that a table of the pool may be on. `needs` are the words for further
        jars that the tables need. `command` starts a worker. `restarted` gets the reason why a worker ended,
        before it is started again. `line` gets each line of the workers' logs. `logs` gets the lines of each run.
        """
        self._profile = profile
        self._storage = storage
        self._needs = tuple(sorted(needs))
        self._command = command
        self._restarted = restarted
        self._directory = directory
        self._names = [f"worker-{n}" for n in range(1, profile.workers + 1)]
        self._listening = Listening(directory, self._names, logs=logs, line=line, settings=[profile, *storage])
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._workers: list[LivingWorker] = []
        self._owner: dict[RunId, LivingWorker] = {}
        self._until: float | None = None
        self._need = WorkerNeed(profile, self._names)
        self._breaker = ProfileBreaker(opens_after=profile.breaker_after)
        self._closing = threading.Event()
        self._threads: list[threading.Thread] = []
        self._tell: Callable[[PoolEvent], None]  # given to start
        self._mark: str  # of every process of this pool, set by start

    def start(self, tell: Callable[[PoolEvent], None]) -> None:
        """End the processes that an earlier daemon may have left, and start the workers that are kept at rest.
        CapacityChanged is sent when one is ready.
        """
        self._tell = tell
        self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._mark = renewed_mark(self._directory)
        keepers = [
            threading.Thread(target=self._keep, args=(name,), name=f"pool-{name}", daemon=True) for name in self._names
        ]
        self._threads = [*keepers, threading.Thread(target=self._supervise, name="pool-supervisor", daemon=True)]
        for thread in self._threads:
            thread.start()

    def capacity(self) -> Capacity:
        """Return the slots of all workers that are ready."""
        with self._lock:
            now = self._clock.monotonic()
            serving = [w for w in self._workers if w.takes_runs]
            slots, free = sum(w.slots for w in serving), sum(w.free for w in serving)
            most = self._breaker.runs_at_once(now)
            if most:  # one run is tried, of any service: no slot is kept for cleans
                slots, free = min(slots, most), min(free, max(0, most - len(self._owner)))
            return Capacity(
                slots=slots,
                free=0 if most == 0 else free,
                in_use=len(self._owner),
                held=self._breaker.holds(now),
                resting=self._need.resting_slots(others_alive=sum(not w.kept for w in self._workers)),
            )

    def need(self, runs: int) -> None:
        """Say how many runs wait for a slot. Their keepers start workers for them."""
        with self._lock:
            most = self._breaker.runs_at_once(self._clock.monotonic())
            self._need.runs_wait(runs if most is None else min(runs, most))

    def submit(self, assignment: Assignment) -> None:
        """Give a run to the worker with the most free slots, first to one that is kept at rest, so that the others can
        rest. Raises TemporaryError if there is no free slot.
        """
        with self._lock:
            able = [w for w in self._workers if w.free > 0]
            worker = max(able, key=lambda w: (w.kept, w.free), default=None)
            most = self._breaker.runs_at_once(self._clock.monotonic())
            if worker is None or (most is not None and len(self._owner) >= most):
                raise TemporaryError("no free slot in the session pool")
            worker.runs.add(assignment.run)
            worker.wear.run_taken()
            self._owner[assignment.run] = worker
        self._listening.assigned(assignment)
        self._send(worker, assignment)

    def answer(self, run: RunId, step: Step, permit: Granted | Refused) -> None:
        """Answer a run's question. If the run has ended, the answer is ignored."""
        with self._lock:
            worker = self._owner.get(run)
            if worker is None:
                return
            if isinstance(permit, Granted) and permit.expires is not None:
                worker.watchdog.permitted(
                    run,
                    Allowance(granted_at=self._clock.monotonic(), expires=permit.expires, at_most=permit.at_most),
                )
        self._send(worker, PermitAnswer(run=run, step=step, permit=permit))

    def advanced_at(self, run: RunId) -> float | None:
        """Return when a Spark task of the run was last seen to end."""
        with self._lock:
            worker = self._owner.get(run)
            return None if worker is None else worker.watchdog.advanced_at(run)

    def progress(self) -> Mapping[RunId, RunProgress]:
        """Return what the runs did at the last beats of their workers."""
        with self._lock:
            return {run: done for worker in self._workers for run, done in worker.progress.items()}

    def cancel(self, run: RunId, reason: str) -> None:
        """Ask a run to stop. If the run has not ended within the profile's grace, its worker is killed."""
        with self._lock:
            worker = self._owner.get(run)
            if worker is None:
                return
            worker.watchdog.cancelled(run, self._clock.monotonic())
        self._send(worker, Cancel(run=run, reason=reason))

    def extend(self, until: float) -> None:
        """Tell every worker until when it may live. This holds for workers that start later, too. A worker that is told
        too late is killed.
        """
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
        """Kill every worker with its JVM, and return when they are gone. Their keepers start new ones."""
        with self._lock:
            workers = list(self._workers)
        for worker in workers:
            self._end(worker, reason, ours=True)
        for worker in workers:
            worker.process.wait_until_gone()

    def close(self) -> None:
        """Kill every worker with its JVM, and return when they are gone."""
        self._closing.set()
        self.evict("the pool was closed")
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join()

    # ---- one keeper thread per worker

    def _keep(self, name: str) -> None:
        backoff = RestartBackoff()
        for life in itertools.count(1):
            # A worker that is started out of time would end at once.
            while self._is_out_of_time() or not self._is_needed(name):
                if self._closing.wait(_LOOK_EVERY_SECONDS):
                    return
            pause = _AFTER_A_BUG
            with edge("session_worker_not_kept", worker=name):
                pause = self._live(f"{name}.{life}", self._directory / f"{name}.log", backoff)
            with self._lock:
                self._need.gone(name)
            if self._closing.wait(pause.total_seconds()):
                return

    def _is_out_of_time(self) -> bool:
        with self._lock:
            return self._until is not None and self._clock.monotonic() >= self._until

    def _is_needed(self, name: str) -> bool:
        with self._lock:
            return self._need.begin(name, starting=sum(w.kept and not w.slots for w in self._workers))

    def _live(self, name: str, output: Path, backoff: RestartBackoff) -> timedelta:
        """Keep one worker from its start to its end. Return how long to wait before the next start."""
        try:
            worker = self._bring_up(name, log=output)
        except OSError as error:
            log.warning("session_worker_not_started", worker=name, reason=str(error))
            self._restarted(WorkerEnd.NOT_STARTED)
            return backoff.after_death()
        with edge("session_worker_not_heard", worker=name):
            self._listen(worker)
        with self._lock:  # the worker ends itself when a permit has expired
            worker.fault = worker.fault or worker.watchdog.overdue(self._clock.monotonic())
        while not worker.process.is_gone:  # its runs are lost only then
            with edge("session_worker_not_gone", worker=name):
                worker.process.wait_until_gone()
        with edge("session_worker_not_tidied_up", worker=name):
            worker.process.tidy_up()
        self._reap(worker)
        if not self._closing.is_set():
            self._restarted(worker.end)
        if worker.slots:
            backoff.worked()
        return timedelta(0) if worker.stopping or worker.ours else backoff.after_death()

    def _bring_up(self, name: str, *, log: Path) -> LivingWorker:
        scratch, now = log.with_suffix(".scratch"), self._clock.monotonic()
        worker = LivingWorker(
            name=name,
            log=log,
            process=WorkerProcess(self._command, directory=self._directory, log=log, scratch=scratch, mark=self._mark),
            watchdog=Watchdog(self._profile, started=now),
            wear=Wear(self._profile, started=now),
            kept=self._need.is_kept(log.stem),
        )
        storage = tuple(store.model_dump(mode="json") for store in self._storage)
        self._send(
            worker, Begin(profile=self._profile.model_dump(mode="json"), storage=storage, needs=self._needs)
        )  # before any other frame
        with self._lock:
            self._workers.append(worker)
            worker.until = self._until
        if worker.until is not None:
            self._send(worker, LiveUntil(moment=worker.until))
        if self._closing.is_set():  # closed since the last check
            self._end(worker, "the pool was closed", ours=True)
        return worker

    def _listen(self, worker: LivingWorker) -> None:
        """Pass on the messages of the worker until it is gone, or sends one that breaks the protocol."""
        try:
            for frame in worker.process.channel.received():
                match frame:
                    case Ready():
                        self._ready(worker, frame)
                    case Beat():
                        with self._lock:
                            worker.watchdog.proof_of_life(self._clock.monotonic())
                            worker.wear.weighed(frame.rss_bytes)
                            for run in worker.runs.intersection(frame.advanced):
                                worker.watchdog.advanced(run, self._clock.monotonic())
                            worker.progress = {
                                progress.run: progress for progress in frame.progress if progress.run in worker.runs
                            }
                    case Unable():
                        with self._lock:
                            worker.unable = frame
                    case Started():
                        self._tell(frame)
                    case Asked():
                        with self._lock:
                            worker.watchdog.step_ended(frame.run)
                        self._tell(frame)
                    case Ended():
                        self._ended(worker, frame)
                    case Begin() | Assignment() | PermitAnswer() | Cancel() | LiveUntil() | Stop():
                        raise ProtocolError(f"{type(frame).__name__} is for workers to hear, not to say")
                    case _:
                        assert_never(frame)
        except ProtocolError as broken:
            self._end(worker, f"it sent an invalid message: {broken}")

    def _ready(self, worker: LivingWorker, ready: Ready) -> None:
        if ready.file_names.upper() not in _UTF_8:
            self._end(worker, _OTHER_NAMES.format(ready.file_names))
            return
        with self._lock:
            worker.slots = ready.slots
            self._need.ready(worker.log.stem)
            worker.wear = Wear(self._profile, started=self._clock.monotonic())
            worker.watchdog.proof_of_life(self._clock.monotonic())
        log.info("session_worker_ready", worker=worker.name, jvm_pid=ready.jvm_pid, **ready.versions)
        self._tell(CapacityChanged(reason=f"{worker.name} is ready with {ready.slots} slots"))

    def _ended(self, worker: LivingWorker, ended: Ended) -> None:
        with self._lock:
            worker.watchdog.run_ended(ended.run)
            worker.runs.discard(ended.run)
            worker.progress.pop(ended.run, None)
            self._owner.pop(ended.run, None)
            closes = isinstance(ended.outcome, Succeeded) and self._breaker.succeeded()
            if not worker.runs:
                worker.wear.left_alone(self._clock.monotonic())
        if closes:
            log.info("breaker_closed", run=ended.run)
        self._tell(ended)
        self._retire_if_worn(worker)

    def _reap(self, worker: LivingWorker) -> None:
        """Report the end of a worker that is gone, and of every run that it had."""
        with self._lock:
            self._workers.remove(worker)
            lost = sorted(worker.runs)
            for run in lost:
                del self._owner[run]
            if worker.is_out_of_time(self._clock.monotonic()):
                worker.fault, worker.ours = worker.fault or KillReason(reason=_OUT_OF_TIME), True
            unable = None if worker.ours or worker.unable is None else worker.unable.reason
            pause = None if unable is None else self._breaker.failed(unable, self._clock.monotonic())
        if pause is not None:
            log.warning("breaker_opened", seconds=pause.total_seconds(), reason=unable)
        reason = worker.why_gone
        with edge("worker_log_not_finished", worker=worker.name):
            self._listening.finish(worker.log.stem, lost, f"session worker {worker.name} is gone: {reason}")
        if not worker.stopping:
            log.warning("session_worker_gone", worker=worker.name, reason=reason, runs_lost=len(lost))
        for run in lost:
            message = f"session worker {worker.name} is gone: {reason}"
            self._tell(Lost(run=run, reason=message, blame=worker.blame(run)))
        self._tell(CapacityChanged(reason=f"{worker.name} is gone: {reason}"))

    # ---- ending workers

    def _supervise(self) -> None:
        while not self._closing.wait(_LOOK_EVERY_SECONDS):
            with self._lock:
                workers = list(self._workers)
                runs = {w.log.stem: frozenset(w.runs) for w in workers}
            for worker in workers:
                with edge("session_worker_not_supervised", worker=worker.name):
                    with self._lock:
                        fault = worker.watchdog.fault(self._clock.monotonic())
                    if fault is not None:
                        self._kill(worker, fault)
            self._listening.follow(runs)
            for worker in workers:
                with edge("session_worker_not_supervised", worker=worker.name):
                    self._retire_if_worn(worker)
                    keep_within(worker.log)

    def _retire_if_worn(self, worker: LivingWorker) -> None:
        """If a worker is worn or not needed, give it no new runs. Ask it to stop when it has none. Its keeper starts
        another one: at once, or when it is needed.
        """
        now = self._clock.monotonic()
        with self._lock:
            reason = worker.wear.reason(now) if worker.slots else None  # a worker that is not ready yet is not worn
            if reason is None and worker.slots and not worker.kept and self._need.is_over and worker.wear.rests(now):
                reason, worker.resting = "it has nothing to do", True
            begins = reason is not None and not worker.retiring
            worker.retiring = worker.retiring or begins
            stops = worker.retiring and not worker.runs and not worker.stopping
            if stops:
                worker.stopping = True
                worker.watchdog.asked_to_stop(now)
        if begins and worker.resting:
            log.info("session_worker_rests", worker=worker.name)
        elif begins:
            log.info("session_worker_replaced", worker=worker.name, reason=reason)
        if stops:
            self._send(worker, Stop())

    def _end(self, worker: LivingWorker, reason: str, *, ours: bool = False) -> None:
        self._kill(worker, KillReason(reason=reason), ours=ours)

    def _kill(self, worker: LivingWorker, fault: KillReason, *, ours: bool = False) -> None:
        with self._lock:
            if worker.fault is None:  # else it is dying already, and its first fault counts
                worker.fault, worker.ours = fault, ours
        worker.process.kill()

    def _send(self, worker: LivingWorker, frame: FromDaemon) -> None:
        try:
            worker.process.channel.send(frame)
        except BlockingIOError:  # half a frame may be in the channel
            self._end(worker, "it does not read what it is sent")
        except OSError:
            log.debug("session_worker_closed_its_channel", worker=worker.name)  # its keeper sees it
