"""The content of one claim file beside a table, and how often a claim is renewed."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

FORM = 1
"""The version of the format of the file. If a file has another version, only the time without a change can be
judged.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Cadence:
    """How often claims are renewed and checked, and how long each claim is valid without a renewal.

    `idle` and `busy` are for a table without and with an active run of ours. `foreign` is the interval between two
    checks of a claim of another daemon. If the claim of a table was not renewed for `give_up`, its runs are cancelled.
    After `kill` its workers are killed, well before the end of `busy_silence`.
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
    """The daemon that acts on a table. `holder` identifies its store, and `life` one life of one daemon.

    `host`, `pid` and `since` are for people. The counter rises with every renewal. Another daemon may take the claim
    over only after it has seen the claim unchanged for `silent_after`. `executors` are the JVMs
    (`ProcessIdentity.to_text`) that carried out runs at the last renewal.
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
        """Return the content of the file."""
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
        """Return the claim in `content`, as `to_bytes` writes it, or None for any other content."""
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
        """Return the daemon that has the claim, in words."""
        return f"the daemon with pid {self.pid} on {self.host}, since {self.since:%Y-%m-%d %H:%M:%S} UTC"


def _duration(seconds: float) -> timedelta:
    if not math.isfinite(seconds) or seconds < 0:
        raise ValueError(f"{seconds} is no duration")
    return timedelta(seconds=seconds)
