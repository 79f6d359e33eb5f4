"""The session worker's process: the composition root of everything that knows Spark.

main thread      hears the daemon; when the daemon is gone, it kills the JVM and exits, whatever else hangs
lifetime thread  does the same when the moment passes until which the daemon let it live
heart thread     brings the session up, then proves again and again that the JVM answers, and tells it that moment:
                 should this process freeze, the JVM ends by itself
run threads      one per slot
"""

from __future__ import annotations

import dataclasses
import os
import queue
import signal
import socket
import sys
import threading
from collections.abc import Sequence
from typing import NoReturn, assert_never

import psutil
import structlog
from pydantic import TypeAdapter

from lakewarden.executors.contract import Asked, Assignment, Ended, Started
from lakewarden.executors.profile import SparkProfile
from lakewarden.executors.programs import PROGRAMS, release
from lakewarden.executors.protocol import Answer, Beat, Begin, Cancel, Channel, Frame, LiveUntil, Ready, Stop
from lakewarden.executors.witness import WITNESS
from lakewarden.executors.worker.lifetime import Lifetime
from lakewarden.executors.worker.runs import Run
from lakewarden.executors.worker.session import Session
from lakewarden.planners.model.clock import SystemClock
from lakewarden.planners.model.instant import RunId
from lakewarden.planners.storage import Storages, canonical_location, hadoop_location
from lakewarden.planners.storage.settings import StoreSetting, StoreSettings

log = structlog.get_logger(__name__)

_STORAGE: TypeAdapter[tuple[StoreSetting, ...]] = TypeAdapter(tuple[StoreSetting, ...])


class Worker:
    """One worker, from its first frame to its end."""

    def __init__(self, channel: Channel, profile: SparkProfile, storage: Sequence[StoreSettings]) -> None:
        self._channel = channel
        self._profile = profile
        self._storage = storage
        self._storages = Storages(storage)
        self._session: Session | None = None
        self._lifetime = Lifetime(SystemClock())
        self._waiting: queue.SimpleQueue[Run] = queue.SimpleQueue()
        self._runs: dict[RunId, Run] = {}

    def start(self) -> None:
        """Start the threads. Ready is told when the session is up."""
        self._lifetime.watch(_out_of_time)
        threading.Thread(target=self._live, name="heart", daemon=True).start()

    def hear(self, frame: Frame) -> None:
        """Do what the daemon says. Returns at once."""
        match frame:
            case Assignment():
                assignment = dataclasses.replace(frame, location=hadoop_location(frame.location))
                run = Run(
                    assignment,
                    tell=self._tell,
                    expire=lambda: end(f"the permit of run {frame.run} has expired"),
                    lifetime=self._lifetime,
                )
                self._runs[frame.run] = run
                self._waiting.put(run)
            case Answer():
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
            case Begin() | Ready() | Beat() | Started() | Asked() | Ended():
                end(f"the daemon said {type(frame).__name__}, which is not for it to say now")
            case _:
                assert_never(frame)

    def _live(self) -> None:
        """Bring the session up, then prove again and again that the JVM answers. Without it there is no worker."""
        try:
            self._session = session = Session(self._profile, self._storage)
            self._lifetime.bind()
            for slot in range(1, self._profile.slots + 1):
                threading.Thread(target=self._serve, args=(session,), name=f"slot-{slot}", daemon=True).start()
            jvm = psutil.Process(session.jvm_pid)
            WITNESS.tell("session", jvm=jvm.pid)
            self._tell(
                Ready(
                    jvm_pid=jvm.pid,
                    slots=self._profile.slots,
                    zone=self._profile.timezone,
                    file_names=session.file_names,
                    versions=session.versions,
                )
            )
            pause = threading.Event()
            while not pause.wait(self._profile.heartbeat.total_seconds()):
                session.ping()
                if (until := self._lifetime.until) is not None:
                    session.live_until(until)
                advanced = tuple(run for run, at_work in list(self._runs.items()) if at_work.advances(session))
                self._tell(Beat(rss_bytes=jvm.memory_info().rss, advanced=advanced))
        except Exception as error:  # the edge of the thread the whole process lives by
            log.exception("the session is gone")
            end(f"the session is gone: {error}")

    def _serve(self, session: Session) -> None:
        while True:
            run = self._waiting.get()
            assignment = run.assignment
            try:
                program = PROGRAMS[assignment.format, assignment.service]()
                run.carry_out(program, session, self._storages.of(canonical_location(assignment.location)))
            except Exception as error:  # outside a program's steps only a dead JVM or daemon raises
                log.exception("a run could not be carried out", run=assignment.run)
                end(f"a run could not be carried out: {error}")
            self._runs.pop(assignment.run, None)

    def _tell(self, frame: Frame) -> None:
        if self._lifetime.is_over:  # it was frozen, and this thread woke before the one that watches
            _out_of_time()
        self._channel.send(frame)

    def _stop(self) -> None:
        if self._session is not None:
            release()
            self._session.stop()
        end("asked to stop")


def end(reason: str) -> NoReturn:
    """Kill the JVM and exit at once, from any thread, without asking anything that may hang.

    The whole process group dies at one stroke, stopped processes included, and none that is being started escapes. A
    JVM would end by itself when it lost us, but only after a while, and not where it is stopped.
    """
    log.info("the session worker ends", reason=reason)
    sys.stdout.flush()
    os.killpg(0, signal.SIGKILL)
    os._exit(1)  # never reached: the group was ours


def _out_of_time() -> NoReturn:
    end("the daemon did not say in time that it may live on")


def main(descriptor: int) -> NoReturn:
    """Serve the daemon at the other end of the socket `descriptor` until it is gone."""
    plain = structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback)
    structlog.configure(
        processors=[structlog.processors.add_log_level, structlog.processors.TimeStamper(fmt="iso"), plain]
    )
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's Ctrl-C is for the daemon: it ends us
    channel = Channel(socket.socket(fileno=descriptor))
    frames = channel.received()
    begin = next(frames, None)
    if not isinstance(begin, Begin):
        end("the daemon did not begin with a profile")
    storage = _STORAGE.validate_python(begin.storage)
    worker = Worker(channel, SparkProfile.model_validate(begin.profile), storage)
    worker.start()
    for frame in frames:
        worker.hear(frame)
    end("the daemon is gone")


if __name__ == "__main__":
    main(int(sys.argv[1]))
