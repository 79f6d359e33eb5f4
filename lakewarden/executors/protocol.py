"""The protocol between the daemon and a session worker: one JSON object per line, over a socket pair, both ways.

    daemon ── Begin ─────────────────────────────► worker     the profile; the worker starts its JVM
           ◄─ Ready ─ Beat ─ Beat ─ ... ───────────           and proves that it answers
           ── Assignment ─ Answer ─ Cancel ─ LiveUntil ─ Stop ──►
           ◄─ Started ─ Asked ─ Ended ──────────────

Standard output is not used for it, because the JVM prints there.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import TypeAdapter, ValidationError

from lakewarden.executors.contract import (
    Asked,
    Assignment,
    Ended,
    Failed,
    Granted,
    NothingToDo,
    Refused,
    RunProgress,
    Started,
    Succeeded,
    Yielded,
)
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.model.instant import RunId, Step


@dataclass(frozen=True, kw_only=True, slots=True)
class Begin:
    """The first frame. As JSON it has the worker's profile, the settings of its tables' stores, and words for further
    jars that its tables need.

    It contains no secrets. The worker reads them where the settings say.
    """

    profile: Mapping[str, Any]
    storage: tuple[Mapping[str, Any], ...] = ()
    needs: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class PermitAnswer:
    """The permit for the step that a run asked for."""

    run: RunId
    step: Step
    permit: Granted | Refused


@dataclass(frozen=True, kw_only=True, slots=True)
class Cancel:
    """Stop this run, and leave the table as it is."""

    run: RunId
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class LiveUntil:
    """Kill the JVM and exit at this moment, unless a later moment is sent before. The daemon's right to act on its
    tables ends then. The moment is in seconds of the machine's monotonic clock, which is the same in all its processes.
    """

    moment: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Stop:
    """End without haste. It is sent only to a worker without runs."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Ready:
    """The session is up. `versions` are for people: Spark, Java, the bundles on the class path. `file_names` is the
    encoding in which the JVM reads and writes the names of files.
    """

    jvm_pid: int
    slots: int
    zone: str
    file_names: str
    versions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Beat:
    """The JVM has just answered. `rss_bytes` is its resident memory. `advanced` are the runs with Spark tasks that have
    ended since the last beat. `progress` says what each run does.
    """

    rss_bytes: int
    advanced: tuple[RunId, ...] = ()
    progress: tuple[RunProgress, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Unable:
    """The worker can work no more, and is going to end: its cluster gives it no executors, or has ended its
    application. It is the last that it says of itself. `no_run_is_to_blame`: none of its runs can have caused it.
    """

    reason: str
    no_run_is_to_blame: bool


FromDaemon = Begin | Assignment | PermitAnswer | Cancel | LiveUntil | Stop
FromWorker = Ready | Beat | Unable | Started | Asked | Ended
Frame = FromDaemon | FromWorker

_FRAMES: Mapping[str, TypeAdapter[Frame]] = {
    kind.__name__: TypeAdapter(kind)
    for kind in (Begin, Assignment, PermitAnswer, Cancel, LiveUntil, Stop, Ready, Beat, Unable, Started, Asked, Ended)
}
_CHOICES: Mapping[str, Mapping[str, TypeAdapter[Any]]] = {
    field_name: {kind.__name__: TypeAdapter(kind) for kind in kinds}
    for field_name, kinds in {
        "permit": (Granted, Refused),
        "outcome": (Succeeded, NothingToDo, Yielded, Failed),
    }.items()
}


class ProtocolError(PermanentError):
    """The other side sent something that is not in the protocol. The two sides have different versions."""


def encode(frame: Frame) -> bytes:
    """Return `frame` as one line. If a field may hold one of several types, its type is named."""
    kind = type(frame).__name__
    body: dict[str, Any] = _FRAMES[kind].dump_python(frame, mode="json")
    for name in _CHOICES.keys() & body.keys():
        body[name] = {type(getattr(frame, name)).__name__: body[name]}
    return json.dumps({kind: body}, separators=(",", ":")).encode() + b"\n"


def decode(line: bytes) -> Frame:
    """Return the frame in `line`. Raises ProtocolError that quotes the start of the line."""
    try:
        kind, body = _only(json.loads(line))
        for name in _CHOICES.keys() & body.keys():
            chosen, content = _only(body[name])
            body[name] = _CHOICES[name][chosen].validate_python(content)
        return _FRAMES[kind].validate_python(body)
    except (ValueError, KeyError, TypeError, AttributeError, ValidationError) as broken:
        start = line[:120].decode(errors="replace").rstrip()
        raise ProtocolError(f"not a frame of this protocol: {start!r} ({type(broken).__name__})") from broken


def _only(value: dict[str, Any]) -> tuple[str, Any]:
    [(kind, body)] = value.items()
    return kind, body


class Channel:
    """One end of the socket pair. Any thread may send. One thread receives."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end
        self._lines = end.makefile("rb")
        self._sending = threading.Lock()

    def send(self, frame: Frame) -> None:
        """Send one frame. Raises OSError if the other side is gone."""
        line = encode(frame)
        with self._sending:
            self._socket.sendall(line)

    def received(self) -> Iterator[Frame]:
        """Yield the frames of the other side until it is gone. Raises ProtocolError."""
        try:
            for line in self._lines:
                if not line.endswith(b"\n"):
                    return  # the other side died in the middle of a frame
                yield decode(line)
        except OSError:
            return

    def close(self) -> None:
        """Close this end. The other side notices it."""
        self._socket.close()
        self._lines.close()
