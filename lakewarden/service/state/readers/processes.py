"""Tables are read in processes that may be killed. If one hangs, crashes or needs too much memory, one table fails.

One program serves three lanes. The *quick* lane reads tables of local and mounted disks, one after the other. If a
process there needs longer than `TIMEOUT` for one observation, it goes over to the *slow* lane with that observation
alone. Another process takes over its place and its other tables. From then on that table is read in the slow lane. The
*remote* lane has many tables of object stores and catalogs in flight.

If a process dies during one observation, that observation is to blame. If there were several, each is made again,
alone.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta

import structlog

from lakewarden.planners.model.clock import Clock, SystemClock
from lakewarden.planners.model.errors import LakewardenError, TemporaryError, UnknownError
from lakewarden.planners.model.table import TableId
from lakewarden.planners.reading.observing import Answers, ObservationAnswer, ObservationRequest, ReadFailure
from lakewarden.planners.storage.settings import StoreSettings
from lakewarden.service.config.document import ReadingSettings
from lakewarden.service.state.readers.child import COMMAND, KILLED, Children, ReaderProcess
from lakewarden.service.state.readers.lanes import QuickLane, RemoteLane, SlowLane, is_remote
from lakewarden.service.state.readers.port import Answered, EndReason

log = structlog.get_logger(__name__)

TIMEOUT = timedelta(seconds=1)
"""An observation that takes longer must not delay the tables behind it."""

SILENCE = timedelta(seconds=10)
"""If a process has requests and begins none for so long, it is frozen, or was never able to begin."""

GIVE_UP = timedelta(seconds=15)
"""How long requests wait for a process that can be started."""

_TICK_SECONDS = 0.25
_IDLE_SECONDS = 10.0
_AFTER_A_FAILURE_SECONDS = 1.0


class ProcessReaders:
    """Keeps the processes, in a thread of its own. Any thread may call the public methods."""

    def __init__(
        self,
        *,
        settings: ReadingSettings | None = None,
        stores: Sequence[StoreSettings] = (),
        roots: Sequence[str] = (),
        clock: Clock | None = None,
        command: Sequence[str] = COMMAND,
        timeout: timedelta = TIMEOUT,
        ended: Callable[[EndReason], None] = lambda _: None,
    ) -> None:
        """`command` starts a reader process. `ended` gets the reason of each early end."""
        settings = settings or ReadingSettings()
        self._clock = clock or SystemClock()
        self._answered: Answered = lambda _: None
        self._ended = ended
        self._incoming: deque[ObservationRequest | TableId] = deque()
        self._bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._thread = threading.Thread(target=self._keep, name="readers", daemon=True)
        self._closing = False
        self._newest = 0
        self._dying = False
        children = Children(stores=stores, roots=roots, memory=settings.memory, command=command, bell=self._bell)
        seconds, deadline = timeout.total_seconds(), settings.deadline.total_seconds()
        self._children = children
        self._quick = QuickLane(children, size=settings.processes, timeout=seconds)
        self._slow = SlowLane(children, timeout=seconds, deadline=deadline)
        self._remote = RemoteLane(children, threads=settings.requests, deadline=deadline)

    # -- for any thread

    def open(self, answered: Answered) -> None:
        """Be ready to read. A process is started when it is first needed."""
        self._answered = answered
        self._thread.start()

    def begin(self, requests: Sequence[ObservationRequest]) -> None:
        """Begin observations. Tickets only grow."""
        self._incoming.extend(requests)
        self._ring()

    def forget(self, table: TableId) -> None:
        """Forget a table."""
        self._incoming.append(table)
        self._ring()

    def close(self) -> None:
        """End every process, without waiting for one that a storage blocks."""
        self._closing = True
        self._ring()
        if self._thread.is_alive():
            self._thread.join(timeout=2)

    def _ring(self) -> None:
        os.eventfd_write(self._bell, 1)

    # -- the thread

    def _keep(self) -> None:
        while not self._closing:
            try:
                self._turn()
            except Exception:  # the edge of the thread: without it no table is observed
                log.exception("readers_not_kept")
                time.sleep(_AFTER_A_FAILURE_SECONDS)  # what fails may fail again at once
        self._children.end_all()

    def _turn(self) -> None:
        self._take_in()
        self._hand_out()
        for child in self._children.wait(_TICK_SECONDS if self._is_busy() else _IDLE_SECONDS):
            self._hear(child)
        self._silence_the_bell()
        self._replace_what_is_silent()
        self._go_over_to_the_slow_lane()
        self._give_up_what_is_overdue()
        for child in (*self._slow.superfluous(), *self._remote.superfluous()):
            self._end(child, TemporaryError("its store has not answered in time"))
        self._dying = self._children.reap()

    def _silence_the_bell(self) -> None:
        try:
            os.eventfd_read(self._bell)
        except BlockingIOError:
            return

    def _is_busy(self) -> bool:
        waiting = self._incoming or self._dying or self._slow.waits() or self._remote.waits()
        return bool(waiting) or any(child.requests for child in self._children)

    def _take_in(self) -> None:
        quick, now = [], self._clock.now()
        while self._incoming:
            message = self._incoming.popleft()
            if not isinstance(message, ObservationRequest):
                self._let_go(message)
                continue
            self._newest = max(self._newest, message.ticket)
            if self._slow.is_for(message.table.id):
                self._slow.ask([message])
            elif is_remote(message.table):
                self._remote.ask([message])
            else:
                quick.append(message)
        self._not_started(self._quick.ask(quick, now=now))

    def _let_go(self, table: TableId) -> None:
        self._slow.forget(table)
        for child in self._children:
            child.forget(table, now=self._clock.now())

    def _hand_out(self) -> None:
        now = self._clock.now()
        self._not_started([*self._slow.hand_out(now=now), *self._remote.hand_out(now=now)])

    def _not_started(self, requests: Sequence[ObservationRequest]) -> None:
        """Begin observations a moment later if no process could be started for them. After `GIVE_UP` they fail."""
        if self._children.failing_for() < GIVE_UP.total_seconds():
            self._again(requests)
            return
        self._fail(requests, TemporaryError("no process that reads tables can be started: the daemon's log says why"))

    # -- answers

    def _hear(self, child: ReaderProcess) -> None:
        try:
            heard = child.receive()
        except UnknownError as nonsense:
            log.warning("reader_not_understood", error=str(nonsense))
            heard = None
        if heard is None:
            self._reap(child)
            return
        for answers in heard:
            self._children.heard_of()
            self._pass_on(child, answers)

    def _pass_on(self, child: ReaderProcess, answers: Answers) -> None:
        """Pass on the answers that are awaited."""
        unchanged, others = [], []
        for ticket in answers.unchanged:
            request = child.answered(ticket, read=False)
            if request is not None:
                unchanged.append(ticket)
                self._slow.answered(child, request, well=True)
        for answer in answers.others:
            request = child.answered(answer.ticket, read=answer.observation is not None)
            if request is not None:
                others.append(answer)
                self._slow.answered(child, request, well=answer.failure is None)
                if answers.ends:
                    child.has_swelled = True
                    self._slow.blame(request)
                    self._ended(EndReason.SWELLED)
        if unchanged or others:
            self._answered(Answers(unchanged, others))

    def _fail(self, requests: Iterable[ObservationRequest], error: LakewardenError) -> None:
        failed = [ObservationAnswer(request.ticket, failure=ReadFailure.of(error)) for request in requests]
        if failed:
            self._answered(Answers(others=failed))

    # -- processes that do not answer

    def _replace_what_is_silent(self) -> None:
        for child in self._children:
            if child.is_silent(SILENCE.total_seconds()):
                log.warning("reader_silent", pid=child.pid)
                self._ended(EndReason.SILENT)
                self._again(child.take_back_all())
                self._leave(child)
                self._children.end(child)

    def _go_over_to_the_slow_lane(self) -> None:
        for child in self._quick.stuck():
            self._quick.leave(child)
            left = child.take_back_what_is_not_begun(before=self._newest + 1)
            self._slow.take_over(child)
            self._again(left)

    def _give_up_what_is_overdue(self) -> None:
        for child, request, seconds in self._slow.overdue():
            log.warning(
                "reader_killed", table=request.table.id, reason="observation is overdue", seconds=round(seconds)
            )
            self._slow.blame(request)
            self._ended(EndReason.OVERDUE)
            self._end(child, TemporaryError(f"its metadata was not read within {seconds:.0f} s"))
        for child, request, seconds in self._remote.overdue():
            child.drop(request)
            self._fail([request], TemporaryError(f"its store has not answered within {seconds:.0f} s"))

    def _end(self, child: ReaderProcess, why: LakewardenError) -> None:
        """End a process. Its current work has failed. Requests that it has not begun are begun elsewhere."""
        left = child.take_back_what_is_not_begun(before=self._newest + 1)
        failed = child.take_back_all()
        self._leave(child)
        self._children.end(child)
        self._fail(failed, why)
        self._again(left)

    def _reap(self, child: ReaderProcess) -> None:
        """Forget a process that has died."""
        at = [request for request, _ in child.under_way()]
        requests = child.take_back_all()
        how = child.how_it_ended()
        self._leave(child)
        self._children.died(child)
        if not child.has_swelled:
            log.warning("reader_died", how=how, at=[request.table.id for request in at])
            self._ended(EndReason.DIED)
        guilty = at if self._is_proved(at, how) else []
        for request in guilty:
            self._slow.blame(request)
        self._fail(guilty, UnknownError(f"reading its metadata ended the process that read it ({how})"))
        self._slow.ask([request for request in at if request not in guilty])
        self._again(request for request in requests if request not in at)

    def _is_proved(self, at: Sequence[ObservationRequest], how: str) -> bool:
        """Whether the observation under way is to blame for a death: it was the only one.

        If the process was killed from outside (by the kernel, for lack of memory), the table must have been read alone
        already.
        """
        return len(at) == 1 and (how != KILLED or self._slow.is_for(at[0].table.id))

    def _leave(self, child: ReaderProcess) -> None:
        for lane in (self._quick, self._slow, self._remote):
            if lane.leave(child):
                return

    def _again(self, requests: Iterable[ObservationRequest]) -> None:
        """Begin observations elsewhere, before all others."""
        self._incoming.extendleft(reversed(list(requests)))
