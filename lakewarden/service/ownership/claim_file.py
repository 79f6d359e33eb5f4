"""One claim of a table, as it lies beside the table in a file, and how often it is renewed."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

FORM = 1
"""The form of the file. Of another one only its silence can be judged."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Cadence:
    """How often claims are looked after, and how long each of them stands without being renewed.

    `idle` and `busy` are for a table without and with a run of ours under way. A run whose table's claim was not
    renewed for `give_up` is cancelled; its workers are killed after `kill`, well before a `busy_silence` is over.
    """

    busy: timedelta = timedelta(seconds=10)
    busy_silence: timedelta = timedelta(seconds=120)
    idle: timedelta = timedelta(minutes=5)
    idle_silence: timedelta = timedelta(minutes=20)
    foreign: timedelta = timedelta(seconds=10)
    give_up: timedelta = timedelta(seconds=30)
    kill: timedelta = timedelta(seconds=80)


@dataclass(frozen=True, kw_only=True, slots=True)
class Claim:
    """Who acts on a table. `holder` is what its store is, `life` one life of one daemon; the rest of who is for people.

    The counter rises with every renewal. Nobody else may take it over before having seen it unchanged for
    `silent_after`. `executors` are the JVMs (`ProcessIdentity.to_text`) that carried out runs when it was renewed.
    """

    holder: str
    life: str
    host: str
    pid: int
    since: datetime
    counter: int
    silent_after: timedelta
    executors: tuple[str, ...] = ()

    def to_bytes(self) -> bytes:
        """Return the file's content."""
        content = {
            "lakewarden": FORM,
            "holder": self.holder,
            "life": self.life,
            "host": self.host,
            "pid": self.pid,
            "since": self.since.isoformat(),
            "counter": self.counter,
            "silent_after_seconds": self.silent_after.total_seconds(),
            "executors": self.executors,
        }
        return json.dumps(content, indent=1).encode()

    @classmethod
    def of(cls, content: bytes) -> Claim | None:
        """Return what `to_bytes` wrote; None for anything else."""
        try:
            found: dict[str, Any] = json.loads(content)
            if found["lakewarden"] != FORM:
                return None
            return cls(
                holder=str(found["holder"]),
                life=str(found["life"]),
                host=str(found["host"]),
                pid=int(found["pid"]),
                since=datetime.fromisoformat(found["since"]),
                counter=int(found["counter"]),
                silent_after=_duration(found["silent_after_seconds"]),
                executors=tuple(map(str, found["executors"])),
            )
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
            return None

    @property
    def who(self) -> str:
        """Return who has it, for people."""
        return f"the daemon with pid {self.pid} on {self.host}, since {self.since:%Y-%m-%d %H:%M:%S} UTC"


def _duration(seconds: float) -> timedelta:
    if not math.isfinite(seconds) or seconds < 0:
        raise ValueError(f"{seconds} is no duration")
    return timedelta(seconds=seconds)
