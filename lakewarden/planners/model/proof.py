"""What has to be proved before Lakewarden acts on a table, and how far it is."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Check(StrEnum):
    """What is checked of a table."""

    TABLE = "table"
    LOCK = "lock"
    HEARTBEATS = "heartbeats"
    HOOK = "hook"
    ALONE = "alone"
    READERS = "readers"
    RETENTION = "retention"
    ZONE = "zone"
    CLOCK = "clock"
    WORKERS = "workers"


class ProofResult(StrEnum):
    """The result of a check. A check that is not proved becomes ok by itself, if everything is as it should be."""

    OK = "ok"
    NOT_PROVED = "not proved"
    WRONG = "wrong"


@dataclass(frozen=True, kw_only=True, slots=True)
class Proof:
    """The result of one check of a table: what was found, and what to do about it if it is not ok."""

    check: Check
    result: ProofResult
    found: str
    cure: str | None = None

    @property
    def is_ok(self) -> bool:
        """Whether nothing has to be done."""
        return self.result is ProofResult.OK
