"""What the daemon and a session worker say to each other: one JSON object per line over a socket pair, both ways.

    daemon ── Begin ─────────────────────────────► worker     the profile; the worker brings its JVM up
           ◄─ Ready ─ Beat ─ Beat ─ ... ───────────           and proves that it answers
           ── Assignment ─ Answer ─ Cancel ─ LiveUntil ─ Stop ──►
           ◄─ Started ─ Asked ─ Ended ──────────────

Standard output is no channel: the JVM prints there.
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
    Started,
    Step,
    Succeeded,
    Yielded,
)
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.model.instant import RunId


@dataclass(frozen=True, kw_only=True, slots=True)
class Begin:
    """The first frame, as JSON: the profile the worker is to obey, and how it reaches the stores of its tables.

    Secrets are no part of it: the worker looks for them where the settings say.
    """

    profile: Mapping[str, Any]
    storage: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """The permit for the step a run asked for."""

    run: RunId
    step: Step
    permit: Granted | Refused


@dataclass(frozen=True, kw_only=True, slots=True)
class Cancel:
    """Stop this run, leaving the table as it is."""

    run: RunId
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class LiveUntil:
    """Kill the JVM and exit at this moment, in seconds of the machine's monotonic clock (the same in all its
    processes), unless a later moment is said before: the daemon's right to act on its tables ends then.
    """

    moment: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Stop:
    """End in good order: sent to a worker without runs."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Ready:
    """The session is up. `versions` are for people: Spark, Java, the bundles on the class path. In `file_names` the JVM
    reads and writes the names of files: an encoding.
    """

    jvm_pid: int
    slots: int
    zone: str
    file_names: str
    versions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Beat:
    """The JVM has just answered a question; `rss_bytes` is its resident memory. Of the runs that `advanced` Spark tasks
    have ended since the last beat.
    """

    rss_bytes: int
    advanced: tuple[RunId, ...] = ()


FromDaemon = Begin | Assignment | Answer | Cancel | LiveUntil | Stop
FromWorker = Ready | Beat | Started | Asked | Ended
Frame = FromDaemon | FromWorker

_FRAMES: Mapping[str, TypeAdapter[Frame]] = {
    kind.__name__: TypeAdapter(kind)
    for kind in (Begin, Assignment, Answer, Cancel, LiveUntil, Stop, Ready, Beat, Started, Asked, Ended)
}
_CHOICES: Mapping[str, Mapping[str, TypeAdapter[Any]]] = {
    field_name: {kind.__name__: TypeAdapter(kind) for kind in kinds}
    for field_name, kinds in {
        "permit": (Granted, Refused),
        "outcome": (Succeeded, NothingToDo, Yielded, Failed),
    }.items()
}


class ProtocolError(PermanentError):
    """The other side said something that is not in the protocol: the two are not of one version."""


def encode(frame: Frame) -> bytes:
    """Return `frame` as one line. A field that may hold one of several types names the one it holds."""
    kind = type(frame).__name__
    body: dict[str, Any] = _FRAMES[kind].dump_python(frame, mode="json")
    for name in _CHOICES.keys() & body.keys():
        body[name] = {type(getattr(frame, name)).__name__: body[name]}
    return json.dumps({kind: body}, separators=(",", ":")).encode() + b"\n"


def decode(line: bytes) -> Frame:
    """Return the frame that `line` holds. Raises ProtocolError, quoting the start of what it cannot read."""
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
    """One end of the socket pair. Any thread may send; one thread receives."""

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
        """Yield what the other side says until it is gone. Raises ProtocolError."""
        try:
            for line in self._lines:
                if not line.endswith(b"\n"):
                    return  # the other side died in mid-sentence
                yield decode(line)
        except OSError:
            return

    def close(self) -> None:
        """Close this end; the other side sees it."""
        self._socket.close()
        self._lines.close()
