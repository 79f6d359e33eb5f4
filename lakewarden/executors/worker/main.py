"""The session worker's process. It creates everything that knows Spark.

main thread      receives frames; if the daemon is gone, it kills the JVM and exits, whatever else hangs
lifetime thread  does the same at the moment until which the daemon let the worker live
heart thread     starts the session, then proves again and again that the JVM answers, and passes that moment on:
                 if this process freezes, the JVM halts by itself
run threads      one per slot
"""

from __future__ import annotations

import dataclasses
import json
import os
import queue
import signal
import socket
import sys
import threading
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from http.client import HTTPException
from typing import Any, NoReturn, assert_never

import psutil
import structlog
from pydantic import TypeAdapter

from lakewarden.executors import points
from lakewarden.executors.contract import Asked, Assignment, Ended, FormatPrograms, Started
from lakewarden.executors.edge import edge
from lakewarden.executors.profile import SparkProfile
from lakewarden.executors.programs.registry import PROGRAMS
from lakewarden.executors.protocol import (
    Beat,
    Begin,
    Cancel,
    Channel,
    Frame,
    LiveUntil,
    PermitAnswer,
    Ready,
    Stop,
    Unable,
)
from lakewarden.executors.worker.runs import Lifetime, WorkerRun
from lakewarden.executors.worker.session import Session
from lakewarden.planners.model.clock import SystemClock
from lakewarden.planners.model.instant import RunId
from lakewarden.planners.settings import format_duration, shown
from lakewarden.planners.storage import Storages, canonical_location, hadoop_location
from lakewarden.planners.storage.settings import StoreSetting, StoreSettings

log = structlog.get_logger(__name__)

_STORAGE: TypeAdapter[tuple[StoreSetting, ...]] = TypeAdapter(tuple[StoreSetting, ...])


