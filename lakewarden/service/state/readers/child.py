"""One process that reads, as the daemon sees it: what it was asked, what it is at, and whether it lives."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from datetime import datetime

from lakewarden.planners.model.errors import UnknownError
from lakewarden.planners.model.table import Table, TableId
from lakewarden.planners.reading.board import Board, shared_memory
from lakewarden.planners.reading.frames import Frames, checked, framed
from lakewarden.planners.reading.looks import Answers, LookAsked
from lakewarden.planners.reading.process import Hello, Looks

COMMAND = (sys.executable, "-m", "lakewarden.planners.reading")
KILLED = f"signal {int(signal.SIGKILL)}"
"""How a process ends that another one has killed."""

_RECEIVE_BYTES = 2**18

_TOLD = Table(id=TableId(""), format="", location="")
"""What stands for a table that a reader was told of."""


class Child:
    """A reader process. Only the thread that keeps the readers touches it, and never waits for it."""

    def __init__(self, hello: Hello, *, command: Sequence[str] = COMMAND) -> None:
        ours, theirs = socket.socketpair()
        memory = shared_memory(threads=hello.threads)
        try:
            self._process = subprocess.Popen(
                [*command, str(theirs.fileno()), str(memory), str(os.getpid())],
                pass_fds=(theirs.fileno(), memory),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
            )
            self._board = Board(memory, threads=hello.threads)
        finally:
            theirs.close()
            os.close(memory)
        ours.settimeout(0)
        self.channel = ours
        self.threads = hello.threads
        self.looks: dict[int, LookAsked] = {}
        """The looks that it was asked for and has not answered, by their tickets, the oldest first."""
        self.asked_at = time.monotonic()
        """When it was last asked for a look, in seconds of the machine's clock."""
        self._heard_at = self.asked_at
        self._has_answered = False
        self.has_swelled = False
        """Whether it has said that it ends for lack of memory."""
        self._knows: dict[TableId, int] = {}
        self._tables: set[TableId] = set()
        self._outgoing: deque[bytes] = deque([framed(hello)])
        self._frames = Frames()

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def has_answered(self) -> bool:
        """Whether it was able to read, at least once."""
        return self._has_answered

    @property
    def has_more_to_send(self) -> bool:
        """Whether bytes wait until its socket takes them."""
        return bool(self._outgoing)

    def knows(self, asked: LookAsked) -> bool:
        """Whether it remembers what the asker keeps of the table."""
        return asked.known is not None and self._knows.get(asked.table.id) == asked.known

    def remembers(self, tables: Collection[TableId]) -> bool:
        """Whether it remembers one of these tables."""
        return not self._knows.keys().isdisjoint(tables)

    def ask(self, looks: Sequence[LookAsked], *, now: datetime) -> None:
        """Ask it for looks."""
        if not self.looks:
            self._heard_at = time.monotonic()
        polls, others, new = [], [], []
        for asked in looks:
            ticket, table, anew, full, known, _ = asked
            self.looks[ticket] = asked
            if known is not None and self._knows.get(table.id) == known:
                if not anew and not full:
                    polls.append((ticket, table.id, known))
                    continue
                asked = asked._replace(previous=None)  # noqa: PLW2901 - it remembers what that is
            others.append((table.id, asked._replace(table=_TOLD)))
            if table.id not in self._tables:
                self._tables.add(table.id)
                new.append(table)
        self.asked_at = time.monotonic()
        self._outgoing.append(framed(Looks(now=now, polls=polls, others=others, tables=new)))

    def forget(self, table: TableId, *, now: datetime) -> None:
        """Let it remember nothing of a table."""
        self._knows.pop(table, None)
        if table in self._tables:
            self._tables.discard(table)
            self._outgoing.append(framed(Looks(now=now, forgotten=(table,))))

    def send(self) -> None:
        """Send what its socket takes now. One that has gone takes anything."""
        while self._outgoing:
            try:
                sent = self.channel.send(self._outgoing[0])
            except BlockingIOError:
                return
            except OSError:
                self._outgoing.clear()
                return
            rest = self._outgoing.popleft()[sent:]
            if rest:
                self._outgoing.appendleft(rest)

    def receive(self) -> list[Answers] | None:
        """Return the answers that have come; None if it is gone. Raises UnknownError where they are none."""
        try:
            received = self.channel.recv(_RECEIVE_BYTES)
        except BlockingIOError:
            return []
        except OSError:
            return None
        if not received:
            return None
        self._heard_at = time.monotonic()
        self._has_answered = True
        self._frames.feed(received)
        return list(self._whole())

    def _whole(self) -> Iterator[Answers]:
        while (content := self._frames.next()) is not None:
            answers = checked(content)
            if not isinstance(answers, Answers):
                raise UnknownError(f"a reader sent a {type(answers).__name__}")
            yield answers

    def drop(self, asked: LookAsked) -> None:
        """Wait no longer for a look that it is at."""
        self.looks.pop(asked.ticket, None)

    def answered(self, ticket: int, *, read: bool) -> LookAsked | None:
        """Take note of an answer; return what was asked, None if that is not waited for any more."""
        asked = self.looks.pop(ticket, None)
        if asked is not None and read:
            self._knows[asked.table.id] = ticket
        elif asked is not None and asked.previous is not None and asked.known is not None:
            self._knows[asked.table.id] = asked.known
        return asked

    def under_way(self) -> list[tuple[LookAsked, float]]:
        """Return the looks that it is at, with the seconds since it began them, as far as they are waited for."""
        now = time.monotonic()
        return [(self.looks[one.ticket], now - one.at) for one in self._board.under_way() if one.ticket in self.looks]

    def is_silent(self, seconds: float) -> bool:
        """Whether it has looks to make, and for so long has neither begun one nor answered: it is frozen."""
        return bool(self.looks) and not self.under_way() and time.monotonic() - self._heard_at > seconds

    def take_back_what_is_not_begun(self, *, before: int) -> list[LookAsked]:
        """Return the looks that it has not begun, and let it pass them over: all tickets are less than `before`."""
        self._board.skip_before(before)
        begun = {one.ticket for one in self._board.under_way()}
        waiting = [asked for ticket, asked in self.looks.items() if ticket not in begun]
        for asked in waiting:
            del self.looks[asked.ticket]
        return waiting

    def take_back_all(self) -> list[LookAsked]:
        """Return every look that it has not answered."""
        looks = list(self.looks.values())
        self.looks.clear()
        return looks

    def kill(self) -> None:
        """End it, whatever it does. It may take a while to go, where a storage holds it."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    def close(self) -> None:
        """Let go of it: it ends when it sees that its socket is closed."""
        self.channel.close()

    def is_gone(self) -> bool:
        """Whether the process has ended, without waiting for it."""
        return self._process.poll() is not None

    def how_it_ended(self) -> str:
        """Return, for people, how it ended."""
        try:
            code = self._process.wait(timeout=0.05)
        except subprocess.TimeoutExpired:
            return "it went silent"
        return f"signal {-code}" if code < 0 else f"exit code {code}"
