"""Records when each JVM of a worker dies, for a killed process cannot record it itself."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass
from pathlib import Path

import psutil

from lakewarden.planners.model.clock import SystemClock
from tests.support.doubles.witness import Witness

_EVERY_SECONDS = 0.05


@dataclass(kw_only=True, slots=True)
class _Life:
    jvm: int
    process: psutil.Process | None
    alive_at: float


class Deaths:
    """A thread that watches every JVM that a worker has reported. It records in the witness file when the JVM was last
    seen alive.
    """

    def __init__(self, witness: Path) -> None:
        self._file = witness
        self._witness = Witness(file=witness)
        self._clock = SystemClock()
        self._read = 0
        self._living: list[_Life] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="deaths", daemon=True)

    def __enter__(self) -> Deaths:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    @property
    def watching(self) -> bool:
        """Whether the thread still watches. If it has failed, the proof is worthless."""
        return self._thread.is_alive()

    def _watch(self) -> None:
        over = False
        while not over:
            over = self._over.wait(_EVERY_SECONDS)  # and look once more after the end
            self._living += self._born()
            self._living = [life for life in self._living if not self._is_over(life)]

    def _born(self) -> list[_Life]:
        born: list[_Life] = []
        if not self._file.exists():
            return born
        with self._file.open("rb") as file:
            file.seek(self._read)
            new = file.read()
        whole = new[: new.rfind(b"\n") + 1]
        self._read += len(whole)
        for line in whole.splitlines():
            told = json.loads(line)
            if told["what"] == "session":
                born.append(_Life(jvm=told["jvm"], process=_process(told["jvm"]), alive_at=told["at"]))
        return born

    def _is_over(self, life: _Life) -> bool:
        before = self._clock.monotonic()
        if life.process is not None and _runs(life.process):
            life.alive_at = before
            return False
        self._witness.tell("dead", jvm=life.jvm, alive_at=life.alive_at)
        return True


def _process(pid: int) -> psutil.Process | None:
    try:
        return psutil.Process(pid)
    except psutil.NoSuchProcess:
        return None


def _runs(process: psutil.Process) -> bool:
    """Whether the process lives. A zombie does not live, whether or not its parent reaps it."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