class Worker:
    """One worker, from its first frame to its end."""

    def __init__(
        self,
        channel: Channel,
        profile: SparkProfile,
        storage: Sequence[StoreSettings],
        needs: Sequence[str],
        programs: Mapping[str, FormatPrograms],
    ) -> None:
        self._channel = channel
        self._profile = profile
        self._storage = storage
        self._needs = needs
        self._storages = Storages(storage)
        self._programs = programs
        self._session: Session | None = None
        self._clock = SystemClock()
        self._lifetime = Lifetime(self._clock)
        self._missing_since: float | None = None
        self._hopeless_since: float | None = None
        self._waiting: queue.SimpleQueue[WorkerRun] = queue.SimpleQueue()
        self._runs: dict[RunId, WorkerRun] = {}
        self._stopping = threading.Event()

    def start(self) -> None:
        """Start the threads. Ready is sent when the session is up."""
        self._lifetime.watch(_out_of_time)
        threading.Thread(target=self._live, name="heart", daemon=True).start()

    def hear(self, frame: Frame) -> None:
        """Handle a frame of the daemon. Returns at once."""
        match frame:
            case Assignment():
                assignment = dataclasses.replace(frame, location=hadoop_location(frame.location))
                run = WorkerRun(
                    assignment,
                    tell=self._tell,
                    expire=lambda: end(f"the permit of run {frame.run} has expired"),
                    lifetime=self._lifetime,
                )
                self._runs[frame.run] = run
                self._waiting.put(run)
            case PermitAnswer():
                if run_asking := self._runs.get(frame.run):
                    run_asking.answer(frame)
            case Cancel():
                if (run_meant := self._runs.get(frame.run)) and self._session:
                    run_meant.cancel(frame, self._session)
            case LiveUntil():
                if not self._lifetime.extend(frame.moment):
                    _out_of_time()
            case Stop():
                threading.Thread(target=self._stop, name="stop", daemon=True).start()
            case Begin() | Ready() | Beat() | Unable() | Started() | Asked() | Ended():
                end(f"the daemon said {type(frame).__name__}, which is not for it to say now")
            case _:
                assert_never(frame)

    def _live(self) -> None:
        """Start the session, then prove again and again that the JVM answers and Spark runs. Else the worker ends."""
        try:
            self._session = session = Session(self._profile, self._storage, self._needs)
            self._lifetime.bind()
            if self._profile.master_ui is not None:
                watch(self._profile.master_ui, session.application_id, self._end_without_application)
            for slot in range(1, self._profile.slots + 1):
                threading.Thread(target=self._serve, args=(session,), name=f"slot-{slot}", daemon=True).start()
            jvm = psutil.Process(session.jvm_pid)
            points.session_is_up(jvm=jvm.pid)
            self._tell(
                Ready(
                    jvm_pid=jvm.pid,
                    slots=self._profile.slots,
                    zone=self._profile.timezone,
                    file_names=session.file_names,
                    versions=session.versions,
                )
            )
            while not self._stopping.wait(self._profile.heartbeat.total_seconds()):
                session.ping()
                self._end_what_waits_for_executors(session)
                if (until := self._lifetime.until) is not None:
                    session.live_until(until)
                runs = list(self._runs.items())
                advanced = tuple(run for run, at_work in runs if at_work.advances(session))
                progress = tuple(at_work.progress() for _, at_work in runs)
                self._tell(Beat(rss_bytes=jvm.memory_info().rss, advanced=advanced, progress=progress))
        except Exception as error:  # the edge of the thread on which the whole process depends
            if self._stopping.is_set():  # `_stop` ends the process when the session has ended without haste
                return
            log.exception("session_lost")
            end(f"the session is gone: {error}")

    def _end_what_waits_for_executors(self, session: Session) -> None:
        """If jobs have waited for an executor for too long, cancel the runs, and end after them. Another session may
        have more luck.
        """
        now, runs = self._clock.monotonic(), list(self._runs.values())
        within = self._profile.executors_within
        why = f"no executor of {shown(self._profile.master)} has come within {format_duration(within)}: its master or "
        why += "its workers are gone, the cluster is full, or its executors cannot start"
        if self._hopeless_since is not None:
            if not runs or now - self._hopeless_since > self._profile.cancel_grace.total_seconds():
                end(why)
        elif not runs or not session.misses_executors():
            self._missing_since = None
        elif self._missing_since is None:
            self._missing_since = now
        elif now - self._missing_since >= within.total_seconds():
            self._hopeless_since = now
            self._tell(Unable(reason=why, no_run_is_to_blame=True))
            log.warning("no_executors", reason=why, runs=len(runs))
            for run in runs:
                run.cancel(Cancel(run=run.assignment.run, reason=why), session)

    def _end_without_application(self, why: str) -> None:
        """End, and say why. A run of this worker may be the reason why its executors have failed."""
        try:
            self._tell(Unable(reason=why, no_run_is_to_blame=False))
        finally:
            end(why)

    def _serve(self, session: Session) -> None:
        while True:
            run = self._waiting.get()
            assignment = run.assignment
            try:
                program = self._programs[assignment.format].programs[assignment.service]()
                with structlog.contextvars.bound_contextvars(**_facts(assignment)):
                    run.carry_out(program, session, self._storages.of(canonical_location(assignment.location)))
            except Exception as error:  # outside a program's steps only a dead JVM, Spark or daemon raises
                log.exception("run_not_carried_out", run=assignment.run)
                end(f"a run could not be carried out: {error}")
            self._runs.pop(assignment.run, None)

    def _tell(self, frame: Frame) -> None:
        if self._lifetime.is_over:  # it was frozen, and this thread woke before the lifetime thread
            _out_of_time()
        self._channel.send(frame)

    def _stop(self) -> None:
        self._stopping.set()
        if self._session is not None:
            for program in self._programs.values():
                program.release()
            self._session.stop()
        end("asked to stop")


