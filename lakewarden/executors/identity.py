"""The identity of a process. With it another process on the same machine can prove later that the process is dead."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_PROC = Path("/proc")
_NAMESPACE = Path("/proc/self/ns/pid")


@dataclass(frozen=True, kw_only=True, slots=True)
class ProcessIdentity:
    """One process. A process id has a meaning only in one namespace (a container has its own) of one boot of one
    machine.

    Ids are used again, so the start time belongs to the identity. It is in clock ticks since the boot. A time of day
    would be computed from the wall clock, and after a jump of that clock a living process would look like another one.
    """

    boot: str
    namespace: str
    pid: int
    started: int

    @classmethod
    def of(cls, pid: int) -> ProcessIdentity | None:
        """Return the identity of process `pid`. None if there is no such process, or the system does not tell."""
        try:
            where, state = _here(), _state(pid)
        except OSError:
            return None
        if where is None or state is None:
            return None
        return cls(boot=where[0], namespace=where[1], pid=pid, started=state.started)

    def is_proved_dead(self) -> bool:
        """Whether the process certainly does not run any more. False also if that cannot be known: the process is on
        another machine, or in a container with invisible processes.
        """
        if _here() != (self.boot, self.namespace):
            return False
        try:
            state = _state(self.pid)
        except OSError:
            return False
        return state is None or state.dead or state.started != self.started

    def to_text(self) -> str:
        """Return it as one line of JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_text(cls, text: str) -> ProcessIdentity:
        """Return what `to_text` wrote. Raises ValueError for anything else."""
        try:
            return cls(**json.loads(text))
        except TypeError as error:
            raise ValueError(f"{text!r} is not a process identity") from error


def _here() -> tuple[str, str] | None:
    try:
        return _BOOT.read_text().strip(), str(_NAMESPACE.readlink())
    except OSError:
        return None


class _State(NamedTuple):
    started: int
    dead: bool


def _state(pid: int) -> _State | None:
    """Return what /proc/<pid>/stat says (proc(5): the name in parentheses may contain anything). None if there is no
    such process.

    A zombie does not run any more, even if its parent never reaps it. But a process is also a zombie if only its first
    thread has ended while others continue. Raises OSError if the process exists and /proc does not show it.
    """
    try:
        fields = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        _require_absent(pid)
        return None
    state, threads, started = fields[0], int(fields[17]), int(fields[19])
    return _State(started=started, dead=state in ("Z", "X") and threads <= 1)


def _require_absent(pid: int) -> None:
    """Raise OSError if there is a process `pid` after all. /proc may be mounted with `hidepid`."""
    try:
        os.kill(pid, 0)  # sends no signal
    except ProcessLookupError:
        return
    raise OSError(f"/proc does not show process {pid}")
