"""Processes that survey tables at the same time. Each table has a limit on its time and its memory."""

from __future__ import annotations

import contextlib
import os
import pickle
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from pydantic import ValidationError

from lakewarden.planners.model.table import Table
from lakewarden.planners.storage.settings import StoreSettings
from lakewarden.service.commands.report.lines import SurveyAnswer
from lakewarden.service.commands.report.worker import ANSWER, SurveyHello

COMMAND = (sys.executable, "-m", "lakewarden.service.commands.report.worker")

MEMORY = 2**30
"""The limit on the memory of a process, in bytes."""

_LARGEST_ANSWER = 2**24
_CHUNK = 2**16
_SECONDS_TO_START = 120.0
"""How long a process may take to start. It does not count as time of a table."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SurveyLimits:
    """How many tables are surveyed at the same time, how many seconds one may take, and in how many bytes of memory."""

    at_once: int = 4
    seconds: float = 120.0
    memory: int = MEMORY


def surveyed(
    tables: Sequence[Table],
    *,
    stores: Sequence[StoreSettings] = (),
    limits: SurveyLimits,
    told: Callable[[Table], None] = lambda _: None,
    command: Sequence[str] = COMMAND,
) -> list[SurveyAnswer]:
    """Return the answers about tables, in their order. `told` hears of each table when its answer is there.

    If a table takes too long, or ends the process that reads it, the answer says so, and the others are not affected.
    """
    answers: dict[int, SurveyAnswer] = {}
    waiting: Iterator[tuple[int, Table]] = iter(enumerate(tables))
    lock = threading.Lock()

    def work() -> None:
        with _Process(stores, limits, command) as process:
            while True:
                with lock:
                    following = next(waiting, None)
                if following is None:
                    return
                number, table = following
                answers[number] = process.ask(table)
                with lock:
                    told(table)

    threads = [threading.Thread(target=work, daemon=True) for _ in range(min(limits.at_once, len(tables)))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [answers[number] for number in range(len(tables))]


class _Process:
    """One process, started when it is first needed, and again after it has ended. For one thread, which must live as
    long.
    """

    def __init__(self, stores: Sequence[StoreSettings], limits: SurveyLimits, command: Sequence[str]) -> None:
        self._stores, self._limits, self._command = stores, limits, command
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> _Process:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def ask(self, table: Table) -> SurveyAnswer:
        """Return the answer about a table."""
        try:
            process = self._started()
            _write(process, pickle.dumps(table))
        except OSError as error:
            self._end()
            return SurveyAnswer(unread=f"no process can be started that reads it: {error}")
        line = self._line(process, self._limits.seconds)
        if line is None:
            how = self._end()
            return SurveyAnswer(unread=how)
        try:
            answer = ANSWER.validate_json(line)
        except ValidationError:
            self._end()
            return SurveyAnswer(unread="the process that read it gave no answer that can be understood")
        if answer.ends:
            self._end()
        return answer

    def _line(self, process: subprocess.Popen[bytes], seconds: float) -> bytes | None:
        """Return the next line of the process. None if it has ended, or takes too long."""
        if process.stdout is None:
            return None
        until, found = time.monotonic() + seconds, bytearray()
        while not found.endswith(b"\n"):
            left = until - time.monotonic()
            ready, _, _ = select.select([process.stdout], [], [], max(0.0, left))
            chunk = os.read(process.stdout.fileno(), _CHUNK) if ready else b""
            if not chunk or len(found) > _LARGEST_ANSWER:
                return None
            found += chunk
        return bytes(found)

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            self._end()
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            hello = SurveyHello(stores=self._stores, memory=self._limits.memory, parent=os.getpid())
            _write(self._process, pickle.dumps(hello))
            if self._line(self._process, _SECONDS_TO_START) is None:
                raise OSError("it does not start")
        return self._process

    def _end(self) -> str:
        """End the process. Return in words why it had to be ended, or how it ended by itself."""
        process, self._process = self._process, None
        if process is None:
            return ""
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=0.05)
        code = process.poll()
        process.kill()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=5)
        if code is None:
            return f"it was not read within {self._limits.seconds:g} s"
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        return f"reading it ended the process that read it ({how})"


def _write(process: subprocess.Popen[bytes], message: bytes) -> None:
    if process.stdin is not None:
        process.stdin.write(message)
        process.stdin.flush()