def end(reason: str) -> NoReturn:
    """Kill the JVM and exit at once, from any thread, without a call that may hang.

    The whole process group dies at once, including stopped processes and those that are being started. A JVM would also
    end by itself without this process, but only after a while, and not while it is stopped.
    """
    log.info("session_worker_ends", reason=reason)
    sys.stdout.flush()
    os.killpg(0, signal.SIGKILL)
    os._exit(1)  # never reached: this process is in the group


def _facts(assignment: Assignment) -> dict[str, str | int | None]:
    """Return what each line of the log says of its run. A plan sets the instant."""
    return {
        "run": assignment.run,
        "table": assignment.table,
        "service": assignment.service.value,
        "epoch": assignment.epoch,
        "instant": assignment.instant,
    }


def _out_of_time() -> NoReturn:
    end("the daemon did not renew its lease in time")


def main(descriptor: int, *, programs: Mapping[str, FormatPrograms] = PROGRAMS) -> NoReturn:
    """Serve the daemon at the other end of the socket `descriptor` until it is gone, with the programs of each
    format.
    """
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True, key="ts"),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(default=str),
        ]
    )
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C in the terminal is for the daemon, which ends this process
    channel = Channel(socket.socket(fileno=descriptor))
    frames = channel.received()
    begin = next(frames, None)
    if not isinstance(begin, Begin):
        end("the daemon did not begin with a profile")
    storage = _STORAGE.validate_python(begin.storage)
    worker = Worker(channel, SparkProfile.model_validate(begin.profile), storage, begin.needs, programs)
    worker.start()
    for frame in frames:
        worker.hear(frame)
    end("the daemon is gone")


# Watches the application of a session on a standalone cluster. Without it the session lives, and does nothing.
#
# A master ends an application after too many executors that fail, and one that was started again knows none. The driver
# does not register again, and says nothing. So the master is asked.

_EVERY_SECONDS = 5.0
_LOOKS = 2
_TIMEOUT_SECONDS = 3.0
_MOST_BYTES = 16 * 2**20


def gone_from(master: Mapping[str, Any], application: str) -> str | None:
    """Return why the application can get no executor any more, as its master tells. None if it can, or if the master
    is not in charge.
    """
    active = master.get("activeapps")
    if master.get("status") != "ALIVE" or not isinstance(active, list):
        return None
    if any(isinstance(entry, dict) and entry.get("id") == application for entry in active):
        return None
    ended = [entry for entry in master.get("completedapps") or () if isinstance(entry, dict)]
    states = [entry.get("state") for entry in ended if entry.get("id") == application]
    if states:
        return f"its master has ended application {application} ({states[-1]}): the logs of its executors say why"
    return f"its master does not know application {application}: it was started again"


def watch(web_ui: str, application: str, end: Callable[[str], object]) -> None:
    """Call `end`, in a thread of its own, once the master has told twice in a row that the application is gone."""
    threading.Thread(target=_watch, args=(web_ui, application, end), name="application", daemon=True).start()


def _watch(web_ui: str, application: str, end: Callable[[str], object]) -> None:
    pause, looks = threading.Event(), 0
    while looks < _LOOKS:
        pause.wait(_EVERY_SECONDS)
        why = None
        with edge("master_not_understood"):
            why = _look(f"{web_ui.rstrip('/')}/json/", application)
        looks = looks + 1 if why is not None else 0
    end(f"the session has no application: {why}")


def _look(address: str, application: str) -> str | None:
    try:
        with urllib.request.urlopen(address, timeout=_TIMEOUT_SECONDS) as answer:  # noqa: S310 - the profile allows http and https
            document = json.loads(answer.read(_MOST_BYTES))
    except (OSError, ValueError, RecursionError, HTTPException) as away:
        log.debug("master_does_not_answer", reason=str(away))
        return None
    return gone_from(document, application) if isinstance(document, dict) else None


if __name__ == "__main__":
    main(int(sys.argv[1]))
